"""Packets of MQTT 5 as a client sends and gets them: what each holds, and the bytes of those that are sent.

Only what a client with QoS 0 and 1 needs. ``packet_reader`` reads those that come. Knows no connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from tidegate.mqtt.packet_properties import NONE, packed_properties
from tidegate.mqtt.wire_fields import with_length, with_variable

__all__ = [
    "PING",
    "Accepted",
    "Acknowledged",
    "Disconnected",
    "Kind",
    "Login",
    "Message",
    "Packet",
    "Pong",
    "Reason",
    "Subscribed",
    "Subscription",
    "Will",
    "acknowledgement",
    "again",
    "connecting",
    "disconnecting",
    "publishing",
    "subscribing",
    "unsubscribing",
]


class Kind(IntEnum):
    """The first four bits of a packet."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14


class Reason(IntEnum):
    """What an acknowledgement says, of what is said here or asked after; from 128 on something was refused."""

    SUCCESS = 0
    DISCONNECT_WITH_WILL = 4
    NO_SUBSCRIBERS = 16
    UNSPECIFIED = 128
    MALFORMED = 129
    PROTOCOL_ERROR = 130
    REFUSED_HERE = 131
    NOT_AUTHORIZED = 135
    SESSION_TAKEN_OVER = 142
    TOPIC_NAME_INVALID = 144
    PACKET_TOO_LARGE = 149
    QUOTA_EXCEEDED = 151
    PAYLOAD_FORMAT_INVALID = 153


Properties = Mapping[int, Any]


class Message(NamedTuple):
    """A message that was published (PUBLISH). ``packet`` is its number, 0 with QoS 0. Of one that is too large the
    payload was left out: ``is_whole`` is false.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    is_repeated: bool
    packet: int
    properties: Properties = NONE
    is_whole: bool = True


class Accepted(NamedTuple):
    """The answer to the login (CONNACK)."""

    has_session: bool
    reason: int
    properties: Properties


class Acknowledged(NamedTuple):
    """A message of ours is acknowledged (PUBACK)."""

    packet: int
    reason: int


class Subscribed(NamedTuple):
    """The answer to SUBSCRIBE or UNSUBSCRIBE (SUBACK, UNSUBACK): a reason for each topic filter."""

    packet: int
    reasons: tuple[int, ...]


class Pong(NamedTuple):
    """The answer to PING."""


class Disconnected(NamedTuple):
    """The other end closes, and says why."""

    reason: int
    properties: Properties


Packet = Message | Accepted | Acknowledged | Subscribed | Pong | Disconnected


class Will(NamedTuple):
    """What is published when a connection is lost."""

    topic: str
    payload: bytes
    properties: Properties = NONE


class Login(NamedTuple):
    """How somebody connects. The password is in no text of this object."""

    client_id: str
    keep_alive: int
    properties: Properties
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    clean_start: bool = False

    def __repr__(self) -> str:
        return f"Login({self.client_id!r})"


class Subscription(NamedTuple):
    """A topic filter and how messages come: with the mark *retain* as published or only if they were stored, and when
    stored ones come: 0 always, 1 if the subscription is new, 2 never.
    """

    topic_filter: str
    qos: int = 1
    retain_as_published: bool = False
    retain_handling: int = 0

    @property
    def options(self) -> int:
        no_local = 4  # what we publish does not come back
        return self.qos | no_local | self.retain_as_published << 3 | self.retain_handling << 4


def _packet(kind: int, flags: int, body: bytes) -> bytes:
    return bytes((kind << 4 | flags,)) + with_variable(len(body)) + body


#: PINGREQ.
PING = _packet(Kind.PINGREQ, 0, b"")
_NAME, _VERSION = with_length(b"MQTT"), 5
_RETAIN, _WILL, _WILL_QOS_1, _WILL_RETAIN, _PASSWORD, _USERNAME = 1, 4, 8, 32, 64, 128


def connecting(login: Login) -> bytes:
    """CONNECT. A will has QoS 1 and is retained."""
    flags, end = (2 if login.clean_start else 0), b""
    if login.will is not None:
        flags |= _WILL | _WILL_QOS_1 | _WILL_RETAIN
        will = login.will
        end += packed_properties(will.properties) + with_length(will.topic.encode()) + with_length(will.payload)
    if login.username is not None:
        flags |= _USERNAME
        end += with_length(login.username.encode())
    if login.password is not None:
        flags |= _PASSWORD
        end += with_length(login.password)
    head = _NAME + bytes((_VERSION, flags)) + login.keep_alive.to_bytes(2, "big") + packed_properties(login.properties)
    return _packet(Kind.CONNECT, 0, head + with_length(login.client_id.encode()) + end)


def publishing(topic: bytes, payload: bytes, packet: int, properties: Properties = NONE, retain: bool = False) -> bytes:
    """PUBLISH with QoS 1, whose number is ``packet``."""
    packed = packed_properties(properties)
    size = 4 + len(topic) + len(packed) + len(payload)
    return b"".join((
        bytes((Kind.PUBLISH << 4 | 2 | retain,)),
        with_variable(size),
        with_length(topic),
        packet.to_bytes(2, "big"),
        packed,
        payload,
    ))  # fmt: skip


def again(published: bytes) -> bytes:
    """A PUBLISH that is sent again: its mark *duplicate* is set."""
    return bytes((published[0] | 8,)) + published[1:]


def acknowledgement(packet: int, reason: int = Reason.SUCCESS) -> bytes:
    """PUBACK."""
    if reason == Reason.SUCCESS:
        return b"\x40\x02" + packet.to_bytes(2, "big")
    return b"\x40\x03" + packet.to_bytes(2, "big") + bytes((reason,))


def subscribing(packet: int, wanted: Sequence[Subscription], id: int | None = None) -> bytes:
    """SUBSCRIBE; what comes for these topic filters has the ``id``."""
    properties = NONE if id is None else {11: [id]}
    filters = b"".join(with_length(one.topic_filter.encode()) + bytes((one.options,)) for one in wanted)
    return _packet(Kind.SUBSCRIBE, 2, packet.to_bytes(2, "big") + packed_properties(properties) + filters)


def unsubscribing(packet: int, topic_filter: str) -> bytes:
    """UNSUBSCRIBE."""
    body = packet.to_bytes(2, "big") + packed_properties(NONE) + with_length(topic_filter.encode())
    return _packet(Kind.UNSUBSCRIBE, 2, body)


def disconnecting(reason: int = Reason.SUCCESS) -> bytes:
    """DISCONNECT."""
    return _packet(Kind.DISCONNECT, 0, b"" if reason == Reason.SUCCESS else bytes((reason,)))
