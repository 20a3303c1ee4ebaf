"""Examples made by hand that pin the oracle to what relations to past events mean, with limits and tolerances."""

from __future__ import annotations

import pytest

from tests.patterns.by_hand import at, pub
from tests.patterns.past_by_hand import TOLERATED, TOLERATED_POINTS, begin, end, event, ids, past_world, told_of


def test_a_point_during_an_event():
    #       2         5
    #     Y [─────────]
    #    a  b    c    d  e       the bounds are inside
    y = event("Y", 0, 2, 5, n=9)
    points = [event(id, second) for id, second in (("a", 1.999999), ("b", 2), ("c", 3), ("d", 5), ("e", 5.000001))]
    assert told_of("T_DURING(time, past(n = 9))", y, *points) == "b c d"
    assert told_of("T_INTERSECTS(start, past(n = 9))", y, *points) == "b c d"
    assert told_of("T_DISJOINT(end, past(n = 9))", y, *points) == "a e"
    assert told_of("T_AFTER(time, past(n = 9))", y, *points) == "e"
    assert told_of("T_BEFORE(time, past(n = 9))", y, *points) == "a"
    assert told_of("T_EQUALS(time, past(n = 9))", y, *points) == ""
    assert told_of("T_EQUALS(time, past(n = 9))", event("Y", 0, 3, n=9), *points) == "c"


def test_all_of_allens_relations():
    #     2         6
    #   Y [─────────]        and one event for each of them
    named = {
        "T_BEFORE": (0, 1), "T_MEETS": (0, 2), "T_OVERLAPS": (0, 4), "T_STARTS": (2, 4), "T_DURING": (3, 5),
        "T_FINISHES": (4, 6), "T_EQUALS": (2, 6), "T_FINISHEDBY": (0, 6), "T_CONTAINS": (0, 8),
        "T_STARTEDBY": (2, 8), "T_OVERLAPPEDBY": (4, 8), "T_METBY": (6, 8), "T_AFTER": (7, 8),
    }  # fmt: skip
    y, some = event("Y", 0, 2, 6, n=9), [event(name, 9, *when) for name, when in named.items()]
    for name in named:
        assert told_of(f"{name}(event, past(n = 9))", y, *some) == name
    assert told_of("T_DISJOINT(event, past(n = 9))", y, *some) == "T_BEFORE T_AFTER"
    assert told_of("NOT T_INTERSECTS(event, past(n = 9))", y, *some) == "Y T_BEFORE T_AFTER", (
        "at Y there is nothing yet"
    )
    assert told_of("T_INTERSECTS(event, past(n = 9))", y, *some) == " ".join(list(named)[1:-1])


def test_a_running_event_ends_after_everything():
    #     1
    #   Y [───────────▶
    #        a     b      END of Y at 6, told at 6
    made = past_world("T_DURING(time, past(n = 9))", "T_AFTER(time, past(n = 9))", "T_OVERLAPS(event, past(n = 9))")
    assert ids(made, begin("Y", 1, n=9), event("a", 3), event("b", 1000)) == "s0:a s0:b"
    assert ids(made, event("c", 1000, 0, 5)) == "s0:c s2:c", "it overlaps what has not ended"
    assert ids(made, end("Y", 1001, 6), event("d", 1001), event("e", 1001, 0, 5)) == "s1:d s1:e s2:e"


def test_what_does_not_need_the_end_of_a_running_event():
    made = past_world(
        "T_STARTS(event, past(n = 9))", "T_FINISHES(event, past(n = 9))", "T_EQUALS(event, past(n = 9))",
        "T_MEETS(event, past(n = 9))", "T_METBY(event, past(n = 9))", "T_DISJOINT(event, past(n = 9))",
    )  # fmt: skip
    assert ids(made, begin("Y", 2, n=9), event("a", 5, 2, 4), event("b", 5, 0, 2), event("c", 5, 0, 1)) == (
        "s0:a s3:b s5:c"
    )


def test_a_publication_never_meets_its_own_event():
    assert told_of("T_EQUALS(event, past(TRUE))", event("a", 1), event("b", 2)) == ""
    assert told_of("T_DURING(time, past(TRUE))", begin("a", 1), end("a", 2)) == ""
    #     START and END are of one event; another of the same times is another
    assert told_of("T_EQUALS(event, past(TRUE))", begin("a", 1), end("a", 2), event("b", 2, 1, 2)) == "b"


def test_whole_events_of_one_id_are_two():
    assert told_of("T_EQUALS(event, past(TRUE))", event("a", 1, 0, 1), event("a", 2, 0, 1)) == "a"
    assert told_of("T_EQUALS(event, past(TRUE))", event("a", 1, phase="INSTANT"), event("a", 1)) == "a"


