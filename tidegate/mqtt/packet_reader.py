"""``PacketReader``: from the bytes of a connection to packets, however the bytes are cut.

A packet is kept until all of it is there, but for a message larger than ``most``: of that the head is read, so that it
can be refused and acknowledged, and the rest is thrown away as it comes. Anything that is no packet is an error, after
which nothing can be read any more. Knows only the packets that a client gets.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.mqtt.packet_properties import NONE, properties_at
from tidegate.mqtt.packets import Accepted, Acknowledged, Disconnected, Kind, Message, Packet, Pong, Subscribed
from tidegate.mqtt.wire_fields import LARGEST_TEXT, WrongPacket, number_at, text_at, variable_at

__all__ = ["PacketReader"]

#: Bytes of a message within which its number stands: a length, a topic, a number.
_HEAD = 2 + LARGEST_TEXT + 2
_PUBLISH = Kind.PUBLISH << 4


class PacketReader:
    """Reads the packets of one connection, of which a message may have ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most = max(most, _HEAD)
        self._kept, self._left_out = b"", 0

    def read(self, data: bytes) -> list[Packet]:
        """The packets that end in ``data``, which follows what was given before."""
        if self._left_out:
            skipped = min(self._left_out, len(data))
            self._left_out -= skipped
            data = data[skipped:]
        if self._kept:
            data = self._kept + data
        found, at, end = list[Packet](), 0, len(data)
        while end - at >= 2:
            size, begin = data[at + 1], at + 2
            if size > 127:
                head = _size_at(data, at + 1, end)
                if head is None:
                    break
                size, begin = head
            if size > self._most:
                if end - begin < _HEAD:
                    break
                found.append(_head_of_message(data, at, begin, end))
                self._left_out = max(0, begin + size - end)
                at = min(end, begin + size)
                continue
            stop = begin + size
            if stop > end:
                break
            first = data[at]
            if first & 0xF0 == _PUBLISH:
                found.append(_message(data, first, begin, stop))
            else:
                found.append(_other(data, first, begin, stop))
            at = stop
        self._kept = data[at:] if at else data
        return found


def _size_at(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """The size of what follows, and where it begins; None while it is not there."""
    if end - at < 4 and all(byte > 127 for byte in data[at:end]):
        return None
    return variable_at(data, at, end)


def _message(data: bytes, first: int, at: int, end: int) -> Message:
    qos, packet = first >> 1 & 3, 0
    topic, at = text_at(data, at, end)
    if qos == 1:
        packet, at = number_at(data, at, 2, end)
    if qos > 1 or (qos and not packet):
        raise WrongPacket("a message with QoS 0, or with QoS 1 and a number", f"QoS {qos} and the number {packet}")
    if end > at and data[at] == 0:
        return Message(topic, data[at + 1 : end], qos, bool(first & 1), bool(first & 8), packet)
    properties, at = properties_at(data, at, end)
    return Message(topic, data[at:end], qos, bool(first & 1), bool(first & 8), packet, properties)


def _head_of_message(data: bytes, at: int, begin: int, end: int) -> Message:
    """A message that is too large, without its payload and its properties."""
    first = data[at]
    if first & 0xF0 != _PUBLISH:
        raise WrongPacket("a packet of that kind that is smaller", "a very large one")
    qos, packet = first >> 1 & 3, 0
    topic, place = text_at(data, begin, end)
    if qos:
        packet, _ = number_at(data, place, 2, end)
    return Message(topic, b"", qos, bool(first & 1), bool(first & 8), packet, is_whole=False)


def _accepted(data: bytes, at: int, end: int) -> Accepted:
    flags, at = number_at(data, at, 1, end)
    reason, at = number_at(data, at, 1, end)
    properties, _ = properties_at(data, at, end) if at < end else (NONE, at)
    return Accepted(bool(flags & 1), reason, properties)


def _acknowledged(data: bytes, at: int, end: int) -> Acknowledged:
    packet, at = number_at(data, at, 2, end)
    return Acknowledged(packet, data[at] if at < end else 0)


def _subscribed(data: bytes, at: int, end: int) -> Subscribed:
    packet, at = number_at(data, at, 2, end)
    _, at = properties_at(data, at, end)
    return Subscribed(packet, tuple(data[at:end]))


def _pong(data: bytes, at: int, end: int) -> Pong:
    return Pong()


def _disconnected(data: bytes, at: int, end: int) -> Disconnected:
    if at == end:
        return Disconnected(0, NONE)
    reason, at = number_at(data, at, 1, end)
    properties, _ = properties_at(data, at, end) if at < end else (NONE, at)
    return Disconnected(reason, properties)


_OTHERS: dict[int, Callable[[bytes, int, int], Packet]] = {
    Kind.CONNACK << 4: _accepted,
    Kind.PUBACK << 4: _acknowledged,
    Kind.SUBACK << 4: _subscribed,
    Kind.UNSUBACK << 4: _subscribed,
    Kind.PINGRESP << 4: _pong,
    Kind.DISCONNECT << 4: _disconnected,
}


def _other(data: bytes, first: int, at: int, end: int) -> Packet:
    reader = _OTHERS.get(first)
    if reader is None:
        raise WrongPacket("a packet that a client gets", f"one that begins with the byte 0x{first:02x}")
    return reader(data, at, end)
