"""The properties of packets of MQTT 5, by the numbers that the standard gives them, from and to bytes.

A property that may come several times (``USER``, ``SUBSCRIPTION_ID``) is a list. Knows which form each has, and not
what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from tidegate.mqtt.wire_fields import WrongPacket, bytes_at, number_at, text_at, variable_at, with_length, with_variable

__all__ = ["NONE", "Property", "packed_properties", "properties_at"]


class Property(IntEnum):
    """What a property is called here, and its number."""

    PAYLOAD_IS_TEXT = 1
    MESSAGE_EXPIRY = 2
    CONTENT_TYPE = 3
    RESPONSE_TOPIC = 8
    CORRELATION_DATA = 9
    SUBSCRIPTION_ID = 11
    SESSION_EXPIRY = 17
    ASSIGNED_CLIENT_ID = 18
    SERVER_KEEP_ALIVE = 19
    AUTHENTICATION_METHOD = 21
    AUTHENTICATION_DATA = 22
    PROBLEM_INFORMATION = 23
    WILL_DELAY = 24
    RESPONSE_INFORMATION_WANTED = 25
    RESPONSE_INFORMATION = 26
    SERVER_REFERENCE = 28
    REASON = 31
    RECEIVE_MAXIMUM = 33
    TOPIC_ALIAS_MAXIMUM = 34
    TOPIC_ALIAS = 35
    MAXIMUM_QOS = 36
    RETAIN_AVAILABLE = 37
    USER = 38
    MAXIMUM_PACKET = 39
    WILDCARDS_AVAILABLE = 40
    SUBSCRIPTION_IDS_AVAILABLE = 41
    SHARED_AVAILABLE = 42


Properties = Mapping[int, Any]
#: What most packets have.
NONE: Properties = MappingProxyType({})

_P = Property
_SIZES = {
    **dict.fromkeys((_P.PAYLOAD_IS_TEXT, _P.PROBLEM_INFORMATION, _P.RESPONSE_INFORMATION_WANTED), 1),
    **dict.fromkeys((_P.MAXIMUM_QOS, _P.RETAIN_AVAILABLE, _P.WILDCARDS_AVAILABLE), 1),
    **dict.fromkeys((_P.SUBSCRIPTION_IDS_AVAILABLE, _P.SHARED_AVAILABLE), 1),
    **dict.fromkeys((_P.SERVER_KEEP_ALIVE, _P.RECEIVE_MAXIMUM, _P.TOPIC_ALIAS_MAXIMUM, _P.TOPIC_ALIAS), 2),
    **dict.fromkeys((_P.MESSAGE_EXPIRY, _P.SESSION_EXPIRY, _P.WILL_DELAY, _P.MAXIMUM_PACKET), 4),
}
_TEXTS = (
    *(_P.CONTENT_TYPE, _P.RESPONSE_TOPIC, _P.ASSIGNED_CLIENT_ID, _P.AUTHENTICATION_METHOD),
    *(_P.RESPONSE_INFORMATION, _P.SERVER_REFERENCE, _P.REASON),
)
_BYTES = (_P.CORRELATION_DATA, _P.AUTHENTICATION_DATA)

_Reader = Callable[[bytes, int, int], tuple[Any, int]]


def _pair_at(data: bytes, at: int, end: int) -> tuple[tuple[str, str], int]:
    name, at = text_at(data, at, end)
    value, at = text_at(data, at, end)
    return (name, value), at


def _reader_of_size(size: int) -> _Reader:
    return lambda data, at, end: number_at(data, at, size, end)


_READERS: dict[int, _Reader] = {
    **{number: _reader_of_size(size) for number, size in _SIZES.items()},
    **dict.fromkeys(_TEXTS, text_at),
    **dict.fromkeys(_BYTES, bytes_at),
    _P.USER: _pair_at,
    _P.SUBSCRIPTION_ID: variable_at,
}
_SEVERAL = (_P.USER, _P.SUBSCRIPTION_ID)
#: The property that messages have most of, as a plain number and as a byte.
_USER, _USER_HEAD = int(_P.USER), bytes((_P.USER,))


def properties_at(data: bytes, at: int, end: int) -> tuple[Properties, int]:
    """The properties that begin with their length at a place, and where they end."""
    if at < end and data[at] == 0:
        return NONE, at + 1
    size, at = variable_at(data, at, end)
    stop = at + size
    if stop > end:
        raise WrongPacket(f"properties of {size:,} bytes", f"{end - at:,}")
    found: dict[int, Any] = {}
    while at < stop:
        number = data[at]
        reader = _READERS.get(number)
        if reader is None:
            raise WrongPacket("a property that there is", f"one of the number {number}")
        value, at = reader(data, at + 1, stop)
        if number in _SEVERAL:
            found.setdefault(number, []).append(value)
        elif number in found:
            raise WrongPacket(f"the property {Property(number).name} once", "twice")
        else:
            found[number] = value
    return found, stop


def packed_properties(properties: Properties) -> bytes:
    """Properties with their length before them."""
    if not properties:
        return b"\0"
    parts = list[bytes]()
    for number, value in properties.items():
        if number == _USER:
            for name, text in value:
                parts += (_USER_HEAD, with_length(name.encode()), with_length(text.encode()))
        elif number in _SEVERAL:
            parts += [bytes((number,)) + with_variable(one) for one in value]
        elif (size := _SIZES.get(number)) is not None:  # type: ignore[call-overload]
            parts += (bytes((number,)), value.to_bytes(size, "big"))
        else:
            parts += (bytes((number,)), with_length(value if isinstance(value, bytes) else value.encode()))
    content = b"".join(parts)
    return with_variable(len(content)) + content
