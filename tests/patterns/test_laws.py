"""The engine's patterns against the oracle, and the laws they obey: batches, restarts, disorder within the lateness and
neighbours that share a filter change nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.following_oracle import (
    assert_same,
    counters,
    end_of,
    everything,
    follows_oracle,
    frugal,
    latenesses,
    sharded,
    told,
)
from tests.patterns.idle_neighbours import follows_oracle_alone
from tests.patterns.oracle import World
from tests.patterns.shared_laws import (
    each_alone_is_told_the_same,
    json_is_told_the_same,
    restarted,
    restarted_at_every_action,
)
from tests.patterns.strategies import at, cuts, in_order, pieces, scripts, streams, subscriptions
from tidegate.engine import pattern_shards
from tidegate.patterns import memory
from tidegate.testing import as_table

# --- the oracle ---------------------------------------------------------------------------------------------------


@examples(60)
@given(script=scripts(), lateness=latenesses)
def test_engine_equals_oracle(script, lateness):
    follows_oracle(script, lateness)


@examples(30)
@given(script=scripts(), lateness=latenesses)
def test_one_at_a_time_beside_idle_ones_equals_oracle(script, lateness):
    follows_oracle_alone(script, lateness)


@examples(4)
@given(script=scripts(), lateness=latenesses)
def test_one_at_a_time_beside_many_idle_ones_equals_oracle(script, lateness):
    follows_oracle_alone(script, lateness, count=100, shards=1)


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
    assert engine.advance(at(0)) == []
    return engine


@examples(40)
@given(wanted=subscriptions(plain=False), stream=streams(), cuts=cuts, data=st.data())
def test_the_lateness_delays_and_no_more(wanted, stream, cuts, data):
    """Also what is told first, to subscriptions that were there before the clock ran and to those made later."""
    batches, end = [list(batch) for batch in pieces(in_order(stream), cuts)], end_of(stream)
    first, lateness = data.draw(st.integers(0, len(wanted))), data.draw(st.sampled_from([1, 5, 60]))
    told = []
    for seconds in (0, lateness):
        engine = tg.Engine(wanted[:first], lateness=timedelta(seconds=seconds))
        found = [n for batch in batches[:1] for n in engine.publish(batch)]
        for subscription in wanted[first:]:
            engine.subscribe(subscription)
        told.append(sorted(found + everything(engine, batches[1:], end), key=lambda n: (n.time, n.id)))
    assert told[0] == told[1]


@examples(15)
@given(script=scripts(), lateness=latenesses, data=st.data())
def test_a_restart_changes_nothing(script, lateness, data):
    """Saved and loaded before one of the actions, and the engine that was saved goes on as well."""
    for engine, again in restarted(script, lateness, data.draw(st.integers(0, len(script) - 1))):
        assert len(again) == len(engine)


@examples(4)
@given(script=scripts(), lateness=latenesses)
def test_a_restart_at_every_action_changes_nothing(script, lateness):
    restarted_at_every_action(script, lateness)


@examples(6)
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
    each_alone_is_told_the_same(script, lateness)


@given(script=scripts(), lateness=latenesses)
def test_text_and_json_say_the_same(script, lateness):
    json_is_told_the_same(script, lateness)


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
