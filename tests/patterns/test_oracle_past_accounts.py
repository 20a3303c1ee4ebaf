"""Examples made by hand that pin the oracle to whose past it is: who subscribed when, what was refused, late or
forgotten, and what a history shows.
"""

from __future__ import annotations

from tests.patterns.by_hand import at, pub, sub
from tests.patterns.oracle import World
from tests.patterns.past_by_hand import begin, end, event, ids, past_world, told_of


def test_a_subscription_does_not_see_what_was_before_it():
    made = past_world("T_AFTER(time, past(TRUE))")
    made.publish([pub("a", 0), begin("b", 0)])
    made.subscribe(sub("T_AFTER(time, past(TRUE))", "late"))
    assert ids(made, pub("c", 1)) == "s0:c"
    assert ids(made, end("b", 2)) == "s0:b", "its START is unknown to the later one"
    assert ids(made, pub("d", 3)) == "late:d s0:d"
    assert made.refused == {}


def test_before_the_first_subscription_nothing_is_known():
    made = World()
    made.publish([begin("a", 0)])
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    assert ids(made, end("a", 1), pub("b", 2)) == ""
    assert made.refused == {"end without start": 1}


def test_when_the_last_subscription_goes_all_is_forgotten():
    made = past_world("T_AFTER(time, past(TRUE))")
    made.publish([begin("a", 0)])
    made.unsubscribe("s0")
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    assert ids(made, begin("a", 1), pub("b", 2), end("a", 3), pub("c", 4)) == "a c", "a at its END, which is after b"
    assert made.refused == {}


def test_one_of_two_subscriptions_may_go():
    made = past_world("T_AFTER(time, past(TRUE))", "T_DURING(time, past(TRUE))")
    made.publish([begin("a", 0)])
    made.unsubscribe("s0")
    assert ids(made, pub("b", 1)) == "b"


def test_refused():
    made = past_world("TRUE OR T_AFTER(time, past(TRUE))")
    assert ids(made, end("a", 0)) == ""
    assert ids(made, begin("a", 1), begin("a", 2), event("a", 2, phase="INSTANT")) == "a"
    assert ids(made, end("a", 3, 0), end("a", 3, start=0), event("b", 3, 3, 4, phase="START")) == ""
    assert ids(made, event("c", 3, 3, 4, phase="INSTANT"), end("a", 4), end("a", 5), begin("a", 6)) == "a"
    assert made.refused == {
        "end without start": 2, "second start": 3, "end before start": 1, "other start": 1, "start with an end": 1,
        "instant that lasts": 1,
    }  # fmt: skip


def test_refused_are_not_remembered():
    where = "T_EQUALS(time, past(n = 9))"
    assert told_of(where, end("a", 1, n=9), pub("b", 1)) == ""
    assert told_of(where, event("a", 1, 1, 2, phase="INSTANT", n=9), pub("b", 1), pub("c", 2)) == ""
    where = "T_DURING(time, past(n = 9))"
    assert told_of(where, event("a", 1, 1, 2, phase="START", n=9), pub("b", 1), begin("a", 1), pub("c", 1)) == ""
    assert told_of(where, begin("a", 1), begin("a", 2, n=9), pub("b", 3)) == ""


def test_a_refused_end_leaves_its_event_running():
    where = "T_DURING(time, past(n = 9))"
    assert told_of(where, begin("a", 5, n=9), end("a", 6, 4), pub("b", 7), end("a", 8), pub("c", 9)) == "b"


def test_ids_of_whole_events_are_not_compared():
    made = past_world("T_AFTER(time, past(TRUE))")
    assert ids(made, event("a", 0), event("a", 1, phase="INSTANT"), begin("a", 2), end("a", 3)) == "a a a"
    assert made.refused == {}
    assert ids(made, begin("b", 4), event("b", 5), event("b", 6, phase="INSTANT"), end("b", 7)) == "b b b"
    assert made.refused == {"second start": 1}, "an INSTANT is compared with those that start and end"


def test_activity_bounds_what_is_told_of_and_not_what_is_remembered():
    made = World()
    made.subscribe(sub("T_AFTER(time, past(TRUE))", active_from=5, active_until=7))
    assert ids(made, *(pub(str(i), i) for i in range(3, 9))) == "5 6"


