"""What the values of a publication may be, column by column: the rules of ``model`` for rows of an Arrow table.

``broken_rules`` finds for each rule all rows that break it. Its callers are in ``index/batch.py``: ``ArrowBatch``
raises an error for the first of them, ``sift`` leaves them all out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.index.columns import is_list, is_text, micros, raw
from tidegate.model import LIST_LENGTH, NAME_LENGTH, PHASES, TEXT_LENGTH, moment

__all__ = ["REQUIRED", "Broken", "broken_rules"]

#: Columns that every row must have a value in.
REQUIRED = ("id", "source", "time")

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
#: Units of a day, by the unit that times are counted in. A 64-bit count of nanoseconds is always within the years.
_A_DAY = {"day": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}

Rows = NDArray[np.intp]


class Broken(NamedTuple):
    """A rule that some rows break: the rows in ascending order, and what is wrong with the i-th of them."""

    rows: Rows
    expected: str
    got: Callable[[int], str]
    at: str = ""

    def error(self, i: int) -> PublicationError:
        """What is wrong with the i-th of the rows."""
        row = f"row {self.rows[i]}"
        return PublicationError(self.expected, self.got(i), f"{self.at}, {row}" if self.at else row)


def broken_rules(arrays: Mapping[str, pa.Array]) -> Iterator[Broken]:
    """The rules that some row of the typed columns breaks, each checked only when the iterator comes to it."""
    for name, array in arrays.items():
        yield from _values(array, f"column {shown(name)}")
    for name in REQUIRED:
        if arrays[name].null_count:
            yield Broken(np.flatnonzero(arrays[name].is_null()), f"a value of {name} in every row", lambda _: "null")
    for name in ("id", "source"):
        yield from _names(name, arrays[name])
    if (phases := arrays.get("phase")) is not None:
        known = pc.is_in(phases, pa.array([*PHASES, None], phases.type))
        expected = f"one of {', '.join(PHASES)} as phase"
        yield from _found(~np.asarray(known), phases, expected, lambda row: shown(phases[row].as_py()))
    if "start" in arrays and "end" in arrays:
        yield from _spans(arrays["start"], arrays["end"])


def _found(
    mask: NDArray[np.bool_], array: pa.Array, expected: str, got: Callable[[int], str], at: str = ""
) -> Iterator[Broken]:
    """The rule as broken in the rows where the mask is set and there is a value; ``got`` describes a row's value."""
    if mask.any():
        rows = np.flatnonzero(mask & np.asarray(array.is_valid()) if array.null_count else mask)
        if len(rows):
            yield Broken(rows, expected, lambda i: got(int(rows[i])), at)


# --- values of any column -------------------------------------------------------------------------------------------


def _values(array: pa.Array, at: str, member: bool = False) -> Iterator[Broken]:
    kind = array.type
    if pa.types.is_floating(kind):
        if not member:  # a list may have gaps
            numbers = raw(array, np.float32 if pa.types.is_float32(kind) else np.float64)
            expected = "finite numbers, null for missing"
            yield from _found(~np.isfinite(numbers), array, expected, lambda row: f"{numbers[row]}", at)
    elif is_text(kind):
        yield from _texts(array, at)
    elif pa.types.is_timestamp(kind):
        yield from _years(array, raw(array, np.int64), kind.unit, at)
    elif pa.types.is_date(kind):
        width, unit = (np.int32, "day") if pa.types.is_date32(kind) else (np.int64, "ms")
        yield from _years(array, raw(array, width), unit, at)
    elif pa.types.is_struct(kind):
        yield from _points(array, at)
    elif is_list(kind):
        yield from _lists(array, at)


def _texts(array: pa.Array, at: str) -> Iterator[Broken]:
    offsets, letters = _letters(array)
    lengths = np.diff(offsets)
    whole = len(array) == 0 or (lengths.min() >= 0 and offsets[0] >= 0 and offsets[-1] <= len(letters))
    if not (whole and _is_ascii(letters[offsets[0] : offsets[-1]])):
        yield from _not_utf8(array, at)
    if len(array) and lengths.max() > TEXT_LENGTH:  # in bytes, so maybe
        characters = np.asarray(pc.utf8_length(array).fill_null(0))
        expected = f"text of at most {TEXT_LENGTH} characters"
        yield from _found(characters > TEXT_LENGTH, array, expected, lambda row: f"{characters[row]} characters", at)


