"""The live arrays of a shard of patterns, on the machine where its task runs, and how they are built again.

The arrays lie in files that every Python worker of the machine maps, under a token; where one process runs all tasks
they lie in its memory. ``live_shard`` uses them if their token is the one in the runner's state, and else builds them
again from the state's snapshot and parts. So a task may run anywhere, fail anywhere and be run again, and each batch
counts once. ``CombineStep`` calls it once per shard and batch.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from tidegate.machine_cache import cache_directory
from tidegate.patterns import Combine
from tidegate.stages.shard_parts import ShardFiles
from tidegate.stages.shard_state import ShardState
from tidegate.stages.shard_step import stepped
from tidegate.stages.task_context import is_alone

__all__ = ["built", "forget", "live_shard"]

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
