"""Test 2: events that are there before, Table 6.2, and the time per publication by FILTER's limit."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import say, timed
from bench.papers.temporal_kbn.databases import New
from bench.papers.temporal_kbn.events import BEGIN, Events, Part, Wanted, drawn, table_62
from bench.papers.temporal_kbn.ours import Ours, Taken, fill
from bench.papers.temporal_kbn.plain_loops import Obvious
from bench.papers.temporal_kbn.plan import Plan
from bench.papers.temporal_kbn.scanning import Scanning
from bench.papers.temporal_kbn.spread import spread, typical

__all__ = ["SPACING", "as_table", "last", "preloaded"]

#: Microseconds between events.
SPACING = 3_000_000


@dataclass
class _World:
    """Two stores with the same events, and what the obvious loops make of them."""

    plan: Plan
    database: str
    scanning: Scanning
    by_rows: Obvious
    by_passed: Obvious
    rng: np.random.Generator
    stored: int
    end: int

    def more(self, count: int) -> Events:
        """Events that start after all others have ended."""
        events = Events.drawn(self.rng, count, SPACING, self.end + SPACING, self.stored)
        self.stored, self.end = self.stored + count, int(events.end.max())
        return events


@dataclass
class _Times:
    """Seconds, by stretch of publications."""

    ours: list[list[float]] = field(default_factory=list)
    writing: list[list[float]] = field(default_factory=list)
    paged: list[list[float]] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Microseconds per publication, how often as long as ours the scans took, spreads, and the raw seconds."""
        by_name = {"ours": self.ours, "writing": self.writing, "paged": self.paged, "rows": self.rows}
        flat = {name: [s for each in stretches for s in each] for name, stretches in by_name.items()}
        whole, paged, rows = typical(self.ours), typical(self.paged), typical(self.rows)
        stretches = zip(self.ours, self.writing, strict=True)
        matching = typical([[a - b for a, b in zip(*each, strict=True)] for each in stretches])
        without_write = [a - b for a, b in zip(flat["ours"], flat["writing"], strict=True)]
        return {
            "ours_us": whole,
            "matching_us": matching,
            "write_us": typical(self.writing),
            "paged_us": paged,
            "rows_us": rows,
            "paged_ratio": paged / whole,
            "rows_ratio": rows / whole,
            "paged_matching_ratio": paged / matching,
            "rows_matching_ratio": rows / matching,
            "spread": {**{name: spread(each) for name, each in flat.items()}, "matching": spread(without_write)},
            "seconds": {name: [statistics.fmean(s) for s in each if s] for name, each in by_name.items()},
        }


def preloaded(plan: Plan, seed: int, database: str, new: New) -> Iterator[dict[str, Any]]:
    """A row for each number of stored events and each limit, and one for batches."""
    for stored in plan.stored:
        say(f"test 2, {database}: {stored:,} events are stored")
        rng = np.random.default_rng([seed, stored])
        events = Events.drawn(rng, stored, SPACING, BEGIN)
        url, scanning = new(), Scanning(new())
        filled = fill(url, events)
        scanning.create()
        scanning.load(events)
        # The loops need only what the widest limit can reach, twice as far back for what passed.
        widest = max(plan.limits)
        few = last(events, 4 * widest)
        loops = [Obvious(table_62(widest), by_rows=by_rows) for by_rows in (True, False)]
        for loop in loops:
            loop.load(few)
        world = _World(plan, database, scanning, loops[0], loops[1], rng, stored, int(events.end.max()))
        del events
        for limit in plan.limits_with(stored):
            subscribers = drawn(rng, table_62(limit), plan.subscribers)
            ours = Ours(url, subscribers)
            yield {**_at(world, limit, subscribers, ours), "stored": stored, "filled_s": filled}
            if limit == widest:
                yield {**_in_batches(world, limit, subscribers, ours), "stored": stored}
            ours.close()
        scanning.close()


def last(events: Events, count: int) -> Events:
    """The newest of them."""
    at = max(0, len(events) - count)
    return Events(events.first + at, events.start[at:], events.end[at:], events.a[at:], events.wine[at:])


