"""What processes do that the tests of the log start, and some of which they kill. Imports little, to start fast."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime

import pyarrow as pa

from tidegate.store.log import Log

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def rows(ids, **columns):
    """A table of publications with those ids."""
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "source": pa.array(["z7"] * len(ids), pa.string()),
            "time": pa.array([NOON] * len(ids), pa.timestamp("us", "UTC")),
            **columns,
        }
    )


def append_until_killed(directory, name, acknowledged):
    """Append tables of all sizes and say after each which rows it got."""
    log, chance, number = Log(directory, segment_bytes=40_000), random.Random(name), 0
    while True:
        count = chance.choice((1, 1, 2, 7, 300, 3000))
        table = rows((f"{name}-{number + i}" for i in range(count)), **{chance.choice("abc"): pa.array(range(count))})
        acknowledged.send((log.append(table).position, number, count))
        number += count


def append_in_threads(directory, name, threads, appends, segment_bytes, acknowledged):
    """Append from several threads at once and say in the end which rows each append got."""
    log, found = Log(directory, segment_bytes=segment_bytes), []

    def run(thread):
        chance = random.Random(thread)
        for number in range(appends):
            ids = [f"{name}-{thread}-{number}-{i}" for i in range(chance.randint(1, 5))]
            found.append((log.append(rows(ids, **{chance.choice("ab"): pa.array([1.5] * len(ids))})).position, ids))

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    log.close()
    acknowledged.send(found)
