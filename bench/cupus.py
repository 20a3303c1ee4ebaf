"""The experiment of CUPUS (OpenIoT D4.5.1 §6): gas readings, subscriptions on a measurement or a time range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from bench.harness import Report, median, one_core, rounds, rounds_over, say, timed
from bench.scan import scan
from bench.workload import same, table
from tidegate.index import ArrowBatch

SEED = 2026
GASES = ("co", "o3", "no2", "particles")
OPERATORS = ("=", "<", "<=", ">", ">=", "<>")
READINGS, PUBLICATIONS = 4_000, 2_048
SIZES = (1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
DAY = 86_400.0

#: How subscriptions are drawn: the paper's way, and three that pin down the ends.
MIXES: dict[str, Any] = {
    "as the paper": {"operators": OPERATORS, "times": 0.1},
    "few match": {"operators": ("=",), "times": 0.0},
    "most match": {"operators": ("<>",), "times": 0.9},
    "all match": {"operators": ("<>",), "times": 1.0},
}

COLUMNS = {
    "mix": "mix",
    "subscriptions": "subscriptions",
    "share": "% match",
    "index_us": "index µs/pub",
    "engine_us": "engine µs/pub",
    "scan_us": "scan µs/pub",
    "ratio": "scan ÷ index",
    "load_s": "load s",
    "bytes": "bytes/sub",
}


def readings(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Stand-ins for the OpenSense readings, which are not public: gas, value with one decimal, second of the day."""
    gas = rng.integers(0, len(GASES), READINGS)
    centre = np.array([0.8, 60.0, 40.0, 12_000.0])[gas]
    value = np.round(centre * rng.lognormal(0.0, 0.5, READINGS), 1)
    return gas, value, np.sort(rng.uniform(0, DAY, READINGS).round())


def main(quick: bool = False) -> None:
    """Run all sizes and mixes on one core."""
    one_core()
    report = Report("cupus", SEED, COLUMNS)
    for mix in MIXES:
        for n in SIZES[-1:] if quick or mix != "as the paper" else SIZES:
            measure(report, mix, n)
    report.finish()


def measure(report: Report, mix: str, n: int) -> None:
    """One size of one mix."""
    say(f"{mix}, {n:,} subscriptions")
    rng = np.random.default_rng(SEED)
    gas, value, second = readings(rng)
    drawn = rng.integers(0, READINGS, n)
    operators = MIXES[mix]["operators"]
    which = rng.integers(0, len(operators), n)
    is_time = rng.random(n) < MIXES[mix]["times"]
    if mix == "all match":
        begins, ends = rng.uniform(-DAY, 0, n), rng.uniform(DAY, 2 * DAY, n)
    elif mix == "most match":
        begins = rng.uniform(0, DAY / 20, n)
        ends = begins + DAY * 0.9
    else:
        begins = rng.uniform(0, DAY / 2, n)
        ends = begins + rng.uniform(0, DAY / 4, n)
    subscriptions: list[tg.Subscription] = []
    entries: list[tuple[int, int, float, float]] = []
    for i in range(n):
        if is_time[i]:
            low, high, column = begins[i], ends[i], len(GASES)
            bounds = [(low, np.nextafter(high, np.inf))]
            where = {"op": "between", "args": [{"property": "second"}, low, high]}
        else:
            column, at, op = int(gas[drawn[i]]), float(value[drawn[i]]), operators[which[i]]
            where = {"op": op, "args": [{"property": GASES[column]}, at]}
            after = np.nextafter(at, np.inf)
            bounds = {
                "=": [(at, after)],
                "<": [(-np.inf, at)],
                "<=": [(-np.inf, after)],
                ">": [(after, np.inf)],
                ">=": [(at, np.inf)],
                "<>": [(-np.inf, at), (after, np.inf)],
            }[op]
        subscriptions.append(tg.Subscription(f"s{i}", "bench", where))
        entries.extend((i, column, low, high) for low, high in bounds)
    published = rng.integers(0, READINGS, PUBLICATIONS)
    values = np.full((PUBLICATIONS, len(GASES) + 1), np.nan)
    values[np.arange(PUBLICATIONS), gas[published]] = value[published]
    values[:, len(GASES)] = second[published]
    load, engine = timed(lambda: tg.Engine(subscriptions))
    publications = table(values, [*GASES, "second"])
    index = engine._index
    index_seconds = rounds_over((ArrowBatch(publications) for _ in range(10)), index.match)
    engine_seconds = rounds(lambda: engine.publish(publications, grouped=True), 5)
    # the scan takes a <> as two entries, one of which may hold: no early exit is lost on single predicates
    owner, column_of, low_of, high_of = (np.array(part) for part in zip(*entries, strict=True))
    bounds_of = np.ascontiguousarray(np.stack([low_of, high_of], axis=1).astype(np.float64))[None]
    columns = column_of.astype(np.uint16)[None]
    scanned = PUBLICATIONS
    starts, out = np.empty(scanned + 1, np.int64), np.empty(scanned * len(entries), np.int32)
    scan_seconds = rounds(lambda: scan(values[:scanned], columns, bounds_of, starts, out), 9)
    matches = index.match(ArrowBatch(publications))
    exact = same(matches, starts, owner.astype(np.int32)[out[: starts[-1]]], scanned)
    index_us, scan_us = median(index_seconds) / PUBLICATIONS * 1e6, median(scan_seconds) / scanned * 1e6
    report.add(
        exact=exact,
        seconds={"index": index_seconds, "engine": engine_seconds, "scan": scan_seconds},
        mix=mix,
        subscriptions=n,
        share=100 * len(matches.owners) / PUBLICATIONS / n,
        index_us=index_us,
        engine_us=median(engine_seconds) / PUBLICATIONS * 1e6,
        scan_us=scan_us,
        ratio=scan_us / index_us,
        load_s=load,
        bytes=engine.index_bytes / n,
    )
