"""``T_DURING(start, past(f))``, ``price < past(price, f, 200)``: publications against the events remembered before.

Temporal operators of Stevens, *Temporal Reasoning for Events in a Knowledge-Based Network* (2009), §4.3: DURING, AFTER
and FILTER, and beyond them all of Allen's relations, end points with a tolerance, negation and nesting. Where the
thesis scans rows of a database for every publication, each distinct inner filter keeps its events in lists that are
asked in a few steps however long they are (``kernels/boxes.py``). What an expression asks is worked out in
``patterns/recall.py``, what is done for a publication in ``kernels/past.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.boxes import BOX, COUNT, LEVELS, LOW, POINT, give_room, pack
from tidegate.kernels.gather import text_hashes
from tidegate.kernels.memory import texts_of
from tidegate.kernels.past import (
    ATOM,
    COMPARISONS,
    ENDED,
    EVENT,
    EVENT_LIST,
    FILTER,
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
    LIST_ONE,
    LIST_ORDINAL,
    LIST_TWO,
    MARKS,
    NO_ELDERS,
    OF,
    POINTS,
    RECOLLECTION,
    REFUSALS,
    RELATIONS,
    RUNNING,
    TOTAL,
    UNSURE,
    USED,
    VALUES,
    WASTE,
    step_past,
    unhold,
)
from tidegate.kernels.spots import place_all
from tidegate.language.limits import Limits
from tidegate.language.tree import Call
from tidegate.patterns._pattern import NEVER, Admission, Family, Parts, Told, family
from tidegate.patterns.arrays import Arrays, Growing
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.recall import TIMES, Atom, Clause, Plan, compile_past, is_atom, is_past, planned
from tidegate.predicates.column import Column, Row, column

__all__ = ["Elder", "Fates", "Leaving", "Past"]

_LEFT = {"start": -1, "end": -2, "event": -3, "time": -4}
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

        self._rule, self._filter, self._literal_start, self._literal = map(rows, ("rule", "filter", "start", "literal"))
        self._atoms, self._atom_key = rows("atoms", ATOM), rows("atom_key", 16, np.uint8)
        self._recollections, self._key = rows("recollections", RECOLLECTION), rows("key", 16, np.uint8)
        self._elders = rows("elders", 4, np.float64)
        self._lists = rows("lists", EVENT_LIST)
        self._pool = rows("pool", POINT, np.float64)
        self._boxes = [rows(f"boxes-{level}", BOX, np.float64) for level in LEVELS]
        self._table, self._events, self._ids = rows("table"), rows("events", EVENT), rows("ids", 2, np.uint64)
        self._holds, self._marks, self._when = rows("holds", HELD), rows("marks"), rows("when")
        self._of_filter, self._clauses, self._recollection_of = map(rows, ("of_filter", "clauses", "recollection_of"))
        self._value_start, self._value_list = map(rows, ("value_start", "value_list"))
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
        for array in (
            self._rule, self._filter, self._literal, self._atoms, self._atom_key, self._recollections, self._key,
            self._elders, self._lists, self._pool, *self._boxes, self._events, self._ids, self._holds,
        ):  # fmt: skip
            array.replace(array.used[:0])
        self._literal_start.replace(np.zeros(1, np.int64))
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
        if atom.attribute is None and atom.left in _LEFT:
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
        adding = _Adding(self)
        for slot, admission in zip(slots.tolist(), admissions, strict=True):
            adding.take(slot, admission)
        adding.close()
        self._arrange()

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = np.ones(self.owner.length, np.bool_)
        kept[slots] = False
        self._leave(kept)
        if not self.owner.length:
            self._begin()
            self._arrange()
            return
        live = _Live(self, kept)
        sizes = np.diff(self._literal_start.used)
        self._literal.replace(live.atom_place[self._literal.used[np.repeat(live.clauses, sizes)] >> 1] * 2
                              + (self._literal.used[np.repeat(live.clauses, sizes)] & 1))  # fmt: skip
        self._literal_start.replace(np.concatenate(([0], np.cumsum(sizes[live.clauses]))))
        rules = self._rule.used[live.clauses]
        place = np.cumsum(kept) - 1
        self._rule.replace(np.where(rules >= 0, place[np.maximum(rules, 0)], ~live.place[np.maximum(~rules, 0)]))
        self._filter.replace(self._filter.used[live.clauses])
        lists = live.recollections[self._lists.used[:, LIST_OF]]
        list_place = np.append(np.where(lists, np.cumsum(lists) - 1, -1), -1)
        recollections = self._recollections.used[live.recollections]
        for which in (ENDED, RUNNING):
            recollections[:, which] = list_place[recollections[:, which]]
        self._recollections.replace(recollections)
        self._key.replace(self._key.used[live.recollections])
        self._elders.replace(self._elders.used[live.recollections])
        rows = self._lists.used[lists]
        rows[:, LIST_OF] = live.place[rows[:, LIST_OF]]
        self._lists.replace(rows)
        atoms = self._atoms.used[live.atoms]
        atoms[:, OF] = live.place[atoms[:, OF]]
        atoms[:, ATOM - 3 :] = list_place[atoms[:, ATOM - 3 :]]
        self._atoms.replace(atoms)
        self._atom_key.replace(self._atom_key.used[live.atoms])
        unhold(self._events.used, self._holds.used, self._marks.used, live.place)
        self._arrange()

    def _arrange(self) -> None:
        """Who is asked by which filter, and which lists of values a recollection has."""
        filters = self._filter.used
        self._of_filter.replace(_starts(filters, int(filters.max(initial=-1)) + 1))
        self._clauses.replace(np.argsort(filters, kind="stable"))
        plain = self._recollections.used[:, FILTER]
        of = np.full(int(plain.max(initial=-1)) + 1, -1)
        of[plain[plain >= 0]] = np.flatnonzero(plain >= 0)
        self._recollection_of.replace(of)
        lists = self._lists.used
        values = np.flatnonzero(lists[:, LIST_ONE] >= 0)
        values = values[np.argsort(lists[values, LIST_OF], kind="stable")]
        self._value_start.replace(_starts(lists[values, LIST_OF], self._recollections.length))
        self._value_list.replace(values)

    # --- room -------------------------------------------------------------------------------------------------------

    def _make_room(self, step: Step, of_filter: NDArray[np.int64], recollection_of: NDArray[np.int64]) -> None:
        """See to it that whatever a batch brings can be remembered."""
        hits = np.bincount(step.hits, minlength=self.memory.key.length)
        more = np.zeros(self._recollections.length, np.int64)
        plain = np.flatnonzero(recollection_of >= 0)
        more[recollection_of[plain]] = hits[plain]
        rules = self._rule.used < 0
        np.add.at(more, ~self._rule.used[rules], hits[self._filter.used[rules]])
        lists = self._lists.used
        wanted = more[lists[:, LIST_OF]]
        ended = self._recollections.used[:, ENDED]
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
        lists, marks = self._lists.used, self._marks.used
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
        lists, marks = self._lists.used, self._marks.used
        holes = np.zeros(len(lists), np.bool_)
        running = self._recollections.used[:, RUNNING]
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

    def step(self, step: Step) -> Told:
        memory, n = self.memory, len(step.start) - 1
        filters = memory.key.length
        of_filter = np.full(filters + 1, self._clauses.length)
        of_filter[: self._of_filter.length] = self._of_filter.used
        recollection_of = np.full(filters, -1)
        recollection_of[: self._recollection_of.length] = self._recollection_of.used
        self._make_room(step, of_filter, recollection_of)
        items = np.arange(step.first_item, step.first_item + n)
        ids = text_hashes(*texts_of(items, memory.text_end.data, memory.letters.data))
        start, end = (memory.columns.index(c) for c in TIMES)
        given, closing = self.given, self.closing.used
        if given is not None:
            closing = np.full(len(closing), LONG_AGO)
        fate, first, times = np.zeros(n, np.int8), np.zeros(n, np.int64), np.full((n, 2), np.nan)
        number = np.zeros(n, np.int64) if given is None else given.copy()
        atoms = self._atoms.length
        memo_at, memo_since, memo = np.full(atoms, -1), np.empty(atoms), np.empty(atoms, np.int8)
        seen = np.full(self.owner.length, -1), np.full(self._recollections.length, -1)
        rectangles = np.empty((4, 4))
        told, at = [], 0
        while at < n:
            slot, item, at, unsure = step_past(
                step.first_item, step.start, step.hits, memory.time.data, memory.version.data, step.phase, ids,
                memory.values.data, start, end, self.arrays.facts["born"], step.keep, step.most,
                of_filter, self._clauses.used, self._rule.used, self._literal_start.used, self._literal.used,
                recollection_of, self._atoms.used, self._recollections.used,
                self._value_start.used, self._value_list.used, self._lists.used, self._elders.used,
                self._pool.data, *(b.data for b in self._boxes),
                self._table.used, np.zeros(len(self._events.data), np.int64), self._ids.data, self._events.data,
                self._holds.data, self._marks.used, self._when.data,
                self.since.used, self.until.used, closing, fate, number, first, times,
                at, memo_at, memo_since, memo, *seen, rectangles,
            )  # fmt: skip
            told.append((slot, item))
            if unsure >= 0:
                memo[unsure] = self._asked(unsure, rectangles[: memo[unsure] - UNSURE])
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
        return Told.single(slot, memory.time.data[item], item, None)

    # --- history ----------------------------------------------------------------------------------------------------

    def _asked(self, atom: int, rectangles: NDArray[np.float64]) -> bool:
        """Whether an event that has left memory decides an atom."""
        assert self.elder is not None, "nothing leaves memory unless somebody keeps it"
        key = self._key.used[self._atoms.used[atom, OF]].tobytes()
        return any(self.elder(Elder(key, (a, b), (c, d), self.forgotten)) for a, b, c, d in rectangles.tolist())

    def _let_go(self) -> None:
        """Let the oldest events leave memory where there are twice as many as there should be."""
        for of, at in enumerate(self._recollections.used[:, ENDED].tolist()):
            if at < 0:
                continue
            first, _, count, low = self._lists.used[at, :4].tolist()
            if count - low <= 2 * self.in_memory:
                continue
            points = self._pool.used[first + low : first + count - self.in_memory]
            start, end, number = (points[:, i].astype(np.int64) for i in (0, 1, 4))
            self.leaving.append(Leaving(self._key.used[of].tobytes(), start, end, number))
            box = self._elders.used[of]
            box[:] = (
                min(box[0], start.min()), max(box[1], start.max()), min(box[2], end.min()), max(box[3], end.max()),
            )  # fmt: skip
            self._lists.used[at, LOW] = count - self.in_memory

    @property
    def extent(self) -> tuple[int, int]:
        """How many recollections there are, and how many lists: more of either must be filled from a history."""
        return self._recollections.length, self._lists.length

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


def _starts(sorted_or_not: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where each of so many numbers begins, once they are in order."""
    return np.concatenate(([0], np.cumsum(np.bincount(sorted_or_not, minlength=count))))


