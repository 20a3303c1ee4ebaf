"""The process that posts to a gateway and reads from it, so that what it costs is not what the gateway costs.

``LoadProcess`` is its handle in the bench: ``call`` has a function of ``Load`` done there. The process ends with
the bench, whatever ends that.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import socket
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any, Literal

import uvloop

from bench.gateway_paced import Latencies, PacedPosts, SentPosts
from bench.gateway_posting import PATIENCE, PostConnection, Posted, accepted_of, post
from bench.gateway_readers import EventStreamReader, Reader, WebSocketReader
from bench.gateway_requests import PublishRequests
from bench.gateway_rooms import Rooms
from bench.processes import Beside
from tidegate.closing import Closing

__all__ = ["Delivered", "Load", "LoadProcess"]

#: Connections that are being opened at once, and bytes that the kernel keeps for a reader that stalls.
_AT_ONCE, _STALLED_ROOM = 64, 4096
_KINDS: dict[str, type[Reader]] = {"WebSocket": WebSocketReader, "SSE": EventStreamReader}


@dataclass
class Delivered:
    """What came of a round: seconds from the first post on until each reader had its last notification."""

    expected: int = 0
    """Notifications to the readers that are measured."""
    seconds: list[float] = field(default_factory=list)
    behind: int = 0
    """Readers that did not get everything in time."""
    publishing: float = 0.0
    """Seconds until the last post was answered."""
    cpu: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Notifications per second, of the readers that are measured."""
        return self.expected / max(self.seconds) if self.seconds else 0.0


