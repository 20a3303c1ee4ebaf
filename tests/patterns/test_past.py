"""Subscriptions that look at the past: Allen's relations one by one, the engine against the oracle, and the laws."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.oracle import World
from tests.patterns.strategies import (
    BESIDE,
    INNER,
    RELATIONS,
    Action,
    at,
    in_order,
    lasting,
    looking_back,
    looking_back_scripts,
    looks_back,
    pieces,
    thrown,
    unruly,
)
from tests.patterns.test_laws import act, assert_same, end_of, everything, latenesses, sharded, told, wheres_of
from tests.patterns.test_oracle import TOLERATED, TOLERATED_POINTS
from tidegate.language import parse, to_json
from tidegate.testing import as_table

NONE = timedelta(0)


def counted(refused) -> dict[str, int]:
    return {reason: count for reason, count in refused.items() if count}


def follows(
    script, lateness: timedelta = NONE, as_tables: bool = False, keep: timedelta | None = None, engine=None
) -> None:
    """Engine and oracle do the same things and say the same at each, and refuse the same."""
    if engine is None:
        engine = tg.Engine(lateness=lateness) if keep is None else tg.Engine(lateness=lateness, keep=keep)
    world, wheres = World(lateness, keep=keep), wheres_of(script)
    for i, action in enumerate(script):
        wanted = getattr(world, action.what)(action.operand) or []
        assert_same(act(engine, action, as_tables), wanted, wheres, f"action {i}: {action}")
        assert counted(engine.refused) == world.refused, f"action {i}: {action}"
    assert engine.late == world.late


# --- relations, one by one ----------------------------------------------------------------------------------------


def event(id, start, stop=None, time=20, **attributes):
    return tg.Publication(id, "x", at(time), attributes, start=at(start), end=at(start if stop is None else stop))


def part(phase, id, time, when=None, **attributes):
    where = {} if when is None else {"start" if phase == "START" else "end": at(when)}
    return tg.Publication(id, "x", at(time), attributes, phase=phase, **where)


def ids(where, *publications, **settings) -> str:
    """Those that are told of, one publication a call."""
    engine = tg.Engine([tg.Subscription("s", "ann", where)], **settings)
    return " ".join(n.publications[0] for p in publications for n in engine.publish([p]))


def test_before():
    #      1     3     5     7
    #    Y             [─────]
    #    a [─────]                  is before Y
    #    b [───────────]            meets it, and is not
    assert ids("T_BEFORE(event, past(y))", event("Y", 5, 7, y=True), event("a", 1, 3), event("b", 1, 5)) == "a"


def test_after():
    #      1     3     5     7
    #    Y [─────]
    #    a             [─────]      is after Y
    #    b       [─────]            is met by it, and is not
    assert ids("T_AFTER(event, past(y))", event("Y", 1, 3, y=True), event("a", 5, 7), event("b", 3, 5)) == "a"


def test_meets():
    #      1     3     5     7
    #    Y       [─────]
    #    a [─────]                  meets Y
    #    b [────────]
    assert ids("T_MEETS(event, past(y))", event("Y", 3, 5, y=True), event("a", 1, 3), event("b", 1, 4)) == "a"


def test_met_by():
    #      1     3     5     7
    #    Y [─────]
    #    a       [─────]            is met by Y
    #    b          [──]
    assert ids("T_METBY(event, past(y))", event("Y", 1, 3, y=True), event("a", 3, 5), event("b", 4, 5)) == "a"


def test_overlaps():
    #      1     3     5     7
    #    Y       [───────────]
    #    a [───────────]            overlaps Y
    #    b [─────────────────]      is finished by it
    some = event("a", 1, 5), event("b", 1, 7)
    assert ids("T_OVERLAPS(event, past(y))", event("Y", 3, 7, y=True), *some) == "a"


def test_overlapped_by():
    #      1     3     5     7
    #    Y [───────────]
    #    a       [───────────]      is overlapped by Y
    #    b [─────────────────]      is started by it
    some = event("a", 3, 7), event("b", 1, 7)
    assert ids("T_OVERLAPPEDBY(event, past(y))", event("Y", 1, 5, y=True), *some) == "a"


def test_starts():
    #      1     3     5     7
    #    Y [─────────────────]
    #    a [─────]                  starts Y
    #    b [─────────────────]      equals it
    assert ids("T_STARTS(event, past(y))", event("Y", 1, 7, y=True), event("a", 1, 3), event("b", 1, 7)) == "a"


def test_started_by():
    #      1     3     5     7
    #    Y [─────]
    #    a [─────────────────]      is started by Y
    #    b [─────]
    assert ids("T_STARTEDBY(event, past(y))", event("Y", 1, 3, y=True), event("a", 1, 7), event("b", 1, 3)) == "a"


def test_finishes():
    #      1     3     5     7
    #    Y [─────────────────]
    #    a             [─────]      finishes Y
    #    b             [──]
    assert ids("T_FINISHES(event, past(y))", event("Y", 1, 7, y=True), event("a", 5, 7), event("b", 5, 6)) == "a"


def test_finished_by():
    #      1     3     5     7
    #    Y             [─────]
    #    a [─────────────────]      is finished by Y
    #    b             [─────]
    assert ids("T_FINISHEDBY(event, past(y))", event("Y", 5, 7, y=True), event("a", 1, 7), event("b", 5, 7)) == "a"


def test_during():
    #      1     3     5     7
    #    Y [─────────────────]
    #    a       [─────]            is during Y
    #    b [───────────]            begins with it: Allen's during has both ends inside
    assert ids("T_DURING(event, past(y))", event("Y", 1, 7, y=True), event("a", 3, 5), event("b", 1, 5)) == "a"


def test_contains():
    #      1     3     5     7
    #    Y       [─────]
    #    a [─────────────────]      contains Y
    #    b [───────────]
    assert ids("T_CONTAINS(event, past(y))", event("Y", 3, 5, y=True), event("a", 1, 7), event("b", 1, 5)) == "a"


def test_equals():
    #      1     3     5     7
    #    Y       [─────]
    #    a       [─────]            equals Y
    #    b       [────────]
    assert ids("T_EQUALS(event, past(y))", event("Y", 3, 5, y=True), event("a", 3, 5), event("b", 3, 6)) == "a"


def test_intersects_and_disjoint():
    #      1     3     5     7
    #    Y       [─────]
    #    a [─────]                  touches Y
    #    b [──]                     does not
    #    c                [──]
    some = event("Y", 3, 5, y=True), event("a", 1, 3), event("b", 1, 2), event("c", 6, 7)
    assert ids("T_INTERSECTS(event, past(y))", *some) == "a"
    assert ids("T_DISJOINT(event, past(y))", *some) == "b c"


def test_a_point_during_a_running_event():
    #      1     3     5     7
    #    Y [──────────────▶
    #    a       ·                  is during Y, which still runs
    #    b             ·            also; then Y ends at 4
    #    c                   ·      is after it
    some = [part("START", "Y", 1, y=True), part("INSTANT", "a", 3), part("INSTANT", "b", 5)]
    some += [part("END", "Y", 5, 4), part("INSTANT", "c", 7)]
    assert ids("T_DURING(time, past(y))", *some) == "a b"
    assert ids("T_AFTER(time, past(y))", *some) == "c"
    assert ids("T_AFTER(time, past(y, 'PT2S'))", *some) == "", "no longer"
    assert ids("T_AFTER(time, past(y, 'PT3S'))", *some) == "c"


@pytest.mark.parametrize("relation", TOLERATED)
def test_every_relation_has_a_tolerance(relation):
    y, where = event("Y", 4, 8, y=True), f"T_{relation}({{}}, past(y, '..', 'PT1S'))"
    so, not_so = ([event(f"{when}", *when) for when in some] for some in TOLERATED[relation])
    assert ids(where.format("event"), y, *so, *not_so) == " ".join(p.id for p in so)
    if relation in TOLERATED_POINTS:
        so, not_so = ([event(f"{when}", 0, when=at(when)) for when in some] for some in TOLERATED_POINTS[relation])
        assert ids(where.format("when"), y, *so, *not_so) == " ".join(p.id for p in so)


def test_points_on_the_left_know_few_relations():
    for relation in set(RELATIONS) - {"AFTER", "BEFORE", "DISJOINT", "DURING", "EQUALS", "INTERSECTS"}:
        with pytest.raises(tg.TidegateError, match="event"):
            tg.Engine([tg.Subscription("s", "ann", f"T_{relation}(time, past(TRUE))")])


def test_a_later_subscription_does_not_see_earlier_events():
    #    Y [─────────]
    #         late subscribes
    #              a b        only the first subscription knows what a is in, and what ended
    engine = tg.Engine([tg.Subscription("first", "ann", "T_DURING(time, past(TRUE)) OR T_AFTER(time, past(TRUE))")])
    engine.publish([part("START", "Y", 1), event("W", 1, 9, time=1)])
    engine.subscribe(tg.Subscription("late", "ann", "T_DURING(time, past(TRUE)) OR T_AFTER(time, past(TRUE))"))
    found = engine.publish([part("INSTANT", "a", 2), part("END", "Y", 3), part("INSTANT", "b", 4)])
    assert {(n.subscription, *n.publications) for n in found} == {
        *(("first", "a"), ("first", "Y"), ("first", "b")),
        ("late", "b"),
    }
    assert counted(engine.refused) == {}


def test_when_the_last_subscription_goes_all_is_forgotten():
    engine = tg.Engine([tg.Subscription("s", "ann", "T_AFTER(time, past(TRUE))")])
    engine.publish([part("START", "Y", 1)])
    engine.unsubscribe("s")
    engine.publish([part("START", "Z", 2)])
    engine.subscribe(tg.Subscription("s", "ann", "T_DURING(time, past(TRUE))"))
    assert engine.publish([part("INSTANT", "a", 3)]) == []
    assert engine.publish([part("END", "Y", 4), part("END", "Z", 4), part("START", "Y", 5)]) == []
    assert counted(engine.refused) == {"end without start": 2}


# --- refused ------------------------------------------------------------------------------------------------------

REFUSED = {
    "end without start": [part("END", "b", 5)],
    "second start": [part("START", "a", 5)],
    "end before start": [part("END", "a", 5, 1)],
    "start with an end": [tg.Publication("b", "x", at(5), {}, end=at(6), phase="START")],
    "instant that lasts": [tg.Publication("b", "x", at(5), {}, start=at(4), end=at(5), phase="INSTANT")],
    "other start": [tg.Publication("a", "x", at(5), {}, start=at(1), phase="END")],
}


@pytest.mark.parametrize("as_tables", [False, True])
@pytest.mark.parametrize("reason", REFUSED)
def test_refused_match_nothing_and_are_counted(reason, as_tables):
    engine = tg.Engine(
        [
            tg.Subscription("all", "ann", "TRUE OR T_AFTER(time, past(TRUE))"),
            tg.Subscription("seen", "ann", "T_INTERSECTS(time, past(TRUE, 'PT1S')) AND source = 'y'"),
            tg.Subscription("plain", "ann", "TRUE"),
        ]
    )
    engine.publish([part("START", "a", 2)])
    (publication,) = REFUSED[reason]
    found = told(engine.publish(as_table([publication]) if as_tables else [publication]))
    assert [t.subscription for t in found] == ["plain"], "refused by what looks at the past, and by nothing else"
    assert counted(engine.refused) == {reason: 1}
    engine.publish([part("END", "a", 6)])
    assert counted(engine.refused) == {reason: 1}, "a is still the running event that it was"
    found = engine.publish([replace(part("INSTANT", "c", 99), source="y")])
    assert [n.subscription for n in found] == ["all", "plain"], "nothing runs"


def test_instants_of_a_started_id_are_second_starts():
    engine = tg.Engine([tg.Subscription("s", "ann", "T_DURING(time, past(TRUE))")])
    engine.publish([part("START", "a", 1), part("INSTANT", "a", 2), event("a", 1, 3, time=3), part("END", "a", 4)])
    engine.publish([part("INSTANT", "a", 5), event("a", 5, 6, time=6)])
    assert counted(engine.refused) == {"second start": 2}, "ids of whole events are not compared"


@examples(40)
@given(script=looking_back_scripts(ordered=False), lateness=latenesses)
def test_refused_input_equals_oracle(script, lateness):
    follows(script, lateness)


@examples(20)
@given(script=looking_back_scripts(ordered=False, depth=1), keep=st.sampled_from([1, 2, 5]))
def test_forgotten_ids_equal_oracle(script, keep):
    follows(script, keep=timedelta(seconds=keep))


# --- forgetting ---------------------------------------------------------------------------------------------------


def test_forgetting_by_age():
    keep = timedelta(seconds=5)
    some = [event("Y", 1, 2, time=3, y=1), part("INSTANT", "a", 8), part("INSTANT", "b", 8.000001)]
    assert ids("T_AFTER(time, past(y = 1))", *some) == "a b"
    assert ids("T_AFTER(time, past(y = 1))", *some, keep=keep) == "a", "five seconds after it was told of"
    some = [part("START", "Y", 1, y=1), part("INSTANT", "a", 99), part("END", "Y", 100), part("INSTANT", "b", 105)]
    assert ids("T_DURING(start, past(y = 1))", *some, keep=keep) == "a", "running ones are kept"
    assert ids("T_AFTER(start, past(y = 1))", *some, keep=keep) == "b"


@examples(40)
@given(script=looking_back_scripts(), keep=st.sampled_from([1, 2, 4, 7.5]), lateness=latenesses)
def test_forgetting_by_age_equals_oracle(script, keep, lateness):
    follows(script, lateness, keep=timedelta(seconds=keep))


# --- the oracle ---------------------------------------------------------------------------------------------------


@examples(80)
@given(script=looking_back_scripts(), lateness=latenesses)
def test_engine_equals_oracle(script, lateness):
    follows(script, lateness)


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


@examples(30)
@given(script=looking_back_scripts(), lateness=latenesses, data=st.data())
def test_a_restart_changes_nothing(script, lateness, data):
    """Saved and loaded before one of the actions, and the engine that was saved goes on as well."""
    engine, again = tg.Engine(lateness=lateness), None
    restart = data.draw(st.integers(0, len(script) - 1))
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            if i == restart:
                engine.save(directory)
                again = tg.Engine.load(directory)
            wanted = act(engine, action)
            if again is not None:
                assert act(again, action) == wanted, f"action {i}: {action}"
                assert again.refused == engine.refused


@examples(15)
@given(script=looking_back_scripts(ordered=True), lateness=latenesses)
def test_a_restart_at_every_action_equals_oracle(script, lateness):
    engine, world, wheres = tg.Engine(lateness=lateness), World(lateness), wheres_of(script)
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            engine.save(f"{directory}/{i}")
            engine = tg.Engine.load(f"{directory}/{i}")
            wanted = getattr(world, action.what)(action.operand) or []
            assert_same(act(engine, action), wanted, wheres, f"action {i}: {action}")
    assert counted(engine.refused) == world.refused


@examples(15)
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
    """Each subscription alone is told what it is told among the others.

    But an event whose START appeared before the subscription was made is unknown to it alone, where its END is
    refused, and where it is among others, the END is not for it: it is told of neither.
    """
    together = tg.Engine(lateness=lateness)
    found = [act(together, action) for action in script]
    for id in wheres_of(script):
        alone = tg.Engine(lateness=lateness)
        for action, wanted in zip(script, found, strict=True):
            owner = action.operand.id if action.what == "subscribe" else action.operand
            if action.what in ("publish", "advance") or owner == id:
                assert act(alone, action) == [t for t in wanted if t.subscription == id], (id, action)


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
    text, json = tg.Engine(lateness=lateness), tg.Engine(lateness=lateness)
    for action in script:
        same = action
        if action.what == "subscribe":
            same = action._replace(operand=replace(action.operand, where=to_json(parse(action.operand.where))))
        assert act(text, action) == act(json, same)


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


# --- longer streams -----------------------------------------------------------------------------------------------


def long_run(seed: int, length: int, most: int, depth: int = 2, lateness: float = 0, keep=None, **options) -> None:
    """Thousands of publications, subscriptions that come and go; as tables every other time."""
    dice = thrown(seed)
    stream = unruly(dice, length, length) if options.pop("refused", False) else lasting(dice, length, length, **options)
    follows(looks_back(dice, stream, most, depth), timedelta(seconds=lateness), seed % 2 == 0, keep)


@pytest.mark.parametrize("seed", range(6))
def test_long_streams_equal_oracle(seed):
    long_run(seed, length=400, most=14, disorder=0)


@pytest.mark.parametrize("seed", range(10, 13))
def test_long_streams_in_disorder_equal_oracle(seed):
    long_run(seed, length=300, most=12, lateness=3, disorder=4)


@pytest.mark.parametrize("seed", range(20, 23))
def test_long_streams_that_are_forgotten_equal_oracle(seed):
    long_run(seed, length=400, most=14, keep=timedelta(seconds=20), disorder=0)


@pytest.mark.parametrize("seed", range(30, 32))
def test_long_streams_without_rules_equal_oracle(seed):
    long_run(seed, length=300, most=12, refused=True)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 112))
def test_longer_streams_equal_oracle(seed):
    long_run(seed, length=3000, most=12, disorder=0, mixed=seed % 2 == 1)


def test_crowds_of_events_equal_oracle():
    """So many events that a structure has several levels: starts and ends at random, most of them long past."""
    generator, wanted = Random(7), []
    for i, relation in enumerate(RELATIONS):
        more = ["", ", 'PT20M'", ", 'PT1H', 'PT30S'"][i % 3]
        wanted.append(tg.Subscription(relation, "ann", f"T_{relation}(event, past({INNER[i % 3]}{more})) AND m = 1"))
        wanted.append(tg.Subscription(f"n-{i}", "ann", f"NOT T_{relation}(event, past({BESIDE[1]}{more})) AND m = 2"))
    for i, op in enumerate(["<", "<=", ">", ">=", "=", "<>"]):
        wanted.append(tg.Subscription(f"f-{i}", "ann", f"v {op} past(v, TRUE, {[1, 7, 100, 900, 1500, 10][i]})"))
    stream = []
    for i in range(1200):
        start = i - generator.randrange(400)
        values = {"n": generator.randrange(4), "m": generator.randrange(40), "t": generator.choice("abc")}
        values["v"] = generator.choice([i, -i, generator.random() * 2000])
        stream.append(event(f"e{i}", start, start + generator.choice([0, 1, 10, 300, 900]), time=i, **values))
    script = [Action("subscribe", s) for s in wanted] + [Action("publish", b) for b in pieces(stream, [500, 900])]
    follows(script)


@pytest.mark.parametrize(
    "where",
    [
        "x + past(x, y = 1) > 3",
        "abs(past(x, y = 1)) > 2",
        "(x = past(x, y = 1)) = TRUE",
        "T_AFTER(time, past(y)) = TRUE",
    ],
)
def test_past_inside_a_value_is_refused(where):
    with pytest.raises(tg.TypeMismatch, match="expected past alone on one side of a comparison"):
        tg.Engine([tg.Subscription("s", "ann", where)])


@pytest.mark.parametrize(("relation", "count"), [("AFTER", 0), ("BEFORE", 0), ("DURING", 1), ("EQUALS", 1)])
def test_what_is_strict_stays_so_far_from_now(relation, count):
    """In the year 2260 a double has no place for single microseconds."""
    engine = tg.Engine([tg.Subscription("s", "ann", f"T_{relation}(time, past(TRUE))")])
    time = datetime(2260, 1, 1, tzinfo=UTC)
    engine.publish([tg.Publication("a", "z", time)])
    assert len(engine.publish([tg.Publication("b", "z", time)])) == count
