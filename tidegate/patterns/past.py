"""``T_DURING(start, past(f))``, ``price < past(price, f, 200)``: publications against the events remembered before.

Temporal operators of Stevens, *Temporal Reasoning for Events in a Knowledge-Based Network* (2009), §4.3: DURING, AFTER
and FILTER, and beyond them all of Allen's relations, end points with a tolerance, negation and nesting. Where the
thesis scans rows of a database for every publication, each distinct inner filter keeps its events in lists that are
asked in a few steps however long they are (``kernels/boxes.py``). What an expression asks is worked out in
``patterns/past_compile.py``, what is done for a publication in ``kernels/past.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.boxes import BOX, COUNT, LEVELS, LOW, POINT, give_room, pack
from tidegate.kernels.hash_table import place_all
from tidegate.kernels.memory import texts_of
from tidegate.kernels.owners import text_hashes
from tidegate.kernels.past import (
    COMPARISONS,
    ENDED,
    EVENT,
    FLOOR,
    FREE,
    GONE,
    HELD,
    HOLD_AT,
    HOLD_OF,
    HOLDS,
    IS_OVER,
    KNOWN,
    LAST,
    LAST_OF,
    LIST_OF,
    LIST_ORDINAL,
    MARKS,
    OF,
    REFUSALS,
    RELATIONS,
    RUNNING,
    UNSURE,
    USED,
    WASTE,
    step_past,
    unhold,
)
from tidegate.language.limits import Limits
from tidegate.language.tree import Call
from tidegate.patterns.arrays import Arrays, Growing
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.past_compile import TIMES, compile_past, is_atom, is_past, planned
from tidegate.patterns.past_questions import LEFT, PastQuestions
from tidegate.patterns.pattern import NEVER, Admission, Family, FamilyResult, Parts, family
from tidegate.predicates.column import Column, Row

__all__ = ["Elder", "Fates", "Leaving", "Past"]

#: Points that are kept before it is worth to lay them anew.
_FEW = 16_384
#: Ends of a batch for which every list may well have room.
_FEW_ENDS = 32


class Fates(NamedTuple):
    """What became of the publications of a batch: 0 nothing, 1 an event began, 2 one ended, less than 0 why refused.

    ``number`` is the number a publication was remembered under, ``first`` that of the one its event began with;
    ``times`` are start and end of its event, NaN while it has none.
    """

    hash: NDArray[np.uint64]
    """128 bits of id and phase."""
    fate: NDArray[np.int8]
    number: NDArray[np.int64]
    first: NDArray[np.int64]
    times: NDArray[np.float64]


class Leaving(NamedTuple):
    """Events of one recollection that leave memory: its key, their starts, ends and numbers."""

    key: bytes
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    number: NDArray[np.int64]


class Elder(NamedTuple):
    """A question about events that have left: of which key, within which bounds, and after which number."""

    key: bytes
    start: tuple[float, float]
    end: tuple[float, float]
    after: int


@family
class Past(Family):
    """All subscriptions of a shard that ask about the past, and the events that they remember."""

    name = "past"
    ops = (*RELATIONS, *COMPARISONS, "between", "in", "like", "isNull", "past")
    arity = (1, 3)
    takes_all = True
    example = "T_DURING(start, past(kind = 'storm'))"

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        super().__init__(arrays, memory)

        def rows(name: str, width: int | None = None, dtype: Any = np.int64) -> Growing:
            return arrays.get(f"past-{name}", dtype, width)

        self.asked = PastQuestions(arrays, memory)
        self._pool = rows("pool", POINT, np.float64)
        self._boxes = [rows(f"boxes-{level}", BOX, np.float64) for level in LEVELS]
        self._table, self._events, self._ids = rows("table"), rows("events", EVENT), rows("ids", 2, np.uint64)
        self._holds, self._marks, self._when = rows("holds", HELD), rows("marks"), rows("when")
        self.fates: Fates | None = None
        """Of the last batch."""
        self.given: NDArray[np.int64] | None = None
        """Numbers that the publications of the next batch have already; nobody is told of them."""
        self._lasting = 0
        """Events that there were when it was last looked for forgotten ones."""
        self.in_memory = NEVER
        """Ended events of one recollection that are in memory, at least; of more the oldest leave."""
        self.leaving: list[Leaving] = []
        """Events that have left memory, for whoever can keep them."""
        self.elder: Callable[[Elder], bool] | None = None
        """Who knows of those that have left."""

    def _begun(self) -> NDArray[np.int64]:
        """The marks. They are made when first needed: before, the files may be those of a state that is adopted."""
        if not self._marks.length:
            self._begin()
        return self._marks.used

    def _begin(self) -> None:
        """Know nothing."""
        self.asked.clear()
        for array in (self._pool, *self._boxes, self._events, self._ids, self._holds):
            array.replace(array.used[:0])
        marks = np.zeros(MARKS, np.int64)
        marks[FREE], marks[FLOOR] = -1, NEVER
        self._marks.replace(marks)
        self._when.replace(np.full(1, LONG_AGO))
        self._table.replace(np.full(32, -1))

    # --- language ---------------------------------------------------------------------------------------------------

    @classmethod
    def claims(cls, call: Call) -> bool:
        return is_atom(call) or is_past(call)

    @classmethod
    def compile(cls, call: Call, limits: Limits) -> Parts:
        return compile_past(call, limits)

    @classmethod
    def columns(cls, form: str) -> tuple[Column, ...]:
        return _columns(form)

    @classmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        return 0, 0  # the lists know all there is to know

    @classmethod
    def sees(cls, form: str, publication: Row) -> bool:
        """Whether what is on the left of an atom is there; for the atom that was compiled last."""
        atom = planned(form, [0.0] * (2 * len(orjson.loads(form)["atoms"]))).atoms[-1]
        phase = publication.value("phase")
        if atom.attribute is None and atom.left in LEFT:
            needed = {"start": "END", "end": "START", "event": "START"}.get(atom.left)
            return phase != needed or phase is None or publication.value(atom.left) is not None
        return any(column is not None and column.point(publication) is not None for column in atom.lefts[:3])

    # --- subscriptions ----------------------------------------------------------------------------------------------

    @property
    def remembers(self) -> bool:
        """Whether there is a history, so that subscriptions see what was remembered before they were made."""
        return bool(self.arrays.facts.get("remembers", False))

    def add(self, admissions: Sequence[Admission]) -> None:
        if self.remembers:
            admissions = [a._replace(since=LONG_AGO) for a in admissions]
        self._begun()
        if not self.owner.length:
            self.arrays.facts["born"] = min(a.since for a in admissions)
        slots = self._enter(admissions)
        self.asked.add(slots.tolist(), admissions)

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = np.ones(self.owner.length, np.bool_)
        kept[slots] = False
        self._leave(kept)
        if not self.owner.length:
            self._begin()
            return
        place = self.asked.keep(kept)
        unhold(self._events.used, self._holds.used, self._marks.used, place)

    # --- room -------------------------------------------------------------------------------------------------------

    def _make_room(self, step: Step, of_filter: NDArray[np.int64], recollection_of: NDArray[np.int64]) -> None:
        """See to it that whatever a batch brings can be remembered."""
        hits = np.bincount(step.hits, minlength=self.memory.key.length)
        more = np.zeros(self.asked.recollections.length, np.int64)
        plain = np.flatnonzero(recollection_of >= 0)
        more[recollection_of[plain]] = hits[plain]
        rules = self.asked.rule.used < 0
        np.add.at(more, ~self.asked.rule.used[rules], hits[self.asked.filter.used[rules]])
        lists = self.asked.lists.used
        wanted = more[lists[:, LIST_OF]]
        ended = self.asked.recollections.used[:, ENDED]
        wanted[ended[ended >= 0]] += self._ends(step, more)[ended >= 0]
        end = give_room(lists, wanted, self._pool.length, self._pool.data, *(b.data for b in self._boxes), False)
        if end > self._pool.length:
            self._reserve(end)
            give_room(lists, wanted, self._pool.length, self._pool.data, *(b.data for b in self._boxes), True)
            self._pool.length = end
        self._holds.reserve(int(more.sum()))
        starts = int(np.count_nonzero(step.phase == 1))
        self._events.reserve(starts)
        self._ids.reserve(starts)
        last = 0 if self.given is None else int(self.given.max(initial=0)) - int(self._marks.used[LAST])
        self._when.reserve(max(len(step.start), last + 1))
        if 2 * (self._events.length + starts) >= self._table.length:
            self._table.replace(np.full(1 << int(4 * (self._events.length + starts) + 16).bit_length(), -1))
            place_all(self._table.used, np.zeros(self._events.length, np.int64), self._ids.used)

    def _ends(self, step: Step, more: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of its running events may end in a batch, at most, for each recollection."""
        ends = int(np.count_nonzero(step.phase == 3))
        if ends <= _FEW_ENDS:
            return np.full(len(more), ends)
        held = np.bincount(self._holds.used[:, HOLD_OF], minlength=len(more))[: len(more)]  # some of them are free
        most: NDArray[np.int64] = np.minimum(ends, held + more)
        return most

    def _reserve(self, end: int) -> None:
        self._pool.reserve(end - self._pool.length)
        for level, boxes in zip(LEVELS, self._boxes, strict=True):
            boxes.reserve((end >> level) + 1 - boxes.length)
            boxes.length = (end >> level) + 1

    def _tidy(self) -> None:
        """Lay what is remembered anew once most of the room is taken by what is not, and forget who is forgotten."""
        lists, marks = self.asked.lists.used, self._marks.used
        live = int((lists[:, COUNT] - lists[:, LOW]).sum()) - int(marks[WASTE])
        if self._pool.length > 4 * live + _FEW:
            self._pack()
        if self._events.length > 2 * self._lasting + _FEW:
            events = self._events.used
            over = (events[:, IS_OVER] == 1) & (events[:, LAST_OF] <= marks[GONE])
            self._events.replace(events[~over])
            self._ids.replace(self._ids.used[~over])
            self._lasting = marks[USED] = self._events.length
            self._table.replace(np.full(self._table.length, -1))
            place_all(self._table.used, np.zeros(self._events.length, np.int64), self._ids.used)
        forgotten = int(marks[GONE] - marks[KNOWN])
        if 2 * forgotten > self._when.length and forgotten > _FEW:
            self._when.replace(self._when.used[forgotten:])
            marks[KNOWN] += forgotten

    def _pack(self) -> None:
        lists, marks = self.asked.lists.used, self._marks.used
        holes = np.zeros(len(lists), np.bool_)
        running = self.asked.recollections.used[:, RUNNING]
        holes[running[running >= 0]] = True
        lists[~holes, LIST_ORDINAL] += lists[~holes, LOW]
        old = self._pool.used.copy()
        place = np.full(self._holds.length, -1)
        rooms = np.maximum(32, 3 * (lists[:, COUNT] - lists[:, LOW]))
        self._reserve(max(len(old), int(2 * rooms.sum())))
        end = pack(lists, old, self._pool.data, *(b.data for b in self._boxes), holes, place)
        moved = place >= 0
        self._holds.used[moved, HOLD_AT] = place[moved]
        self._pool.length = end
        for level, boxes in zip(LEVELS, self._boxes, strict=True):
            boxes.length = (end >> level) + 1
        marks[WASTE] = 0

    # --- publications -----------------------------------------------------------------------------------------------

    def step(self, step: Step) -> FamilyResult:
        memory, asked, n = self.memory, self.asked, len(step.start) - 1
        filters = memory.key.length
        of_filter = np.full(filters + 1, self.asked.clauses.length)
        of_filter[: self.asked.of_filter.length] = self.asked.of_filter.used
        recollection_of = np.full(filters, -1)
        recollection_of[: self.asked.recollection_of.length] = self.asked.recollection_of.used
        self._make_room(step, of_filter, recollection_of)
        items = np.arange(step.first_item, step.first_item + n)
        ids = text_hashes(*texts_of(items, memory.text_end.data, memory.letters.data))
        start, end = (memory.columns.index(c) for c in TIMES)
        given, closing = self.given, self.closing.used
        if given is not None:
            closing = np.full(len(closing), LONG_AGO)
        fate, first, times = np.zeros(n, np.int8), np.zeros(n, np.int64), np.full((n, 2), np.nan)
        number = np.zeros(n, np.int64) if given is None else given.copy()
        atoms = self.asked.atoms.length
        memo_at, memo_since, memo = np.full(atoms, -1), np.empty(atoms), np.empty(atoms, np.int8)
        seen = np.full(self.owner.length, -1), np.full(self.asked.recollections.length, -1)
        rectangles = np.empty((4, 4))
        told, at = [], 0
        while at < n:
            slot, item, at, unsure = step_past(
                step.first_item, step.start, step.hits, memory.time.data, memory.version.data, step.phase, ids,
                memory.values.data, start, end, self.arrays.facts["born"], step.keep, step.most,
                of_filter, asked.clauses.used, asked.rule.used, asked.literal_start.used, asked.literal.used,
                recollection_of, asked.atoms.used, asked.recollections.used,
                asked.value_start.used, asked.value_list.used, asked.lists.used, asked.elders.used,
                self._pool.data, *(b.data for b in self._boxes),
                self._table.used, np.zeros(len(self._events.data), np.int64), self._ids.data, self._events.data,
                self._holds.data, self._marks.used, self._when.data,
                self.since.used, self.until.used, closing, fate, number, first, times,
                at, memo_at, memo_since, memo, *seen, rectangles,
            )  # fmt: skip
            told.append((slot, item))
            if unsure >= 0:
                memo[unsure] = self._is_known(unsure, rectangles[: memo[unsure] - UNSURE])
        slot, item = (np.concatenate(parts) for parts in zip(*told, strict=True))
        marks = self._marks.used
        self._events.length = self._ids.length = int(marks[USED])
        self._holds.length = int(marks[HOLDS])
        self._when.length = int(marks[LAST] - marks[KNOWN]) + 1
        self.fates = Fates(memory.hash.data[items], fate, number, first, times)
        if fate.min(initial=0) < 0:
            counted = self.arrays.facts.setdefault("refused", {})
            for reason, count in enumerate(np.bincount(-fate[fate < 0], minlength=7)[1:].tolist()):
                if count:
                    counted[REFUSALS[reason]] = counted.get(REFUSALS[reason], 0) + count
        if self.in_memory < NEVER:
            self._let_go()
        self._tidy()
        return FamilyResult.single(slot, memory.time.data[item], item, None)

    # --- history ----------------------------------------------------------------------------------------------------

    def _is_known(self, atom: int, rectangles: NDArray[np.float64]) -> bool:
        """Whether an event that has left memory decides an atom."""
        assert self.elder is not None, "nothing leaves memory unless somebody keeps it"
        key = self.asked.key.used[self.asked.atoms.used[atom, OF]].tobytes()
        return any(self.elder(Elder(key, (a, b), (c, d), self.forgotten)) for a, b, c, d in rectangles.tolist())

    def _let_go(self) -> None:
        """Let the oldest events leave memory where there are twice as many as there should be."""
        for of, at in enumerate(self.asked.recollections.used[:, ENDED].tolist()):
            if at < 0:
                continue
            first, _, count, low = self.asked.lists.used[at, :4].tolist()
            if count - low <= 2 * self.in_memory:
                continue
            points = self._pool.used[first + low : first + count - self.in_memory]
            start, end, number = (points[:, i].astype(np.int64) for i in (0, 1, 4))
            self.leaving.append(Leaving(self.asked.key.used[of].tobytes(), start, end, number))
            box = self.asked.elders.used[of]
            box[:] = (
                min(box[0], start.min()), max(box[1], start.max()), min(box[2], end.min()), max(box[3], end.max()),
            )  # fmt: skip
            self.asked.lists.used[at, LOW] = count - self.in_memory

    @property
    def extent(self) -> tuple[int, int]:
        """How many recollections there are, and how many lists: more of either must be filled from a history."""
        return self.asked.recollections.length, self.asked.lists.length

    @property
    def forgotten(self) -> int:
        """The last number that is forgotten, unless its event is running; 0 as long as nothing is known."""
        return int(self._begun()[GONE]) if self.knows_any else 0

    @property
    def knows_any(self) -> bool:
        """Whether anything was remembered."""
        return self._when.length > 1

    def continue_from(self, number: int) -> None:
        """Give numbers after this one."""
        marks = self._begun()
        if not self.knows_any:
            marks[LAST] = marks[GONE] = marks[KNOWN] = number
            return
        known = int(self._when.used[-1])
        self._when.extend(np.full(number - int(marks[LAST]), known))
        marks[LAST] = number

    @property
    def refused(self) -> dict[str, int]:
        """Publications that are no part of an event as it should be, by reason."""
        return dict(self.arrays.facts.get("refused", {}))

    @property
    def counts(self) -> dict[str, int]:
        return {"refused": sum(self.refused.values())}


@lru_cache(maxsize=4096)
def _columns(form: str) -> tuple[Column, ...]:
    atoms = orjson.loads(form)["atoms"]
    return tuple(dict.fromkeys(planned(form, [0.0] * (2 * len(atoms))).columns()))
