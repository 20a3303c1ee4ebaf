"""Clients of an MQTT broker for the bench: one that publishes as fast as it may, or at a rate, and one that listens.

They write and read packets over plain sockets, so that they cost little beside what is measured.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from time import monotonic, sleep

from tidegate.closing import Closing
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packet_reader import PacketReader
from tidegate.mqtt.packets import (
    Acknowledged,
    Login,
    Message,
    Packet,
    Subscription,
    acknowledgement,
    connecting,
    publishing,
    subscribing,
)

__all__ = ["Listener", "publish"]

#: Messages on their way, fewer than Mosquitto takes; the largest number of one; bytes of a piece.
_WINDOW, _NUMBERS, _PIECE = 18, 60_000, 1 << 16
_PATIENCE = 120.0


class _Client(Closing):
    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader, self._waiting = PacketReader(1 << 20), list[Packet]()
        login = Login(name, 0, {Property.RECEIVE_MAXIMUM: 1000}, clean_start=True)
        self.send(connecting(login))
        self._waiting = self.packets()[1:]

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()

    def packets(self) -> list[Packet]:
        """Those that come next, at least one."""
        while not self._waiting:
            data = self._socket.recv(_PIECE)
            if not data:
                raise SystemExit("bench mqtt: the MQTT broker has closed a connection")
            self._waiting = self._reader.read(data)
        found, self._waiting = self._waiting, []
        return found


def publish(
    port: int, name: str, topic: str, payloads: Iterator[Callable[[], bytes]], rate: float | None = None
) -> int:
    """Publish with QoS 1 what ``payloads`` make, as fast as is acknowledged or so many a second; how many they were."""
    sent, acknowledged, begin, encoded, is_over = 0, 0, monotonic(), topic.encode(), False
    with _Client(port, name) as client:
        while not is_over or acknowledged < sent:
            due = _WINDOW if rate is None else int((monotonic() - begin) * rate) - sent
            parts = list[bytes]()
            while not is_over and len(parts) < due and sent - acknowledged < _WINDOW:
                payload = next(payloads, None)
                if payload is None:
                    is_over = True
                    break
                parts.append(publishing(encoded, payload(), sent % _NUMBERS + 1))
                sent += 1
            if parts:
                client.send(b"".join(parts))
            if sent > acknowledged:
                acknowledged += sum(type(one) is Acknowledged for one in client.packets())
            elif not is_over:
                sleep(0.0005)
    return sent


class Listener(Closing):
    """Listens to a topic with QoS 1."""

    def __init__(self, port: int, topic: str) -> None:
        self._client = _Client(port, "listener")
        self._client.send(subscribing(1, [Subscription(topic)]))
        self._client.packets()

    def close(self) -> None:
        self._client.close()

    def messages(self, count: int) -> Iterator[tuple[float, bytes]]:
        """So many messages: when each came, and what it says."""
        got = 0
        while got < count:
            found = [one for one in self._client.packets() if type(one) is Message]
            now = monotonic()
            self._client.send(b"".join(acknowledgement(one.packet) for one in found))
            for one in found:
                yield now, one.payload
            got += len(found)
