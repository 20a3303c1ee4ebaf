"""The catalogue: which subscription each owner of an index is. Number → subscription, and id → number.

Subscriptions that came with a snapshot stay in its memory-mapped Arrow table; those added since are in lists, and their
long expressions in an ``OverflowFile``. An engine and a ``View`` keep a ``Catalogue`` beside an ``Index``; neither of
the two knows the other.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import SnapshotError, SubscriptionError, UnknownSubscription, shown
from tidegate.index.batch import text_buffers
from tidegate.index.overflow_file import OverflowFile
from tidegate.kernels.identity import text_hashes
from tidegate.language import from_json, to_json
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Subscription

__all__ = ["IDS_OF_DICTIONARY", "SCHEMA", "Catalogue", "restored", "stored", "told_of"]

_INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("subscriber", pa.large_string()),
        ("where", pa.large_string()),
        ("active_from", _INSTANT),
        ("active_until", _INSTANT),
    ]
)

#: The type of ids that are places in a dictionary.
IDS_OF_DICTIONARY = pa.dictionary(pa.int32(), pa.large_string())
_NO_TEXTS = pa.array([], pa.large_string())
#: The key of what ``told_of`` reads in the metadata of a table.
_TOLD = b"told"
#: Bytes from which an expression goes to the overflow file.
_LONG = 4096


class _InOverflowFile(NamedTuple):
    begin: int
    size: int


class Catalogue:
    """Subscriptions by number and by id. Numbers are given in order and never used again."""

    def __init__(self, table: pa.Table | None = None, told: Mapping[int, Sequence[Any]] | None = None) -> None:
        self._table = SCHEMA.empty_table() if table is None else table
        #: By number, how subscriptions are told: only of the few that do not leave it at what is usual.
        self._told = dict(told or {})
        self._added: list[tuple[str, str, str | bytes | _InOverflowFile, Any, Any]] = []
        self._overflow = OverflowFile()
        self._numbers: dict[str, int] | None = None
        self._removed = 0
        self._texts: dict[str, list[pa.Array]] = {}
        self._saved: list[tuple[str, str] | None] = [None] * self._table.num_rows  # id and subscriber, once read
        self._hashes, self._hashed = np.empty((0, 2), np.uint64), 0
        self._dictionary = _NO_TEXTS
        self._reading = threading.Lock()

    def __len__(self) -> int:
        return self.numbers_given - self._removed

    @property
    def numbers_given(self) -> int:
        """One more than the largest number."""
        return int(self._table.num_rows) + len(self._added)

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each living subscription, in the order they came."""
        if self._numbers is None:
            with self._reading:
                if self._numbers is None:
                    ids = self._table.column("id").to_pylist()
                    self._numbers = dict(zip(ids, range(len(ids)), strict=True))
        return self._numbers

    def add(self, subscription: Subscription) -> int:
        """Number a subscription whose id is free."""
        number = self.numbers_given
        stored: str | bytes | _InOverflowFile = _packed(subscription.where)
        if subscription.id in self.numbers:
            raise SubscriptionError("an id that is not in use", shown(subscription.id))
        if len(stored) >= _LONG:
            data = stored.encode() if isinstance(stored, str) else stored
            stored = _InOverflowFile(self._overflow.append(data), len(data))  # if that fails, nothing has changed
        self.numbers[subscription.id] = number
        if not subscription.is_told_as_usual:
            one = subscription
            self._told[number] = (one.initial, one.fields, one.expired, one.deliver)
        self._added.append(
            (subscription.id, subscription.subscriber, stored, subscription.active_from, subscription.active_until)
        )
        return number

    def remove(self, id: str) -> int:
        """Forget a subscription and return its number, which is never given again."""
        number = self.number(id)
        del self.numbers[id]
        self._told.pop(number, None)
        self._removed += 1
        return number

    def renumber(self, id: str) -> int:
        """Give a subscription that is otherwise unchanged another number; the old one is never given again."""
        before, number = self.number(id), self.numbers_given
        row = self._row(before)
        if before in self._told:
            self._told[number] = self._told.pop(before)
        self._added.append(row)
        self.numbers[id] = number
        self._removed += 1
        return number

    def number(self, id: str) -> int:
        """The number of a subscription, or an error that says there is none."""
        found = self.numbers.get(id) if isinstance(id, str) else None
        if found is None:
            raise UnknownSubscription("the id of a subscription", shown(id))
        return found

    def subscription(self, number: int) -> Subscription:
        """The subscription of a number, as it was given."""
        id, subscriber, where, active_from, active_until = self._row(number)
        told = self._told.get(number, ())
        return Subscription(id, subscriber, restored(self._text(where)), active_from, active_until, *told)

    def _text(self, where: str | bytes | _InOverflowFile) -> str:
        if isinstance(where, _InOverflowFile):
            where = self._overflow.read(*where)
        return where if isinstance(where, str) else _unpacked(where)

    def _row(self, number: int) -> tuple[Any, ...]:
        base = int(self._table.num_rows)
        if number >= base:
            return self._added[number - base]
        return tuple(column[number].as_py() for column in self._table.columns)

    def names(self, numbers: NDArray[np.int32]) -> list[tuple[str, ...]]:
        """A tuple for each number that begins with the id and the subscriber."""
        added, base = self._added, len(self._saved)
        if not base:
            return [added[number] for number in numbers.tolist()]
        return [added[n - base] if n >= base else self._saved[n] or self._read(n) for n in numbers.tolist()]

    def _read(self, number: int) -> tuple[str, str]:
        names = self._saved[number] = tuple(self._table.column(name)[number].as_py() for name in ("id", "subscriber"))
        return names

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """128 bits of each subscription's id, by number; there may be more rows than numbers."""
        if self._hashed < self.numbers_given:
            with self._reading:
                self._hash_new()
        return self._hashes

    def _hash_new(self) -> None:
        known, base, given = self._hashed, len(self._saved), self.numbers_given
        texts = [pa.array([row[0] for row in self._added[max(0, known - base) : given - base]], pa.large_string())]
        if known < base:
            texts[:0] = self._table.column("id").slice(known).chunks
        if given > len(self._hashes):
            larger = np.empty((max(given, 2 * len(self._hashes)), 2), np.uint64)
            larger[:known] = self._hashes[:known]
            self._hashes = larger
        for chunk in texts:
            self._hashes[known : known + len(chunk)] = text_hashes(*text_buffers(chunk)[:2])
            known += len(chunk)
        self._hashed = known

    def texts(self, name: str, numbers: NDArray[np.int32]) -> pa.Array:
        """``id`` or ``subscriber`` of many numbers."""
        chunks = self._chunked(name)
        if len(chunks) == 1:
            return chunks[0].take(pa.array(numbers))
        ends = np.cumsum([len(chunk) for chunk in chunks])
        which = np.searchsorted(ends, numbers, "right")
        if not which.any():
            return chunks[0].take(pa.array(numbers))
        parts, places = [], []
        for i in np.unique(which):
            mine = np.flatnonzero(which == i)
            parts.append(chunks[i].take(pa.array(numbers[mine] - (ends[i] - len(chunks[i])))))
            places.append(mine)
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def ids_of_dictionary(self, numbers: NDArray[np.int32]) -> pa.Array:
        """The ids of many numbers as places in a dictionary, of all ids where possible: then no string is made.

        The dictionary is not made anew for each subscription. Where one is not in it yet, the result has its own.
        """
        known = len(self._dictionary)
        if len(numbers) and int(numbers.max()) >= known:
            if 8 * (self.numbers_given - known) < known:
                places = pa.array(np.arange(len(numbers), dtype=np.int32))
                return pa.DictionaryArray.from_arrays(places, self.texts("id", numbers), safe=False)
            self._dictionary = pa.concat_arrays(self._chunked("id"))
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self._dictionary, safe=False)

    def _chunked(self, name: str) -> list[pa.Array]:
        """All texts of one field in a few arrays, the largest first; what was added since the last call is one more."""
        with self._reading:
            chunks = self._texts.get(name) or self._table.column(name).chunks or [_NO_TEXTS]
            known = sum(len(chunk) for chunk in chunks)
            if known < self.numbers_given:
                place = SCHEMA.get_field_index(name)
                new = [row[place] for row in self._added[known - self._table.num_rows :]]
                chunks = [*chunks, pa.array(new, pa.large_string())]
                while len(chunks) > 1 and len(chunks[-2]) <= 2 * len(chunks[-1]):
                    chunks[-2:] = [pa.concat_arrays(chunks[-2:])]
            self._texts[name] = chunks
            return chunks

    def table(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Some subscriptions as a table, to be saved, with how they are told in its metadata."""
        base = self._table.num_rows
        added = [self._added[n - base] for n in numbers[numbers >= base]]
        columns = [
            pa.array([self._text(row[i]) if field.name == "where" else row[i] for row in added], field.type)
            for i, field in enumerate(SCHEMA)
        ]
        kept = self._table.take(pa.array(numbers[numbers < base]))
        table = pa.concat_tables([kept, pa.table(columns, SCHEMA)]).combine_chunks()
        told = {str(i): self._told[n] for i, n in enumerate(numbers.tolist()) if n in self._told} if self._told else {}
        return table.replace_schema_metadata({_TOLD: orjson.dumps(told)} if told else None)


def told_of(table: pa.Table) -> dict[int, Sequence[Any]]:
    """How the subscriptions of a saved table are told, by their places in it."""
    try:
        told = orjson.loads((table.schema.metadata or {}).get(_TOLD, b"{}"))
        return {int(place): (a, b, c, d) for place, (a, b, c, d) in told.items()}
    except (ValueError, TypeError, AttributeError):
        raise SnapshotError("how subscriptions are told, as it was saved", "something else") from None


def _packed(where: str | dict[str, Any] | bool) -> str | bytes:
    """An expression as text, or as JSON followed by the bytes of its arrays of doubles, whose places the JSON names.

    Writing and reading a long series as text would take longer than everything else that is done with it.
    """
    if isinstance(where, str):
        return where
    arrays: list[bytes] = []
    length = 0

    def aside(value: Any) -> Any:
        nonlocal length
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            arrays.append(value.tobytes())
            length += len(arrays[-1])
            return {_DOUBLES: [length - len(arrays[-1]), len(value)]}
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else _refused(value)

    try:
        text = orjson.dumps(where, default=aside)
    except TypeError:  # orjson cannot write some numbers that JSON has: written as the language reads them
        return orjson.dumps(to_json(from_json(where, NO_LIMITS)))
    return b"".join([b"\0", len(text).to_bytes(4, "little"), text, *arrays]) if arrays else text


#: A key that stands for an array; no expression has one.
_DOUBLES = "\0"


def _refused(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON")


def _unpacked(kept: bytes) -> str:
    """JSON as text."""
    if kept[:1] != b"\0":
        return kept.decode()
    end = 5 + int.from_bytes(kept[1:5], "little")

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            if _DOUBLES in value:
                begin, count = value[_DOUBLES]
                return np.frombuffer(kept, np.float64, count, end + begin)
            return {key: whole(inner) for key, inner in value.items()}
        return [whole(inner) for inner in value] if isinstance(value, list) else value

    return orjson.dumps(whole(orjson.loads(kept[5:end])), option=orjson.OPT_SERIALIZE_NUMPY).decode()


def stored(where: str | dict[str, Any] | bool) -> str:
    """An expression as text: CQL2 text as it is, CQL2-JSON as JSON."""
    kept = _packed(where)
    return kept if isinstance(kept, str) else _unpacked(kept)


def restored(where: str) -> str | dict[str, Any] | bool:
    """The expression that was stored."""
    return orjson.loads(where) if where.startswith("{") or where in ("true", "false") else where
