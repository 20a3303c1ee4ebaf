"""What subscriptions cost, measured: real ones with real publications, and what becomes of the figures as they come and
go. Times are those of a made-up timer where they matter.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import chain, count

import numpy as np
import pytest

import tidegate as tg
from tests.parts.cost_world import CLOCK, loaded, publications
from tidegate.broker.cost_measure import CostMeasure, MeasureSettings
from tidegate.broker.cost_sample import newest
from tidegate.index import Index
from tidegate.language import DEFAULT_LIMITS
from tidegate.store.costs import Cost, Costs, PrincipalCost
from tidegate.store.log_reader import LogReader
from tidegate.store.log_rows import LogRows
from tidegate.subscriptions import compile_subscription


def all_of(meter):
    """Measure until there is nothing to measure; how many groups there were."""
    for groups in count():
        if meter.step():
            return groups
        assert groups < 1000
    return None


def sinces(meter):
    return sorted(meter.costs.known().tolist())


def test_the_dear_ones_among_many_come_first(tmp_path):
    with loaded(tmp_path) as world, world.meter() as meter:
        rng = np.random.default_rng(7)
        world.registry.subscribe(
            [
                tg.Subscription(f"s{n}", "ann", f"a{n % 9} > {rng.integers(50, 99)} AND b < {rng.integers(1, 9)}")
                for n in range(5_000)
            ]
        )
        world.registry.subscribe(
            [
                tg.Subscription("pattern", "bob", "together('PT30S', 20000, a1 > 40, a2 > 50, a3 > 50)"),
                tg.Subscription("text", "cy", "text LIKE '%_%_%'"),
            ]
        )
        all_of(meter)
        first, second, *others = meter.costs.dearest(20)
        assert {(one.principal, one.id) for one in (first, second)} == {("bob", "pattern"), ("cy", "text")}
        assert second.microseconds > 10 * others[0].microseconds
        assert len(sinces(meter)) == 5_002
        by_name = {one.principal: one for one in meter.costs.dearest_principals(9)}
        assert by_name["ann"].subscriptions == 5_000
        assert {by_name["bob"].microseconds, by_name["cy"].microseconds} == {first.microseconds, second.microseconds}


def test_figures_follow_the_registry(tmp_path):
    with loaded(tmp_path) as world, world.meter() as meter:
        world.registry.subscribe([tg.Subscription(f"s{n}", "ann", f"a1 > {n}") for n in range(5)])
        assert all_of(meter) == 1
        assert sinces(meter) == [1, 2, 3, 4, 5]
        world.registry.unsubscribe("ann/s1", "ann/s3")
        world.registry.subscribe(tg.Subscription("s9", "bob", "a1 > 9"))
        assert all_of(meter) == 1
        assert sinces(meter) == [1, 3, 5, world.registry.stored("bob/s9").since]
        with world.meter() as again:  # another process: nothing is measured twice
            assert all_of(again) == 0
        world.registry.unsubscribe("ann/s0")
        with world.meter() as again:
            all_of(again)
            assert 1 not in sinces(again)


def test_a_subscription_that_ends_while_it_is_measured_leaves_nothing(tmp_path):
    with loaded(tmp_path) as world:
        world.registry.subscribe([tg.Subscription("s", "ann", "a1 > 1"), tg.Subscription("t", "ann", "a1 > 1")])
        ended = []

        def pause():
            if not ended:
                ended.append(world.registry.unsubscribe("ann/s"))

        with world.meter(pause=pause) as meter:
            all_of(meter)
            assert ended
            assert sinces(meter) == [2]


def test_old_figures_are_renewed(tmp_path):
    with loaded(tmp_path) as world:
        world.registry.subscribe([tg.Subscription(f"s{n}", "ann", "a1 > 1") for n in range(3)])
        moment = CLOCK
        with world.meter(clock=lambda: moment) as meter:
            assert all_of(meter) == 1
            moment += 3_599_000_000
            assert all_of(meter) == 0
            moment += 2_000_000
            assert all_of(meter) == 1
            assert {meter.costs.of(n).measured_at for n in (1, 2, 3)} == {moment}


def test_what_was_deleted_unseen_is_forgotten_when_its_turn_comes(tmp_path):
    with loaded(tmp_path) as world:
        world.registry.subscribe([tg.Subscription(f"s{n}", "ann", "a1 > 1") for n in range(3)])
        moment = CLOCK
        with world.meter(clock=lambda: moment) as meter:
            all_of(meter)
            world.registry.unsubscribe("ann/s1")
            assert world.registry.prune() == 1
            moment += 3_601_000_000
            all_of(meter)
            assert sinces(meter) == [1, 3]


def test_a_log_without_publications_tells_nothing(tmp_path):
    with loaded(tmp_path, rows=0) as world, world.meter() as meter:
        world.registry.subscribe(tg.Subscription("s", "ann", "a1 > 1"))
        assert all_of(meter) == 0
        world.log.append(publications(99))
        assert all_of(meter) == 0
        world.log.append(publications(101)[99:])
        assert all_of(meter) == 1
        assert sinces(meter) == [1]


def test_what_was_measured_as_it_was_put_is_measured_again(tmp_path):
    with loaded(tmp_path) as world, world.meter() as meter:
        world.registry.subscribe(tg.Subscription("s", "ann", "a1 > 1"))
        meter.costs.note([Cost(1, "ann", "s", 700.0, CLOCK, True)])
        assert all_of(meter) == 1
        found = meter.costs.of(1)
        assert (found.is_quick, found.microseconds < 100) == (False, True)


def test_expressions_with_shapes_and_terms_of_the_file(tmp_path):
    (tmp_path / "terms.ttl").write_text(
        "@prefix e: <http://e.org/> . @prefix s: <http://www.w3.org/2000/01/rdf-schema#> . e:oak s:subClassOf e:tree ."
    )
    (tmp_path / "own.toml").write_text("[shapes.lump]\npoints = [0, 0, 1, 3, 1, 0, 0, 0]\n")
    text = '[shapes]\nfile = "own.toml"\n[ontology]\nfiles = ["terms.ttl"]\n[ontology.prefixes]\ne = "http://e.org/"\n'
    with loaded(tmp_path, text=text) as world, world.config.shapes.used(), world.config.ontology.used():
        world.registry.subscribe(
            [
                tg.Subscription("shape", "ann", "shape(series, 'lump') < 0.5"),
                tg.Subscription("term", "ann", "isA(kind, 'e:tree')"),
            ]
        )
        with world.meter() as meter:
            all_of(meter)
            assert sinces(meter) == [1, 2]


def test_what_cannot_be_measured_keeps_no_other_from_it(tmp_path, monkeypatch):
    with loaded(tmp_path) as world, world.meter() as meter:
        world.registry.subscribe(tg.Subscription("s", "ann", "a1 > 1"))
        monkeypatch.setattr(CostMeasure, "microseconds", lambda *_: 1 / 0)
        assert all_of(meter) == 1
        monkeypatch.undo()
        world.registry.subscribe(tg.Subscription("t", "ann", "a1 > 1"))
        assert all_of(meter) == 1
        assert sinces(meter) == [2]


def test_one_that_cannot_be_measured_keeps_its_group_from_nothing(tmp_path, monkeypatch):
    def taken(_, some):
        return 1.0 / all("a7" not in str(one.clauses) for one in some)

    with loaded(tmp_path) as world, world.meter() as meter:
        world.registry.subscribe([tg.Subscription(f"s{n}", "ann", f"a{n} > 1") for n in range(9)])
        meter.costs.note([Cost(3, "ann", "s2", 700.0, 1)])
        monkeypatch.setattr(CostMeasure, "microseconds", taken)
        assert all_of(meter) == 1
        assert sinces(meter) == [1, 2, 3, 4, 5, 6, 7, 9]


# --- one measurement --------------------------------------------------------------------------------------------------


class Timer:
    """A timer of which each look is a second after the one before."""

    def __init__(self):
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return float(self.looks)


def sample_of(world):
    with LogReader(world.data.log) as log, LogRows(world.data.log) as rows:
        return newest(log, rows, 2_000)


def test_a_dear_one_is_measured_with_few_publications(tmp_path, monkeypatch):
    """Where matching a few publications takes longer than a measurement may, no more are matched."""
    compiled = [compile_subscription(tg.Subscription("s", "ann", "a1 > 1"), DEFAULT_LIMITS)]
    with loaded(tmp_path) as world:
        sample, matched, match = sample_of(world), [], Index.match
        monkeypatch.setattr(Index, "match", lambda self, batch: matched.append(batch.length) or match(self, batch))
        CostMeasure(sample, MeasureSettings(seconds=0.5), Timer()).microseconds(compiled)
        assert matched == 4 * [16]  # twice, and twice what never matches
        matched.clear()
        CostMeasure(sample, MeasureSettings(seconds=4.0), Timer()).microseconds(compiled)
        assert set(matched) == {16, 64}  # a second for 16: four times as many at most
        matched.clear()
        CostMeasure(sample, MeasureSettings(seconds=1e9), Timer()).microseconds(compiled)
        assert set(matched) == {16, 134}


def test_patterns_remember_before_they_are_measured(tmp_path):
    """With the same timer a pattern takes more looks, since it sees the first three quarters."""
    with loaded(tmp_path) as world:
        looks = []
        for where in ("a1 > 1", "topk(3, 'PT1M', a1)"):
            timer = Timer()
            compiled = [compile_subscription(tg.Subscription("s", "ann", where), DEFAULT_LIMITS)]
            CostMeasure(sample_of(world), MeasureSettings(seconds=1e9), timer).microseconds(compiled)
            looks.append(timer.looks)
        assert looks[1] > looks[0]


def test_a_sample_has_the_newest_rows_of_all_columns_in_order(tmp_path):
    with loaded(tmp_path, rows=0) as world:
        for n in range(150):
            value = {"n": n} if n % 3 == 0 else {"n": n + 0.5, "x": "a"} if n % 3 == 1 else {"n": "text"}
            world.log.append(
                tg.Publication(f"p{n}", "z", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n), value)
            )
        with LogReader(world.data.log) as log, LogRows(world.data.log) as rows:
            found = newest(log, rows, 100)
        assert len(found) == 100
        ids = [table.column("id").to_pylist() for table in found.tables]
        assert sorted(chain.from_iterable(ids)) == sorted(f"p{n}" for n in range(50, 150))
        assert all(some == sorted(some, key=lambda id: int(id[1:])) for some in ids)
        assert len(ids) == 2  # whole numbers and others go together, texts do not
        before, after = found.split(30)
        assert sum(table.num_rows for table in before) == 30
        assert sum(table.num_rows for table in after) == 70


# --- the file ---------------------------------------------------------------------------------------------------------


def test_figures_are_kept_replaced_and_taken_off_exactly(tmp_path):
    costs = Costs(tmp_path / "costs.db")
    assert (costs.of(1), costs.dearest(3), costs.dearest_principals(3)) == (None, [], [])
    costs.note([Cost(n, "ann" if n % 2 else "bob", f"s{n}", n / 10, CLOCK) for n in range(1, 8)])
    costs.note([Cost(7, "ann", "s7", 0.1, CLOCK + 1)])
    costs.remove([1, 2, 99])
    assert [one.since for one in costs.dearest(2)] == [6, 5]
    assert costs.of(7) == Cost(7, "ann", "s7", 0.1, CLOCK + 1)
    assert costs.oldest(9, CLOCK + 1) == [3, 4, 5, 6]
    found = {one.principal: (one.microseconds, one.subscriptions) for one in costs.dearest_principals(3)}
    assert found == {"ann": (0.9, 3), "bob": (1.0, 2)}
    costs.note([Cost(3, "ann", "s3", 9.0, CLOCK + 9, True), Cost(9, "ann", "s9", 9.0, CLOCK, True)])
    costs.note([Cost(9, "ann", "s9", 8.0, CLOCK, True)])
    assert (costs.of(3).microseconds, costs.of(9).microseconds) == (0.3, 8.0)  # a quick one replaces quick ones only
    assert costs.dearest_principals(1) == [PrincipalCost("ann", 8.9, 4)]
    costs.remove([4, 6, 9])
    assert [one.principal for one in costs.dearest_principals(3)] == ["ann"]


@pytest.mark.parametrize("damage", ["garbage", "cut", "other format", "flipped"])
def test_a_file_that_cannot_be_used_is_made_anew(tmp_path, damage):
    file = tmp_path / "costs.db"
    costs = Costs(file)
    costs.note([Cost(n, "ann", f"s{n}", 1.0, CLOCK) for n in range(2_000)])
    whole = file.read_bytes()
    if damage == "garbage":
        file.write_bytes(b"not a database" * 100)
    elif damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":
        file.write_bytes(whole[:4096] + bytes(255 - byte for byte in whole[4096:]))
    else:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA user_version = 99")
    costs.dearest(3)  # whatever is there to be seen, nothing breaks
    costs.note([Cost(5_000, "bob", "t", 2.0, CLOCK)])
    assert costs.of(5_000) == Cost(5_000, "bob", "t", 2.0, CLOCK)
    assert [one.since for one in costs.dearest(1)] == [5_000]
