"""Processes that benches start, which end when the bench does, whatever ends it; and what the disk alone can do.

``apart`` runs a function in a process of its own and gives its result; ``beside`` runs one meanwhile; ``started`` runs
a command. Files are dropped from the page cache by ``uncached``. It needs Linux, for ``prctl`` and ``mincore``.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from tidegate.closing import Closing

__all__ = ["Beside", "SyncedFile", "apart", "started", "uncached"]

T = TypeVar("T")

_fork = multiprocessing.get_context("fork")
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None, use_errno=True)
#: Seconds that a process may take to end.
_PATIENCE = 60


def _tie(starter: int) -> None:
    """In a new process: have it killed when its starter ends."""
    _libc.prctl(_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != starter:
        os._exit(1)


class Beside:
    """A function that runs in a process of its own; ``result`` waits for what it returns."""

    def __init__(self, work: Callable[[], Any]) -> None:
        gc.collect()  # what is mapped here would be mapped there too
        self._ours, theirs = _fork.Pipe(duplex=False)
        self._process = _fork.Process(target=_do, args=(work, theirs, os.getpid()))
        self._process.start()
        theirs.close()

    def result(self) -> Any:
        """What the function returned. If it failed, so does the bench."""
        try:
            worked, found = self._ours.recv()
        except EOFError:
            worked, found = False, "it was killed"
        self._process.join(_PATIENCE)
        if not worked:
            raise SystemExit(f"bench: a process of the bench failed: {found}")
        return found

    def end(self) -> None:
        """Kill it, if it has not ended."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join(_PATIENCE)


def _do(work: Callable[[], Any], pipe: Any, starter: int) -> None:
    _tie(starter)
    try:
        pipe.send((True, work()))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)


def apart(work: Callable[[], T]) -> T:
    """What a function returns that runs in a new process, which has none of its files open or in memory."""
    found: T = Beside(work).result()
    return found


@contextmanager
def started(command: Sequence[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs meanwhile and writes to a file. It is sent SIGTERM at the end, and must end well."""
    starter = os.getpid()
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=lambda: _tie(starter)
        )
        try:
            yield process
            process.terminate()
            code = process.wait(_PATIENCE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if code:
        raise SystemExit(
            f"bench: expected {' '.join(command)} to end well; got exit code {code}:\n{output.read_text()}"
        )


# --- the disk ---------------------------------------------------------------------------------------------------------


def uncached(directory: Path) -> float:
    """Drop the files of a directory from the page cache; the share of them that stays in it nevertheless."""
    pages = stayed = 0
    for path in directory.rglob("*"):
        if path.is_file() and path.stat().st_size:
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                there = _in_cache(file, path.stat().st_size)
            finally:
                os.close(file)
            pages, stayed = pages + len(there), stayed + sum(there)
    return stayed / pages if pages else 0.0


def _in_cache(file: int, size: int) -> bytes:
    """A byte per page of a file: 1 where it is in the page cache."""
    count = -(-size // mmap.PAGESIZE)
    vector = (ctypes.c_ubyte * count)()
    with mmap.mmap(file, size, access=mmap.ACCESS_COPY) as data:
        first = ctypes.c_char.from_buffer(data)
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), vector)
        del first
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return bytes(page & 1 for page in bytes(vector))


class SyncedFile(Closing):
    """A file that grows by 4 KiB at a time, each synced by itself: what a commit costs that does nothing else."""

    def __init__(self, path: Path) -> None:
        self._file, self._end = os.open(path, os.O_RDWR | os.O_CREAT), 0

    def append(self) -> float:
        """Seconds until the next 4 KiB are durable."""
        begin = perf_counter()
        os.pwrite(self._file, bytes(4096), self._end)
        os.fdatasync(self._file)
        self._end += 4096
        return perf_counter() - begin

    def close(self) -> None:
        os.close(self._file)
