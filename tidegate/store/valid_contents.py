"""What valid publications say whose rows the log has dropped, for readers in other processes.

The runner has written the valid set down before the log drops a row. Files are mapped, a bounded number of them, when
one of their rows is asked for. Knows nothing of what is still valid.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.records.row_sizes import row_sizes
from tidegate.store.valid_files import ValidFile
from tidegate.store.valid_manifest import ValidEntry, identity, read_manifest

__all__ = ["ValidContents"]

_Rows = NDArray[np.int64]
#: Files that are mapped at a time.
_FILES = 32
#: How often a reader looks for files that are merged meanwhile.
_TRIES = 10


class ValidContents:
    """The publications in the valid set of a directory, by row. One without a valid set has none."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self._seen: tuple[int, int] | None = None
        self._entries: tuple[ValidEntry, ...] = ()
        self._open: OrderedDict[str, ValidFile] = OrderedDict()

    def tables(self, rows: _Rows) -> list[tuple[_Rows, pa.Table]]:
        """The publications of some rows as tables, each with their places among the rows. Rows that the set does not
        have are in none.
        """
        return [(places, content.take(pa.array(at))) for places, content, at in self._found(rows)]

    def sizes(self, rows: _Rows) -> list[tuple[_Rows, _Rows]]:
        """About how many bytes they have, in the same parts."""
        return [(places, row_sizes(content, at)) for places, content, at in self._found(rows)]

    def _found(self, rows: _Rows) -> list[tuple[_Rows, pa.Table, _Rows]]:
        """Where the rows are: their places among those that are asked for, and tables with the rows in these."""
        for left in reversed(range(_TRIES)):
            try:
                self._refresh()
                return list(self._find(rows))
            except FileNotFoundError:  # merged while we looked: there is another manifest by now
                self._seen = None
                if not left:
                    raise
        raise AssertionError("a last try")

    def _refresh(self) -> None:
        seen = identity(self.directory)
        if seen == self._seen:
            return
        manifest = read_manifest(self.directory)
        self._seen, self._entries = seen, manifest.files if manifest else ()
        names = {entry.name for entry in self._entries}
        for name in [name for name in self._open if name not in names]:
            del self._open[name]

    def _find(self, rows: _Rows) -> Iterator[tuple[_Rows, pa.Table, _Rows]]:
        for entry in self._entries:
            some = np.flatnonzero((rows >= entry.first) & (rows <= entry.last))
            if not len(some):
                continue
            for group in self._file(entry).groups:
                known = group.rows.row
                at = np.minimum(np.searchsorted(known, rows[some]), len(known) - 1)
                is_here = known[at] == rows[some]
                if is_here.any():
                    yield some[is_here], group.content, at[is_here]

    def _file(self, entry: ValidEntry) -> ValidFile:
        found = self._open.get(entry.name)
        if found is None:
            if not (self.directory / entry.name).exists():
                raise FileNotFoundError(entry.name)
            found = self._open[entry.name] = ValidFile(self.directory / entry.name, entry.level)
            if len(self._open) > _FILES:
                self._open.popitem(last=False)
        self._open.move_to_end(entry.name)
        return found

    def close(self) -> None:
        self._open.clear()