def _at(world: _World, limit: int, subscribers: dict[str, Wanted], ours: Ours) -> dict[str, Any]:
    """One limit: rivals take turns by stretches of publications."""
    plan, table = world.plan, table_62(limit)
    say(f"  limit {limit:,}")
    stored, ours_stored = world.stored, len(ours)
    parts = world.more(plan.events).parts()
    publications = [part.publication() for part in parts]
    world.scanning.wanted = {each.name: each for each in table}
    times, exact, told = _Times(), True, 0
    for loop in (world.by_rows, world.by_passed):
        loop.ask(table)
    applied: dict[bool, list[tuple[str, float, bool]]] = {False: [], True: []}
    for turn, at in enumerate(range(0, len(parts), plan.stretch)):
        stretch = parts[at : at + plan.stretch]
        taken = [ours.take([each]) for each in publications[at : at + plan.stretch]]
        scanned, found = _scanned(world, stretch, turn, applied)
        times.ours.append([each.seconds for each in taken])
        times.writing.append([each.writing for each in taken])
        times.paged.append(scanned[False])
        times.rows.append(scanned[True])
        exact &= _agree(world, stretch, subscribers, taken, found)
        told += sum(len(each.told) for each in taken)
    return {
        "what": f"test 2, {world.database}, limit {limit:,}",
        "test": "test 2",
        "database": world.database,
        "limit": limit,
        "stored_before": stored,
        "stored_by_us": ours_stored,
        "subscribers": plan.subscribers,
        "publications": len(parts),
        "notifications": told / len(parts),
        "opening_s": ours.opening,
        **times.summary(),
        "operators": {
            "rows" if by_row else "paged": {
                "matching": spread([took for _, took, matched in each if matched]),
                "non-matching": spread([took for _, took, matched in each if not matched]),
                "combined": spread([took for _, took, _ in each]),
            }
            for by_row, each in applied.items()
        },
        "exact": exact & ours.is_sound,
    }


def _scanned(
    world: _World, stretch: list[Part], turn: int, applied: dict[bool, list[tuple[str, float, bool]]]
) -> tuple[dict[bool, list[float]], dict[int, set[str]]]:
    """The scan's turn: seconds in pages and row by row, and what it found, by place in the stretch."""
    plan, scanning = world.plan, world.scanning
    seconds: dict[bool, list[float]] = {False: [], True: []}
    found = {}
    rowed = plan.rowed if turn % 3 == 0 else 0
    for i, part in enumerate(stretch):
        if i >= plan.paged + rowed:
            scanning.store(part)
            continue
        scanning.row_by_row = i >= plan.paged
        scanning.applied.clear()
        took, found[i] = timed(partial(scanning.take, part))
        seconds[scanning.row_by_row].append(took)
        applied[scanning.row_by_row] += scanning.applied
    return seconds, found


def _agree(
    world: _World, stretch: list[Part], subscribers: dict[str, Wanted], taken: list[Taken], found: dict[int, set[str]]
) -> bool:
    """Whether all told the same: ours for every publication, the scan for those it was measured for."""
    same = True
    for i, (part, ours) in enumerate(zip(stretch, taken, strict=True)):
        by_rows, by_passed = world.by_rows.take(part), world.by_passed.take(part)
        same &= by_rows == by_passed == found.get(i, by_rows)
        same &= ours.told == {id for id, each in subscribers.items() if each.name in by_passed}
    return same


def _in_batches(world: _World, limit: int, subscribers: dict[str, Wanted], ours: Ours) -> dict[str, Any]:
    """Ours with many publications in a call; the first batch warms up."""
    count, size = world.plan.batches
    parts = world.more(count * size // 2).parts()
    world.by_passed.ask(table_62(limit))
    seconds, writing, exact, told = [], [], True, 0
    for at in range(0, len(parts), size):
        some = parts[at : at + size]
        whole, write, grouped = ours.take_table(as_table(some))
        seconds.append(whole / size)
        writing.append(write / size)
        found = {
            (row["publication_id"], row["time"], id) for row in grouped.to_pylist() for id in row["subscription_ids"]
        }
        expected = set()
        for part in some:
            names = world.by_passed.take(part)
            time = part.publication().time
            expected |= {(part.id, time, id) for id, each in subscribers.items() if each.name in names}
        exact &= found == expected
        told += len(found)
    exact &= ours.is_sound
    whole, write = (statistics.median(each[1:]) * 1e6 for each in (seconds, writing))
    return {
        "what": f"test 2, {world.database}, limit {limit:,}, batches of {size:,}",
        "test": "test 2, batches",
        "database": world.database,
        "limit": limit,
        "subscribers": world.plan.subscribers,
        "publications": len(parts),
        "notifications": told / len(parts),
        "opening_s": ours.opening,
        "ours_us": whole,
        "matching_us": whole - write,
        "write_us": write,
        "exact": exact,
        "seconds": {"ours": seconds, "writing": writing},
    }


def as_table(parts: list[Part]) -> pa.Table:
    """Publications as an Arrow table."""
    when = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "id": [part.id for part in parts],
            "source": pa.repeat("bench", len(parts)),
            "time": pa.array([part.time for part in parts], when),
            "start": pa.array([part.time if part.phase == "START" else None for part in parts], when),
            "end": pa.array([part.time if part.phase == "END" else None for part in parts], when),
            "phase": [part.phase for part in parts],
            "A": [part.attributes["A"] for part in parts],
            "B": [part.attributes["B"] for part in parts],
        }
    )