class Load:
    """What the process does; it keeps readers from one call to the next."""

    def __init__(self) -> None:
        self._readers: list[Reader] = []

    async def post(self, clients: Sequence[PublishRequests], seconds: float, warm: float) -> Posted:
        """As the function of that name."""
        return await post(clients, seconds, warm)

    # --- readers ----------------------------------------------------------------------------------------------------

    async def connect(
        self, kind: Literal["WebSocket", "SSE"], address: tuple[str, int], readers: Sequence[tuple[str, str]]
    ) -> float:
        """Open a connection for each pair of token and room; the seconds it took."""
        self._readers = [_KINDS[kind](token, room) for token, room in readers]
        return await self._open(address, self._readers)

    async def _open(self, address: tuple[str, int], readers: Sequence[Reader]) -> float:
        loop, begin, slots = asyncio.get_running_loop(), perf_counter(), asyncio.Semaphore(_AT_ONCE)

        async def opened(reader: Reader) -> None:
            async with slots:
                reader.opened = loop.create_future()
                found = socket.socket()
                found.setblocking(False)
                if reader.is_stalled:
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STALLED_ROOM)
                await loop.sock_connect(found, address)
                await loop.create_connection(lambda: reader, sock=found)
                await asyncio.wait_for(reader.opened, PATIENCE)

        await asyncio.gather(*map(opened, readers))
        return perf_counter() - begin

    async def deliver(self, rooms: Rooms, begin: int, timed: int) -> Delivered:
        """Publish the numbers from ``begin`` on; wait until all readers that are not stalled have what is theirs. The
        first so many of them are measured.
        """
        reading = [reader for reader in self._readers if not reader.is_stalled]
        upto, found, done = (begin + rooms.count) // rooms.rooms, Delivered(), asyncio.Event()
        started, left = perf_counter(), len(reading)

        def noticed(is_timed: bool) -> None:
            nonlocal left
            left -= 1
            if is_timed:
                found.seconds.append(perf_counter() - started)
            if not left:
                done.set()

        found.expected = sum(upto - reader.last for reader in reading[:timed])
        for place, reader in enumerate(reading):
            reader.target, reader.noticed = upto, partial(noticed, place < timed)
        cpu = process_time()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._publish(rooms, begin, found)
                found.publishing = perf_counter() - started
                await done.wait()
        except TimeoutError:
            found.behind = left
        found.cpu = (process_time() - cpu) / (perf_counter() - started)
        return found

    async def _publish(self, rooms: Rooms, begin: int, found: Delivered) -> None:
        """On one connection, so that the log has the order of the numbers; late if the answers are."""
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        connection = PostConnection(lambda _, status, body: answers.put_nowait((status, body)))
        await loop.create_connection(lambda: connection, *rooms.address)
        started = perf_counter()
        for first in range(begin, begin + rooms.count, rooms.batch):
            await asyncio.sleep(started + (first - begin) / rooms.rate - perf_counter())
            count = min(rooms.batch, begin + rooms.count - first)
            connection.send(rooms.request(first, count))
            status, body = await answers.get()
            if status != 202 or accepted_of(count) not in body:
                found.failed[f"{status} {body[:200]!r}"] += 1
        connection.close()

    async def stall(self, address: tuple[str, int], count: int) -> None:
        """The last so many readers read nothing from now on, on connections that have little room on this side."""
        some = self._readers[len(self._readers) - count :]
        for reader in some:
            reader.close()
            reader.is_stalled = True
        await asyncio.sleep(0.5)
        await self._open(address, some)
        for reader in some:
            reader.stall()

    async def resume(self, address: tuple[str, int], upto: int) -> tuple[int, int]:
        """Stalled readers read on, and connect again where they were closed, until they have number ``upto``.

        How many were closed, and how many do not have it after all.
        """
        loop, again = asyncio.get_running_loop(), set[asyncio.Task[Any]]()
        stalled = [reader for reader in self._readers if reader.is_stalled]
        closed = set[Reader]()

        def ended(reader: Reader) -> None:
            closed.add(reader)
            if reader.last < upto:
                again.add(loop.create_task(self._open(address, [reader])))

        for reader in stalled:
            reader.ended = ended
            if reader.transport is None:
                ended(reader)
            reader.go_on()
        until = perf_counter() + PATIENCE
        while perf_counter() < until and any(reader.last < upto for reader in stalled):
            await asyncio.sleep(0.05)
        for reader in stalled:
            reader.ended = _nothing
        for task in again:
            task.cancel()
        return len(closed), sum(reader.last < upto for reader in stalled)

    async def numbers(self) -> tuple[int, int, list[str]]:
        """The lowest and the highest number that a reader has, and what was wrong with what came."""
        last = [reader.last for reader in self._readers]
        return min(last), max(last), [wrong for reader in self._readers for wrong in reader.wrong][:20]

    async def disconnect(self) -> None:
        """Close all connections."""
        for reader in self._readers:
            reader.ended = _nothing
            reader.close()
        self._readers = []
        await asyncio.sleep(0.1)

    async def pace(self, posts: PacedPosts) -> SentPosts:
        """Post on time."""
        return await posts.run()

    async def follow(self, posts: PacedPosts, token: str) -> Latencies:
        """Post on time, whatever the answers do, and note when the notification of each post comes."""
        await self.connect("WebSocket", posts.address, [(token, "")])
        reader = self._readers[0]
        arrivals = dict[str, float]()
        reader.arrivals = arrivals
        cpu, begin = process_time(), perf_counter()
        sent = await posts.run()
        until = perf_counter() + PATIENCE
        while len(arrivals) < posts.count and perf_counter() < until:
            await asyncio.sleep(0.01)
        used = (process_time() - cpu) / (perf_counter() - begin)
        exact = sent.times.keys() == arrivals.keys() and reader.last == len(arrivals) and not reader.wrong
        seconds = [arrivals[id] - at for id, at in sent.times.items() if id in arrivals]
        await self.disconnect()
        return Latencies(seconds, sent.late, sent.failed, exact and not sent.failed, used)


class LoadProcess(Closing):
    """The process, which waits to be called."""

    def __init__(self) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self._process = Beside(partial(_run, theirs))
        theirs.close()

    def call(self, name: str, *given: Any) -> Any:
        """What a function of ``Load`` gives, called there. If it fails, so does the bench."""
        self._ours.send((name, given))
        try:
            worked, found = self._ours.recv()
        except EOFError:
            worked, found = False, "it was killed"
        if not worked:
            raise SystemExit(f"bench gateway: expected the clients to work; got at {name}: {found}")
        return found

    def close(self) -> None:
        self._ours.close()
        self._process.end()


def _run(pipe: Connection) -> None:
    gc.freeze()
    gc.disable()  # what is kept does not grow, and a pause would be taken for one of the gateway
    uvloop.run(_obey(pipe))


async def _obey(pipe: Connection) -> None:
    loop, load = asyncio.get_running_loop(), Load()
    while True:
        try:
            name, given = await loop.run_in_executor(None, pipe.recv)
        except EOFError:
            return
        try:
            found = True, await getattr(load, name)(*given)
        except Exception:
            found = False, traceback.format_exc()
        pipe.send(found)


def _nothing(*_: object) -> None:
    pass
