"""The last segment of a log, which grows: frames are written, made durable, and only then given entries.

``Log`` uses ``Tail`` only while it holds the lock of the log. A process that was killed while writing leaves frames
without entries or a torn frame; the next process that takes the lock mends that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.errors import StoreError
from tidegate.store.log_frames import BATCH, LOST, PART, SCHEMA, WITHDRAWN, packed, whole
from tidegate.store.log_segment import ENTRY, DurableEntry, LogSegment, data_file, entry_of, index_file, packed_entries

__all__ = ["Tail", "sync_directory"]

#: Entries for which room is made at a time, before the frames are written: an entry must not find the disk full.
_ROOM = 1024
#: Schemas that are looked at before one is serialized to be looked up.
_RECENT = 32
#: Buffers that one call of the system may write.
_BUFFERS = 512

# Where there is no fdatasync (macOS), fsync does what it does and more.
_sync = getattr(os, "fdatasync", os.fsync)


class Tail(LogSegment):
    """A segment as its only writer sees it: the process that holds the lock of the log."""

    _index_mode = os.O_RDWR

    @classmethod
    def create(cls, directory: Path, first_row: int) -> Tail:
        """A new segment. Its index is made first, so that a reader that sees the data file can open both."""
        for name in (index_file(directory, first_row), data_file(directory, first_row)):
            os.close(os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o666))
        sync_directory(directory)
        return cls(directory, first_row)

    def _begin(self) -> None:
        self._data = os.open(self.file, os.O_RDWR)
        self._schemas: dict[bytes, int] = {}
        self._recent: list[tuple[pa.Schema, int]] = []
        self.refresh()

    def _refuse_gap(self) -> None:
        """``mend`` finds the frames that a gap in the index hides."""

    def close(self) -> None:
        super().close()
        os.close(self._data)

    @property
    def is_whole(self) -> bool:
        """Whether every frame in the file has its entry."""
        return os.fstat(self._data).st_size == self.last.end_byte

    def mend(self, is_last: bool = True) -> None:
        """Give entries to frames that have none. A torn tail of the last segment is cut off."""
        size = os.fstat(self._data).st_size
        if size < self.last.end_byte:
            hint = "; to go on with what is whole, remove the file of the same name that ends in .index"
            raise StoreError(f"a file of {self.last.end_byte} bytes", f"{size} bytes{hint}", str(self.file))
        found, finished, end = list[DurableEntry](), 0, self.last.end_byte
        for header, after in whole(self._data, end, self.last.end_row):
            if header.kind != SCHEMA:
                found.append(DurableEntry(after, header.first_row + header.rows, header.version, header.appended))
            if header.kind in (BATCH, LOST, WITHDRAWN):
                finished, end = len(found), after
        if is_last:
            self._refuse_to_cut(end)
            os.ftruncate(self._data, end)
        _sync(self._data)  # the frames may not be on disk yet: their writer was killed before it synced
        os.ftruncate(self._index, self.count * ENTRY)
        self._add(found[:finished])

    def _refuse_to_cut(self, end: int) -> None:
        """Only what never got an entry is cut off: an entry further on says that a frame before it was damaged."""
        at = self.count
        while data := os.pread(self._index, ENTRY, at * ENTRY):
            entry, at = entry_of(data), at + 1
            if entry is not None and entry.end_byte > end:
                hint = "a damaged one; tidegate log check says more"
                raise StoreError("frames of the log that are whole", hint, f"byte {end} of {self.file}")

    def seal(self) -> None:
        """Make the index durable and cut off its free room, because another segment follows."""
        os.ftruncate(self._index, self.count * ENTRY)
        os.fsync(self._index)

    def append(
        self, batches: Sequence[Sequence[pa.RecordBatch]], version: int, appended: int, last: int = BATCH
    ) -> None:
        """Write the batches of several calls of ``append``, each wholly or not at all; return once they are durable.

        ``last`` is the kind of the last frame of each.
        """
        before = self.last.end_byte
        schemas: dict[bytes, int] = {}
        buffers: list[Any] = []
        entries = self._packed(batches, version, appended, last, buffers, schemas)
        try:
            self._make_room(len(entries))
            _write(self._data, buffers, before)
            _sync(self._data)
        except OSError as error:
            with suppress(OSError):  # then the next process that takes the lock cuts it off
                os.ftruncate(self._data, before)
            raise StoreError("room to write", f"{error.strerror or error}", str(self.file)) from None
        try:
            self._add(entries)
        except OSError as error:  # readers may have seen some: frames stay, the next to lock adds entries
            raise StoreError("an index that can be written", f"{error.strerror or error}", str(self.file)) from None
        self._schemas |= schemas

    def _packed(
        self,
        batches: Sequence[Sequence[pa.RecordBatch]],
        version: int,
        appended: int,
        last: int,
        buffers: list[Any],
        schemas: dict[bytes, int],
    ) -> list[DurableEntry]:
        """Put the frames of the batches into the buffers, with those of schemas that are new; their entries."""
        at, row = self.last.end_byte, self.last.end_row
        entries = []
        for together in batches:
            for i, batch in enumerate(together, 1):
                schema_at = self._schema_at(batch.schema, schemas)
                if schema_at is None:
                    message = batch.schema.serialize()
                    schema_at = schemas[message.to_pybytes()] = at
                    at += packed(SCHEMA, message, 0, row, version, appended, at, buffers)
                kind = last if i == len(together) else PART
                rows = batch.num_rows
                at += packed(kind, batch.serialize(), rows, row, version, appended, schema_at, buffers)
                row += rows
                entries.append(DurableEntry(at, row, version, appended))
        return entries

    def _schema_at(self, schema: pa.Schema, schemas: dict[bytes, int]) -> int | None:
        """Where the schema is, in the file or among those that are about to be written."""
        for recent, at in self._recent:  # to compare takes much less than to serialize
            if recent.equals(schema, check_metadata=True):
                return at
        key = schema.serialize().to_pybytes()
        if (known := self._schemas.get(key)) is not None:
            self._recent = [(schema, known), *self._recent[: _RECENT - 1]]
            return known
        return schemas.get(key)

    def _make_room(self, entries: int) -> None:
        size, wanted = os.fstat(self._index).st_size, (self.count + entries) * ENTRY
        if size < wanted:
            _write(self._index, [bytes(wanted + _ROOM * ENTRY - size)], size)

    def _add(self, entries: Sequence[DurableEntry]) -> None:
        if entries:
            _write(self._index, [packed_entries(entries)], self.count * ENTRY)
            self.count, self.last = self.count + len(entries), entries[-1]


def _write(file: int, buffers: Sequence[Any], at: int) -> None:
    """Write all of the buffers from a byte on."""
    for i in range(0, len(buffers), _BUFFERS):
        some = [memoryview(buffer) for buffer in buffers[i : i + _BUFFERS]]
        left = sum([buffer.nbytes for buffer in some])
        while left:
            written = os.pwritev(file, some, at)
            at, left = at + written, left - written
            if left:  # the disk was full, or a signal came
                some = [memoryview(b"".join(some))[written:]]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
