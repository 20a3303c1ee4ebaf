"""What an endpoint is sent that is changed or removed at the worst moments: between a look and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from tests.webhooks.one_endpoint import NOW, Pages, Posts, item, left_out, turns, webhook
from tidegate.broker.encoded_items import EncodedItem
from tidegate.errors import StoreError
from tidegate.store.webhook_tables import Batch, Progress, Replay
from tidegate.webhooks.endpoint_states import Failure, State
from tidegate.webhooks.post_rooms import Room
from tidegate.webhooks.posted_bodies import posted_body
from tidegate.webhooks.posting import PostOutcome


def test_another_address_is_told_nothing_before_it_is_verified():
    """It is changed while a page is read for the one before, or while that is posted to."""
    for while_reading in (True, False):
        pages, posts = Pages(3), Posts()
        other = webhook("https://example.com/b", 2, State.UNVERIFIED)

        def change(delivery, pages=pages, posts=posts, while_reading=while_reading, other=other):
            where = pages if while_reading else posts

            def then():
                where.then = lambda: None
                delivery.change(other)

            where.then = then

        delivery, records = turns(pages, posts, change, count=3)
        before = [] if while_reading else [("/a", 1)]
        assert posts.made == [*before, ("/b", "url_verification"), *(("/b", n) for n in range(len(before) + 1, 4))]
        assert delivery.progress.state == State.ACTIVE
        assert {revision for revision, _ in records.noted} == {2}


def test_one_that_is_removed_meanwhile_is_told_nothing():
    pages, posts = Pages(3), Posts()

    def remove(delivery):
        def then():
            delivery.is_removed = True

        pages.then = then

    turns(pages, posts, remove, count=2)
    assert posts.made == []


def test_what_fails_after_a_change_does_not_count_against_what_it_was_changed_to():
    pages, posts = Pages(1), Posts()
    posts.outcomes.append(PostOutcome("gone", Failure("status 410", is_gone=True), b"", 0.0))
    batched = webhook(revision=2, batch=Batch(9, 1000))

    def change(delivery):
        posts.then = lambda: delivery.change(batched)

    delivery, records = turns(pages, posts, change)
    assert (delivery.progress.state, records.noted, pages.acknowledged) == (State.ACTIVE, [], 0)


def test_a_page_is_used_for_a_moment_only(monkeypatch):
    monkeypatch.setattr("tidegate.webhooks.endpoint_delivery._FRESH", -1.0)
    pages, posts = Pages(4), Posts()
    turns(pages, posts, lambda delivery: None, count=2)
    assert posts.made == [("/a", 1), ("/a", 2)]  # the first of a page in any case, so that it goes on


def test_an_address_that_is_permitted_no_more_is_not_posted_to():
    pages, posts = Pages(1), Posts()
    delivery, _ = turns(pages, posts, lambda delivery: None, webhook("http://10.0.0.1/a"))
    assert (posts.made, delivery.progress.failures) == ([], 1)
    assert "permits" in delivery.progress.reason


@pytest.mark.parametrize("state", [State.DISABLED, State.UNVERIFIED])
def test_what_is_sent_again_waits_as_everything_does(state):
    pages, posts = Pages(5), Posts()
    pages.acknowledged = 5

    def work(delivery):
        delivery.replays = [Replay("r", "ann", "hook", "e", 1, 3, NOW)]

    _, records = turns(pages, posts, work, webhook(state=state), count=4)
    if state == State.DISABLED:
        assert posts.made == []
    else:
        assert posts.made == [("/a", "url_verification"), ("/a", 2), ("/a", 3)]
        assert records.steps == [3]


BROKEN = PostOutcome("status", Failure("status 500"), b"", 0.0)
#: It has taken nothing for four days, and one day.
FOUR_DAYS, ONE_DAY = NOW - 4 * 86_400_000_000, NOW - 86_400_000_000
DEAD = Progress(State.FAILING, 9, FOUR_DAYS, NOW - 1, "status 500")


def test_a_retry_that_finds_nothing_to_send_is_over():
    pages, posts = Pages(0), Posts()
    delivery, _ = turns(pages, posts, lambda delivery: None, webhook(progress=DEAD))
    assert (pages.reads, delivery.progress) == (1, DEAD._replace(retry_at=None))


def test_a_retry_that_is_due_later_stays_whatever_was_read_meanwhile():
    pages, posts = Pages(0), Posts()
    later = DEAD._replace(retry_at=NOW + 9)

    def work(delivery):
        pages.then = lambda: setattr(delivery, "progress", later)

    delivery, _ = turns(pages, posts, work, webhook(progress=DEAD))
    assert delivery.progress == later


@pytest.mark.parametrize(("gave_up", "given_up"), [(False, (1, 3)), (True, (1, 3))])
def test_of_a_batch_only_what_is_too_old_is_given_up(gave_up, given_up):
    pages, posts = Pages(6), Posts()
    pages.at = lambda number: FOUR_DAYS if number <= 3 else ONE_DAY
    posts.outcomes.append(BROKEN)
    one = webhook(batch=Batch(5, 10_000), progress=DEAD._replace(gave_up=gave_up))
    delivery, records = turns(pages, posts, lambda delivery: None, one)
    assert (records.buried, pages.acknowledged) == ([given_up], given_up[1])
    assert delivery.due_in == (1024.0 if gave_up else 0.0)


def test_a_batch_whose_last_is_young_does_not_keep_its_first_for_ever():
    pages, posts = Pages(9), Posts()
    pages.at = lambda number: FOUR_DAYS if number <= 7 else ONE_DAY
    posts.outcomes.extend([BROKEN, BROKEN])
    one = webhook(batch=Batch(5, 10_000), progress=DEAD)
    _, records = turns(pages, posts, lambda delivery: None, one, count=2)
    assert records.buried == [(1, 5), (6, 7)]


def test_an_endpoint_waits_also_while_what_is_given_up_cannot_be_written_down():
    pages, posts = Pages(1), Posts()
    pages.at = lambda number: FOUR_DAYS
    posts.outcomes.append(BROKEN)
    deliveries = []

    async def bury(*given):
        raise StoreError("room to write", "none")

    def work(delivery):
        deliveries.append(delivery)
        delivery._parts.records.bury = bury

    with pytest.raises(StoreError):
        turns(pages, posts, work, webhook(progress=DEAD))
    assert (deliveries[0].progress.failures, deliveries[0].due_in, pages.acknowledged) == (10, 1024.0, 0)


def test_what_waits_is_not_listed_as_dead_although_the_sender_was_killed_right_after_it_was():
    pages, posts = Pages(5), Posts()
    pages.acknowledged = 2
    _, records = turns(pages, posts, lambda delivery: None, webhook(progress=DEAD), count=2)
    assert records.unburied == [(3, 2**63 - 1)]
    _, records = turns(Pages(5), posts, lambda delivery: None)
    assert records.unburied == []  # nothing is given up by one that has not failed


def test_batches_of_other_numbers_have_other_ids():
    pages, posts = Pages(5), Posts()
    pages.acknowledged = 3

    def work(delivery):
        delivery.replays = [Replay("r", "ann", "hook", "e", 0, 5, NOW)]
        delivery._replayed_last = True

    turns(pages, posts, work, webhook(batch=Batch(9, 10_000)), count=2)
    assert posts.ids == ["e-4-5", "e-1-5"]


def test_what_tells_of_a_range_has_another_id_than_its_last_delivery():
    pages, posts = Pages(0), Posts()
    pages.items = [left_out(1, 3), left_out(4, 4, "gap"), item(5)]
    turns(pages, posts, lambda delivery: None)
    assert posts.ids == ["e-1-3", "e-4-4", "e-5"]


@pytest.mark.parametrize("type", ["skipped", "gap"])
def test_what_is_left_out_is_told_again_as_far_as_a_replay_reaches(type):
    pages, posts = Pages(2), Posts()
    pages.items += [left_out(3, 9, type), item(10)]
    pages.acknowledged = 10

    def work(delivery):
        delivery.replays = [Replay("r", "ann", "hook", "e", 1, 5, NOW)]

    _, records = turns(pages, posts, work, count=3)
    assert posts.ids == ["e-2", "e-3-5"]
    last = {"type": type, "from": 3, "number" if type == "skipped" else "to": 5, "reason": "unpublished"}
    assert (posts.bodies[-1], records.steps) == (last, [5])


def test_challenges_resolve_names_beside_those_that_fail_and_deliveries_do_not():
    posts = Posts()
    turns(Pages(1), posts, lambda delivery: None, webhook(state=State.UNVERIFIED), count=2)
    assert posts.networks == [Room.FAILING, Room.QUICK]


def test_a_challenge_waits_for_a_moment_after_the_one_before_however_it_is_asked_for():
    pages, posts = Pages(0), Posts()
    first = webhook(state=State.UNVERIFIED)

    def work(delivery):
        assert delivery.due_in == 0

        def then():
            posts.then = lambda: None
            delivery.change(webhook("https://example.com/b", 2, State.UNVERIFIED))

        posts.then = then

    delivery, _ = turns(pages, posts, work, first, count=3)
    assert (posts.made, delivery.due_in) == ([("/a", "url_verification")], 2.0)
    delivery.change(webhook(revision=3, state=State.UNVERIFIED))
    assert delivery.due_in == 2.0
    delivery.change(webhook(revision=4))
    assert delivery.due_in == 0


def test_a_subject_that_is_too_long_for_a_header_is_left_out():
    def headers(id):
        publication = {"source": "hut", "id": id}
        body = {"number": 1, "type": "notification", "publication": publication}
        return dict(posted_body(webhook(), "e", [EncodedItem("notification", 1, orjson.dumps(body))]).headers)

    assert headers("p%1")["ce-subject"] == "hut/p%25251"
    assert len(headers("x" * 1020)["ce-subject"]) == 1024
    for id in ("x" * 1021, "č" * 1000):
        assert "ce-subject" not in headers(id)


def test_an_endpoint_that_was_removed_and_made_again_is_sent_nothing_again():
    pages, posts = Pages(5), Posts()
    pages.acknowledged = 5
    other = replace(webhook(revision=2), created=NOW + 1)

    def work(delivery):
        delivery.replays = [Replay("r", "ann", "hook", "e", 0, 5, NOW)]
        posts.then = lambda: delivery.change(other)

    delivery, _ = turns(pages, posts, work, count=3)
    assert (posts.ids, delivery.replays) == (["e-1"], [])
