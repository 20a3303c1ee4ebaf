"""Combine on Spark: patterns with state, keyed by shard, in Spark's own state store and checkpoint.

What Spark keeps for a shard is small: the name of a snapshot and of the parts that came since, and a token. That is
the truth. The live arrays lie in files of the machine that every Python worker maps; they are used when their token
is the one that Spark expects, and built again from snapshot and parts when it is not. So a task may run anywhere,
fail anywhere and be run again, and each batch counts once.

    parts of select ─► shard: state (Spark) ─► arrays (mapped, or built again) ─► Combine ─► sinks' worker halves
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupStateTimeout

from tidegate.index import notification_tables
from tidegate.index.versioned import View
from tidegate.language.limits import DEFAULT_LIMITS
from tidegate.patterns import Combine, Raised, Standing
from tidegate.patterns.combine import KEEP
from tidegate.patterns.memory import LONG_AGO
from tidegate.patterns.pattern import NEVER
from tidegate.pipeline.select import Subscriptions, part, told
from tidegate.pipeline.shard_parts import PART, ShardFiles, pieces
from tidegate.runs.sinks import COUNTS, WorkerHalf
from tidegate.store import array_bundle
from tidegate.store.storage import cache_directory

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

__all__ = ["STATE", "CombineStep", "RaisedBatch", "combined", "forget"]

STATE = "value string"
#: A snapshot is written when the batches since the last one are so many, or their parts larger than this and than twice
#: the snapshot. Few make a batch slow now and then, many a restart.
_MOST_PARTS, _MOST_BYTES = 100, 64 << 20


@dataclass(frozen=True)
class CombineStep:
    """The function that Spark calls for each shard of each batch."""

    files: ShardFiles
    query: str
    keys: Sequence[int]
    lateness: int
    subscriptions: Subscriptions
    halves: Sequence[WorkerHalf]
    combinations: int = DEFAULT_LIMITS.combinations
    ids: bool = True
    """Whether somebody wants more than the grouped form of notifications."""
    keep: int = KEEP
    """How long events are remembered, in microseconds."""

    def __call__(self, key: tuple[int], frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        import pandas as pd  # type: ignore[import-untyped]

        began = perf_counter()
        shard = self.keys.index(key[0])
        rows = [row for frame in frames for row in zip(frame["kind"], frame["payload"], strict=True)]
        parts = [orjson.loads(payload) for kind, payload in rows if kind == PART]
        passing = [row for row in rows if row[0] != PART]
        known = orjson.loads(state.get[0]) if state.exists else {}
        found, counts, fresh = self.step(shard, parts, known)
        before = perf_counter()
        writers = [half.writer(int(told("streaming.sql.batchId") or 0), part()) for half in self.halves]
        for writer in writers:
            writer.take(found)
        receipts = [receipt for writer in writers for receipt in writer.close()]
        seconds = {"seconds": perf_counter() - began, "combining": before - began, "writing": perf_counter() - before}
        receipts.append((COUNTS, orjson.dumps({**counts, **seconds})))
        state.update((orjson.dumps(fresh).decode(),))
        kinds, payloads = zip(*passing, *receipts, strict=True)
        yield pd.DataFrame({"kind": kinds, "payload": payloads})

    def step(
        self, shard: int, parts: list[dict[str, Any]], known: dict[str, Any]
    ) -> tuple[RaisedBatch, dict[str, Any], dict[str, Any]]:
        """What a batch tells, what there is to count, and the shard's next state."""
        batch, version = int(told("streaming.sql.batchId") or 0), known.get("version", -1)
        versions = [v for p in parts for v, _ in p["versions"]]
        oldest, newest = (min(versions), max(versions)) if versions else (max(version, 0), max(version, 0))
        view = self.subscriptions.view(oldest, max(newest, version))
        with _live(self.query, shard, known, self.files) as (live, token):
            in_order = sorted(parts, key=lambda p: (p["order"] is None, p["order"] or 0))
            settings = {"lateness": self.lateness, "combinations": self.combinations, "keep": self.keep}
            delta: dict[str, Any] = {"parts": in_order, "changes": None, **settings}
            if newest > version:
                delta["changes"] = self._changes(live, view, shard, batch, version, oldest, newest)
            raised = _apply(live, delta, self.files, self.ids)
            fresh = {
                "token": token,
                "version": max(newest, version),
                "snapshot": known.get("snapshot"),
                "bytes": known.get("bytes", 0),
                "deltas": _extended(known.get("deltas", []), delta),
            }
            size = sum(p["bytes"] for d in fresh["deltas"] for p in d["parts"])
            if len(fresh["deltas"]) > _MOST_PARTS or size > max(2 * fresh["bytes"], _MOST_BYTES):
                data = array_bundle.packed(live.snapshot())
                fresh |= {"snapshot": f"state-{batch:012d}-{shard}-{token}", "bytes": len(data), "deltas": []}
                self.files.write(fresh["snapshot"], data)
                # a batch that is run again begins from what is known now; nothing goes back further
                self.files.tidy(shard, batch, _named(known) | _named(fresh))
            facts = {**live.counts, "state_bytes": live.arrays.nbytes, "waiting": live.waiting, "sizes": live.sizes()}
            facts.pop("late")  # of this shard's own; select counts them all
        found = RaisedBatch(raised, view)
        return found, {"notifications": found.notifications, "shard": shard, **facts}, fresh

    def _changes(
        self, live: Combine, view: View, shard: int, batch: int, version: int, oldest: int, newest: int
    ) -> str | None:
        """Write down who comes and goes in this batch, so that the shard can be built again without a registry."""
        there = view.patterns.subscriptions
        since, until = view.since[there], view.until(there)
        rows = np.flatnonzero((since % len(self.keys) == shard) & (since > version) & (since <= newest))
        admitted = []
        for row, (_, standing) in zip(rows.tolist(), view.patterns.admitted(rows), strict=True):
            ends = min(int(until[row]), NEVER)
            keys = [key.hex() for key in standing.filters]
            admitted.append([int(since[row]), ends, *standing[3:6], keys, *standing[7:]])
        owners = live.owners()
        numbers = view.numbers(owners)
        ended = np.where(numbers < 0, oldest, view.until(np.maximum(numbers, 0)))
        gone = np.flatnonzero(ended <= newest)
        leaving = [[int(owners[i]), int(ended[i])] for i in gone]
        leaving += [[int(since[row]), int(until[row])] for row in rows if until[row] <= newest]
        if not admitted and not leaving:
            return None
        name = f"change-{batch:012d}-{shard}-{uuid4().hex}"
        self.files.write(name, array_bundle.packed({}, {"admitted": admitted, "ended": leaving}))
        return name


