"""``MqttConnection``: one connection to a broker of MQTT 5, from the login to its loss.

It reads and writes packets, keeps the connection alive and finds out when the other end is gone. Whoever opens it is
given messages and acknowledgements, all those of one piece that was read together, and decides when a message is
acknowledged: nothing is by itself. Knows nothing of publications; connects once, ``bridge`` does it again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, cast

from tidegate.errors import TidegateError
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packet_reader import PacketReader
from tidegate.mqtt.packets import (
    PING,
    Accepted,
    Acknowledged,
    Disconnected,
    Login,
    Message,
    Packet,
    Pong,
    Reason,
    Subscribed,
    Subscription,
    connecting,
    disconnecting,
    subscribing,
    unsubscribing,
)
from tidegate.mqtt.wire_fields import LARGEST_VARIABLE, WrongPacket
from tidegate.runs.mqtt_section import MqttAddress

__all__ = ["MqttConnection", "MqttListener", "MqttLost"]

#: Seconds to connect and to be answered, and for what was written before the end to be taken.
_PATIENCE, _FLUSH = 10.0, 1.0
#: Seconds after which whoever waits for an answer looks whether any could have come.
_TURN = 0.5
#: Numbers of packets that subscribe; those of messages are below.
_FIRST_OWN = 65_000
_LARGEST_NUMBER = 65_535
#: Bytes that wait to be written, from which on no message is given.
_ROOM = 1 << 20


class MqttLost(TidegateError, ConnectionError):
    """There is no connection to the MQTT broker, or no longer."""

    code = "mqtt"

    __str__ = TidegateError.__str__


class MqttListener(Protocol):
    """Who is told what comes."""

    def begun(self, connection: MqttConnection) -> None:
        """The connection is logged in; messages may come with the same piece."""

    def received(self, messages: Sequence[Message]) -> None:
        """Messages have come."""

    def acknowledged(self, packets: Sequence[Acknowledged]) -> None:
        """Messages of ours were acknowledged."""

    def writable(self) -> None:
        """There is room again for messages of ours."""


class MqttConnection(asyncio.Protocol):
    """Used in one event loop. ``open`` gives one that is logged in; ``lost`` ends when it is none any more."""

    def __init__(self, login: Login, most: int, listener: MqttListener) -> None:
        self._login, self._listener = login, listener
        self._reader = PacketReader(most)
        self._loop = asyncio.get_running_loop()
        self._accepted: asyncio.Future[Accepted] = self._loop.create_future()
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._subscribing: dict[int, asyncio.Future[Subscribed]] = {}
        self._next_own = _FIRST_OWN
        self._keep_alive = float(login.keep_alive)
        self._read_at = self._written_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = True
        self.is_writable = True
        """Whether there is room for messages of ours."""
        self.has_session = False
        """Whether the MQTT broker still knew this client."""
        self.has_subscription_ids = True
        """Whether messages say by which subscription they came."""
        self.receive_maximum, self.largest_packet = _LARGEST_NUMBER, LARGEST_VARIABLE
        """How many messages of ours it takes before it has acknowledged the first, and of what size."""

    @staticmethod
    async def open(
        address: MqttAddress, tls: ssl.SSLContext | None, login: Login, most: int, listener: MqttListener
    ) -> MqttConnection:
        """A connection that is logged in; messages may have as many bytes as ``most``."""
        loop, host = asyncio.get_running_loop(), address.host
        connection: MqttConnection | None = None
        try:
            async with asyncio.timeout(_PATIENCE):
                name = host if tls is not None else None
                _, connection = await loop.create_connection(
                    lambda: MqttConnection(login, most, listener), host, address.port, ssl=tls, server_hostname=name
                )
                return await connection._logged_in()
        except TimeoutError:
            _cut_off(connection)
            raise MqttLost(f"an answer of {address} within {_PATIENCE:g} seconds", "none") from None
        except (OSError, UnicodeError) as error:  # a name of a host that is none
            _cut_off(connection)
            if isinstance(error, MqttLost):
                raise
            said = getattr(error, "strerror", None) or str(error)
            raise MqttLost(f"a connection to {address}", said) from None
        except BaseException:
            _cut_off(connection)
            raise

    async def _logged_in(self) -> MqttConnection:
        found = await self._accepted
        if found.reason >= Reason.UNSPECIFIED:
            said = f"reason {found.reason}" + _in_words(found.reason, found.properties.get(Property.REASON, ""))
            raise MqttLost("an MQTT broker that lets us in", said)
        if found.properties.get(Property.MAXIMUM_QOS) == 0:
            raise MqttLost("an MQTT broker with QoS 1", "one with QoS 0 only")
        self._look_later()
        return self

    def _take_answer(self, found: Accepted) -> None:
        """Take what the MQTT broker says of itself."""
        said_alive = found.properties.get(Property.SERVER_KEEP_ALIVE)
        if said_alive is not None:
            self._keep_alive = float(said_alive)
        self.has_session = found.has_session
        self.has_subscription_ids = found.properties.get(Property.SUBSCRIPTION_IDS_AVAILABLE, 1) == 1
        self.receive_maximum = found.properties.get(Property.RECEIVE_MAXIMUM) or _LARGEST_NUMBER
        self.largest_packet = found.properties.get(Property.MAXIMUM_PACKET) or LARGEST_VARIABLE
        if found.reason < Reason.UNSPECIFIED:
            self._listener.begun(self)

    # --- what is asked of it ----------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Write packets, unless the connection is lost or about to be."""
        if not self._lost.done() and not self._transport.is_closing():
            self._written_at = self._loop.time()
            self._transport.write(data)

    async def subscribe(self, wanted: Sequence[Subscription], id: int | None = None) -> tuple[int, ...]:
        """Subscribe; what the MQTT broker says to each of the topic filters."""
        return await self._asked(lambda number: subscribing(number, wanted, id))

    async def unsubscribe(self, topic_filter: str) -> tuple[int, ...]:
        """Give up a subscription; what the MQTT broker says to it."""
        return await self._asked(lambda number: unsubscribing(number, topic_filter))

    async def _asked(self, packet: Callable[[int], bytes]) -> tuple[int, ...]:
        """Send a packet, whose number is given, and wait for its answer: only while anything is read, and so long."""
        number = self._next_own
        self._next_own = _FIRST_OWN if number == _LARGEST_NUMBER else number + 1
        answer: asyncio.Future[Subscribed] = self._loop.create_future()
        self._subscribing[number] = answer
        patience = _PATIENCE
        try:
            self.send(packet(number))
            while not answer.done() and not self._lost.done():
                if patience <= 0:
                    raise MqttLost("an answer to SUBSCRIBE", "none")
                was_reading = self._is_reading
                await asyncio.wait((answer, self._lost), timeout=_TURN, return_when=asyncio.FIRST_COMPLETED)
                patience -= _TURN if was_reading and self._is_reading else 0
        finally:
            del self._subscribing[number]
        if not answer.done():
            raise MqttLost("an answer to SUBSCRIBE", self.why)
        return answer.result().reasons

    @property
    def is_lost(self) -> bool:
        return self._lost.done()

    @property
    def why(self) -> str:
        """Why it was lost."""
        return self._lost.result() if self._lost.done() else ""

    async def lost(self) -> str:
        """Wait until it is lost; why it was."""
        return await asyncio.shield(self._lost)

    def hold(self, is_full: bool) -> None:
        """Read nothing while whoever is told has no room."""
        if is_full == self._is_reading and not self._lost.done() and not self._transport.is_closing():
            self._is_reading = not is_full
            if is_full:
                self._transport.pause_reading()
            else:
                self._read_at = self._loop.time()  # what waited was not for us to see
                self._transport.resume_reading()

    async def close(self, reason: int = Reason.SUCCESS) -> None:
        """Say that it ends, and wait a moment until that was taken."""
        if self._lost.done():
            return
        self.send(disconnecting(reason))
        self._transport.close()
        await asyncio.wait((self._lost,), timeout=_FLUSH)
        self.abort("closed")

    def abort(self, why: str) -> None:
        """End it at once."""
        self._note_lost(why)
        self._transport.abort()

    # --- what the event loop says -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is none by its class
        self._transport.set_write_buffer_limits(high=_ROOM)
        self._transport.write(connecting(self._login))

    def data_received(self, data: bytes) -> None:
        self._read_at = self._loop.time()
        try:
            packets = self._reader.read(data)
            messages = [one for one in packets if type(one) is Message]
            acknowledged = [one for one in packets if type(one) is Acknowledged]
            if len(messages) + len(acknowledged) < len(packets):
                self._take_others(packets)
        except WrongPacket as wrong:
            self.send(disconnecting(Reason.MALFORMED))
            self.abort(str(wrong))
            return
        if acknowledged:
            self._listener.acknowledged(acknowledged)
        if messages and not self._lost.done():
            self._listener.received(messages)

    def _take_others(self, packets: Sequence[Packet]) -> None:
        for one in packets:
            match one:
                case Accepted() if not self._accepted.done():
                    self._accepted.set_result(one)
                    self._take_answer(one)
                case Subscribed(packet=packet) if packet in self._subscribing:
                    if not (answer := self._subscribing[packet]).done():
                        answer.set_result(one)
                case Disconnected(reason=reason):
                    said = one.properties.get(Property.REASON, "")
                    self._note_lost(f"the MQTT broker closes with reason {reason}{_in_words(reason, said)}")
                    self._transport.close()
                case Message() | Acknowledged() | Pong() | Subscribed():
                    pass
                case _:
                    raise WrongPacket("one answer to the login", "another")

    def connection_lost(self, exc: Exception | None) -> None:
        self._note_lost(str(exc) if exc is not None else "the MQTT broker closes the connection")

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        if not self._lost.done():
            self._listener.writable()

    def _note_lost(self, why: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._lost.done():
            self._lost.set_result(why)
        if not self._accepted.done():
            self._accepted.set_exception(MqttLost("an answer to the login", why))
            with suppress(MqttLost):
                self._accepted.exception()  # nobody may be waiting any more

    # --- as time passes ---------------------------------------------------------------------------------------------

    def _look_later(self) -> None:
        if self._keep_alive and not self._lost.done():
            self._timer = self._loop.call_later(self._keep_alive / 4, self._look)

    def _look(self) -> None:
        """Ask for a sign of life half way, and give up when none came for one and a half times that long."""
        now = self._loop.time()
        if self._is_reading and now - self._read_at > 1.5 * self._keep_alive:
            self.abort(f"the MQTT broker has said nothing for {now - self._read_at:.0f} seconds")
            return
        if now - min(self._written_at, self._read_at) >= self._keep_alive / 2:
            self.send(PING)
        self._look_later()


def _cut_off(connection: MqttConnection | None) -> None:
    if connection is not None:
        connection.abort("not logged in")


def _in_words(reason: int, said: str) -> str:
    known = f" ({Reason(reason).name})" if reason in set(Reason) else ""
    return f"{known}: {said}" if said else known
