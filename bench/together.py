"""Together: SensorScope's readings, and subscriptions that want 3 to 5 attributes of a station within 5 minutes.

After Jurca et al., "Continuous Query Evaluation over Distributed Sensor Networks", §VI-A: 5 attributes of 20 (or 10)
stations, every station asked about equally often, ranges around the median of their stream. The paper says that
the offset has a Pareto distribution with skew 1 and not in which unit. Here a range is median ± u·X, where X ≥ 1
with P(X > x) = 1/x and u is about a tenth of the attribute's interquartile range: 1 °C, 1 °C, 2 %, 0.06 m/s, 15°.
Half of the subscriptions name their sources; half are abstract: any sources in a box of 800 m around the station, and
no two 250 m or more apart, on a layout of our own in which the sensors of a station are neighbours, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.naive import Range, Reading, Together
from bench.sensorscope import ATTRIBUTES, Readings, metres_east, metres_north, readings

__all__ = ["Correlation", "main"]

SEED = 2026
UNITS = {"ambient": 1.0, "surface": 1.0, "humidity": 2.0, "wind_speed": 0.06, "wind_direction": 15.0}
WINDOW, METRES, HALF_BOX = 300_000_000, 250.0, 400.0
ROUNDS = 5
#: (subscriptions, stations, readings whose median the ranges are around, compared publications, those of a round). The
#: weather changes: ranges around the median of a few days match far more of these days.
CASES = (
    (1_000, 20, 600_000, 50_000, 50_000),
    (10_000, 20, 600_000, 20_000, 20_000),
    (10_000, 10, 600_000, 20_000, 20_000),
    (10_000, 20, 100_000, 20_000, 10_000),
    (100_000, 20, 600_000, 10_000, 5_000),
)
#: At most so many subscriptions are compared, and given to the rival, whose rate is divided accordingly.
COMPARED, IN_PYTHON = 200, 10_000

COLUMNS = {
    "subscriptions": "subscriptions",
    "stations": "stations",
    "readings": "readings",
    "rate": "publications/s",
    "per_publication": "notifications/pub",
    "flat": "flat publications/s",
    "python": "Python/s",
    "ratio": "÷ Python",
    "load_s": "load s",
    "bytes": "state bytes/sub",
    "compared": "compared",
}


def main(quick: bool = False) -> None:
    """All sizes, on the cores there are."""
    report = Report("together", SEED, COLUMNS)
    for n, stations, limit, compared, batch in CASES[:1] if quick else CASES:
        measure(report, n, stations, limit, *((5_000, 5_000) if quick else (compared, batch)))
    report.finish()


@dataclass(frozen=True)
class Wanted:
    """One subscription as it was drawn."""

    filters: tuple[Range, ...]
    box: tuple[float, float, float, float] | None

    @property
    def where(self) -> str:
        parts = []
        for attribute, low, high, source in self.filters:
            between = f"{attribute} BETWEEN {low!r} AND {high!r}"
            parts.append(f"source = '{source}' AND {between}" if source else between)
        if self.box is None:
            return f"together('PT5M', {', '.join(parts)})"
        box = ", ".join(map(repr, self.box))
        return f"S_WITHIN(location, BBOX({box})) AND together('PT5M', {METRES:g}, {', '.join(parts)})"

    def rival(self) -> Together:
        """Written by hand."""
        return Together(WINDOW, self.filters, METRES if self.box else None, self.box)


@dataclass(frozen=True)
class Correlation:
    """Readings, and subscriptions on them: the n-th is the same however many there are."""

    readings: Readings
    wanted: list[Wanted]

    @classmethod
    def drawn(cls, n: int, stations: int = 20, limit: int = 600_000) -> Correlation:
        """Every station in turn, first for a subscription that names its sources, then for an abstract one."""
        found = readings(stations, limit)
        medians = _medians(found)
        rng = np.random.default_rng(SEED)
        return cls(found, [_draw(rng, found, medians, i) for i in range(n)])

    def subscriptions(self) -> list[tg.Subscription]:
        """As text."""
        return [tg.Subscription(f"s{i}", "bench", wanted.where) for i, wanted in enumerate(self.wanted)]

    @cached_property
    def table(self) -> pa.Table:
        """All publications."""
        return self.readings.table()

    def rows(self, begin: int, end: int) -> list[Reading]:
        """Some publications as the rival takes them."""
        r, names = self.readings, list(ATTRIBUTES)
        places = [(lon, lat) for lon, lat in r.places().tolist()]
        columns = [part[begin:end].tolist() for part in (r.time, r.station, r.attribute, r.value)]
        return [
            Reading(
                i, time, r.source(station, attribute), names[attribute], value, places[station * len(names) + attribute]
            )
            for i, (time, station, attribute, value) in enumerate(zip(*columns, strict=True), begin)
        ]


def _medians(found: Readings) -> dict[int, dict[int, float]]:
    """Of each stream that there is, by station and attribute."""
    medians: dict[int, dict[int, float]] = {}
    for station in range(len(found.stations)):
        of = {}
        for attribute in range(len(ATTRIBUTES)):
            values = found.value[(found.station == station) & (found.attribute == attribute)]
            if len(values):
                of[attribute] = float(np.median(values))
        medians[station] = of
    return medians


def _draw(rng: np.random.Generator, found: Readings, medians: dict[int, dict[int, float]], i: int) -> Wanted:
    turn, station = divmod(i, len(found.stations))
    abstract = turn % 2 == 1
    streams = list(medians[station])
    some = rng.choice(streams, min(int(rng.integers(3, 6)), len(streams)), replace=False).tolist()
    filters = []
    for attribute in some:
        name = list(ATTRIBUTES)[attribute]
        offset = UNITS[name] * (1 + float(rng.pareto(1.0)))  # numpy's begins at 0
        middle = medians[station][attribute]
        source = None if abstract else found.source(station, attribute)
        filters.append(Range(name, middle - offset, middle + offset, source))
    if not abstract:
        return Wanted(tuple(filters), None)
    lon, lat = found.location[station].tolist()
    east, north = metres_east(HALF_BOX), metres_north(HALF_BOX)
    return Wanted(tuple(filters), (lon - east, lat - north, lon + east, lat + north))


def measure(report: Report, n: int, stations: int, limit: int, compared: int, batch: int) -> None:
    """One size: first flat, which is compared and warms up, then grouped in rounds."""
    say(f"{n:,} subscriptions on {stations} stations, {limit:,} readings")
    work = Correlation.drawn(n, stations, limit)
    publications = work.table
    load, engine = timed(lambda: tg.Engine(work.subscriptions()))
    sample = np.linspace(0, n - 1, min(n, COMPARED)).astype(int).tolist()
    told: list[Any] = []
    flat: list[float] = []
    step = compared // 10
    for begin in range(0, compared, step):
        piece = publications.slice(begin, step)
        seconds, found = timed(partial(engine.publish, piece))
        flat.append(seconds)
        told += _flat(found, sample)
    counts, grouped = [], []
    for begin in range(compared, compared + batch * (1 + ROUNDS), batch):
        piece = publications.slice(begin, batch)
        seconds, found = timed(partial(engine.publish, piece, grouped=True))
        grouped.append(seconds)
        counts.append(pc.sum(pc.list_value_length(found.column("subscription_ids"))).as_py() or 0)
    state = engine.state_bytes / n
    engine.close()
    say("  the rival")
    expected = _by_hand(work, sample, compared)
    python_seconds, rows = _timed_by_hand(work, min(n, IN_PYTHON))
    rate = batch / median(grouped[1:])
    python = rows / median(python_seconds) * min(n, IN_PYTHON) / n
    report.add(
        subscriptions=n,
        stations=stations,
        readings=limit,
        rate=rate,
        per_publication=sum(counts[1:]) / (ROUNDS * batch),
        flat=step / median(flat[1:]),
        python=python,
        ratio=rate / python,
        load_s=load,
        bytes=state,
        compared=len(expected),
        exact=_same(told, expected) and engine.late == engine.cut == 0,
        seconds={"grouped": grouped[1:], "flat": flat[1:], "python": python_seconds},
    )


#: Subscription, time, publications, distance.
_Tell = tuple[int, int, tuple[int, ...], float | None]


def _flat(found: pa.Table, sample: list[int]) -> list[_Tell]:
    """What the engine told the sample."""
    some = found.filter(pc.is_in(found.column("subscription_id"), pa.array([f"s{i}" for i in sample])))
    columns = (
        some.column("subscription_id").to_pylist(),
        some.column("time").cast(pa.int64()).to_pylist(),
        some.column("publication_ids").to_pylist(),
        some.column("distance").to_pylist(),
    )
    return [
        (int(id[1:]), time, tuple(int(p[1:]) for p in ids), distance)
        for id, time, ids, distance in zip(*columns, strict=True)
    ]


def _same(told: list[_Tell], expected: list[_Tell]) -> bool:
    """In any order; distances to a millimetre, for they may be computed in another order."""
    if len(told) != len(expected):
        return False
    return all(
        a[:3] == b[:3] and (a[3] is None) == (b[3] is None) and abs((a[3] or 0) - (b[3] or 0)) < 1e-3
        for a, b in zip(sorted(told, key=lambda t: t[:3]), sorted(expected, key=lambda t: t[:3]), strict=True)
    )


def _by_hand(work: Correlation, sample: list[int], publications: int) -> list[_Tell]:
    rivals = [(i, work.wanted[i].rival()) for i in sample]
    told: list[_Tell] = []
    for reading in work.rows(0, publications):
        for i, rival in rivals:
            found = rival.take(reading)
            if found is not None:
                told.append((i, reading.time, *found))
    return told


def _timed_by_hand(work: Correlation, n: int) -> tuple[list[float], int]:
    """Seconds per stretch of publications, after some that fill the windows; and how many a stretch has."""
    rivals = [wanted.rival() for wanted in work.wanted[:n]]
    rows = max(20, 200_000 // n)

    def give(begin: int, end: int) -> None:
        for reading in work.rows(begin, end):
            for rival in rivals:
                rival.take(reading)

    give(0, 300)  # about five minutes
    return [timed(partial(give, b, b + rows))[0] for b in range(300, 300 + 3 * rows, rows)], rows
