"""Patterns and their filters: each filter is in an index once, however many patterns have it.

``Patterns`` holds the patterns of an engine, or of a layer of the registry, beside an ``Index`` of their filters. The
select step matches publications with that index, and ``passed`` turns the result into what a shard is given. What
patterns make of it is decided in ``tidegate/patterns``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import SnapshotError
from tidegate.index.batch import Batch, ObjectBatch, phase_number, text_buffers
from tidegate.index.catalogue import Catalogue
from tidegate.index.index import Index, Matches
from tidegate.index.segment import Segment
from tidegate.index.snapshot import assembled, read, read_arrow, write, write_arrow
from tidegate.kernels.identity import publication_hashes_of_one
from tidegate.kernels.memory import rows_of
from tidegate.model import Subscription
from tidegate.patterns import FAMILIES, Pattern, Standing
from tidegate.patterns.pattern import NEVER
from tidegate.predicates.column import Column
from tidegate.sealed_directory import seal

__all__ = ["Passed", "Patterns", "passed", "read_patterns"]

SCHEMA = pa.schema(
    [
        ("subscription", pa.int64()),
        ("family", pa.string()),
        ("form", pa.string()),
        ("numbers", pa.list_(pa.float64())),
        ("filters", pa.list_(pa.int32())),
        ("begins", pa.int64()),
        ("ends", pa.int64()),
    ]
)


class Passed(NamedTuple):
    """Publications that passed some filter: what patterns need to know of them."""

    rows: NDArray[np.int64]
    """Their numbers in the batch."""
    time: NDArray[np.int64]
    offsets: NDArray[np.int64]
    letters: NDArray[np.uint8]
    """Their ids."""
    phase: NDArray[np.uint8]
    hash: NDArray[np.uint64]
    source: NDArray[np.uint64]
    values: NDArray[np.float64]
    start: NDArray[np.int64]
    hits: NDArray[np.int32]
    """The filters that i passed are ``hits[start[i]:start[i + 1]]``."""


class Patterns:
    """The patterns of subscriptions, by number, and the index of their filters."""

    def __init__(
        self, index: Index | None = None, filters: Catalogue | None = None, table: pa.Table | None = None
    ) -> None:
        self.index = index or Index()
        self._filters = filters or Catalogue()
        self._table = SCHEMA.empty_table() if table is None else table
        self._read: dict[int, tuple[Any, ...]] | None = None
        self._users: dict[int, int] = {}

    @property
    def _rows(self) -> dict[int, tuple[Any, ...]]:
        """Family, form, numbers, filters and bounds by subscription; those of a snapshot are read when asked for."""
        if self._read is None:
            columns = (column.to_pylist() for column in self._table.columns)
            self._read = {number: tuple(row) for number, *row in zip(*columns, strict=True)}
            for row in self._read.values():
                for f in row[3]:
                    self._users[f] = self._users.get(f, 0) + 1
        return self._read

    def __len__(self) -> int:
        return self._table.num_rows if self._read is None else len(self._read)

    def __contains__(self, number: int) -> bool:
        return number in self._rows

    @property
    def filters_given(self) -> int:
        """One more than the largest number of a filter."""
        return self._filters.numbers_given

    # --- changing ---------------------------------------------------------------------------------------------------

    def add(self, number: int, pattern: Pattern) -> list[int]:
        """Add the pattern of a subscription; the numbers of its filters. If it is refused, nothing changes."""
        names = [inner.key.hex() for inner in pattern.filters]
        fresh: list[tuple[str, int]] = []
        try:
            for name, inner in zip(names, pattern.filters, strict=True):
                if name not in self._filters.numbers:
                    fresh.append((name, self._filters.add(Subscription(name, "pattern", True))))
                    self.index.add(fresh[-1][1], inner.filter)
        except BaseException:
            for name, filter in fresh:
                self._filters.remove(name)
                if filter < fresh[-1][1]:
                    self.index.remove(filter)
            raise
        filters = [self._filters.numbers[name] for name in names]
        for f in filters:
            self._users[f] = self._users.get(f, 0) + 1
        self._rows[number] = (
            pattern.family, pattern.form, list(pattern.numbers), filters, pattern.begins, pattern.ends,
        )  # fmt: skip
        self.__dict__.pop("columns", None)
        return filters

    def remove(self, number: int) -> None:
        """Remove a pattern, and the filters that no other pattern has."""
        for f in self._rows.pop(number)[3]:
            self._users[f] -= 1
            if not self._users[f]:
                del self._users[f]
                self.index.remove(f)
                name = self._filters.subscription(f).id
                if self._filters.numbers.get(name) == f:  # a filter of two assembled snapshots may be there twice
                    self._filters.remove(name)
        self.__dict__.pop("columns", None)

    def unite(self) -> None:
        """After ``assembled``: make filters that several of the snapshots have one again."""
        rows, first = self._rows, dict[bytes, int]()
        same = {f: first.setdefault(self.keys[f].tobytes(), f) for f in sorted(self._users)}
        self._read = {number: (*row[:3], [same[f] for f in row[3]], *row[4:]) for number, row in rows.items()}
        for f, kept in same.items():
            if f != kept:
                self._users[kept] += self._users.pop(f)
                self.index.remove(f)

    # --- looking ----------------------------------------------------------------------------------------------------

    def keys_of(self, filters: Sequence[int]) -> list[bytes]:
        """The keys of filters."""
        return [bytes.fromhex(name) for name, *_ in self._filters.names(np.array(filters, np.int32))]

    @cached_property
    def keys(self) -> NDArray[np.uint8]:
        """The keys of all filters. Computed once, so only for a snapshot, which no longer changes."""
        names = self._filters.texts("id", np.arange(self.filters_given, dtype=np.int32))
        letters = b"".join(name.encode() for name in names.to_pylist())
        return np.frombuffer(bytes.fromhex(letters.decode()), np.uint8).reshape(-1, 16)

    @cached_property
    def subscriptions(self) -> NDArray[np.int64]:
        """The subscriptions of a snapshot that have patterns."""
        return np.asarray(self._table.column("subscription"))

    def filters_by(self, subscriptions: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The filters of some of the subscriptions of a snapshot, each once."""
        lists = self._table.column("filters").combine_chunks()
        sizes = np.diff(np.asarray(lists.offsets))
        return np.unique(np.asarray(lists.flatten())[np.repeat(subscriptions, sizes)])

    def standing(self, since: Callable[[int], int], numbers: Iterable[int] | None = None) -> Iterator[Standing]:
        """Subscriptions as shards take them: ``since`` gives the version at which a number was made."""
        for number in self._rows if numbers is None else numbers:
            family, form, given, filters, begins, ends = self._rows[number]
            yield Standing(
                number, since(number), NEVER,
                family, form, given, self.keys_of(filters), begins, ends,
            )  # fmt: skip

    def admitted(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, Standing]]:
        """Some subscriptions of a snapshot, by their rows in it, with their numbers; the caller fills in versions."""
        for row in self._table.take(pa.array(rows)).to_pylist():
            filters = [self.keys[f].tobytes() for f in row["filters"]]
            yield row["subscription"], Standing(
                row["subscription"], 0, NEVER, row["family"], row["form"], row["numbers"], filters,
                row["begins"], row["ends"],
            )  # fmt: skip

    @property
    def numbers(self) -> list[int]:
        """The subscriptions that have patterns."""
        return list(self._rows)

    def family(self, number: int) -> str:
        """The family of a subscription's pattern."""
        return str(self._rows[number][0])

    def filters_of(self, number: int) -> list[int]:
        """The filters of a subscription's pattern."""
        return list(self._rows[number][3])

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of publications whose numbers some pattern looks at."""
        if self._read is None:
            pairs = self._table.group_by(["family", "form"]).aggregate([])
            forms = set(zip(pairs.column("family").to_pylist(), pairs.column("form").to_pylist(), strict=True))
        else:
            forms = {(row[0], row[1]) for row in self._read.values()}
        return list(
            dict.fromkeys(column for family, form in sorted(forms) for column in FAMILIES[family].columns(form))
        )

    @property
    def names(self) -> set[str]:
        """The attributes that some filter or pattern asks about."""
        return self.index.names.union(name for column in self.columns for name in column.attributes)

    # --- keeping ----------------------------------------------------------------------------------------------------

    def save(self, directory: Path, place: NDArray[np.int64]) -> None:
        """Write everything to a directory that is made; ``place`` gives subscriptions their new numbers, −1 to none."""
        directory.mkdir()
        rows = {number: row for number, row in self._rows.items() if place[number] >= 0}
        numbers = np.array(sorted({f for row in rows.values() for f in row[3]}), np.int64)
        at = np.full(self.filters_given, -1, np.int64)
        at[numbers] = np.arange(len(numbers))
        for f in self._users.keys() - set(numbers.tolist()):
            self.index.remove(f)
        write(self.index, self._filters, directory, numbers)
        fields = [
            (int(place[number]), family, form, given, at[filters].tolist(), begins, ends)
            for number, (family, form, given, filters, begins, ends) in rows.items()
        ]
        columns = [pa.array([row[i] for row in fields], field.type) for i, field in enumerate(SCHEMA)]
        write_arrow(directory / "patterns.arrow", pa.table(columns, SCHEMA))
        seal(directory)

    @staticmethod
    def assembled(parts: Sequence[tuple[int, tuple[Segment, pa.Table, pa.Table] | None]]) -> Patterns:
        """The patterns of several snapshots together; each comes with how many subscriptions it has."""
        tables, count, filters = [], 0, 0
        there = [part for _, part in parts if part is not None]
        for size, part in parts:
            if part is not None:
                _, names, table = part
                tables.append(_shifted(table, count, filters) if count or filters else table)
                filters += names.num_rows
            count += size
        if not there:
            return Patterns()
        index, catalogue = assembled([(segment, names) for segment, names, _ in there])
        return Patterns(index, catalogue, pa.concat_tables(tables))


def _shifted(table: pa.Table, count: int, filters: int) -> pa.Table:
    lists = table.column("filters").combine_chunks()
    moved = pa.ListArray.from_arrays(lists.offsets, pa.compute.add(lists.values, pa.scalar(filters, pa.int32())))
    subscription = pa.compute.add(table.column("subscription"), count)
    return table.set_column(0, SCHEMA.field(0), subscription).set_column(4, SCHEMA.field(4), moved)


def read_patterns(directory: Path) -> tuple[Segment, pa.Table, pa.Table] | None:
    """The patterns of a snapshot: filters as a segment and their names, and the table; None where there are none."""
    inner = directory / "patterns"
    if not inner.exists():
        return None
    segment, names = read(inner)
    try:
        table = read_arrow(inner / "patterns.arrow")
        table.validate(full=True)
        if table.schema != SCHEMA or not _within(table, names.num_rows):
            raise SnapshotError("the patterns of a snapshot", "filters that are not there", str(inner))
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError("the patterns of a snapshot", f"{error}", str(inner)) from None
    return segment, names, table


def _within(table: pa.Table, filters: int) -> bool:
    """Whether all filters that patterns name are there."""
    named = pa.compute.min_max(pa.compute.list_flatten(table.column("filters"))).as_py()
    return named["min"] is None or (named["min"] >= 0 and named["max"] < filters)


def passed(batch: Batch, matches: Matches, columns: Sequence[Column], rows: NDArray[np.int64] | None = None) -> Passed:
    """The publications that passed some filter, with the values of these columns."""
    if isinstance(batch, ObjectBatch) and batch.length == 1 and len(matches.owners) and rows is None:
        return _passed_alone(batch, matches, columns)
    if rows is None:
        rows = np.flatnonzero(np.diff(matches.start))
    is_all = len(rows) == batch.length  # then nothing need be picked
    start, hits = (matches.start, matches.owners) if is_all else rows_of(matches.start, matches.owners, rows)
    offsets, letters, _ = text_buffers(batch.ids() if is_all else batch.ids().take(pa.array(rows)))
    values = np.full((len(rows), len(columns)), np.nan)
    for i, column in enumerate(columns):
        points = batch.points(column)
        if points is not None:
            values[:, i] = points if is_all else points[rows]
    return Passed(
        rows, batch.times()[rows], offsets - offsets[0], letters[offsets[0] : offsets[-1]].copy(), batch.phases()[rows],
        *batch.hashes(rows), values, start, hits,
    )  # fmt: skip


def _passed_alone(batch: ObjectBatch, matches: Matches, columns: Sequence[Column]) -> Passed:
    """``passed`` for a single publication, without an Arrow array."""
    publication = batch.publications[0]
    id, source = (np.frombuffer(bytearray(text.encode()), np.uint8) for text in (publication.id, publication.source))
    hashes = publication_hashes_of_one(id, source, phase_number(publication))
    points = [column.point(publication) for column in columns]
    return Passed(
        np.zeros(1, np.int64), batch.times(), np.array([0, len(id)], np.int64), id,
        batch.phases(), hashes[:1], hashes[1:], np.array([points], np.float64), matches.start, matches.owners,
    )  # fmt: skip