def test_defaults_of_whole_events():
    #     start or end or time, whichever is there
    where = "T_EQUALS(event, past(n = 9))"
    assert told_of(where, event("Y", 7, 3, n=9), event("a", 7, None, 3), event("b", 3), event("c", 3, 3, 7)) == "a"
    made = past_world(where)
    assert ids(made, event("Y", 7, None, None, n=9), event("a", 8, 7), event("b", 8)) == "a"


def test_start_and_end_of_parts():
    made = past_world("T_DURING(start, past(n = 9))", "T_DURING(end, past(n = 9))", "T_INTERSECTS(event, past(n = 9))")
    assert ids(made, event("Y", 0, 0, 9, n=9), begin("a", 2)) == "s0:a", "a START has no end and is no interval yet"
    assert ids(made, end("a", 3)) == "s1:a s2:a", "an END has no start of its own"
    assert ids(made, begin("b", 4), end("b", 5, start=4)) == "s0:b s0:b s1:b s2:b", "unless it brings it"


def test_the_interval_of_an_end_begins_with_its_start():
    #     2      5
    #   Y [──────]        a starts at 2, and ends at 5 or later
    where = "T_EQUALS(event, past(n = 9))"
    assert told_of(where, event("Y", 0, 2, 5, n=9), begin("a", 2), end("a", 5)) == "a"
    assert told_of(where, event("Y", 0, 2, 5, n=9), begin("a", 1, 2), end("a", 6, 5, start=2)) == "a"
    assert told_of(where, event("Y", 0, 2, 5, n=9), begin("a", 2), end("a", 6)) == ""


def test_an_attribute_as_a_point():
    where = "T_DURING(when, past(n = 9))"
    y = event("Y", 0, 2, 5, n=9)
    assert told_of(where, y, pub("a", 9, when=at(3)), pub("b", 9, when=at(6)), pub("c", 9), pub("d", 9, when=3)) == "a"
    assert told_of(f"NOT {where}", y, pub("a", 9, when=at(3)), pub("b", 9, when=at(6)), pub("c", 9)) == "b"
    assert told_of(f"NOT {where}", pub("d", 9, when=3), pub("e", 9, when="x")) == ""


def test_what_is_remembered_passed_the_filter():
    assert told_of("T_AFTER(time, past(n > 1))", pub("a", 0, n=1), pub("b", 1, n=2), pub("c", 2), pub("d", 3)) == "c d"


def test_nothing_is_past_at_first():
    assert told_of("T_AFTER(time, past(TRUE))", pub("a", 0), pub("b", 0), pub("c", 1)) == "c"
    assert told_of("NOT T_AFTER(time, past(TRUE))", pub("a", 0), pub("b", 0), pub("c", 1)) == "a b"


def test_the_order_of_one_moment():
    #     b comes before c of the same time by id, and a START before an END of the same id
    made = past_world("T_EQUALS(time, past(TRUE))")
    assert [t.publications for t in made.publish([pub("c", 1), pub("b", 1)])] == [("c",)]
    made = past_world("T_DURING(time, past(n = 9))")
    assert [t.publications for t in made.publish([end("a", 1, n=9), begin("a", 1), pub("b", 1)])] == [("b",)]
    assert made.refused == {}


def test_order_of_appearance_between_batches():
    assert told_of("T_EQUALS(time, past(TRUE))", pub("b", 1), pub("a", 1)) == "a"


def test_an_end_gives_its_end_though_it_passes_nothing():
    #     START passes n = 9, END has no n
    where = "T_AFTER(time, past(n = 9))"
    assert told_of(where, begin("Y", 1, n=9), pub("a", 2), end("Y", 3), pub("b", 4)) == "b"


def test_an_event_may_be_remembered_from_its_end_on():
    #     only the END passes: until then nobody knows it
    where = "T_DURING(time, past(n = 9))"
    assert told_of(where, begin("Y", 1), pub("a", 2), end("Y", 5, 8, n=9), pub("b", 6), pub("c", 9)) == "b"
    assert told_of("T_METBY(event, past(n = 9))", begin("Y", 1), end("Y", 5, n=9), event("a", 6, 5, 6)) == "a"


def test_limits():
    #     0    2             Y ended at 2
    #   Y [────]   5 6 7     with a limit of 4 seconds
    where = "T_AFTER(time, past(n = 9, 'PT4S'))"
    some = [pub("a", 2), pub("b", 2.000001), pub("c", 6), pub("d", 6.000001)]
    assert told_of(where, event("Y", 0, 0, 2, n=9), *some) == "b c"
    assert told_of("T_AFTER(time, past(n = 9, '..'))", event("Y", 0, 0, 2, n=9), *some) == "b c d"


def test_a_limit_counts_from_the_start_of_an_interval():
    where = "T_AFTER(event, past(n = 9, 'PT4S'))"
    y = event("Y", 0, 0, 2, n=9)
    assert told_of(where, y, event("a", 9, 6, 90), event("b", 9, 6.000001, 90), event("c", 9, 3)) == "a c"


