"""The publications that subscriptions are measured with: the newest of the log, of whatever columns they are.

They are put into as few tables as their types allow, since a table of one row costs more to match than its row does.
Knows no subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.store.log_reader import LogReader
from tidegate.store.log_rows import LogRows

__all__ = ["CostSample", "newest"]

_Part = tuple[NDArray[np.int64], pa.Table]


class CostSample(NamedTuple):
    """Publications in the order of the log, one table after the other, up to a row of the log."""

    tables: list[pa.Table]
    end: int

    def __len__(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def split(self, first: int) -> tuple[list[pa.Table], list[pa.Table]]:
        """The first so many rows, and the others."""
        before, after = list[pa.Table](), list[pa.Table]()
        for table in self.tables:
            here = min(first, table.num_rows)
            first -= here
            before += [table.slice(0, here)] if here else []
            after += [table.slice(here)] if here < table.num_rows else []
        return before, after


def newest(log: LogReader, rows: LogRows, count: int) -> CostSample:
    """The newest so many rows of a log, without what is no publication."""
    end = log.end
    begin = max(log.begin, end - count)
    parts = rows.tables(np.arange(begin, end)) if begin < end else []
    return CostSample(_united(parts), end)


def _united(parts: Sequence[_Part]) -> list[pa.Table]:
    """All rows in as few tables as possible, each in the order of the log: columns of the same name may have types
    that do not go together.
    """
    whole = _together(parts) if parts else None
    if whole is not None:
        return [whole[1]]
    found = list[_Part]()
    for part in parts:
        more = _together([found[-1], part]) if found else None
        if more is None:
            found.append(part)
        else:
            found[-1] = more
    return [table for _, table in found]


def _together(parts: Sequence[_Part]) -> _Part | None:
    """Rows of several tables as one, in order; None if their types do not go together."""
    try:
        table = pa.concat_tables([table for _, table in parts], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    places = np.concatenate([places for places, _ in parts])
    order = np.argsort(places, kind="stable")
    return places[order], table.take(pa.array(order)).combine_chunks()
