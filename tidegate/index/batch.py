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
from tidegate.model import LIST_LENGTH, NAME_LENGTH, PHASES, RESERVED, TEXT_LENGTH, Publication, micros
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

    def keys(self) -> pa.Array:
        """What tells publications apart: the id, and the phase where there is one."""
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

    def keys(self) -> pa.Array:
        return pa.array(
            [p.id if p.phase is None else f"{p.id}\0{p.phase}" for p in self.publications], pa.large_string()
        )

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
        return np.asarray(self.arrays["time"].cast(pa.int64()))

    def ids(self) -> pa.Array:
        return self.arrays["id"]

    def keys(self) -> pa.Array:
        ids = self.arrays["id"].cast(pa.large_string())
        if "phase" not in self.arrays:
            return ids
        phases = self.arrays["phase"].cast(pa.large_string())
        return pc.if_else(phases.is_null(), ids, pc.binary_join_element_wise(ids, pc.fill_null(phases, ""), _NUL))

    def _read(self, column: Column) -> Points | None:
        return column.how.points(column.operand, self.table)

    def _check_ids(self) -> None:
        for name in ("id", "source"):
            lengths = pc.utf8_length(self.arrays[name])
            least, most = pc.min_max(lengths).as_py().values()
            if least == 0:
                raise PublicationError(f"a non-empty string as the {name}", "''", f"row {pc.index(lengths, 0).as_py()}")
            if most is not None and most > NAME_LENGTH:
                at = f"row {pc.index(lengths, most).as_py()}"
                raise PublicationError(f"at most {NAME_LENGTH} characters as the {name}", f"{most}", at)
        keys = self.keys()
        if "phase" in self.arrays:
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
            bad = pc.fill_null(pc.less(self.arrays["end"], self.arrays["start"]), False)
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
        value = array[self._i].as_py()
        return (value["lon"], value["lat"]) if isinstance(value, dict) else value


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_NUL = pa.scalar("\0", pa.large_string())
_INSTANTS = pa.timestamp("us", "UTC")
#: What a reserved column without a single value is read as.
_EMPTY = {"text": pa.string(), "time": _INSTANTS, "point": pa.struct([("lon", pa.float64()), ("lat", pa.float64())])}


def _instants(array: pa.Array, at: str) -> pa.Array:
    """Timestamps of any unit and zone as microseconds in UTC, floored; within the years that have a name."""
    if array.type.tz is None:
        raise PublicationError("timestamps with a time zone", "timestamps without one", at)
    try:
        pc.assume_timezone(pa.array([datetime(2026, 1, 1)], pa.timestamp("us")), array.type.tz)
    except pa.ArrowInvalid:
        raise PublicationError("a time zone that exists", shown(array.type.tz), at) from None
    array = array.cast(pa.timestamp(array.type.unit, "UTC"))  # floored in its own zone, 2:30 in October is ambiguous
    if array.type.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond")
    return _within_years(array, _INSTANTS, at)


def _within_years(array: pa.Array, kind: pa.DataType, at: str) -> pa.Array:
    """Cast instants or days, which must lie within the years 0001 to 9999."""
    try:
        array = array.cast(kind)
        least, most = pc.min_max(array).as_py().values()  # OverflowError, a ValueError or worse for other years
        assert least is None or least <= most
    except (pa.ArrowInvalid, OverflowError, ValueError):
        raise PublicationError("times within the years 0001 to 9999", "others", at) from None
    return array


_EXPECTED = "numbers, strings, truth values, timestamps with a time zone, dates, points (struct lon, lat) or lists"


def _checked(name: str, array: pa.Array, at: str = "") -> pa.Array:
    """The column as readings know it, or an error that names it."""
    at = at or f"column {shown(name)}"
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    kind = array.type
    reserved = RESERVED.get(name)
    if name == "event":
        raise PublicationError("columns start and end", "a column event, which is a reserved name")
    if pa.types.is_null(kind):
        return pa.nulls(len(array), _EMPTY[reserved]) if reserved else array
    if reserved == "text" and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise PublicationError(f"strings as {name}", f"{kind}", at)
    if reserved == "time" and not pa.types.is_timestamp(kind):
        raise PublicationError(f"timestamps with a time zone as {name}", f"{kind}", at)
    if reserved == "point" and not pa.types.is_struct(kind):
        raise PublicationError(f"points (struct lon, lat) as {name}", f"{kind}", at)
    if pa.types.is_timestamp(kind):
        return _instants(array, at)
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        array, kind = array.cast(pa.float64()), pa.float64()
    if pa.types.is_floating(kind):
        _all_finite(array, at)
        return array
    if pa.types.is_struct(kind):
        return _points(array, at)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array, at)
    if not _is_plain(kind):
        raise PublicationError(_EXPECTED, f"{kind}", at)
    if pa.types.is_date(kind):
        return _within_years(array, pa.date32(), at)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        _check_texts(array, at)
    return array


def _lists(array: pa.Array, at: str) -> pa.Array:
    """Lists of members that a single value could be, none of them null."""
    kind, members = array.type.value_type, array.flatten()
    lengths = pc.list_value_length(array)
    if members.null_count:
        raise PublicationError("lists without nulls", "a null in one", at)
    if (longest := pc.max(lengths).as_py() or 0) > LIST_LENGTH:
        raise PublicationError(f"lists of at most {LIST_LENGTH} members", f"{longest}", at)
    if pa.types.is_nested(kind):
        raise PublicationError(_EXPECTED, f"{array.type}", at)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(np.asarray(lengths.fill_null(0)), out=offsets[1:])
    if pa.types.is_floating(kind) and not (finite := np.isfinite(np.asarray(members))).all():
        bad = int(np.argmin(finite))
        row = int(np.searchsorted(offsets, bad, "right")) - 1
        raise PublicationError("lists of finite numbers", f"{members[bad].as_py()}", f"{at}, row {row}")
    members = _checked("", members, at)
    return pa.LargeListArray.from_arrays(pa.array(offsets), members, mask=array.is_null())


def _check_texts(array: pa.Array, at: str) -> None:
    longest = pc.max(pc.utf8_length(array)).as_py() or 0
    if longest > TEXT_LENGTH:
        raise PublicationError(f"text of at most {TEXT_LENGTH} characters", f"{longest} characters", at)
    try:
        array.validate(full=True)  # a file may call any bytes a string
    except pa.ArrowInvalid:
        raise PublicationError("Unicode text", "bytes that are no UTF-8", at) from None


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
    kinds = [field.type for field in array.type if field.name in ("lon", "lat")]
    if len(kinds) != 2 or not all(
        pa.types.is_integer(k) or pa.types.is_floating(k) or pa.types.is_null(k) for k in kinds
    ):
        raise PublicationError("points (struct lon, lat) of numbers", f"{array.type}", at)
    lon, lat = (pc.struct_field(array, part).cast(pa.float64()) for part in ("lon", "lat"))
    for part, bound in ((lon, 180.0), (lat, 90.0)):
        good = pc.and_(pc.is_valid(part), pc.fill_null(pc.less_equal(pc.abs(part), bound), False))
        bad = pc.and_(array.is_valid(), pc.invert(good))
        if pc.any(bad).as_py():
            row = pc.index(bad, True).as_py()
            wanted = "lon in [-180, 180] and lat in [-90, 90]"
            raise PublicationError(wanted, shown(array[row].as_py()), f"{at}, row {row}")
    return pa.StructArray.from_arrays([lon, lat], ["lon", "lat"], mask=array.is_null())
