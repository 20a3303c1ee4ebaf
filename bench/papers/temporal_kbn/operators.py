"""Table 6.4 for ours: how long one operator takes, when it matches and when it does not.

An engine without a history has one operator and the events in memory. What counts is the part that asks and remembers,
``Past.step``: not reading the publication, selecting by plain conditions, making notifications, or writing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

import tidegate as tg
from bench.harness import say
from bench.papers.temporal_kbn.events import BEGIN, Events, Wanted, table_62
from bench.papers.temporal_kbn.plain_loops import Obvious
from bench.papers.temporal_kbn.plan import Plan
from bench.papers.temporal_kbn.preloaded import SPACING, as_table, last
from bench.papers.temporal_kbn.spread import spread
from bench.papers.temporal_kbn.stopwatch import Stopwatch
from bench.papers.temporal_kbn.wines import load_wines
from tidegate.patterns.past import Past

__all__ = ["operators"]

#: Publications that warm up.
_WARM = 20
#: Events that the loop needs to know: twice the widest limit passed, and then some.
_REACH = 20_000


def operators(plan: Plan, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each number of stored events and each limit."""
    load_wines()
    for stored in plan.stored:
        say(f"operators alone: {stored:,} events in memory")
        rng = np.random.default_rng([seed, stored])
        events = Events.drawn(rng, stored, SPACING, BEGIN)
        more = Events.drawn(rng, plan.events, SPACING, int(events.end.max()) + SPACING, stored)
        count, size = plan.batches
        many = Events.drawn(rng, count * size // 2, SPACING, int(more.end.max()) + SPACING, stored + len(more))
        for limit in plan.limits_with(stored):
            yield {**_at(events, more, many, limit, size), "stored": stored}


def _at(events: Events, more: Events, many: Events, limit: int, size: int) -> dict[str, Any]:
    seconds: dict[bool, list[float]] = {True: [], False: []}
    batches, exact, told = [], True, 0
    for wanted in table_62(limit):
        found, in_batch, same = _one(wanted, events, more, many, size)
        exact &= same
        batches.append(statistics.median(in_batch[1:]) / size)
        for took, matched in found[_WARM:]:
            seconds[matched].append(took)
            told += matched
    both = seconds[True] + seconds[False]
    return {
        "what": f"operators alone, limit {limit:,}",
        "test": "operators",
        "limit": limit,
        "notifications": told / len(both),
        "matching": spread(seconds[True]),
        "non-matching": spread(seconds[False]),
        "combined": spread(both),
        "batch_us": statistics.fmean(batches) * 1e6,
        "exact": exact,
    }


def _one(
    wanted: Wanted, events: Events, more: Events, many: Events, size: int
) -> tuple[list[tuple[float, bool]], list[float], bool]:
    """Seconds of each publication and whether it matched; those of batches; whether all was as the loop says."""
    loop = Obvious([wanted], by_rows=False)
    loop.load(last(events, _REACH))
    engine = tg.Engine([tg.Subscription("s", "bench", wanted.where)])
    for table in events.whole(50_000):
        engine.publish(table, grouped=True)
    found, batches, same = [], [], True
    with Stopwatch().on(past=(Past, "step")) as watch:
        for part in more.parts():
            told = bool(engine.publish([part.publication()]))
            found.append((watch.take()["past"], told))
            same &= told == bool(loop.take(part))
        parts = many.parts()
        for at in range(0, len(parts), size):
            some = parts[at : at + size]
            rows = engine.publish(as_table(some), grouped=True).num_rows
            batches.append(watch.take()["past"])
            same &= rows == sum(bool(loop.take(part)) for part in some)
    engine.close()
    return found, batches, same