def test_late_publications_are_not_seen():
    made = past_world("T_AFTER(time, past(TRUE))")
    assert ids(made, pub("a", 5), pub("b", 4), pub("c", 5)) == "", "or c would be after b"
    assert made.late == 1


def test_lateness_restores_the_order():
    made = past_world("T_AFTER(time, past(n = 9))", lateness=3)
    assert ids(made, pub("b", 5), pub("a", 4, n=9), pub("c", 8.5)) == "b"
    assert [t.publications for t in made.advance(at(20))] == [("c",)]


def test_lateness_and_a_later_subscription():
    #     b and a wait; the subscription is made; what appeared before it is not for it
    made = past_world("T_AFTER(time, past(TRUE))", lateness=3)
    made.publish([pub("b", 5), pub("a", 4)])
    made.subscribe(sub("T_AFTER(time, past(TRUE))", "late"))
    made.publish([pub("c", 6)])
    assert [(t.subscription, *t.publications) for t in made.advance(at(20))] == [("s0", "b"), ("s0", "c")]


def test_forgetting_by_age():
    #     with 5 seconds
    where = "T_AFTER(time, past(n = 9))"
    some = [event("Y", 10, 0, 1, n=9), pub("a", 15), pub("b", 15.000001)]
    assert told_of(where, *some, keep=5) == "a", "counted from the time of its publication, not from its end"
    some = [begin("Y", 0, n=9), pub("a", 50), end("Y", 60), pub("b", 65), pub("c", 66)]
    assert told_of("T_INTERSECTS(time, past(n = 9)) OR T_AFTER(time, past(n = 9))", *some, keep=5) == "a b"


def test_a_forgotten_id_may_start_again():
    made = past_world("T_AFTER(time, past(TRUE))", keep=5)
    ids(made, begin("a", 0), end("a", 1), begin("a", 6), begin("a", 6.5))
    assert made.refused == {"second start": 1}, "five seconds are not over at 6"
    ids(made, begin("a", 99))
    assert made.refused == {"second start": 2}, "it is running"
    ids(made, end("a", 100), end("a", 200))
    assert made.refused == {"second start": 2, "end without start": 1}


def test_values_age_with_their_publication():
    some = [begin("Y", 0, n=9), end("Y", 4, n=1), pub("a", 5, n=9), pub("b", 5.1, n=9, t="b")]
    assert told_of("n = past(n, t IS NULL AND phase = 'START')", *some, keep=5) == "a"


def test_history_shows_later_subscriptions_what_it_remembers():
    made = World(history=True)
    made.subscribe(sub("T_AFTER(time, past(n = 9))"))
    made.publish([pub("a", 0, n=9), pub("b", 1, n=8), begin("c", 2), end("c", 3, n=9), pub("d", 4, n=7)])
    made.subscribe(sub("n = past(n, TRUE)", "late"))
    assert ids(made, pub("e", 5, n=8), pub("f", 5, n=7), pub("g", 5, n=9)) == "s:e s:f late:g s:g"


def test_history_has_all_starts_and_ends():
    made = World(history=True)
    made.subscribe(sub("T_AFTER(time, past(n = 9))"))
    made.publish([begin("c", 2, n=5), end("c", 3, n=9), begin("d", 4, n=5)])
    made.subscribe(sub("T_CONTAINS(event, past(n = 5))", "late"))
    assert ids(made, event("e", 5, 1, 6)) == "late:e s:e", "c has ended, d has not"


def test_history_shows_things_as_they_were():
    #     a was during Y, which was running then; that Y had ended before a was told later
    made = World(history=True)
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    made.publish([begin("Y", 1, n=9), pub("a", 2, n=8), end("Y", 3, 1.5)])
    made.subscribe(sub("T_AFTER(time, past(n = 8 AND T_DURING(time, past(n = 9))))", "late"))
    made.subscribe(sub("T_DURING(time, past(n = 9))", "last"))
    assert ids(made, pub("b", 4)) == "late:b s:b", "and Y has its end again"


def test_history_counts():
    made = World(history=True, most=2)
    made.subscribe(sub("T_AFTER(time, past(TRUE))"))
    assert ids(made, pub("a", 0), pub("b", 5), pub("c", 5), pub("d", 5), pub("e", 5)) == "b c"
