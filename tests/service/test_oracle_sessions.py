"""Scripts of reading, sessions, kills and backups by hand, with the outcome that the contract of the service says."""

from tests.service.conditions import Compare
from tests.service.hand_made import HIGH, Walked, publish, subscribe, unpublish
from tests.service.steps import (
    Advance,
    Backup,
    Cut,
    Death,
    Gap,
    Maintain,
    Notification,
    Read,
    Register,
    Restart,
    Restore,
    SetRead,
    Skipped,
    Unregister,
    Unsubscribe,
)

KILLED_BEFORE = Cut(Death.BEFORE_COMMIT)
KILLED_AFTER = Cut(Death.AFTER_COMMIT)


# What may be read


def test_read_is_part_of_every_condition_and_filters_the_backlog_and_retractions():
    walked = Walked(
        SetRead("ann", HIGH),
        subscribe("p"),
        publish("1", a=50),
        publish("2", a=10),
        publish("3", a=90),
        Cut(),
        unpublish("1"),
        Cut(),
        SetRead("ann", Compare("a", ">", 60)),
    )
    assert walked.queue() == ["1 publication 1: p", "2 publication 3: p", "3 retracted 1: 1"]
    assert walked.read() == (
        Skipped(1, 1, "unreadable"),
        Notification(2, ("s", "3", None), ("p",), False, {"a": 90}),
        Skipped(3, 3, "unreadable"),
    )
    walked.oracle.set_read(SetRead("ann", None))
    assert walked.read()[0] == Skipped(1, 1, "unpublished")


def test_a_changed_read_remakes_subscriptions_and_their_initial_matches_are_not_told_again():
    walked = Walked(
        SetRead("ann", HIGH),
        publish("1", a=50, valid_until=9),
        publish("2", a=1, valid_until=9),
        subscribe("p", initial=True),
        Cut(),
        SetRead("ann", HIGH),
        Cut(),
        publish("3", a=50),
        SetRead("ann", None),
        Cut(),
    )
    assert walked.queue() == ["1 initial 1: p", "2 publication 3: p"]


def test_what_is_remade_before_its_first_cut_has_the_initial_matches_of_when_it_was_made():
    walked = Walked(
        SetRead("ann", HIGH),
        publish("1", a=1, valid_until=9),
        subscribe("p", initial=True),
        publish("2", a=1, valid_until=9),
        SetRead("ann", None),
        publish("3", a=1, valid_until=9),
        Cut(),
    )
    assert walked.queue() == ["1 initial 1: p", "2 publication 3: p"]


# Sessions


def test_a_queue_begins_with_registration_or_subscription_and_ends_with_unregistering():
    walked = Walked(Register("ann"), Register("ann"), subscribe("m", who="bob", deliver="mqtt"))
    assert walked.oracle.queues() == {}
    walked.oracle.cut(Cut())
    assert sorted(walked.oracle.queues()) == [("ann", "stream"), ("bob", "mqtt"), ("bob", "stream")]
    assert walked.oracle.unregister(Unregister("ann"))
    assert not walked.oracle.unregister(Unregister("ann"))
    walked.oracle.cut(Cut())
    assert sorted(walked.oracle.queues()) == [("bob", "mqtt"), ("bob", "stream")]


def test_unregistering_drops_what_the_runner_has_still_to_tell_and_a_new_session_has_a_new_epoch():
    steps = (
        subscribe("p"),
        publish("1", valid_until=9),
        Cut(),
        publish("2"),
        Unregister("ann"),
        subscribe("q", initial=True),
        publish("3"),
    )
    before = Walked(*steps)
    assert before.queue() == ["1 publication 1: p"]
    assert before.read() == ()
    after = Walked(*steps, Cut())
    assert after.queue() == ["1 initial 1: q", "2 publication 3: q"]
    assert after.epoch() != before.epoch()


def test_subscriptions_are_active_by_event_time_and_end_a_lateness_after_active_until():
    walked = Walked(
        subscribe("p", active_from=-2, active_until=1),
        publish("1", time=-3),
        publish("2", time=-2),
        publish("3", time=0),
        Advance(1),
        publish("4", time=1),
        publish("5", time=0),
        Advance(1),
        Maintain(),
        publish("6", time=0),
        Advance(1),
        Maintain(),
        publish("7", time=0),
        Unsubscribe("ann", "p"),
        Cut(),
    )
    assert walked.queue() == [f"{n} publication {id}: p" for n, id in enumerate(("2", "3", "5", "6"), start=1)]
    assert walked.answers[13] is False


def test_bounds_of_activity_without_time_between_them_are_refused():
    walked = Walked(subscribe("p", active_from=1, active_until=1), subscribe("p", active_from=1, active_until=2))
    assert walked.answers == ["refused", "made"]


def test_reading_beyond_the_end_begins_with_a_gap_and_at_the_end_is_nothing():
    walked = Walked(subscribe("p"), publish("1"), Cut())
    told = Notification(1, ("s", "1", None), ("p",), False, {})
    assert walked.read(after=1) == ()
    assert walked.read(after=2) == (Gap(), told)
    assert walked.read("nobody", after=2) == ()


# Kills and backups


def test_kills_between_and_after_commits_change_nothing():
    one = (subscribe("p"), publish("1", valid_until=9), unpublish("1"), publish("2"))
    two = (publish("3"), subscribe("q", initial=True))
    calm = Walked(*one, Cut(), *two, Cut())
    assert Walked(*one, Restart(), KILLED_AFTER, *two, Restart(), Cut()).queue() == calm.queue()
    assert Walked(*one, KILLED_BEFORE, Restart(), *two, KILLED_BEFORE, KILLED_AFTER).queue() == calm.queue()


def test_a_restore_is_the_moment_of_the_backup_with_new_epochs():
    backed_up = (subscribe("p"), publish("1"), Cut(), publish("2"), Backup())
    since = (publish("3"), unpublish("1"), subscribe("q"), Cut(), Advance(5))
    walked = Walked(*backed_up, *since, Restore(), publish("3", a=1), unpublish("2"), publish("1"), Cut())
    assert walked.answers[-4:-1] == [("accepted",), True, ("duplicate",)]
    assert walked.queue() == ["1 publication 1: p", "2 publication 2: p", "3 publication 3: p", "4 retracted 2: 2"]
    assert walked.epoch() != Walked(*backed_up).epoch()
    assert walked.oracle.clock == 5


def test_a_backup_is_not_changed_by_what_follows_a_restore():
    steps = (subscribe("p"), publish("1"), Cut(), Backup(), Restore(), publish("2"), Cut(), Restore(), Cut())
    assert Walked(*steps).queue() == ["1 publication 1: p"]


def test_the_answer_of_a_read_step_is_what_a_reader_is_given():
    walked = Walked(subscribe("p"), publish("1"), Cut(), Read("ann"))
    assert walked.answers[-1] == (Notification(1, ("s", "1", None), ("p",), False, {}),)
