"""The engine's patterns against the oracle, and the laws they obey: batches, restarts, disorder within the lateness and
neighbours that share a filter change nothing.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from math import isclose
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.oracle import Told, World
from tests.patterns.strategies import HOME, PLACES, at, cuts, in_order, pieces, scripts, streams, subscriptions
from tidegate.engine import pattern_shards
from tidegate.language import parse, to_json
from tidegate.patterns import memory
from tidegate.patterns import topk as best
from tidegate.testing import as_table

LATENESS = [timedelta(0), timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=7)]
MINUTES = timedelta(minutes=5)
latenesses = st.sampled_from(LATENESS)

# --- telling engines and oracle apart -----------------------------------------------------------------------------


def told(notifications) -> list[Told]:
    """Notifications, as objects or as a table, in the oracle's words."""
    if isinstance(notifications, list):
        return [Told(n.subscription, n.time, n.publications, n.score, n.distance) for n in notifications]
    return [
        Told(r["subscription_id"], r["time"], tuple(r["publication_ids"]), r["score"], r["distance"])
        for r in notifications.to_pylist()
    ]


def assert_same(found: list[Told], wanted: list[Told], wheres: dict[str, str], context: object = "") -> None:
    """Equal in all and in order. Metres may differ by rounding, as sine and cosine do; nothing else may."""
    assert [t[:3] for t in found] == [t[:3] for t in wanted], context
    for one, other in zip(found, wanted, strict=True):
        on_the_ground = "distance(location" in wheres[one.subscription] or "distance(spot" in wheres[one.subscription]
        assert agree(one.score, other.score, 1e-9 if on_the_ground else 0.0), (one, other, context)
        in_metres = "shape(" not in wheres[one.subscription]
        assert agree(one.distance, other.distance, 1e-9 if in_metres else 0.0), (one, other, context)


def agree(a: float | None, b: float | None, relative: float) -> bool:
    if a is None or b is None:
        return a is b
    return a == b or isclose(a, b, rel_tol=relative)


def counters(engine) -> tuple[int, int, int]:
    return engine.late, engine.unscored, engine.cut


def act(engine, action, as_tables: bool = False) -> list[Told]:
    if action.what == "publish":
        return told(engine.publish(as_table(action.operand) if as_tables else list(action.operand)))
    found = getattr(engine, action.what)(action.operand)
    return told(found) if action.what == "advance" else []


def wheres_of(script) -> dict[str, str]:
    return {action.operand.id: action.operand.where for action in script if action.what == "subscribe"}


