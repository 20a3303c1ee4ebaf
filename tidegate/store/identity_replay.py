"""The frames of a log from a row on, for the id index that is brought up to the log's end or made again.

Frames that are damaged are passed over: an old one must not keep anybody from appending. Knows nothing of identities.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tidegate.errors import StoreError
from tidegate.store.log_frames import Header
from tidegate.store.log_segment import LogSegment, segments
from tidegate.store.row_segment import RowSegment

__all__ = ["frames_from", "has_entry"]


def has_entry(log: Path, row: int, byte: int, appended: int) -> bool:
    """Whether an entry of the log ends at a row and a byte and is of a time, or the row is that of an empty log."""
    if not row:
        return True
    before = [first for first in segments(log) if first < row]
    try:
        with LogSegment(log, before[-1]) as segment:
            number = segment.frames_until(row)
            entry = segment.entry(number - 1)
    except (IndexError, StoreError, FileNotFoundError):
        return False
    return (entry.end_row, entry.end_byte, entry.appended) == (row, byte, appended)


def frames_from(log: Path, begin: int) -> Iterator[tuple[Header, pa.RecordBatch]]:
    """Headers and batches of the frames that end behind a row, of publications and of tombstones, in order."""
    firsts = segments(log)
    for first, following in zip(firsts, [*firsts[1:], None], strict=True):
        if following is not None and following <= begin:
            continue
        with RowSegment(log, first) as segment:
            for number in range(segment.frames_until(begin), segment.count):
                try:
                    header, batch = segment.frame(number)
                except StoreError:
                    continue
                if batch is not None:
                    yield header, batch
