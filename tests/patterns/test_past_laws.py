"""Subscriptions that look at the past: the engine against the oracle, and the laws."""

from __future__ import annotations

from datetime import timedelta
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.following_oracle import act, assert_same, end_of, everything, latenesses, sharded, told, wheres_of
from tests.patterns.idle_neighbours import follows_oracle_alone
from tests.patterns.oracle import World
from tests.patterns.past_events import counted, follows, part
from tests.patterns.shared_laws import (
    each_alone_is_told_the_same,
    json_is_told_the_same,
    restarted,
    restarted_at_every_action,
)
from tests.patterns.strategies import (
    RELATIONS,
    Action,
    in_order,
    lasting,
    looking_back,
    looking_back_scripts,
    pieces,
    thrown,
)

# --- the oracle ---------------------------------------------------------------------------------------------------


@examples(80)
@given(script=looking_back_scripts(), lateness=latenesses)
def test_engine_equals_oracle(script, lateness):
    follows(script, lateness)


@examples(40)
@given(script=looking_back_scripts(), lateness=latenesses)
def test_one_at_a_time_beside_idle_ones_equals_oracle(script, lateness):
    engine, world = follows_oracle_alone(script, lateness)
    assert counted(engine.refused) == world.refused


@examples(40)
@given(script=looking_back_scripts(disorder=0, depth=1, ordinary=False))
def test_ordered_streams_equal_oracle(script):
    follows(script)


@examples(30)
@given(script=looking_back_scripts(), lateness=latenesses)
def test_tables_equal_oracle(script, lateness):
    follows(script, lateness, as_tables=True)


@examples(40)
@given(script=looking_back_scripts(mixed=True), lateness=latenesses)
def test_attributes_of_any_type_equal_oracle(script, lateness):
    follows(script, lateness)


@examples(20)
@given(script=looking_back_scripts(), lateness=latenesses, shards=st.integers(1, 3))
def test_shards_equal_oracle(script, lateness, shards):
    follows(script, lateness, engine=sharded(lateness, shards))


@pytest.mark.parametrize("first", ["subscribe", "unsubscribe"])
def test_memory_begins_anew_only_if_nobody_was_there(first):
    """One comes and one goes between two publications, in either order."""
    one, other = (tg.Subscription(id, "ann", "T_DURING(time, past(n > 1))") for id in ("one", "other"))
    begins = Action("publish", [part("START", "e", 1, n=2)])
    changes = [Action("subscribe", other), Action("unsubscribe", "one")]
    changes = changes if first == "subscribe" else changes[::-1]
    told = Action("publish", [part("INSTANT", "x", 2)])
    follows([Action("subscribe", one), begins, *changes, begins, told])


@pytest.mark.parametrize("relation", RELATIONS)
def test_each_relation_equals_oracle(relation):
    """With and without limits and tolerances and negated, on a stream with many ties."""
    dice, wanted = thrown(RELATIONS.index(relation)), []
    for i, more in enumerate(["", ", 'PT2S'", ", '..', 'PT1S'", ", 'PT3S', 'PT0.5S'"]):
        for inner in ("TRUE", "n > 1", "phase IS NOT NULL"):
            where = f"T_{relation}(event, past({inner}{more}))"
            wanted.append(tg.Subscription(f"{inner}-{i}", "ann", where))
            wanted.append(tg.Subscription(f"not-{inner}-{i}", "ann", f"NOT {where}"))
    stream = lasting(dice, 150, 150, disorder=0)
    script = [Action("subscribe", s) for s in wanted]
    script += [Action("publish", batch) for batch in pieces(stream, [dice(range(150)) for _ in range(12)])]
    follows(script)


# --- the laws -----------------------------------------------------------------------------------------------------


def subscribed(script) -> list[tg.Subscription]:
    return list({a.operand.id: a.operand for a in script if a.what == "subscribe"}.values())


def published(script) -> list[tg.Publication]:
    return [p for a in script if a.what == "publish" for p in a.operand]


