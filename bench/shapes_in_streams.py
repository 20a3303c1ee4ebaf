"""Shapes in streams: the last n readings of each source near a shape for each subscription, beside numpy by hand."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.notification_arrays import Told
from bench.topk import BEGIN, SPACING

__all__ = ["Case", "Streams", "main"]

SEED = 2026
SOURCES = 100
ROUNDS = 5
#: Readings of a round.
ROUND = 10_000
#: Subscriptions that are compared, and those of the rival that goes through them one by one (its rate is divided).
COMPARED, ONE_BY_ONE = 50, 10
#: Rounds of the rivals. A round has so many readings for the slow one, and so many distances for the other.
RIVAL_ROUNDS, READINGS, DISTANCES = 3, 300, 400_000
#: In white noise nothing is near anything by chance: one shape of so many is a stretch of the readings.
PLANTED = 5

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "n": "n",
    "tolerance": "ε ÷ √n",
    "rate": "readings/s",
    "per_reading": "notifications/reading",
    "numpy": "numpy/s",
    "numpy_ratio": "÷ numpy",
    "python": "one by one/s",
    "python_ratio": "÷ one by one",
    "load_s": "load s",
    "bytes": "state bytes/source",
    "compared": "compared",
}


@dataclass(frozen=True)
class Case:
    """One row: how many subscriptions, how long their shapes are, how near is near, and what readings are."""

    subscriptions: int
    n: int
    tolerance: float = 0.3
    noise: bool = False
    batch: int = ROUND

    @property
    def what(self) -> str:
        return "white noise" if self.noise else "random walks"

    @property
    def limit(self) -> float:
        return self.tolerance * sqrt(self.n)

    @property
    def filled(self) -> int:
        """Readings before the first that closes a window."""
        return (self.n - 1) * SOURCES

    @property
    def at_once(self) -> int:
        """Readings of a round of the rival that has all subscriptions."""
        return min(self.batch, max(20, DISTANCES // self.subscriptions))


CASES = (
    *(Case(subscriptions, n) for n in (64, 256) for subscriptions in (1_000, 10_000)),
    Case(1_000, 64, 0.8),
    Case(1_000, 256, 0.5, noise=True, batch=2_000),
)
QUICK = (Case(1_000, 16, batch=1_000), Case(100, 64, 0.8, batch=1_000), Case(100, 64, 0.5, noise=True, batch=1_000))


def main(quick: bool = False) -> None:
    """All cases, on the cores there are."""
    report = Report("shapes-in-streams", SEED, COLUMNS)
    tg.Engine(Streams.drawn(Case(1, 16), 1).subscriptions()).close()  # reads compiled code, which is no part of load
    for case in QUICK if quick else CASES:
        measure(report, case)
    report.finish()


@dataclass(frozen=True)
class Streams:
    """A shape for each subscription, and readings of the sources in turn at steady times."""

    case: Case
    shapes: NDArray[np.float64]
    values: NDArray[np.float64]

    @classmethod
    def drawn(cls, case: Case, readings: int) -> Streams:
        """Shapes first, so that they stay the same whatever is published."""
        rng = np.random.default_rng(SEED)
        shapes = rng.standard_normal((case.subscriptions, case.n))
        steps = rng.standard_normal((-(-readings // SOURCES), SOURCES))
        if not case.noise:
            return cls(case, shapes.cumsum(axis=1), steps.cumsum(axis=0).ravel()[:readings])
        for row in range(0, case.subscriptions, PLANTED):
            begin, source = rng.integers(len(steps) - case.n), rng.integers(SOURCES)
            shapes[row] = steps[begin : begin + case.n, source] + 0.1 * shapes[row]
        return cls(case, shapes, steps.ravel()[:readings])

    def subscriptions(self) -> list[tg.Subscription]:
        """As CQL2-JSON: texts of long lists are slow to read."""

        def where(shape: list[float]) -> dict[str, object]:
            far = {"op": "shape", "args": [{"property": "value"}, shape, "stream"]}
            return {"op": "<=", "args": [far, self.case.limit]}

        return [tg.Subscription(f"s{i}", "bench", where(shape)) for i, shape in enumerate(self.shapes.tolist())]

    def table(self, begin: int, end: int) -> pa.Table:
        """Some of the readings."""
        numbers = np.arange(begin, end)
        return pa.table(
            {
                "id": pa.array([f"p{i}" for i in numbers.tolist()]),
                "source": pa.array([f"z{i}" for i in (numbers % SOURCES).tolist()]),
                "time": pa.array(BEGIN + SPACING * numbers, pa.timestamp("us", "UTC")),
                "value": pa.array(self.values[begin:end]),
            }
        )


def measure(report: Report, case: Case) -> None:
    """One row. Windows are filled, then come the rounds; a twin tells the same again with the distances."""
    say(f"{case.subscriptions:,} subscriptions, n = {case.n}, {case.what}, ε = {case.tolerance:g}·√n")
    warm = -(-case.filled // case.batch) * case.batch
    end = warm + case.batch * (1 + ROUNDS)
    streams = Streams.drawn(case, end)
    load, engine = timed(lambda: tg.Engine(streams.subscriptions()))
    engine.publish(streams.table(0, 1), grouped=True)
    alone = engine.state_bytes
    engine.publish(streams.table(1, warm), grouped=True)
    seconds, counts, raised, state = [], [], [], []
    with TemporaryDirectory() as directory:
        engine.save(Path(directory) / "warm")
        for begin in range(warm, end, case.batch):
            publications = streams.table(begin, begin + case.batch)
            spent, found = timed(partial(engine.publish, publications, grouped=True))
            every = Told.of(found)
            seconds.append(spent)
            counts.append(len(every))
            raised.append(every.among(COMPARED))
            state.append(engine.state_bytes - alone)
        engine.close()
        say("  the same, flat")
        with tg.Engine.load(Path(directory) / "warm") as twin:
            tables = [twin.publish(streams.table(b, b + case.batch)) for b in range(warm, end, case.batch)]
    flat = [tell for table in tables for tell in _flat(table)]
    grouped = Told.joined(raised)
    say("  the rivals")
    told = AtOnce(case, streams.shapes[:COMPARED]).run(streams.values, 0, end)
    numpy_seconds, at_once = _rounds(AtOnce(case, streams.shapes).run, streams, case.at_once)
    python_seconds, one_by_one = _rounds(OneByOne(case, streams.shapes[:ONE_BY_ONE]).run, streams, READINGS)
    rate = case.batch / median(seconds[1:])
    numpy = case.at_once / median(numpy_seconds)
    python = READINGS / median(python_seconds) * ONE_BY_ONE / case.subscriptions
    expected = [tell for tell in told if tell[1] >= warm]
    report.add(
        what=case.what,
        subscriptions=case.subscriptions,
        n=case.n,
        tolerance=case.tolerance,
        rate=rate,
        per_reading=sum(counts[1:]) / (ROUNDS * case.batch),
        numpy=numpy,
        numpy_ratio=rate / numpy,
        python=python,
        python_ratio=rate / python,
        load_s=load,
        bytes=max(state) / SOURCES,
        compared=len(expected),
        exact=_same(flat, expected)
        and sorted(zip(grouped.subscription.tolist(), grouped.publication.tolist(), strict=True))
        == sorted(tell[:2] for tell in expected)
        and sum(counts) == sum(table.num_rows for table in tables)
        and _agree(told, at_once, COMPARED, case, case.at_once)
        and _agree(told, one_by_one, ONE_BY_ONE, case, READINGS)
        and engine.late == 0,
        seconds={"engine": seconds[1:], "numpy": numpy_seconds, "one by one": python_seconds},
    )


#: Subscription, the reading that ended an excursion, the one that closed its nearest window, the distance.
_Tell = tuple[int, int, int, float]


class OneByOne:
    """As one writes it for one subscription, called for each: the normal form of the window, then its distance."""

    def __init__(self, case: Case, shapes: NDArray[np.float64]) -> None:
        self._n, self._limit = case.n, case.limit
        self._shapes = [(shape - shape.mean()) / shape.std() for shape in shapes]
        self._last: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=case.n))
        self._best: dict[tuple[int, int], tuple[float, int]] = {}

    def run(self, values: NDArray[np.float64], begin: int, end: int) -> list[_Tell]:
        """What a stretch of readings tells."""
        told: list[_Tell] = []
        for i, value in enumerate(values[begin:end].tolist(), begin):
            source = i % SOURCES
            last = self._last[source]
            last.append(value)
            if len(last) == self._n:
                for s, shape in enumerate(self._shapes):
                    window = np.array(last)
                    far = float(np.linalg.norm((window - window.mean()) / window.std() - shape))
                    best = self._best.get((source, s))
                    if far <= self._limit:
                        if best is None or far < best[0]:
                            self._best[source, s] = far, i
                    elif best is not None:
                        told.append((s, i, best[1], best[0]))
                        del self._best[source, s]
        return told


class AtOnce:
    """The same with one normal form per reading, and one numpy call for the distances of all subscriptions."""

    def __init__(self, case: Case, shapes: NDArray[np.float64]) -> None:
        self._n, self._limit = case.n, case.limit
        self._shapes = (shapes - shapes.mean(axis=1, keepdims=True)) / shapes.std(axis=1, keepdims=True)
        self._last: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=case.n))
        # by source and subscription: infinity where no excursion is open
        self._best = np.full((SOURCES, len(shapes)), np.inf)
        self._item = np.zeros((SOURCES, len(shapes)), np.int64)

    def run(self, values: NDArray[np.float64], begin: int, end: int) -> list[_Tell]:
        """What a stretch of readings tells."""
        told: list[_Tell] = []
        for i, value in enumerate(values[begin:end].tolist(), begin):
            source = i % SOURCES
            last = self._last[source]
            last.append(value)
            if len(last) < self._n:
                continue
            window = np.array(last)
            far = np.linalg.norm(self._shapes - (window - window.mean()) / window.std(), axis=1)
            best, item = self._best[source], self._item[source]
            is_near = far <= self._limit
            for s in np.flatnonzero(~is_near & (best < np.inf)).tolist():
                told.append((s, i, int(item[s]), float(best[s])))
                best[s] = np.inf
            better = is_near & (far < best)
            best[better], item[better] = far[better], i
        return told


def _rounds(
    run: Callable[[NDArray[np.float64], int, int], list[_Tell]], streams: Streams, readings: int
) -> tuple[list[float], list[_Tell]]:
    """Seconds of each round of a rival, from the first window on, and what it told; the first one warms up."""
    values, filled = streams.values, streams.case.filled
    told, seconds = run(values, 0, filled), []
    for begin in range(filled, filled + readings * (1 + RIVAL_ROUNDS), readings):
        spent, found = timed(partial(run, values, begin, begin + readings))
        seconds.append(spent)
        told += found
    return seconds[1:], told


def _flat(table: pa.Table) -> list[_Tell]:
    """What the engine told those that are compared; the time of a reading says which one it is."""
    some = table.filter(pc.is_in(table.column("subscription_id"), pa.array([f"s{i}" for i in range(COMPARED)])))
    columns = (
        some.column("subscription_id").to_pylist(),
        some.column("time").cast(pa.int64()).to_pylist(),
        some.column("publication_ids").to_pylist(),
        some.column("distance").to_pylist(),
    )
    return [
        (int(id[1:]), (time - BEGIN) // SPACING, int(ids[0][1:]), distance)
        for id, time, ids, distance in zip(*columns, strict=True)
    ]


def _same(told: list[_Tell], expected: list[_Tell]) -> bool:
    """In any order; distances to 1e-9, for sums are made in another order."""
    return len(told) == len(expected) and all(
        a[:3] == b[:3] and abs(a[3] - b[3]) <= 1e-9 for a, b in zip(sorted(told), sorted(expected), strict=True)
    )


def _agree(told: list[_Tell], rival: list[_Tell], subscriptions: int, case: Case, readings: int) -> bool:
    """Whether a rival told the first so many the same in its rounds."""
    end = case.filled + readings * (1 + RIVAL_ROUNDS)
    expected = [tell for tell in told if tell[0] < subscriptions and tell[1] < end]
    return _same([tell for tell in rival if tell[0] < subscriptions], expected)
