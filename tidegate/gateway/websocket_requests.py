"""What is done with the messages of a client over its WebSocket, and the answers, in the order of the messages.

Publications may be on their way to the disk while the next messages are read, so many at a time; any other message is
done once all before it are. Knows no frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
from anyio.to_thread import run_sync
from msgspec import UNSET, to_builtins

from tidegate.errors import TidegateError
from tidegate.gateway.access import Caller
from tidegate.gateway.announcing import announce, revoke
from tidegate.gateway.audit import is_refused_access
from tidegate.gateway.bodies import LARGE, Loan, expect_few, whole
from tidegate.gateway.problems import RequestError, problem
from tidegate.gateway.publishing import publish, unpublish
from tidegate.gateway.submission import Published
from tidegate.gateway.subscribing import subscribe, unsubscribe
from tidegate.gateway.websocket_messages import (
    Ack,
    Announce,
    ClientMessage,
    Ping,
    Publish,
    Revoke,
    Subscribe,
    Unpublish,
    Unsubscribe,
    message_of,
    reference_of,
)

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["ClientMessages"]

_LOG = logging.getLogger("tidegate.gateway")
#: Messages of a client that are worked on at a time.
_MOST = 16
Body = dict[str, Any]


class ClientMessages:
    """The messages of one connection. ``write`` is given each answer; ``acknowledge`` is called with numbers.

    ``renewed`` gives the caller as their token is now.
    """

    def __init__(
        self,
        broker: OpenBroker,
        renewed: Callable[[], Awaitable[Caller]],
        acknowledge: Callable[[int | str], Awaitable[None]],
        write: Callable[[bytes], None],
        address: str,
    ) -> None:
        self._broker, self._renewed, self._acknowledge, self._write = broker, renewed, acknowledge, write
        self._address = address
        self._working = list[asyncio.Task[bytes]]()  # an empty deque would take 0.7 kB of each connection

    async def take(self, given: str | bytes) -> None:
        """Take a message; returns when another may be taken."""
        while len(self._working) >= _MOST:
            await self._oldest()
        loan = self._broker.budget.lent()
        try:
            if isinstance(given, bytes):
                raise RequestError(400, "message", "messages of text", "one of bytes")
            loan.take(len(given))
            message = await self._decoded(given)
        except TidegateError as error:
            loan.hold(0)
            await self._all()
            self._broker.counts.add("messages_refused", error.code)
            self._write(_refused(error, reference_of(given)))
            return
        except BaseException:  # whatever ends the connection, others need the room
            loan.hold(0)
            raise
        if isinstance(message, Publish):
            self._working.append(asyncio.create_task(self._answer(message, loan)))
            if self._working[0].done():
                self._write_done()
        else:
            await self._all()
            self._write(await self._answer(message, loan))

    async def _decoded(self, given: str) -> ClientMessage:
        limits = self._broker.limits
        expect_few(given, limits.max_publications)
        if len(given) <= LARGE:
            return message_of(given, limits.max_publication)
        return await run_sync(message_of, given, limits.max_publication, limiter=self._broker.large_bodies)

    def end(self) -> None:
        """Nothing is to be answered any more. What is being published goes on."""
        for task in self._working:
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._working.clear()

    # --- the order of answers ---------------------------------------------------------------------------------------

    async def _oldest(self) -> None:
        """Wait for the oldest answer, and write it."""
        await asyncio.wait([self._working[0]])
        self._write_done()

    async def _all(self) -> None:
        while self._working:
            await self._oldest()

    def _write_done(self) -> None:
        """Write the answers that are there and have none before them."""
        while self._working and self._working[0].done():
            self._write(self._working.pop(0).result())

    # --- what is done -----------------------------------------------------------------------------------------------

    async def _answer(self, message: ClientMessage, loan: Loan) -> bytes:
        """The answer to a message, which takes its loan until then."""
        with loan:
            return await self._answered(message)

    async def _answered(self, message: ClientMessage) -> bytes:
        caller = None
        try:
            caller = await self._renewed()
            self._check_rate(caller)
            return _with_reference({"type": "accepted", **await self._done(caller, message)}, message.ref)
        except TidegateError as error:
            self._broker.counts.add("messages_refused", error.code)
            if caller is not None and is_refused_access(error):
                what, who = f"message {type(message).__name__}", {"principal": caller.name, "token": caller.token}
                self._broker.access.audit.refused(what, str(error), address=self._address, **who)
            return _refused(error, message.ref)
        except Exception:
            _LOG.exception("a message of type %s failed", type(message).__name__)
            wrong = RequestError(500, "internal", "an answer", "an error of the broker, in its log")
            return _refused(wrong, message.ref)
        finally:
            asyncio.get_running_loop().call_soon(self._write_done)

    def _check_rate(self, caller: Caller) -> None:
        rate = self._broker.limits.requests_per_second
        if rate and self._broker.rates.take(f"requests of {caller.name}", rate) > 0:
            raise RequestError(429, "rate", f"at most {rate:,g} requests a second", "more")

    async def _done(self, caller: Caller, message: ClientMessage) -> Body:
        """What HTTP would answer."""
        broker = self._broker
        match message:
            case Ping():
                return {}
            case Ack(upto=upto):
                caller.expect("subscriber")
                await self._acknowledge(upto if isinstance(upto, str) else whole(upto))
                return {}
            case Publish():
                caller.expect("publisher")
                return _published(await publish(broker, caller, message.given()))
            case Unpublish(source=source, id=id):
                caller.expect("publisher")
                await unpublish(broker, caller, source, id)
                return {}
            case Subscribe(id=id, if_match=if_match):
                caller.expect("subscriber")
                found = await subscribe(broker, caller, id, message, if_match)
                return {"created": found.created, **to_builtins(found.subscription)}
            case Unsubscribe(id=id):
                caller.expect("subscriber")
                await unsubscribe(broker, caller, id)
                return {}
            case Announce():
                caller.expect("publisher")
                announced = await announce(broker, caller, message)
                return {"created": announced.created, **to_builtins(announced.announcement)}
            case Revoke(id=id):
                await revoke(broker, caller, id)
                return {}


def _published(found: Published) -> Body:
    """What became of publications; an error if all were refused."""
    if found.refused and not (found.accepted or found.duplicates):
        raise _AllRefused(found)
    said: Body = to_builtins(found, str_keys=True)
    return said


class _AllRefused(RequestError):
    """Nothing of what was to be published was accepted."""

    def __init__(self, found: Published) -> None:
        first = found.refused[0]
        super().__init__(422, first.code, "publications of which one can be taken", first.detail)
        self.found = found


def _refused(error: TidegateError, ref: Any) -> bytes:
    said = problem(error)
    del said["type"]
    if isinstance(error, _AllRefused):
        said |= to_builtins(error.found, str_keys=True)
    return _with_reference({"type": "error", **said}, ref)


def _with_reference(answer: Body, ref: Any) -> bytes:
    return orjson.dumps(answer if ref is UNSET else {**answer, "ref": ref})