def _letters(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Where each text begins and ends, and the bytes of all; the offsets of an array of no text may be missing."""
    _, offsets, letters = array.buffers()
    kind = np.int32 if pa.types.is_string(array.type) else np.int64
    starts = (
        np.zeros(len(array) + 1, kind)
        if offsets is None or offsets.size == 0
        else np.frombuffer(offsets, kind, len(array) + 1, array.offset * np.dtype(kind).itemsize)
    )
    return starts, np.zeros(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)


def _is_ascii(letters: NDArray[np.uint8]) -> bool:
    return len(letters) == 0 or bool(letters.max() < 128)


def _not_utf8(array: pa.Array, at: str) -> Iterator[Broken]:
    """Texts that are not UTF-8: an Arrow or Parquet file may call any bytes a string."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        is_small = pa.types.is_string(array.type)
        plain = pa.Array.from_buffers(
            pa.binary() if is_small else pa.large_binary(), len(array), array.buffers(), offset=array.offset
        )
        try:
            plain.validate(full=True)
        except pa.ArrowInvalid:
            raise PublicationError("texts that lie within the column's bytes", "offsets beyond them", at) from None
        mask = np.fromiter((not _is_utf8(text) for text in plain.to_pylist()), np.bool_, len(plain))
        yield from _found(mask, array, "Unicode text", lambda _: "bytes that are no UTF-8", at)


def _is_utf8(text: bytes | None) -> bool:
    try:
        _ = text is None or text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _years(array: pa.Array, counts: NDArray[Any], unit: str, at: str) -> Iterator[Broken]:
    day = _A_DAY.get(unit)
    if day is not None and len(counts):
        first, last = _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1
        if counts.min() < first or counts.max() > last:
            expected = "times within the years 0001 to 9999"
            mask = (counts < first) | (counts > last)
            yield from _found(mask, array, expected, lambda row: f"{counts[row]} {unit} since 1970", at)


def _points(array: pa.Array, at: str) -> Iterator[Broken]:
    lon, lat = (
        pc.struct_field(array, part).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        for part in ("lon", "lat")
    )  # nulls become NaN, which is within no bounds
    mask = ~((np.abs(lon) <= 180) & (np.abs(lat) <= 90))
    expected = "lon in [-180, 180] and lat in [-90, 90]"
    yield from _found(mask, array, expected, lambda row: shown(array[row].as_py()), at)


def _lists(array: pa.Array, at: str) -> Iterator[Broken]:
    offsets = np.asarray(array.offsets)
    members = array.values

    def rows_of(bad: Rows) -> tuple[Rows, Rows]:
        return np.unique(np.searchsorted(offsets, bad, "right") - 1, return_index=True)

    if members.null_count:
        rows, _ = rows_of(np.flatnonzero(members.is_null()))
        yield Broken(rows, "lists without nulls", lambda _: "a null in one", at)
    lengths = np.diff(offsets)
    expected = f"lists of at most {LIST_LENGTH} members"
    yield from _found(lengths > LIST_LENGTH, array, expected, lambda row: f"{lengths[row]}", at)
    for rule in _values(members, at, member=True):
        rows, first = rows_of(rule.rows)
        yield Broken(rows, rule.expected, partial(_of_member, rule, first), at)


def _of_member(rule: Broken, first: Rows, i: int) -> str:
    return rule.got(int(first[i]))


# --- values of reserved columns -------------------------------------------------------------------------------------


def _names(name: str, array: pa.Array) -> Iterator[Broken]:
    lengths = np.diff(_letters(array)[0])
    yield from _found(lengths == 0, array, f"a non-empty string as the {name}", lambda _: "''")
    if len(lengths) and lengths.max() > NAME_LENGTH:  # in bytes, so maybe
        characters = np.asarray(pc.utf8_length(array).fill_null(0))
        expected = f"at most {NAME_LENGTH} characters as the {name}"
        yield from _found(characters > NAME_LENGTH, array, expected, lambda row: f"{characters[row]}")


def _spans(start: pa.Array, end: pa.Array) -> Iterator[Broken]:
    starts, ends = micros(start), micros(end)
    mask = ends < starts
    if mask.any() and start.null_count:
        mask &= np.asarray(start.is_valid())
    expected = "an end that is not before the start"
    yield from _found(mask, end, expected, lambda row: f"end {moment(int(ends[row])).isoformat()}")
