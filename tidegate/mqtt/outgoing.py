"""What goes to the MQTT broker: the items of queues as messages, so many on their way at a time, and answers.

Each principal's queue has an ``MqttChannel``, to which ``Delivery`` gives items as to any connection. ``Outgoing``
sends those of all channels in turn, and moves a queue's cursor to the last number of which the MQTT broker has
acknowledged all up to it. What was on its way when a connection was lost is sent again by the next one, if that comes
soon; else it is read again, as it counts by then. A principal whose message the MQTT broker refuses waits for a while
and begins again behind its cursor; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.broker.connections import Hello
from tidegate.broker.encoded_items import EncodedItem
from tidegate.errors import TidegateError, shown
from tidegate.gateway.channels import Channel, Ending
from tidegate.mqtt.mqtt_connection import MqttConnection
from tidegate.mqtt.notification_messages import left_out, message_of
from tidegate.mqtt.packets import Acknowledged, Reason, again, publishing
from tidegate.mqtt.refused_items import RefusedItems
from tidegate.runs.mqtt_section import MqttSection

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["DESTINATION", "MqttChannel", "Outgoing"]

_LOG = logging.getLogger("tidegate.mqtt")
DESTINATION = "mqtt"
#: Numbers of messages; those above are for subscribing.
_NUMBERS = 64_000
#: Messages that are sent before others have their turn, bytes that may be on their way, and answers that may wait.
_SLICE, _BYTES, _MOST_ANSWERS = 128, 8 << 20, 2000
#: Seconds for which a principal waits that was refused: twice as long each time.
_FIRST_REST, _LONGEST_REST = 1.0, 60.0
#: Seconds without a connection after which what was on its way is read again: it may have expired, or not be for its
#: principal any more.
_SOON = 1.0
_NOT_TAKEN = Ending(1013, "the MQTT broker does not take it")
_FAILED = Ending(1011, "an error of the broker, in its log")
_AWAY = Ending(1013, "the MQTT broker is away")


class MqttChannel(Channel):
    """How the queue of one principal is told over MQTT. It is full while items of it wait to be sent."""

    kind = "mqtt"

    def __init__(self, principal: str, topic: bytes, outgoing: Outgoing) -> None:
        super().__init__(principal)
        self.topic, self._outgoing = topic, outgoing
        self.epoch, self.read_at = "", 0
        self.waiting = deque[EncodedItem]()
        self.unacknowledged = deque[_Number]()
        """The numbers that were sent, in order, from the first one of which that is not acknowledged."""

    def greet(self, hello: Hello) -> None:
        self.epoch = hello.epoch

    def deliver(self, items: Sequence[EncodedItem]) -> None:
        if not self.is_ended and items:
            self.waiting.extend(items)
            self.is_full = True  # so there is one piece at a time, which was read just now
            self._outgoing.has_items(self)

    def beat(self) -> None:
        """The connection does it."""

    def end(self, ending: Ending) -> None:
        if not self.is_ended:
            self.is_ended = True
            self._outgoing.has_ended(self)

    def sent(self, number: int) -> _Number:
        """Note that an item was sent."""
        found = _Number(number)
        self.unacknowledged.append(found)
        return found

    def acknowledge(self) -> int:
        """Move the cursor behind what is acknowledged with all before it; to which number, 0 if nothing is."""
        upto = 0
        while self.unacknowledged and self.unacknowledged[0].is_acknowledged:
            upto = self.unacknowledged.popleft().number
        if upto and self.connection is not None:
            try:
                self.connection.acknowledge(upto)
            except TidegateError as error:  # it is gone by now, or its file cannot be written: the next one moves it
                _LOG.info("an acknowledgement of %s was not taken: %s", self.principal, error)
        return upto


class _Number:
    """The number of an item that was sent, and whether that is acknowledged."""

    __slots__ = ("is_acknowledged", "number")

    def __init__(self, number: int) -> None:
        self.number, self.is_acknowledged = number, False


class _Sent(NamedTuple):
    """A message on its way: whose item it is, if it is one, and its bytes, to be sent again."""

    channel: MqttChannel | None
    number: _Number | None
    data: bytes


class Outgoing:
    """Sends in the event loop of the bridge. ``ended`` is called with channels that are told nothing any more."""

    def __init__(self, broker: OpenBroker, section: MqttSection, ended: Callable[[MqttChannel], None]) -> None:
        self._broker, self._section, self._ended = broker, section, ended
        self._topics = f"{section.topic('notifications')}/"
        self._connection: MqttConnection | None = None
        self._ready = deque[MqttChannel]()
        self._others = deque[tuple[bytes, bytes, dict[int, Any], bool]]()
        self._in_flight: dict[int, _Sent] = {}
        self._bytes, self._next, self._window = 0, 1, 0
        self._is_due = False
        self._rests: dict[str, float] = {}
        self._refused_items = RefusedItems()
        self._lost_at = 0.0

    @property
    def in_flight(self) -> int:
        """Messages that were sent and are not acknowledged."""
        return len(self._in_flight)

    def channel(self, principal: str) -> MqttChannel:
        """A new channel of a principal."""
        return MqttChannel(principal, (self._topics + principal).encode(), self)

    # --- connections ------------------------------------------------------------------------------------------------

    def begin(self, connection: MqttConnection) -> None:
        """Send by this connection from now on: first again what was on its way, then what waits."""
        self._connection = connection
        self._window = min(self._section.send, connection.receive_maximum)
        sent, self._in_flight, self._bytes = self._in_flight, {}, 0
        is_late = asyncio.get_running_loop().time() > self._lost_at + _SOON
        for packet, one in sent.items():
            if one.channel is None or one.channel.is_ended:  # whoever asked has given up, or asks again
                continue
            has_room = len(self._in_flight) < self._window and len(one.data) <= connection.largest_packet
            if is_late or not has_room:  # this connection may take less than the one before; the cursor has not moved
                one.channel.end(_AWAY)
                continue
            self._in_flight[packet] = one
            self._bytes += len(one.data)
            connection.send(again(one.data) if connection.has_session else one.data)
        self._pump_later()

    def pause(self) -> None:
        """The connection is lost. Queues of which nothing is on its way are read again when there is another one."""
        if self._connection is not None:
            self._lost_at = asyncio.get_running_loop().time()
        self._connection = None
        busy = {id(one.channel) for one in self._in_flight.values()}
        for channel in [one for one in self._ready if id(one) not in busy]:
            channel.end(_AWAY)

    def publish(self, topic: str, payload: bytes, properties: dict[int, Any], retain: bool = False) -> None:
        """Publish something that is in no queue, before all that is; left out if too much of that waits already."""
        if len(self._others) >= _MOST_ANSWERS:
            self._broker.counts.add("mqtt_dropped", "answer")
            return
        self._others.append((topic.encode(), payload, properties, retain))
        self._pump_later()

    # --- channels ---------------------------------------------------------------------------------------------------

    def has_items(self, channel: MqttChannel) -> None:
        """A channel has items to send. While nobody takes any they are not kept, unless some are on their way."""
        if self._connection is None and not channel.unacknowledged:
            channel.end(_AWAY)
            return
        channel.read_at = self._broker.clock()
        self._ready.append(channel)
        self._pump_later()

    def has_ended(self, channel: MqttChannel) -> None:
        channel.waiting.clear()
        channel.unacknowledged.clear()
        self._ended(channel)

    def rest(self, principal: str) -> float:
        """Seconds for which a principal is to wait that was refused."""
        return self._rests.get(principal, 0.0)

    # --- acknowledgements -------------------------------------------------------------------------------------------

    def acknowledged(self, packets: Sequence[Acknowledged]) -> None:
        """The MQTT broker has acknowledged messages."""
        moved = dict[MqttChannel, None]()
        for packet, reason in packets:
            sent = self._in_flight.pop(packet, None)
            if sent is None:
                continue
            self._bytes -= len(sent.data)
            if sent.channel is None or sent.number is None:
                continue
            if reason >= Reason.UNSPECIFIED:
                self._refused(sent.channel, sent.number.number, reason)
                continue
            if sent.channel.is_ended:
                continue
            if reason == Reason.NO_SUBSCRIBERS:
                self._broker.counts.add("mqtt_sent", "no_subscribers")
            sent.number.is_acknowledged = True
            moved[sent.channel] = None
        for channel in moved:
            if not channel.is_ended:
                self._acknowledge(channel)
                self._rests.pop(channel.principal, None)
        self.pump()

    def _acknowledge(self, channel: MqttChannel) -> None:
        if upto := channel.acknowledge():
            self._refused_items.acknowledged(channel.principal, channel.epoch, upto)

    def _refused(self, channel: MqttChannel, number: int, reason: int) -> None:
        known = Reason(reason).name.lower() if reason in set(Reason) else f"reason_{reason}"
        self._broker.counts.add("mqtt_refused", known)
        is_left_out = self._refused_items.note(channel.principal, channel.epoch, number, reason)
        if channel.is_ended:
            return
        if is_left_out:
            self._rests.pop(channel.principal, None)
        elif not self._rest_longer(channel.principal):
            name, said = shown(channel.principal), f"{reason} ({known})"
            _LOG.warning("the MQTT broker refuses number %d of %s with reason %s", number, name, said)
        self._acknowledge(channel)
        channel.end(_NOT_TAKEN)

    def _rest_longer(self, principal: str) -> float:
        """Have a principal wait twice as long as before; how long that was."""
        before = self._rests.get(principal, 0.0)
        self._rests[principal] = min(max(_FIRST_REST, 2 * before), _LONGEST_REST)
        return before

    # --- sending ----------------------------------------------------------------------------------------------------

    def _pump_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.pump)

    def _has_room(self) -> bool:
        connection = self._connection
        is_there = connection is not None and connection.is_writable and not connection.is_lost
        return is_there and len(self._in_flight) < self._window and self._bytes < _BYTES

    def pump(self) -> None:
        """Send what there is room for."""
        self._is_due = False
        parts = list[bytes]()
        while self._others and self._has_room():
            self._send_other(*self._others.popleft(), parts)
        ready, now = self._ready, self._broker.clock()
        while ready and self._has_room() and len(parts) < _SLICE:
            channel = ready.popleft()
            if channel.is_ended or not channel.waiting:
                continue
            try:
                self._send_one(channel, channel.waiting.popleft(), now, parts)
            except Exception:  # one item keeps nobody else from what they are told
                _LOG.exception("an item of %s could not be sent", shown(channel.principal))
                self._rest_longer(channel.principal)
                channel.end(_FAILED)
            if channel.waiting:
                ready.append(channel)
            else:
                channel.is_full = False
                channel.taken()
        if parts and self._connection is not None:
            self._connection.send(b"".join(parts))
            if len(parts) >= _SLICE:
                self._pump_later()

    def _send_other(
        self, topic: bytes, payload: bytes, properties: dict[int, Any], retain: bool, parts: list[bytes]
    ) -> None:
        number = self._number()
        data = publishing(topic, payload, number, properties, retain)
        assert self._connection is not None
        if len(data) > self._connection.largest_packet:
            self._broker.counts.add("mqtt_dropped", "answer")
            return
        self._put(parts, number, _Sent(None, None, data))

    def _send_one(self, channel: MqttChannel, item: EncodedItem, now: int, parts: list[bytes]) -> None:
        assert self._connection is not None
        number, most = self._number(), self._connection.largest_packet
        why = self._refused_items.why_left_out(channel.principal, channel.epoch, item.number)
        data = b"" if why else self._message(channel, item, number, now)
        if why or len(data) > most:
            why = why or "too_large"
            self._broker.counts.add("mqtt_dropped", why)
            item = left_out(item, why)
            data = self._message(channel, item, number, now)
        self._broker.counts.add("mqtt_sent", item.type)
        self._put(parts, number, _Sent(channel, channel.sent(item.number), data))

    @staticmethod
    def _message(channel: MqttChannel, item: EncodedItem, number: int, now: int) -> bytes:
        properties = message_of(item, channel.epoch, now, channel.read_at)
        return publishing(channel.topic, item.body, number, properties)

    def _put(self, parts: list[bytes], number: int, sent: _Sent) -> None:
        self._in_flight[number] = sent
        self._bytes += len(sent.data)
        parts.append(sent.data)

    def _number(self) -> int:
        """A number that no message on its way has."""
        while self._next in self._in_flight:
            self._next = self._next % _NUMBERS + 1
        found, self._next = self._next, self._next % _NUMBERS + 1
        return found
