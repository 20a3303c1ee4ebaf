"""Texts of ISO 8601 as an Arrow column of instants: the one way in which tables, CSV and JSON read times.

It takes and refuses what ``model.zoned`` does, for all texts at once: by Arrow where that reads them as ``instant``
does, else one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.errors import ParseError
from tidegate.instant import instant, is_local, iso
from tidegate.time_zones import TimeZone

__all__ = ["INSTANT", "read_timestamps"]

INSTANT = pa.timestamp("us", "UTC")

#: The timestamps that Arrow reads as the language does, years apart.
_STAMP = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})\z"
_FIRST, _LAST = (pa.scalar(instant(text)[0], INSTANT) for text in ("0001-01-01", "9999-12-31"))

#: What is replaced, one after the other, so that more texts are such timestamps.
_TIDIED = (
    (r"\A([0-9-]{10})[Tt ]([0-9]{2}:[0-9]{2})", r"\1T\2"),
    (r"\A(.{16})(Z|z|[+-].*)?\z", r"\1:00\2"),
    (r"(\.[0-9]{6})[0-9]+", r"\1"),
    (r"(:.*[+-][0-9]{2})([0-9]{2})\z", r"\1:\2"),
    (r"(:.*:.*[+-][0-9]{2})\z", r"\1:00"),
)
_LOCAL = r"\A.{10}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"


def read_timestamps(texts: pa.Array, zone: TimeZone | None = None) -> tuple[pa.Array, NDArray[np.intp]]:
    """The instants, and the rows whose text is none, null there. A text without an offset from UTC is in ``zone``."""
    local = None
    given = texts.cast(pa.string())
    texts, shaped = given, pc.match_substring_regex(given, _STAMP)
    if not pc.all(shaped).as_py():
        for pattern, better in _TIDIED:
            texts = pc.replace_substring_regex(texts, pattern, better)
        if zone is not None:
            local = pc.match_substring_regex(texts, _LOCAL).fill_null(False)
            texts = pc.if_else(local, pc.binary_join_element_wise(texts, "Z", ""), texts)
        shaped = pc.match_substring_regex(texts, _STAMP)
    found = _as_arrow_reads(texts if pc.all(shaped).as_py() else pc.if_else(shaped, texts, None))
    good = pc.and_(pc.greater_equal(found, _FIRST), pc.less(found, _LAST)).fill_null(False)
    found, wrong = _one_by_one(found, given, zone, np.flatnonzero(~np.asarray(pc.or_(good, given.is_null()))))
    if local is None or zone is None or not pc.any(local).as_py():
        return found, wrong
    placed, never = zone.instants(pc.if_else(local, found, None).cast(pa.timestamp("us")))
    return pc.if_else(local, placed.cast(INSTANT), found), np.union1d(wrong, never)


def _one_by_one(
    found: pa.Array, texts: pa.Array, zone: TimeZone | None, again: NDArray[np.intp]
) -> tuple[pa.Array, NDArray[np.intp]]:
    """The column with the texts read that Arrow may read otherwise; local ones as if they were in UTC."""
    if not len(again):
        return found, again
    micros = found.cast(pa.int64()).to_pylist()
    for i in again.tolist():
        micros[i] = _micros(texts[i].as_py(), zone)
    wrong = [i for i in again.tolist() if micros[i] is None]
    return pa.array(micros, pa.int64()).cast(INSTANT), np.array(wrong, np.intp)


def _as_arrow_reads(texts: pa.Array) -> pa.Array:
    """Timestamps, null around one that Arrow does not take, such as a 31st of June."""
    try:
        return texts.cast(INSTANT)
    except pa.ArrowInvalid:
        half = len(texts) // 2
        if half < 128:
            return pa.nulls(len(texts), INSTANT)
        return pa.concat_arrays([_as_arrow_reads(texts[:half]), _as_arrow_reads(texts[half:])])


def _micros(text: str, zone: TimeZone | None) -> int | None:
    given = iso(text)
    try:
        micros, is_date = instant(f"{given}Z" if zone is not None and is_local(given) else given)
    except ParseError:
        return None
    return None if is_date else micros
