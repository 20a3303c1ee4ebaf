"""``absent(window, f[, source])``: nothing has passed a filter for so long; the clock raises it once per silence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.absent import BLOCK, advance_absent, step_absent
from tidegate.kernels.hash_table import place_all
from tidegate.language.limits import Limits
from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Call
from tidegate.patterns.absent_reason import Silence, silence_reason
from tidegate.patterns.arrays import Arrays
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.pattern import NEVER, NOTHING_RAISED, Admission, Family, FamilyResult, Parts, family
from tidegate.patterns.reason import Asked, Coming, Reason, id_of
from tidegate.patterns.windows import span
from tidegate.predicates.family import Mismatch

__all__ = ["Absent"]


@family
class Absent(Family):
    """All ``absent`` subscriptions of a shard, and their watches: one each, or one for each source they have heard."""

    name = "absent"
    arity = (2, 3)
    example = "absent('PT10M', temperature IS NOT NULL, source)"

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        super().__init__(arrays, memory)
        self._window, self._filter, self._begin = (
            arrays.get(f"absent-{name}", np.int64) for name in ("window", "filter", "begin")
        )
        self._by_source, self._asleep = (arrays.get(f"absent-{name}", np.uint8) for name in ("by_source", "asleep"))
        self._of_filter, self._member = (arrays.get(f"absent-{name}", np.int64) for name in ("of_filter", "member"))
        self._watch_slot, self._heard, self._item = (
            arrays.get(f"absent-{name}", np.int64) for name in ("watch", "heard", "item")
        )
        self._source, self._told = arrays.get("absent-source", np.uint64, 2), arrays.get("absent-told", np.uint8)
        self._table = arrays.get("absent-table", np.int64)
        self._block_due, self._next = np.empty(0, np.int64), LONG_AGO
        self._done = self._told.length
        """No more watches than this are of one source and have been told."""

    # --- language ---------------------------------------------------------------------------------------------------

    @classmethod
    def compile(cls, call: Call, limits: Limits) -> Parts:
        window, condition, *by = call.args
        width = span(window, "absent", limits)
        if by and not (isinstance(by[0], Attribute) and by[0].name == "source"):
            raise Mismatch("source, or nothing, as third argument of absent", to_text(by[0]), by[0])
        return Parts(orjson.dumps({"by_source": bool(by)}).decode(), (width,), (condition,))

    @classmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        return 0, 0  # the watches hold all that is needed, so memory need keep nothing

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def add(self, admissions: Sequence[Admission]) -> None:
        slots = self._enter(admissions)
        by_source = [orjson.loads(a.form)["by_source"] for a in admissions]
        self._by_source.extend(np.array(by_source, np.uint8))
        self._window.extend(np.array([int(a.numbers[0]) for a in admissions], np.int64))
        self._filter.extend(np.array([a.filters[0] for a in admissions], np.int64))
        self._begin.extend(np.array([a.begins for a in admissions], np.int64))
        self._asleep.extend(np.array([a.made_at is None for a in admissions], np.uint8))
        awake = [
            (slot, max(a.made_at, a.begins))
            for slot, a, by in zip(slots, admissions, by_source, strict=True)
            if a.made_at is not None and not by
        ]
        self._watch([slot for slot, _ in awake], [heard for _, heard in awake])
        self._arrange()

    def filters(self) -> NDArray[np.int64]:
        return self._filter.used

    def wake(self, first: int) -> None:
        """Start the watches of subscriptions made before the clock ran: silence counts from the first time of all."""
        slots = np.flatnonzero((self._asleep.used == 1) & (self._by_source.used == 0))
        self._asleep.used[:] = 0
        self._watch(slots.tolist(), np.maximum(self._begin.used[slots], first).tolist())
        self._place(0)

    def _watch(self, slots: Sequence[int], heard: Sequence[int]) -> None:
        """Add a watch for each of these subscriptions, which are not by source, with the moment it counts from."""
        n = len(slots)
        self._watch_slot.extend(np.array(slots, np.int64))
        self._heard.extend(np.array(heard, np.int64))
        self._item.extend(np.full(n, -1))
        self._source.extend(np.zeros((n, 2), np.uint64))
        self._told.extend(np.zeros(n, np.uint8))

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = self._others(slots)
        self._keep(kept[self._watch_slot.used])
        self._watch_slot.replace((np.cumsum(kept) - 1)[self._watch_slot.used])
        for array in (self._window, self._filter, self._begin, self._by_source, self._asleep):
            array.replace(array.used[kept])
        self._leave(kept)
        self._arrange()

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        for array in (self._watch_slot, self._heard, self._item, self._source, self._told):
            array.replace(array.used[kept])

    def _arrange(self) -> None:
        """Lay out anew which subscriptions have which filter, and the hash table of watches."""
        filters = self._filter.used
        self._member.replace(np.argsort(filters, kind="stable"))
        counts = np.bincount(filters, minlength=1)
        self._of_filter.replace(np.concatenate(([0], np.cumsum(counts))).astype(np.int64))
        self._place(0)

    def _place(self, more: int) -> None:
        """Make room for so many more watches, and build the hash table in which the kernel finds them."""
        for array in (self._watch_slot, self._heard, self._item, self._source, self._told):
            array.reserve(more)
        size = 1 << (4 * (self._watch_slot.length + more) + 16).bit_length()
        self._table.replace(np.full(size, -1))
        place_all(self._table.used, self._watch_slot.used, self._source.used)
        self._block_due, self._next = np.empty(0, np.int64), LONG_AGO

    def _blocks(self) -> NDArray[np.int64]:
        """The first moment at which each block of watches may be due; all may be once watches have moved."""
        if len(self._block_due) << BLOCK < len(self._watch_slot.data):
            self._block_due, self._next = np.full((len(self._watch_slot.data) >> BLOCK) + 1, LONG_AGO), LONG_AGO
        return self._block_due

    # --- publications -----------------------------------------------------------------------------------------------

    def step(self, step: Step) -> FamilyResult:
        memory = self.memory
        told, at = [], (0, 0, 0)
        while at[0] < len(step.start) - 1:
            slot, moment, item, watches, first, *place = step_absent(
                step.first_item, step.start, step.hits, memory.time.data, memory.version.data, memory.source.data,
                self._of_filter.used, self._member.used, self._window.used, self._by_source.used,
                self.since.used, self.until.used, self.end.used,
                self._table.used, self._watch_slot.length,
                self._watch_slot.data, self._source.data, self._heard.data, self._item.data, self._told.data,
                self._blocks(), *at,
            )  # fmt: skip
            if len(slot):
                told.append((slot, moment, item))
            self._next = min(self._next, int(first))
            for array in (self._watch_slot, self._heard, self._item, self._source, self._told):
                array.length = int(watches)
            at = (int(place[0]), int(place[1]), int(place[2]))
            if at[0] < len(step.start) - 1:
                self._place(max(1024, self._watch_slot.length))
        if not told:
            return NOTHING_RAISED
        slots, moments, items = (np.concatenate(parts) for parts in zip(*told, strict=True))
        return FamilyResult.single(slots, moments, items, None)

    @property
    def due(self) -> int:
        return self._next if self._watch_slot.length else NEVER

    def advance(self, clock: int) -> FamilyResult | None:
        slot, moment, item, first = advance_absent(
            clock, self._watch_slot.length, self._window.used, self.end.used,
            self._watch_slot.data, self._heard.data, self._item.data, self._told.data, self._blocks(),
        )  # fmt: skip
        self._next = int(first)
        if not len(slot):
            return None
        result = FamilyResult.single(slot, moment, item, None)
        self._done += int(np.count_nonzero(self._by_source.used[slot]))
        if 2 * self._done > self._told.length:
            done = (self._told.used == 1) & (self._by_source.used[self._watch_slot.used] == 1)
            self._done = int(np.count_nonzero(done))
            if 2 * self._done > self._told.length:  # a source that is heard again gets a new watch
                self._keep(~done)
                self._place(0)
                self._done = 0
        return result

    def raised(self, told: Sequence[FamilyResult]) -> Sequence[FamilyResult]:
        """Ordered by moment, then by the publication that was heard last, whatever batch they were noticed in."""
        slot, moment, item = told[0].slot, told[0].moment, told[0].raised
        if len(told) > 1:
            slot, moment, item = (
                np.concatenate([getattr(part, name) for part in told]) for name in ("slot", "moment", "raised")
            )
        elif len(slot) == 1:
            return told
        order = np.lexsort((item, moment))
        return [FamilyResult.single(slot[order], moment[order], item[order], None)]

    def items(self) -> list[NDArray[np.int64]]:
        return [self._item.used]

    # --- reasons ----------------------------------------------------------------------------------------------------

    def reason(self, slot: int, coming: Coming, asked: Asked) -> Reason:
        by_source = bool(self._by_source.used[slot])
        mine = self._watch_slot.used == slot
        if by_source:
            mine &= coming.is_of(self._source.used)
        watches = np.flatnonzero(mine)
        silence = None
        if len(watches):
            at = int(watches[0])
            last = id_of(self.memory, int(self._item.used[at]))
            silence = Silence(int(self._heard.used[at]), last, bool(self._told.used[at]))
        elif self._asleep.used[slot] and not by_source:  # the clock begins to run with the publication
            silence = Silence(max(int(self._begin.used[slot]), coming.time), None, False)
        hears = coming.passes(int(self._filter.used[slot])) and not coming.is_late
        window, end = int(self._window.used[slot]), int(self.end.used[slot])
        now = max(coming.time, int(coming.arrival.clock[0])) if coming.is_late else coming.time
        return silence_reason(silence, window, end, now, hears)
