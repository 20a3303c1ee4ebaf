"""How much processor time subscriptions take per publication: matched alone, with publications that are given.

The first publications let patterns remember something; what the others take is measured, several times, and the least
counts: whatever else the machine does can only make it more. The timer is passed. Knows no registry and no log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa

from tidegate.broker.cost_sample import CostSample
from tidegate.engine.pattern_shards import PatternShards
from tidegate.index import ArrowBatch, Index
from tidegate.language import DEFAULT_LIMITS
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Subscription
from tidegate.patterns import Pattern
from tidegate.patterns.combine import KEEP
from tidegate.predicates import Filter
from tidegate.subscriptions import compile_subscription

__all__ = ["LEAST_ROWS", "CostMeasure", "MeasureSettings"]

#: Publications below which a figure would be of overheads only.
LEAST_ROWS = 100
#: Publications that are matched first, to see how many can be; and that patterns see at a time before that.
_PROBE, _WARMING = 16, 256
#: What never matches: what is taken for it is taken whoever subscribes.
_NEVER = '"nothing that there is" > 0'
_NEVER_BEST = f"topk(1, 'PT1M', \"nothing that there is\") AND {_NEVER}"

Compiled = Filter | Pattern


class MeasureSettings(NamedTuple):
    """How to measure. ``warming`` is the share of publications that only patterns see; ``seconds`` how long one
    measurement may take, about; ``lateness`` and ``keep`` are the run's, in microseconds.
    """

    warming: float = 0.75
    seconds: float = 0.25
    repeats: int = 3
    lateness: int = 0
    combinations: int = DEFAULT_LIMITS.combinations
    keep: int = KEEP


class CostMeasure:
    """Measures with a sample. ``timer`` gives seconds of processor time."""

    def __init__(self, sample: CostSample, settings: MeasureSettings, timer: Callable[[], float]) -> None:
        self._settings, self._timer = settings, timer
        self._warming, self._counted = sample.split(int(settings.warming * len(sample)))
        self._bases: dict[type, float] = {}

    def microseconds(self, compiled: Sequence[Compiled]) -> float:
        """What some subscriptions take together for a publication, beyond what one takes that never matches."""
        kinds = {Pattern if isinstance(one, Pattern) else Filter for one in compiled}
        bases = sum(self._base(kind) for kind in kinds)
        return max(0.0, self._taken(compiled) - bases)

    def _base(self, kind: type) -> float:
        found = self._bases.get(kind)
        if found is None:
            where = _NEVER_BEST if kind is Pattern else _NEVER
            never = compile_subscription(Subscription("never", "nobody", where), NO_LIMITS)
            found = self._bases[kind] = self._taken([never])
        return found

    def _taken(self, compiled: Sequence[Compiled]) -> float:
        index, patterns = Index(), list[Pattern]()
        for number, one in enumerate(compiled):
            if isinstance(one, Pattern):
                patterns.append(one)
            else:
                index.add(number, one)
        with closing(index):
            _ = index.segments  # built now, not with the first publication
            began, least = self._timer(), float("inf")
            for repeat in range(self._settings.repeats):
                least = min(least, self._once(index, patterns))
                # What is done the first time, as to load compiled code, is no reason to give up.
                if repeat and self._timer() - began > self._settings.seconds:
                    break
        return 1e6 * least

    def _once(self, index: Index, patterns: Sequence[Pattern]) -> float:
        """Seconds for a publication."""
        settings = self._settings
        with closing(PatternShards(settings.lateness, settings.combinations, 1, settings.keep)) as stage:
            for number, pattern in enumerate(patterns):
                stage.add(number, pattern)
            stage.settle()
            used = stage if patterns else None
            if used is not None:
                self._warm(used)
            return self._measured(index, used)

    def _warm(self, stage: PatternShards) -> None:
        began = self._timer()
        for table in self._warming:
            for at in range(0, table.num_rows, _WARMING):
                stage.publish(ArrowBatch.trusted(table.slice(at, _WARMING)), ids=False)
                if self._timer() - began > self._settings.seconds:
                    return

    def _measured(self, index: Index, stage: PatternShards | None) -> float:
        first = self._counted[0]
        probe = self._timed([first.slice(0, _PROBE)], index, stage)
        count = int(min(_PROBE, first.num_rows))
        if probe >= self._settings.seconds:
            return probe / count
        room = int(self._settings.seconds * count / max(probe, 1e-9))
        rest = _first([first.slice(count), *self._counted[1:]], max(room, _PROBE))
        rows = int(sum(table.num_rows for table in rest))
        return self._timed(rest, index, stage) / rows if rows else probe / count

    def _timed(self, tables: Iterable[pa.Table], index: Index, stage: PatternShards | None) -> float:
        seconds = 0.0
        for table in tables:
            batch = ArrowBatch.trusted(table)  # read as often as it is matched: a batch remembers what was asked of it
            began = self._timer()
            index.match(batch)
            if stage is not None:
                stage.publish(batch, ids=False)
            seconds += self._timer() - began
        return seconds


def _first(tables: Sequence[pa.Table], rows: int) -> list[pa.Table]:
    """The first so many rows of some tables."""
    found = list[pa.Table]()
    for table in tables:
        some = table.slice(0, rows)
        rows -= some.num_rows
        if some.num_rows:
            found.append(some)
    return found
