"""Many JSON texts to Arrow tables, without an object for each publication, and a fault for each text that is none.

``expand`` is for texts that are whole publications, ``expand_attributes`` for a column of attributes. Columns are made
at once for all rows that are surely good. The other rows, here called odd, go one by one through ``record`` and the
model, which alone define what a publication is; those that are good after all come in tables of their own. Every
attribute is checked, wanted or not: whether a row is a publication must not depend on the subscriptions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np
import orjson
import pyarrow as pa

from tidegate.errors import PublicationError, shown
from tidegate.model import LOCATION_PARTS, NAME_LENGTH, RESERVED, TEXT_LENGTH, Publication
from tidegate.records.columns import Mask, fields, flatten, tables
from tidegate.records.record import publication
from tidegate.records.tables import Kinds, Part, Rows, apart, beside, kinds_of, merged
from tidegate.rejected_row import RejectedRow
from tidegate.time_zones import TimeZone

__all__ = ["expand", "expand_attributes"]

Text = str | bytes | None
Record = dict[str, Any]

#: Texts that are read together, so that the objects they hold take little memory however many texts there are.
MOST_TEXTS = 4096
#: Texts that are so few that an object for each takes less time than Arrow takes for columns, however short.
FEW = 6
#: Bytes of texts whose tables are put together: less than what an Arrow column of texts holds.
MOST_BYTES = 1 << 30

_TEXTUAL = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)


def expand(
    texts: Sequence[Text], wanted: Collection[str] | None, zone: TimeZone | None = None
) -> tuple[list[Part], list[RejectedRow]]:
    """JSON objects, a publication each, as tables of the reserved names and the wanted attributes (None: all).

    Times without an offset from UTC are in ``zone``.

    There are several tables where an attribute has values of several kinds. A list whose members are of several kinds
    is the one thing that a publication can have and no table can, and therefore a fault.
    """
    return _expanded(texts, wanted, _Publications(zone))


def expand_attributes(
    given: pa.Table, column: str, wanted: Collection[str] | None, zone: TimeZone | None = None
) -> tuple[list[Part], list[RejectedRow]]:
    """A table with the attributes as JSON objects in one column, as tables with a column for each wanted (None: all).

    The other columns stay as they are, unchecked. Null stands for no attributes. A name in the JSON that is reserved
    or that another column has is a fault of the row, even where both say the same: a row says a thing once.
    """
    return _expanded(_texts(given, column), wanted, _Attributes(given.drop_columns([column]), zone))


class _Form(Protocol):
    """What the JSON texts hold: ``_Publications`` or ``_Attributes``."""

    is_whole: bool
    """Whether attributes may stand beside fields."""

    def others(self, rows: Rows, records: list[Record], names: Collection[str], odd: Mask) -> pa.Table:
        """The columns beside the attributes; sets ``odd`` for rows that need a look of their own."""

    def publication(self, row: int, record: Record) -> Publication:
        """The publication of one record, or a ``PublicationError``."""

    def complete(self, rows: Rows, found: pa.Table) -> pa.Table:
        """The table of publications that were made one by one, with the columns that ``others`` would have given."""


class _Publications:
    """Whole publications."""

    is_whole = True

    def __init__(self, zone: TimeZone | None) -> None:
        self.zone = zone

    def others(self, rows: Rows, records: list[Record], names: Collection[str], odd: Mask) -> pa.Table:
        return fields(records, names, odd, self.zone)

    def publication(self, row: int, record: Record) -> Publication:
        return publication(record, "", self.zone)

    def complete(self, rows: Rows, found: pa.Table) -> pa.Table:
        return found


class _Attributes:
    """The attributes of publications whose other columns are there."""

    is_whole = False

    def __init__(self, rest: pa.Table, zone: TimeZone | None) -> None:
        self.rest, self.zone = rest, zone
        self.taken = {"", *RESERVED, *LOCATION_PARTS, *rest.column_names}

    def others(self, rows: Rows, records: list[Record], names: Collection[str], odd: Mask) -> pa.Table:
        if not self.taken.isdisjoint(names):
            odd |= np.fromiter((not self.taken.isdisjoint(record) for record in records), np.bool_, len(records))
        return self._rows(rows)

    def publication(self, row: int, record: Record) -> Publication:
        for name in self.rest.column_names:
            if name in record and name not in RESERVED:
                raise PublicationError("an attribute that no other column has", shown(name))
        try:
            id = self.rest.column("id")[row].as_py()  # only so that the error can name it
        except (KeyError, UnicodeDecodeError):
            id = None
        named = isinstance(id, str) and 0 < len(id) <= NAME_LENGTH
        fields = {"id": id if named else "?", "source": "?", "time": "1970-01-01T00:00:00Z"}
        return publication({**fields, "attributes": record}, "", self.zone)

    def complete(self, rows: Rows, found: pa.Table) -> pa.Table:
        attributes = {name: found.column(name) for name in found.column_names if name not in RESERVED}
        return beside(self._rows(rows), attributes)

    def _rows(self, rows: Rows) -> pa.Table:
        one_after_the_other = len(rows) and rows[-1] - rows[0] == len(rows) - 1
        return self.rest.slice(rows[0], len(rows)) if one_after_the_other else self.rest.take(pa.array(rows))


def _expanded(
    texts: Sequence[Text], wanted: Collection[str] | None, form: _Form
) -> tuple[list[Part], list[RejectedRow]]:
    parts: list[Part] = []
    faults: list[RejectedRow] = []
    sizes = np.fromiter((0 if text is None else len(text) for text in texts), np.int64, len(texts))
    for first, last in _piles(sizes):
        starts = range(first, last, MOST_TEXTS)
        some = (_tables(texts[i : min(i + MOST_TEXTS, last)], i, sizes, wanted, form, faults) for i in starts)
        parts += merged(chain.from_iterable(some))
    return parts, sorted(faults)


def _piles(sizes: Rows) -> Iterator[tuple[int, int]]:
    """Ranges of rows whose texts are not too large together: the first row, and the one after the last."""
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // MOST_BYTES)) + 1
    return pairwise([0, *ends.tolist(), len(sizes)])


def _tables(
    texts: Sequence[Text],
    first: int,
    sizes: Rows,
    wanted: Collection[str] | None,
    form: _Form,
    faults: list[RejectedRow],
) -> Iterator[Part]:
    rows, records = _objects(texts, first, faults)
    if len(rows) <= FEW:
        yield from _tables_one_by_one(zip(rows.tolist(), records, strict=True), form, wanted, faults)
        return
    odd = sizes[rows] > TEXT_LENGTH  # a value that is too long is in a text that is too long
    names = dict.fromkeys(chain.from_iterable(records))
    if form.is_whole and "attributes" in names:
        flatten(records, odd)
        names = dict.fromkeys(chain.from_iterable(records))
    others = form.others(rows, records, names, odd)
    yield from tables(rows, records, names, others, wanted, odd)
    if odd.any():
        again = ((row, orjson.loads(texts[row - first] or "")) for row in rows[odd].tolist())
        yield from _tables_one_by_one(again, form, wanted, faults)


def _tables_one_by_one(
    records: Iterable[tuple[int, Record]], form: _Form, wanted: Collection[str] | None, faults: list[RejectedRow]
) -> Iterator[Part]:
    for kept, found in apart(_one_by_one(records, form, wanted, faults), wanted):
        yield kept, form.complete(kept, found)


def _one_by_one(
    records: Iterable[tuple[int, Record]], form: _Form, wanted: Collection[str] | None, faults: list[RejectedRow]
) -> Iterator[tuple[int, Publication, Kinds]]:
    for row, record in records:
        try:
            found = form.publication(row, record)
            kinds = kinds_of(found, wanted)
        except PublicationError as error:
            error.at = f"{error.at}, row {row}" if error.at else f"row {row}"
            faults.append(RejectedRow(row, str(error)))
        else:
            yield row, found, kinds


def _texts(given: pa.Table, column: str) -> list[bytes]:
    """The bytes of a column of strings, even if they are no UTF-8; an empty object for null."""
    if given.column_names.count(column) != 1:
        raise PublicationError(f"one column {column}", f"columns {', '.join(given.column_names) or 'none'}")
    texts = given.column(column)
    kind = texts.type.value_type if pa.types.is_dictionary(texts.type) else texts.type
    if not any(is_kind(kind) for is_kind in _TEXTUAL):
        raise PublicationError("JSON objects as strings", f"{kind}", f"column {shown(column)}")
    found = texts.cast(kind).cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
    return [b"{}" if text is None else text for text in found]


def _objects(texts: Sequence[Text], first: int, faults: list[RejectedRow]) -> tuple[Rows, list[Record]]:
    """The rows whose texts are JSON objects, and these objects; the others become faults."""
    try:
        records = list(map(orjson.loads, texts))  # type: ignore[arg-type]  # None is no JSON
    except orjson.JSONDecodeError:
        pass
    else:
        if set(map(type, records)) == {dict}:
            return np.arange(first, first + len(texts)), records
    rows: list[int] = []
    records = []
    for row, text in enumerate(texts, first):
        try:
            record = orjson.loads(text)  # type: ignore[arg-type]
        except orjson.JSONDecodeError as wrong:
            got = "null" if text is None else f"{_told(text)}, where {wrong.msg}"
        else:
            if type(record) is dict:
                rows.append(row)
                records.append(record)
                continue
            got = shown(record)
        faults.append(RejectedRow(row, str(PublicationError("a JSON object", got, f"row {row}"))))
    return np.array(rows, np.int64), records


def _told(text: str | bytes) -> str:
    return shown(text if isinstance(text, str) else bytes(text[:400]).decode(errors="replace"))
