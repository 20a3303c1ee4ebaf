"""One run at a time: a lock on a directory, of a checkpoint or of data, which ends with the process that holds it.

A run takes it before it reads or writes anything there. A checkpoint at a URL has none: there Spark notices a second
run, later.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from contextlib import suppress

from tidegate.errors import StoreError

__all__ = ["DirectoryLock"]

_FILE = "lock"


class DirectoryLock:
    """The lock of a directory, held until ``release``; a ``StoreError`` if another run has it. ``what`` names the kind
    of directory in that error, and ``user`` what uses it.
    """

    def __init__(self, directory: str, what: str = "checkpoint", user: str = "run") -> None:
        self._held: weakref.finalize[..., DirectoryLock] | None = None
        if "://" in directory:
            return
        try:
            os.makedirs(directory, exist_ok=True)
            descriptor = os.open(f"{directory}/{_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(f"a {what} that can be written", f"{error.strerror}", directory) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            got = f"one that process {holder or '?'} uses"
            raise StoreError(f"a {what} that no other {user} uses", got, directory) from None
        self._held = weakref.finalize(self, os.close, descriptor)
        with suppress(OSError):  # a full disk does not make it less of a lock
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another run have the directory."""
        if self._held is not None:
            self._held()
