"""Many JSON objects to columns of fields and attributes, for ``attribute_expansion`` and ``stored_bodies``.

A row that may not be a publication is marked in the mask ``odd``; the caller then checks it by itself. Makes no
``Publication`` and gives no reason for what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.model import LOCATION_PARTS, RESERVED
from tidegate.records.json_column import ALIKE, attribute, field
from tidegate.records.tables import SPARSEST, Part, Rows, beside
from tidegate.time_zones import TimeZone

__all__ = ["Mask", "fields", "flatten", "tables"]

Mask = NDArray[np.bool_]

#: How often rows are set aside for another table because a value is of another kind than most values of its name; the
#: rows that are left then count as odd.
KINDS = 8

_FIELDS = tuple(name for name in RESERVED if name != "event")
_REQUIRED = ("id", "source", "time")
_NO_ATTRIBUTES = frozenset({"", *RESERVED, *LOCATION_PARTS})


def flatten(records: list[dict[str, Any]], odd: Mask) -> None:
    """Move attributes from under ``attributes`` to beside the fields; a row that has a name in both places is odd."""
    for i, record in enumerate(records):
        nested = record.pop("attributes", None)
        if nested is None:
            continue
        if type(nested) is dict and _NO_ATTRIBUTES.isdisjoint(nested) and record.keys().isdisjoint(nested):
            record.update(nested)
        else:
            odd[i] = True


def fields(records: list[dict[str, Any]], names: Collection[str], odd: Mask, zone: TimeZone | None = None) -> pa.Table:
    """The columns of the reserved names that some record has, and of those that all must have.

    Times without an offset from UTC are in ``zone``.
    """
    columns: dict[str, pa.Array] = {}
    for name in _FIELDS:
        if name not in names and name not in _REQUIRED:
            continue
        columns[name], rows = field(name, _values(records, name), zone)
        odd[rows] = True
        if name in _REQUIRED and columns[name].null_count:
            odd |= np.asarray(columns[name].is_null())
    if "start" in columns and "end" in columns:
        odd |= np.asarray(pc.less(columns["end"], columns["start"]).fill_null(False))
    return pa.table(columns)


def _values(records: list[dict[str, Any]], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), records))
    except KeyError:
        return [record.get(name) for record in records]


def tables(
    rows: Rows,
    records: list[dict[str, Any]],
    names: Collection[str],
    others: pa.Table,
    wanted: Collection[str] | None,
    odd: Mask,
) -> Iterator[Part]:
    """Tables of the rows that are not odd: the columns ``others`` and the wanted attributes. May mark more rows odd."""
    for name in ("", "event", *LOCATION_PARTS):
        if name in names:
            odd |= np.fromiter((record.get(name) is not None for record in records), np.bool_, len(records))
    chosen = [name for name in names if name and name not in RESERVED and (wanted is None or name in wanted)]
    known = {*chosen, *RESERVED}
    if not known.issuperset(names):
        _look_at_others(records, known, odd)
    waiting = np.arange(len(records))
    for _ in range(KINDS):
        left = np.zeros(len(records), np.bool_)
        for some, present in _dense(records, waiting, chosen):
            picked = records if len(some) == len(records) else [records[i] for i in some.tolist()]
            columns: dict[str, pa.Array] = {}
            for name in present:
                found = attribute(_values(picked, name))
                odd[some[found.odd]] = True
                left[some[found.other]] = True
                if found.array is not None:
                    columns[name] = found.array
            part = beside(others if picked is records else others.take(pa.array(some)), columns)
            good = ~(odd[some] | left[some])
            if good.all() and len(good):
                yield rows[some], part
            elif good.any():
                yield rows[some[good]], part.filter(pa.array(good))
        waiting = np.flatnonzero(left & ~odd)
        if not len(waiting):
            return
    odd[waiting] = True


def _look_at_others(records: list[dict[str, Any]], known: Collection[str], odd: Mask) -> None:
    """Mark as odd the rows with a list or object, under a name that is not ``known``, that is not surely a value."""
    kinds = set(map(type, chain.from_iterable(map(dict.values, records))))
    if kinds.isdisjoint((list, dict)):
        return
    objects: list[dict[str, Any]] = []
    owners: list[int] = []
    for i, record in enumerate(records):
        for name, value in record.items():
            if type(value) is dict and name not in known:
                objects.append(value)
                owners.append(i)
            elif type(value) is list and name not in known:
                members = set(map(type, value))
                odd[i] |= not any(members <= alike for alike in ALIKE)
    _, wrong, other = attribute(objects)
    odd[[owners[i] for i in wrong + other]] = True


def _dense(records: list[dict[str, Any]], waiting: Rows, names: list[str]) -> Iterator[tuple[Rows, list[str]]]:
    """Cut the waiting records into groups, each with its names, so that no table of a group is too sparse."""
    if len(names) <= SPARSEST or len(names) * len(waiting) <= SPARSEST * sum(len(records[i]) for i in waiting.tolist()):
        yield waiting, names
        return
    shapes: dict[tuple[str, ...], int] = {}
    numbers = [shapes.setdefault(tuple(records[i]), len(shapes)) for i in waiting.tolist()]
    chosen, piles = set(names), [waiting[np.argsort(numbers, kind="stable")]]
    while piles:
        some = piles.pop()
        present = dict.fromkeys(name for i in some.tolist() for name in records[i] if name in chosen)
        if len(present) * len(some) <= SPARSEST * sum(len(records[i]) for i in some.tolist()):
            yield np.sort(some), list(present)
        else:
            piles += np.array_split(some, 2)
