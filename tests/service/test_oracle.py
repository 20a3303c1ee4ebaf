"""Scripts of identity, initial matches, expiry and unpublishing by hand, with the outcome that the contract says."""

from tests.service.conditions import Compare
from tests.service.hand_made import HIGH, Walked, publication, publish, subscribe, unpublish
from tests.service.steps import (
    Advance,
    Cut,
    Death,
    Notification,
    Publish,
    Restart,
    Retracted,
    Skipped,
    Unsubscribe,
)

KILLED_BEFORE = Cut(Death.BEFORE_COMMIT)
KILLED_AFTER = Cut(Death.AFTER_COMMIT)


# Identity and dedupe


def test_what_comes_again_within_the_horizon_is_a_duplicate_and_with_other_content_a_conflict():
    walked = Walked(
        subscribe("p"),
        publish("1", a=5),
        publish("1", a=5.0),  # equal values
        publish("1", a=6),
        publish("1", a=5, valid_until=9),
        publish("1", source="z", a=6),  # of another source
        publish("1", "END", a=6),  # another phase
        Cut(),
    )
    assert walked.answers[1:7] == [
        ("accepted",),
        ("duplicate",),
        ("conflict",),
        ("conflict",),
        ("accepted",),
        ("accepted",),
    ]
    assert walked.queue() == ["1 publication 1: p", "2 publication 1: p", "3 publication 1 END: p"]


def test_each_of_a_batch_is_judged_after_those_before_it():
    batch = Publish((publication("1", a=1), publication("1", a=1), publication("1", a=2), publication("2", a=1)))
    assert Walked(batch).answers == [("accepted", "duplicate", "conflict", "accepted")]


def test_truth_is_no_number_and_a_missing_time_is_not_the_time_of_arrival():
    walked = Walked(publish("1", a=1), publish("1", a=True), publish("2", time=None), publish("2", time=None))
    assert walked.answers == [("accepted",), ("conflict",), ("accepted",), ("duplicate",)]
    assert Walked(publish("2", time=None), publish("2", time=0)).answers == [("accepted",), ("conflict",)]


def test_the_horizon_ends_with_its_last_moment_and_a_duplicate_does_not_renew_it():
    walked = Walked(
        subscribe("p"), publish("1"), Advance(23), publish("1"), Advance(1), publish("1"), publish("1"), Cut()
    )
    assert [walked.answers[place] for place in (3, 5, 6)] == [("duplicate",), ("accepted",), ("duplicate",)]
    assert walked.queue() == ["1 publication 1: p", "2 publication 1: p"]


def test_the_identity_of_a_valid_publication_counts_beyond_the_horizon():
    walked = Walked(
        publish("1", valid_until=30), Advance(29), publish("1", a=1), Advance(1), publish("1", a=1), publish("1", a=2)
    )
    assert [walked.answers[place] for place in (2, 4, 5)] == [("conflict",), ("accepted",), ("conflict",)]


def test_a_validity_of_more_than_the_most_is_refused_and_leaves_no_identity():
    walked = Walked(publish("1", valid_until=721), publish("1", valid_until=720))
    assert walked.answers == [("refused",), ("accepted",)]


# Initial matches


def test_initial_matches_come_first_by_row_and_live_ones_after_them():
    walked = Walked(
        subscribe("live"),
        publish("1", a=50, valid_until=9),
        publish("2", a=10, valid_until=9),
        publish("3", a=50),  # not kept: it has no validity
        publish("4", a=50, valid_until=9),
        subscribe("p", HIGH, initial=True),
        publish("5", a=50, valid_until=9),
        Cut(),
    )
    assert walked.queue() == [
        "1 initial 1: p",
        "2 initial 4: p",
        "3 publication 1: live",
        "4 publication 2: live",
        "5 publication 3: live",
        "6 publication 4: live",
        "7 publication 5: live p",
    ]


def test_subscriptions_that_begin_in_one_batch_share_their_initial_matches_and_an_empty_cut_brings_them():
    walked = Walked(
        publish("1", valid_until=9),
        Cut(),
        subscribe("p", initial=True),
        subscribe("q", initial=True),
        subscribe("r"),
        subscribe("m", initial=True, deliver="mqtt"),
        Cut(),
        Cut(),
    )
    assert walked.queue() == ["1 initial 1: p q"]
    assert walked.queue(destination="mqtt") == ["1 initial 1: m"]


def test_initial_matches_are_valid_at_the_time_of_the_first_cut():
    begin = (publish("1", valid_until=2), publish("2", valid_until=3), subscribe("p", initial=True, expired=True))
    assert Walked(*begin, Advance(1), Cut()).queue() == ["1 initial 1: p", "2 initial 2: p"]
    assert Walked(*begin, Advance(2), Cut()).queue() == ["1 initial 2: p"]
    assert Walked(*begin, Advance(3), Cut()).queue() == []


def test_a_batch_that_is_run_again_keeps_the_time_and_the_version_of_its_cut():
    begun = (publish("1", valid_until=2), subscribe("p", initial=True), Advance(1), KILLED_BEFORE)
    later = (Advance(1), subscribe("q", initial=True), publish("2", valid_until=9))
    assert Walked(*begun, *later).oracle.queues() == {}
    assert Walked(*begun, *later, Restart()).queue() == ["1 initial 1: p"]
    assert Walked(*begun, *later, Cut()).queue() == ["1 initial 1: p", "2 publication 2: p q"]


def test_a_subscription_that_ended_before_the_cut_has_live_matches_of_its_life_and_no_initial_ones():
    walked = Walked(
        publish("1", valid_until=9),
        subscribe("p", initial=True),
        publish("2", valid_until=9),
        Unsubscribe("ann", "p"),
        publish("3", valid_until=9),
        Cut(),
    )
    assert walked.queue() == ["1 publication 2: p"]


