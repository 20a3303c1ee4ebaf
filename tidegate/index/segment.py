"""A segment: an immutable index over some clauses, and the matching of a batch against it.

``Index`` builds a ``Segment`` from a draft or by merging others, and calls ``Segment.match``. All that a match needs is
in flat arrays, so a segment is saved, memory-mapped and merged without parsing anything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.index.axes import Axes
from tidegate.index.batch import Batch, text_buffers
from tidegate.index.clauses import Clauses
from tidegate.index.drivers import Drivers, chosen
from tidegate.index.ragged import picked
from tidegate.index.segment_draft import Draft
from tidegate.index.term_kinds import TERM_KINDS
from tidegate.index.terms import MOST_KINDS, FoundTerms, TermLookup
from tidegate.kernels.bits import LINE, LINE_BITS
from tidegate.kernels.encode import encode, encode_lists, text_ranks
from tidegate.kernels.fill import AxisRows, ClauseRanges, block_entries, fill
from tidegate.kernels.matched_owners import EncodedPoints, open_pairs, owners_of_hits, ranges_hold, rows_of_runs
from tidegate.kernels.order import order
from tidegate.kernels.select import admit_blocks, select
from tidegate.language import from_json
from tidegate.language.limits import NO_LIMITS
from tidegate.language.tree import Call
from tidegate.predicates.column import PointLists
from tidegate.predicates.family import FUNCTIONS
from tidegate.predicates.predicate import Predicate

__all__ = ["AXES_ARRAYS", "TABLE_ARRAYS", "Segment", "predicate_of"]

Rows = tuple[NDArray[np.int64], NDArray[np.int32]]
#: Runs (publication, first hit, end of its hits), and the hits.
Hits = tuple[NDArray[np.int64], NDArray[np.int32]]
_Encoded = tuple[Any, Any, Any, tuple[Any, Any, Any, Any]]

#: The arrays of a segment and of its axes that are saved as they are.
TABLE_ARRAYS = ("entry_start", "entry_column", "entry_offset", "table", "summary", "alive", "doubtful")
AXES_ARRAYS = ("cuts", "row_start", "row_of_code", "rows", "bucketed")

#: Bytes of tables per tile: about what stays in a second-level cache beside the batch.
_TILE_BYTES = 1 << 20
#: Publications that ``match`` passes to the kernel together: the first time, and at most.
_FIRST_BATCH, _BATCH = 32, 2048
#: At most where there are so few columns and blocks: what is done once per call would take longer than the kernel.
_NARROW_BATCH, _NARROW = 8192, (4, 64)
#: Hits that are collected before they are turned into owners.
_HITS = 1 << 19
_NOWHERE = np.empty(0, np.int32)


class _Growing:
    """Owners found so far, at the front of an array that grows. The kernel writes to ``rest``, which saves a copy."""

    def __init__(self) -> None:
        self.length = 0
        self._array = np.empty(_HITS, np.int32)

    @property
    def array(self) -> NDArray[np.int32]:
        return self._array[: self.length]

    @property
    def rest(self) -> NDArray[np.int32]:
        return self._array[self.length :]

    def reserve(self, capacity: int) -> None:
        """Grow the array until ``capacity`` owners fit into it."""
        if capacity > len(self._array):
            larger = np.empty(max(2 * len(self._array), capacity), np.int32)
            larger[: self.length] = self.array
            self._array = larger

    def take(self, owners: NDArray[np.int32]) -> None:
        """Append owners."""
        if owners.ctypes.data != self.rest.ctypes.data:
            self.reserve(self.length + len(owners))
            self.rest[: len(owners)] = owners
        self.length += len(owners)


@lru_cache(maxsize=65_536)
def predicate_of(stored: bytes) -> Predicate:
    """A stored predicate, compiled again on first use."""
    call = from_json(orjson.loads(stored[1:]), NO_LIMITS)
    assert isinstance(call, Call)
    ((predicate,),) = FUNCTIONS[call.op].compile(call, stored[:1] == b"-")
    return predicate


@dataclass(frozen=True, slots=True)
class Segment:
    """Clauses in index order, and their tables. ``kernels/fill.py`` and ``kernels/select.py`` describe the arrays."""

    clauses: Clauses
    axes: Axes
    entry_start: NDArray[np.int64]
    entry_column: NDArray[np.uint16]
    entry_offset: NDArray[np.int64]
    table: NDArray[np.uint64]
    summary: NDArray[np.uint64]
    alive: NDArray[np.uint64]
    doubtful: NDArray[np.uint64]
    repeats: bool
    """Whether some owner has several clauses."""
    drivers: Drivers
    lookups: tuple[TermLookup | None, ...]
    """By kind, what finds the terms; None where there are none."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        tables = sum(getattr(self, name).nbytes for name in TABLE_ARRAYS)
        axes = sum(getattr(self.axes, name).nbytes for name in AXES_ARRAYS)
        terms = sum(lookup.nbytes for lookup in self.lookups if lookup is not None)
        return int(self.clauses.nbytes + tables + axes + terms + sum(start.nbytes for start in self.drivers.starts))

    # --- building ---------------------------------------------------------------------------------------------------

    @staticmethod
    def build(draft: Draft) -> Segment:
        """A segment of the draft's clauses."""
        return Segment.of(Clauses.drafted(draft))

    @staticmethod
    def merge(segments: Sequence[Segment], dead: NDArray[np.uint8]) -> Segment:
        """One segment of the clauses of several, without those whose owners are all dead."""
        return Segment.of(Clauses.joined([segment.clauses for segment in segments], dead))

    def shifted(self, by: int) -> Segment:
        """The same segment with ``by`` added to every owner's number; all other arrays are shared."""
        return replace(self, clauses=replace(self.clauses, owner=self.clauses.owner + np.int32(by)))

    @staticmethod
    def of(unordered: Clauses) -> Segment:
        """A segment of clauses, which it brings into an order."""
        tabled, driven, drivers = chosen(unordered)
        some = unordered.ordered(tabled)[0] if len(driven) else unordered
        axes, first, last = Axes.fit(some.start, some.column, some.low, some.high, len(some.columns))
        codes = axes.codes
        sequence = order(some.start, some.column, first, last, codes, LINE_BITS)
        _, moved = picked(some.start, sequence)
        first, last = first[moved], last[moved]
        clauses, _ = unordered.ordered(np.concatenate([tabled[sequence], driven]))
        start = clauses.start[: len(tabled) + 1]
        column = clauses.column[: start[-1]]
        entries = block_entries(start, column, first, last, codes, axes.rows)
        blocks = len(entries.start) - 1
        table = np.zeros(entries.offset[-1], np.uint64)
        summary = np.full((axes.row_start[-1] + len(clauses.columns), max(1, -(-blocks // 64))), ~np.uint64(0))
        ranges = ClauseRanges(start, column, clauses.low[: start[-1]], clauses.high[: start[-1]])
        rows = AxisRows(axes.row_start, axes.row_of_code, codes, axes.bucketed, axes.rows)
        fill(ranges, first, last, rows, entries, table, summary)
        return Segment(
            clauses=clauses,
            axes=axes,
            entry_start=entries.start,
            entry_column=entries.column,
            entry_offset=entries.offset,
            table=table,
            summary=summary,
            alive=_bits(np.arange(len(tabled)), blocks),
            doubtful=_bits(_several(start, column, axes.bucketed), blocks),
            repeats=len(np.unique(clauses.owner)) < len(clauses.owner),
            drivers=drivers,
            lookups=tuple(
                kind.lookup(terms, np.diff(begins) > 0) if len(terms) else None
                for kind, terms, begins in zip(TERM_KINDS, clauses.terms, drivers.starts, strict=True)
            ),
        )

    # --- matching ---------------------------------------------------------------------------------------------------

    def match(self, batch: Batch, dead: NDArray[np.uint8], some_dead: bool) -> Rows:
        """The living owners of the clauses that hold, per publication."""
        clauses = self.clauses
        plain = not (some_dead or self.repeats or clauses.any_open)  # every hit is a match of all its owners
        start = np.zeros(batch.length + 1, np.int64)
        found = _Growing()
        begin, size = 0, _FIRST_BATCH
        is_narrow = len(clauses.columns) <= _NARROW[0] and len(self.entry_start) <= _NARROW[1]
        while begin < batch.length:
            end = min(begin + size, batch.length)
            encoded = self._encoded(batch, begin, end)
            runs, hits = self._select(encoded, plain, found.rest if plain else _NOWHERE)
            if plain:
                rows, owners = rows_of_runs(end - begin, runs, hits)
            else:
                terms = [None if lookup is None else lookup.found(batch, begin, end) for lookup in self.lookups]
                settled: list[Hits] = []
                for kind, found_terms in enumerate(terms):
                    if found_terms is not None:
                        with_more, without = self._driven(encoded, kind, found_terms)
                        runs, hits = _followed(runs, hits, *with_more)
                        settled.append(without)
                if clauses.any_open:
                    self._settle(batch, begin, runs, hits, terms)
                for more in settled:
                    runs, hits = _followed(runs, hits, *more)
                stamps = np.zeros(len(dead), np.int32) if self.repeats else _NOWHERE
                rows, owners = owners_of_hits(end - begin, runs, hits, clauses.owner_start, clauses.owner, dead, stamps)
            start[begin + 1 : end + 1] = found.length + rows[1:]
            found.take(owners)
            if plain:  # the kernel writes owners where they stay: room for as many per publication as so far
                found.reserve(int(1.1 * found.length / end * batch.length) + _HITS)
                size = _NARROW_BATCH if is_narrow else _BATCH
            else:  # the hits are read again: only so many publications that their hits stay in the cache
                size = max(16, min(_BATCH, _HITS * (end - begin) // (2 * len(hits) + 1)))
            begin = end
        return start, found.array

    def _select(self, encoded: _Encoded, as_owners: bool, target: NDArray[np.int32]) -> Hits:
        """The clauses whose ranges hold for the publications, or their owners, as the kernel's runs, hits.

        The hits are written to ``target`` where it is large enough.
        """
        value, code, row, (list_start, list_code, list_row, list_value) = encoded
        axes, clauses = self.axes, self.clauses
        blocks = len(self.entry_start) - 1
        top = axes.row_start[:-1] + np.arange(len(clauses.columns))
        admitted = admit_blocks(self.summary, top, code, list_start, list_code, blocks)
        tile = _tile(self.table.nbytes // max(blocks, 1))
        edges = clauses.owner_start[np.minimum(np.arange(0, blocks + tile, tile) * LINE_BITS, len(clauses))]
        room = max(int(np.diff(edges).max(initial=0)), tile * LINE_BITS)
        parts: list[Hits] = []
        next_tile = next_publication = written = 0
        while next_tile < blocks:
            hits = target if not parts and len(target) >= 2 * room else np.empty(max(_HITS, 2 * room), np.int32)
            runs = np.empty((4 * len(value) + 1024, 3), np.int64)
            next_tile, next_publication, n, noted = select(
                admitted, row, code, value, list_start, list_row, list_value,
                self.entry_start, self.entry_column, self.entry_offset, self.table, axes.bucketed,
                self.alive, self.doubtful, clauses.start, clauses.column, clauses.low, clauses.high,
                clauses.owner_start, clauses.owner, as_owners, room, tile, next_tile, next_publication, hits, runs,
            )  # fmt: skip
            runs[:noted, 1:] += written
            parts.append((runs[:noted], hits[:n]))
            written += n
        if len(parts) == 1:
            return parts[0]
        all_runs = np.concatenate([runs for runs, _ in parts]) if parts else np.empty((0, 3), np.int64)
        return all_runs, np.concatenate([hits for _, hits in parts]) if parts else np.empty(0, np.int32)

    def _driven(self, encoded: _Encoded, kind: int, found: FoundTerms) -> tuple[Hits, Hits]:
        """The hits that terms of a kind led to: those that have open predicates left, and those without."""
        publication, term = found.pairs
        begins, clause = picked(self.drivers.starts[kind], term)
        publication, clause = np.repeat(publication, np.diff(begins)), clause.astype(np.int32)
        value, code, _, (list_start, _, _, list_value) = encoded
        clauses = self.clauses
        ranges = ClauseRanges(clauses.start, clauses.column, clauses.low, clauses.high)
        held = ranges_hold(publication, clause, EncodedPoints(value, code, list_start, list_value), ranges)
        several = clauses.open_start[clause + 1] - clauses.open_start[clause] > 1
        with_more = _runs(publication[held & several]), clause[held & several]
        settled = _runs(publication[held & ~several]), clause[held & ~several]
        return with_more, settled

    def _encoded(self, batch: Batch, begin: int, end: int) -> _Encoded:
        """The batch on this segment's axes: points, codes, rows, and the same for lists of points."""
        size, axes = end - begin, self.axes
        value = np.empty((size, len(self.clauses.columns)))
        ends_of_lists, points_of_lists, lists_of = [0], [], []
        for c, column in enumerate(self.clauses.columns):
            points = batch.points(column)
            if points is None:
                value[:, c] = np.nan
            elif isinstance(points, PointLists):
                value[:, c] = np.nan
                offsets = points.offsets[begin : end + 1]
                flat = self._numeric(c, points.points, int(offsets[0]), int(offsets[-1]))
                lists_of.append((c, len(ends_of_lists) - 1, ends_of_lists[-1]))
                ends_of_lists.extend((offsets[1:] - offsets[0] + ends_of_lists[-1]).tolist())
                points_of_lists.append(flat)
            else:
                value[:, c] = self._numeric(c, points, begin, end)
        code = np.empty(value.shape, np.int32)
        row = np.empty(value.shape, np.int64)
        encode(value, axes.cuts, axes.row_start, axes.row_of_code, code, row)
        list_value = np.concatenate([*points_of_lists, np.empty(0)])
        list_code, list_row = np.empty(len(list_value), np.int32), np.empty(len(list_value), np.int64)
        for (c, number, at), flat in zip(lists_of, points_of_lists, strict=True):
            here = slice(at, at + len(flat))
            flat = list_value[here]  # an array that may be written, also where the list is memory of a file
            encode_lists(c, flat, axes.cuts, axes.row_start, axes.row_of_code, list_code[here], list_row[here])
            code[:, c] = -2 - number - np.arange(size)
        return value, code, row, (np.array(ends_of_lists, np.int64), list_code, list_row, list_value)

    def _numeric(self, c: int, points: Any, begin: int, end: int) -> NDArray[np.float64]:
        """Doubles as they are, texts as their rank among the constants."""
        texts = self.clauses.texts.get(c)
        if texts is None:
            doubles: NDArray[np.float64] = points[begin:end]
            return doubles
        offsets, letters, valid = text_buffers(points[begin:end])
        ranks: NDArray[np.float64] = text_ranks(offsets, letters, valid, texts.offsets, texts.letters)
        return ranks

    def _settle(
        self,
        batch: Batch,
        begin: int,
        runs: NDArray[np.int64],
        hits: NDArray[np.int32],
        terms: Sequence[FoundTerms | None],
    ) -> None:
        """Refute, by writing −1, the hits whose remaining predicates do not hold."""
        clauses = self.clauses
        pairs = open_pairs(runs, hits, clauses.open_start, clauses.open_predicate, MOST_KINDS)
        for kind, found in enumerate(terms):
            mine = slice(pairs.start[kind + 1], pairs.start[kind + 2])
            if found is not None and mine.start < mine.stop:
                held = found.holds(pairs.publication[mine], pairs.number[mine], pairs.negated[mine])
                hits[pairs.position[mine][~held]] = -1
        others = np.flatnonzero(hits[pairs.position[: pairs.start[1]]] >= 0)
        if len(others):
            held = self._held(batch, pairs.number[others], pairs.publication[others] + begin)
            hits[pairs.position[others[~held]]] = -1

    def _held(self, batch: Batch, which: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether predicates hold for publications, each pair asked once, those of one kind together."""
        pairs = np.stack([which, rows], axis=1)
        distinct, same = np.unique(pairs, axis=0, return_inverse=True)
        held = np.empty(len(distinct), np.bool_)
        kinds: dict[type[Predicate], list[int]] = {}
        predicates = [predicate_of(self.clauses.predicates[w]) for w in distinct[:, 0]]
        for i, predicate in enumerate(predicates):
            kinds.setdefault(type(predicate), []).append(i)
        for kind, mine in kinds.items():
            held[mine] = kind.settle([predicates[i] for i in mine], [batch.row(int(distinct[i, 1])) for i in mine])
        return held[same.ravel()]


def _runs(publication: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hits that are in the order of their publications, as runs."""
    edges = np.flatnonzero(np.diff(publication, prepend=-1))
    return np.stack([publication[edges], edges, np.append(edges[1:], len(publication))[: len(edges)]], axis=1)


def _followed(
    runs: NDArray[np.int64], hits: NDArray[np.int32], more_runs: NDArray[np.int64], more: NDArray[np.int32]
) -> Hits:
    """Hits, and more of them behind."""
    if not len(more):
        return runs, hits
    shifted = more_runs + np.array([0, len(hits), len(hits)])
    return np.concatenate([runs, shifted]), np.concatenate([hits, more])


def _tile(block_bytes: int) -> int:
    """How many blocks to take together: a power of two, at most 64, whose tables fit the cache."""
    tile = 64
    while tile > 1 and tile * block_bytes > _TILE_BYTES:
        tile //= 2
    return tile


def _bits(positions: NDArray[Any], blocks: int) -> NDArray[np.uint64]:
    """A row of bits over all clauses, whole lines."""
    flags = np.zeros(blocks * LINE_BITS, np.bool_)
    flags[positions] = True
    return np.packbits(flags, bitorder="little").view(np.uint64) if blocks else np.zeros(LINE, np.uint64)


def _several(start: NDArray[np.int64], column: NDArray[np.uint16], bucketed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Clauses with more than one range on a bucketed column."""
    clause = np.repeat(np.arange(len(start) - 1), np.diff(start))
    again = (clause[1:] == clause[:-1]) & (column[1:] == column[:-1]) & (bucketed[column[1:]] == 1)
    return np.unique(clause[1:][again])
