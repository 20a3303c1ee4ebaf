"""Measuring what all subscriptions of a broker cost, a group at a time: the newest first, then those that were measured
longest ago. It follows the versions of the registry, and keeps what it finds in ``costs.db``.

The same code measures whichever runner matches. ``CostMeter.step`` does one thing and says how long nothing is to be
done then; it asks ``pause`` before each measurement. Without sockets; both clocks are passed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import process_time
from typing import NamedTuple

import numpy as np

from tidegate.broker.cost_groups import GROUP, figures
from tidegate.broker.cost_measure import LEAST_ROWS, CostMeasure, MeasureSettings
from tidegate.broker.cost_sample import newest
from tidegate.closing import Closing
from tidegate.errors import TidegateError
from tidegate.patterns import Pattern
from tidegate.patterns.combine import KEEP
from tidegate.predicates import Filter
from tidegate.runs.config import Config
from tidegate.store.active_subscriptions import ActiveSubscriptions
from tidegate.store.costs import Cost, Costs
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log_reader import LogReader
from tidegate.store.log_rows import LogRows
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.store.version_readers import now

__all__ = ["CostMeter", "measure_settings"]

_LOG = logging.getLogger("tidegate.costs")
#: Microseconds for which a sample is used while the log grows.
_SAMPLED = 60_000_000
#: Seconds between two looks at the registry.
_LOOK = 1.0
_NONE = np.empty(0, np.int64)


class _Measured(NamedTuple):
    stored: StoredSubscription
    compiled: Filter | Pattern


def measure_settings(config: Config) -> MeasureSettings:
    """How to measure as the run of a configuration matches."""
    run = config.run
    keep = KEEP if run.keep is None else int(run.keep * 1e6)
    return MeasureSettings(lateness=int(run.lateness * 1e6), combinations=run.combinations, keep=keep)


class CostMeter(Closing):
    """Measures the subscriptions of a configuration with the publications of its data directory."""

    def __init__(
        self,
        config: Config,
        data: DataDirectory,
        *,
        clock: Callable[[], int] = now,
        timer: Callable[[], float] = process_time,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._config, self._clock, self._timer, self._pause = config, clock, timer, pause
        self.costs = Costs(data.costs)
        self._log_place = data.log
        self._measure: CostMeasure | None = None
        self._sampled_to, self._sampled_at = -1, 0
        self._pending = _NONE
        self._version: int | None = None
        with ExitStack() as opened:
            opened.enter_context(config.shapes.used())
            opened.enter_context(config.ontology.used())
            self._registry = opened.enter_context(config.subscriptions.open())
            self._active = opened.enter_context(ActiveSubscriptions(self._registry))
            self._opened = opened.pop_all()

    def step(self) -> float:
        """Look what has changed and measure a group, if there is one to measure; for how many seconds there is nothing
        to do then.
        """
        self._follow()
        group = self._group()
        if not group or (measure := self._measured_with()) is None:
            return _LOOK
        self._measure_group(group, measure)
        return 0.0

    # --- which are to be measured -------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Know the subscriptions of now."""
        version = self._registry.version
        if version == self._version:
            return
        if self._version is None or version < self._version:
            there = self._active.versions(0)
            self.costs.remove(np.setdiff1d(self.costs.known(), there).tolist())
            self._pending = np.setdiff1d(there, self.costs.measured())
        else:
            ended = [since for since, _ in self._registry.ended(self._version, version)]
            self.costs.remove(ended)
            new = self._active.versions(self._version)
            self._pending = np.concatenate([np.setdiff1d(self._pending, ended), new])
        self._version = version

    def _group(self) -> list[int]:
        """The versions of those that are next. A group is filled up, as what is measured alone seems dearer than it is
        among others.
        """
        chosen: list[int] = self._pending[-GROUP:].tolist()
        due = self._clock() if chosen else self._clock() - int(self._config.costs.interval * 1e6)
        old = self.costs.oldest(GROUP, due)
        if not chosen and old:  # all that are due at once fill a group with others that will be soon
            old = self.costs.oldest(GROUP, self._clock())
        return chosen + old[: GROUP - len(chosen)]

    # --- measuring ----------------------------------------------------------------------------------------------------

    def _measured_with(self) -> CostMeasure | None:
        """What measures with the newest publications; None while there are too few."""
        moment = self._clock()
        if self._measure is not None and moment < self._sampled_at + _SAMPLED:
            return self._measure
        with LogReader(self._log_place) as log:
            if (end := log.end) != self._sampled_to:
                with LogRows(self._log_place, frames=16) as rows:
                    sample = newest(log, rows, self._config.costs.publications)
                is_enough = len(sample) >= LEAST_ROWS
                settings = measure_settings(self._config)
                self._measure = CostMeasure(sample, settings, self._timer) if is_enough else None
                self._sampled_to = end
        self._sampled_at = moment
        return self._measure

    def _measure_group(self, group: Sequence[int], measure: CostMeasure) -> None:
        there = self._active.made_at(group)
        known = [one for stored in there if (one := _compiled(stored)) is not None]

        def taken(some: Sequence[_Measured]) -> float:
            self._pause()
            return measure.microseconds([one.compiled for one in some])

        waiting, found = [known], list[tuple[StoredSubscription, float]]()
        while waiting:
            some = waiting.pop()
            try:
                measured = figures(some, taken, self._config.costs.threshold)
            except Exception:  # whatever is wrong with one, the others are measured
                if len(some) > 1:
                    waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
                else:
                    _LOG.exception("%s is not measured", some[0].stored.index_id)
                continue
            found += [(one.stored, figure) for one, figure in zip(some, measured, strict=True)]
        moment = self._clock()
        costs = [Cost(stored.since, stored.subscriber, stored.id, figure, moment) for stored, figure in found]
        self.costs.note(costs)
        self.costs.remove(set(group) - {one.since for one in costs})
        self._pending = np.setdiff1d(self._pending, np.array(group, np.int64))

    def close(self) -> None:
        self._opened.close()


def _compiled(stored: StoredSubscription) -> _Measured | None:
    try:
        return _Measured(stored, stored.compiled())
    except TidegateError as error:
        _LOG.warning("%s is not measured: %s", stored.index_id, error)
        return None