def test_a_limit_bounds_every_relation():
    where = "T_BEFORE(time, past(n = 9, 'PT1S'))"
    assert told_of(where, event("Y", 0, 5, 7, n=9), pub("a", 1)) == "a", "its end is not too long ago"
    assert told_of("T_CONTAINS(event, past(n = 9, 'PT1S'))", event("Y", 0, 5, 7, n=9), event("a", 9, 4, 8)) == "a"
    assert told_of("T_DISJOINT(time, past(n = 9, 'PT1S'))", event("Y", 0, n=9), pub("a", 1), pub("b", 2)) == "a"
    assert told_of("NOT T_DISJOINT(time, past(n = 9, 'PT1S'))", event("Y", 0, n=9), pub("a", 1), pub("b", 2)) == "Y b"


def test_running_events_are_in_any_limit():
    assert told_of("T_DURING(time, past(n = 9, 'PT1S'))", begin("Y", 0, n=9), pub("a", 500)) == "a"


def test_tolerances_of_points():
    #     2      5           half a second on either side
    #   Y [──────]
    y = event("Y", 0, 2, 5, n=9)
    some = [pub("a", 1.4), pub("b", 1.5), pub("c", 5.5), pub("d", 5.500001)]
    assert told_of("T_DURING(time, past(n = 9, '..', 'PT0.5S'))", y, *some) == "b c"
    assert told_of("T_AFTER(time, past(n = 9, '..', 'PT0.5S'))", y, pub("e", 4.5), pub("f", 4.500001)) == "f"
    assert told_of("T_BEFORE(time, past(n = 9, '..', 'PT0.5S'))", y, pub("e", 2.499999), pub("f", 2.5)) == "e"
    #     both near to the end and in reach: more than during and apart exclude each other
    assert told_of("T_DISJOINT(time, past(n = 9, '..', 'PT0.5S'))", y, pub("e", 2.4), pub("f", 3), pub("g", 5)) == "e g"


def test_tolerances_of_equality():
    where = "T_EQUALS({}, past(n = 9, '..', 'PT1S'))"
    y = event("Y", 0, 3, n=9)
    assert told_of(where.format("time"), y, pub("a", 1.9), pub("b", 2), pub("c", 4), pub("d", 4.1)) == "b c"
    y = event("Y", 0, 3, 5, n=9)
    assert told_of(where.format("time"), y, pub("a", 4)) == "a", "no more than a second from either end"
    assert told_of(where.format("event"), y, event("a", 9, 2, 6), event("b", 9, 4, 4), event("c", 9, 3, 7)) == "a b"


def test_tolerances_of_intervals():
    y, where = event("Y", 0, 2, 6, n=9), "T_{}(event, past(n = 9, '..', 'PT1S'))"
    assert told_of(where.format("MEETS"), y, event("a", 9, 0, 1), event("b", 9, 0, 3), event("c", 9, 0, 4)) == "a b"
    assert told_of(where.format("DURING"), y, event("a", 9, 1.5, 6.5), event("b", 9, 1, 6)) == "a"
    assert told_of(where.format("STARTS"), y, event("a", 9, 1, 6.5), event("b", 9, 1, 7)) == "a"
    assert told_of(where.format("OVERLAPS"), y, event("a", 9, 2.9, 6.9), event("b", 9, 3, 4)) == "a"


@pytest.mark.parametrize("relation", TOLERATED)
def test_every_relation_has_a_tolerance(relation):
    y, where = event("Y", 0, 4, 8, n=9), f"T_{relation}({{}}, past(n = 9, '..', 'PT1S'))"
    so, not_so = ([event(f"{when}", 20, *when) for when in some] for some in TOLERATED[relation])
    assert told_of(where.format("event"), y, *so, *not_so) == " ".join(p.id for p in so)
    if relation in TOLERATED_POINTS:
        so, not_so = ([pub(f"{when}", 20, when=at(when)) for when in some] for some in TOLERATED_POINTS[relation])
        assert told_of(where.format("when"), y, *so, *not_so) == " ".join(p.id for p in so)


def test_a_tolerance_widens_the_limit():
    where = "T_AFTER(time, past(n = 9, 'PT4S', 'PT1S'))"
    assert told_of(where, event("Y", 0, 0, 2, n=9), pub("a", 7), pub("b", 7.000001)) == "a"


def test_a_zero_length_event_starts_and_finishes_at_once():
    y = event("Y", 0, 3, n=9)
    made = past_world("T_MEETS(event, past(n = 9))", "T_METBY(event, past(n = 9))", "T_EQUALS(event, past(n = 9))",
                      "T_STARTS(event, past(n = 9))", "T_STARTEDBY(event, past(n = 9))")  # fmt: skip
    assert ids(made, y, event("a", 9, 3)) == "s0:a s1:a s2:a"
    assert ids(made, event("b", 9, 3, 4), event("c", 9, 2, 3)) == "s1:b s4:b s0:c"
