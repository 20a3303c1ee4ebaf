"""``Broker``: a broker as a program without asyncio uses it.

It is an ``AsyncBroker`` whose event loop runs in a thread of its own, so connections are looked after and
acknowledgements sent while the program does something else, and there is one implementation of everything.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidegate.client.address import BrokerAddress
from tidegate.client.answers import Published
from tidegate.client.async_broker import Acknowledge, AsyncBroker, expect_accepted
from tidegate.client.items import Item
from tidegate.client.publication_batches import Given, batches
from tidegate.errors import BrokerError

__all__ = ["Broker"]

#: Seconds in which calls of other threads may end by themselves when the connection is closed.
_ENDING = 0.5
P = ParamSpec("P")
T = TypeVar("T")


def _plain(
    method: Callable[Concatenate[AsyncBroker, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Broker, P], T]:
    """A method that waits for what a coroutine gives."""

    @wraps(method)
    def call(self: Broker, /, *args: P.args, **named: P.kwargs) -> T:
        return self._wait(method(self._broker, *args, **named))

    return call


class Broker:
    """A broker as one principal uses it. ``tg.connect`` makes it in ``with``, and closes it at the end.

    Threads may share it. All methods are those of ``AsyncBroker``.
    """

    def __init__(self, address: BrokerAddress) -> None:
        self.url = address.url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidegate-client", daemon=True)
        self._thread.start()
        self._lock, self._is_closed = threading.Lock(), False
        self._broker = self._wait(_made(address))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.url}>"

    def close(self) -> None:
        """End all reading, acknowledge what was finished, and close all connections."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            asyncio.run_coroutine_threadsafe(_ended(self._broker), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    subscribe = _plain(AsyncBroker.subscribe)
    subscribe_all = _plain(AsyncBroker.subscribe_all)
    unsubscribe = _plain(AsyncBroker.unsubscribe)
    subscription = _plain(AsyncBroker.subscription)
    subscriptions = _plain(AsyncBroker.subscriptions)
    check = _plain(AsyncBroker.check)
    explain = _plain(AsyncBroker.explain)
    rehearse = _plain(AsyncBroker.rehearse)
    unpublish = _plain(AsyncBroker.unpublish)
    recent = _plain(AsyncBroker.recent)
    acknowledge = _plain(AsyncBroker.acknowledge)
    announce = _plain(AsyncBroker.announce)
    announcements = _plain(AsyncBroker.announcements)
    revoke = _plain(AsyncBroker.revoke)
    status = _plain(AsyncBroker.status)
    sessions = _plain(AsyncBroker.sessions)
    unregister = _plain(AsyncBroker.unregister)
    put_principal = _plain(AsyncBroker.put_principal)
    principals = _plain(AsyncBroker.principals)
    make_token = _plain(AsyncBroker.make_token)
    tokens = _plain(AsyncBroker.tokens)
    revoke_token = _plain(AsyncBroker.revoke_token)

    def publish(self, publications: Given, *, in_flight: int = 1) -> Published:
        """Publish one publication or many, as ``AsyncBroker.publish`` does."""
        answer = Published.together(list(self.publish_in_batches(publications, in_flight=in_flight)))
        expect_accepted(publications, answer)
        return answer

    def publish_in_batches(self, publications: Given, *, in_flight: int = 1) -> Iterator[Published]:
        """Publish as ``publish`` does, and tell the answer to each batch as it comes.

        What is given is iterated in the thread of the caller, and may wait as long as it likes.
        """
        window = self._broker.window(in_flight)
        try:
            for batch in batches(publications):
                yield from self._wait(window.add(batch))
            yield from self._wait(window.rest())
        finally:
            if not self._is_closed:
                self._wait(window.cancel())

    def notifications(
        self, after: str | int | Item | None = None, *, acknowledge: Acknowledge = "auto", room: int = 1_000
    ) -> Iterator[Item]:
        """What the subscriptions of the caller are told, as ``AsyncBroker.notifications`` does."""
        reader = self._wait(self._broker.begin_reading(after, acknowledge, room))
        try:
            while items := self._wait(reader.take()):
                for item in items:
                    yield item
                    reader.finish(item)
        finally:
            if not self._is_closed:
                self._wait(self._broker.end_reading(reader))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            work.close()
            raise BrokerError("a connection that is open", "one that was closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise BrokerError("a connection that is open", "one that was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise


async def _ended(broker: AsyncBroker) -> None:
    """Close it, and let those who wait for something in other threads come to their ends."""
    await broker.close()
    if waiting := asyncio.all_tasks() - {asyncio.current_task()}:
        _, waiting = await asyncio.wait(waiting, timeout=_ENDING)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _made(address: BrokerAddress) -> AsyncBroker:
    return AsyncBroker(address)
