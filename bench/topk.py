"""Top-k/w: the 10 nearest publications of a sliding window for each subscription, beside what one writes by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.naive import TopK
from bench.notification_arrays import Told
from bench.topk_scan import TopKScan
from tidegate.model import micros, moment

__all__ = ["BEGIN", "SPACING", "Case", "K", "Ranking", "main"]

SEED = 2026
K = 10
#: Microseconds between publications, and when the first one comes (2026-01-01).
SPACING, BEGIN = 1_000, 1_767_225_600_000_000
ROUNDS = 5
#: Subscriptions of the compiled rival and of the one in Python. Both go through subscriptions one by one: their
#: rates are measured with this many (or all, if fewer) and divided.
SCANNED, IN_PYTHON = 1_000, 10
#: Publications of a round, by subscriptions.
ROUND = {100: 20_000, 1_000: 20_000, 10_000: 10_000, 100_000: 2_000}

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "window": "window",
    "rate": "publications/s",
    "per_publication": "notifications/pub",
    "scan": "compiled scan/s",
    "scan_ratio": "÷ scan",
    "python": "Python/s",
    "python_ratio": "÷ Python",
    "load_s": "load s",
    "bytes": "state bytes/sub",
    "compared": "compared",
}


@dataclass(frozen=True)
class Case:
    """One row: how many subscriptions, how many publications the window has, how they are ranked and asked for."""

    n: int
    window: int
    score: str = "distance"
    by_count: bool = False
    grouped: bool = True

    @property
    def what(self) -> str:
        kind = "last publications" if self.by_count else "time window"
        return f"{self.score}, {kind}, {'grouped' if self.grouped else 'flat'}"


CASES = (
    *(Case(n, window) for window in (1_000, 100_000) for n in ROUND),
    Case(10_000, 1_000, grouped=False),
    Case(1_000, 1_000, score="weighted sum"),
    Case(1_000, 1_000, by_count=True),
)
QUICK = (Case(100, 1_000), Case(1_000, 1_000), Case(1_000, 1_000, grouped=False), Case(100, 1_000, by_count=True))


def main(quick: bool = False) -> None:
    """All cases on one core."""
    report = Report("topk", SEED, COLUMNS)
    for case in QUICK if quick else CASES:
        measure(report, case, 2_000 if quick else ROUND[case.n])
    report.finish()


@dataclass(frozen=True)
class Ranking:
    """Subscriptions with a centre or two weights each, and publications uniform in the unit square at steady times."""

    case: Case
    operands: NDArray[np.float64]
    values: NDArray[np.float64]

    @classmethod
    def drawn(cls, case: Case, publications: int) -> Ranking:
        """Subscriptions first, so that they stay the same whatever is published."""
        rng = np.random.default_rng(SEED)
        return cls(case, rng.random((case.n, 2)), rng.random((publications, 2)))

    @property
    def times(self) -> NDArray[np.int64]:
        """Microseconds since 1970."""
        return BEGIN + SPACING * np.arange(len(self.values), dtype=np.int64)

    def subscriptions(self, begin: int = 0, end: int | None = None) -> list[tg.Subscription]:
        """As text."""
        case = self.case
        window = f"{case.window}" if case.by_count else f"'PT{case.window * SPACING / 1e6:g}S'"
        score = "distance((x, y), ({!r}, {!r}))" if case.score == "distance" else "{!r} * x + {!r} * y"
        where = f"x IS NOT NULL AND y IS NOT NULL AND topk({K}, {window}, {score})"
        return [
            tg.Subscription(f"s{i}", "bench", where.format(a, b))
            for i, (a, b) in enumerate(self.operands[begin:end].tolist(), begin)
        ]

    def table(self, begin: int, end: int) -> pa.Table:
        """Some of the publications."""
        return pa.table(
            {
                "id": pa.array([f"p{i}" for i in range(begin, end)]),
                "source": pa.array(["bench"] * (end - begin)),
                "time": pa.array(self.times[begin:end], pa.timestamp("us", "UTC")),
                "x": pa.array(self.values[begin:end, 0]),
                "y": pa.array(self.values[begin:end, 1]),
            }
        )

    def scan(self, subscriptions: int) -> TopKScan:
        """The compiled rival, for the first so many subscriptions."""
        case = self.case
        window = case.window if case.by_count else case.window * SPACING
        return TopKScan(
            self.times,
            self.values,
            self.operands[:subscriptions],
            distance=case.score == "distance",
            k=K,
            window=window,
            by_count=case.by_count,
        )


def measure(report: Report, case: Case, batch: int) -> None:
    """One row. The window is filled twice over, then come the rounds; what is compared is all of it."""
    say(f"{case.n:,} subscriptions, {case.what} of {case.window:,}")
    warm = 2 * case.window
    end = warm + batch * (1 + ROUNDS)
    ranking = Ranking.drawn(case, end)
    load, engine = timed(lambda: tg.Engine(ranking.subscriptions()))
    sample = min(case.n, SCANNED)
    told: list[Told] = []
    counts: list[int] = []

    def publish(begin: int, end: int) -> float:
        publications = ranking.table(begin, end)
        seconds, found = timed(lambda: engine.publish(publications, grouped=case.grouped))
        every = Told.of(found)
        counts.append(len(every))
        told.append(every.among(sample))
        return seconds

    for begin in range(0, warm, min(batch, 10_000)):
        publish(begin, min(warm, begin + min(batch, 10_000)))
    seconds = _rounds(publish, warm, batch)
    until = None if case.by_count else int(ranking.times[-1]) + case.window * SPACING // 2
    if until is not None:
        told.append(_advanced(engine, until).among(sample))
    whole = Told.joined(told)
    state = engine.state_bytes / case.n
    engine.close()
    say("  the rivals")
    scan_seconds, scanned = _scanned(ranking, sample, warm, batch, until)
    python_seconds, in_python = _in_python(ranking, min(case.n, IN_PYTHON), warm, batch, until)
    rate = batch / median(seconds)
    scan = batch / median(scan_seconds) * sample / case.n
    python = batch / median(python_seconds) * min(case.n, IN_PYTHON) / case.n
    report.add(
        what=case.what,
        subscriptions=case.n,
        window=case.window,
        rate=rate,
        per_publication=sum(counts[-ROUNDS:]) / (ROUNDS * batch),
        scan=scan,
        scan_ratio=rate / scan,
        python=python,
        python_ratio=rate / python,
        load_s=load,
        bytes=state,
        compared=len(whole),
        exact=whole.equals(scanned)
        and whole.among(IN_PYTHON).equals(in_python)
        and engine.late == engine.unscored == 0,
        seconds={"engine": seconds, "scan": scan_seconds, "python": python_seconds},
    )


def _rounds(work: Callable[[int, int], float], warm: int, batch: int) -> list[float]:
    """Seconds of each round; the first one warms up."""
    return [work(begin, begin + batch) for begin in range(warm, warm + batch * (1 + ROUNDS), batch)][1:]


def _advanced(engine: tg.Engine, until: int) -> Told:
    """What the clock alone brings after the last publication."""
    found = engine.advance(moment(until))
    return Told(
        np.array([int(notification.subscription[1:]) for notification in found], np.int64),
        np.array([int(notification.publications[0][1:]) for notification in found], np.int64),
        np.array([micros(notification.time) for notification in found], np.int64),
        np.array([notification.score for notification in found], np.float64),
    )


def _scanned(
    ranking: Ranking, subscriptions: int, warm: int, batch: int, until: int | None
) -> tuple[list[float], Told]:
    scan, told = ranking.scan(subscriptions), []
    told.append(scan.run(0, warm))

    def run(begin: int, end: int) -> float:
        seconds, found = timed(lambda: scan.run(begin, end))
        told.append(found)
        return seconds

    seconds = _rounds(run, warm, batch)
    if until is not None:
        told.append(scan.run(len(ranking.values), len(ranking.values), until))
    return seconds, Told.joined(told)


def _in_python(
    ranking: Ranking, subscriptions: int, warm: int, batch: int, until: int | None
) -> tuple[list[float], Told]:
    case = ranking.case
    window = case.window if case.by_count else case.window * SPACING
    asked = [(s, a, b, TopK(K, window, case.by_count)) for s, (a, b) in enumerate(ranking.operands.tolist())]
    asked = asked[:subscriptions]
    times, values = ranking.times.tolist(), ranking.values.tolist()
    rows: list[tuple[int, int, int, float]] = []

    def run(begin: int, end: int) -> float:
        work = _nearest if case.score == "distance" else _weighted
        return timed(lambda: work(asked, times, values, begin, end, rows))[0]

    run(0, warm)
    seconds = _rounds(run, warm, batch)
    if until is not None:
        for s, _, _, best in asked:
            rows.extend((s, number, when, score) for when, number, score in best.expire(until))
    columns = list(zip(*rows, strict=True))
    numbers = [np.array(column, np.int64) for column in columns[:3]]
    return seconds, Told(numbers[0], numbers[1], numbers[2], np.array(columns[3]))


_Asked = list[tuple[int, float, float, TopK]]


def _nearest(
    asked: _Asked,
    times: list[int],
    values: list[list[float]],
    begin: int,
    end: int,
    rows: list[tuple[int, int, int, float]],
) -> None:
    for i in range(begin, end):
        time, (x, y) = times[i], values[i]
        for s, a, b, best in asked:
            dx, dy = x - a, y - b
            for when, number, score in best.take(time, i, sqrt(dx * dx + dy * dy)):
                rows.append((s, number, when, score))


def _weighted(
    asked: _Asked,
    times: list[int],
    values: list[list[float]],
    begin: int,
    end: int,
    rows: list[tuple[int, int, int, float]],
) -> None:
    for i in range(begin, end):
        time, (x, y) = times[i], values[i]
        for s, a, b, best in asked:
            for when, number, score in best.take(time, i, a * x + b * y):
                rows.append((s, number, when, score))
