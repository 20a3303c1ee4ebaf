"""Tombstones in the log: they take rows in order, readers of publications pass over them, and they survive a kill."""

from __future__ import annotations

import os

import pytest

from tests.store.log_contents import contents, frames
from tests.store.writing import rows
from tidegate.store.log import Log, Tombstone, read
from tidegate.store.log_frames import WITHDRAWN
from tidegate.store.log_rows import LogRows


def _withdrawn(log):
    """All frames, those of tombstones as tuples."""
    found = []
    for part in log.slices(log.begin, log.end, 3):
        for frame in read(part, withdrawn=True):
            if frame.kind == WITHDRAWN:
                found.append((frame.first_row, [Tombstone(**row) for row in frame.batch.to_pylist()]))
            else:
                found.append((frame.first_row, frame.batch.column("id").to_pylist()))
    return found


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
def test_tombstones_take_rows_between_publications(tmp_path, segment_bytes):
    gone = [Tombstone("z7", "a", [0]), Tombstone("z7", "ž", [])]
    with Log(tmp_path, segment_bytes=segment_bytes, version=lambda: 4, clock=lambda: 77) as log:
        assert log.append(rows("ab")).position == 2
        assert log.withdraw(gone) == 4
        assert log.append(rows("c")).position == 5
        assert log.withdraw([]) == log.end == 5
        assert _withdrawn(log) == [(0, ["a", "b"]), (2, gone), (4, ["c"])]
        assert [(frame.first_row, frame.version, frame.appended) for frame in frames(log)] == [(0, 4, 77), (4, 4, 77)]
        assert log.cut(0, 3) == 2  # tombstones of one call stay together
    with Log(tmp_path, create=False) as log, LogRows(tmp_path) as reader:
        assert _withdrawn(log) == [(0, ["a", "b"]), (2, gone), (4, ["c"])]
        told = reader.publications([4, 3, 2, 0])
        assert [row.get("id") for row in told] == ["c", "ž", "a", "a"]
        assert told[1:3] == [{"unpublished": True, "source": "z7", "id": id} for id in ("ž", "a")]
        assert [places.tolist() for places, _ in reader.tables([4, 3, 2, 0])] in ([[3], [0]], [[3, 0]])


def test_what_was_unpublished_is_not_noted_of_a_segment_that_goes(tmp_path):
    with Log(tmp_path, segment_bytes=1) as log:
        log.append(rows("ab"))
        log.withdraw([Tombstone("z7", "a", [0])])
        log.append(rows("c"))
        assert log.retain(before=3, named=lambda begin, end: range(begin, end)) == 2
    with LogRows(tmp_path) as reader:
        assert [row.get("id") for row in reader.publications(range(4))] == ["a", "b", None, "c"]


def test_tombstones_without_an_entry_are_whole_after_a_kill(tmp_path):
    with Log(tmp_path) as log:
        log.append(rows("ab"))
        log.withdraw([Tombstone("z7", "a", [0])])
        (index,) = tmp_path.glob("*.index")
        size, (data,) = 2 * 40, tmp_path.glob("*.log")
    os.truncate(index, size - 40)  # as if the writer had been killed between the frame and its entry
    with Log(tmp_path) as log:
        assert log.end == 3
        log.withdraw([Tombstone("z7", "b", [1])])
    os.truncate(index, size)
    os.truncate(data, data.stat().st_size - 64)  # … or within the frame
    with Log(tmp_path) as log:
        assert log.end == 3
        assert [row["id"] for row in contents(log, 0, 2)] == ["a", "b"]
