"""One run at a time: a lock on the directory of a checkpoint, which ends with the process that holds it.

``Flow`` takes it before it reads or writes anything there. A checkpoint at a URL has none: there Spark notices a second
run, later.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from contextlib import suppress

from tidegate.errors import StoreError

__all__ = ["CheckpointLock"]

_FILE = "lock"


class CheckpointLock:
    """The lock of a checkpoint, held until ``release``; a ``StoreError`` if another run has it."""

    def __init__(self, checkpoint: str) -> None:
        self._held: weakref.finalize[..., CheckpointLock] | None = None
        if "://" in checkpoint:
            return
        try:
            os.makedirs(checkpoint, exist_ok=True)
            descriptor = os.open(f"{checkpoint}/{_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError("a checkpoint that can be written", f"{error.strerror}", checkpoint) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            got = f"one that process {holder or '?'} uses"
            raise StoreError("a checkpoint that no other run uses", got, checkpoint) from None
        self._held = weakref.finalize(self, os.close, descriptor)
        with suppress(OSError):  # a full disk does not make it less of a lock
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another run have the checkpoint."""
        if self._held is not None:
            self._held()