@examples(40)
@given(script=looking_back_scripts(), lateness=st.sampled_from([0, 4]))
def test_cutting_changes_nothing(script, lateness):
    wanted, stream = subscribed(script), in_order(published(script))
    results, refused = [], []
    for batches in ([stream], pieces(stream, [3, 4, 9, 17]), [[p] for p in stream]):
        engine = tg.Engine(wanted, lateness=timedelta(seconds=lateness))
        results.append(everything(engine, batches, end_of(stream)))
        refused.append(counted(engine.refused))
    assert results[0] == results[1] == results[2]
    assert refused[0] == refused[1] == refused[2]


@examples(30)
@given(script=looking_back_scripts(disorder=4, ordinary=False))
def test_disorder_within_the_lateness_equals_sorted(script):
    wanted, stream = subscribed(script), published(script)
    late = tg.Engine(wanted, lateness=timedelta(seconds=4))
    found = everything(late, pieces(stream, [2, 5, 11]), end_of(stream))
    ordered = tg.Engine(wanted)
    assert found == everything(ordered, [in_order(stream)], end_of(stream))
    assert late.refused == ordered.refused


@examples(20)
@given(script=looking_back_scripts(), lateness=latenesses, data=st.data())
def test_a_restart_changes_nothing(script, lateness, data):
    """Saved and loaded before one of the actions, and the engine that was saved goes on as well."""
    for engine, again in restarted(script, lateness, data.draw(st.integers(0, len(script) - 1))):
        assert again.refused == engine.refused


@examples(7)
@given(script=looking_back_scripts(ordered=True), lateness=latenesses)
def test_a_restart_at_every_action_equals_oracle(script, lateness):
    engine, world = restarted_at_every_action(script, lateness)
    assert counted(engine.refused) == world.refused


@examples(8)
@given(script=looking_back_scripts(ordered=False, depth=2), keep=st.sampled_from([2, 5]), data=st.data())
def test_a_restart_changes_nothing_of_what_is_forgotten(script, keep, data):
    engine, world = tg.Engine(keep=timedelta(seconds=keep)), World(keep=timedelta(seconds=keep))
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            if data.draw(st.booleans()):
                engine.save(f"{directory}/{i}")
                engine = tg.Engine.load(f"{directory}/{i}", keep=timedelta(seconds=keep))
            wanted = getattr(world, action.what)(action.operand) or []
            assert_same(act(engine, action), wanted, wheres_of(script), f"action {i}: {action}")
            assert counted(engine.refused) == world.refused


@examples(30)
@given(script=looking_back_scripts(), lateness=latenesses)
def test_sharing_an_inner_filter_changes_nothing(script, lateness):
    """An event whose START appeared before the subscription was made is unknown to it alone, where its END is refused,
    and where it is among others, the END is not for it: it is told of neither.
    """
    each_alone_is_told_the_same(script, lateness)


@given(seed=st.integers(0, 10**6))
def test_the_same_twice_is_told_twice(seed):
    """Subscriptions that say the same, one of them in other words, are told the same."""
    dice = thrown(seed)
    where = looking_back(dice)
    wheres = {"a": where, "b": where, "c": f"NOT (NOT ({where}))", "d": f"({where}) AND TRUE"}
    engine = tg.Engine([tg.Subscription(id, "ann", same) for id, same in wheres.items()])
    found = told(engine.publish(lasting(dice, most=40)))
    each = [[t[1:] for t in found if t.subscription == id] for id in "abcd"]
    assert each[0] == each[1] == each[2] == each[3]


@examples(40)
@given(script=looking_back_scripts(), lateness=latenesses)
def test_text_and_json_say_the_same(script, lateness):
    json_is_told_the_same(script, lateness)


@given(script=looking_back_scripts(ordinary=False))
def test_told_once_per_publication_without_score_or_distance(script):
    engine = tg.Engine(subscribed(script))
    stream = in_order(published(script))
    for publication in stream:
        for notification in (found := engine.publish([publication])):
            assert notification.publications == (publication.id,)
            assert notification.time == publication.time
            assert (notification.score, notification.distance) == (None, None)
        assert len({n.subscription for n in found}) == len(found)
