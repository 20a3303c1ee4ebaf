"""Looking for damaged frames in a log, and giving up the rows of those that are.

``tidegate log check`` calls ``damaged``, and with ``--drop`` also ``drop``. A frame that is dropped keeps its place and
its rows their numbers, because checkpoints of pipelines count rows: readers pass over it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.errors import StoreError
from tidegate.store.log_directory import locked
from tidegate.store.log_frames import HEADER, LOST, Slice, packed, read
from tidegate.store.log_segment import DurableEntry, LogSegment, segments

__all__ = ["DamagedFrame", "damaged", "drop"]


class DamagedFrame(NamedTuple):
    """A frame that cannot be read, as the index of its segment has it."""

    file: Path
    first_byte: int
    first_row: int
    end: DurableEntry
    reason: str

    @property
    def rows(self) -> int:
        return self.end.end_row - self.first_row


def damaged(directory: Path) -> Iterator[DamagedFrame]:
    """Every durable frame of the log that cannot be read. Reads the whole log."""
    for first in segments(directory):
        with LogSegment(directory, first) as segment:
            if segment.count and _reason(segment.file, segment.entry(-1), segment.last):
                yield from _frames(segment)


def _frames(segment: LogSegment) -> Iterator[DamagedFrame]:
    before = segment.entry(-1)
    for number in range(segment.count):
        entry = segment.entry(number)
        if reason := _reason(segment.file, before, entry):
            yield DamagedFrame(segment.file, before.end_byte, before.end_row, entry, reason)
        before = entry


def _reason(file: Path, begin: DurableEntry, end: DurableEntry) -> str | None:
    """Why the frames between two entries cannot be read; None if they can."""
    span = begin.end_byte, end.end_byte, begin.end_row, end.end_row - begin.end_row
    try:
        for _ in read(Slice(str(file), *span, begin.version, end.version)):
            pass
    except StoreError as error:
        return error.got
    return None


def drop(directory: Path, frame: DamagedFrame) -> None:
    """Give up the rows of a damaged frame. Only its header is written; what else is left of it stays in the file."""
    with locked(directory), frame.file.open("r+b") as file:
        size = frame.end.end_byte - frame.first_byte - HEADER
        file.seek(frame.first_byte + HEADER)
        message = file.read(size)
        buffers: list[Any] = []
        packed(LOST, pa.py_buffer(message), frame.rows, frame.first_row, *frame.end[2:], 0, buffers)
        file.seek(frame.first_byte)
        file.write(buffers[0])
        file.flush()
        os.fsync(file.fileno())