@lru_cache(maxsize=4096)
def _columns(form: str) -> tuple[Column, ...]:
    atoms = orjson.loads(form)["atoms"]
    return tuple(dict.fromkeys(planned(form, [0.0] * (2 * len(atoms))).columns()))


class _Adding:
    """Admissions, put into the arrays: what several ask is there once."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._columns: dict[Column, int] = {}
        self._recollections = {row.tobytes(): i for i, row in enumerate(past._key.used)}
        self._atoms = {row.tobytes(): i for i, row in enumerate(past._atom_key.used)}
        pairs = past._lists.used[:, [LIST_OF, LIST_ONE, LIST_TWO]].tolist()
        self._lists = {tuple(pair): i for i, pair in enumerate(pairs) if pair[1] >= 0}
        self._new_clauses: list[tuple[int, int, list[int]]] = []

    def take(self, slot: int, admission: Admission) -> None:
        """One subscription."""
        plan = planned(admission.form, admission.numbers)
        self._past.memory.want(plan.columns())
        self._columns = {known: i for i, known in enumerate(self._past.memory.columns)}
        self._clauses(slot, plan.clauses, plan, admission)

    def close(self) -> None:
        """Write the clauses."""
        past = self._past
        past._rule.extend(np.array([rule for rule, _, _ in self._new_clauses], np.int64))
        past._filter.extend(np.array([f for _, f, _ in self._new_clauses], np.int64))
        past._literal.extend(np.array([i for _, _, literals in self._new_clauses for i in literals], np.int64))
        sizes = np.array([len(literals) for _, _, literals in self._new_clauses], np.int64)
        past._literal_start.extend(past._literal_start.used[-1] + np.cumsum(sizes))

    def _clauses(self, rule: int, clauses: Sequence[Clause], plan: Plan, admission: Admission) -> None:
        for filter, literals in clauses:
            atoms = [2 * self._atom(plan.atoms[i >> 1], plan, admission) + (i & 1) for i in literals]
            self._new_clauses.append((rule, admission.filters[filter], atoms))

    def _name(self, of: int, plan: Plan, admission: Admission) -> list[Any]:
        """What tells a recollection apart: a filter, or a rule and the version since which it sees."""
        if of >= 0:
            return [admission.filters[of]]
        clauses = [
            [admission.filters[f], [[i & 1, self._atom_name(plan.atoms[i >> 1], plan, admission)] for i in literals]]
            for f, literals in plan.rules[-1 - of]
        ]
        return [admission.since, sorted(clauses, key=repr)]

    def _atom_name(self, atom: Atom, plan: Plan, admission: Admission) -> list[Any]:
        return [*atom[:2], *atom[3:], self._name(atom.of, plan, admission)]

    def _recollection(self, of: int, plan: Plan, admission: Admission) -> int:
        key = _digest(self._name(of, plan, admission))
        number = self._recollections.get(key)
        if number is None:
            past = self._past
            number = self._recollections[key] = past._recollections.length
            past._key.extend(np.frombuffer(key, np.uint8)[None])
            row = [admission.filters[of], LONG_AGO, -1, -1, 0] if of >= 0 else [-1, admission.since, -1, -1, 0]
            past._recollections.extend(np.array([row], np.int64))
            past._elders.extend(np.array([NO_ELDERS]))
            if of < 0:
                self._clauses(~number, plan.rules[-1 - of], plan, admission)
        return number

    def _atom(self, atom: Atom, plan: Plan, admission: Admission) -> int:
        key = _digest(self._atom_name(atom, plan, admission))
        number = self._atoms.get(key)
        if number is None:
            of = self._recollection(atom.of, plan, admission)
            lefts = [-1 if c is None else self._columns[c] for c in atom.lefts]
            lists = [-1, -1, -1]
            if atom.attribute is None:
                op = RELATIONS.index(atom.op) + (0 if atom.left == "event" else POINTS)
                lefts[0] = _LEFT.get(atom.left, self._columns.get(column("time", atom.left), -1))
                self._remember_times(of)
            else:
                op = VALUES + COMPARISONS.index(atom.op)
                lists = self._remember_values(of, atom)
            number = self._atoms[key] = self._past._atoms.length
            self._past._atom_key.extend(np.frombuffer(key, np.uint8)[None])
            row = [op, *lefts, of, atom.limit, atom.tolerance, *lists]
            self._past._atoms.extend(np.array([row], np.int64))
        return number

    def _remember_times(self, of: int) -> None:
        row = self._past._recollections.used[of]
        if row[ENDED] < 0:
            row[ENDED], row[RUNNING] = self._list(of, -1, -1), self._list(of, -1, -1)

    def _remember_values(self, of: int, atom: Atom) -> list[int]:
        """The lists of values that an atom compares with: as numbers, as instants, as texts."""
        found = []
        for kind in range(3):
            left, right = atom.lefts[kind], atom.rights[kind]
            if left is None or right is None:
                found.append(-1)
                continue
            other = atom.rights[3] if kind == 2 else None
            one, two = self._columns[right], -1 if other is None else self._columns[other]
            key = (of, one, two)
            if key not in self._lists:
                self._lists[key] = self._list(*key)
            found.append(self._lists[key])
        return found

    def _list(self, of: int, one: int, two: int) -> int:
        lists = self._past._lists
        total = self._past._recollections.used[of, TOTAL]
        lists.extend(np.array([[0, 0, 0, 0, of, one, two, total]], np.int64))
        return lists.length - 1


def _digest(name: list[Any]) -> bytes:
    return blake2b(orjson.dumps(name), digest_size=16).digest()


class _Live:
    """What is still asked when some subscriptions have gone."""

    def __init__(self, past: Past, slots: NDArray[np.bool_]) -> None:
        rules, start, literals = past._rule.used, past._literal_start.used, past._literal.used
        self.clauses = np.zeros(len(rules), np.bool_)
        self.atoms = np.zeros(past._atoms.length, np.bool_)
        self.recollections = np.zeros(past._recollections.length, np.bool_)
        fresh = np.flatnonzero((rules >= 0) & slots[np.maximum(rules, 0)])
        while len(fresh):
            self.clauses[fresh] = True
            for clause in fresh:
                self.atoms[literals[start[clause] : start[clause + 1]] >> 1] = True
            self.recollections[past._atoms.used[self.atoms, OF]] = True
            wanted = (rules < 0) & self.recollections[np.where(rules < 0, ~rules, 0)]
            fresh = np.flatnonzero(wanted & ~self.clauses)
        self.atom_place = np.where(self.atoms, np.cumsum(self.atoms) - 1, -1)
        self.place = np.where(self.recollections, np.cumsum(self.recollections) - 1, -1)
