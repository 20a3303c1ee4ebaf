"""Publications of any form as the bodies of requests, each of bounded length, made one by one as they are wanted.

Each publication without an id gets one here, so that a request that is repeated brings the same publications: a broker
takes each once. Objects and dicts go as JSON Lines, tables of Arrow, pandas and polars as Arrow streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard
from uuid import uuid4

import orjson
import pyarrow as pa

from tidegate.client.publication_json import json_record
from tidegate.errors import PublicationError, shown
from tidegate.model import Publication

__all__ = ["ARROW", "LINES", "Batch", "Given", "GivenAsync", "Tabular", "batches", "batches_of_async"]

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
#: Publications and bytes of one body at most; a publication that is larger goes alone.
_ROWS, _TABLE_ROWS, _BYTES = 1_000, 8_192, 1 << 20
_EXPECTED = "a publication, a dict, an iterable of these, or a table of Arrow, pandas or polars"


class Tabular(Protocol):
    """A table of Arrow, pandas, polars or another library that has Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


One: TypeAlias = Publication | Mapping[str, Any]
#: Publications in any form that a client takes.
Given: TypeAlias = One | Iterable[One] | Tabular
GivenAsync: TypeAlias = Given | AsyncIterable[One]


@dataclass(frozen=True, slots=True)
class Batch:
    """The body of one request: ``count`` publications from number ``first`` on, and the ids that were made for them."""

    first: int
    count: int
    body: bytes
    media_type: str
    ids: dict[int, str]


def _made_id() -> str:
    return uuid4().hex


def batches(given: Given, made_id: Callable[[], str] = _made_id) -> Iterator[Batch]:
    """The bodies of what is given."""
    if isinstance(given, Publication | Mapping):
        given = [given]
    if _is_table(given):
        yield from _tables(given, made_id)
        return
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise PublicationError(_EXPECTED, shown(given))
    lines = _Lines(made_id)
    for one in given:
        yield from lines.add(one)
    yield from lines.rest()


async def batches_of_async(given: GivenAsync, made_id: Callable[[], str] = _made_id) -> AsyncIterator[Batch]:
    """The bodies of what is given, or comes asynchronously."""
    if not isinstance(given, AsyncIterable):
        for batch in batches(given, made_id):
            yield batch
        return
    lines = _Lines(made_id)
    async for one in given:
        for batch in lines.add(one):
            yield batch
    for batch in lines.rest():
        yield batch


class _Lines:
    """JSON Lines that become a body when there are enough."""

    def __init__(self, made_id: Callable[[], str]) -> None:
        self._made_id = made_id
        self._first, self._count, self._size = 0, 0, 0
        self._lines, self._ids = list[bytes](), dict[int, str]()

    def add(self, one: One) -> list[Batch]:
        """Add one; the body that is full before it, if one is."""
        number = self._first + self._count
        record = json_record(one, f"publication {number}")
        made = None
        if record.get("id") is None:
            record["id"] = made = self._made_id()
        try:
            line = orjson.dumps(record)
        except (TypeError, ValueError) as wrong:
            raise PublicationError("values that JSON has", str(wrong), f"publication {number}") from None
        full = self._count == _ROWS or (self._count and self._size + len(line) > _BYTES)
        done = self.rest() if full else []
        if made is not None:
            self._ids[number] = made
        self._lines.append(line)
        self._count, self._size = self._count + 1, self._size + len(line) + 1
        return done

    def rest(self) -> list[Batch]:
        """What is left, as a body."""
        if not self._count:
            return []
        batch = Batch(self._first, self._count, b"\n".join(self._lines), LINES, self._ids)
        self._first, self._count, self._size = self._first + self._count, 0, 0
        self._lines, self._ids = [], {}
        return [batch]


def _is_table(given: object) -> TypeGuard[Tabular]:
    return hasattr(given, "__arrow_c_stream__")


def _tables(given: Tabular, made_id: Callable[[], str]) -> Iterator[Batch]:
    first = 0
    for part in _parts(given):
        for start in range(0, part.num_rows, _TABLE_ROWS):
            for rows in _halves(part.slice(start, _TABLE_ROWS)):
                table, ids = _with_ids(_plain_texts(pa.Table.from_batches([rows])), first, made_id)
                yield Batch(first, rows.num_rows, _stream(table), ARROW, ids)
                first += rows.num_rows


def _parts(given: Tabular) -> Iterator[pa.RecordBatch]:
    try:
        yield from pa.RecordBatchReader.from_stream(given)
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        said = next(iter(str(wrong).splitlines()), "nothing")
        raise PublicationError(_EXPECTED, f"a {type(given).__name__}, of which Arrow says: {said}") from None


def _halves(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts that are small enough."""
    if rows.num_rows <= 1 or rows.nbytes <= _BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _halves(rows.slice(0, half))
    yield from _halves(rows.slice(half))


def _with_ids(table: pa.Table, first: int, made_id: Callable[[], str]) -> tuple[pa.Table, dict[int, str]]:
    """The table with an id in each row, and those that were made, by the number of the publication."""
    place = table.schema.get_field_index("id")
    known = table.column(place).to_pylist() if place >= 0 else [None] * table.num_rows
    missing = [row for row, id in enumerate(known) if id is None]
    if not missing:
        return table, {}
    made = {row: made_id() for row in missing}
    column = pa.array([made.get(row, id) for row, id in enumerate(known)], pa.string())
    table = table.append_column("id", column) if place < 0 else table.set_column(place, "id", column)
    return table, {first + row: id for row, id in made.items()}


def _plain_texts(table: pa.Table) -> pa.Table:
    """The table with texts as every reader of Arrow knows them; polars has views."""
    for place, (name, kind) in enumerate(zip(table.schema.names, table.schema.types, strict=True)):
        if pa.types.is_string_view(kind):
            table = table.set_column(place, name, table.column(place).cast(pa.string()))
        elif pa.types.is_large_list(kind) and pa.types.is_string_view(kind.value_type):
            table = table.set_column(place, name, table.column(place).cast(pa.large_list(pa.string())))
    return table


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body
