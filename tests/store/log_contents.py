"""What is in a log, read frame by frame."""

from __future__ import annotations

from tidegate.store.log import read


def frames(log, begin=None, end=None, pieces=1):
    begin = log.begin if begin is None else begin
    return [frame for part in log.slices(begin, log.end if end is None else end, pieces) for frame in read(part)]


def plain(table):
    """Rows as dictionaries of what is there."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def contents(log, begin=None, end=None, pieces=1):
    """All rows, after a check that their numbers are consecutive."""
    found, row = [], log.begin if begin is None else begin
    for frame in frames(log, begin, end, pieces):
        assert frame.first_row == row
        found += plain(frame.batch)
        row += frame.batch.num_rows
    return found


def ids(log):
    return [row["id"] for row in contents(log)]
