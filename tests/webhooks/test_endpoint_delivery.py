"""What an endpoint is sent that is changed or removed at the worst moments: between a look and what follows from it."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic

import orjson
import pytest

from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.webhook_url import rules_of
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.queue_directory import Queue
from tidegate.store.webhook_secrets import made
from tidegate.store.webhook_tables import Batch, Progress, Replay, Webhook
from tidegate.webhooks.endpoint_delivery import DeliveryParts, EndpointDelivery
from tidegate.webhooks.endpoint_states import Failure, RetrySchedule, State
from tidegate.webhooks.post_rooms import PostRooms, RoomSizes
from tidegate.webhooks.posting import PostOutcome
from tidegate.webhooks.queue_pages import ReadPage
from tidegate.webhooks.sender_counts import SenderCounts

NOW = 1_763_193_600_000_000
QUEUE = Queue(1, "ann", "webhook:hook", "e")


def webhook(url="https://example.com/a", revision=1, state=State.ACTIVE, batch=None):
    return Webhook("ann", "hook", url, batch, made(), None, None, NOW, revision, Progress(state))


def item(number):
    body = {"number": number, "type": "notification", "matched_at": "2025-11-15T08:00:00.000000Z", "publication": {}}
    return EncodedItem("notification", number, orjson.dumps(body))


class Pages:
    """A queue in memory. ``then`` is called while a page is read."""

    def __init__(self, count):
        self.items = [item(n) for n in range(1, count + 1)]
        self.acknowledged, self.then = 0, lambda: None

    async def read(self, wanted):
        self.then()
        after = self.acknowledged if wanted.after is None else wanted.after.number
        return ReadPage(QUEUE, [one for one in self.items if one.number > after][: wanted.items], monotonic())

    def acknowledge(self, queue, number):
        self.acknowledged = number

    async def matched_at(self, queue, number):
        return NOW


class Posts:
    """Notes what is posted where; ``then`` is called meanwhile."""

    def __init__(self):
        self.made, self.outcomes, self.then = [], deque(), lambda: None
        self.used_at, self.is_open = monotonic(), False

    async def post(self, url, headers, body, network):
        found = orjson.loads(body)
        self.made.append((url.target, found.get("number", found["type"]) if "type" in found else "batch"))
        self.then()
        outcome = self.outcomes.popleft() if self.outcomes else PostOutcome("answered", None, b"", 0.0)
        if found.get("type") == "url_verification" and outcome.failure is None:
            return outcome._replace(body=found["challenge"].encode())
        return outcome

    async def close(self):
        pass


class Records:
    """Notes nothing but how far replays are."""

    def __init__(self):
        self.noted, self.steps = [], []

    def note(self, webhook, progress):
        self.noted.append((webhook.revision, progress.state))

    async def unbury(self, *given):
        pass

    async def step_replay(self, replay, position):
        self.steps.append(position)


def turns(pages, posts, work, first=None, count=1):
    """Give an endpoint turns; ``work`` is given the delivery before. The delivery, and its records."""

    async def once():
        section, records = WebhooksSection(), Records()
        parts = DeliveryParts(
            pages=pages,
            rooms=PostRooms(RoomSizes(1, 1, 1)),
            records=records,
            counts=SenderCounts(),
            schedule=RetrySchedule.of(section),
            rules=rules_of(section),
            networks=lambda room: None,
            clock=lambda: NOW,
            draw=lambda: 1.0,
            page_bytes=1 << 20,
        )
        delivery = EndpointDelivery(first or webhook(), posts, parts)
        work(delivery)
        for _ in range(count):
            await delivery.turn()
        return delivery, records

    return asyncio.run(once())


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
