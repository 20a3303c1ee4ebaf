"""``topk(k, window, score)``: a publication is notified once, when it first is one of the k best in the window.

That is when it arrives, or later, when better ones expire; this takes only the clock and no new publication.
Semantics of the OpenIoT deliverable D4.5.1, §2.2.2. The algorithm is described in ``kernels/topk.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.score import LANES, STEP
from tidegate.kernels.topk import step_topk
from tidegate.kernels.tracked import FOREVER
from tidegate.kernels.window import window_items, window_scores
from tidegate.language.limits import Limits
from tidegate.language.tree import Call, Literal
from tidegate.patterns.arrays import Arrays, Growing
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.pattern import NEVER, Admission, Family, FamilyResult, Parts, family
from tidegate.patterns.reason import UNSEEN, Asked, Coming, Reason
from tidegate.patterns.score import program
from tidegate.patterns.topk_reason import RankedWindow, rank_reason, seen_reason
from tidegate.patterns.windows import span, whole
from tidegate.predicates.column import Column

__all__ = ["TopK"]

#: How many publications a subscription may track: so many times k, and some more.
_TIMES, _MORE = 4, 8
#: The most that a subscription tracks; beyond that the shared window in memory is read again instead.
_MOST_TRACKED = 1 << 20
_NO_FILTERS, _NO_PAIRS = np.empty(0, np.int32), np.empty(0, np.int64)


@dataclass
class _Derived:
    """What is worked out from the arrays when it is needed: the groups of filter f are
    ``filter_group[of_filter[f]:of_filter[f + 1]]``, and windows of time of a block, and of all, begin to expire at
    ``block_due`` and ``first_due``, or later.
    """

    of_filter: NDArray[np.int64]
    filter_group: NDArray[np.int64]
    block_due: NDArray[np.int64]
    first_due: int


@family
class TopK(Family):
    """All ``topk`` subscriptions of a shard."""

    name = "topk"
    arity = (3, 3)
    example = "no2 > 40 AND topk(10, 'PT24H', distance(location, POINT(15.977 45.815)))"

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        super().__init__(arrays, memory)

        def numbers(*names: str) -> list[Growing]:
            return [arrays.get(f"topk-{name}", np.int64) for name in names]

        # by slot
        self._form, self._filter, self._k, self._width = numbers("form", "filter", "k", "width")
        self._base, self._count, self._room, self._last = numbers("base", "count", "room", "last")
        self._wants = arrays.get("topk-wants", np.uint8)
        (self._number_end,) = numbers("number_end")
        self._number = arrays.get("topk-number", np.float64)
        # what they track
        self._score, self._told = arrays.get("topk-score", np.float64), arrays.get("topk-told", np.uint8)
        self._item, self._when = numbers("item", "when")
        # side by side, in blocks of one filter and one form
        self._slot_at, self._due, self._block_first = numbers("slot_at", "due", "block_first")
        self._group_filter, self._group_form, self._group_block = numbers("group_filter", "group_form", "group_block")
        self._bar, self._numbers = arrays.get("topk-bar", np.float64), arrays.get("topk-numbers", np.float64, 0)
        self._least, self._most = arrays.get("topk-least", np.float64, 0), arrays.get("topk-most", np.float64, 0)
        self._programs: tuple[int, tuple[Any, ...]] = (-1, ())
        self._derived: _Derived | None = None

    # --- language ---------------------------------------------------------------------------------------------------

    @classmethod
    def compile(cls, call: Call, limits: Limits) -> Parts:
        k, window, score = call.args
        best = whole(k, "k of topk", limits.k, "k")
        counted = isinstance(window, Literal) and not isinstance(window.value, str)
        if counted:
            width = whole(window, "window of topk", limits.window_count, "window_count")
        else:
            width = span(window, "topk", limits)
        made = program(score)
        columns = [column.plain() for column in made.columns]
        form = orjson.dumps({"counted": counted, "columns": columns, "steps": made.steps}).decode()
        return Parts(form, (best, width, *made.numbers), ())

    @classmethod
    def columns(cls, form: str) -> tuple[Column, ...]:
        return tuple(Column.restored(*plain) for plain in orjson.loads(form)["columns"])

    @classmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        return (0, int(numbers[1])) if orjson.loads(form)["counted"] else (int(numbers[1]), 0)

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def add(self, admissions: Sequence[Admission]) -> None:
        forms = self.arrays.facts.topk_forms
        known = {form: number for number, form in enumerate(forms)}
        for form in dict.fromkeys(a.form for a in admissions):
            if form not in known:
                known[form] = len(forms)
                forms.append(form)
                self.memory.want(self.columns(form))
        n = len(self._enter(admissions))
        best = np.array([int(a.numbers[0]) for a in admissions], np.int64)
        room = _TIMES * best + _MORE
        pool = self._score.length
        columns = [
            (self._form, [known[a.form] for a in admissions]),
            (self._filter, [a.filters[0] for a in admissions]),
            (self._k, best),
            (self._width, [int(a.numbers[1]) for a in admissions]),
            (self._base, pool + np.cumsum(room) - room),
            (self._count, np.zeros(n)),
            (self._room, room),
            (self._last, np.full(n, LONG_AGO)),
            (self._wants, np.zeros(n)),
        ]
        for array, values in columns:
            array.extend(np.array(values, array.data.dtype))
        self._pool(int(room.sum()))
        given = [a.numbers[2:] for a in admissions]
        self._number_end.extend(np.cumsum([len(numbers) for numbers in given]) + self._number.length)
        self._number.extend(np.array([number for numbers in given for number in numbers], np.float64))
        self._slot_at.extend(np.arange(self.owner.length - n, self.owner.length))
        self._bar.extend(np.full(n, np.inf))
        self._due.extend(np.full(n, FOREVER))
        self._arrange()

    def filters(self) -> NDArray[np.int64]:
        return self._group_filter.used

    def _pool(self, more: int) -> None:
        for array in (self._score, self._item, self._when, self._told):
            array.reserve(more)
            array.length += more
        self._item.data[self._item.length - more : self._item.length] = -1

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = self._others(slots)
        place = np.cumsum(kept) - 1
        there = kept[self._slot_at.used]
        for array in (self._bar, self._due):
            array.replace(array.used[there])
        self._slot_at.replace(place[self._slot_at.used[there]])
        ends = self._number_end.used
        sizes = np.diff(ends, prepend=0)
        self._number.replace(self._number.used[np.repeat(kept, sizes)])
        self._number_end.replace(np.cumsum(sizes[kept]))
        bases, rooms = self._base.used[kept], self._room.used[kept]
        for array in (self._form, self._filter, self._k, self._width, self._count, self._room, self._last, self._wants):
            array.replace(array.used[kept])
        self._base.replace(bases)
        self._leave(kept)
        if 2 * rooms.sum() < self._score.length:
            self._repack(rooms)
        self._arrange()

    def _repack(self, rooms: NDArray[np.int64]) -> None:
        """Lay out anew what subscriptions track, each with so much room; what belongs to no subscription is dropped."""
        bases = np.cumsum(rooms) - rooms
        counts = self._count.used
        inner = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        source, target = np.repeat(self._base.used, counts) + inner, np.repeat(bases, counts) + inner
        for array, fill in ((self._score, 0), (self._item, -1), (self._when, 0), (self._told, 0)):
            fresh = np.full(int(rooms.sum()), fill, array.data.dtype)
            fresh[target] = array.used[source]
            array.replace(fresh)
        self._base.replace(bases)
        self._room.replace(rooms)

    def _arrange(self) -> None:
        """Lay subscriptions side by side: by form, by filter, and so that neighbours have similar numbers."""
        slots, n = self._slot_at.used, self._slot_at.length
        ends = self._number_end.used
        sizes = np.diff(ends, prepend=0)
        width = int(sizes.max(initial=0))
        table = np.zeros((n, width))
        rows = np.repeat(np.arange(n), sizes)
        table[rows, np.arange(len(rows)) - np.repeat(ends - sizes, sizes)] = self._number.used
        form, filter = self._form.used[slots], self._filter.used[slots]
        order = np.lexsort((_nearness(table[slots]), filter, form))
        slots, form, filter = slots[order], form[order], filter[order]
        bar, due = self._bar.used[order], self._due.used[order]
        is_first = np.ones(n, np.bool_)
        is_first[1:] = (form[1:] != form[:-1]) | (filter[1:] != filter[:-1])
        groups = np.flatnonzero(is_first)
        lengths = np.diff(np.append(groups, n))
        blocks = -(-lengths // LANES)
        block = np.cumsum(blocks) - blocks
        inner = np.arange(blocks.sum()) - np.repeat(block, blocks)
        first = np.append(np.repeat(groups, blocks) + inner * LANES, n).astype(np.int64)
        table = np.ascontiguousarray(table[slots].T)
        self._derived = None
        self._slot_at.replace(slots)
        self._bar.replace(bar)
        self._due.replace(due)
        self._numbers.replace(table)
        self._group_filter.replace(filter[groups])
        self._group_form.replace(form[groups])
        self._group_block.replace(np.append(block, blocks.sum()).astype(np.int64))
        self._block_first.replace(first)
        for array, bound in ((self._least, np.minimum), (self._most, np.maximum)):
            cells = bound.reduceat(table, first[:-1], axis=1) if n and width else np.zeros((width, len(first) - 1))
            array.replace(np.ascontiguousarray(cells.T))

    def _compiled(self) -> tuple[Any, ...]:
        """The programs of all forms, with columns by their place in memory."""
        forms = self.arrays.facts.topk_forms
        if self._programs[0] != len(forms):
            place = {column: number for number, column in enumerate(self.memory.columns)}
            starts, steps, counted, column_start, columns = [0], [], [], [0], []
            for form in forms:
                facts, mine = orjson.loads(form), [place[c] for c in self.columns(form)]
                for op, column, number, *more in facts["steps"]:
                    more = [mine[m] for m in more] if any(more) else more
                    steps.append([op, mine[column], number, *more])
                starts.append(len(steps))
                counted.append(facts["counted"])
                columns += mine
                column_start.append(len(columns))
            arrays = (
                np.array(starts, np.int64),
                np.array(steps, np.int32).reshape(len(steps), STEP),
                np.array(counted, np.uint8),
                np.array(column_start, np.int64),
                np.array(columns, np.int32),
            )
            self._programs = (len(forms), arrays)
        return self._programs[1]

    # --- publications -----------------------------------------------------------------------------------------------

    def step(self, step: Step) -> FamilyResult:
        return self._run(step.strict, LONG_AGO, step.filters, step.filter_start, step.by_filter, step.before)

    @property
    def due(self) -> int:
        return self._arranged().first_due if self.owner.length else NEVER

    def advance(self, clock: int) -> FamilyResult | None:
        return self._run(False, clock, _NO_FILTERS, _NO_PAIRS, _NO_PAIRS, _NO_PAIRS)

    def _arranged(self) -> _Derived:
        """What follows from how the groups lie, and from when what they track expires."""
        if self._derived is None:
            filters, n = self._group_filter.used, self._group_filter.length
            counts = np.bincount(filters, minlength=1)
            counted = self._compiled()[2][self._group_form.used] == 1
            firsts, blocks = self._block_first.used[:-1], np.diff(self._group_block.used)
            due = np.minimum.reduceat(self._due.used, firsts) if n else np.empty(0, np.int64)
            due[np.repeat(counted, blocks)] = FOREVER
            self._derived = _Derived(
                np.concatenate(([0], np.cumsum(counts))), np.argsort(filters, kind="stable"), due,
                int(due.min(initial=FOREVER)),
            )  # fmt: skip
        return self._derived

    def _run(
        self, strict: bool, clock: int, filters: NDArray[np.int32],
        start: NDArray[np.int64], by_filter: NDArray[np.int64], before: NDArray[np.int64],
    ) -> FamilyResult:  # fmt: skip
        memory, arranged = self.memory, self._arranged()
        slot, moment, item, score, unscored, is_wanting, first_due = step_topk(
            strict, clock, arranged.first_due, filters, start, by_filter, before,
            memory.head.data, memory.values.data, memory.time.data, memory.version.data,
            memory.pair_item.data, memory.pair_before.data, memory.pair_number.data,
            arranged.of_filter, arranged.filter_group,
            self._group_filter.used, self._group_form.used, self._group_block.used, *self._compiled(),
            self._block_first.used, arranged.block_due, self._least.used, self._most.used,
            self._slot_at.used, self._numbers.used, self._bar.data, self._due.data,
            self.since.used, self.until.used, self.end.used, self.closing.used,
            self._k.data, self._width.data, self._base.data, self._count.data,
            self._room.used, self._wants.data, self._last.data,
            self._score.data, self._item.data, self._when.data, self._told.data,
        )  # fmt: skip
        arranged.first_due = int(first_due)
        if unscored:
            self.arrays.facts.count("unscored", int(unscored))
        if is_wanting:
            self._widen()
        return FamilyResult.single(slot, moment, item, score)

    def _widen(self) -> None:
        """Give more room to those that had to read the window again too soon: scores that only rise, say."""
        wants = self._wants.used.astype(np.bool_)
        rooms = self._room.used.copy()
        rooms[wants] = np.maximum(rooms[wants], np.minimum(2 * rooms[wants], _MOST_TRACKED))
        self._wants.used[:] = 0
        self._repack(rooms)

    def items(self) -> list[NDArray[np.int64]]:
        used = np.zeros(self._item.length, np.bool_)
        counts = self._count.used
        inner = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        used[np.repeat(self._base.used, counts) + inner] = True
        self._item.used[~used] = -1
        return [self._item.used]

    @property
    def counts(self) -> dict[str, int]:
        return {"unscored": self.arrays.facts.counts.get("unscored", 0)}

    # --- reasons ----------------------------------------------------------------------------------------------------

    def reason(self, slot: int, coming: Coming, asked: Asked) -> Reason:
        if not coming.passes(int(self._filter.used[slot])):
            return Reason(UNSEEN, {}, False)
        score = float(self._scores(slot, coming.arrival.values, np.zeros(1, np.int64))[0])
        clock = self.arrays.facts.clock
        if coming.is_late and coming.place >= 0 and clock is not None:
            window = self._ranked(slot, clock, others=0)
            return seen_reason(window, score, coming.place, self._was_told(slot, coming.place), clock, coming.time)
        found = rank_reason(self._ranked(slot, coming.time, others=1), score, coming.time, int(self.closing.used[slot]))
        if coming.place < 0 or (told := self._was_told(slot, coming.place)) is None:
            return found
        return found._replace(text=f"{found.text}; it was {'' if told else 'not '}told when it came before")

    def _scores(self, slot: int, values: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The scores of rows of values for a subscription; not finite where there is none."""
        form = int(self._form.used[slot])
        starts, steps = self._compiled()[:2]
        place = int(np.flatnonzero(self._slot_at.used == slot)[0])
        found: NDArray[np.float64] = window_scores(
            steps[starts[form] : starts[form + 1]], values, rows, self._numbers.used, place
        )
        return found

    def _ranked(self, slot: int, now: int, others: int) -> RankedWindow:
        """The window of a subscription at a moment; a counted one has room for so many other publications."""
        memory, width = self.memory, int(self._width.used[slot])
        counted = bool(self._compiled()[2][self._form.used[slot]])
        oldest, most = (LONG_AGO, width - others) if counted else (now - width, NEVER)
        places = window_items(
            memory.head.data[self._filter.used[slot]], NEVER, oldest, most, self.since.used[slot],
            self.until.used[slot], memory.time.data, memory.version.data, memory.pair_item.data,
            memory.pair_before.data,
        )  # fmt: skip
        scores = self._scores(slot, memory.values.data, places)
        return RankedWindow(int(self._k.used[slot]), width, counted, places, scores)

    def _was_told(self, slot: int, place: int) -> bool | None:
        """Whether a subscription was told of a publication; None if that is not known any more."""
        base = int(self._base.used[slot])
        tracked = slice(base, base + int(self._count.used[slot]))
        at = np.flatnonzero(self._item.used[tracked] == place)
        return bool(self._told.used[tracked][at[0]]) if len(at) else None


def _nearness(table: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A number per row, close for rows that are close: the bits of the columns' ranks, interleaved."""
    n, width = table.shape
    code = np.zeros(n, np.uint64)
    varying = [c for c in range(width) if n and (table[:, c] != table[0, c]).any()][:12]
    if not varying:
        return code
    bits = min(16, 60 // len(varying))
    ranks = [np.argsort(np.argsort(table[:, c], kind="stable")) * (2**bits - 1) // n for c in varying]
    for bit in range(bits):
        for place, rank in enumerate(ranks):
            taken = (rank.astype(np.uint64) >> np.uint64(bit)) & np.uint64(1)
            code |= taken << np.uint64(bit * len(varying) + place)
    return code
