"""History: subscriptions on the past with every event durable before it is told of, beside numpy in memory by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.notification_arrays import Told
from bench.papers.temporal_kbn.stopwatch import Stopwatch
from bench.topk import BEGIN
from tidegate.engine.pattern_shards import PatternShards
from tidegate.index import Index
from tidegate.patterns.past import Past

__all__ = ["Case", "Lives", "main"]

SEED = 2026
SUBSCRIPTIONS, FILTERS, KINDS, SOURCES = 1_000, 100, 50, 100
#: Microseconds between events that begin: 20,000 publications in a second.
SPACING = 75
ROUNDS = 5
#: Subscriptions that are compared, and publications that the rival is timed with.
COMPARED, BY_HAND = 50, 200
_FOREVER = np.iinfo(np.int64).max

COLUMNS = {
    "what": "what",
    "batch": "publications per call",
    "rate": "publications/s",
    "per_publication": "notifications/pub",
    "select": "select %",
    "past": "past %",
    "rows": "making rows %",
    "write": "durable write %",
    "rest": "rest %",
    "remembered": "events",
    "numpy": "numpy in memory/s",
    "ratio": "÷ numpy",
    "compared": "compared",
}


@dataclass(frozen=True)
class Case:
    """One row: what subscriptions ask beside the past, and how many publications come in a call and in all rounds."""

    what: str
    batch: int
    each: int
    """Publications of a round."""

    @property
    def rounds(self) -> int:
        return ROUNDS + 1


CASES = (
    Case("one source", 1, 500),
    Case("one source", 100, 5_000),
    Case("one source", 1_000, 20_000),
    Case("one source", 5_000, 20_000),
    Case("a tenth of all", 1_000, 10_000),
    Case("all publications", 1_000, 2_000),
)
QUICK = (Case("one source", 1, 50), Case("one source", 100, 500), Case("all publications", 100, 200))


def main(quick: bool = False) -> None:
    """All cases, on the cores there are."""
    report = Report("history", SEED, COLUMNS)
    measure(Report("history", SEED, COLUMNS), Case("one source", 100, 100))  # reads compiled code
    for case in QUICK if quick else CASES:
        measure(report, case)
    report.finish()


@dataclass(frozen=True)
class Wanted:
    """A subscription as it was drawn: its operator, its inner filter, and what it asks of the publication itself."""

    form: int
    kind: int
    least: int
    source: int

    @property
    def inner(self) -> str:
        return f"kind = 'k{self.kind}' AND level >= {self.least}"

    def where(self, what: str) -> str:
        """As text."""
        past = (
            f"T_DURING(start, past({self.inner}))",
            f"T_AFTER(start, past({self.inner}, 'PT0.2S'))",
            f"T_AFTER(end, past({self.inner}, 'PT0.05S'))",
            f"T_DISJOINT(time, past({self.inner}, 'PT1S'))",
            f"level > past(level, {self.inner}, 1000)",
        )[self.form]
        return {
            "one source": f"source = 'm{self.source}' AND {past}",
            "a tenth of all": f"level >= 90 AND {past}",
            "all publications": past,
        }[what]

    def wants(self, what: str, source: int, level: int) -> bool:
        """What it asks of the publication itself."""
        return what == "all publications" or (source == self.source if what == "one source" else level >= 90)


def wanted() -> list[Wanted]:
    """Each inner filter is asked by ten, each form by every fifth."""
    rng = np.random.default_rng(SEED)
    return [
        Wanted(i // FILTERS % 5, i % FILTERS % KINDS, 50 * (i % FILTERS // KINDS), int(rng.integers(SOURCES)))
        for i in range(SUBSCRIPTIONS)
    ]


@dataclass(frozen=True)
class Lives:
    """Publications: a third of them whole events, a third starts and a third the ends of these, after a while."""

    time: NDArray[np.int64]
    event: NDArray[np.int64]
    phase: NDArray[np.int8]
    """0 for a whole event, 1 for START, 3 for END."""
    start: NDArray[np.int64]
    """Of whole events; they end when they are published."""
    kind: NDArray[np.int64]
    level: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def drawn(cls, count: int) -> Lives:
        """Events in the order they begin; whatever ends beyond the last is not published."""
        rng = np.random.default_rng(SEED)
        begin = BEGIN + SPACING * np.arange(count, dtype=np.int64)
        lasts = rng.integers(1_000, 100_000, count)
        whole = rng.random(count) < 0.5
        kind, level, source = (rng.integers(n, size=count) for n in (KINDS, 100, SOURCES))
        parts = [(begin[i] + lasts[i], i, 0, begin[i]) if whole[i] else (begin[i], i, 1, 0) for i in range(count)]
        parts += [(begin[i] + lasts[i], i, 3, 0) for i in np.flatnonzero(~whole).tolist()]
        found = np.array(sorted(parts)[:count], np.int64)
        turn, event = np.arange(len(found)), found[:, 1]
        time = np.maximum.accumulate(found[:, 0] - turn) + turn  # no two at once
        return cls(time, event, found[:, 2].astype(np.int8), found[:, 3], kind[event], level[event], source[event])

    @cached_property
    def table(self) -> pa.Table:
        """All of them."""
        when = pa.timestamp("us", "UTC")
        start, end = np.where(self.phase == 1, self.time, self.start), self.time
        return pa.table(
            {
                "id": pa.array([f"p{i}" for i in self.event.tolist()]),
                "source": pa.array([f"m{i}" for i in self.source.tolist()]),
                "time": pa.array(self.time, when),
                "start": pa.array(start, when, mask=self.phase == 3),
                "end": pa.array(end, when, mask=self.phase == 1),
                "phase": pa.array(["START" if p == 1 else "END" if p == 3 else None for p in self.phase.tolist()]),
                "kind": pa.array([f"k{i}" for i in self.kind.tolist()]),
                "level": pa.array(self.level),
            }
        )


def measure(report: Report, case: Case) -> None:
    """One row: rounds of calls, each durable when it returns; the first round warms up."""
    say(f"{case.what}, {case.batch:,} per call")
    lives, subscriptions = Lives.drawn(case.rounds * case.each), wanted()
    found: list[Told] = []
    seconds: list[float] = []
    parts: list[dict[str, float]] = []
    with TemporaryDirectory() as directory:
        history = tg.History(Path(directory) / "history.db")
        named = (tg.Subscription(f"s{i}", "bench", each.where(case.what)) for i, each in enumerate(subscriptions))
        engine = tg.Engine(named, history=history)
        timed_parts = {
            "select": (Index, "match"),
            "past": (Past, "step"),
            "rows": (PatternShards, "_write"),  # what is written, and writing it
            "write": (tg.History, "remember"),
        }
        with Stopwatch().on(**timed_parts) as watch:
            for begin in range(0, len(lives.time), case.each):
                calls = [lives.table.slice(at, case.batch) for at in range(begin, begin + case.each, case.batch)]
                watch.take()
                took, told = timed(partial(_published, engine, calls))
                seconds.append(took)
                spent = watch.take()
                parts.append({**spent, "rows": spent["rows"] - spent["write"]})
                found += [Told.of(table) for table in told]
        lost, remembered = engine.late + sum(engine.refused.values()), len(history)
        engine.close()
        history.close()
    told = Told.joined(found)
    say("  by hand")
    some, by_hand = Told.among(told, COMPARED), ByHand(case.what, subscriptions[:COMPARED])
    expected = by_hand.run(lives, 0, len(lives.time))
    everyone = ByHand(case.what, subscriptions)
    everyone.remember(lives, 0, len(lives.time) - BY_HAND)
    slow, last = timed(partial(everyone.run, lives, len(lives.time) - BY_HAND, len(lives.time)))
    whole = sum(seconds[1:])
    share = {name: 100 * sum(part[name] for part in parts[1:]) / whole for name in parts[0]}
    rate, numpy = case.each / median(seconds[1:]), BY_HAND / slow
    report.add(
        what=case.what,
        batch=case.batch,
        rate=rate,
        per_publication=len(told) / len(lives.time),
        **share,
        rest=100 - sum(share.values()),
        remembered=remembered,
        numpy=numpy,
        ratio=rate / numpy,
        compared=len(expected),
        exact=_pairs(lives, some) == expected
        and {pair for pair in _pairs(lives, told) if pair[0] >= len(lives.time) - BY_HAND} == last
        and not lost
        and remembered == len(np.unique(lives.event)),
        seconds={"engine": seconds[1:], **{name: [part[name] for part in parts[1:]] for name in parts[0]}},
    )


def _published(engine: tg.Engine, calls: list[pa.Table]) -> list[pa.Table]:
    return [engine.publish(table, grouped=True) for table in calls]


#: The place of a publication among all, and the number of a subscription.
Pair = tuple[int, int]


def _pairs(lives: Lives, told: Told) -> set[Pair]:
    """Event and time say which publication it was."""
    place = {(e, t): i for i, (e, t) in enumerate(zip(lives.event.tolist(), lives.time.tolist(), strict=True))}
    columns = (told.publication.tolist(), told.time.tolist(), told.subscription.tolist())
    return {(place[event, time], s) for event, time, s in zip(*columns, strict=True)}


class _Events:
    """Events that one inner filter remembers, in arrays that grow."""

    def __init__(self) -> None:
        self.count = 0
        self._all = np.zeros((4, 64), np.int64)

    def add(self, event: int, start: int, end: int, level: int) -> None:
        if self.count == self._all.shape[1]:
            self._all = np.concatenate((self._all, self._all), axis=1)
        self._all[:, self.count] = event, start, end, level
        self.count += 1

    def end(self, event: int, end: int) -> None:
        self._all[2, : self.count][self._all[0, : self.count] == event] = end

    @property
    def columns(self) -> NDArray[np.int64]:
        """Event, start, end, level."""
        return self._all[:, : self.count]


class ByHand:
    """As one writes it with numpy: for each subscription a look through all that its inner filter remembers."""

    def __init__(self, what: str, subscriptions: list[Wanted]) -> None:
        self._what, self._subscriptions = what, subscriptions
        self._events = {(each.kind, each.least): _Events() for each in subscriptions}
        self._start: dict[int, int] = {}

    def remember(self, lives: Lives, begin: int, end: int) -> None:
        """Only that."""
        for i in range(begin, end):
            self._remember(lives, i)

    def run(self, lives: Lives, begin: int, end: int) -> set[Pair]:
        """What a stretch of publications tells."""
        told = set()
        for i in range(begin, end):
            told |= {(i, s) for s in self._told(lives, i)}
            self._remember(lives, i)
        return told

    def _remember(self, lives: Lives, i: int) -> None:
        event, time, phase = int(lives.event[i]), int(lives.time[i]), lives.phase[i]
        for (kind, least), events in self._events.items():
            if lives.kind[i] == kind and lives.level[i] >= least:
                if phase == 3:
                    events.end(event, time)
                elif phase == 1:
                    events.add(event, time, _FOREVER, int(lives.level[i]))
                else:
                    events.add(event, int(lives.start[i]), time, int(lives.level[i]))

    def _told(self, lives: Lives, i: int) -> Iterator[int]:
        source, level, phase = int(lives.source[i]), int(lives.level[i]), int(lives.phase[i])
        time = int(lives.time[i])
        start = None if phase == 3 else time if phase == 1 else int(lives.start[i])
        end = None if phase == 1 else time
        for s, each in enumerate(self._subscriptions):
            if each.wants(self._what, source, level):
                columns = self._events[each.kind, each.least].columns
                if _HOLDS[each.form](columns, columns[0] != lives.event[i], start, end, time, level):
                    yield s


def _during(columns: Any, other: Any, start: Any, end: Any, time: int, level: int) -> bool:
    return start is not None and bool((other & (columns[1] <= start) & (start <= columns[2])).any())


def _after(of_end: bool, within: int) -> Callable[..., bool]:
    def holds(columns: Any, other: Any, start: Any, end: Any, time: int, level: int) -> bool:
        point = end if of_end else start
        return point is not None and bool((other & (columns[2] < point) & (point - within <= columns[2])).any())

    return holds


def _disjoint(columns: Any, other: Any, start: Any, end: Any, time: int, level: int) -> bool:
    apart = (columns[2] < time) | (time < columns[1])
    return bool((other & apart & (columns[2] >= time - 1_000_000)).any())


def _filter(columns: Any, other: Any, start: Any, end: Any, time: int, level: int) -> bool:
    return bool((other & (columns[3] < level))[-1000:].any())


_HOLDS = (_during, _after(False, 200_000), _after(True, 50_000), _disjoint, _filter)
