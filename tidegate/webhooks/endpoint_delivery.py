"""``EndpointDelivery``: what one endpoint is sent, one request at a time and in the order of its queue.

A *turn* verifies the endpoint, or reads a page and posts it, as long as nothing fails and nobody else wants the place.
How the endpoint stands afterwards is decided by ``endpoint_states``. Knows no other endpoint; ``Sender`` gives turns.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import NamedTuple

import httpcore
import orjson

from tidegate.broker.delivered_items import QueuePosition
from tidegate.broker.encoded_items import EncodedItem
from tidegate.broker.webhook_url import UrlRules, WebhookUrl, parsed
from tidegate.errors import SettingError
from tidegate.model import micros
from tidegate.store.queue_directory import Queue
from tidegate.store.webhook_tables import DeadLetters, Progress, Replay, Webhook
from tidegate.webhooks.endpoint_states import (
    Failure,
    RetrySchedule,
    State,
    after_answer,
    after_failure,
    due_in,
    is_too_old,
)
from tidegate.webhooks.item_ranges import first_number, is_range, upto_number
from tidegate.webhooks.post_rooms import MOMENT, Place, PostRooms, Room
from tidegate.webhooks.posted_bodies import challenge_body, posted_body, taken_together
from tidegate.webhooks.posting import Poster, PostOutcome
from tidegate.webhooks.queue_pages import PageWanted, QueuePages, ReadPage
from tidegate.webhooks.sender_counts import SenderCounts
from tidegate.webhooks.sender_records import SenderRecords
from tidegate.webhooks.signatures import signature_headers

__all__ = ["DeliveryParts", "EndpointDelivery"]

_LOG = logging.getLogger("tidegate.webhooks")
_SECOND = 1_000_000
#: Items of a page for an endpoint that takes them one by one, and seconds for which a page is believed: what may be
#: read, and what is withdrawn, may change at any moment.
_PAGE, _FRESH = 32, 1.0
#: Seconds for which a place is kept that others want, and between two notes of an endpoint that all is well.
_SHARE, _NOTED = 0.1, 10.0
_LAST_NUMBER = (1 << 63) - 1
_MATCHED_AT = b'"matched_at":"'


class DeliveryParts(NamedTuple):
    """What the deliveries of a sender share."""

    pages: QueuePages
    rooms: PostRooms
    records: SenderRecords
    counts: SenderCounts
    schedule: RetrySchedule
    rules: UrlRules
    networks: Callable[[Room], httpcore.AsyncNetworkBackend]
    clock: Callable[[], int]
    draw: Callable[[], float]
    page_bytes: int


class EndpointDelivery:
    """The deliveries to one endpoint. Only one turn is taken at a time."""

    def __init__(self, webhook: Webhook, poster: Poster, parts: DeliveryParts) -> None:
        self.webhook, self._poster, self._parts = webhook, poster, parts
        self.progress = webhook.progress
        self.replays: list[Replay] = []
        self.is_removed = False
        self._is_slow = self._replayed_last = False
        self._noted_at = float("-inf")
        self._challenged_at: int | None = None
        self._may_be_listed = self.progress.failures > 0
        self._url: WebhookUrl | None = None
        self._read_url()

    def change(self, webhook: Webhook) -> None:
        """Go on with what was changed; nothing is sent in the old way any more. A challenge waits for a moment after
        the one before. An endpoint that was removed and made again has nothing to be sent again.
        """
        if webhook.created != self.webhook.created:
            self.replays = []
        self.webhook, self.progress = webhook, webhook.progress
        if self.progress.state == State.UNVERIFIED and self._challenged_at is not None:
            due_at = self._challenged_at + int(self._parts.schedule.first * _SECOND)
            self.progress = self.progress._replace(retry_at=max(due_at, self.progress.retry_at or 0))
        self._read_url()

    def _read_url(self) -> None:
        """Read the address by the rules of now, which may not be those under which it was taken."""
        try:
            self._url = parsed(self.webhook.url, self._parts.rules)
        except SettingError:
            self._url = None

    @property
    def due_in(self) -> float | None:
        """Seconds until there may be something to do; None if nothing ever is."""
        return None if self.is_removed else due_in(self.progress, self._parts.clock(), self._parts.schedule)

    @property
    def room(self) -> Room:
        """Where it waits for its turn."""
        if self.progress.failures:
            return Room.FAILING
        return Room.SLOW if self._is_slow else Room.QUICK

    @property
    def is_idle_since(self) -> float:
        """Since when its connection is not used, by the clock of ``monotonic``; infinity without one."""
        return self._poster.used_at if self._poster.is_open else float("inf")

    async def close(self) -> None:
        """Close its connection."""
        await self._poster.close()

    # --- a turn -----------------------------------------------------------------------------------------------------

    async def turn(self) -> bool:
        """Do what there is to do now; whether there may be more at once."""
        if self.due_in != 0:
            return False
        room = self.room
        async with self._parts.rooms.place(room) as place:
            if self.due_in != 0:
                return False
            if self.progress.state == State.UNVERIFIED:
                return await self._verify()
            if self.replays and not self._replayed_last:
                self._replayed_last = True
                return await self._replay(room, place)
            self._replayed_last = False
            return await self._deliver(room, place) or bool(self.replays)

    async def _deliver(self, room: Room, place: Place) -> bool:
        """Send what waits; whether there may be more."""
        page = await self._parts.pages.read(self._wanted(None))
        if page is None or not page.items:
            if self.due_in == 0:  # a retry that fell due has nothing to send; one that is due later stays
                self.progress = self.progress._replace(retry_at=None)
            return False
        if self._may_be_listed:  # what waits is not dead, although the sender was killed right after it was listed so
            begin = first_number(page.items[0])
            await self._parts.records.unbury(self.webhook, page.queue.epoch, begin, _LAST_NUMBER)
            self._may_be_listed = False
        return await self._send(page, room, place, self._delivered, may_give_up=True)

    def _delivered(self, queue: Queue, items: Sequence[EncodedItem]) -> None:
        self._parts.pages.acknowledge(queue, items[-1].number, is_taken=True)
        now, counts = self._parts.clock(), self._parts.counts
        counts.items["delivered"] += len(items)
        for item in items:
            if (at := matched_at_of(item)) is not None:
                counts.delivery_seconds.add(max(0.0, (now - at) / _SECOND))

    def _wanted(self, after: QueuePosition | None) -> PageWanted:
        """A page; of an endpoint that failed only what goes into one request."""
        batch = self.webhook.batch
        items = _PAGE if batch is None else batch.items
        if batch is None and (self.progress.failures or self._is_slow):
            items = 1
        size = self._parts.page_bytes if batch is None else batch.bytes
        return PageWanted(self.webhook.principal, self.webhook.name, items, size, after, self.room is Room.FAILING)

    async def _send(
        self,
        page: ReadPage,
        room: Room,
        place: Place,
        taken: Callable[[Queue, Sequence[EncodedItem]], None],
        *,
        may_give_up: bool,
    ) -> bool:
        """Post the items of a page in order, until it is not fresh any more or one fails; whether all is well."""
        began, webhook, items = monotonic(), self.webhook, page.items
        while items and self._is_told and self.webhook is webhook:
            now, is_first = monotonic(), items is page.items  # which is sent in any case: it was read just now
            if not is_first and (now - page.read_at > _FRESH or (place.is_wanted and now - began > _SHARE)):
                break
            some = items[: taken_together(items, webhook.batch)]
            items = items[len(some) :]
            posted = posted_body(webhook, page.queue.epoch, some)
            outcome = await self._post(posted.id, posted.body, posted.headers, room)
            if outcome.failure is None:
                taken(page.queue, some)
            if self.webhook is not webhook:
                break
            if outcome.failure is not None:
                return await self._failed(outcome.failure, page.queue if may_give_up else None, some)
            self._answered()
        return not self.is_removed

    @property
    def _is_told(self) -> bool:
        """Whether anything but a challenge is sent: it may have been changed or removed while a page was read."""
        return not self.is_removed and self.progress.state in (State.ACTIVE, State.FAILING)

    async def _post(self, id: str, body: bytes, headers: Sequence[tuple[str, str]], room: Room) -> PostOutcome:
        """Post a body once."""
        counts, clock = self._parts.counts, self._parts.clock
        if self._url is None:
            failure = Failure("the address is not one that [webhooks] permits now")
            outcome = PostOutcome("address", failure, b"", 0.0)
        else:
            now = clock()
            signed = signature_headers(self.webhook.secrets_at(now), id, now // _SECOND, body)
            network = self._parts.networks(room)
            outcome = await self._poster.post(self._url, [*headers, *signed], body, network)
        counts.posts[outcome.cause] += 1
        if self.progress.failures:
            counts.retries[outcome.cause] += 1
        counts.post_seconds.add(outcome.seconds)
        self._is_slow = outcome.seconds > MOMENT
        return outcome

    # --- what comes of it -------------------------------------------------------------------------------------------

    def _answered(self) -> None:
        """Note that a request was answered; it is written down where something was wrong before, and now and then."""
        now, before = self._parts.clock(), self.progress
        self.progress = after_answer(before, now)
        is_news = bool(before.failures) or before.state != State.ACTIVE
        if is_news:
            _LOG.info("webhook %s of %s takes what it is sent", self.webhook.name, self.webhook.principal)
        if is_news or monotonic() - self._noted_at > _NOTED:
            self._noted_at = monotonic()
            self._parts.records.note(self.webhook, self.progress)

    async def _failed(self, failure: Failure, queue: Queue | None, items: Sequence[EncodedItem]) -> bool:
        """Note a failure, and give up what has waited for too long; whether something may be sent at once."""
        parts, now, before, webhook = self._parts, self._parts.clock(), self.progress, self.webhook
        found = after_failure(before, now, failure, parts.schedule, parts.draw())
        if found.state != before.state:
            whose = webhook.name, webhook.principal
            _LOG.warning("webhook %s of %s is %s: %s", *whose, found.state, failure.reason)
        self._stands(webhook, found)  # before anything is given up: while that cannot be written it waits as well
        if queue is not None and found.state != State.DISABLED:
            after = await self._give_up(found, failure, queue, items, now)
            if after is not found:
                self._stands(webhook, after)
        return self.due_in == 0

    def _stands(self, webhook: Webhook, progress: Progress) -> None:
        """Note how an endpoint stands, unless it was changed meanwhile and stands as it was changed to."""
        if self.webhook is webhook:
            self.progress = progress
            self._parts.records.note(webhook, progress)

    async def _give_up(
        self, progress: Progress, failure: Failure, queue: Queue, items: Sequence[EncodedItem], now: int
    ) -> Progress:
        """Give up of what was tried all that is too old, and try the next at once; if that fails as well, everything
        that is too old: then it is not what is sent that is wrong.
        """
        parts, webhook, oldest = self._parts, self.webhook, items[0].number
        if not is_too_old(progress, 0, now, parts.schedule):  # it has not failed for so long; most have not
            return progress
        if not is_too_old(progress, await parts.pages.matched_at(queue, oldest) or 0, now, parts.schedule):
            return progress
        begin = first_number(items[0])
        moment = now - int(parts.schedule.give_up * _SECOND)
        last = max(oldest, await parts.pages.last_before(queue, oldest, moment))
        if not progress.gave_up:
            last = min(last, items[-1].number)
        letters = DeadLetters(queue.epoch, begin, last, failure.reason, now)
        forgotten = await parts.records.bury(webhook, letters)
        parts.counts.dead["given_up"] += last - begin + 1
        parts.counts.dead["forgotten"] += forgotten.deliveries
        parts.pages.acknowledge(queue, last, is_taken=False)
        await parts.pages.flush()  # who sees that it was given up may have it sent again
        whose = webhook.name, webhook.principal
        _LOG.warning("webhook %s of %s is not given %d to %d: %s", *whose, begin, last, failure.reason)
        return progress if progress.gave_up else progress._replace(gave_up=True, retry_at=now)

    # --- verification -----------------------------------------------------------------------------------------------

    async def _verify(self) -> bool:
        """Ask the endpoint whether it wants what is sent; whether it does. Its name is resolved apart: nobody knows yet
        whether there is such a name, and anybody may ask for this as often as they like.
        """
        challenge, webhook = secrets.token_urlsafe(24), self.webhook
        headers = [("content-type", "application/json")]
        self._challenged_at = self._parts.clock()
        outcome = await self._post(f"verify-{secrets.token_hex(8)}", challenge_body(challenge), headers, Room.FAILING)
        failure, cause = outcome.failure, outcome.cause
        if failure is None and not echoes(outcome.body, challenge):
            failure, cause = Failure("the challenge did not come back"), "unanswered"
        self._parts.counts.verifications[cause] += 1
        if self.is_removed or self.webhook is not webhook:
            return not self.is_removed
        if failure is not None:
            return await self._failed(failure, None, ())
        self._answered()
        return True

    # --- sent again -------------------------------------------------------------------------------------------------

    async def _replay(self, room: Room, place: Place) -> bool:
        """Send a page of what is to be sent again; whether there may be more of anything."""
        replay, parts = self.replays[0], self._parts
        page = await parts.pages.read(self._wanted(QueuePosition(replay.position, replay.epoch)))
        items = [] if page is None else upto_number(page.items, replay.upto)
        if page is None or page.queue.epoch != replay.epoch or not items:
            await self._step_replay(replay, replay.upto)  # the queue has ended, or has no more of it
            return True
        reached = [replay.position]

        def taken(_: Queue, some: Sequence[EncodedItem]) -> None:
            reached.append(some[-1].number)
            parts.counts.items["replayed"] += len(some)

        is_well = await self._send(page._replace(items=items), room, place, taken, may_give_up=False)
        if reached[-1] > replay.position:
            await parts.records.unbury(self.webhook, replay.epoch, replay.position + 1, reached[-1])
            await self._step_replay(replay, reached[-1])
        elif not is_well and parts.clock() - replay.asked_at >= parts.schedule.give_up * _SECOND:
            parts.counts.dead["not_replayed"] += replay.upto - replay.position
            await self._step_replay(replay, replay.upto)
        return is_well

    async def _step_replay(self, replay: Replay, position: int) -> None:
        """Note how far a replay is; at its end there is no more of it."""
        await self._parts.records.step_replay(replay, position)
        if all(one.id != replay.id for one in self.replays):  # the endpoint was removed meanwhile, and made again
            return
        rest = [one for one in self.replays if one.id != replay.id]
        self.replays = rest if position >= replay.upto else [replay._replace(position=position), *rest]


def echoes(body: bytes, challenge: str) -> bool:
    """Whether an answer has a challenge: as its text, or as the member ``challenge`` of an object."""
    text = body.strip()
    if text.startswith(b"{"):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        given = found.get("challenge") if isinstance(found, dict) else None
        text = given.encode() if isinstance(given, str) else b""
    return hmac.compare_digest(text.strip(b'"'), challenge.encode())


def matched_at_of(item: EncodedItem) -> int | None:
    """When what an item tells of was matched (µs since 1970); None of one that says nothing of that. It is the first
    member of that name: in no text of JSON the name can stand with plain quotation marks.
    """
    begin = item.body.find(_MATCHED_AT) + len(_MATCHED_AT)
    if is_range(item) or begin < len(_MATCHED_AT):
        return None
    return micros(datetime.fromisoformat(item.body[begin : item.body.index(b'"', begin)].decode()))
