"""One endpoint in memory: a queue, a receiver and records that note what is asked, and turns that it is given."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic

import orjson

from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.webhook_url import rules_of
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.dead_letters import Forgotten
from tidegate.store.queue_directory import Queue
from tidegate.store.webhook_secrets import made
from tidegate.store.webhook_tables import Progress, Webhook
from tidegate.webhooks.endpoint_delivery import DeliveryParts, EndpointDelivery
from tidegate.webhooks.endpoint_states import RetrySchedule, State
from tidegate.webhooks.post_rooms import PostRooms, RoomSizes
from tidegate.webhooks.posting import PostOutcome
from tidegate.webhooks.queue_pages import ReadPage
from tidegate.webhooks.sender_counts import SenderCounts

__all__ = ["NOW", "QUEUE", "Pages", "Posts", "Records", "item", "left_out", "parts_of", "turns", "webhook"]

NOW = 1_763_193_600_000_000
QUEUE = Queue(1, "ann", "webhook:hook", "e")


def webhook(url="https://example.com/a", revision=1, state=State.ACTIVE, batch=None, progress=None):
    return Webhook("ann", "hook", url, batch, made(), None, None, NOW, revision, progress or Progress(state))


def item(number):
    body = {"number": number, "type": "notification", "matched_at": "2025-11-15T08:00:00.000000Z", "publication": {}}
    return EncodedItem("notification", number, orjson.dumps(body))


def left_out(begin, number, type="skipped"):
    """An item that tells of a range."""
    body = {"type": type, "from": begin, "number" if type == "skipped" else "to": number, "reason": "unpublished"}
    return EncodedItem(type, number, orjson.dumps(body))


class Pages:
    """A queue in memory. ``then`` is called while a page is read; ``at`` says by number when what was matched."""

    def __init__(self, count):
        self.items = [item(n) for n in range(1, count + 1)]
        self.acknowledged, self.reads, self.then = 0, 0, lambda: None
        self.at = lambda number: NOW

    async def read(self, wanted):
        self.reads += 1
        self.then()
        after = self.acknowledged if wanted.after is None else wanted.after.number
        return ReadPage(QUEUE, [one for one in self.items if one.number > after][: wanted.items], monotonic())

    def acknowledge(self, queue, number, *, is_taken):
        self.acknowledged = number

    async def matched_at(self, queue, number):
        return self.at(number)

    async def last_before(self, queue, after, moment):
        return max([after, *(one.number for one in self.items if one.number > after and self.at(one.number) <= moment)])

    async def flush(self):
        pass

    def take_early(self):
        return set()


class Posts:
    """Notes what is posted where, over which network, with which id; ``then`` is called meanwhile."""

    def __init__(self):
        self.networks, self.ids, self.bodies = [], [], []
        self.made, self.outcomes, self.then = [], deque(), lambda: None
        self.used_at, self.is_open = monotonic(), False

    async def post(self, url, headers, body, network):
        found = orjson.loads(body)
        self.networks.append(network)
        self.ids.append(dict(headers)["webhook-id"])
        self.bodies.append(found)
        self.made.append((url.target, found.get("number", found.get("type", "batch"))))
        self.then()
        outcome = self.outcomes.popleft() if self.outcomes else PostOutcome("answered", None, b"", 0.0)
        if found.get("type") == "url_verification" and outcome.failure is None:
            return outcome._replace(body=found["challenge"].encode())
        return outcome

    async def close(self):
        pass


class Records:
    """Notes how endpoints stand, how far replays are, and what is given up."""

    def __init__(self):
        self.noted, self.steps, self.buried, self.unburied = [], [], [], []

    def note(self, webhook, progress):
        self.noted.append((webhook.revision, progress.state))

    async def bury(self, webhook, letters):
        self.buried.append((letters.begin, letters.upto))
        return Forgotten(0, 0)

    async def unbury(self, webhook, epoch, begin, upto):
        self.unburied.append((begin, upto))

    async def step_replay(self, replay, position):
        self.steps.append(position)


def parts_of(pages, records):
    """What a delivery has beside its endpoint; time stands still. Called in an event loop."""
    section = WebhooksSection()
    return DeliveryParts(
        pages=pages,
        rooms=PostRooms(RoomSizes(1, 1, 1)),
        records=records,
        counts=SenderCounts(),
        schedule=RetrySchedule.of(section),
        rules=rules_of(section),
        networks=lambda room: room,
        clock=lambda: NOW,
        draw=lambda: 1.0,
        page_bytes=1 << 20,
    )


def turns(pages, posts, work, first=None, count=1):
    """Give an endpoint turns; ``work`` is given the delivery before. The delivery, and its records."""

    async def once():
        records = Records()
        delivery = EndpointDelivery(first or webhook(), posts, parts_of(pages, records))
        work(delivery)
        for _ in range(count):
            await delivery.turn()
        return delivery, records

    return asyncio.run(once())
