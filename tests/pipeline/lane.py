"""Select and combine without Spark: the real log source, tasks and steps, with a stand-in for Spark's state."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.pipeline import shard_keys
from tidegate.pipeline.combine import CombineTask
from tidegate.pipeline.log_datasource import LogDataSource
from tidegate.runs.quarantine import Quarantine
from tidegate.runs.sinks import COUNTS, Receipts, Sent
from tidegate.stages import feed, task_context
from tidegate.stages.combine import CombineStep
from tidegate.stages.select import Select, Subscriptions
from tidegate.stages.select_task import ReceiptRows, SelectTask
from tidegate.stages.shard_parts import ShardFiles
from tidegate.stages.shard_state import CombineSettings, ShardState

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)

#: Every family, with windows of time and of counts, with and without sources and metres; and one without a pattern.
WHERE = (
    "topk(3, 'PT5S', n)",
    "n > 0 AND topk(2, 40, n)",
    "topk(3, 'PT4S', distance((n, m), (1, 2)))",
    "together('PT3S', n > 1, m > 1)",
    "together('PT4S', 5000, n > 3, m > 3, n < 3)",
    "absent('PT3S', n > 4.9)",
    "absent('PT2S', n > 3, source)",
    "n > 4.9",
)


def subscription(number):
    return tg.Subscription(f"s{number}", "ann", WHERE[number % len(WHERE)])


class Stream:
    """Publications that come one frame after the other, the newest about two seconds later each time."""

    def __init__(self, seed, disorder=0):
        self._rng, self._disorder = np.random.default_rng(seed), disorder
        self._second, self._number = 0.0, 0

    def frame(self, count=50, late=0):
        """So many publications, of which ``late`` are a minute older than the others."""
        rng = self._rng
        seconds = self._second + np.sort(np.round(rng.random(count) * 2, 2))
        self._second = float(seconds[-1])
        seconds -= np.round(rng.random(count) * self._disorder, 1)
        seconds[:late] -= 60
        first, self._number = self._number, self._number + count
        points = [{"lon": 16 + 0.1 * x, "lat": 45.8} for x in rng.random(count)]
        return pa.table(
            {
                "id": [f"p{i:05d}" for i in range(first, first + count)],
                "source": [f"z{i % 5}" for i in range(count)],
                "time": pa.array([TIME + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC")),
                "location": pa.array(points, pa.struct([("lon", pa.float64()), ("lat", pa.float64())])),
                "n": np.round(rng.random(count) * 5, 1),
                "m": np.round(rng.random(count) * 5, 1),
            }
        )

    def last(self):
        """One publication an hour later: all that waits is stepped, and all silences are over."""
        self._second += 3600
        return self.frame(1)


def rows(tables):
    """Notifications, in an order that does not depend on how they came."""
    return sorted((row for table in tables for row in table.to_pylist()), key=str)


# --- the lane without Spark -----------------------------------------------------------------------------------------


class Task:
    """What Spark tells a task."""

    def __init__(self, batch, part=0):
        self._told, self._part = {"streaming.sql.batchId": str(batch)}, part

    def getLocalProperty(self, name):
        return self._told.get(name)

    def partitionId(self):
        return self._part


class State:
    """What Spark keeps for a key: changed only when all of a batch went well."""

    def __init__(self, value):
        self._value = value

    @property
    def exists(self):
        return self._value is not None

    @property
    def get(self):
        return (self._value,)

    def update(self, value):
        (self._value,) = value


class Lane:
    """A log, a registry, select and combine, and what Spark does between them."""

    def __init__(self, directory, lateness=0.0, count=2, ahead=None, now=None):
        self.registry = tg.Registry(directory / "registry.db")
        self.registry.needs("lane", 0)
        #: The time of day when publications are appended, in microseconds since 1970.
        self.now = tg.model.micros(TIME) if now is None else now
        self.log = tg.Log(directory / "log", version=lambda: self.registry.version, clock=lambda: self.now)
        self.keys = shard_keys.keys(count)
        self.files = ShardFiles(str(directory / "patterns"))
        subscriptions, halves = Subscriptions(os.fspath(self.registry.index_storage), self.registry), (Sent(),)
        outlet = ReceiptRows(halves, self.files, self.keys)
        self.quarantine = Quarantine.at(directory / "quarantine")
        select = Select(feed.slices, subscriptions, None if ahead is None else int(ahead * 1e6))
        self.work = SelectTask(select, outlet, self.quarantine)
        settings = CombineSettings(int(lateness * 1e6))
        self.combining = CombineStep(self.files, self.keys, subscriptions, settings, halves, query="lane")
        options = {
            "path": str(directory / "log"),
            "registry": self.registry.url,
            "storage": self.registry.index_storage,
        }
        self.reader = LogDataSource({**options, "pieces": "3"}).streamReader(None)
        self.states, self.row, self.number, self.told = dict.fromkeys(self.keys), 0, -1, []
        self.counts, self.clock, self.ahead = {}, None, 0

    def set(self, **settings):
        """Go on with other settings."""
        self.combining = replace(self.combining, settings=replace(self.combining.settings, **settings))

    def publish(self, *tables):
        """Append frames, and have them all in one batch."""
        for table in tables:
            self.log.append(table)
        self.batch()

    def batch(self, clock=None, end=None):
        """Run what is in the log since the last batch; ``clock`` is the time of day in microseconds."""
        start, self.row = {"row": self.row}, self.log.end if end is None else end
        self.number += 1
        tick = {"clock": clock} if clock is not None else {}
        self.parts = self.selected(start, {**self.cut(self.row), **tick})
        self.states, receipts = self.combined()
        self.accept(receipts)

    def cut(self, row):
        """The offset of a cut there, now."""
        return {"row": row, "version": self.registry.version, "time": self.now}

    def accept(self, receipts):
        self.told.append(receipts.flat)
        for payload in receipts.of(COUNTS):
            counted = orjson.loads(payload)
            self.ahead += counted.get("ahead", 0)
            if "shard" in counted:
                self.counts[counted["shard"]] = counted

    def selected(self, start, end):
        """The first stage: a task per partition; its rows by key."""
        found = {key: [] for key in self.keys}
        for number, partition in enumerate(self.reader.partitions(start, end)):
            with running(Task(self.number, number)):
                for batch in self.work(self.reader.read(partition)):
                    for row in batch.to_pylist():
                        found[row["shard"]].append(row)
        return found

    def combined(self, states=None):
        """The second stage: a call per key; the next states and the receipts. Nothing of the lane is changed."""
        fresh, receipts = {}, []
        for key, rows_ in self.parts.items():
            state = State((states or self.states)[key])
            if rows_:  # in any order, as they come out of a shuffle
                frame = pd.DataFrame(rows_[::-1])
                with running(Task(self.number)):
                    for found in CombineTask(self.combining)((key,), iter([frame[:1], frame[1:]]), state):
                        receipts += found.to_dict("records")
            fresh[key] = state.get[0]
        schema = pa.schema([("kind", pa.string()), ("payload", pa.binary())])
        return fresh, Receipts.of_table(pa.Table.from_pylist(receipts, schema))

    def known(self, shard):
        """The state of a shard, as Spark has it."""
        value = self.states[self.keys[shard]]
        return ShardState.from_json(value) if value else ShardState()

    def total(self, name):
        return sum(counted[name] for counted in self.counts.values())


class running:
    """As if in a task."""

    def __init__(self, task):
        self._task = task

    def __enter__(self):
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(task_context, "_of_spark", lambda: self._task)

    def __exit__(self, *_):
        self._patch.undo()


def at_seconds(*seconds):
    return pa.table(
        {
            "id": [f"p{s}" for s in seconds],
            "source": ["z"] * len(seconds),
            "time": pa.array([TIME + s * SECOND for s in seconds], pa.timestamp("us", "UTC")),
            "n": [float(s) for s in seconds],
        }
    )
