"""A batch of publications as the index reads it: columns of points, and single rows where a predicate asks for them.

Two kinds with the same face: publications as objects, and an Arrow table without an object per publication.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.model import PHASES, RESERVED, TEXT_LENGTH, Publication, micros
from tidegate.predicates.column import Column, Many, Points, Row, Table

__all__ = ["ArrowBatch", "Batch", "ObjectBatch", "text_buffers"]


def text_buffers(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]:
    """Offsets, UTF-8 bytes and validity of an Arrow string array, without copying the bytes."""
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    _, offsets, letters = texts.buffers()
    offset, length = texts.offset, len(texts)
    starts = np.frombuffer(offsets, np.int64, length + 1, 8 * offset) if offsets else np.zeros(1, np.int64)
    bytes_ = np.frombuffer(letters, np.uint8) if letters else np.zeros(1, np.uint8)
    valid = np.asarray(texts.is_valid()) if texts.null_count else np.ones(length, np.bool_)
    return starts, bytes_, valid


class Batch:
    """Publications that are matched together."""

    length: int

    def __init__(self) -> None:
        self._points: dict[Column, Points | None] = {}

    def points(self, column: Column) -> Points | None:
        """The column's points for all publications, read once; None where all are missing."""
        if column not in self._points:
            self._points[column] = self._read(column)
        return self._points[column]

    def _read(self, column: Column) -> Points | None:
        raise TypeError("a batch of nothing")

    def row(self, i: int) -> Row:
        """One publication."""
        raise TypeError("a batch of nothing")

    def times(self) -> NDArray[np.int64]:
        """Microseconds since 1970."""
        raise TypeError("a batch of nothing")

    def ids(self) -> pa.Array:
        """The publications' ids."""
        raise TypeError("a batch of nothing")


class ObjectBatch(Batch):
    """Publications as objects, which were checked when they were made."""

    def __init__(self, publications: Sequence[Publication]) -> None:
        super().__init__()
        seen: set[tuple[str, str | None]] = set()
        for p in publications:
            if not isinstance(p, Publication):
                raise PublicationError("publications", shown(p))
            if (p.id, p.phase) in seen:
                raise PublicationError("each publication once", f"the id {shown(p.id)} twice", "one batch")
            seen.add((p.id, p.phase))
        self.publications = publications
        self.length = len(publications)

    def row(self, i: int) -> Row:
        return self.publications[i]

    def times(self) -> NDArray[np.int64]:
        return np.fromiter((micros(p.time) for p in self.publications), np.int64, self.length)

    def ids(self) -> pa.Array:
        return pa.array([p.id for p in self.publications], pa.large_string())

    def _read(self, column: Column) -> Points | None:
        how, operand = column.how, column.operand
        found = [how.point(operand, p) for p in self.publications]
        if how.is_many:
            offsets = np.zeros(len(found) + 1, np.int64)
            np.cumsum([len(row) if row else 0 for row in found], out=offsets[1:])
            flat = [point for row in found if row for point in row]
            return Many(offsets, pa.array(flat, pa.large_string()) if how.is_text else np.array(flat, np.float64))
        if how.is_text:
            return pa.array(found, pa.large_string())
        return np.array([np.nan if point is None else point for point in found], np.float64)


class ArrowBatch(Batch):
    """Publications as the rows of an Arrow table, checked column by column."""

    def __init__(self, table: pa.Table | pa.RecordBatch) -> None:
        super().__init__()
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        names = table.column_names
        if len(set(names)) != len(names):
            raise PublicationError("each column once", f"{shown(next(n for n in names if names.count(n) > 1))} twice")
        self.length = table.num_rows
        arrays = {name: _checked(name, _whole(table.column(name))) for name in names}
        for name in ("id", "source", "time"):
            if name not in arrays:
                raise PublicationError(f"a column {name}", f"columns {', '.join(names) or 'none'}")
            if arrays[name].null_count:
                at = f"row {pc.index(arrays[name].is_null(), True).as_py()}"
                raise PublicationError(f"a value of {name} in every row", "null", at)
        self.arrays = arrays
        self.table = Table(arrays, self.length)
        self._check_ids()
        self._check_times()

    def row(self, i: int) -> Row:
        return _ArrowRow(self.arrays, i)

    def times(self) -> NDArray[np.int64]:
        return np.asarray(_as_micros(self.arrays["time"]).cast(pa.int64()))

    def ids(self) -> pa.Array:
        return self.arrays["id"]

    def _read(self, column: Column) -> Points | None:
        return column.how.points(column.operand, self.table)

    def _check_ids(self) -> None:
        if pc.min(pc.utf8_length(self.arrays["id"])).as_py() == 0:
            at = f"row {pc.index(pc.utf8_length(self.arrays['id']), 0).as_py()}"
            raise PublicationError("a non-empty string as the id", "''", at)
        keys = self.arrays["id"]
        if "phase" in self.arrays:
            keys = pc.binary_join_element_wise(keys, pc.fill_null(self.arrays["phase"], "").cast(keys.type), "\0")
            bad = pc.invert(pc.is_in(self.arrays["phase"], pa.array([*PHASES, None], self.arrays["phase"].type)))
            if pc.any(bad).as_py():
                at = pc.index(bad, True).as_py()
                raise PublicationError(
                    f"one of {', '.join(PHASES)} as phase", shown(self.arrays["phase"][at].as_py()), f"row {at}"
                )
        if pc.count_distinct(keys).as_py() < self.length:
            counts = pc.value_counts(keys)
            twice = pc.index(pc.greater(counts.field("counts"), 1), True).as_py()
            name = counts.field("values")[twice].as_py().split("\0")[0]
            raise PublicationError("each publication once", f"the id {shown(name)} twice", "one batch")

    def _check_times(self) -> None:
        if "start" in self.arrays and "end" in self.arrays:
            start, end = _as_micros(self.arrays["start"]), _as_micros(self.arrays["end"])
            bad = pc.fill_null(pc.less(end.cast(pa.int64()), start.cast(pa.int64())), False)
            if pc.any(bad).as_py():
                raise PublicationError(
                    "an end that is not before the start", "one that is", f"row {pc.index(bad, True).as_py()}"
                )


