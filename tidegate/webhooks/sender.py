"""``Sender``: all endpoints of a broker, each of which gets a turn when there is something to do for it.

The thread ``tidegate-webhooks`` waits for commits of the runner and says which queues have grown; a task follows the
changes of endpoints by their number; timers bring those back that failed. Knows queues and endpoints, and leaves what
is sent to ``EndpointDelivery``.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import httpcore

from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.webhook_url import rules_of
from tidegate.delivery_options import destination_of
from tidegate.errors import TidegateError
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.version_readers import now
from tidegate.store.webhook_tables import Replay, Webhook
from tidegate.store.webhooks import StoredWebhooks
from tidegate.webhooks.endpoint_delivery import DeliveryParts, EndpointDelivery
from tidegate.webhooks.endpoint_states import RetrySchedule
from tidegate.webhooks.pinned_connections import PinnedBackend, Resolver, resolved
from tidegate.webhooks.post_rooms import PostRooms, Room, RoomSizes
from tidegate.webhooks.posting import Patience, Poster
from tidegate.webhooks.queue_pages import QueuePages
from tidegate.webhooks.sender_counts import SenderCounts
from tidegate.webhooks.sender_records import SenderRecords
from tidegate.webhooks.trusted_authorities import trust_authorities

__all__ = ["Sender"]

_LOG = logging.getLogger("tidegate.webhooks")
#: Seconds between two looks at queues where nobody wakes us, at changes of endpoints, at connections that nobody uses,
#: and after an error; seconds for which such a connection is kept.
_LOOK, _CHANGES, _TIDY, _FAILED, _UNUSED = 0.05, 0.25, 5.0, 0.5, 30.0
#: Threads that resolve names for endpoints that answer, and for those that do not.
_RESOLVERS, _RESOLVERS_APART = 64, 16
_Key = tuple[str, str]


class Sender:
    """Posts what waits in ``queues`` to the endpoints in ``webhooks``, from ``start`` to ``stop``, in one event loop.

    ``clock`` tells microseconds since 1970, ``draw`` a share of a wait, ``resolve`` what a name stands for.
    """

    def __init__(
        self,
        section: WebhooksSection,
        queues: OpenQueues,
        webhooks: StoredWebhooks,
        *,
        clock: Callable[[], int] = now,
        draw: Callable[[], float] = random.random,
        resolve: Resolver = resolved,
    ) -> None:
        self.counts = SenderCounts()
        self._queues, self._webhooks, self._context = queues, webhooks, _tls(section)
        self._patience = Patience(section.connect_seconds, section.answer_seconds)
        rules = rules_of(section)
        self._threads = [ThreadPoolExecutor(count, "tidegate-names") for count in (_RESOLVERS, _RESOLVERS_APART)]
        usual, apart = (PinnedBackend(rules.allowed, threads, resolve) for threads in self._threads)
        self._parts = DeliveryParts(
            pages=QueuePages(queues, clock),
            rooms=PostRooms(RoomSizes(section.posts, section.slow_posts, section.failing_posts)),
            records=SenderRecords(webhooks),
            counts=self.counts,
            schedule=RetrySchedule.of(section),
            rules=rules,
            networks=lambda room: apart if room is Room.FAILING else usual,
            clock=clock,
            draw=draw,
            page_bytes=section.page,
        )
        self._deliveries: dict[_Key, EndpointDelivery] = {}
        self._turns: dict[_Key, asyncio.Task[None]] = {}
        self._woken: set[_Key] = set()
        self._timers: dict[_Key, asyncio.TimerHandle] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._known_changes = -1
        self._names: set[_Key] = set()
        self._are_names_new = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow_queues, name="tidegate-webhooks", daemon=True)

    async def start(self) -> None:
        """Begin to send."""
        self._loop = asyncio.get_running_loop()
        await self._parts.pages.start()
        await self._parts.records.start()
        await self._look_for_changes()
        self._tasks = [asyncio.create_task(work) for work in (self._follow_changes(), self._tidy())]
        self._thread.start()

    async def stop(self) -> None:
        """Stop sending, within a moment: a request that is under way is cut off, and made again later. What was
        acknowledged is durable then.
        """
        self._stopping.set()
        self._queues.interrupt()
        for timer in self._timers.values():
            timer.cancel()
        tasks = [*self._tasks, *self._turns.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in self._deliveries.values()))
        await asyncio.to_thread(self._thread.join)
        await self._parts.records.stop()
        await self._parts.pages.stop()
        for threads in self._threads:
            threads.shutdown(wait=False, cancel_futures=True)

    @property
    def states(self) -> dict[_Key, str]:
        """How the endpoints stand."""
        return {key: one.progress.state for key, one in self._deliveries.items()}

    # --- turns ------------------------------------------------------------------------------------------------------

    def wake(self, key: _Key) -> None:
        """Have an endpoint take turns, if something may be sent to it now; otherwise when it may."""
        delivery = self._deliveries.get(key)
        if delivery is None:
            return
        if key in self._turns:
            self._woken.add(key)
            return
        wait = delivery.due_in
        if wait == 0:
            self._stop_timer(key)
            self._turns[key] = self._loop.create_task(self._take_turns(key, delivery))
        elif wait is not None and key not in self._timers:
            self._timers[key] = self._loop.call_later(wait, self._wake_again, key)

    def _wake_again(self, key: _Key) -> None:
        self._timers.pop(key, None)
        self.wake(key)

    def _stop_timer(self, key: _Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def _take_turns(self, key: _Key, delivery: EndpointDelivery) -> None:
        """Give an endpoint turns, as long as there may be something to do."""
        pause = 0.0
        try:
            self._woken.discard(key)
            while await delivery.turn() or key in self._woken:
                self._woken.discard(key)
                if delivery.due_in != 0:
                    break
        except TidegateError as error:
            pause = _FAILED
            _LOG.error("webhook %s of %s could not be served: %s", key[1], key[0], error)
        except Exception:
            pause = _FAILED
            _LOG.exception("webhook %s of %s could not be served", key[1], key[0])
        finally:
            if self._turns.get(key) is asyncio.current_task():  # else it was removed, and made again perhaps
                del self._turns[key]
        if delivery.is_removed:
            await delivery.close()
        elif self._stopping.is_set():
            return
        elif pause:
            self._stop_timer(key)
            self._timers[key] = self._loop.call_later(pause, self._wake_again, key)
        elif delivery.progress.retry_at is not None or key in self._woken:
            self.wake(key)

    # --- changes of endpoints ---------------------------------------------------------------------------------------

    async def _follow_changes(self) -> None:
        while True:
            await asyncio.sleep(_CHANGES)
            self._wake_all(self._parts.pages.take_early())
            try:
                await self._look_for_changes()
            except TidegateError as error:
                _LOG.error("changes of webhooks could not be read: %s", error)
                await asyncio.sleep(_FAILED)

    async def _look_for_changes(self) -> None:
        """Take notice of endpoints that were made, changed or removed, and of what is to be sent again."""

        def work() -> tuple[int, list[Webhook], list[Replay]]:
            changes = self._webhooks.changes
            if changes == self._known_changes:
                return changes, [], []
            return changes, self._webhooks.all(), self._webhooks.replays()

        changes, found, replays = await self._parts.records.in_thread(work)
        if changes == self._known_changes:
            return
        self._known_changes = changes
        by_name = {(one.principal, one.name): one for one in found}
        for key in self._deliveries.keys() - by_name.keys():
            await self._remove(key)
        changed = [key for key, webhook in by_name.items() if self._is_changed(key, webhook)]
        again = self._take_replays(replays)
        self._names = set(by_name)
        self._are_names_new.set()
        for key in {*changed, *again}:
            self._stop_timer(key)
            self.wake(key)

    def _is_changed(self, key: _Key, webhook: Webhook) -> bool:
        """Take up an endpoint as it is now; whether it was another."""
        there = self._deliveries.get(key)
        if there is None:
            self._deliveries[key] = EndpointDelivery(webhook, Poster(self._context, self._patience), self._parts)
        elif there.webhook.revision != webhook.revision:
            there.change(webhook)
        else:
            return False
        return True

    def _take_replays(self, replays: list[Replay]) -> list[_Key]:
        """Note what is to be sent again; of which endpoints there is any that was not known."""
        found = []
        for replay in replays:
            delivery = self._deliveries.get((replay.principal, replay.name))
            if delivery is not None and all(one.id != replay.id for one in delivery.replays):
                delivery.replays = [*delivery.replays, replay]
                found.append((replay.principal, replay.name))
        return found

    async def _remove(self, key: _Key) -> None:
        delivery = self._deliveries.pop(key)
        delivery.is_removed = True
        self._stop_timer(key)
        if (turns := self._turns.pop(key, None)) is not None:
            turns.cancel()  # which ends it before it has begun, if it has not: it cannot forget itself then
        await delivery.close()

    async def _tidy(self) -> None:
        """Close connections that nobody uses, and forget secrets that sign no more."""
        forgotten_at = 0
        while True:
            await asyncio.sleep(_TIDY)
            for key, delivery in list(self._deliveries.items()):
                if key not in self._turns and monotonic() - delivery.is_idle_since > _UNUSED:
                    await delivery.close()
            ends = [one.webhook.old_until or 0 for one in self._deliveries.values()]
            if not any(forgotten_at < end <= self._parts.clock() for end in ends):
                continue
            forgotten_at = self._parts.clock()
            try:
                await self._parts.records.in_thread(self._webhooks.forget_old_secrets)
            except TidegateError as error:
                _LOG.error("old secrets of webhooks could not be removed: %s", error)

    # --- the thread that follows queues -----------------------------------------------------------------------------

    def _follow_queues(self) -> None:
        known_changes, by_number = -1, dict[int, _Key]()
        while not self._stopping.is_set():
            try:
                self._queues.refresh()
                changes, grown = self._queues.changes, self._queues.grown()
                before = by_number
                if changes != known_changes or grown is None or self._are_names_new.is_set():
                    self._are_names_new.clear()
                    known_changes, by_number = changes, self._numbers()
                behind = _behind(by_number, before, None if grown is None else grown.tolist())
                if behind:
                    self._loop.call_soon_threadsafe(self._wake_all, behind)
                self._queues.await_commit(_LOOK)
            except TidegateError as error:
                _LOG.error("queues could not be read: %s", error)
                self._stopping.wait(_FAILED)
            except Exception:
                if self._stopping.is_set():
                    return
                _LOG.exception("queues could not be followed")
                self._stopping.wait(_FAILED)

    def _numbers(self) -> dict[int, _Key]:
        """The endpoints by the numbers of their queues."""
        found = {}
        for principal, name in self._names:
            queue = self._queues.find(principal, destination_of({"webhook": name}))
            if queue is not None:
                found[queue.number] = principal, name
        return found

    def _wake_all(self, keys: Iterable[_Key]) -> None:
        for key in keys:
            self.wake(key)


def _behind(by_number: Mapping[int, _Key], before: Mapping[int, _Key], grown: Collection[int] | None) -> list[_Key]:
    """Which endpoints there may be something for: those whose queues are new or have grown, or all of them."""
    if grown is None:
        return list(by_number.values())
    new = {number for number, key in by_number.items() if before.get(number) != key}
    return [by_number[number] for number in new.union(grown) if number in by_number]


def _tls(section: WebhooksSection) -> ssl.SSLContext:
    """How certificates of receivers are judged: by the authorities that everybody trusts, and those of the file."""
    context = httpcore.default_ssl_context()
    trust_authorities(context, section)
    return context
