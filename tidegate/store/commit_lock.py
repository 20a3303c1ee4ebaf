"""The lock between a run that commits a batch and a backup that looks at everything of one moment.

A run holds it shared while it opens its sinks and while these commit a batch; ``broker/backup_moment.py`` holds it
alone, for as long as it takes to note what there is. It is a file of the checkpoint. Knows nothing of batches or files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import StoreError

__all__ = ["COMMIT_LOCK", "CommitLock"]

#: The file that is locked.
COMMIT_LOCK = "commits.lock"


class CommitLock:
    """The lock of a checkpoint. One at a URL has none: it is in no data directory, and no backup is made of it."""

    def __init__(self, checkpoint: str | os.PathLike[str]) -> None:
        self._checkpoint = os.fspath(checkpoint)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it beside others who commit; waits for a backup that looks."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it while nobody commits; waits for the commit that is under way."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _held(self, mode: int) -> Iterator[None]:
        if "://" in self._checkpoint:
            yield
            return
        path = f"{self._checkpoint}/{COMMIT_LOCK}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError("a checkpoint that can be written", f"{error.strerror}", path) from None
        try:
            fcntl.flock(descriptor, mode)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child process that has inherited the file must not keep the lock
            os.close(descriptor)
