"""``together(window[, metres], f₁, …, fₙ[, 'all'])``: readings of several sensors that belong together.

One publication for each filter, all within the window of the latest and, if metres are given, pairwise nearer than
that. Semantics of Jurca et al., *Filter-Split-Forward*, §IV-A, for identified subscriptions (filters that name a
source) and abstract ones (filters on a kind of reading and a region) alike.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.kernels.together import step_together
from tidegate.kernels.window import window_items
from tidegate.language.limits import Limits
from tidegate.language.render import to_text
from tidegate.language.tree import Call, Literal
from tidegate.patterns.arrays import Arrays
from tidegate.patterns.memory import LONG_AGO, Memory, Step
from tidegate.patterns.pattern import NEVER, NOTHING_RAISED, Admission, Family, FamilyResult, Parts, family
from tidegate.patterns.reason import UNSEEN, Asked, Coming, Reason
from tidegate.patterns.together_reason import FilterReadings, combination_reason
from tidegate.patterns.windows import span
from tidegate.predicates.column import Column, column
from tidegate.predicates.family import BeyondLimit, Mismatch

__all__ = ["Together"]

_LOG = logging.getLogger("tidegate")
_PLACE = tuple(column(reading, "location") for reading in ("lon", "lat", "x", "y", "z"))


@dataclass
class _Derived:
    """What is worked out anew when subscriptions change: a stamp for each of them, and how many filters one has."""

    changes: int
    stamps: NDArray[np.int64]
    most: int
    stamp: int = 0


@family
class Together(Family):
    """All ``together`` subscriptions of a shard."""

    name = "together"
    arity = (2, 2**31)
    example = "together('PT5M', 2000, kind = 'wind' AND speed > 10, kind = 'rain' AND rate > 2)"

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        super().__init__(arrays, memory)
        self._window, self._filter_start = (arrays.get(f"together-{name}", np.int64) for name in ("window", "start"))
        self._near, self._every = arrays.get("together-near", np.float64), arrays.get("together-every", np.uint8)
        self._filters = arrays.get("together-filters", np.int32)
        self._of_filter, self._member = (arrays.get(f"together-{name}", np.int64) for name in ("of_filter", "member"))
        if not self._filter_start.length:
            self._filter_start.extend(np.zeros(1, np.int64))
        self._derived = _Derived(-1, np.empty(0, np.int64), 1)
        self._place = np.empty(0, np.int64)
        self._place_of = -1

    # --- language ---------------------------------------------------------------------------------------------------

    @classmethod
    def compile(cls, call: Call, limits: Limits) -> Parts:
        first, *rest = call.args
        window = span(first, "together", limits)
        metres, every = 0.0, False
        if rest and isinstance(rest[0], Literal) and not isinstance(rest[0].value, bool | str):
            metres = float(rest[0].value)
            if not (metres > 0 and isfinite(metres)):
                raise Mismatch("a distance in metres above 0", to_text(rest[0]), rest[0])
            rest = rest[1:]
        if rest and isinstance(rest[-1], Literal) and isinstance(rest[-1].value, str):
            if rest[-1].value != "all":
                raise Mismatch("'all' or a condition as last argument of together", to_text(rest[-1]), rest[-1])
            every, rest = True, rest[:-1]
        if len(rest) < 2:
            raise Mismatch("at least 2 filters in together", f"{len(rest)}", call)
        if len(rest) > limits.filters:
            raise BeyondLimit(f"at most {limits.filters} filters in together (setting filters)", f"{len(rest)}", call)
        form = orjson.dumps({"near": metres > 0, "all": every}).decode()
        return Parts(form, (window, metres), tuple(rest))

    @classmethod
    def columns(cls, form: str) -> tuple[Column, ...]:
        return _PLACE if orjson.loads(form)["near"] else ()

    @classmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        return int(numbers[0]), 0

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def add(self, admissions: Sequence[Admission]) -> None:
        self._enter(admissions)
        forms = {form: orjson.loads(form) for form in {a.form for a in admissions}}
        if any(facts["near"] for facts in forms.values()):
            self.memory.want(_PLACE)
        self._window.extend(np.array([int(a.numbers[0]) for a in admissions], np.int64))
        near = [a.numbers[1] if forms[a.form]["near"] else np.nan for a in admissions]
        self._near.extend(np.array(near, np.float64))
        self._every.extend(np.array([forms[a.form]["all"] for a in admissions], np.uint8))
        self._filters.extend(np.array([f for a in admissions for f in a.filters], np.int32))
        ends = self._filter_start.used[-1] + np.cumsum([len(a.filters) for a in admissions])
        self._filter_start.extend(ends.astype(np.int64))
        self._arrange()

    def remove(self, slots: NDArray[np.int64]) -> None:
        kept = self._others(slots)
        sizes = np.diff(self._filter_start.used)
        self._filters.replace(self._filters.used[np.repeat(kept, sizes)])
        self._filter_start.replace(np.concatenate(([0], np.cumsum(sizes[kept]))).astype(np.int64))
        for array in (self._window, self._near, self._every):
            array.replace(array.used[kept])
        self._leave(kept)
        self._arrange()

    def filters(self) -> NDArray[np.int32]:
        return self._filters.used

    def _arrange(self) -> None:
        """Lay out anew which subscriptions have which filter."""
        sizes = np.diff(self._filter_start.used)
        slot = np.repeat(np.arange(len(sizes)), sizes)
        filters = self._filters.used
        order = np.argsort(filters, kind="stable")
        counts = np.bincount(filters, minlength=1)
        self._of_filter.replace(np.concatenate(([0], np.cumsum(counts))).astype(np.int64))
        self._member.replace(slot[order].astype(np.int64))

    # --- publications -----------------------------------------------------------------------------------------------

    def step(self, step: Step) -> FamilyResult:
        memory, n = self.memory, len(step.start) - 1
        derived = self._derived
        if derived.changes != self.changes:
            most = int(np.diff(self._filter_start.used).max(initial=1))
            derived = self._derived = _Derived(self.changes, np.full(self.owner.length, -1), most)
        # memory may hold publications of older versions than the batch
        strict = step.strict or self.may_not_see(memory.oldest_version)
        slot, moment, distance, start, items, cut = step_together(
            strict, step.combinations, step.first_item, step.start, step.hits, step.first_pair,
            memory.time.data, memory.version.data, memory.values.data, self._columns(),
            memory.pair_item.data, memory.pair_before.data,
            step.filters, step.before, memory.head.data, memory.recent_time.data,
            self._of_filter.used, self._member.used, self._filter_start.used, self._filters.used, derived.most,
            self._window.used, self._near.used, self._every.used,
            self.since.used, self.until.used, self.closing.used, derived.stamps, derived.stamp,
        )  # fmt: skip
        derived.stamp += n
        if cut:
            self.arrays.facts.count("cut", int(cut))
            _LOG.error(
                "together: more than %d combinations (setting combinations) of one publication; %d times left out",
                step.combinations, cut,
            )  # fmt: skip
        if not len(slot):
            return NOTHING_RAISED
        nothing = np.full(len(slot), np.nan)
        latest = np.maximum.reduceat(items, start[:-1])
        return FamilyResult(slot, moment, nothing, distance, start, items, latest)

    def _columns(self) -> NDArray[np.int64]:
        """The columns of memory in which the place of a publication is, −1 for those that nobody wants."""
        columns = self.memory.columns
        if self._place_of != len(columns):
            self._place_of = len(columns)
            self._place = np.array([columns.index(c) if c in columns else -1 for c in _PLACE], np.int64)
        return self._place

    @property
    def counts(self) -> dict[str, int]:
        return {"cut": self.arrays.facts.counts.get("cut", 0)}

    # --- reasons ----------------------------------------------------------------------------------------------------

    def reason(self, slot: int, coming: Coming, asked: Asked) -> Reason:
        mine = slice(*self._filter_start.used[slot : slot + 2])
        filters = self._filters.used[mine].tolist()
        if not any(coming.passes(f) for f in filters):
            return Reason(UNSEEN, {}, False)
        near = float(self._near.used[slot])
        here = coming.arrival.values[0, self._columns()[:2]] if isfinite(near) else np.empty(0)
        readings = [self._readings(slot, f, coming) for f in filters]
        return combination_reason(self.memory, readings, int(self._window.used[slot]), near, here, coming)

    def _readings(self, slot: int, filter: int, coming: Coming) -> FilterReadings:
        """What stands for a filter beside the publication: in the window, and the last reading before that."""
        memory, seen_before = self.memory, coming.place if coming.is_late and coming.place >= 0 else NEVER

        def last(oldest: int, most: int) -> NDArray[np.int64]:
            found: NDArray[np.int64] = window_items(
                memory.head.data[filter], seen_before, oldest, most, self.since.used[slot], self.until.used[slot],
                memory.time.data, memory.version.data, memory.pair_item.data, memory.pair_before.data,
            )  # fmt: skip
            return found

        places = last(coming.time - int(self._window.used[slot]), NEVER)
        before = last(LONG_AGO, 1)
        points = memory.values.data[places][:, self._columns()[:2]] if isfinite(self._near.used[slot]) else None
        return FilterReadings(coming.passes(filter), places, int(before[0]) if len(before) else -1, points)
