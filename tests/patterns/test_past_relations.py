"""Subscriptions that look at the past: Allen's relations one by one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import tidegate as tg
from tests.patterns.past_by_hand import TOLERATED, TOLERATED_POINTS
from tests.patterns.past_events import counted, event, ids, part
from tests.patterns.strategies import RELATIONS, at


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
