"""The file of an SQLite database as the file system has it: locks beside it, and whether it is still the same file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import StoreError

__all__ = ["identity", "locked_file"]


def identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def locked_file(path: str) -> Iterator[None]:
    """Hold the lock of a file, which is made if need be."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError("a directory in which files can be made", f"{error.strerror}", path) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child process that has inherited the file must not keep the lock
        os.close(descriptor)
