"""1k to 1,048,576 subscriptions of ten intervals on twenty attributes: index, linear scan and rule-engine."""

from __future__ import annotations

import gc
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import tidegate as tg
from bench.harness import Report, median, one_core, rounds, say, timed
from bench.scan import Rules
from bench.workload import Workload, same, table
from tidegate.index import ArrowBatch

SEED = 2026
ATTRIBUTES, PREDICATES, WIDTH = 20, 10, 0.3
PUBLICATIONS = 4096
SIZES = (1_000, 10_000, 100_000, 1_048_576)

COLUMNS = {
    "subscriptions": "subscriptions",
    "index_us": "index µs/pub",
    "engine_us": "engine µs/pub",
    "single_us": "one alone µs",
    "scan_us": "scan µs/pub",
    "ratio": "scan ÷ index",
    "rules_us": "rule-engine µs/pub",
    "matches": "matches/pub",
    "load_s": "load s",
    "fold_s": "fold s",
    "bytes": "bytes/sub",
    "add_us": "add µs",
    "remove_us": "remove µs",
    "save_s": "save s",
    "open_s": "open s",
}


def workload(n: int, rng: np.random.Generator) -> Workload:
    """Ten of twenty attributes each, an interval of width 0.3 on every one."""
    column = np.argsort(rng.random((n, ATTRIBUTES), np.float32), axis=1)[:, :PREDICATES].astype(np.uint16)
    low = rng.random((n, PREDICATES)) * (1 - WIDTH)
    return Workload(column, low, low + WIDTH, rng.random((PUBLICATIONS, ATTRIBUTES)), False)


def main(quick: bool = False) -> None:
    """Run all sizes on one core."""
    one_core()
    report = Report("boolean-intervals", SEED, COLUMNS)
    for n in SIZES[: 2 if quick else None]:
        measure(report, "intervals", workload(n + n // 10, np.random.default_rng(SEED)), n)
    report.finish()


def measure(report: Report, kind: str, work: Workload, n: int) -> None:
    """One size: n subscriptions, and a tenth more to be added while it runs."""
    base = Workload(work.column[:n], work.low[:n], work.high[:n], work.values, work.equality)
    say(f"{kind}, {n:,} subscriptions: loading from CQL2-JSON")
    load, engine = _loaded(base)
    publications = table(work.values)
    index = engine._index
    engine_seconds = rounds(lambda: engine.publish(publications, grouped=True), 9)
    singles = [publications.slice(i, 1) for i in range(32)]
    single_seconds = [timed(partial(engine.publish, one, grouped=True))[0] for one in singles]
    scanned = max(4, min(1024, 20_000_000 // n))
    run, (start, ids) = base.scanned(scanned, 64 * scanned + n)
    say(f"{kind}, {n:,}: scanning {scanned} publications")
    batch_seconds, scan_seconds = [], []
    for _ in range(10):  # in turn, so that whatever else the machine does meets both
        batch = ArrowBatch(publications)
        batch_seconds.append(timed(partial(index.match, batch))[0])
        scan_seconds.append(timed(run)[0])
    del batch_seconds[0], scan_seconds[0]  # the first warms up
    matches = index.match(ArrowBatch(publications))
    exact = same(matches, start, ids, scanned)
    rules_seconds: list[float] = []
    if n <= 10_000:
        few = 20_000 // n
        rules = Rules(base.rules(n))
        events = [{f"a{c}": v for c, v in enumerate(row)} for row in work.values[:few].tolist()]
        seconds, found = timed(lambda: rules.match(events))
        rules_seconds = [seconds / few]
        exact &= all(found[p] == set(ids[start[p] : start[p + 1]].tolist()) for p in range(few))
    per_sub = engine.index_bytes / n
    index_us, scan_us = median(batch_seconds) / PUBLICATIONS * 1e6, median(scan_seconds) / scanned * 1e6
    with tempfile.TemporaryDirectory() as folder:
        save = timed(lambda: engine.save(Path(folder) / "snapshot"))[0]
        opened, loaded = timed(lambda: tg.Engine.load(Path(folder) / "snapshot"))
        again = loaded._index.match(ArrowBatch(publications))
        exact &= same(again, start, ids, scanned)
        fold = timed(lambda: type(index.segments[0]).merge(index.segments, np.zeros(n, np.uint8)))[0]
    add, remove = _change(engine, work, n)
    report.add(
        exact=exact,
        seconds={"index": batch_seconds, "engine": engine_seconds, "scan": scan_seconds, "rules": rules_seconds},
        kind=kind,
        subscriptions=n,
        index_us=index_us,
        engine_us=median(engine_seconds) / PUBLICATIONS * 1e6,
        single_us=median(single_seconds) * 1e6,
        scan_us=scan_us,
        ratio=scan_us / index_us,
        rules_us=rules_seconds[0] * 1e6 if rules_seconds else None,
        matches=len(matches.owners) / PUBLICATIONS,
        load_s=load,
        fold_s=fold,
        bytes=per_sub,
        add_us=add * 1e6,
        remove_us=remove * 1e6,
        save_s=save,
        open_s=opened,
    )


def _loaded(work: Workload) -> tuple[float, tg.Engine]:
    """An engine, and the seconds it took to load; making the subscriptions is not counted."""
    gc.disable()  # so many dicts at once would be looked through again and again
    try:
        subscriptions = list(work.subscriptions())
        return timed(lambda: tg.Engine(subscriptions))
    finally:
        gc.enable()


def _change(engine: tg.Engine, work: Workload, n: int) -> tuple[float, float]:
    """Seconds per added and per removed subscription: a tenth more, a publication after every hundred, folds too."""
    more = list(work.subscriptions(n))
    one = table(work.values[:1])

    def add() -> None:
        for i, subscription in enumerate(more):
            engine.subscribe(subscription)
            if i % 100 == 99:
                engine.publish(one, grouped=True)
        engine._index.wait()

    def remove() -> None:
        for i, subscription in enumerate(more):
            engine.unsubscribe(subscription.id)
            if i % 100 == 99:
                engine.publish(one, grouped=True)

    say(f"{n:,}: adding and removing {len(more):,}")
    added, removed = timed(add)[0], timed(remove)[0]
    return added / len(more), removed / len(more)
