"""The quota ``cost`` of principals: the processor time per publication that all subscriptions of one may take together.

What is put is measured at once, with the newest publications of the log, and added to what its subscriber has. Whoever
has no such quota is not measured here. Works in threads; the figures that stay come from the process that measures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from threading import Lock
from time import monotonic, thread_time
from typing import TYPE_CHECKING, NamedTuple

from anyio import CapacityLimiter

from tidegate.broker.cost_groups import GROUP, figures
from tidegate.broker.cost_measure import LEAST_ROWS, Compiled, CostMeasure
from tidegate.broker.cost_meter import measure_settings
from tidegate.broker.cost_sample import newest
from tidegate.closing import Closing
from tidegate.errors import StoreError, TidegateError, shown
from tidegate.gateway.access import Caller
from tidegate.gateway.problems import RequestError
from tidegate.store.active_subscriptions import ActiveSubscriptions
from tidegate.store.costs import Cost
from tidegate.store.log_rows import LogRows
from tidegate.store.replacing import Outcome, Put, Wanted, outcome_of
from tidegate.store.stored_subscription import StoredSubscription

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["CostQuota"]

_LOG = logging.getLogger("tidegate.gateway")
#: Measurements of the same subscription differ by so much; so much more than the quota passes.
_TOLERANCE = 0.25
#: Publications of a sample, the share of them that only patterns see, and for how many seconds a sample is used.
_ROWS, _WARMING, _SAMPLED = 200, 0.5, 10.0
#: Seconds for one measurement, and after which groups of many subscriptions are halved no further.
_MEASURES, _HALVES = 0.05, 0.5
#: Threads that measure or wait to, at most.
_THREADS = 2
#: Subscriptions without a figure that are measured beside what is put, at most.
_UNKNOWN = 1_000


class _Asked(NamedTuple):
    """One of what is put that would take more time than what is there: what it means, and what it replaces."""

    place: int
    compiled: Compiled
    before: StoredSubscription | None


class CostQuota(Closing):
    """Keeps principals within their quota. ``timer`` gives seconds of the processor time of a thread."""

    def __init__(self, broker: OpenBroker, timer: Callable[[], float] = thread_time) -> None:
        self._broker, self._timer = broker, timer
        self._lock = Lock()
        self.threads = CapacityLimiter(_THREADS)
        """Where it is to be called, so that nobody else waits for what is measured."""
        self._costs = broker.costs
        self._measure: CostMeasure | None = None
        self._sampled_to, self._until = -1, float("-inf")
        with ExitStack() as opened:
            self._active = opened.enter_context(ActiveSubscriptions(broker.registry))
            self._rows = opened.enter_context(LogRows(broker.data.log, frames=256))
            self._opened = opened.pop_all()

    def put(self, caller: Caller, wanted: Sequence[Wanted]) -> list[Put | RequestError]:
        """Put subscriptions of a principal that has the quota; those beyond it are refused. Called in a thread."""
        with self._lock:  # what others put at the same time counts
            there = self._active.named([one.checked.subscription.registered_id for one in wanted])
            asked = self._asked(caller, wanted, there)
            measure = self._measured_with() if asked else None
            if measure is None:
                return list(self._put(caller, wanted))
            try:
                taken = self._taken(measure, [one.compiled for one in asked])
                refused = self._refused(caller, wanted, asked, taken, measure)
            except Exception:  # whatever it is, it is no reason to refuse
                _LOG.exception("%d subscriptions of %s are not measured", len(asked), caller.name)
                return list(self._put(caller, wanted))
            rest = [one for place, one in enumerate(wanted) if place not in refused]
            puts = iter(self._put(caller, rest))
            found = [refused.get(place) or next(puts) for place in range(len(wanted))]
            self._note(found, zip(asked, taken, strict=True))
            return found

    def _put(self, caller: Caller, wanted: Sequence[Wanted]) -> list[Put]:
        return self._broker.registry.put(caller.name, wanted, caller.quotas.get("subscriptions"))

    def _asked(self, caller: Caller, wanted: Sequence[Wanted], there: dict[str, StoredSubscription]) -> list[_Asked]:
        """What has to be measured: not what would be refused anyway, nor what asks nothing new."""
        found, read = list[_Asked](), self._broker.principals.read_of(caller.name)
        for place, one in enumerate(wanted):
            before = there.get(one.checked.subscription.registered_id)
            where = one.checked.texts[0]
            if outcome_of(one, before) in (Outcome.MADE, Outcome.REPLACED) and (
                before is None or before.where != where
            ):
                stored = StoredSubscription.of(one.checked.subscription, 0)._replace(where=where, read=read)
                found.append(_Asked(place, stored.compiled(), before))
        return found

    def _refused(
        self,
        caller: Caller,
        wanted: Sequence[Wanted],
        asked: Sequence[_Asked],
        taken: Sequence[float],
        measure: CostMeasure,
    ) -> dict[int, RequestError]:
        """Why some are refused, by their places: those that would make it more than the quota, in their order. One
        whose id was taken before it becomes a conflict, so it neither counts nor takes anything off.
        """
        most, known = caller.quotas["cost"], self._known(caller.name, measure)
        total, refused, ids = sum(known.values()), dict[int, RequestError](), set[str]()
        for one, figure in zip(asked, taken, strict=True):
            subscription = wanted[one.place].checked.subscription
            if subscription.registered_id in ids:
                continue
            before = 0.0 if one.before is None else known.get(one.before.since, 0.0)
            with_it = total - before + figure
            if with_it > most * (1 + _TOLERANCE) and figure > before:
                expected = f"subscriptions of {caller.name} that take at most {most:,g} µs per publication together"
                at = f"subscription {shown(subscription.id)}"
                got = f"{with_it:,.3g} µs with this one, which takes {figure:,.3g} µs"
                refused[one.place] = RequestError(429, "quota", expected, got, at)
                continue
            total = with_it
            ids.add(subscription.registered_id)
        return refused

    def _known(self, principal: str, measure: CostMeasure) -> dict[int, float]:
        """What each subscription of a principal takes, by the version that made it; the newest of those of which
        nothing is known are measured now.
        """
        versions, costs = self._active.versions_of(principal), self._costs.of_principal(principal)
        unknown = [since for since in versions if since not in costs][-_UNKNOWN:]
        if unknown:
            there = self._active.made_at(unknown)
            taken = self._taken(measure, [one.compiled() for one in there])
            new = [
                Cost(one.since, principal, one.id, figure, self._broker.clock(), True)
                for one, figure in zip(there, taken, strict=True)
            ]
            self._keep(new)
            costs |= {one.since: one for one in new}
        return {since: costs[since].microseconds for since in versions if since in costs}

    # --- measuring ----------------------------------------------------------------------------------------------------

    def _measured_with(self) -> CostMeasure | None:
        """What measures with the newest publications; None while there are too few, or they cannot be read."""
        if monotonic() < self._until:
            return self._measure
        try:
            if self._broker.log.end != self._sampled_to:
                sample = newest(self._broker.log, self._rows, _ROWS)
                settings = measure_settings(self._broker.config)._replace(warming=_WARMING, seconds=_MEASURES)
                self._measure = CostMeasure(sample, settings, self._timer) if len(sample) >= LEAST_ROWS else None
                self._sampled_to = sample.end
        except TidegateError as error:
            _LOG.warning("what is put is not measured: %s", error)
            self._measure = None
        self._until = monotonic() + _SAMPLED if self._measure is not None else float("-inf")
        return self._measure

    def _taken(self, measure: CostMeasure, compiled: Sequence[Compiled]) -> list[float]:
        """What each of some takes. Of one that alone takes less than the threshold, most is for what all share: it is
        counted as it would be in a full group.
        """
        threshold, until = self._broker.config.costs.threshold, monotonic() + _HALVES
        group = max(len(compiled), 1)
        found = figures(compiled, measure.microseconds, threshold, group, lambda: monotonic() < until)
        share = min(1.0, group / GROUP)
        return [figure if figure > threshold else figure * share for figure in found]

    def _note(self, puts: Sequence[Put | RequestError], figures: Iterable[tuple[_Asked, float]]) -> None:
        """Keep the figures of those that were made, until the process that measures has better ones."""
        moment, costs, ended = self._broker.clock(), list[Cost](), list[int]()
        for one, figure in figures:
            put = puts[one.place]
            if isinstance(put, Put) and put.outcome in (Outcome.MADE, Outcome.REPLACED) and put.stored is not None:
                costs.append(Cost(put.stored.since, put.stored.subscriber, put.stored.id, figure, moment, True))
                ended += [] if one.before is None else [one.before.since]
        self._keep(costs)
        self.forget(ended)

    def forget(self, ended: Sequence[int]) -> None:
        """Forget what subscriptions cost that have ended, made at these versions."""
        try:
            self._costs.remove(ended)
        except StoreError as error:  # the process that measures does so, too
            _LOG.warning("what has ended is still kept: %s", error)

    def _keep(self, costs: Sequence[Cost]) -> None:
        try:
            self._costs.note(costs)
        except StoreError as error:  # it is measured again the next time
            _LOG.warning("what was measured is not kept: %s", error)

    def close(self) -> None:
        self._opened.close()
