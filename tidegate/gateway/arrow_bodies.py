"""Arrow streams as items: each row an object, as JSON would have it.

What a stream may hold is bounded before it becomes objects, since a few bytes of Arrow can stand for any number of
values: it is not compressed, has no type whose rows share their bytes, and not too many values. Columns of a type that
no publication can have refuse the body; a row with a wrong value refuses itself, later.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import shown
from tidegate.gateway.item_sizes import row_size, without_large
from tidegate.gateway.problems import RequestError
from tidegate.records.json_values import instants
from tidegate.runs.serve_section import ServeSection

__all__ = ["ARROW", "arrow_items"]

ARROW = "application/vnd.apache.arrow.stream"
#: Values per publication that there may be, on average, and characters of all that stand in dictionaries.
_VALUES, _MOST_TEXT = 50, 64 << 20
#: Rows that become objects at a time.
_AT_A_TIME = 500
_CODE = "arrow"


def arrow_items(body: bytes, limits: ServeSection) -> list[Any]:
    """The rows of a stream, but for those that are too large."""
    try:
        _expect_uncompressed(body)
        with pa.ipc.open_stream(body) as stream:
            _expect_types(stream.schema)
            rows = list(_rows(stream, limits.max_publications))
    except (pa.ArrowException, OSError, struct.error) as wrong:
        got = next(iter(str(wrong).splitlines()), type(wrong).__name__)
        raise RequestError(400, _CODE, "an Arrow stream", got) from None
    return without_large(rows, list(map(row_size, rows)), limits.max_publication)


def _rows(stream: pa.RecordBatchStreamReader, most: int) -> Iterator[dict[str, Any]]:
    rows = values = characters = 0
    for batch in stream:
        batch.validate(full=True)
        rows += batch.num_rows
        values += sum(_count(array) for array in batch.columns)
        characters += sum(_characters(array) for array in batch.columns)
        if rows > most:
            raise RequestError(413, "too_large", f"at most {most:,} publications at once", "more")
        if values > _VALUES * most or characters > _MOST_TEXT:
            raise RequestError(413, "too_large", f"at most {_VALUES * most:,} values", "more")
        plain = _plain(batch)
        for begin in range(0, plain.num_rows, _AT_A_TIME):  # no other thread runs while Arrow makes objects
            yield from plain.slice(begin, _AT_A_TIME).to_pylist()


def _count(array: pa.Array) -> int:
    """How many values there are at most."""
    if pa.types.is_struct(array.type):
        return len(array) + sum(map(_count, array.flatten()))
    return len(array) + (len(array.flatten()) if _is_list(array.type) else 0)


def _characters(array: pa.Array) -> int:
    """Bytes of the texts of a dictionary, each as often as it stands in a row."""
    if not pa.types.is_dictionary(array.type):
        return 0
    return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with times in microseconds, which Python has, and with texts in place of dictionaries."""
    arrays = [_with_plain_times(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _with_plain_times(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return array.cast(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return instants(array)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pc.floor_temporal(array, unit="microsecond").cast(pa.timestamp("us"))
    return array


# --- what a stream may hold -------------------------------------------------------------------------------------------


def _expect_types(schema: pa.Schema) -> None:
    for field in schema:
        if not _is_taken(field.type):
            at = f"column {shown(field.name)}"
            raise RequestError(422, _CODE, "columns of values that publications have", shown(str(field.type)), at)
    if len(set(schema.names)) < len(schema.names):
        raise RequestError(422, _CODE, "columns with names of their own", "two of one name")


def _is_taken(kind: pa.DataType, depth: int = 0) -> bool:
    if pa.types.is_struct(kind):
        return depth < 16 and all(_is_taken(field.type, depth + 1) for field in kind)
    if _is_list(kind):
        return _is_value(kind.value_type)
    if pa.types.is_dictionary(kind):
        return depth == 0 and _is_text(kind.value_type)
    return _is_value(kind) or (depth == 0 and pa.types.is_timestamp(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_value(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    is_time = (pa.types.is_timestamp(kind) and kind.unit != "ns") or pa.types.is_date(kind)
    return bool(is_number or is_time or pa.types.is_boolean(kind) or _is_text(kind))


# --- compression ------------------------------------------------------------------------------------------------------

_DICTIONARY, _BATCH = 2, 3


def _expect_uncompressed(body: bytes) -> None:
    """Refuse a stream with compressed buffers: how large they become is known only when it is too late."""
    for message in pa.ipc.MessageReader.open_stream(body):
        facts = memoryview(message.metadata)
        header = _table(facts, 0)
        kind, batch = _member(facts, header, 1), _member(facts, header, 2)
        if not kind or not batch or facts[kind] not in (_DICTIONARY, _BATCH):
            continue
        table = _table(facts, batch)
        if facts[kind] == _DICTIONARY:
            table = _table(facts, _member(facts, table, 1))
        if _member(facts, table, 3):
            raise RequestError(415, "encoding", "a stream that is not compressed within", "a compressed one")


def _table(facts: memoryview, at: int) -> int:
    """Where the table is that an offset of a FlatBuffer points to."""
    return at + int(struct.unpack_from("<I", facts, at)[0])


def _member(facts: memoryview, table: int, number: int) -> int:
    """Where a member of a table is; 0 if the table has none."""
    names = table - struct.unpack_from("<i", facts, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", facts, names)[0]:
        return 0
    offset: int = struct.unpack_from("<H", facts, names + place)[0]
    return table + offset if offset else 0
