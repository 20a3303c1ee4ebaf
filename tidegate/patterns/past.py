"""``T_DURING(start, past(f))``, ``price < past(price, f, 200)``: publications against the events remembered before.

Temporal operators of Stevens, *Temporal Reasoning for Events in a Knowledge-Based Network* (2009), §4.3: DURING, AFTER
and FILTER, and beyond them all of Allen's relations, end points with a tolerance, negation and nesting. Where the
thesis scans rows of a database for every publication, each distinct inner filter keeps its events in lists that are
searched in a few steps however long they are (``kernels/boxes.py``). Such a filter with its lists is a *recollection*,
and an event that has left memory for the history is an *elder*. ``Past`` is the family; ``patterns/past_compile.py``
works out what an expression asks, ``kernels/past.py`` does the work for each publication.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.boxes import COUNT, LOW
from tidegate.kernels.identity import event_hashes
from tidegate.kernels.memory import texts_of
from tidegate.kernels.past import step_past
from tidegate.kernels.past_atoms import COMPARISONS, RELATIONS, UNSURE
from tidegate.kernels.past_records import ENDED, GONE, KNOWN, LAST, OF, REFUSALS
from tidegate.language.limits import Limits
from tidegate.language.tree import Call
from tidegate.patterns.arrays import Arrays
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.past_compile import TIMES, compile_past, is_atom, is_past, planned
from tidegate.patterns.past_questions import LEFT, PastQuestions
from tidegate.patterns.past_reason import PastReading
from tidegate.patterns.past_storage import PastStorage
from tidegate.patterns.pattern import NEVER, Admission, Family, FamilyResult, Parts, family
from tidegate.patterns.reason import UNSEEN, Asked, Coming, Reason
from tidegate.predicates.column import Column

__all__ = ["Elder", "Fates", "Leaving", "Past"]


class Fates(NamedTuple):
    """What became of the publications of a batch, as ``kernels/past_records.py`` numbers it.

    ``number`` is the number a publication was remembered under, ``first`` that of the one its event began with;
    ``times`` are start and end of its event, NaN while it has none.
    """

    hash: NDArray[np.uint64]
    """128 bits of source, id and phase."""
    row: NDArray[np.int64]
    """The row in the log; −1 where the source has no rows."""
    time: NDArray[np.int64]
    fate: NDArray[np.int8]
    number: NDArray[np.int64]
    first: NDArray[np.int64]
    times: NDArray[np.float64]

    @staticmethod
    def joined(parts: Sequence[Fates]) -> Fates:
        """Those of several batches, one after the other."""
        return parts[0] if len(parts) == 1 else Fates(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Leaving(NamedTuple):
    """Events of one recollection that leave memory: its key, their starts, ends and numbers."""

    key: bytes
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    number: NDArray[np.int64]


class Elder(NamedTuple):
    """A question about events that have left memory: of which recollection, within which bounds, after which number."""

    key: bytes
    start: tuple[float, float]
    end: tuple[float, float]
    after: int


class _Decided:
    """What ``step_past`` has decided for a publication, by atom, subscription and recollection."""

    def __init__(self, atoms: int, slots: int, recollections: int) -> None:
        self.sizes = atoms, slots, recollections
        self.stamp = 0
        self.memo_at, self.memo_since, self.memo = np.full(atoms, -1), np.empty(atoms), np.empty(atoms, np.int8)
        self.told_at, self.passed_at = np.full(slots, -1), np.full(recollections, -1)
        self.passed = np.empty(recollections, np.int64)
        self.rectangles = np.empty((4, 4))


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
        self.asked = PastQuestions(arrays, memory)
        self.storage = PastStorage(arrays, self.asked)
        self.fates: Fates | None = None
        """What became of the publications of the last batch."""
        self.given: NDArray[np.int64] | None = None
        """Numbers that the publications of the next batch have already, in a replay, which raises no notifications."""
        self.in_memory = NEVER
        """How many ended events of each recollection stay in memory; when there are twice as many, the oldest leave.

        To look at all recollections takes long, so that is done after an eighth as many publications.
        """
        self._unlooked = 0
        self.leaving: list[Leaving] = []
        """Events that have left memory, for ``PatternShards`` to write to the history."""
        self.elder: Callable[[Elder], bool] | None = None
        """Asks the history about events that have left memory; None if there is no history."""
        self.named: Callable[[int], tuple[str, str] | None] | None = None
        """The id and source that the history has for a number of a remembered publication; None: no history."""
        self._decided = _Decided(0, 0, 0)
        self._time_columns: tuple[int, int] | None = None

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
    def attributes(cls, form: str) -> tuple[str, ...]:
        """What is on the left of the atom that was compiled last."""
        atom = planned(form, [0.0] * (2 * len(orjson.loads(form)["atoms"]))).atoms[-1]
        if atom.attribute is None:  # start and end are those of the event, and the reason says what they are
            return () if atom.left in LEFT else (atom.left,)
        return tuple(dict.fromkeys(name for column in atom.lefts if column is not None for name in column.attributes))

    @classmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        return 0, 0  # the lists hold all that is needed, so memory need keep nothing

    # --- subscriptions ----------------------------------------------------------------------------------------------

    @property
    def remembers(self) -> bool:
        """Whether there is a history, so that subscriptions see what was remembered before they were made."""
        return self.arrays.facts.remembers

    def add(self, admissions: Sequence[Admission]) -> None:
        if self.remembers:
            admissions = [a._replace(since=LONG_AGO) for a in admissions]
        self.storage.begun()
        if not self.owner.length:
            self.arrays.facts.born = min(a.since for a in admissions)
        slots = self._enter(admissions)
        self.asked.add(slots.tolist(), admissions)

    def filters(self) -> NDArray[np.int64]:
        """All: also events that pass no filter of the family begin and end."""
        return np.arange(self.memory.key.length)

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = self._others(slots)
        self._leave(kept)
        if not self.owner.length:
            self.storage.begin()
            return
        self.storage.let_go(self.asked.keep(kept))

    # --- publications -----------------------------------------------------------------------------------------------

    def step(self, step: Step) -> FamilyResult:
        memory, asked, stored, n = self.memory, self.asked, self.storage, len(step.start) - 1
        items = np.arange(step.first_item, step.first_item + n)
        texts = texts_of(items, memory.text_end.data, memory.letters.data)
        ids = event_hashes(*texts, memory.source.data[step.first_item : step.first_item + n])
        stored.make_room(step, ids, self.given)
        start, end = self.times()
        given, closing, born = self.given, self.closing.data, self.arrays.facts.born
        assert born is not None, "somebody asks"
        if given is not None:
            closing = np.full(len(closing), LONG_AGO)
        fate, first, times = np.zeros(n, np.int8), np.zeros(n, np.int64), np.full((n, 2), np.nan)
        number = np.zeros(n, np.int64) if given is None else given.copy()
        decided = self._decided
        sizes = asked.atoms.length, self.owner.length, asked.recollections.length
        if decided.sizes != sizes:
            decided = self._decided = _Decided(*sizes)
        told, at = [], 0
        while at < n:
            slot, item, at, unsure = step_past(
                step.first_item, step.start, step.hits, memory.time.data, memory.version.data, step.phase, ids,
                memory.values.data, start, end, born, step.keep, step.most,
                asked.of_filter.used, asked.clauses.data, asked.rule.data, asked.literal_start.data, asked.literal.data,
                asked.recollection_of.used, asked.atoms.data, asked.recollections.data,
                asked.value_start.data, asked.value_list.data, asked.lists.data, asked.elders.data,
                stored.pool.data, *(b.data for b in stored.boxes),
                stored.table.used, stored.zeros, stored.ids.data, stored.events.data,
                stored.holds.data, stored.marks.data, stored.when.data,
                self.since.data, self.until.data, closing, fate, number, first, times,
                at, decided.stamp, decided.memo_at, decided.memo_since, decided.memo,
                decided.told_at, decided.passed_at, decided.passed, decided.rectangles,
            )  # fmt: skip
            told.append((slot, item))
            if unsure >= 0:
                decided.memo[unsure] = self.is_elder(unsure, decided.rectangles[: decided.memo[unsure] - UNSURE])
        decided.stamp += n
        slot, item = told[0] if len(told) == 1 else (np.concatenate(parts) for parts in zip(*told, strict=True))
        stored.note_lengths()
        hash, row, when = memory.hash.data[items], memory.row.data[items], memory.time.data[items]
        self.fates = Fates(hash, row, when, fate, number, first, times)
        if (is_refused := fate < 0).any():
            counted = self.arrays.facts.refused
            for what, count in zip(*np.unique(fate[is_refused], return_counts=True), strict=True):
                counted[REFUSALS[int(what)]] = counted.get(REFUSALS[int(what)], 0) + int(count)
        self._unlooked += n
        if self._unlooked > self.in_memory >> 3:
            self._let_go()
        stored.tidy(n)
        return FamilyResult.single(slot, memory.time.data[item], item, None)

    def times(self) -> tuple[int, int]:
        """The columns of memory with the start and the end of a publication. Columns keep their places."""
        if self._time_columns is None:
            start, end = (self.memory.columns.index(c) for c in TIMES)
            self._time_columns = start, end
        return self._time_columns

    # --- history ----------------------------------------------------------------------------------------------------

    def is_elder(self, atom: int, rectangles: NDArray[np.float64]) -> bool:
        """Whether an event that has left memory fulfils an atom; asks the history."""
        assert self.elder is not None, "nothing leaves memory unless somebody keeps it"
        key = self.asked.key.used[self.asked.atoms.used[atom, OF]].tobytes()
        return any(self.elder(Elder(key, (a, b), (c, d), self.forgotten)) for a, b, c, d in rectangles.tolist())

    def _let_go(self) -> None:
        """Move the oldest events of a recollection to ``leaving`` if it has more than twice ``in_memory``."""
        self._unlooked = 0
        lists, ended = self.asked.lists.used, self.asked.recollections.used[:, ENDED]
        some = np.flatnonzero(ended >= 0)
        held = lists[ended[some], COUNT] - lists[ended[some], LOW]
        for of in some[held > 2 * self.in_memory].tolist():
            at = ended[of]
            first, _, count, low = lists[at, :4].tolist()
            points = self.storage.pool.used[first + low : first + count - self.in_memory]
            start, end, number = (points[:, i].astype(np.int64) for i in (0, 1, 4))
            self.leaving.append(Leaving(self.asked.key.used[of].tobytes(), start, end, number))
            box = self.asked.elders.used[of]
            box[:] = (
                min(box[0], start.min()), max(box[1], start.max()), min(box[2], end.min()), max(box[3], end.max()),
            )  # fmt: skip
            lists[at, LOW] = count - self.in_memory

    @property
    def extent(self) -> tuple[int, int]:
        """How many recollections and lists there are. If either grows, the new ones must be filled from the history."""
        return self.asked.recollections.length, self.asked.lists.length

    @property
    def forgotten(self) -> int:
        """The number up to which publications are forgotten, except those of running events; 0 if there are none."""
        return int(self.storage.begun()[GONE]) if self.knows_any else 0

    @property
    def knows_any(self) -> bool:
        """Whether any publication was remembered."""
        return self.storage.when.length > 1

    def continue_from(self, number: int) -> None:
        """Number the next publications from the one after this."""
        marks, when = self.storage.begun(), self.storage.when
        if not self.knows_any:
            marks[LAST] = marks[GONE] = marks[KNOWN] = number
            return
        when.extend(np.full(number - int(marks[LAST]), int(when.used[-1])))
        marks[LAST] = number

    @property
    def refused(self) -> dict[str, int]:
        """How many publications could not be part of an event (an END without its START, say), by reason."""
        return dict(self.arrays.facts.refused)

    @property
    def counts(self) -> dict[str, int]:
        return {"refused": sum(self.refused.values())}

    # --- reasons ----------------------------------------------------------------------------------------------------

    def connect(self, other: Family) -> None:
        assert isinstance(other, Past)
        self.elder, self.named = other.elder, other.named

    def reason(self, slot: int, coming: Coming, asked: Asked) -> Reason:
        """Of the atom that was compiled last."""
        if coming.is_late:
            return Reason(UNSEEN, {}, False)
        plan, known = planned(asked.form, asked.numbers), self.memory.filters
        filters = [-1 if key is None else known[key] for key in asked.filters]
        return PastReading(self, slot, coming).reason(self.asked.atom(plan, filters, int(self.since.used[slot])))

    def unseen(self, slot: int, coming: Coming) -> str | None:
        return PastReading(self, slot, coming).refusal


@lru_cache(maxsize=4096)
def _columns(form: str) -> tuple[Column, ...]:
    atoms = orjson.loads(form)["atoms"]
    return tuple(dict.fromkeys(planned(form, [0.0] * (2 * len(atoms))).columns()))
