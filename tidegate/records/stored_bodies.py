"""Publications as a history keeps them: a JSON text each, the body, for what its row has no columns for; and back.

``engine.event_history`` writes bodies with ``of_publications`` and ``of_table``, and restores publications with
``tables``. A body is the JSON that ``record`` reads, with two additions: a gap of a series is ``{"gap": "NaN"}``, and
``false`` as start or end says that the publication had none, where the row has the time that counts instead.
Everything is restored as expressions see it. Knows nothing of databases, nor of what a history means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf, nan
from typing import Any, Protocol

import numpy as np
import orjson
import pyarrow as pa

from tidegate.errors import PublicationError
from tidegate.model import RESERVED, Publication, moment
from tidegate.records.attribute_expansion import MOST_TEXTS
from tidegate.records.columns import Mask
from tidegate.records.columns import tables as columns_of
from tidegate.records.json_column import INSTANT, field
from tidegate.records.json_values import json_value, json_values, listed, stamp, stamps
from tidegate.records.record import publication
from tidegate.records.tables import Kinds, Part, Rows, apart, kinds_of, merged

__all__ = ["HistoryRecord", "listed", "of_publications", "of_table", "publications", "tables"]

Record = dict[str, Any]

#: The phase whose row in the history does not have the publication's own start, or end.
_UNTOLD = {"start": "END", "end": "START"}
#: The fields that are columns of the row, and in the body only if it is ``whole``.
_BESIDE = ("id", "source", "time", "phase", "start", "end")
_OTHERS = ("location", "valid_until")
_GAPS = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
_GAP = '{"gap":'  # within a string of JSON there would be a backslash before each quote


class HistoryRecord(Protocol):
    """A publication in a history. Times are microseconds; start and end are what it counts as where it has none."""

    @property
    def id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def phase(self) -> str | None: ...
    @property
    def time(self) -> int: ...
    @property
    def start(self) -> int | None: ...
    @property
    def end(self) -> int | None: ...
    @property
    def body(self) -> str: ...


# --- to texts -------------------------------------------------------------------------------------------------------


def of_publications(given: Iterable[Publication], *, whole: bool = False) -> list[str]:
    """The body of each publication; with ``whole`` also the fields of the row, for one that has no row of its own."""
    return [_text(_record(p, whole)) for p in given]


def _record(p: Publication, whole: bool) -> Record:
    record: Record = {}
    if whole:
        record = {"id": p.id, "source": p.source, "time": stamp(p.time)}
        if p.phase is not None:
            record["phase"] = p.phase
    for name, when in (("start", p.start), ("end", p.end)):
        if whole or p.phase == _UNTOLD[name]:
            if when is not None:
                record[name] = stamp(when)
        elif when is None:
            record[name] = False
    if p.location is not None:
        record["location"] = p.location
    if p.valid_until is not None:
        record["valid_until"] = stamp(p.valid_until)
    if p.attributes:
        record["attributes"] = {
            name: value if type(value) in _PLAIN else json_value(value) for name, value in p.attributes.items()
        }
    return record


def _text(record: Record) -> str:
    return orjson.dumps(record).decode()


#: Types of single values that need no conversion to JSON.
_PLAIN = frozenset({bool, str, float, int})
_NUMBERS = frozenset({bool, float, int, type(None)})


def of_table(given: pa.Table | Mapping[str, pa.Array], *, whole: bool = False) -> list[str]:
    """The body of each row of a table that an engine has taken; ``of_publications`` gives the same for objects."""
    columns = dict(zip(given.column_names, given.columns, strict=True)) if isinstance(given, pa.Table) else given
    length = len(columns["id"])
    fields: dict[str, list[Any]] = {} if whole else _bounds(columns, length)
    for name in (*_BESIDE, *_OTHERS) if whole else _OTHERS:
        if name in columns:
            fields[name] = json_values(columns[name], is_attribute=False)
    attributes = {name: json_values(column) for name, column in columns.items() if name not in RESERVED}
    members = [_members(name, values) for name, values in fields.items()]
    if attributes:
        inner = map(b"".join, zip(*(_members(name, values) for name, values in attributes.items()), strict=True))
        members.append([some and b',"attributes":{%b}' % some[1:] for some in inner])
    if not members:
        return ["{}"] * length
    return [f"{{{row[1:].decode()}}}" for row in map(b"".join, zip(*members, strict=True))]


def _members(name: str, values: list[Any]) -> list[bytes]:
    """A column as members of JSON objects, each with a comma before it; empty where there is no value."""
    before = b",%b:" % orjson.dumps(name)
    kinds = set(map(type, values))
    if kinds == {bool} and len(set(values)) == 1:
        return [before + orjson.dumps(values[0])] * len(values)
    texts: Iterable[bytes] = map(orjson.dumps, values)
    if values and kinds <= _NUMBERS:  # no commas within, so that all are written at once
        texts = orjson.dumps(values)[1:-1].split(b",")
    return [b"" if text == b"null" else before + text for text in texts]


def _bounds(columns: Mapping[str, pa.ChunkedArray | pa.Array], length: int) -> dict[str, list[Any]]:
    """Start and end as the body needs them: only what the row in the history does not have."""
    phases = listed(columns["phase"]) if "phase" in columns else [None] * length
    bounds: dict[str, list[Any]] = {}
    for name, untold in _UNTOLD.items():
        column = columns.get(name)
        if column is None or column.null_count or untold in phases:
            texts = [None] * length if column is None else stamps(column)
            bounds[name] = [
                text if phase == untold else False if text is None else None
                for text, phase in zip(texts, phases, strict=True)
            ]
    return bounds


# --- from texts -----------------------------------------------------------------------------------------------------


def tables(heard: Sequence[HistoryRecord]) -> list[tuple[Rows, pa.Table | list[Publication]]]:
    """The publications as tables that an engine takes, with the rows of what was given that each holds.

    There are several where an attribute has values of several kinds. What no table can hold, a list whose members are
    of several kinds, comes as objects.
    """
    parts: list[Part] = []
    rest: list[tuple[int, Publication]] = []
    for first in range(0, len(heard), MOST_TEXTS):
        parts += _tables(heard[first : first + MOST_TEXTS], first, rest)
    found: list[tuple[Rows, pa.Table | list[Publication]]] = [*merged(parts)]
    if rest:
        found.append((np.array([row for row, _ in rest], np.int64), [p for _, p in rest]))
    return found


def publications(heard: Iterable[HistoryRecord]) -> list[Publication]:
    """The publications as objects."""
    return [_publication(told) for told in heard]


def _tables(heard: Sequence[HistoryRecord], first: int, rest: list[tuple[int, Publication]]) -> Iterator[Part]:
    records: list[Record] = list(map(orjson.loads, [told.body for told in heard]))
    rows = np.arange(first, first + len(heard))
    odd: Mask = np.zeros(len(heard), np.bool_)
    others = _beside(heard, records)
    attributes: list[Record] = [record.get("attributes", _NONE) for record in records]
    for told, some in zip(heard, attributes, strict=True):
        if _GAP in told.body:
            _restore_gaps(some)
    names = dict.fromkeys(chain.from_iterable(attributes))
    for kept, table in columns_of(rows, attributes, names, others, None, odd):
        yield kept, _with_gaps(table)
    if odd.any():
        again = ((row, _publication(heard[row - first])) for row in rows[odd].tolist())
        yield from apart(_one_by_one(again, rest), None)


def _one_by_one(
    found: Iterable[tuple[int, Publication]], rest: list[tuple[int, Publication]]
) -> Iterator[tuple[int, Publication, Kinds]]:
    for row, one in found:
        try:
            kinds = kinds_of(one, None)
        except PublicationError:
            rest.append((row, one))
        else:
            yield row, one, kinds


def _beside(heard: Sequence[HistoryRecord], records: list[Record]) -> pa.Table:
    """The columns of all fields, from the rows and from the bodies."""
    columns: dict[str, pa.Array] = {
        "id": pa.array([told.id for told in heard], pa.string()),
        "source": pa.array([told.source for told in heard], pa.string()),
        "time": _instants([told.time for told in heard]),
        "start": _bound("start", [told.start for told in heard], records),
        "end": _bound("end", [told.end for told in heard], records),
        "phase": pa.array([told.phase for told in heard], pa.string()),
    }
    columns["location"] = _points([record.get("location") for record in records])
    columns["valid_until"] = field("valid_until", [record.get("valid_until") for record in records])[0]
    return pa.table(columns)


def _points(found: list[list[float] | None]) -> pa.Array:
    lons, lats = (pa.array([None if p is None else p[part] for p in found], pa.float64()) for part in (0, 1))
    return pa.StructArray.from_arrays([lons, lats], ["lon", "lat"], mask=lons.is_null())


def _bound(name: str, beside: list[int | None], records: list[Record]) -> pa.Array:
    noted = [record.get(name) for record in records]
    if texts := [i for i, note in enumerate(noted) if isinstance(note, str)]:
        read = field(name, [noted[i] for i in texts])[0].cast(pa.int64()).to_pylist()
        for i, when in zip(texts, read, strict=True):
            beside[i] = when
    return _instants([None if note is False else when for note, when in zip(noted, beside, strict=True)])


def _instants(micros: list[int | None] | list[int]) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(INSTANT)


def _restore_gaps(attributes: Record) -> None:
    for name, value in attributes.items():
        if type(value) is list:
            attributes[name] = [_GAPS[item["gap"]] if type(item) is dict and "gap" in item else item for item in value]


def _with_gaps(table: pa.Table) -> pa.Table:
    """The table with NaN where its lists of numbers have nulls, which no list of a publication has."""
    for i, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if pa.types.is_list(kind) and pa.types.is_float64(kind.value_type):
            column = table.column(name)
            if any(chunk.values.null_count for chunk in column.chunks):
                filled = [
                    pa.ListArray.from_arrays(
                        chunk.offsets, chunk.values.fill_null(nan), mask=chunk.is_null() if chunk.null_count else None
                    )
                    for chunk in column.chunks
                ]
                table = table.set_column(i, name, pa.chunked_array(filled, kind))
    return table


def _publication(told: HistoryRecord) -> Publication:
    record = orjson.loads(told.body)
    attributes = record.get("attributes", {})
    _restore_gaps(attributes)
    for name, when in (("start", told.start), ("end", told.end)):
        noted = record.get(name)
        if noted is None and when is not None:
            record[name] = moment(when).isoformat()
        elif noted is False:
            del record[name]
    fields = {"id": told.id, "source": told.source, "phase": told.phase, "time": moment(told.time).isoformat()}
    return publication({**record, **fields, "attributes": attributes}, "a history")


_NONE: Record = {}
