"""Publications from standard input, as JSON Lines, as they come: all that one read brings at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import cast

import orjson

from tidegate.cli.publication_files import publication
from tidegate.cli.text_records import text
from tidegate.errors import PublicationError, shown
from tidegate.model import Publication
from tidegate.time_zones import TimeZone

__all__ = ["standard_input"]

_STDIN = "standard input"
#: Bytes that one read takes from standard input at most; a read waits only if there are none.
_CHUNK = 1 << 20


def standard_input(zone: TimeZone | None) -> Iterator[tuple[list[Publication], int]]:
    """The publications that each read brings, and the number of its last line."""
    stream = cast(BufferedReader, sys.stdin.buffer)
    rest, number, more = b"", 0, True
    while more:
        chunk = stream.read1(_CHUNK)
        more = bool(chunk)
        *whole, rest = (rest + chunk).split(b"\n") if more else (rest, b"")
        found = []
        for line in whole:
            number += 1
            if line.strip():
                found.append(_publication(line, f"{_STDIN}, line {number}", zone))
        if found:
            yield found, number


def _publication(line: bytes, place: str, zone: TimeZone | None) -> Publication:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as wrong:
        got = shown(text(line, place, PublicationError))
        raise PublicationError("a JSON object on each line", f"{got}, where {wrong.msg}", place) from None
    if not isinstance(record, dict):
        raise PublicationError("a JSON object on each line", shown(record), place)
    return publication(record, place, zone)
