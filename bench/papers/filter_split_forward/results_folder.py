"""The folder of a sweep: what it is about, a Parquet file per measurement that is done, and in the end all rows in one.

Every file appears whole or not at all, so what was stopped goes on where it was. Knows nothing of Spark, so that
whoever only reads the results needs none, and nothing of what is measured.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import PipelineError, SettingError, shown

__all__ = ["PLAN", "RESULTS", "Cell", "Gathered", "ResultsFolder"]

#: What a sweep is about, and its rows. There are results only of a whole plan.
PLAN, RESULTS = "plan.json", "results.parquet"

_CELLS, _LOCK, _ASIDE = "cells", "lock", ".tmp"


class Cell(Protocol):
    """One measurement: a dataclass that can be pickled. What its row has of the same name is the same."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def key(self) -> str:
        """Its name, which a file can have."""


C = TypeVar("C", bound=Cell)


class Gathered(NamedTuple):
    """The rows there are, of how many cells."""

    rows: pa.Table
    cells: int


class _Plan(NamedTuple):
    about: dict[str, Any]
    cells: list[str]


@dataclass(frozen=True)
class ResultsFolder:
    """A folder for rows of a schema; the driver and all workers see the same under its path."""

    path: Path
    schema: pa.Schema

    def make(self) -> None:
        """Make the folder unless it is there."""
        self._check()
        (self.path / _CELLS).mkdir(parents=True, exist_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have no other sweep in the folder meanwhile."""
        self.make()
        with (self.path / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SettingError("a folder that no other sweep works in", "one that does", str(self.path)) from None
            yield

    def begin(self, cells: Sequence[Cell], about: Mapping[str, Any]) -> None:
        """Have the folder be about these cells; what a killed worker left half written goes."""
        self._agreed(cells, about)
        for place in (self.path, self.path / _CELLS):
            for aside in place.glob(f".*{_ASIDE}"):
                aside.unlink(missing_ok=True)
        (self.path / RESULTS).unlink(missing_ok=True)  # of fewer cells, or damaged; all of it is in the cells
        plan = _Plan(dict(about), [cell.key for cell in cells])
        with _aside(self.path / PLAN) as aside:
            aside.write_bytes(orjson.dumps(plan._asdict(), option=orjson.OPT_INDENT_2))

    def keep(self, cell: Cell, row: Mapping[str, Any]) -> None:
        """Write the row of a cell."""
        odd = row.keys() ^ set(self.schema.names)
        if odd:
            raise PipelineError(
                "a row with the columns of the results", f"too many or too few: {', '.join(sorted(odd))}"
            )
        self._write(pa.Table.from_pylist([dict(row)], self.schema), self._file(cell.key))

    def row(self, cell: Cell, about: Mapping[str, Any]) -> pa.Table | str | None:
        """The row of a cell, or what is wrong with its file, or None if it has none."""
        found = self._read(self._file(cell.key))
        if not isinstance(found, pa.Table):
            return found
        if len(found) != 1:
            return f"its file has {len(found):,} rows"
        for name, value in {**about, **asdict(cell)}.items():
            if name in self.schema.names and (there := found.column(name)[0].as_py()) != value:
                return f"its file is of {name} {shown(there)}, not {shown(value)}"
        return found

    def left(self, cells: Iterable[C], about: Mapping[str, Any]) -> list[C]:
        """Those cells that have no good row."""
        return [cell for cell in cells if not isinstance(self.row(cell, about), pa.Table)]

    def finish(self, rows: Iterable[pa.Table]) -> pa.Table:
        """Write the rows of all cells into one file, sorted."""
        result = self._sorted(rows)
        self._write(result, self.path / RESULTS)
        return result

    def whole(self, cells: Sequence[Cell], about: Mapping[str, Any]) -> pa.Table | None:
        """The results of just these cells, if all are done; an error if the folder is about something else."""
        if self._agreed(cells, about) is None:
            return None
        found = self._read(self.path / RESULTS)
        return found if isinstance(found, pa.Table) and len(found) == len(cells) else None

    def gathered(self) -> Gathered:
        """What there is so far: the results, or the cells that are done."""
        self._check()
        found = self._read(self.path / RESULTS)
        if isinstance(found, pa.Table):
            return Gathered(found, len(found))
        plan = self._plan()
        if plan is None:
            place, got = (self.path / RESULTS, found) if found else (self.path, "none there")
            raise SettingError(
                f"results of a sweep, as this version writes them ({RESULTS} or {PLAN})", got, str(place)
            )
        rows = [self._read(self._file(key)) for key in plan.cells]
        there = [row for row in rows if isinstance(row, pa.Table)]
        if not there:
            wrong = next((f"; {row}" for row in rows if row), "")
            raise SettingError("a sweep with a cell that is done", f"none of {len(rows):,}{wrong}", str(self.path))
        return Gathered(self._sorted(there), len(rows))

    def _check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise SettingError("a folder for the results of a sweep", "a file", str(self.path))

    def _plan(self) -> _Plan | None:
        try:
            found = orjson.loads((self.path / PLAN).read_bytes())
            return _Plan(dict(found["about"]), list(found["cells"]))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            raise SettingError("the plan of a sweep", "what is none", str(self.path / PLAN)) from None

    def _agreed(self, cells: Sequence[Cell], about: Mapping[str, Any]) -> _Plan | None:
        """The plan that is there, which is part of what is planned now; None in a new folder."""
        keys = {cell.key for cell in cells}
        if not keys or len(keys) < len(cells):
            raise SettingError("cells that differ in their keys", "two of the same" if keys else "no cells")
        self._check()
        plan, at = self._plan(), str(self.path)
        if plan is None:
            if (self.path / RESULTS).exists() or next((self.path / _CELLS).glob("*.parquet"), None):
                raise SettingError("a new folder, or that of the same sweep", f"results without {PLAN}", at)
            return None
        for name in sorted(plan.about.keys() | about.keys()):
            there, given = plan.about.get(name), about.get(name)
            if there != given:
                expected = f"a new folder, or {name} {shown(there)} as in the sweep that is there"
                raise SettingError(expected, shown(given), at)
        gone = [key for key in plan.cells if key not in keys]
        if gone:
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            expected = f"a new folder, or all {len(plan.cells):,} cells of the sweep that is there"
            raise SettingError(expected, f"a sweep without {gone[0]}{more}", at)
        return plan

    def _file(self, key: str) -> Path:
        return self.path / _CELLS / f"{key}.parquet"

    def _read(self, path: Path) -> pa.Table | str | None:
        try:
            found = pq.read_table(path, partitioning=None)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError):
            return "its file is damaged"
        return found if found.schema.equals(self.schema) else "its file has other columns"

    def _write(self, table: pa.Table, path: Path) -> None:
        with _aside(path) as aside:
            pq.write_table(table, aside, compression="zstd")

    def _sorted(self, rows: Iterable[pa.Table]) -> pa.Table:
        plain = [(field.name, "ascending") for field in self.schema if not pa.types.is_nested(field.type)]
        return pa.concat_tables(rows).combine_chunks().sort_by(plain)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A name beside ``path`` whose file takes its place in one step."""
    aside = path.with_name(f".{path.name}-{uuid4().hex[:8]}{_ASIDE}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
