"""The arrays in which ``Past`` remembers events, and the room in them.

``kernels/past.py`` writes into these arrays and never makes them longer: before a batch ``make_room`` makes them large
enough for whatever the batch brings, and after it ``tidy`` packs what has become sparse. The rows are described in
``kernels/past_records.py``. Knows nothing of subscriptions, only of the lists that ``PastQuestions`` wants filled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.boxes import BOX, COUNT, LEVELS, LOW, POINT, give_room, pack
from tidegate.kernels.hash_table import place_all
from tidegate.kernels.past_records import (
    ENDED,
    ENDS,
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
    RUNNING,
    STARTS,
    USED,
    WASTE,
)
from tidegate.kernels.past_room import full_lists, unhold
from tidegate.patterns.arrays import Arrays, Growing
from tidegate.patterns.memory import LONG_AGO, Step
from tidegate.patterns.past_questions import PastQuestions
from tidegate.patterns.pattern import NEVER

__all__ = ["PastStorage"]

#: Points that are kept before packing them is worth its time.
_FEW = 16_384
#: How many single publications are remembered before it is seen whether points should be packed.
_NOW_AND_THEN = 256
#: Up to so many ENDs in a batch, every list gets room for all of them instead of a closer bound.
_FEW_ENDS = 32


class PastStorage:
    """Points of remembered events and values, events by source and id, and which recollections hold running ones."""

    def __init__(self, arrays: Arrays, asked: PastQuestions) -> None:
        def rows(name: str, width: int | None = None, dtype: Any = np.int64) -> Growing:
            return arrays.get(f"past-{name}", dtype, width)

        self._asked = asked
        self.pool = rows("pool", POINT, np.float64)
        self.boxes = [rows(f"boxes-{level}", BOX, np.float64) for level in LEVELS]
        self.table, self.events, self.ids = rows("table"), rows("events", EVENT), rows("ids", 2, np.uint64)
        self.holds, self.marks, self.when = rows("holds", HELD), rows("marks"), rows("when")
        self._lasting = 0
        """How many events were left when forgotten ones were last removed."""
        self._zeros = np.empty(0, np.int64)

    @property
    def zeros(self) -> NDArray[np.int64]:
        """A zero for each event: what ``kernels/hash_table.py`` has beside the ids."""
        if len(self._zeros) < len(self.events.data):
            self._zeros = np.zeros(2 * len(self.events.data), np.int64)
        return self._zeros

    def begun(self) -> NDArray[np.int64]:
        """The marks. They are made when first needed: before, the files may be those of a state that is adopted."""
        if not self.marks.length:
            self.begin()
        return self.marks.used

    def begin(self) -> None:
        """Forget everything: empty all arrays, and those of ``PastQuestions``."""
        self._asked.clear()
        for array in (self.pool, *self.boxes, self.events, self.ids, self.holds):
            array.replace(array.used[:0])
        marks = np.zeros(MARKS, np.int64)
        marks[FREE], marks[FLOOR] = -1, NEVER
        self.marks.replace(marks)
        self.when.replace(np.full(1, LONG_AGO))
        self.table.replace(np.full(32, -1))

    def let_go(self, place: NDArray[np.int64]) -> None:
        """Detach running events from removed recollections; ``place`` gives the other recollections new numbers."""
        unhold(self.events.used, self.holds.used, self.marks.used, place)

    # --- room for a batch -------------------------------------------------------------------------------------------

    def make_room(self, step: Step, ids: NDArray[np.uint64], given: NDArray[np.int64] | None) -> None:
        """Make room for all that a batch may bring; ``given`` are the numbers of its publications in a replay."""
        if len(step.start) == 2:
            self._room_for_one(step, ids)
        else:
            self._room_for_many(step)
        starts = step.phase.tobytes().count(STARTS)
        self.events.reserve(starts)
        self.ids.reserve(starts)
        last = 0 if given is None else int(given.max(initial=0)) - int(self.marks.used[LAST])
        self.when.reserve(max(len(step.start), last + 1))
        if 2 * (self.events.length + starts) >= self.table.length:
            self._hash(1 << int(4 * (self.events.length + starts) + 16).bit_length())

    def _room_for_one(self, step: Step, ids: NDArray[np.uint64]) -> None:
        asked = self._asked
        full, passed = full_lists(
            step.hits, ids, bool(step.phase[0] == ENDS), asked.of_filter.used, asked.clauses.data, asked.rule.data,
            asked.recollection_of.used, asked.recollections.data, asked.value_start.data, asked.value_list.data,
            asked.lists.data, self.table.used, self.zeros, self.ids.data, self.events.data, self.holds.data,
        )  # fmt: skip
        if len(full):
            full = np.unique(full)
            self._give_room(full, np.ones(len(full), np.int64))
        self.holds.reserve(int(passed))

    def _room_for_many(self, step: Step) -> None:
        asked = self._asked
        recollection_of = asked.recollection_of.used
        hits = np.bincount(step.hits, minlength=max(len(recollection_of), asked.of_filter.length))
        more = np.zeros(asked.recollections.length, np.int64)
        plain = np.flatnonzero(recollection_of >= 0)
        more[recollection_of[plain]] = hits[plain]
        rules = asked.rule.used < 0
        np.add.at(more, ~asked.rule.used[rules], hits[asked.filter.used[rules]])
        wanted = more[asked.lists.used[:, LIST_OF]]
        ended = asked.recollections.used[:, ENDED]
        wanted[ended[ended >= 0]] += self._ends(step, more)[ended >= 0]
        self._give_room(np.arange(len(wanted)), wanted)
        self.holds.reserve(int(more.sum()))

    def _give_room(self, which: NDArray[np.int64], more: NDArray[np.int64]) -> None:
        """Make room for so many more points in each of these lists."""
        lists, end = self._asked.lists.used, self.pool.length
        needed = give_room(lists, which, more, end, self.pool.data, *(b.data for b in self.boxes), False)
        if needed > end:
            self._reserve(needed)
            give_room(lists, which, more, end, self.pool.data, *(b.data for b in self.boxes), True)
            self.pool.length = needed

    def _ends(self, step: Step, more: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of its running events may end in a batch, at most, for each recollection."""
        ends = int(np.count_nonzero(step.phase == ENDS))
        if ends <= _FEW_ENDS:
            return np.full(len(more), ends)
        held = np.bincount(self.holds.used[:, HOLD_OF], minlength=len(more))[: len(more)]  # some of them are free
        most: NDArray[np.int64] = np.minimum(ends, held + more)
        return most

    def _reserve(self, end: int) -> None:
        self.pool.reserve(end - self.pool.length)
        for level, boxes in zip(LEVELS, self.boxes, strict=True):
            boxes.reserve((end >> level) + 1 - boxes.length)
            boxes.length = (end >> level) + 1

    def _hash(self, size: int) -> None:
        """Build the hash table that finds events by source and id, with that size."""
        self.table.replace(np.full(size, -1))
        place_all(self.table.used, np.zeros(self.events.length, np.int64), self.ids.used)

    # --- after a batch ----------------------------------------------------------------------------------------------

    def note_lengths(self) -> None:
        """Take over from the marks how long the arrays are that the kernel wrote into."""
        marks = self.marks.used
        self.events.length = self.ids.length = int(marks[USED])
        self.holds.length = int(marks[HOLDS])
        self.when.length = int(marks[LAST] - marks[KNOWN]) + 1

    def tidy(self, publications: int) -> None:
        """Pack the points once most of their room holds nothing live, and remove events that are over and forgotten.

        How many points are live takes long to find out, so after single publications that is done now and then.
        """
        marks = self.marks.used
        if self.pool.length > _FEW and (publications > 1 or marks[LAST] % _NOW_AND_THEN == 0):
            lists = self._asked.lists.used
            live = int((lists[:, COUNT] - lists[:, LOW]).sum()) - int(marks[WASTE])
            if self.pool.length > 4 * live + _FEW:
                self.pack()
        if self.events.length > 2 * self._lasting + _FEW:
            events = self.events.used
            over = (events[:, IS_OVER] == 1) & (events[:, LAST_OF] <= marks[GONE])
            self.events.replace(events[~over])
            self.ids.replace(self.ids.used[~over])
            self._lasting = marks[USED] = self.events.length
            self._hash(self.table.length)
        forgotten = int(marks[GONE] - marks[KNOWN])
        if 2 * forgotten > self.when.length and forgotten > _FEW:
            self.when.replace(self.when.used[forgotten:])
            marks[KNOWN] += forgotten

    def pack(self) -> None:
        """Move the points together, list by list, with room after each."""
        lists, marks = self._asked.lists.used, self.marks.used
        holes = np.zeros(len(lists), np.bool_)
        running = self._asked.recollections.used[:, RUNNING]
        holes[running[running >= 0]] = True
        lists[~holes, LIST_ORDINAL] += lists[~holes, LOW]
        old = self.pool.used.copy()
        place = np.full(self.holds.length, -1)
        rooms = np.maximum(32, 3 * (lists[:, COUNT] - lists[:, LOW]))
        self._reserve(max(len(old), int(2 * rooms.sum())))
        end = pack(lists, old, self.pool.data, *(b.data for b in self.boxes), holes, place)
        moved = place >= 0
        self.holds.used[moved, HOLD_AT] = place[moved]
        self.pool.length = end
        for level, boxes in zip(LEVELS, self.boxes, strict=True):
            boxes.length = (end >> level) + 1
        marks[WASTE] = 0
