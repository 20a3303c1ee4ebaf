"""What a publication, an event and a notification are known by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.oracle_identity import PHASES, list_hash, notification_id, publication_hash
from tests.parts.profiles import examples
from tidegate.model import micros
from tidegate.testing import as_table

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
#: Few, and such that pieces of one fit to another, so that they would be the same if they were only strung together.
NAMES = st.sampled_from(["a", "b", "ab", "a\0b", "b\0START", "é", "START"])
ALL = tg.Subscription("all", "ann", "TRUE")
STORMS = tg.Subscription("storms", "ann", "T_DURING(start, past(kind = 'storm'))")


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


def part(source: str, id: str, phase: str, second: float, kind: str = "storm") -> tg.Publication:
    return tg.Publication(id, source, at(second), {"kind": kind}, phase=phase)


publications = st.builds(
    tg.Publication, NAMES, NAMES, st.integers(0, 2).map(at), phase=st.sampled_from(PHASES), attributes=st.just({"n": 1})
)


@examples(60)
@given(st.lists(publications, min_size=1, max_size=20))
def test_ids_are_what_the_documentation_says(batch):
    wanted = sorted((p.time, notification_id("all", publication_hash(p), micros(p.time))) for p in batch)
    engine = tg.Engine([ALL])
    assert sorted((n.time, n.id) for n in engine.publish(batch)) == wanted
    assert sorted((n.time, n.id) for p in batch for n in engine.publish([p])) == wanted
    told = engine.publish(as_table(batch))
    assert sorted(zip(told["time"].to_pylist(), told["notification_id"].to_pylist(), strict=True)) == wanted
    assert len({id for _, id in wanted}) == len({(p.source, p.id, p.phase, p.time) for p in batch})


@examples(30)
@given(st.lists(publications, min_size=1, max_size=8))
def test_ids_of_patterns_are_what_the_documentation_says(batch):
    engine = tg.Engine([tg.Subscription("best", "ann", "topk(100, 'PT1H', n)")])
    ids = sorted(n.id for p in sorted(batch, key=lambda p: p.time) for n in engine.publish([p]))
    assert ids == sorted(notification_id("best", list_hash([p]), micros(p.time)) for p in batch)


def test_two_sources_that_count_alike_are_told_apart():
    batch = [tg.Publication("1", source, NOW, {"n": 1}) for source in "ab"]
    for where in ("n = 1", "topk(2, 'PT1H', n)"):
        told = tg.Engine([tg.Subscription("s", "ann", where)]).publish(batch)
        assert len({n.id for n in told}) == len(told) == 2
        grouped = tg.Engine([tg.Subscription("s", "ann", where)]).publish(batch, grouped=True)
        assert grouped["publication_id"].to_pylist() == ["1", "1"]


def test_a_source_ends_only_its_own_event():
    engine = tg.Engine([STORMS])
    engine.publish([part("a", "1", "START", 0), part("b", "1", "START", 1)])
    engine.publish([part("c", "1", "END", 2), part("b", "1", "END", 3)])
    assert engine.refused == {"end without start": 1}
    assert [n.publications for n in engine.publish([part("z", "late", "INSTANT", 9, "rain")])] == [("late",)]
    engine.publish([part("a", "1", "END", 10)])
    assert engine.publish([part("z", "later", "INSTANT", 11, "rain")]) == []


def test_what_comes_twice_in_one_batch_is_matched_twice():
    """As it is in two batches: others are not concerned."""
    batch = [tg.Publication(id, "a", NOW, {"n": 1}) for id in ("p", "q", "p")]
    told = tg.Engine([ALL]).publish(batch)
    assert sorted(n.publications for n in told) == [("p",), ("p",), ("q",)]
    assert len({n.id for n in told}) == 2
    assert sorted(tg.Engine([ALL]).publish(as_table(batch))["notification_id"].to_pylist()) == sorted(
        n.id for n in told
    )
    engine = tg.Engine([STORMS])
    engine.publish([part("a", "1", "START", 0), part("a", "1", "START", 0), part("a", "2", "START", 0)])
    assert engine.refused == {"second start": 1}
    engine.publish([part("a", "2", "END", 1), part("a", "2", "END", 1), part("a", "1", "END", 1)])
    assert engine.refused == {"second start": 1, "end without start": 1}


def test_what_comes_twice_is_remembered_as_it_came(tmp_path):
    """Of two publications that differ in nothing but their attributes, the one that began an event is written down."""
    asks = tg.Subscription("s", "ann", "T_AFTER(start, past(kind = 'storm'))")
    other = tg.Subscription("o", "ann", "absent('PT1H', kind = 'calm')")
    batch = [
        tg.Publication("p", "a", NOW, {"kind": "calm", "n": 0}),
        tg.Publication("p", "a", NOW, {"kind": "storm", "n": 1}),
        tg.Publication("p", "a", NOW, {"kind": "storm", "n": 2}),
        tg.Publication("p", "b", NOW, {"kind": "storm", "n": 3}),
        tg.Publication("p", "a", at(-5), {"kind": "storm", "n": 4}),
    ]
    kept = []
    for publish in (list, as_table):
        with (
            tg.History(tmp_path / f"{publish.__name__}.db") as history,
            tg.Engine([asks, other], history=history) as engine,
        ):
            engine.publish([tg.Publication("first", "a", at(-1), {"kind": "calm"})])
            engine.publish(publish(batch))
            kept.append([(one.source, one.body) for one in history.events()])
    assert kept[0] == kept[1]
    bodies = sorted((source, orjson.loads(body)["attributes"]["n"]) for source, body in kept[0])
    assert bodies == [("a", 1), ("a", 2), ("b", 3)]


@examples(30)
@given(st.permutations([("a", 1), ("b", 2), ("c", 3)]), st.integers(0, 3))
def test_at_one_time_and_id_sources_have_one_order(sent, cut):
    """Whatever the order and the appends in which they came, once it is too late for others."""
    assert order_of(sent, cut) == order_of([("a", 1), ("b", 2), ("c", 3)], 3)


def order_of(sent: list[tuple[str, int]], cut: int) -> list[float | None]:
    """Those that were the best so far, which says in which order they were seen."""
    engine = tg.Engine([tg.Subscription("s", "ann", "topk(1, 'PT1H', n)")], lateness=timedelta(seconds=5))
    batch = [tg.Publication("1", source, NOW, {"n": n}) for source, n in sent]
    for some in (batch[:cut], batch[cut:]):
        assert engine.publish(some) == []
    return [n.score for n in engine.publish([tg.Publication("2", "a", at(9), {})])]