def test_replacing_ends_one_subscription_and_makes_another():
    walked = Walked(
        publish("1", a=50, valid_until=9),
        subscribe("p", HIGH, replace=True),  # there is nothing to replace
        subscribe("p", HIGH, initial=True),
        subscribe("p", HIGH, initial=True),
        subscribe("p", initial=True),
        Cut(),
        publish("2", a=60),
        subscribe("p", HIGH, replace=True, initial=True, fields="none"),
        publish("3", a=1),
        Cut(),
    )
    assert [walked.answers[place] for place in (1, 2, 3, 4, 7)] == ["refused", "made", "same", "refused", "replaced"]
    assert walked.queue() == [
        "1 initial 1: p",
        "2 initial 1: p",
        "3 publication 2: p",
    ]
    assert walked.read()[1] == Notification(2, ("s", "1", None), ("p",), True, {})


# Expiry


def test_expiry_is_judged_by_the_append_when_matching_and_by_the_clock_when_reading():
    steps = (
        subscribe("p"),
        subscribe("q", expired=True),
        publish("past", valid_until=-1, a=1),
        publish("now", valid_until=0, a=1),
        publish("later", valid_until=1, a=1),
        Advance(1),
        Cut(),
    )
    assert Walked(*steps).queue() == ["1 publication past: q", "2 publication now: q", "3 publication later: p q"]
    assert [item.subscriptions for item in Walked(*steps).read()] == [("q",), ("q",), ("q",)]


def test_expired_ones_are_skipped_as_one_range_and_named_only_for_who_wants_them():
    steps = (
        subscribe("p", fields=("a",)),
        publish("1", valid_until=3, a=1, b=1),
        publish("2", valid_until=3),
        publish("3", a=1),
        publish("4", valid_until=4),
        Cut(),
    )
    whole = Notification(3, ("s", "3", None), ("p",), False, {"a": 1})
    assert Walked(*steps, Advance(2)).read()[:1] == (Notification(1, ("s", "1", None), ("p",), False, {"a": 1}),)
    assert Walked(*steps, Advance(3)).read()[:2] == (Skipped(1, 2, "expired"), whole)
    assert Walked(*steps, Advance(4)).read(after=1) == (
        Skipped(2, 2, "expired"),
        whole,
        Skipped(4, 4, "expired"),
    )


# Unpublishing


def test_unpublishing_retracts_every_delivery_of_every_phase_in_every_queue():
    walked = Walked(
        subscribe("p"),
        subscribe("m", who="bob", where=Compare("phase", "=", "END")),
        publish("1", "START", valid_until=9),
        publish("1", "END"),
        publish("2"),
        Cut(),
        subscribe("q", initial=True),
        Cut(),
        unpublish("1"),
        publish("3"),
        Cut(),
    )
    assert walked.queue() == [
        "1 publication 1 START: p",
        "2 publication 1 END: p",
        "3 publication 2: p",
        "4 initial 1 START: q",
        "5 retracted 1 START: 1",
        "6 retracted 1 END: 2",
        "7 retracted 1 START: 4",
        "8 publication 3: p q",
    ]
    assert walked.queue("bob") == ["1 publication 1 END: m", "2 retracted 1 END: 1"]
    items = walked.read()
    assert items[0] == Skipped(1, 2, "unpublished")
    assert items[2:] == (
        Skipped(4, 4, "unpublished"),
        Retracted(5, 1),
        Retracted(6, 2),
        Retracted(7, 4),
        Notification(8, ("s", "3", None), ("p", "q"), False, {}),
    )


def test_what_is_withdrawn_in_its_own_batch_is_delivered_and_retracted_in_the_order_of_the_log():
    walked = Walked(subscribe("p"), publish("1"), unpublish("1"), publish("2"), Cut())
    assert walked.queue() == ["1 publication 1: p", "2 retracted 1: 1", "3 publication 2: p"]


def test_a_withdrawn_publication_is_no_initial_match_from_the_cut_that_has_its_tombstone():
    begin = (publish("1", valid_until=9), publish("2", valid_until=9), Cut())
    assert Walked(*begin, subscribe("p", initial=True), unpublish("1"), Cut()).queue() == ["1 initial 2: p"]
    late = Walked(*begin, subscribe("p", initial=True), KILLED_BEFORE, unpublish("1"), Restart())
    assert late.queue() == ["1 initial 1: p", "2 initial 2: p"]


def test_unpublishing_finds_what_is_within_the_horizon_or_valid_once_and_does_not_free_the_identity():
    walked = Walked(
        unpublish("1"),
        publish("1", a=1),
        unpublish("1"),
        unpublish("1"),
        publish("1", a=1),
        publish("1", a=2),
        publish("1", "END"),
        unpublish("1"),
        publish("2"),
        publish("3", valid_until=26),
        Advance(24),
        unpublish("2"),
        Advance(1),
        unpublish("3"),
    )
    assert walked.answers[:8] == [False, ("accepted",), True, False, ("duplicate",), ("conflict",), ("accepted",), True]
    assert walked.answers[11] is False
    assert walked.answers[13] is True


def test_a_reader_learns_of_a_withdrawal_with_its_cut():
    steps = (subscribe("p"), publish("1"), Cut(), unpublish("1"))
    told = Notification(1, ("s", "1", None), ("p",), False, {})
    assert Walked(*steps).read() == (told,)
    assert Walked(*steps, KILLED_AFTER).read() is None  # left open while the runner is down in this batch
    assert Walked(*steps, KILLED_AFTER, Restart()).read() == (Skipped(1, 1, "unpublished"), Retracted(2, 1))
