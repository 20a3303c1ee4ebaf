"""What comes from the MQTT broker: messages become publications, and are acknowledged once these are on the disk.

All that waits is appended together, again and again. Acknowledgements go out in the order in which the messages came.
What cannot be appended now (a full disk, a quota, a store that fails) is tried again and not acknowledged meanwhile;
what can never be is refused, counted and acknowledged with a reason. Messages that are requests are passed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.gateway.publishing import publish
from tidegate.gateway.submission import Published
from tidegate.mqtt.message_items import MessageItems
from tidegate.mqtt.message_refusals import MessageRefused, RefusalLog, reason_of
from tidegate.mqtt.mqtt_connection import MqttConnection
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Message, Reason, acknowledgement
from tidegate.mqtt.publisher import Publisher
from tidegate.mqtt.requests import Requests
from tidegate.mqtt.session_subscriptions import SessionSubscriptions

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["Incoming"]

_LOG = logging.getLogger("tidegate.mqtt")
#: Publications that are appended together at most, and bytes of payloads that wait for that, from which on no more is
#: read.
_GROUP, _ROOM = 1000, 8 << 20
#: About what a message takes beside its payload.
_EACH = 512
#: Seconds before what could not be appended is tried again: twice as long each time.
_FIRST, _LONGEST = 0.1, 5.0


class _Arrival:
    """A message that has come: its items while they wait, and the reason of its acknowledgement once that is known."""

    __slots__ = ("connection", "is_state", "items", "packet", "proves", "reason", "size", "topic")

    def __init__(self, message: Message, connection: MqttConnection | None) -> None:
        self.packet, self.topic, self.size = message.packet, message.topic, len(message.payload) + _EACH
        self.connection = connection
        self.items: list[Any] = []
        self.is_state, self.proves = False, ""
        self.reason: int | None = None


class Incoming:
    """Takes messages in the event loop of the bridge. ``run`` appends; ``begin`` is called with each connection."""

    def __init__(
        self,
        broker: OpenBroker,
        items: MessageItems,
        publisher: Publisher,
        requests: Requests,
        subscriptions: SessionSubscriptions,
    ) -> None:
        self._broker, self._items, self._publisher, self._requests = broker, items, publisher, requests
        self._subscriptions = subscriptions
        self._connection: MqttConnection | None = None
        self._waiting = deque[_Arrival]()
        self._unacknowledged = deque[_Arrival]()
        self._something = asyncio.Event()
        self._bytes = 0
        self._log = RefusalLog()

    @property
    def in_flight(self) -> int:
        """Messages that came and are not acknowledged."""
        return len(self._unacknowledged)

    def begin(self, connection: MqttConnection | None) -> None:
        """Acknowledge to another connection from now on, or to none. What the one before has not heard of comes again:
        of that, what is not being appended already is forgotten.
        """
        self._connection = connection
        self._unacknowledged.clear()
        kept = [one for one in self._waiting if not one.packet]
        self._waiting = deque(kept)
        self._bytes = sum(one.size for one in kept)

    def received(self, messages: Sequence[Message]) -> None:
        """Take messages that have come together."""
        for message in messages:
            arrival = _Arrival(message, self._connection)
            if message.packet:
                self._unacknowledged.append(arrival)
            try:
                self._take(message, arrival)
            except MessageRefused as wrong:
                self._refuse(arrival, wrong.code, str(wrong))
        self._something.set()
        if self._bytes > _ROOM and self._connection is not None:
            self._connection.hold(True)
        self._acknowledge()

    def _take(self, message: Message, arrival: _Arrival) -> None:
        """Take a message: it waits, or is settled at once."""
        if self._requests.takes(message.topic):
            subscriptions, ids = self._subscriptions, message.properties.get(Property.SUBSCRIPTION_ID)
            if subscriptions.is_copy(subscriptions.requests, ids):
                self._settle(arrival, "overlapping", Reason.SUCCESS)
            else:
                arrival.proves = subscriptions.proof(subscriptions.requests, ids)
                arrival.reason = self._requests.take(message)
            return
        if not message.payload and message.retain and message.is_whole:  # the topic has no state any more
            self._settle(arrival, "cleared", Reason.SUCCESS)
            return
        arrival.items, arrival.is_state, arrival.proves = self._items.read(message)
        if not arrival.items:
            self._settle(arrival, "overlapping", Reason.SUCCESS)
            return
        self._waiting.append(arrival)
        self._bytes += arrival.size

    def _refuse(self, arrival: _Arrival, code: str, detail: str) -> None:
        self._log.note(code, arrival.topic, detail)
        self._settle(arrival, code, reason_of(code))

    def _settle(self, arrival: _Arrival, cause: str, reason: int) -> None:
        self._broker.counts.add("mqtt_received", cause)
        arrival.reason = reason

    def _acknowledge(self) -> None:
        """Acknowledge what has none before it that waits."""
        unacknowledged, parts = self._unacknowledged, list[bytes]()
        while unacknowledged and (reason := unacknowledged[0].reason) is not None:
            one = unacknowledged.popleft()
            parts.append(acknowledgement(one.packet, reason))
            if one.proves:
                self._subscriptions.prove(one.proves)
        if parts and self._connection is not None:
            self._connection.send(b"".join(parts))

    # --- appending --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Append what waits, until this is cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            while group := self._next():
                await self._append(group)
                self._acknowledge()
                if self._bytes <= _ROOM // 2 and self._connection is not None:
                    self._connection.hold(False)

    def _next(self) -> list[_Arrival]:
        """What is appended next, all together."""
        most, count, group = min(_GROUP, self._broker.limits.max_publications), 0, list[_Arrival]()
        most = min(most, self._publisher.most())
        waiting = self._waiting
        while waiting and (not group or count + len(waiting[0].items) <= most):
            one = waiting.popleft()
            count += len(one.items)
            self._bytes -= one.size
            group.append(one)
        return group

    async def _append(self, group: Sequence[_Arrival]) -> None:
        wait = _FIRST
        while True:
            await self._may_append()
            group = [
                one for one in group if not one.packet or one.connection is self._connection
            ]  # the rest comes again
            items = [item for one in group for item in one.items]
            if not items:
                return
            try:
                found = await publish(self._broker, self._publisher.caller, items)
                break
            except (TidegateError, OSError) as error:
                cause = error.code if isinstance(error, TidegateError) else "store"
                self._broker.counts.add("mqtt_retried", cause)
                _LOG.warning("%d publications could not be appended, and are tried again: %s", len(items), error)
            except Exception:
                if len(group) == 1:
                    _LOG.exception("a message could not be taken")
                    self._refuse(group[0], "internal", "an error of the broker, in its log")
                    return
                for one in group:
                    await self._append([one])
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST)
        self._settle_all(group, found)

    async def _may_append(self) -> None:
        """Wait while the disk is nearly full, and as the quota wants."""
        is_told = False
        while (is_full := self._broker.free_room.is_full()) or (wait := self._publisher.wait()) > 0:
            if not is_told:
                self._broker.counts.add("mqtt_retried", "full" if is_full else "rate")
                is_told = True
            await asyncio.sleep(1.0 if is_full else wait)

    def _settle_all(self, group: Sequence[_Arrival], found: Published) -> None:
        """Say of each message what became of its items."""
        if not found.refused:
            for one in group:
                one.reason = Reason.SUCCESS
            self._broker.counts.add("mqtt_received", "taken", len(group))
            return
        refused = {one.index: one for one in found.refused}
        at = 0
        for one in group:
            wrong = [refused[place] for place in range(at, at + len(one.items)) if place in refused]
            at += len(one.items)
            if one.is_state:  # it was there before, and its validity, which is counted from now on, alone is another
                wrong = [each for each in wrong if each.code != "conflict"]
            if not wrong:
                self._settle(one, "taken", Reason.SUCCESS)
            else:
                self._refuse(one, wrong[0].code, wrong[0].detail)