class RaisedBatch:
    """What patterns told, as the sinks take it."""

    def __init__(self, raised: Raised, view: View) -> None:
        self._raised, self._view = raised, view
        self._numbers = view.numbers(raised.owner).astype(np.int32)
        self.notifications = len(raised)

    @cached_property
    def flat(self) -> pa.Table:
        return notification_tables.raised_flat(self._raised, self._view.catalogue, self._numbers)

    @cached_property
    def grouped(self) -> pa.Table:
        return notification_tables.raised_grouped(self._raised, self._view.catalogue, self._numbers)


Step = Callable[[Any, Any, Any], Iterator[Any]]


def combined(parts: DataFrame, step: Step, schema: str) -> DataFrame:
    """What select gives, grouped by shard and taken further by patterns that have state."""
    return parts.groupBy("shard").applyInPandasWithState(step, schema, STATE, "append", GroupStateTimeout.NoTimeout)


# --- the state ------------------------------------------------------------------------------------------------------


def _apply(shard: Combine, delta: dict[str, Any], files: ShardFiles, ids: bool = False) -> Raised:
    """One batch, for the first time or again: the same arrays come out."""
    facts, lateness = shard.arrays.facts, delta["lateness"]
    shard.lateness, shard.combinations = lateness, delta["combinations"]  # a later run may have others
    shard.keep = delta.get("keep", KEEP)
    parts = delta["parts"]
    before = facts.newest
    stamped: list[tuple[int, int]] = []  # versions, and the newest publication up to them
    for p in parts:
        stamped += [(version, top) for version, top in p["versions"] if top > LONG_AGO]

    def clock_at(version: int) -> int | None:
        """How far the clock was when the subscriptions came to a version."""
        tops = [top for v, top in stamped if v < version]
        top = max([*tops, *([] if before is None else [before])], default=None)
        found = [t - lateness for t in (top, facts.wall) if t is not None]
        return max(found, default=None)

    gone = np.empty(0, np.int64)
    if delta["changes"] is not None:
        _, changes = files.read(delta["changes"])
        standing = [
            Standing(since, since, until, family, form, numbers, [bytes.fromhex(k) for k in keys], begins, ends)
            for since, until, family, form, numbers, keys, begins, ends in changes["admitted"]
        ]
        shard.admit(standing, [clock_at(s.since) for s in standing])
        gone = np.array([owner for owner, _ in changes["ended"]], np.int64)
        until = np.array([version for _, version in changes["ended"]], np.int64)
        clocks = {int(v): clock_at(int(v)) for v in np.unique(until)}
        last = [LONG_AGO if (clock := clocks[int(v)]) is None else clock for v in until]
        shard.end(gone, until, np.array(last, np.int64))
    arrivals = []
    high, at_first = before, clock_at(-1)
    for p in parts:
        if p["file"] is not None:
            clock = at_first
            if high is not None and p["order"] != -1:  # after the parts before it; without an order all appear together
                clock = high - lateness if at_first is None else max(high - lateness, at_first)
            arrivals += [piece.arrivals(shard, clock, lateness) for piece in pieces(files.read(p["file"]))]
        tops = [top for _, top in p["versions"] if top > LONG_AGO]
        high = max([*tops, *([] if high is None else [high])], default=None)
    walls = [p["wall"] for p in parts if p["wall"] is not None]
    wall = max([*walls, *([] if facts.wall is None else [facts.wall])], default=None)
    ends = [t - lateness for t in (high, wall) if t is not None]
    first = None
    if shard.clock is None and ends:
        firsts = [p["first"] for p in parts if p["first"] is not None]
        in_order = parts and parts[0]["order"] not in (None, -1)
        first = ((firsts[0] if in_order else min(firsts)) if firsts else min(walls)) - lateness
    raised = shard.take(arrivals, max(ends, default=None), first, ids)
    if high is not None:
        facts.newest = high
    if wall is not None:
        facts.wall = wall
    if len(gone):
        shard.dismiss(gone)
    return raised


