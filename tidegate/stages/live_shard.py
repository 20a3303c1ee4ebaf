"""The live arrays of a shard of patterns, on the machine where its task runs, and how they are built again.

The arrays lie in files that every Python worker of the machine maps, under a token; where one process runs all tasks
they lie in its memory. ``live_shard`` uses them if their token is the one in the runner's state, and else builds them
again from the state's snapshot and parts. So a task may run anywhere, fail anywhere and be run again, and each batch
counts once. ``CombineStep`` calls it once per shard and batch.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tidegate.machine_cache import cache_directory
from tidegate.patterns import Combine, Raised
from tidegate.patterns.memory import LONG_AGO, Arrivals
from tidegate.patterns.past import Fates, Past
from tidegate.stages.shard_parts import ShardFiles, read_pieces
from tidegate.stages.shard_state import TOGETHER, PartReference, ShardChanges, ShardState, StepRecord
from tidegate.stages.task_context import is_alone

__all__ = ["built", "fates_of", "forget", "live_shard", "stepped"]

#: Shards that this process has mapped, or has in its memory.
_MAPPED: dict[tuple[str, int], Combine] = {}


@contextmanager
def live_shard(query: str, shard: int, state: ShardState, files: ShardFiles) -> Iterator[tuple[Combine, str]]:
    """The shard in the state that the runner has, for the caller to take one batch further, and the token it will have
    then.

    The file ``lock`` keeps two tasks from changing the files. They have no valid token while the caller changes them.
    """
    if is_alone():
        with _in_memory(query, shard, state, files) as found:
            yield found
        return
    directory = cache_directory() / "patterns" / query / str(shard)
    directory.mkdir(parents=True, exist_ok=True)
    fresh = uuid4().hex
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a task that Spark gave up but that still runs has the files: use none
            yield built(Combine(), state, files), fresh
            return
        token, combine = state.token, _MAPPED.pop((query, shard), None) or Combine(0, directory)
        if token is None or combine.arrays.token != token:
            combine.arrays.retract()
            combine = built(Combine(0, directory), state, files)
        elif combine.arrays.facts.token != token:  # another process has taken it further
            combine.adopt(token)
        combine.arrays.retract()
        yield combine, fresh
        combine.arrays.facts.token = fresh
        combine.arrays.publish(fresh)
        _MAPPED[query, shard] = combine


@contextmanager
def _in_memory(query: str, shard: int, state: ShardState, files: ShardFiles) -> Iterator[tuple[Combine, str]]:
    """The same without files: nobody else could map them."""
    combine, fresh = _MAPPED.pop((query, shard), None), uuid4().hex
    if combine is None or state.token is None or combine.arrays.facts.token != state.token:
        combine = built(Combine(), state, files)
    yield combine, fresh  # a batch that fails leaves no shard behind
    combine.arrays.facts.token = fresh
    _MAPPED[query, shard] = combine


def built(combine: Combine, state: ShardState, files: ShardFiles) -> Combine:
    """The shard, built from the snapshot of its state and the batches since."""
    if state.snapshot is not None:
        arrays, _ = files.read(state.snapshot)
        combine.restore(arrays)
    for step in state.steps:
        stepped(combine, step, files)
    return combine


def forget(query: str) -> None:
    """Remove the live arrays of a query from this process and this machine: they can be built again."""
    for key in [key for key in _MAPPED if key[0] == query]:
        del _MAPPED[key]
    shutil.rmtree(cache_directory() / "patterns" / query, ignore_errors=True)


# --- one batch ------------------------------------------------------------------------------------------------------


def stepped(shard: Combine, step: StepRecord, files: ShardFiles, ids: bool = False) -> Raised:
    """Take a shard one batch further. The same batch on the same arrays always gives the same arrays."""
    facts, settings = shard.arrays.facts, step.settings
    shard.lateness, shard.combinations, shard.keep = settings.lateness, settings.combinations, settings.keep
    clocks = _Clocks(step.parts, settings.lateness, facts.newest, facts.wall)
    gone = _changed(shard, step.changes, clocks, files)
    arrivals = list[Arrivals]()
    for part, clock in clocks.before_each():
        if part.file is not None:
            pieces = read_pieces(files.read(part.file), f"{files.location}/{part.file}")
            arrivals += [piece.taken_by(shard, clock, settings.lateness) for piece in pieces]
    first = clocks.first() if shard.clock is None else None
    _past(shard).fates = None
    raised = shard.take(arrivals, clocks.end, first, ids)
    if clocks.newest is not None:
        facts.newest = clocks.newest
    if clocks.wall is not None:
        facts.wall = clocks.wall
    if len(gone):
        shard.dismiss(gone)
    return raised


def fates_of(shard: Combine) -> Fates | None:
    """What became of the publications of the last batch as parts of events; None if nobody asked about the past."""
    return _past(shard).fates


def _past(shard: Combine) -> Past:
    found = shard.families[Past.name]
    assert isinstance(found, Past)
    return found


def _changed(shard: Combine, name: str | None, clocks: _Clocks, files: ShardFiles) -> NDArray[np.int64]:
    """Admit the subscriptions that come and note when others ended; the owners to dismiss after the batch."""
    if name is None:
        return np.empty(0, np.int64)
    changes = ShardChanges.unpacked(files.read(name)[1])
    shard.admit(changes.admitted, [clocks.at(standing.since) for standing in changes.admitted])
    gone = np.array([owner for owner, _ in changes.ended], np.int64)
    until = np.array([version for _, version in changes.ended], np.int64)
    at = {int(version): clocks.at(int(version)) for version in np.unique(until)}
    last = [LONG_AGO if (clock := at[int(version)]) is None else clock for version in until]
    shard.end(gone, until, np.array(last, np.int64))
    return gone


class _Clocks:
    """The clock of a shard at each point of a batch.

    It is ``lateness`` behind the newest publication so far or, where the source has one and it is later, behind the
    time of day. ``newest`` and ``wall`` are those two after the batch.
    """

    def __init__(self, parts: Sequence[PartReference], lateness: int, newest: int | None, wall: int | None) -> None:
        self._parts, self._lateness = parts, lateness
        self._before, self._wall_before = newest, wall
        self._stamped = [stamp for part in parts for stamp in part.versions if stamp[1] > LONG_AGO]
        self._walls = [part.wall for part in parts if part.wall is not None]
        self.newest = _latest(newest, *(top for _, top in self._stamped))
        self.wall = _latest(wall, *self._walls)

    def at(self, version: int) -> int | None:
        """The clock at the moment when the registry came to a version."""
        top = _latest(self._before, *(top for v, top in self._stamped if v < version))
        return self._behind(top, self._wall_before)

    def before_each(self) -> Iterator[tuple[PartReference, int | None]]:
        """The parts, each with the clock before it: that after the parts before it, unless all appeared together."""
        high, at_first = self._before, self.at(-1)
        for part in self._parts:
            clock = at_first
            if high is not None and part.order != TOGETHER:
                clock = _latest(high - self._lateness, at_first)
            yield part, clock
            high = _latest(high, *(top for _, top in part.versions if top > LONG_AGO))

    @property
    def end(self) -> int | None:
        """The clock after the batch."""
        return self._behind(self.newest, self.wall)

    def first(self) -> int | None:
        """The clock before the first publication, for the first batch that moves it."""
        if self.end is None:
            return None
        firsts = [part.first for part in self._parts if part.first is not None]
        if not firsts:
            return min(self._walls) - self._lateness
        in_order = self._parts[0].order not in (None, TOGETHER)
        return (firsts[0] if in_order else min(firsts)) - self._lateness

    def _behind(self, *moments: int | None) -> int | None:
        latest = _latest(*moments)
        return None if latest is None else latest - self._lateness


def _latest(*moments: int | None) -> int | None:
    return max((moment for moment in moments if moment is not None), default=None)
