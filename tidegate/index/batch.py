"""A batch of publications as the index reads it: columns of points, and single rows where a predicate asks for them.

``ObjectBatch`` holds publications as objects, ``ArrowBatch`` the rows of an Arrow table, without an object for each;
both offer what ``Batch`` declares. ``index/table_columns.py`` reads the columns of a table, ``index/checks.py`` says
which values they may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.index.checks import broken_rules
from tidegate.index.columns import converted
from tidegate.index.table_columns import columns_of
from tidegate.kernels.identity import publication_hashes
from tidegate.kernels.shape import shaped
from tidegate.model import RESERVED, Publication, micros
from tidegate.predicates.column import Column, PointLists, Points, Row, Table, column
from tidegate.rejected_row import RejectedRow
from tidegate.shapes.normal_form import LONGEST, SHORTEST
from tidegate.time_zones import TimeZone

__all__ = ["FOR_EVER", "ArrowBatch", "Batch", "ObjectBatch", "phase_number", "sift", "text_buffers"]

#: When the validity ends of what has no end.
FOR_EVER = np.iinfo(np.int64).max


def text_buffers(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]:
    """Offsets, UTF-8 bytes and validity of an Arrow string array, without copying the bytes.

    Nobody may write offsets and bytes, wherever the array came from: numba would compile kernels twice, for those of a
    file and for others.
    """
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    _, offsets, letters = texts.buffers()
    offset, length = texts.offset, len(texts)
    starts = np.frombuffer(offsets, np.int64, length + 1, 8 * offset) if offsets else np.zeros(1, np.int64)
    bytes_ = np.frombuffer(letters, np.uint8) if letters else np.zeros(1, np.uint8)
    starts.flags.writeable = bytes_.flags.writeable = False
    valid = np.asarray(texts.is_valid()) if texts.null_count else np.ones(length, np.bool_)
    return starts, bytes_, valid


def phase_number(publication: Publication) -> int:
    """The phase of a publication as ``Batch.phases`` has it."""
    return 0 if publication.phase is None else _PHASES.index(publication.phase)


class Batch:
    """Publications that are matched together."""

    length: int

    def __init__(self) -> None:
        self._points: dict[Column, Points | None] = {}
        self._shapeless: dict[str, int] = {}
        self._shapeless_alone: set[tuple[str, int]] = set()
        self.oversized = 0
        """How many bags were too large for LIKE, of the attributes that it was asked of."""

    def points(self, column: Column) -> Points | None:
        """The column's points for all publications, read once; None where all are missing."""
        if column not in self._points:
            found = self._points[column] = self._read(column)
            if column.reading == "compared" and found is not None:
                sizes: Points = self.points(column._replace(reading="size"))
                self.oversized += int(np.isnan(found).sum() - np.isnan(sizes).sum())
        return self._points[column]

    def series(self, attribute: str) -> PointLists | None:
        """The numbers of all publications' series, or None; ``shapeless`` then counts those without a shape too."""
        found = self.points(column("series", attribute))
        if attribute not in self._shapeless:
            there = self.points(column("presence", attribute))
            shapes = 0 if found is None else shaped(found.offsets, found.points, SHORTEST, LONGEST)
            self._shapeless[attribute] = (0 if there is None else int(there.sum())) - shapes
        return found

    @property
    def shapeless(self) -> int:
        """How many values had no shape, of the attributes that ``series`` was called for, and of publications alone."""
        alone = sum(attribute not in self._shapeless for attribute, _ in self._shapeless_alone)
        return sum(self._shapeless.values()) + alone

    def has_no_shape(self, attribute: str, i: int) -> None:
        """Note that a shape was asked of publication i alone, in an attribute whose value has none."""
        self._shapeless_alone.add((attribute, i))

    def _read(self, column: Column) -> Points | None:
        raise TypeError("a batch of nothing")

    def row(self, i: int) -> Row:
        """One publication."""
        raise TypeError("a batch of nothing")

    def picked(self, rows: NDArray[np.int64]) -> Self:
        """A batch of these rows alone."""
        raise TypeError("a batch of nothing")

    def attributes(self, i: int) -> Mapping[str, Any]:
        """The attributes that one publication has, without its fields."""
        raise TypeError("a batch of nothing")

    def times(self) -> NDArray[np.int64]:
        """Microseconds since 1970."""
        raise TypeError("a batch of nothing")

    def until(self) -> NDArray[np.int64] | None:
        """When their validity ends, in µs since 1970; ``FOR_EVER`` where it does not, None if that is so for all."""
        raise TypeError("a batch of nothing")

    def time_range(self) -> tuple[int, int]:
        """The first and the last of the times."""
        times = self.times()
        return int(times.min()), int(times.max())

    def ids(self) -> pa.Array:
        """The publications' ids."""
        raise TypeError("a batch of nothing")

    def hashes(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """128 bits of the source, id and phase of some rows, and 128 bits of the source alone."""
        ids, sources = text_buffers(self.ids())[:2], text_buffers(self.sources())[:2]
        found: tuple[NDArray[np.uint64], NDArray[np.uint64]] = publication_hashes(rows, *ids, *sources, self.phases())
        return found

    def sources(self) -> pa.Array:
        """The publications' sources."""
        raise TypeError("a batch of nothing")

    def phases(self) -> NDArray[np.uint8]:
        """The publications' phases, numbered in the order in which they come at one time; 0 for none."""
        raise TypeError("a batch of nothing")


class ObjectBatch(Batch):
    """Publications as objects, which were checked when they were made."""

    def __init__(self, publications: Sequence[Publication]) -> None:
        super().__init__()
        for p in publications:
            if not isinstance(p, Publication):
                raise PublicationError("publications", shown(p))
        self.publications = publications
        self.length = len(publications)
        self._micros: list[int] | None = None

    def row(self, i: int) -> Row:
        return self.publications[i]

    def picked(self, rows: NDArray[np.int64]) -> Self:
        return type(self)([self.publications[i] for i in rows.tolist()])

    def attributes(self, i: int) -> Mapping[str, Any]:
        return self.publications[i].attributes

    @property
    def micros(self) -> list[int]:
        """``times`` as a list."""
        if self._micros is None:  # a ``cached_property`` has a lock that all batches of all threads would share
            self._micros = [micros(p.time) for p in self.publications]
        return self._micros

    def times(self) -> NDArray[np.int64]:
        return np.array(self.micros, np.int64)

    def until(self) -> NDArray[np.int64] | None:
        ends = [p.valid_until for p in self.publications]
        if not any(ends):
            return None
        return np.array([FOR_EVER if end is None else micros(end) for end in ends], np.int64)

    def time_range(self) -> tuple[int, int]:
        return min(self.micros), max(self.micros)

    def ids(self) -> pa.Array:
        return pa.array([p.id for p in self.publications], pa.large_string())

    def sources(self) -> pa.Array:
        return pa.array([p.source for p in self.publications], pa.large_string())

    def phases(self) -> NDArray[np.uint8]:
        return np.array([phase_number(p) for p in self.publications], np.uint8)

    def _read(self, column: Column) -> Points | None:
        how, operand = column.how, column.operand
        found = [how.point(operand, p) for p in self.publications]
        if how.is_many:
            offsets = np.zeros(len(found) + 1, np.int64)
            np.cumsum([len(row) if row else 0 for row in found], out=offsets[1:])
            flat = [point for row in found if row for point in row]
            return PointLists(offsets, pa.array(flat, pa.large_string()) if how.is_text else np.array(flat, np.float64))
        if how.is_text:
            return pa.array(found, pa.large_string())
        return np.array([np.nan if point is None else point for point in found], np.float64)


class ArrowBatch(Batch):
    """Publications as the rows of an Arrow table, checked column by column.

    ``kept`` has the numbers of the table's rows that are in the batch, None where all are. Timestamps of the table that
    have no time zone are in ``zone``.
    """

    kept: NDArray[np.int64] | None = None

    def __init__(self, table: pa.Table | pa.RecordBatch, *, zone: TimeZone | None = None) -> None:
        columns, untimely = columns_of(table, zone)
        for rule in chain(untimely, broken_rules(columns)):
            raise rule.error(0)
        self._take(columns, table.num_rows)

    @classmethod
    def trusted(cls, table: pa.Table | pa.RecordBatch) -> Self:
        """A table whose rows were all checked before, as those of the log were: types are looked at, values are not."""
        return cls._of(columns_of(table, None)[0], table.num_rows)

    @classmethod
    def _of(cls, columns: dict[str, pa.Array], length: int) -> Self:
        batch = cls.__new__(cls)
        batch._take(columns, length)
        return batch

    def _take(self, columns: dict[str, pa.Array], length: int) -> None:
        super().__init__()
        self.length = length
        self.arrays = {name: converted(array) for name, array in columns.items()}
        self.table = Table(self.arrays, length)

    def row(self, i: int) -> Row:
        return _ArrowRow(self.arrays, i)

    def picked(self, rows: NDArray[np.int64]) -> Self:
        wanted = pa.array(rows)
        return self._of({name: array.take(wanted) for name, array in self.arrays.items()}, len(rows))

    def attributes(self, i: int) -> Mapping[str, Any]:
        return {
            name: value
            for name in self.arrays
            if name not in RESERVED and (value := self.row(i).value(name)) is not None
        }

    def times(self) -> NDArray[np.int64]:
        return np.asarray(self.arrays["time"].cast(pa.int64()))

    def until(self) -> NDArray[np.int64] | None:
        found = self.arrays.get("valid_until")
        if found is None or found.null_count == len(found):
            return None
        return np.asarray(found.cast(pa.int64()).fill_null(FOR_EVER))

    def ids(self) -> pa.Array:
        return self.arrays["id"]

    def sources(self) -> pa.Array:
        return self.arrays["source"].cast(pa.large_string())

    def phases(self) -> NDArray[np.uint8]:
        if "phase" not in self.arrays:
            return np.zeros(self.length, np.uint8)
        found = pc.index_in(self.arrays["phase"].cast(pa.string()), pa.array(_PHASES[1:]))
        return np.array(pc.add(found, 1).fill_null(0).cast(pa.uint8()))

    def _read(self, column: Column) -> Points | None:
        return column.how.points(column.operand, self.table)


def sift(table: pa.Table | pa.RecordBatch, zone: TimeZone | None = None) -> tuple[ArrowBatch, list[RejectedRow]]:
    """The rows that are publications as a batch, and a fault for each of the others, in the order of the rows.

    The reason is what ``ArrowBatch`` would say of the row. A column of a type that no publication can have is still an
    error.
    """
    columns, untimely = columns_of(table, zone)
    good = np.ones(table.num_rows, np.bool_)
    faults: list[RejectedRow] = []
    for rule in chain(untimely, broken_rules(columns)):
        faults += [RejectedRow(int(rule.rows[i]), str(rule.error(int(i)))) for i in np.flatnonzero(good[rule.rows])]
        good[rule.rows] = False
    if not faults:
        return ArrowBatch._of(columns, table.num_rows), faults
    kept = np.flatnonzero(good)
    rows = pa.array(kept)
    batch = ArrowBatch._of({name: array.take(rows) for name, array in columns.items()}, len(kept))
    batch.kept = kept
    return batch, sorted(faults)


class _ArrowRow:
    """One row of the table, read value by value."""

    __slots__ = ("_arrays", "_i")

    def __init__(self, arrays: dict[str, pa.Array], i: int) -> None:
        self._arrays, self._i = arrays, i

    def value(self, name: str) -> Any:
        array = self._arrays.get(name)
        if array is None:
            return None
        value = array[self._i].as_py()
        return (value["lon"], value["lat"]) if isinstance(value, dict) else value


_PHASES = (None, "START", "INSTANT", "END")  # as ``kernels/past_records.py`` numbers them
