"""Reading a queue for as long as a caller wants: connects, connects again, keeps a bounded store, acknowledges.

One task listens and another acknowledges and looks after the connection. The caller takes items from the store; while
it is full nobody listens, so that the socket fills and the broker waits. What the caller has come back from is
acknowledged within a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from tidegate.client.address import BrokerAddress
from tidegate.client.backoff import Backoff
from tidegate.client.item_sequence import ItemSequence, OutOfOrder
from tidegate.client.items import ITEM_TYPES, Item
from tidegate.client.queue_connection import ConnectionLost, QueueConnection
from tidegate.client.queue_position import QueuePosition
from tidegate.client.task_end import ended
from tidegate.client.token_source import TokenSource
from tidegate.errors import AccessError, BrokerError, TidegateError

__all__ = ["QueueReader"]

_LOG = logging.getLogger("tidegate.client")
#: Bytes of messages that are kept until the caller takes them, beside the number of items.
_BYTES = 1 << 24
#: Items that a caller takes at a time, and seconds between looks at the connection.
_TAKEN, _LOOK = 128, 0.25
_AT = "WebSocket /v1/ws"


class QueueReader:
    """The items of a queue after a position; ``room`` of them wait here at most."""

    def __init__(
        self,
        address: BrokerAddress,
        tokens: TokenSource,
        after: QueuePosition | None,
        *,
        room: int,
        acknowledges: bool,
    ) -> None:
        self._address, self._tokens, self._room, self._acknowledges = address, tokens, room, acknowledges
        self._is_refused = False
        """Whether the broker did not take the last token, since it took one."""
        self._sequence = ItemSequence(after)
        self._items, self._size = deque[tuple[Item, int]](), 0
        self._changed = asyncio.Condition()
        self._finished: Item | None = None
        self._confirmed = QueuePosition(0)
        self._error: TidegateError | None = None
        self._is_closed = False
        self._task = asyncio.create_task(self._listen_for_good())

    # --- for the caller ---------------------------------------------------------------------------------------------

    async def take(self) -> list[Item]:
        """The next items, at least one; none at the end. An error that no attempt can mend is raised after them."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._items or self._error is not None or self._is_closed)
            if self._is_closed:
                return []
            if not self._items and self._error is not None:
                raise self._error
            found = [self._items.popleft() for _ in range(min(_TAKEN, len(self._items)))]
            self._size -= sum(size for _, size in found)
            self._changed.notify_all()
        return [item for item, _ in found]

    def finish(self, item: Item) -> None:
        """The caller is done with an item, and so with all before it. May be called by any thread."""
        self._finished = item

    async def close(self) -> QueuePosition | None:
        """End; what is finished and not acknowledged yet, if items are acknowledged."""
        self._is_closed = True
        await ended(self._task)
        async with self._changed:
            self._changed.notify_all()
        done = self._finished
        if not self._acknowledges or done is None or done.number == 0 or done.epoch != self._sequence.epoch:
            return None
        is_confirmed = self._confirmed.epoch == done.epoch and self._confirmed.number >= done.number
        return None if is_confirmed else QueuePosition(done.number, done.epoch)

    # --- connections ------------------------------------------------------------------------------------------------

    async def _listen_for_good(self) -> None:
        backoff, is_first = Backoff(self._address.deadline), True
        while self._error is None:
            try:
                token = await self._token(is_first)
                is_first = False
                async with QueueConnection.opened(self._address, token, self._sequence.position) as connection:
                    await self._use(connection, backoff)
            except ConnectionLost as lost:
                error, wait = lost.error, lost.wait
            except AccessError as wrong:
                if wrong.status != 401 or not self._tokens.is_renewable or self._is_refused:
                    await self._fail(wrong)
                    return
                self._is_refused, error, wait = True, wrong, 0.0
            except OutOfOrder as lost:
                error, wait = lost, 0.0
            except TidegateError as wrong:
                await self._fail(wrong)
                return
            if (pause := backoff.delay(wait)) is None:
                await self._fail(error)
                return
            _LOG.info("the connection is made again in %.1f s: %s", pause, error)
            await asyncio.sleep(pause)

    async def _token(self, is_first: bool) -> str:
        """The token for the next connection. While the function that gives it fails, there is none."""
        try:
            return await (self._tokens.current() if is_first else self._tokens.anew())
        except BrokerError as wrong:
            raise ConnectionLost(wrong) from None

    async def _use(self, connection: QueueConnection, backoff: Backoff) -> None:
        keeper = asyncio.create_task(self._keep(connection))
        try:
            await self._listen(connection, backoff)
        finally:
            await ended(keeper)

    async def _listen(self, connection: QueueConnection, backoff: Backoff) -> None:
        is_greeted = False
        async for message, size in connection.messages():
            kind = message["type"]
            if kind == "hello":
                self._sequence.begin(message)
                is_greeted, self._is_refused = True, False
                backoff.go_on_for_good()
            elif kind == "lagging":
                _LOG.info("the broker says that this reader lags; it goes on by a new connection")
            elif kind in ITEM_TYPES:
                if not is_greeted:
                    raise ConnectionLost(BrokerError("a hello first", kind, _AT))
                for item in self._sequence.take(message):
                    await self._store(item, size)
                backoff.succeeded()

    async def _store(self, item: Item, size: int) -> None:
        async with self._changed:
            await self._changed.wait_for(self._has_room)
            self._items.append((item, size))
            self._size += size
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return not self._items or (len(self._items) < self._room and self._size < _BYTES)

    async def _keep(self, connection: QueueConnection) -> None:
        while True:
            await asyncio.sleep(min(_LOOK, self._address.heartbeat / 4))
            done = self._finished
            if self._acknowledges and done is not None and done.epoch == self._sequence.epoch:
                await connection.acknowledge(QueuePosition(done.number, done.epoch))
                self._confirmed = QueuePosition(connection.confirmed, done.epoch)
            await connection.keep_alive()

    async def _fail(self, error: TidegateError) -> None:
        async with self._changed:
            self._error = error
            self._changed.notify_all()
