"""Frames: how publications lie in a file of the log, and how they are read from it without being copied.

A frame is a header of 64 bytes and an Arrow IPC message, padded to 64 bytes. ``Tail`` writes frames with ``packed``,
matchers read them with ``read``. Knows neither which frames are durable nor which file comes after which.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.errors import StoreError, shown

__all__ = ["BATCH", "HEADER", "PART", "SCHEMA", "Frame", "Header", "Slice", "packed", "read", "whole"]

#: Kinds of frames: the columns of batches that follow; a batch after which more of the same append comes; a batch that
#: is the last of its append. An append of which the last batch is missing was never finished.
SCHEMA, PART, BATCH = 1, 2, 3

#: Changes whenever a file of an older program could be misread.
_MAGIC = b"TGL1"
_HEADER = struct.Struct("<4sII4xqqqqqq")
HEADER = _HEADER.size
#: The checksum is of the message and of the header behind the checksum.
_UNCHECKED = 8
#: Bytes that are read at a time to compute a checksum.
_SOME = 1 << 20


class Header(NamedTuple):
    """The fields of the header of a frame."""

    kind: int
    size: int
    rows: int
    first_row: int
    version: int
    appended: int
    schema_at: int


class Frame(NamedTuple):
    """Publications that were appended together at a time (µs since 1970), when the registry was at a version."""

    batch: pa.RecordBatch
    version: int
    appended: int
    first_row: int


class Slice(NamedTuple):
    """Consecutive frames of one file, to be read by any process of the machine, which maps the file."""

    file: str
    first_byte: int
    last_byte: int
    first_row: int
    rows: int
    oldest_version: int
    newest_version: int


def _padding(size: int) -> int:
    return -size % HEADER


def packed(header: Header, message: pa.Buffer) -> list[Any]:
    """The buffers to write for a frame, whose ``size`` is that of the message."""
    fields = _HEADER.pack(_MAGIC, 0, *header)
    check = zlib.crc32(message, zlib.crc32(fields[_UNCHECKED:]))
    return [_HEADER.pack(_MAGIC, check, *header), message, bytes(_padding(header.size))]


def whole(file: int, begin: int, first_row: int) -> Iterator[tuple[Header, int]]:
    """Frames from a byte on, each with the byte after it, up to the first that is torn, damaged or out of turn."""
    end = os.fstat(file).st_size
    row = first_row
    while len(fields := os.pread(file, HEADER, begin)) == HEADER:
        magic, check, *rest = _HEADER.unpack(fields)
        header = Header(*rest)
        after = begin + HEADER + header.size + _padding(header.size)
        if magic != _MAGIC or header.kind not in (SCHEMA, PART, BATCH) or header.size < 0 or after > end:
            return
        if header.first_row != row or _checksum(file, begin + HEADER, header.size, fields[_UNCHECKED:]) != check:
            return
        yield header, after
        begin, row = after, row + header.rows


def _checksum(file: int, begin: int, size: int, fields: bytes) -> int:
    check = zlib.crc32(fields)
    for at in range(begin, begin + size, _SOME):
        check = zlib.crc32(os.pread(file, min(_SOME, begin + size - at), at), check)
    return check


def read(slice: Slice) -> Iterator[Frame]:
    """The frames of a slice. Their columns stay in the file, which is mapped for as long as any of them is in use."""
    try:
        with pa.memory_map(slice.file) as mapped:
            file = mapped.read_buffer(slice.last_byte)
    except FileNotFoundError:
        raise StoreError("rows that are kept", f"rows {slice.first_row} and on, dropped", slice.file) from None
    except (OSError, pa.ArrowException) as error:
        raise StoreError("a file of the log", f"{error}", slice.file) from None
    if file.size < slice.last_byte:
        raise StoreError(f"a file of {slice.last_byte} bytes or more", f"{file.size} bytes", slice.file)
    schemas: dict[int, pa.Schema] = {}
    view, at = memoryview(file), slice.first_byte
    while at < slice.last_byte:
        try:
            magic, _, kind, size, _, first_row, version, appended, schema_at = _HEADER.unpack_from(view, at)
            if magic != _MAGIC:
                raise IndexError(f"{shown(magic)} at its beginning")
            batch = None
            if kind != SCHEMA:
                if (schema := schemas.get(schema_at)) is None:
                    schema = schemas[schema_at] = _schema(file, view, schema_at)
                batch = pa.ipc.read_record_batch(file.slice(at + HEADER, size), schema)
        except (struct.error, pa.ArrowException, OSError, IndexError) as error:  # Arrow's own is an OSError
            raise StoreError("a whole frame of the log", f"{error}", f"byte {at} of {slice.file}") from None
        if batch is not None:
            yield Frame(batch, version, appended, first_row)
        at += HEADER + size + _padding(size)


def _schema(file: pa.Buffer, view: memoryview, at: int) -> pa.Schema:
    size = _HEADER.unpack_from(view, at)[3]
    return pa.ipc.read_schema(file.slice(at + HEADER, size))
