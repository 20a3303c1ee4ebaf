"""What is in the recent part of a log, for those who look at it: publications, and which sources and attributes they
have.

Everything is asked of what a reader may read, and of what was not unpublished. Each question looks at a bounded part of
the log for a bounded time. Knows no principals: it is given what may be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.broker.read_filter import ReadFilter
from tidegate.closing import Closing
from tidegate.model import RESERVED
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log_reader import LogReader
from tidegate.store.log_rows import LogRows
from tidegate.store.withdrawn_rows import WithdrawnRows
from tidegate.whole_numbers import MARKS

__all__ = ["RecentPage", "RecentPublications", "SeenAttribute"]

#: Rows that are looked at for one question at most, at a time, and for how many seconds.
_MOST, _SOME, _SECONDS = 20_000, 2_000, 1.0
#: Bytes of publications with which a page is long enough.
_PAGE = 2 << 20
#: Rows at the end of the log in which tombstones are looked for that the runner may not know yet.
_UNKNOWN = 2_000
#: Names of sources or attributes that are told at most.
_MOST_NAMES = 1_000
_Rows = NDArray[np.int64]


class RecentPage(NamedTuple):
    """Publications, the newest last, and the row behind which to go on; −1 for the beginning."""

    publications: list[dict[str, Any]]
    next: int


class SeenAttribute(NamedTuple):
    """An attribute that publications have, and of which kinds its values are."""

    name: str
    kinds: list[str]


class _Part(NamedTuple):
    """Some rows of the log, in order, as tables, and the tombstones among them: sources and ids."""

    tables: list[tuple[_Rows, pa.Table]]
    graves: set[tuple[str, str]]


class RecentPublications(Closing):
    """The log of a data directory, as ``read`` may see it, None for everything; if given, of one source."""

    def __init__(self, data: DataDirectory, log: LogReader, read: ReadFilter | None, source: str | None = None) -> None:
        self._log, self._read, self._source = log, read, source
        self._rows, self._withdrawn = LogRows(data.log, frames=256), WithdrawnRows(data.valid)
        self._until = monotonic() + _SECONDS

    def close(self) -> None:
        self._rows.close()

    def page(self, after: int | None, limit: int) -> RecentPage:
        """Publications behind a row, or the newest ones."""
        begin, end = self._log.begin, self._log.end
        return self._newest(begin, end, limit) if after is None else self._behind(begin, end, after, limit)

    def _newest(self, begin: int, end: int, limit: int) -> RecentPage:
        chosen: list[int] = []
        for part in self._backward(begin, end):
            chosen = [*self._seen(part), *chosen][-limit:]
            if len(chosen) == limit:
                break
        chosen = chosen[-self._enough(chosen[::-1]) :]
        return RecentPage(self._rows.publications(chosen), chosen[-1] if chosen else -1)

    def _enough(self, rows: Sequence[int]) -> int:
        """How many of some rows, from the first on, have as many bytes as a page; about, and all if they have fewer."""
        ends = np.cumsum(self._rows.sizes(rows))
        return min(len(rows), int(np.searchsorted(ends, _PAGE)) + 1)

    def _behind(self, begin: int, end: int, after: int, limit: int) -> RecentPage:
        chosen: list[int] = []
        at, graves = max(begin, after + 1), self._newest_graves(begin, end)
        for behind, part in self._forward(at, end):
            chosen += self._seen(part, graves)
            at = behind
            if len(chosen) >= limit:
                break
        chosen = chosen[:limit]
        count = self._enough(chosen)
        if count < len(chosen):
            chosen = chosen[:count]
        elif at < end and len(chosen) < limit:
            return RecentPage(self._rows.publications(chosen), at - 1)  # there is more that may have to be shown
        return RecentPage(self._rows.publications(chosen), chosen[-1] if chosen else after)

    def sources(self) -> list[str]:
        """The sources of recent publications, in order."""
        found = set[str]()
        for part in self._backward(self._log.begin, self._log.end):
            for rows, table in part.tables:
                seen = self._among(rows, table, part.graves)
                found.update(pc.unique(table.column("source").filter(pa.array(seen))).to_pylist())
            if len(found) >= _MOST_NAMES:
                break
        return sorted(found)[:_MOST_NAMES]

    def attributes(self) -> list[SeenAttribute]:
        """The attributes of recent publications with the kinds of their values, in order."""
        found: dict[str, set[str]] = {}
        for part in self._backward(self._log.begin, self._log.end):
            for rows, table in part.tables:
                seen = pa.array(self._among(rows, table, part.graves))
                for name in table.column_names:
                    if name in RESERVED or name == MARKS:
                        continue
                    column = table.column(name).filter(seen)
                    if column.null_count < len(column):
                        found.setdefault(name, set()).add(_kind_of(column.type))
            if len(found) >= _MOST_NAMES:
                break
        return [SeenAttribute(name, sorted(found[name])) for name in sorted(found)[:_MOST_NAMES]]

    # --- parts of the log ---------------------------------------------------------------------------------------------

    def _backward(self, begin: int, end: int) -> Iterator[_Part]:
        """Parts of the log, the newest first. Tombstones come behind what they withdraw: those of all parts before are
        among those of a part.
        """
        self._withdrawn.refresh()
        graves = set[tuple[str, str]]()
        least = max(begin, end - _MOST)
        while end > least and monotonic() < self._until:
            low = max(least, end - _SOME)
            part = self._part(low, end)
            graves |= part.graves
            yield part._replace(graves=graves)
            end = low

    def _forward(self, begin: int, end: int) -> Iterator[tuple[int, _Part]]:
        """Parts of the log in order, each with the row behind it."""
        self._withdrawn.refresh()
        most = min(end, begin + _MOST)
        while begin < most and monotonic() < self._until:
            low = min(most, begin + _SOME)
            yield low, self._part(begin, low)
            begin = low

    def _newest_graves(self, begin: int, end: int) -> set[tuple[str, str]]:
        """The tombstones of which the valid set, which the runner keeps, may not know yet."""
        begin = max(begin, end - _UNKNOWN)
        return self._part(begin, end).graves if begin < end else set()

    def _part(self, begin: int, end: int) -> _Part:
        every = np.arange(begin, end)
        tables = [(every[places], table) for places, table in self._rows.tables(every)]
        others = np.setdiff1d(every, np.concatenate([rows for rows, _ in tables]) if tables else every[:0])
        told = self._rows.publications(others) if len(others) else []
        return _Part(tables, {(one["source"], one["id"]) for one in told if one.get("unpublished")})

    def _seen(self, part: _Part, graves: Iterable[tuple[str, str]] = ()) -> list[int]:
        """The rows of a part that are to be shown, in order."""
        known = part.graves | set(graves)
        return sorted(row for rows, table in part.tables for row in rows[self._among(rows, table, known)].tolist())

    def _among(self, rows: _Rows, table: pa.Table, graves: set[tuple[str, str]]) -> NDArray[np.bool_]:
        """Which rows of a table may be seen."""
        seen = ~self._withdrawn.among(rows)
        if self._source is not None:
            seen &= np.asarray(pc.equal(table.column("source"), self._source))
        if self._read is not None and seen.any():
            seen &= self._read.holds(table)
        if graves:
            for place in np.flatnonzero(seen).tolist():
                seen[place] = (table.column("source")[place].as_py(), table.column("id")[place].as_py()) not in graves
        return seen


def _kind_of(kind: pa.DataType) -> str:
    """The kind of values of a column, as a user calls it."""
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        return f"list of {_kind_of(kind.value_type)}"
    for name, is_kind in _KINDS.items():
        if is_kind(kind):
            return name
    return "number"


_KINDS = {
    "text": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "truth value": pa.types.is_boolean,
    "timestamp": pa.types.is_timestamp,
    "date": pa.types.is_date,
    "point": pa.types.is_struct,
}
