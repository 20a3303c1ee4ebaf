"""The fields that packets of MQTT 5 are made of: numbers, texts, bytes with a length; and the error of a wrong packet.

Reading never goes beyond ``end``, where the packet, or the part of it that is read, ends. Knows no packet.
"""

from __future__ import annotations

import re

from tidegate.errors import TidegateError, shown

__all__ = [
    "LARGEST_TEXT",
    "LARGEST_VARIABLE",
    "WrongPacket",
    "bytes_at",
    "is_plain",
    "number_at",
    "text_at",
    "variable_at",
    "with_length",
    "with_variable",
]

#: Bytes of a text at most, and the largest number of variable length: 28 bits.
LARGEST_TEXT, LARGEST_VARIABLE = 65_535, 268_435_455

#: Characters for which an MQTT broker may close the connection: the standard says they should not be in a text. They
#: are those of control, and those that Unicode will never assign.
_LAST_TWO = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
_UNWANTED = re.compile(f"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef{_LAST_TWO}]")


class WrongPacket(TidegateError, ValueError):
    """A packet that is none of MQTT 5, or one that has no place where it came."""

    code = "mqtt_packet"


def number_at(data: bytes, at: int, size: int, end: int) -> tuple[int, int]:
    """A whole number of so many bytes, and where it ends."""
    stop = at + size
    if stop > end:
        raise WrongPacket(f"a number of {size} bytes", f"{end - at} bytes")
    return int.from_bytes(data[at:stop], "big"), stop


def variable_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A whole number of one to four bytes, each of which has seven of its bits, and where it ends."""
    found = 0
    for place in range(4):
        if at + place >= end:
            raise WrongPacket("a number of variable length", "the end of the packet")
        byte = data[at + place]
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return found, at + place + 1
    raise WrongPacket("a number of variable length, of four bytes at most", "a longer one")


def bytes_at(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Bytes with their length before them, and where they end."""
    size, begin = number_at(data, at, 2, end)
    stop = begin + size
    if stop > end:
        raise WrongPacket(f"{size:,} bytes", f"{end - begin:,}")
    return data[begin:stop], stop


def text_at(data: bytes, at: int, end: int) -> tuple[str, int]:
    """A text in UTF-8 with its length before it, and where it ends."""
    found, stop = bytes_at(data, at, end)
    try:
        text = found.decode()
    except UnicodeDecodeError:
        raise WrongPacket("text in UTF-8", shown(found)) from None
    if "\0" in text:
        raise WrongPacket("text without the character 0", shown(text))
    return text, stop


def is_plain(text: str) -> bool:
    """Whether every MQTT broker takes a text."""
    return _UNWANTED.search(text) is None


def with_length(content: bytes) -> bytes:
    """Bytes, or a text in UTF-8, as a field: with their length before them."""
    if len(content) > LARGEST_TEXT:
        raise WrongPacket(f"a field of at most {LARGEST_TEXT:,} bytes", f"{len(content):,}")
    return len(content).to_bytes(2, "big") + content


def with_variable(number: int) -> bytes:
    """A whole number of variable length."""
    if number < 0x80:
        return bytes((number,))
    if number > LARGEST_VARIABLE:
        raise WrongPacket(f"a number of at most {LARGEST_VARIABLE:,}", f"{number:,}")
    found = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        found.append(low | (0x80 if number else 0))
        if not number:
            return bytes(found)