@contextmanager
def _live(query: str, shard: int, known: dict[str, Any], files: ShardFiles) -> Iterator[tuple[Combine, str]]:
    """The shard as Spark expects it, to be taken one batch further; and the token of what it is then."""
    directory = cache_directory() / "patterns" / query / str(shard)
    directory.mkdir(parents=True, exist_ok=True)
    fresh = uuid4().hex
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a task that was given up, but still runs: leave the files to it
            yield _built(Combine(), known, files), fresh
            return
        token, combine = known.get("token"), _LIVE.pop((query, shard), None) or Combine(0, directory)
        if token is None or combine.arrays.token != token:
            combine.arrays.retract()
            combine = _built(Combine(0, directory), known, files)
        elif combine.arrays.facts.token != token:  # another process has taken it further
            combine.adopt(token)
        combine.arrays.retract()
        yield combine, fresh
        combine.arrays.facts.token = fresh
        combine.arrays.publish(fresh)
        _LIVE[query, shard] = combine


#: Shards that this process has mapped.
_LIVE: dict[tuple[str, int], Combine] = {}


def _built(combine: Combine, known: dict[str, Any], files: ShardFiles) -> Combine:
    """The state from its snapshot and what came since."""
    if known.get("snapshot"):
        arrays, _ = files.read(known["snapshot"])
        combine.restore(arrays)
    for delta in known.get("deltas", []):
        _apply(combine, delta, files)
    return combine


def _extended(deltas: list[dict[str, Any]], delta: dict[str, Any]) -> list[dict[str, Any]]:
    """One more batch to be repeated. Versions matter only where somebody comes or goes."""
    if delta["changes"] is None:
        parts = [
            {**p, "versions": [[p["versions"][-1][0], max(top for _, top in p["versions"])]] if p["versions"] else []}
            for p in delta["parts"]
        ]
        delta = {**delta, "parts": parts}
    return [*deltas, delta]


def _named(state: dict[str, Any]) -> set[str]:
    """The files that a state is built from."""
    deltas = state.get("deltas", [])
    names = [p["file"] for d in deltas for p in d["parts"]] + [d["changes"] for d in deltas] + [state.get("snapshot")]
    return {name for name in names if name is not None}


def forget(query: str) -> None:
    """Remove the live arrays of a query from this machine: they can be built again."""
    shutil.rmtree(cache_directory() / "patterns" / query, ignore_errors=True)
