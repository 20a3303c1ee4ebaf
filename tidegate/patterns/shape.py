"""``shape(value, (…), 'stream') <= ε``: the last readings of a source come near a shape.

What Manassiev and Jacobsen (2004, §5) leave as future work: shapes in streams of single numbers. For a subscription and
a source, the *readings* are the publications that pass the conditions beside the pattern and have a finite number in
the attribute, in order of time and id. From the n-th on, each closes a window of the last n; a window's distance is
that of its normal form and the shape's, as ``shape`` of a whole series has it, and a constant window is far from every
shape. An *excursion* is a run of windows that are near, as long as it can be. It raises a notification when the first
window after it is far, because only then its best is known: the reading that closed the nearest window (the first of
them), that window's distance, and the time of the reading that ended the run. The readings of one source in one group
of subscriptions are a *track*. The algorithm is described in ``kernels/excursion.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.excursion import (
    DONE,
    FEATURES,
    FREE,
    LANES,
    NO_EXCURSIONS,
    NO_POOL,
    ROWS,
    SLACK,
    TOLD,
    WASTE,
    features_of,
    link_excursions,
    step_excursions,
)
from tidegate.kernels.hash_table import place_all
from tidegate.kernels.tracks import TrackSlabs, pack_tracks
from tidegate.language.limits import Limits
from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Call, Literal, Node
from tidegate.patterns.arrays import Arrays, Growing
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.pattern import NEVER, NOTHING_RAISED, Admission, Family, FamilyResult, Parts, family
from tidegate.patterns.reason import UNSEEN, Asked, Coming, Reason, id_of
from tidegate.patterns.shape_reason import Excursion, ShapeCondition, window_reason
from tidegate.predicates.column import Column, column
from tidegate.predicates.comparison import kind_of
from tidegate.predicates.family import MEASURES, Mismatch
from tidegate.predicates.scalar import ARITHMETIC, evaluate
from tidegate.predicates.shape import asked
from tidegate.shapes.normal_form import normal

__all__ = ["ShapePattern"]

#: Room of a track at first, and room that is made for tracks and readings when there is none.
_SMALL, _MORE = 16, 1024
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@family
class ShapePattern(Family):
    """All shapes that the subscriptions of a shard look for in streams, and the last readings of each source."""

    name = "shape"
    ops = ("<=", "<", ">=", ">", "=", "<>", "between", "in")
    arity = (2, 3)
    example = "shape(temperature, (1, 2, 4, 3, 1), 'stream') <= 0.5"

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        super().__init__(arrays, memory)

        def numbers(*names: str) -> list[Growing]:
            return [arrays.get(f"shape-{name}", np.int64) for name in names]

        # by slot
        self._group, self._length, self._first = numbers("group", "length", "first")
        self._limit, self._strict = arrays.get("shape-limit", np.float64), arrays.get("shape-strict", np.uint8)
        self._series = arrays.get("shape-series", np.float64)
        self._features = arrays.get("shape-features", np.float64, FEATURES)
        # groups: subscriptions that have the same filter and the same attribute
        self._filter, self._column, self._longest = numbers("filter", "column", "longest")
        self._young, self._tracks_of = numbers("young", "tracks_of")
        # side by side, in bands of one group and one length
        self._of_filter, self._filter_group, self._group_band = numbers("of_filter", "filter_group", "group_band")
        self._band_length, self._band_place, self._band_block = numbers("band_length", "band_place", "band_block")
        self._slot_at, self._place_of, self._block_of = numbers("slot_at", "place_of", "block_of")
        self._cells = arrays.get("shape-cells", np.float64, ROWS * LANES)
        # tracks
        self._of, self._base, self._room, self._count = numbers("of", "base", "room", "count")
        self._peak, self._tangle, self._open = numbers("peak", "tangle", "open")
        self._source = arrays.get("shape-source", np.uint64, 2)
        (self._table,) = numbers("table")
        self._value, self._version = arrays.get("shape-value", np.float64), arrays.get("shape-version", np.int64)
        # excursions
        self._slot, self._track, self._next, self._item = numbers("slot", "track", "next", "item")
        self._best = arrays.get("shape-best", np.float64)
        (self._marks,) = numbers("marks")
        if not self._marks.length:
            self._marks.extend(np.array([0, -1, 0], np.int64))
        self._bands: tuple[int, tuple[Any, ...]] = (-1, ())

    @property
    def _tracks(self) -> tuple[Growing, ...]:
        return self._of, self._source, self._base, self._room, self._count, self._peak, self._tangle, self._open

    @property
    def _excursions(self) -> tuple[Growing, ...]:
        return self._slot, self._track, self._next, self._item, self._best

    # --- language ---------------------------------------------------------------------------------------------------

    @classmethod
    def claims(cls, call: Call) -> bool:
        return any(type(arg) is Call and arg.op == "shape" and _is_stream(arg) for arg in call.args)

    @classmethod
    def compile(cls, call: Call, limits: Limits) -> Parts:
        inner, bound = call.args[:2]
        op = call.op
        if not (isinstance(inner, Call) and inner.op == "shape"):
            inner, bound, op = bound, inner, _MIRRORED.get(op, op)
        if op not in ("<=", "<") or not isinstance(inner, Call):
            raise Mismatch("<= or < between shape(…, 'stream') and its tolerance", op.upper(), call)
        least, most = MEASURES["shape"].arity
        if not least <= len(inner.args) <= most:
            raise Mismatch(f"{least} to {most} arguments of shape", f"{len(inner.args)}", inner)
        limit = _tolerance(bound)
        about = asked(inner)
        series = normal(about.values)
        assert series is not None, "a series of finite numbers that is not constant has a normal form"
        form = orjson.dumps({"attribute": about.attribute, "strict": op == "<"}).decode()
        given = Call("not", (Call("isNull", (Attribute(about.attribute, inner.at),), inner.at),), inner.at)
        return Parts(form, (limit, *series.tolist()), (given,))

    @classmethod
    def columns(cls, form: str) -> tuple[Column, ...]:
        return (column("number", orjson.loads(form)["attribute"]),)

    @classmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        return 0, 0  # the tracks hold all that is needed, so memory need keep nothing

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def add(self, admissions: Sequence[Admission]) -> None:
        facts = {form: orjson.loads(form) for form in {a.form for a in admissions}}
        columns = {form: self.columns(form)[0] for form in facts}
        self.memory.want(columns[a.form] for a in admissions)
        place = {wanted: number for number, wanted in enumerate(self.memory.columns)}
        pairs = zip(self._filter.used.tolist(), self._column.used.tolist(), strict=True)
        known = {pair: group for group, pair in enumerate(pairs)}
        groups = []
        for a in admissions:
            pair = (a.filters[0], place[columns[a.form]])
            if pair not in known:
                known[pair] = len(known)
                fresh = zip(
                    (self._filter, self._column, self._longest, self._young, self._tracks_of),
                    (*pair, 0, LONG_AGO, 0),
                    strict=True,
                )
                for array, value in fresh:
                    array.extend(np.full(1, value, np.int64))
            groups.append(known[pair])
        self._enter(admissions)
        shapes = [np.array(a.numbers[1:], np.float64) for a in admissions]
        lengths = np.array([len(shape) for shape in shapes], np.int64)
        self._group.extend(np.array(groups, np.int64))
        self._length.extend(lengths)
        self._first.extend(self._series.length + np.cumsum(lengths) - lengths)
        self._limit.extend(np.array([a.numbers[0] for a in admissions], np.float64))
        self._strict.extend(np.array([facts[a.form]["strict"] for a in admissions], np.uint8))
        self._series.extend(np.concatenate(shapes))
        features = np.empty((len(shapes), FEATURES))
        for shape, row in zip(shapes, features, strict=True):
            features_of(shape, row)
        self._features.extend(features)
        np.maximum.at(self._young.used, groups, [a.since for a in admissions])
        if not self._table.length:
            self._place(0)
        self._arrange()

    def filters(self) -> NDArray[np.int64]:
        return self._filter.used

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = self._others(slots)
        self._series.replace(self._series.used[np.repeat(kept, self._length.used)])
        for array in (self._group, self._length, self._limit, self._strict, self._features):
            array.replace(array.used[kept])
        self._first.replace(np.cumsum(self._length.used) - self._length.used)
        self._leave(kept)
        there = self._slot.used >= 0
        there[there] = kept[self._slot.used[there]]
        if not there.all():
            for array in self._excursions:
                array.replace(array.used[there])
            self._slot.replace((np.cumsum(kept) - 1)[self._slot.used])
            self._marks.used[FREE] = -1
            link_excursions(self._open.used, self._track.used, self._next.used)
        elif len(there):
            self._slot.replace((np.cumsum(kept) - 1)[self._slot.used])
        self._sweep()
        self._arrange()

    def _sweep(self) -> None:
        """Remove groups without subscriptions, and their tracks, once these are half of all groups and tracks."""
        live = np.bincount(self._group.used, minlength=self._filter.length) > 0
        dead = self._tracks_of.used[~live]
        if 2 * (int(dead.sum()) + len(dead)) <= self._of.length + len(live):
            return
        place = np.cumsum(live) - 1
        self._group.replace(place[self._group.used])
        kept = live[self._of.used]
        for array in self._tracks:
            array.replace(array.used[kept])
        self._of.replace(place[self._of.used])
        self._track.replace((np.cumsum(kept) - 1)[self._track.used])
        for array in (self._filter, self._column, self._longest, self._young, self._tracks_of):
            array.replace(array.used[live])
        self._pack()
        self._place(0)

    def _arrange(self) -> None:
        """Lay subscriptions side by side: by group, and by the length of their windows."""
        n, groups = self.owner.length, self._filter.length
        slots = np.lexsort((self._length.used, self._group.used))
        group, length = self._group.used[slots], self._length.used[slots]
        is_first = np.ones(n, np.bool_)
        is_first[1:] = (group[1:] != group[:-1]) | (length[1:] != length[:-1])
        band = np.append(np.flatnonzero(is_first), n)
        blocks = -(-np.diff(band) // LANES)
        block = np.concatenate(([0], np.cumsum(blocks)))
        inner = np.arange(n) - np.repeat(band[:-1], np.diff(band))
        block_of = np.repeat(block[:-1], np.diff(band)) + inner // LANES
        features, limit = self._features.used[slots], self._limit.used[slots]
        with np.errstate(over="ignore"):
            reach = limit * limit * (1 + SLACK) + SLACK * length
        cells = np.zeros((int(block[-1]), ROWS, LANES))
        cells[:, FEATURES] = inf  # lanes without a subscription
        cells[block_of, :FEATURES, inner % LANES] = features
        cells[block_of, FEATURES, inner % LANES] = ((features * features).sum(axis=1) - reach) / 2
        place_of = np.empty(n, np.int64)
        place_of[slots] = np.arange(n)
        self._longest.used[:] = 0
        np.maximum.at(self._longest.used, group, length)
        live = np.flatnonzero(self._longest.used)
        by_filter = live[np.argsort(self._filter.used[live], kind="stable")]
        filters = np.bincount(self._filter.used[live], minlength=1)
        for array, rows in (
            (self._slot_at, slots),
            (self._place_of, place_of),
            (self._block_of, block_of),
            (self._band_length, length[band[:-1]]),
            (self._band_place, band),
            (self._band_block, block),
            (self._group_band, np.searchsorted(group[band[:-1]], np.arange(groups + 1))),
            (self._of_filter, np.concatenate(([0], np.cumsum(filters)))),
            (self._filter_group, by_filter),
            (self._cells, cells.reshape(len(cells), ROWS * LANES)),
        ):
            array.replace(rows)

    # --- room -------------------------------------------------------------------------------------------------------

    def _place(self, more: int) -> None:
        """Make room for so many more tracks, and build the hash table in which the kernel finds them."""
        for array in self._tracks:
            array.reserve(more)
        size = 1 << (4 * (self._of.length + more) + 16).bit_length()
        self._table.replace(np.full(size, -1))
        place_all(self._table.used, self._of.used, self._source.used)

    def _pack(self) -> None:
        """Move the readings of all tracks together, so that no room is wasted between them."""
        tracks = (self._of, self._base, self._room, self._count, self._tangle)
        end = pack_tracks(
            np.argsort(self._base.used), self._longest.used, self.until.used.min(initial=NEVER),
            TrackSlabs(*(array.used for array in tracks)), self._value.data, self._version.data,
        )  # fmt: skip
        self._value.length = self._version.length = int(end)
        self._marks.used[WASTE] = 0

    def _make_room(self, reason: int) -> None:
        if reason == NO_EXCURSIONS:
            for array in self._excursions:
                array.reserve(self.owner.length)
        elif reason == NO_POOL:
            if 4 * self._marks.used[WASTE] > self._value.length:
                self._pack()
            longest = int(self._longest.used.max())
            for pool in (self._value, self._version):
                pool.reserve(2 * (longest + self._room.used.max(initial=0)) + _MORE)
        else:
            self._place(max(_MORE, self._of.length))

    # --- publications -----------------------------------------------------------------------------------------------

    def step(self, step: Step) -> FamilyResult:
        memory = self.memory
        longest, *bounds = self._of_bands()
        told, distances, at = [], [], (0, 0, 0)
        while at[0] < len(step.start) - 1:
            out, distance, tracks, pool, excursions, reason, *place = step_excursions(
                step.first_item, step.start, step.hits,
                memory.time.data, memory.version.data, memory.source.data, memory.values.data,
                longest, self._of_filter.used, self._filter_group.used,
                self._column.used, self._longest.used, self._young.used, self._tracks_of.used,
                self._group_band.used, self._band_length.used, self._band_place.used, self._band_block.used, *bounds,
                self._block_of.used, self._cells.used, self._slot_at.used, self._place_of.used,
                self.since.used, self.until.used, self.closing.used,
                self._limit.used, self._strict.used, self._first.used, self._series.used,
                _SMALL, self._table.used, self._of.length, self._of.data, self._source.data,
                self._base.data, self._room.data, self._count.data, self._peak.data, self._tangle.data, self._open.data,
                self._value.length, self._value.data, self._version.data,
                self._marks.used, self._slot.length, self._slot.data, self._track.data, self._next.data,
                self._item.data, self._best.data, *at,
            )  # fmt: skip
            if n := int(self._marks.used[TOLD]):
                told.append(out[:n])
                distances.append(distance[:n])
            for array in self._tracks:
                array.length = int(tracks)
            self._value.length = self._version.length = int(pool)
            for array in self._excursions:
                array.length = int(excursions)
            at = (int(place[0]), int(place[1]), int(place[2]))
            if reason != DONE:
                self._make_room(int(reason))
        if 2 * self._marks.used[WASTE] > self._value.length + _MORE:  # room that moved tracks have left
            self._pack()
        if not told:
            return NOTHING_RAISED
        slot, moment, item, raised = (np.ascontiguousarray(part) for part in np.concatenate(told).T)
        nothing, start = np.full(len(slot), np.nan), np.arange(len(slot) + 1)
        return FamilyResult(slot, moment, nothing, np.concatenate(distances), start, item, raised)

    def _of_bands(self) -> tuple[Any, ...]:
        """The length of the longest window, the bounds of versions of each band, and two arrays that the kernel uses;
        worked out anew when subscriptions change.
        """
        if self._bands[0] != self.changes:
            slots, bands = self._slot_at.used, self._band_place.used[:-1]
            self._bands = self.changes, (
                int(self._band_length.used.max(initial=0)),
                np.maximum.reduceat(self.since.used[slots], bands),
                np.minimum.reduceat(self.until.used[slots], bands),
                np.full(len(slots), -1),
                np.zeros(self._cells.length, np.int64),
            )  # fmt: skip
        return self._bands[1]

    def items(self) -> list[NDArray[np.int64]]:
        return [self._item.used]

    # --- reasons ----------------------------------------------------------------------------------------------------

    def reason(self, slot: int, coming: Coming, asked: Asked) -> Reason:
        group, n = int(self._group.used[slot]), int(self._length.used[slot])
        reading = float(coming.arrival.values[0, self._column.used[group]])
        if coming.is_late or not coming.passes(int(self._filter.used[group])) or not isfinite(reading):
            return Reason(UNSEEN, {}, False)
        before, excursion = self._track_of(slot, group, coming)
        first, strict = int(self._first.used[slot]), bool(self._strict.used[slot])
        sought = ShapeCondition(self._series.used[first : first + n].copy(), float(self._limit.used[slot]), strict)
        return window_reason(np.append(before[1 - n :], reading), sought, excursion, coming.raised > 0)

    def _track_of(self, slot: int, group: int, coming: Coming) -> tuple[NDArray[np.float64], Excursion | None]:
        """A subscription's own readings of the publication's source, and its excursion that goes on, if any."""
        tracks = np.flatnonzero((self._of.used == group) & coming.is_of(self._source.used))
        if not len(tracks):
            return np.empty(0), None
        track = tracks[0]
        readings = slice(self._base.used[track], self._base.used[track] + self._count.used[track])
        version = self._version.data[readings] >> 1
        own = (self.since.used[slot] <= version) & (version < self.until.used[slot])
        there = np.flatnonzero((self._slot.used == slot) & (self._track.used == track))
        found = [Excursion(float(self._best.used[e]), id_of(self.memory, int(self._item.used[e]))) for e in there]
        return self._value.data[readings][own], found[0] if found else None


def _is_stream(call: Call) -> bool:
    """Whether a shape is looked for in a stream."""
    return any(isinstance(arg, Literal) and arg.value == "stream" for arg in call.args[2:])


def _tolerance(node: Node) -> float:
    """A constant that is 0 or more."""
    is_number = isinstance(node, Literal) or (isinstance(node, Call) and node.op in ARITHMETIC)
    limit = float(evaluate(node, lambda name: np.nan)) if is_number and kind_of(node) == "number" else np.nan
    if np.isnan(limit):
        raise Mismatch("a number to compare shape with", to_text(node), node)
    if not 0 <= limit < inf:
        raise Mismatch("a tolerance of 0 or more", to_text(node), node)
    return limit
