"""A broker of MQTT 5 in the process of a test, which does only what a test wants: it keeps what it is told, sends what
it is given, and acknowledges at once, later, or with a reason.

It reads packets in obvious steps of its own, with paho's properties, and knows nothing of ``tidegate.mqtt``.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import NamedTuple

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

__all__ = ["FakeMqttBroker", "Published", "fake_mqtt_broker", "properties"]


class Published(NamedTuple):
    """A message that a client has published."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    is_repeated: bool
    packet: int
    properties: dict


def properties(kind: int = PacketTypes.PUBLISH, **values) -> bytes:
    """Properties as paho packs them: ``ContentType="…"``, ``UserProperty=[("a", "b")]``."""
    found = Properties(kind)
    for name, value in values.items():
        setattr(found, name, value)
    return found.pack()


def variable(number: int) -> bytes:
    found = b""
    while number >= 128:
        found += bytes([number % 128 + 128])
        number //= 128
    return found + bytes([number])


def field(content: bytes) -> bytes:
    return len(content).to_bytes(2, "big") + content


def packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + variable(len(body)) + body


class FakeMqttBroker:
    """Has one client at a time. ``reason`` is what PUBACK says (None: nothing is acknowledged), ``has_session`` and
    ``receive_maximum`` what CONNACK says; filters in ``refuses`` are not subscribed to.
    """

    def __init__(self):
        self.reason, self.has_session, self.receive_maximum, self.largest = 0, False, None, None
        self.refuses_login, self.has_ids = 0, None
        self.refuses, self.given_up = set(), []
        self.logins: list[dict] = []
        self.subscriptions: list[tuple[int | None, list[tuple[str, int]]]] = []
        self.published: list[Published] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.disconnected: list[int] = []
        self.pings = 0
        self.writer: asyncio.StreamWriter | None = None
        self.changed = asyncio.Condition()

    async def serve(self, reader, writer):
        try:
            while True:
                first, body = await self._packet(reader)
                async with self.changed:
                    self._take(first, body, writer)
                    self.changed.notify_all()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            if self.writer is writer:
                self.writer = None
            writer.close()

    async def _packet(self, reader):
        first, size, shift = (await reader.readexactly(1))[0], 0, 0
        while True:
            byte = (await reader.readexactly(1))[0]
            size += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return first, await reader.readexactly(size)

    def _take(self, first, body, writer):
        kind = first >> 4
        if kind == 1:
            self._login(body, writer)
        elif kind == 3:
            self._message(first, body, writer)
        elif kind == 4:
            self.acknowledged.append((int.from_bytes(body[:2], "big"), body[2] if len(body) > 2 else 0))
        elif kind == 8:
            self._subscribe(body, writer)
        elif kind == 10:
            self._unsubscribe(body, writer)
        elif kind == 12:
            self.pings += 1
            writer.write(b"\xd0\x00")
        elif kind == 14:
            self.disconnected.append(body[0] if body else 0)
        else:
            raise AssertionError(f"a packet of kind {kind}")

    def _login(self, body, writer):
        assert body[:7] == b"\x00\x04MQTT\x05"
        found, size = Properties(PacketTypes.CONNECT).unpack(body[10:])
        at = 10 + size
        length = int.from_bytes(body[at : at + 2], "big")
        said = {"clean": bool(body[7] & 2), "id": body[at + 2 : at + 2 + length].decode(), "keep_alive": body[9]}
        self.logins.append({**said, "flags": body[7], "rest": body[at + 2 + length :], **found.json()})
        more = {"ReceiveMaximum": self.receive_maximum, "MaximumPacketSize": self.largest}
        more["SubscriptionIdentifierAvailable"] = self.has_ids
        more = {name: value for name, value in more.items() if value is not None}
        accepted = bytes([self.has_session, self.refuses_login]) + properties(PacketTypes.CONNACK, **more)
        writer.write(packet(0x20, accepted))
        if not self.refuses_login:
            self.writer = writer

    def _message(self, first, body, writer):
        length = int.from_bytes(body[:2], "big")
        topic, at, number, qos = body[2 : 2 + length].decode(), 2 + length, 0, first >> 1 & 3
        if qos:
            number, at = int.from_bytes(body[at : at + 2], "big"), at + 2
        found, size = Properties(PacketTypes.PUBLISH).unpack(body[at:])
        flags = bool(first & 1), bool(first & 8)
        self.published.append(Published(topic, body[at + size :], qos, *flags, number, found.json()))
        if qos and self.reason is not None:
            self.acknowledge(number, self.reason)

    def _subscribe(self, body, writer):
        found, size = Properties(PacketTypes.SUBSCRIBE).unpack(body[2:])
        at, filters = 2 + size, []
        while at < len(body):
            length = int.from_bytes(body[at : at + 2], "big")
            filters.append((body[at + 2 : at + 2 + length].decode(), body[at + 2 + length]))
            at += 3 + length
        ids = found.json().get("SubscriptionIdentifier", [None])
        self.subscriptions.append((ids[0] if isinstance(ids, list) else ids, filters))
        reasons = [135 if topic_filter in self.refuses else 1 for topic_filter, _ in filters]
        writer.write(packet(0x90, body[:2] + b"\0" + bytes(reasons)))

    def _unsubscribe(self, body, writer):
        assert body[2] == 0
        self.given_up.append(body[5:].decode())
        assert int.from_bytes(body[3:5], "big") == len(body) - 5
        writer.write(packet(0xB0, body[:2] + b"\0\0"))

    # --- what tests do with it --------------------------------------------------------------------------------------

    def send(self, topic, payload, number=0, more=b"\0", retain=False, is_repeated=False):
        """Send a message to the client; with QoS 1 if it has a number."""
        body = field(topic.encode()) + (number.to_bytes(2, "big") if number else b"") + more + payload
        self.writer.write(packet(0x30 | (2 if number else 0) | retain | (8 if is_repeated else 0), body))

    def acknowledge(self, number, reason=0):
        self.writer.write(packet(0x40, number.to_bytes(2, "big") + (bytes([reason, 0]) if reason else b"")))

    def cut(self):
        """Lose the client."""
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None

    async def until(self, holds, seconds=30):
        """What ``holds`` gives as soon as it is anything."""
        async with asyncio.timeout(seconds), self.changed:
            while not (found := holds()):
                await self.changed.wait()
            return found

    def ids(self, topic_filter):
        """The ids of the latest subscriptions to a filter, the last one last."""
        return [id for id, filters in self.subscriptions if filters[0][0] == topic_filter]

    def told(self, topic=None):
        """What the client published but for its status; under one topic."""
        return [one for one in self.published if one.topic != "tidegate/status" and topic in (None, one.topic)]


@asynccontextmanager
async def fake_mqtt_broker():
    """One that listens; gives it and its port."""
    broker = FakeMqttBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    try:
        yield broker, server.sockets[0].getsockname()[1]
    finally:
        broker.cut()
        server.close()
