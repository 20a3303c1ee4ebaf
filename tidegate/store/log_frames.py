"""Frames: how publications and tombstones lie in a file of the log, and how they are read without being copied.

A frame is a header of 64 bytes and an Arrow IPC message, padded to 64 bytes. ``Tail`` writes frames with ``packed``,
matchers read them with ``read``. Knows neither which frames are durable nor which file comes after which.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.errors import StoreError, shown
from tidegate.whole_numbers import MARKS

__all__ = [
    "BATCH",
    "HEADER",
    "LOST",
    "PART",
    "SCHEMA",
    "TOMBSTONES",
    "WITHDRAWN",
    "Frame",
    "Header",
    "Slice",
    "Tombstone",
    "after",
    "frame_at",
    "mapped",
    "packed",
    "read",
    "read_with",
    "tombstones",
    "whole",
]

#: Kinds of frames: the columns of batches that follow; a batch after which more of the same append comes; a batch that
#: is the last of its append. An append of which the last batch is missing was never finished. ``LOST`` stands where
#: damaged frames were given up: its rows keep their numbers and have no publications, its message is what was there.
#: ``WITHDRAWN`` has tombstones, which take row numbers as publications do; it is an append of its own.
SCHEMA, PART, BATCH, LOST, WITHDRAWN = 1, 2, 3, 4, 5
_KINDS = (SCHEMA, PART, BATCH, LOST, WITHDRAWN)

#: The columns of tombstones: what was unpublished, and the rows that were withdrawn with it.
TOMBSTONES = pa.schema([("source", pa.string()), ("id", pa.string()), ("rows", pa.list_(pa.int64()))])

#: Changes whenever a file of an older program could be misread. Frames of ``TGL2`` are none of tombstones, those of
#: ``TGL1`` have no marks of integers either.
_MAGIC = b"TGL3"
_MAGICS = (_MAGIC, b"TGL2", b"TGL1")
_HEADER = struct.Struct("<4sII4xqqqqqq")
HEADER = _HEADER.size
_ZEROS = bytes(HEADER)
#: The checksum is of the message and of the header behind the checksum.
_UNCHECKED = 8
_FIELDS = struct.Struct("<I4xqqqqqq")
#: Bytes that are read at a time to compute a checksum.
_SOME = 1 << 20
#: A slice of at most so many bytes is read: mapping a file takes longer than copying that.
_FEW = 256 << 10


class Header(NamedTuple):
    """The fields of the header of a frame."""

    kind: int
    size: int
    rows: int
    first_row: int
    version: int
    appended: int
    schema_at: int


class Tombstone(NamedTuple):
    """What unpublishing leaves in the log: whose publications, and the rows of those that were still known."""

    source: str
    id: str
    rows: Sequence[int]


class Frame(NamedTuple):
    """Publications that were appended together at a time (µs since 1970), when the registry was at a version.

    If the kind is ``WITHDRAWN``, these are tombstones, with the columns ``TOMBSTONES``.
    """

    batch: pa.RecordBatch
    version: int
    appended: int
    first_row: int
    kind: int = BATCH


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


def packed(
    kind: int,
    message: pa.Buffer,
    rows: int,
    first_row: int,
    version: int,
    appended: int,
    schema_at: int,
    buffers: list[Any],
) -> int:
    """Add what is to be written for a frame to the buffers, and return how many bytes it is."""
    size: int = message.size
    fields = _FIELDS.pack(kind, size, rows, first_row, version, appended, schema_at)
    padding = _padding(size)
    head = _MAGIC + zlib.crc32(message, zlib.crc32(fields)).to_bytes(4, "little") + fields
    buffers += (head, message, _ZEROS[:padding]) if padding else (head, message)
    return HEADER + size + padding


def whole(file: int, begin: int, first_row: int) -> Iterator[tuple[Header, int]]:
    """Frames from a byte on, each with the byte after it, up to the first that is torn, damaged or out of turn."""
    end = os.fstat(file).st_size
    row = first_row
    while len(fields := os.pread(file, HEADER, begin)) == HEADER:
        magic, check, *rest = _HEADER.unpack(fields)
        header = Header(*rest)
        following = after(begin, header)
        if magic not in _MAGICS or header.kind not in _KINDS or header.size < 0 or following > end:
            return
        if header.first_row != row or _checksum(file, begin + HEADER, header.size, fields[_UNCHECKED:]) != check:
            return
        yield header, following
        begin, row = following, row + header.rows


def _checksum(file: int, begin: int, size: int, fields: bytes) -> int:
    check = zlib.crc32(fields)
    for at in range(begin, begin + size, _SOME):
        check = zlib.crc32(os.pread(file, min(_SOME, begin + size - at), at), check)
    return check


def tombstones(of: Sequence[Tombstone]) -> pa.RecordBatch:
    """Tombstones as the batch of a frame."""
    columns = zip(*of, strict=True) if of else [()] * len(TOMBSTONES)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, TOMBSTONES.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=TOMBSTONES)


def read(slice: Slice, withdrawn: bool = False) -> Iterator[Frame]:
    """The frames of publications in a slice, ``withdrawn`` also those of tombstones, in their order.

    Their columns stay in the file, which is mapped for as long as any of them is in use. Every frame is compared with
    its checksum before anything in it is believed. One that was damaged is an error, after the frames before it were
    given.
    """
    for frame in _frames(slice):
        if withdrawn or frame.kind != WITHDRAWN:
            marks = frame.batch.schema.get_field_index(MARKS)
            yield frame if marks < 0 else frame._replace(batch=frame.batch.remove_column(marks))


def read_with(slice: Slice, column: str) -> Iterator[Frame]:
    """The frames of publications in a slice that have a column, marks of integers included, and all tombstones.

    Other frames cost next to nothing: only their headers are read, and not compared with a checksum.
    """
    return _frames(slice, column)


def _frames(slice: Slice, column: str | None = None) -> Iterator[Frame]:
    schemas: dict[int, pa.Schema] = {}
    at, row = slice.first_byte, slice.first_row
    with _bytes_of(slice) as file:
        while at < slice.last_byte:
            header = None if column is None else _passed_over(file, at, schemas, slice.file, column)
            if header is None:
                header, batch = frame_at(file, at, row, schemas, slice.file)
                if batch is not None:
                    yield Frame(batch, header.version, header.appended, header.first_row, header.kind)
            at, row = after(at, header), row + header.rows
    if row != slice.first_row + slice.rows:
        raise StoreError(f"{slice.rows} rows", f"{row - slice.first_row}", f"{slice.file} from {slice.first_byte} on")


@contextmanager
def _bytes_of(slice: Slice) -> Iterator[pa.Buffer | _ReadBytes]:
    """The file of a slice: mapped, or read where that is less work."""
    is_few = slice.last_byte - slice.first_byte <= _FEW
    try:
        opened = _ReadBytes(slice) if is_few else mapped(slice.file, slice.last_byte)
    except FileNotFoundError:
        raise StoreError("rows that are kept", f"rows {slice.first_row} and on, dropped", slice.file) from None
    try:
        yield opened
    finally:
        if is_few:
            opened.close()


class _ReadBytes:
    """The bytes of a slice, which were read, and those of its file before them; used like the mapped file."""

    def __init__(self, slice: Slice) -> None:
        self._begin, self._path, self.size = slice.first_byte, slice.file, slice.last_byte
        try:
            self._file = os.open(slice.file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unusable(error, slice.file) from None
        try:
            self._here = self._read(slice.first_byte, slice.last_byte - slice.first_byte)
        except StoreError:
            self.close()
            raise

    def slice(self, at: int, size: int) -> pa.Buffer:
        """Some of the bytes."""
        return self._here.slice(at - self._begin, size) if at >= self._begin else self._read(at, size)

    def _read(self, at: int, size: int) -> pa.Buffer:
        try:
            data = os.pread(self._file, size, at)
        except OSError as error:
            raise _unusable(error, self._path) from None
        if len(data) < size:
            raise _too_short(self._path, at + size, at + len(data))
        return pa.py_buffer(data)

    def close(self) -> None:
        """Close the file; what was read stays."""
        os.close(self._file)


def _passed_over(
    file: pa.Buffer | _ReadBytes, at: int, schemas: dict[int, pa.Schema], path: str, column: str
) -> Header | None:
    """The header of a frame of publications without a column; None for every other frame."""
    try:
        header, _ = _verified(file, at, is_verified=True)
        if header.kind not in (PART, BATCH):
            return None
        if header.schema_at not in schemas:
            schemas[header.schema_at] = _schema(file, header.schema_at)
        return header if schemas[header.schema_at].get_field_index(column) < 0 else None
    except _Damaged as error:
        raise StoreError("a whole frame of the log", f"{error}", f"byte {at} of {path}") from None


def mapped(path: str, size: int) -> pa.Buffer:
    """The first bytes of a file of the log, mapped; ``FileNotFoundError`` where it was dropped."""
    try:
        with pa.memory_map(path) as opened:
            file = opened.read_buffer(size)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise _unusable(error, path) from None
    if file.size < size:
        raise _too_short(path, size, file.size)
    return file


def _unusable(error: Exception, path: str) -> StoreError:
    return StoreError("a file of the log", f"{error}", path)


def _too_short(path: str, wanted: int, size: int) -> StoreError:
    return StoreError(f"a file of {wanted} bytes or more", f"{size} bytes", path)


def frame_at(
    file: pa.Buffer | _ReadBytes, at: int, row: int, schemas: dict[int, pa.Schema], path: str, is_verified: bool = False
) -> tuple[Header, pa.RecordBatch | None]:
    """The frame at a byte of a mapped file, where a row is due, and its batch, if it is of publications or tombstones.

    ``schemas`` has those of the file that were read before. What was compared with its checksum before, as the caller
    says with ``is_verified``, is not compared again.
    """
    try:
        header, message = _verified(file, at, is_verified)
        if header.first_row != row:
            raise _Damaged(f"row {header.first_row} where row {row} belongs")
        if header.kind not in (PART, BATCH, WITHDRAWN):
            return header, None
        if header.schema_at not in schemas:
            schemas[header.schema_at] = _schema(file, header.schema_at)
        return header, _batch(message, schemas[header.schema_at], header.rows, is_verified)
    except _Damaged as error:
        raise StoreError("a whole frame of the log", f"{error}", f"byte {at} of {path}") from None


class _Damaged(Exception):
    """What is wrong with a frame."""


def after(at: int, header: Header) -> int:
    """The byte after the frame that begins at a byte."""
    return at + HEADER + header.size + _padding(header.size)


def _verified(file: pa.Buffer | _ReadBytes, at: int, is_verified: bool = False) -> tuple[Header, pa.Buffer]:
    """The header and the message of the frame at a byte, if its checksum says that both are as they were written."""
    if not 0 <= at <= file.size - HEADER:
        raise _Damaged("no header")
    fields = file.slice(at, HEADER).to_pybytes()
    magic, check, *rest = _HEADER.unpack(fields)
    header = Header(*rest)
    if magic not in _MAGICS:
        raise _Damaged(f"{shown(magic)} at its beginning")
    if not 0 <= header.size <= file.size - at - HEADER:
        raise _Damaged(f"{header.size} bytes as its size")
    message = file.slice(at + HEADER, header.size)
    if not is_verified and zlib.crc32(message, zlib.crc32(fields[_UNCHECKED:])) != check:
        raise _Damaged("one that is not as it was written, by its checksum")
    if header.kind not in _KINDS:
        raise _Damaged(f"kind {header.kind}")
    return header, message


def _schema(file: pa.Buffer | _ReadBytes, at: int) -> pa.Schema:
    header, message = _verified(file, at)
    if header.kind != SCHEMA:
        raise _Damaged("one whose columns are lost")
    return _read_schema(message.to_pybytes())


@lru_cache(maxsize=256)
def _read_schema(message: bytes) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(message))
    except (pa.ArrowException, OSError) as error:
        raise _Damaged(f"{error}") from None


def _batch(message: pa.Buffer, schema: pa.Schema, rows: int, is_verified: bool) -> pa.RecordBatch:
    """The batch of a frame. What Arrow finds wrong with it, a reader would not survive."""
    try:
        batch = pa.ipc.read_record_batch(message, schema)
        if not is_verified:
            batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:  # Arrow's own is an OSError
        raise _Damaged(f"{error}") from None
    if batch.num_rows != rows:
        raise _Damaged(f"{batch.num_rows} rows where its header has {rows}")
    return batch