class _ArrowRow:
    """One row of the table, read value by value."""

    __slots__ = ("_arrays", "_i")

    def __init__(self, arrays: dict[str, pa.Array], i: int) -> None:
        self._arrays, self._i = arrays, i

    def value(self, name: str) -> Any:
        array = self._arrays.get(name)
        if array is None:
            return None
        if pa.types.is_timestamp(array.type):
            array = _as_micros(array[self._i : self._i + 1])
            return array[0].as_py()
        value = array[self._i].as_py()
        return (value["lon"], value["lat"]) if isinstance(value, dict) else value


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _as_micros(array: pa.Array) -> pa.Array:
    """Timestamps floored to microseconds."""
    if array.type.unit in ("s", "ms"):
        return array.cast(pa.timestamp("us", array.type.tz))
    return pc.floor_temporal(array, unit="microsecond").cast(pa.timestamp("us", array.type.tz), safe=False)


_EXPECTED = "numbers, strings, truth values, timestamps with a time zone, dates, points (struct lon, lat) or lists"


def _checked(name: str, array: pa.Array) -> pa.Array:
    """The column as readings know it, or an error that names it."""
    at = f"column {shown(name)}"
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_null(kind):
        return array
    reserved = RESERVED.get(name)
    if name == "event":
        raise PublicationError("columns start and end", "a column event, which is a reserved name")
    if reserved == "text" and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise PublicationError(f"strings as {name}", f"{kind}", at)
    if reserved == "time" and not pa.types.is_timestamp(kind):
        raise PublicationError(f"timestamps with a time zone as {name}", f"{kind}", at)
    if reserved == "point" and not pa.types.is_struct(kind):
        raise PublicationError(f"points (struct lon, lat) as {name}", f"{kind}", at)
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise PublicationError("timestamps with a time zone", "timestamps without one", at)
        try:
            pc.assume_timezone(pa.array([datetime(2026, 1, 1)], pa.timestamp("us")), kind.tz)
        except pa.ArrowInvalid:
            raise PublicationError("a time zone that exists", shown(kind.tz), at) from None
        return array
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        array, kind = array.cast(pa.float64()), pa.float64()
    if pa.types.is_floating(kind):
        _all_finite(array, at)
        return array
    if pa.types.is_struct(kind):
        return _points(array, at)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        members = array.flatten()
        inner = kind.value_type
        if members.null_count:
            raise PublicationError("lists without nulls", "a null in one", at)
        if pa.types.is_floating(inner):
            _all_finite(members, at)
        elif not (_is_plain(inner) or (pa.types.is_timestamp(inner) and inner.tz is not None) or pa.types.is_null(inner)):
            raise PublicationError(_EXPECTED, f"{kind}", at)
        return array.cast(pa.list_(inner)) if pa.types.is_fixed_size_list(kind) else array
    if not _is_plain(kind):
        raise PublicationError(_EXPECTED, f"{kind}", at)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        longest = pc.max(pc.utf8_length(array)).as_py() or 0
        if longest > TEXT_LENGTH:
            raise PublicationError(f"text of at most {TEXT_LENGTH} characters", f"{longest} characters", at)
    return array


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
    )


def _all_finite(array: pa.Array, at: str) -> None:
    numbers = array.to_numpy(zero_copy_only=False)  # nulls become NaN
    if np.count_nonzero(~np.isfinite(numbers)) > array.null_count:
        row = pc.index(pc.is_finite(array), False).as_py()
        raise PublicationError("finite numbers, null for missing", f"{array[row].as_py()}", f"{at}, row {row}")


def _points(array: pa.Array, at: str) -> pa.Array:
    names = {field.name for field in array.type}
    if not {"lon", "lat"} <= names:
        raise PublicationError("points (struct lon, lat)", f"{array.type}", at)
    lon, lat = (pc.struct_field(array, part).cast(pa.float64()) for part in ("lon", "lat"))
    for part, bound in ((lon, 180.0), (lat, 90.0)):
        good = pc.and_(pc.is_valid(part), pc.fill_null(pc.less_equal(pc.abs(part), bound), False))
        bad = pc.and_(array.is_valid(), pc.invert(good))
        if pc.any(bad).as_py():
            row = pc.index(bad, True).as_py()
            wanted = "lon in [-180, 180] and lat in [-90, 90]"
            raise PublicationError(wanted, shown(array[row].as_py()), f"{at}, row {row}")
    return pa.StructArray.from_arrays([lon, lat], ["lon", "lat"], mask=array.is_null())
