"""Work spread over all cores: ``in_chunks`` for preparing rows, ``shared`` for looking points up.

Threads are enough, because the kernels release Python's global lock. Knows nothing of what is prepared or looked up.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tidegate.shapes.structures import Candidates

__all__ = ["in_chunks", "shared"]

#: Points times spheres from which a second core is worth it.
_WORTH = 200_000
#: Rows that are worked on at a time.
_CHUNK = 1024


class _Cores:
    """The pool of threads, started when first needed, and again in a process that was forked."""

    def __init__(self) -> None:
        self.count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._process: int | None = None
        self._pool: ThreadPoolExecutor | None = None

    def pool(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="tidegate-shapes")
            self._process = os.getpid()
        return self._pool


_cores = _Cores()


def in_chunks(work: Callable[[int, int], None], rows: int, chunk: int = _CHUNK) -> None:
    """Call ``work`` with ranges of at most ``chunk`` rows, on all cores."""
    cuts = [(begin, min(begin + chunk, rows)) for begin in range(0, rows, chunk)]
    if len(cuts) < 2:
        for begin, end in cuts:
            work(begin, end)
        return
    for done in [_cores.pool().submit(work, begin, end) for begin, end in cuts]:
        done.result()


def shared(
    find: Callable[[slice, NDArray[np.int64], NDArray[np.int64]], NDArray[np.int32]], points: int, spheres: int
) -> Candidates:
    """Candidates of that many points, each core having some of them.

    ``find`` answers for a slice of the points: the rows of all of them, where each one's rows end and how many entries
    were tested, into the arrays it is given.
    """
    parts = max(1, min(_cores.count, points)) if points * spheres >= _WORTH else 1
    cuts = [points * i // parts for i in range(parts + 1)]
    ends, tested = np.zeros(points, np.int64), np.zeros(points, np.int64)

    def part(i: int) -> NDArray[np.int32]:
        some = slice(cuts[i], cuts[i + 1])
        return find(some, ends[some], tested[some])

    later = [_cores.pool().submit(part, i) for i in range(1, parts)]
    rows = [part(0), *(answer.result() for answer in later)]
    before = 0
    for i, found in enumerate(rows):
        ends[cuts[i] : cuts[i + 1]] += before
        before += len(found)
    return Candidates(np.concatenate([[0], ends]), rows[0] if parts == 1 else np.concatenate(rows), tested)