def sharded(lateness: timedelta, shards: int) -> tg.Engine:
    """An engine with so many shards, however many cores there are."""
    engine = tg.Engine(lateness=lateness)
    engine._stage = pattern_shards.PatternShards(lateness // timedelta(microseconds=1), 1_000, shards)
    return engine


@contextmanager
def frugal(few: int = 1, widens: bool = True):
    """Little room: what no window reaches is forgotten at once, and ``topk`` reads its window again all the time."""
    with ExitStack() as stack:
        stack.enter_context(patch.multiple(best, _TIMES=2, _MORE=1))
        stack.enter_context(patch.object(memory, "_FEW", few))
        if not widens:
            stack.enter_context(patch.object(best.TopK, "_widen", lambda self: None))
        yield


def follows_oracle(script, lateness: timedelta, as_tables: bool = False, shards: int | None = None) -> None:
    """Engine and oracle do the same things and say the same at each."""
    engine = tg.Engine(lateness=lateness) if shards is None else sharded(lateness, shards)
    world, wheres = World(lateness), wheres_of(script)
    for i, action in enumerate(script):
        wanted = getattr(world, action.what)(action.operand) or []
        assert_same(act(engine, action, as_tables), wanted, wheres, f"action {i}: {action}")
    assert counters(engine) == counters(world)


def everything(engine, batches, end) -> list[tg.Notification]:
    """All that the batches and then the clock bring, by time and subscription; otherwise as raised."""
    found = [n for batch in batches for n in engine.publish(list(batch))]
    found += engine.advance(end)
    return sorted(found, key=lambda n: (n.time, n.subscription))


def end_of(stream) -> object:
    return max(p.time for p in stream) + MINUTES


# --- the oracle ---------------------------------------------------------------------------------------------------


@examples(60)
@given(script=scripts(), lateness=latenesses)
def test_engine_equals_oracle(script, lateness):
    follows_oracle(script, lateness)


@examples(30)
@given(script=scripts(), lateness=latenesses)
def test_tables_equal_oracle(script, lateness):
    follows_oracle(script, lateness, as_tables=True)


@examples(30)
@given(script=scripts(mixed=True) | scripts(mixed=True, disorder=1), lateness=latenesses)
def test_attributes_of_any_type_equal_oracle(script, lateness):
    follows_oracle(script, lateness)


@examples(40)
@given(script=scripts(), lateness=latenesses, few=st.sampled_from([1, 5, -(10**9)]))
def test_forgetting_changes_nothing(script, lateness, few):
    """At every step, or when twice as much is there as was kept the last time."""
    with patch.object(memory, "_FEW", few):
        follows_oracle(script, lateness)


@examples(40)
@given(script=scripts(), lateness=latenesses, few=st.sampled_from([1, -(10**9)]), widens=st.booleans())
def test_reading_again_changes_nothing(script, lateness, few, widens):
    with frugal(few, widens):
        follows_oracle(script, lateness)


@examples(30)
@given(script=scripts(), lateness=latenesses, shards=st.integers(1, 4))
def test_shards_and_threads_equal_oracle(script, lateness, shards):
    with patch.object(pattern_shards, "_WORTH", 0):
        follows_oracle(script, lateness, shards=shards)


@examples(20)
@given(script=scripts(), lateness=latenesses, shards=st.integers(1, 3), few=st.sampled_from([1, -(10**9)]))
def test_little_room_equals_oracle(script, lateness, shards, few):
    with frugal(few, widens=False):
        follows_oracle(script, lateness, shards=shards)


@given(wanted=subscriptions(), stream=streams(), lateness=latenesses)
def test_missing_attributes_never_crash(wanted, stream, lateness):
    bare = [replace(p, attributes={}, location=None) for p in stream]
    engine, world = tg.Engine(wanted, lateness=lateness), World(lateness)
    for subscription in wanted:
        world.subscribe(subscription)
    wheres = {s.id: s.where for s in wanted}
    assert_same(told(engine.publish(bare)), world.publish(bare), wheres)
    assert_same(told(engine.advance(end_of(bare))), world.advance(end_of(bare)), wheres)
    assert counters(engine) == counters(world)


# --- the laws -----------------------------------------------------------------------------------------------------


@examples(30)
@given(wanted=subscriptions(), stream=streams(), cuts=cuts)
def test_cutting_changes_nothing(wanted, stream, cuts):
    stream, end = in_order(stream), end_of(stream)
    whole = everything(tg.Engine(wanted), [stream], end)
    assert everything(tg.Engine(wanted), pieces(stream, cuts), end) == whole
    assert everything(tg.Engine(wanted), [[p] for p in stream], end) == whole


@examples(30)
@given(wanted=subscriptions(), stream=streams(disorder=4), cuts=cuts, data=st.data())
def test_cutting_changes_nothing_within_the_lateness(wanted, stream, cuts, data):
    lateness = data.draw(st.sampled_from([4, 5, 9]))
    results = []
    for batches in ([stream], pieces(stream, cuts), [[p] for p in stream]):
        engine = running(wanted, lateness)
        results.append(everything(engine, batches, end_of(stream)))
        assert engine.late == 0
    assert results[0] == results[1] == results[2]


@examples(30)
@given(wanted=subscriptions(plain=False), stream=streams(disorder=4), cuts=cuts)
def test_disorder_within_the_lateness_equals_sorted(wanted, stream, cuts):
    end = end_of(stream)
    disordered = everything(running(wanted, 4), pieces(stream, cuts), end)
    assert disordered == everything(running(wanted, 4), [in_order(stream)], end)
    assert disordered == everything(running(wanted, 0), [in_order(stream)], end), "the lateness delays, and no more"


def running(wanted, lateness: int) -> tg.Engine:
    """An engine whose clock stands at the start already: its first value is not the same in another order."""
    engine = tg.Engine(wanted, lateness=timedelta(seconds=lateness))
    assert engine.advance(at(lateness)) == []
    return engine


@examples(25)
@given(script=scripts(), lateness=latenesses, data=st.data())
def test_a_restart_changes_nothing(script, lateness, data):
    """Saved and loaded before one of the actions, and the engine that was saved goes on as well."""
    engine, again = tg.Engine(lateness=lateness), None
    restart = data.draw(st.integers(0, len(script) - 1))
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            if i == restart:
                engine.save(directory)
                again = tg.Engine.load(directory)
                assert sorted(again, key=lambda s: s.id) == sorted(engine, key=lambda s: s.id)
            wanted = act(engine, action)
            if again is not None:
                assert act(again, action) == wanted, f"action {i}: {action}"


@examples(10)
@given(script=scripts(), lateness=latenesses)
def test_a_restart_at_every_action_changes_nothing(script, lateness):
    engine, world, wheres = tg.Engine(lateness=lateness), World(lateness), wheres_of(script)
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            engine.save(f"{directory}/{i}")
            engine = tg.Engine.load(f"{directory}/{i}")
            wanted = getattr(world, action.what)(action.operand) or []
            assert_same(act(engine, action), wanted, wheres, f"action {i}: {action}")


@examples(15)
@given(
    parts=st.lists(subscriptions(most=3, active=False), min_size=2, max_size=3),
    streams=st.tuples(streams(most=8), streams(most=12)),
    lateness=latenesses,
    data=st.data(),
)
def test_several_snapshots_begin_anew_together(parts, streams, lateness, data):
    """Each has seen something that the engine of them all remembers nothing of. They may share filters."""
    before, stream = streams
    world, wheres = World(lateness), {}
    with TemporaryDirectory() as directory:
        for i, part in enumerate(parts):
            part = [replace(s, id=f"{s.id}-{i}") for s in part]
            engine = tg.Engine(part, lateness=lateness)
            engine.publish(before)
            engine.save(f"{directory}/{i}")
            for subscription in part:
                world.subscribe(subscription)
                wheres[subscription.id] = subscription.where
        engine = tg.Engine.load(*(f"{directory}/{i}" for i in range(len(parts))))
        assert counters(engine) == (0, 0, 0)
        for batch in pieces(stream, data.draw(cuts)):
            assert_same(told(engine.publish(batch)), world.publish(batch), wheres)
            first = sorted(s.id for s in engine if s.id.endswith("-0"))
            if data.draw(st.booleans()) and first:
                gone = data.draw(st.sampled_from(first))
                engine.unsubscribe(gone)
                world.unsubscribe(gone)
            if data.draw(st.booleans()):
                engine.save(f"{directory}/all")
                engine = tg.Engine.load(f"{directory}/all")
        assert_same(told(engine.advance(end_of(stream))), world.advance(end_of(stream)), wheres)
        assert counters(engine) == counters(world)


def test_a_filter_of_two_snapshots_may_go_from_both(tmp_path):
    for i in range(2):
        tg.Engine([tg.Subscription(f"s{i}", "ann", "n > 1 AND topk(1, 'PT5S', n)")]).save(tmp_path / f"{i}")
    engine = tg.Engine.load(tmp_path / "0", tmp_path / "1")
    engine.unsubscribe("s0")
    engine.unsubscribe("s1")
    assert len(engine) == 0


@examples(20)
@given(script=scripts(), lateness=latenesses)
def test_shards_agree(script, lateness):
    """In all and in order, and the ids are the same."""
    engines = [sharded(lateness, shards) for shards in (1, 2, 3)]
    for action in script:
        operand = list(action.operand) if action.what == "publish" else action.operand
        one, two, three = (getattr(engine, action.what)(operand) for engine in engines)
        assert one == two == three, action


@examples(25)
@given(script=scripts(), lateness=latenesses)
def test_sharing_a_filter_changes_nothing(script, lateness):
    """Each subscription alone is told what it is told among the others."""
    together = tg.Engine(lateness=lateness)
    found = [act(together, action) for action in script]
    for id in wheres_of(script):
        alone = tg.Engine(lateness=lateness)
        for action, wanted in zip(script, found, strict=True):
            owner = action.operand.id if action.what == "subscribe" else action.operand
            if action.what in ("publish", "advance") or owner == id:
                assert act(alone, action) == [t for t in wanted if t.subscription == id], (id, action)


@given(script=scripts(), lateness=latenesses)
def test_text_and_json_say_the_same(script, lateness):
    text, json = tg.Engine(lateness=lateness), tg.Engine(lateness=lateness)
    for action in script:
        same = action
        if action.what == "subscribe":
            same = action._replace(operand=replace(action.operand, where=to_json(parse(action.operand.where))))
        assert act(text, action) == act(json, same)


@given(wanted=subscriptions(), stream=streams())
def test_ids_tell_notifications_apart_and_come_again(wanted, stream):
    stream = in_order([replace(p, id=f"{p.id}{p.phase or ''}") for p in stream])
    first = everything(tg.Engine(wanted), [stream], end_of(stream))
    assert [n.id for n in first] == [n.id for n in everything(tg.Engine(wanted), [[p] for p in stream], end_of(stream))]
    assert [id for id, times in Counter(n.id for n in first).items() if times > 1] == []


@given(wanted=subscriptions(), stream=streams())
def test_topk_tells_of_a_publication_once(wanted, stream):
    stream = [replace(p, id=f"{p.id}{p.phase or ''}") for p in stream]
    topk = [s for s in wanted if "topk" in s.where]
    found = everything(tg.Engine(topk, lateness=timedelta(seconds=3)), [[p] for p in stream], end_of(stream))
    assert [pair for pair, times in Counter((n.subscription, n.publications) for n in found).items() if times > 1] == []


def test_grouped_tables_name_the_publication_that_raised_it():
    engine = tg.Engine(
        [
            tg.Subscription("best", "ann", "topk(1, 'PT10S', n)"),
            tg.Subscription("both", "ann", "together('PT10S', n = 2, n = 1)"),
            tg.Subscription("none", "bob", "absent('PT4S', n = 1)"),
            tg.Subscription("never", "bob", "absent('PT12S', n = 7)"),
            tg.Subscription("plain", "bob", "n = 2"),
        ]
    )
    stream = [tg.Publication(f"p{s}", "x", at(s), {"n": n}) for s, n in ((0, 1), (1, 2), (3, 2), (12, 9))]
    rows = engine.publish(as_table(stream), grouped=True).to_pylist()
    assert {(r["publication_id"], r["time"], id) for r in rows for id in r["subscription_ids"]} == {
        ("p0", at(0), "best"),
        ("p3", at(10), "best"),
        ("p1", at(1), "both"),
        ("p3", at(3), "both"),
        ("p0", at(4), "none"),
        (None, at(12), "never"),
        ("p1", at(1), "plain"),
        ("p3", at(3), "plain"),
    }


# --- longer streams -----------------------------------------------------------------------------------------------

#: Eighths, so that sums are exact: equal scores are ties whichever way the metres in them were rounded.
DRIFTS = {
    "rising": lambda generator, i: i / 8 + generator.integers(0, 8),
    "falling": lambda generator, i: -i / 8 + generator.integers(0, 8),
    "constant": lambda generator, i: 1,
    "few": lambda generator, i: generator.integers(0, 5),
    "noise": lambda generator, i: generator.normal(),
    "waves": lambda generator, i: round(80 * np.sin(i / 40)) / 8 + generator.integers(0, 3),
}


def long_stream(generator, length: int, drift: str, disorder: float) -> list[tg.Publication]:
    """About four publications a second, on a grid of a tenth of one; some lack something."""
    found, second = [], disorder
    for i in range(length):
        second += round(float(generator.choice([0, 0.1, 0.2, 0.4, 0.5])), 1)
        attributes = {"n": float(DRIFTS[drift](generator, i)), "m": int(generator.integers(0, 4))}
        attributes["t"] = str(generator.choice(["a", "b", "c"]))
        if generator.random() < 0.03:
            del attributes[str(generator.choice(["n", "m", "t"]))]
        place = PLACES[generator.integers(len(PLACES))]
        lag = round(float(generator.integers(0, int(disorder * 10) + 1)) / 10, 1)
        found.append(
            tg.Publication(
                id=f"{generator.integers(10**6):06}-{i}",
                source=f"z{generator.integers(6)}",
                time=at(0) + timedelta(milliseconds=100 * round(10 * (second - lag))),
                attributes=attributes,
                location=place if generator.random() < 0.9 else None,
            )
        )
    return found


def long_subscriptions(generator, number: int) -> list[tg.Subscription]:
    pick = generator.choice
    guards = ["", "", "", "t = 'a' AND ", "m > 0 AND "]
    scores = ["n", "-n", "n", "n - m", "n / m", "m", "distance((n, m), (1, 2))", f"distance(location, {HOME}) + n"]
    found = []
    for i in range(number):
        window = pick(["'PT0.7S'", "'PT5S'", "'PT20S'", "'PT40S'", "7", "30", "150"])
        topk = f"topk({pick([1, 2, 5, 20])}, {window}, {pick(scores)})"
        near, every = pick(["", "100, "]), pick(["", ", 'all'"])
        together = f"together('{pick(['PT0.5S', 'PT2S'])}', {near}t = 'a', m = 1, t = 'b'{every})"
        absent = f"absent('{pick(['PT0.9S', 'PT2S'])}', t = 'c' AND m = 2{pick(['', ', source'])})"
        points = ", ".join(map(str, generator.integers(-3, 4, pick([3, 4, 6])).tolist()))
        count = pick(["", ", 9", ", 20"])
        shape = f"shape({pick(['n', 'm'])}, (-4, {points}), 'stream'{count}) <= {pick([0.5, 2, 3.5, 5])}"
        where = str(pick(guards)) + [topk, topk, topk, together, absent, shape][i % 6]
        found.append(tg.Subscription(f"s{generator.integers(10**6)}-{i}", "ann", where))
    return found


def long_run(seed: int, drift: str, length: int, number: int, lateness: float, as_tables: bool) -> None:
    generator = np.random.default_rng(seed)
    stream = long_stream(generator, length, drift, disorder=lateness or 0.5)
    wanted = long_subscriptions(generator, number)
    wheres = {s.id: s.where for s in wanted}
    late_comers = wanted[number * 3 // 4 :]
    wanted = wanted[: number * 3 // 4]
    engine, world = tg.Engine(wanted, lateness=timedelta(seconds=lateness)), World(timedelta(seconds=lateness))
    for subscription in wanted:
        world.subscribe(subscription)
    start = 0
    while start < len(stream):
        size = int(generator.choice([1, 3, 40, 300]))
        batch = stream[start : start + size]
        found = told(engine.publish(as_table(batch) if as_tables else batch))
        assert_same(found, world.publish(batch), wheres, f"publications {start} to {start + size}")
        start += size
        if late_comers:
            subscription = late_comers.pop()
            engine.subscribe(subscription)
            world.subscribe(subscription)
        elif generator.random() < 0.1 and wanted:
            gone = wanted.pop().id
            engine.unsubscribe(gone)
            world.unsubscribe(gone)
    assert_same(told(engine.advance(end_of(stream))), world.advance(end_of(stream)), wheres)
    assert counters(engine) == counters(world)


@pytest.mark.parametrize("lateness", [0, 1.5])
@pytest.mark.parametrize("drift", sorted(DRIFTS))
def test_long_streams_equal_oracle(drift, lateness):
    long_run(sorted(DRIFTS).index(drift), drift, length=400, number=20, lateness=lateness, as_tables=drift == "few")


@pytest.mark.parametrize("widens", [True, False])
@pytest.mark.parametrize("drift", sorted(DRIFTS))
def test_long_streams_in_little_room_equal_oracle(drift, widens):
    with frugal(few=1 if widens else -(10**9), widens=widens):
        long_run(50 + sorted(DRIFTS).index(drift), drift, length=300, number=20, lateness=1.5, as_tables=False)


@pytest.mark.thorough
@pytest.mark.parametrize("lateness", [0, 1.5])
@pytest.mark.parametrize("drift", sorted(DRIFTS))
def test_longer_streams_equal_oracle(drift, lateness):
    long_run(100, drift, length=1500, number=30, lateness=lateness, as_tables=lateness == 0)
