"""A segment: an immutable index over some clauses, and the matching of a batch against it.

Everything a match needs is flat arrays, so a segment is saved, memory-mapped and merged with others without parsing
anything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index.axes import Axes
from tidegate.index.batch import Batch, text_buffers
from tidegate.index.draft import Draft
from tidegate.kernels.bits import LINE, LINE_BITS
from tidegate.kernels.encode import canonical, encode, encode_lists, identity, text_ranks
from tidegate.kernels.fill import block_entries, fill
from tidegate.kernels.gather import open_hits, owners_of_hits, rows_of_runs
from tidegate.kernels.order import order
from tidegate.kernels.select import admit_blocks, select
from tidegate.language import from_json
from tidegate.language.limits import NO_LIMITS
from tidegate.language.tree import Call
from tidegate.predicates.column import Column, Many
from tidegate.predicates.family import FUNCTIONS
from tidegate.predicates.predicate import Predicate

__all__ = ["Segment", "Texts"]

Rows = tuple[NDArray[np.int64], NDArray[np.int32]]

#: Bytes of tables per tile: about what stays in a second-level cache beside the batch.
_TILE_BYTES = 1 << 20
#: Publications that pass together: the first time, and at most.
_FIRST_BATCH, _BATCH = 256, 2048
#: Hits that are collected before they are turned into owners.
_HITS = 1 << 19
_NO_STAMPS = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Texts:
    """The sorted constants of a text column, as UTF-8."""

    offsets: NDArray[np.int64]
    letters: NDArray[np.uint8]

    @staticmethod
    def of(constants: Sequence[str]) -> Texts:
        offsets, letters, _ = text_buffers(pa.array(constants, pa.large_string()))
        return Texts(np.array(offsets), np.array(letters))

    def strings(self) -> list[str]:
        whole = self.letters.tobytes()
        return [whole[a:b].decode() for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True)]


@lru_cache(maxsize=65_536)
def _predicate(stored: bytes) -> Predicate:
    """A stored predicate, compiled again on first use."""
    call = from_json(orjson.loads(stored[1:]), NO_LIMITS)
    assert isinstance(call, Call)
    ((predicate,),) = FUNCTIONS[call.op].compile(call, stored[:1] == b"-")
    return predicate


@dataclass(frozen=True, slots=True)
class Segment:
    """Clauses in index order; the arrays are described where they are made, in the kernels."""

    columns: tuple[Column, ...]
    texts: dict[int, Texts]
    axes: Axes
    start: NDArray[np.int64]
    column: NDArray[np.uint16]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    owner_start: NDArray[np.int64]
    owner: NDArray[np.int32]
    open_start: NDArray[np.int64]
    open_predicate: NDArray[np.int32]
    predicates: Sequence[bytes]
    entry_start: NDArray[np.int64]
    entry_column: NDArray[np.uint16]
    entry_offset: NDArray[np.int64]
    table: NDArray[np.uint64]
    summary: NDArray[np.uint64]
    alive: NDArray[np.uint64]
    doubtful: NDArray[np.uint64]
    repeats: bool
    """Whether some owner has several clauses."""

    @property
    def clauses(self) -> int:
        return len(self.start) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [getattr(self, name) for name in ARRAYS] + [getattr(self.axes, name) for name in AXES]
        texts = sum(t.offsets.nbytes + t.letters.nbytes for t in self.texts.values())
        return int(sum(a.nbytes for a in arrays)) + texts + sum(map(len, self.predicates))

    # --- building ---------------------------------------------------------------------------------------------------

    @staticmethod
    def build(draft: Draft) -> Segment:
        """A segment of the draft's clauses."""
        start, column, low, high = draft.arrays()
        texts: dict[int, Texts] = {}
        for c, numbers in draft.texts.items():
            constants = sorted(numbers)
            texts[c] = Texts.of(constants)
            rank = np.empty(len(constants))
            rank[[int(numbers[text]) for text in constants]] = np.arange(1, len(constants) + 1)
            mine = np.flatnonzero(column == c)
            for bound in (low, high):
                known = mine[np.isfinite(bound[mine])]
                bound[known] = rank[bound[known].astype(np.int64)]
        owner = np.array(draft.owner, np.int32)
        opened = np.array(draft.open_predicate, np.int32)
        open_start = np.array(draft.open_start, np.int64) if len(opened) else np.zeros(1, np.int64)
        return Segment._assemble(
            tuple(draft.columns), texts, start, column, low, high, owner, open_start, opened, list(draft.predicates)
        )

    @staticmethod
    def merge(segments: Sequence[Segment], dead: NDArray[np.uint8]) -> Segment:
        """One segment of the clauses of several, without those whose owners are all dead."""
        columns: dict[Column, int] = {}
        predicates: dict[bytes, int] = {}
        constants: dict[int, set[str]] = {}
        for segment in segments:
            for c, at in enumerate(segment.columns):
                number = columns.setdefault(at, len(columns))
                if c in segment.texts:
                    constants.setdefault(number, set()).update(segment.texts[c].strings())
            for predicate in segment.predicates:
                predicates.setdefault(predicate, len(predicates))
        ranks = {c: {text: float(i + 1) for i, text in enumerate(sorted(found))} for c, found in constants.items()}
        parts = [segment._renumbered(columns, ranks, predicates, dead) for segment in segments]
        joined = [np.concatenate([part[i] for part in parts]) for i in range(7)]
        sizes, column, low, high, owner, open_sizes, opened = joined
        open_start = _starts(open_sizes) if len(opened) else np.zeros(1, np.int64)
        texts = {c: Texts.of(list(rank)) for c, rank in ranks.items()}
        return Segment._assemble(
            tuple(columns), texts, _starts(sizes), column, low, high, owner, open_start, opened, list(predicates)
        )

    def _renumbered(
        self,
        columns: dict[Column, int],
        ranks: dict[int, dict[str, float]],
        predicates: dict[bytes, int],
        dead: NDArray[np.uint8],
    ) -> tuple[NDArray[Any], ...]:
        """Entries per living owner in the numbers of the merged segment: a clause stands once for each owner again."""
        kept = dead[self.owner] == 0
        clause_of_owner = np.repeat(np.arange(self.clauses), np.diff(self.owner_start))[kept]
        low, high = np.array(self.low), np.array(self.high)
        for c, texts in self.texts.items():
            rank = ranks[columns[self.columns[c]]]
            new = np.array([0.0] + [rank[text] for text in texts.strings()])
            mine = np.flatnonzero(self.column == c)
            for bound in (low, high):
                known = mine[np.isfinite(bound[mine])]
                bound[known] = new[bound[known].astype(np.int64)]
        number = np.array([columns[at] for at in self.columns] or [0], np.uint16)
        sizes, entries = _taken(self.start, clause_of_owner)
        if len(self.open_start) > 1:
            open_sizes, opens = _taken(self.open_start, clause_of_owner)
            opened = np.array([predicates[p] for p in self.predicates], np.int32)[self.open_predicate[opens]]
        else:
            open_sizes, opened = np.zeros(len(clause_of_owner), np.int64), np.empty(0, np.int32)
        return sizes, number[self.column[entries]], low[entries], high[entries], self.owner[kept], open_sizes, opened

    @staticmethod
    def _assemble(
        columns: tuple[Column, ...],
        texts: dict[int, Texts],
        start: NDArray[np.int64],
        column: NDArray[np.uint16],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        owner: NDArray[np.int32],
        open_start: NDArray[np.int64],
        open_predicate: NDArray[np.int32],
        predicates: list[bytes],
    ) -> Segment:
        canonical(start, column, low, high)
        ids = (
            identity(start, column, low, high, open_start, open_predicate).view([("one", "u8"), ("two", "u8")]).ravel()
        )
        _, firsts, same = np.unique(ids, return_index=True, return_inverse=True)
        if len(firsts) < len(owner):  # store equal clauses once
            sizes, entries = _taken(start, firsts)
            start, column, low, high = _starts(sizes), column[entries], low[entries], high[entries]
            if len(open_start) > 1:
                sizes, opens = _taken(open_start, firsts)
                open_start, open_predicate = _starts(sizes), open_predicate[opens]
            by_clause = np.lexsort((owner, same.ravel()))
            owner, clause = owner[by_clause], same.ravel()[by_clause]
            repeated = np.zeros(len(owner), np.bool_)
            repeated[1:] = (clause[1:] == clause[:-1]) & (owner[1:] == owner[:-1])
            owner, clause = owner[~repeated], clause[~repeated]
            owner_sizes = np.bincount(clause, minlength=len(firsts))
        else:
            owner_sizes = np.ones(len(owner), np.int64)
        axes, first, last = Axes.fit(start, column, low, high, len(columns))
        codes = axes.codes
        sequence = order(start, column, first, last, codes, LINE_BITS)
        sizes, entries = _taken(start, sequence)
        start, column, low, high = _starts(sizes), column[entries], low[entries], high[entries]
        first, last = first[entries], last[entries]
        if len(open_start) > 1:
            sizes, opens = _taken(open_start, sequence)
            open_start, open_predicate = _starts(sizes), open_predicate[opens]
        owner_sizes, owners = _taken(_starts(owner_sizes), sequence)
        owner = owner[owners]
        entry_start, entry_column, entry_offset = block_entries(start, column, first, last, codes, axes.rows)
        blocks = len(entry_start) - 1
        table = np.zeros(entry_offset[-1], np.uint64)
        summary = np.full((axes.row_start[-1] + len(columns), max(1, -(-blocks // 64))), ~np.uint64(0))
        fill(
            start, column, low, high, first, last, axes.row_start, axes.row_of_code, codes, axes.bucketed, axes.rows,
            entry_start, entry_column, entry_offset, table, summary,
        )  # fmt: skip
        return Segment(
            columns=columns,
            texts=texts,
            axes=axes,
            start=start,
            column=column,
            low=low,
            high=high,
            owner_start=_starts(owner_sizes),
            owner=owner,
            open_start=open_start,
            open_predicate=open_predicate,
            predicates=predicates,
            entry_start=entry_start,
            entry_column=entry_column,
            entry_offset=entry_offset,
            table=table,
            summary=summary,
            alive=_bits(np.arange(len(start) - 1), blocks),
            doubtful=_bits(_several(start, column, axes.bucketed), blocks),
            repeats=len(np.unique(owner)) < len(owner),
        )

    # --- matching ---------------------------------------------------------------------------------------------------

    def match(self, batch: Batch, dead: NDArray[np.uint8], some_dead: bool) -> Rows:
        """The living owners of the clauses that hold, per publication."""
        plain = not (some_dead or self.repeats or len(self.open_start) > 1)  # every hit is a match of all its owners
        parts: list[Rows] = []
        begin, size = 0, _FIRST_BATCH
        while begin < batch.length or not parts:
            end = min(begin + size, batch.length)
            runs, hits = self._select(batch, begin, end, plain)
            if plain:
                parts.append(rows_of_runs(end - begin, runs, hits))
            else:
                if len(self.open_start) > 1:
                    self._settle(batch, begin, runs, hits)
                stamps = np.zeros(len(dead), np.int32) if self.repeats else _NO_STAMPS
                parts.append(owners_of_hits(end - begin, runs, hits, self.owner_start, self.owner, dead, stamps))
            size = max(16, min(_BATCH, _HITS * (end - begin) // (2 * len(hits) + 1)))  # so many that hits fit the cache
            begin = end
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.diff(start) for start, _ in parts])
        return _starts(sizes), np.concatenate([owners for _, owners in parts])

    def _select(
        self, batch: Batch, begin: int, end: int, as_owners: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The clauses whose ranges hold for publications begin … end, or their owners, as the kernel's runs, hits."""
        value, code, row, lists = self._encoded(batch, begin, end)
        list_start, list_code, list_row, list_value = lists
        axes = self.axes
        blocks = len(self.entry_start) - 1
        top = axes.row_start[:-1] + np.arange(len(self.columns))
        admitted = admit_blocks(self.summary, top, code, list_start, list_code, blocks)
        tile = _tile(self.table.nbytes // max(blocks, 1))
        edges = self.owner_start[np.minimum(np.arange(0, blocks + tile, tile) * LINE_BITS, self.clauses)]
        room = max(int(np.diff(edges).max(initial=0)), tile * LINE_BITS)
        parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
        next_tile = next_publication = written = 0
        while next_tile < blocks:
            hits = np.empty(max(_HITS, 2 * room), np.int32)
            runs = np.empty((4 * (end - begin) + 1024, 3), np.int64)
            next_tile, next_publication, n, noted = select(
                admitted, row, code, value, list_start, list_row, list_value,
                self.entry_start, self.entry_column, self.entry_offset, self.table, axes.bucketed,
                self.alive, self.doubtful, self.start, self.column, self.low, self.high,
                self.owner_start, self.owner, as_owners, room, tile, next_tile, next_publication, hits, runs,
            )  # fmt: skip
            runs[:noted, 1:] += written
            parts.append((runs[:noted], hits[:n]))
            written += n
        if len(parts) == 1:
            return parts[0]
        all_runs = np.concatenate([runs for runs, _ in parts]) if parts else np.empty((0, 3), np.int64)
        return all_runs, np.concatenate([hits for _, hits in parts]) if parts else np.empty(0, np.int32)

    def _encoded(self, batch: Batch, begin: int, end: int) -> tuple[Any, Any, Any, Any]:
        """The batch on this segment's axes: points, codes, rows, and the same for lists of points."""
        size, axes = end - begin, self.axes
        value = np.empty((size, len(self.columns)))
        starts, points_of_lists, lists_of = [0], [], []
        for c, column in enumerate(self.columns):
            points = batch.points(column)
            if points is None:
                value[:, c] = np.nan
            elif isinstance(points, Many):
                value[:, c] = np.nan
                offsets = points.offsets[begin : end + 1]
                flat = self._numeric(c, points.points, int(offsets[0]), int(offsets[-1]))
                lists_of.append((c, len(starts) - 1, starts[-1]))
                starts.extend((offsets[1:] - offsets[0] + starts[-1]).tolist())
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
            encode_lists(c, flat, axes.cuts, axes.row_start, axes.row_of_code, list_code[here], list_row[here])
            code[:, c] = -2 - number - np.arange(size)
        return value, code, row, (np.array(starts, np.int64), list_code, list_row, list_value)

    def _numeric(self, c: int, points: Any, begin: int, end: int) -> NDArray[np.float64]:
        """Doubles as they are, texts as their rank among the constants."""
        texts = self.texts.get(c)
        if texts is None:
            doubles: NDArray[np.float64] = points[begin:end]
            return doubles
        offsets, letters, valid = text_buffers(points[begin:end])
        ranks: NDArray[np.float64] = text_ranks(offsets, letters, valid, texts.offsets, texts.letters)
        return ranks

    def _settle(self, batch: Batch, begin: int, runs: NDArray[np.int64], hits: NDArray[np.int32]) -> None:
        """Refute, by writing −1, the hits whose remaining predicates do not hold."""
        publication, position = open_hits(runs, hits, self.open_start)
        sizes, opens = _taken(self.open_start, hits[position])
        which, hit, rows = self.open_predicate[opens], np.repeat(position, sizes), np.repeat(publication, sizes) + begin
        if not len(which):
            return
        pairs = np.stack([which.astype(np.int64), rows], axis=1)
        distinct, same = np.unique(pairs, axis=0, return_inverse=True)
        held = np.empty(len(distinct), np.bool_)
        kinds: dict[type[Predicate], list[int]] = {}
        predicates = [_predicate(self.predicates[w]) for w in distinct[:, 0]]
        for i, predicate in enumerate(predicates):
            kinds.setdefault(type(predicate), []).append(i)
        for kind, mine in kinds.items():
            held[mine] = kind.settle([predicates[i] for i in mine], [batch.row(int(distinct[i, 1])) for i in mine])
        hits[hit[~held[same.ravel()]]] = -1


#: The arrays of a segment and of its axes that are saved as they are.
ARRAYS = (
    "start", "column", "low", "high", "owner_start", "owner", "open_start", "open_predicate", "entry_start",
    "entry_column", "entry_offset", "table", "summary", "alive", "doubtful",
)  # fmt: skip
AXES = ("cuts", "row_start", "row_of_code", "rows", "bucketed")


def _tile(block_bytes: int) -> int:
    """How many blocks to take together: a power of two, at most 64, whose tables fit the cache."""
    tile = 64
    while tile > 1 and tile * block_bytes > _TILE_BYTES:
        tile //= 2
    return tile


def _starts(sizes: NDArray[Any]) -> NDArray[np.int64]:
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def _taken(start: NDArray[np.int64], rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes and flat positions of some rows of a ragged array."""
    sizes = start[rows + 1] - start[rows]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return sizes, np.arange(total) + np.repeat(start[rows] - (ends - sizes), sizes)


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
