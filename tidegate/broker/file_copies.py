"""Copies of files with checksums: what ``backup`` and ``restore`` do with every file, whatever is in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tidegate.errors import StoreError
from tidegate.store.log_tail import sync_directory

__all__ = ["CopiedFile", "Progress", "Shown", "checked", "copied", "made_empty", "silent", "synced", "unusable"]

#: Shows how many bytes are done, and which file it is.
Shown = Callable[[int, str], None]
#: Given the number of bytes that are to be done, shows how far they are while the context lasts.
Progress = Callable[[int], AbstractContextManager[Shown]]

_SOME = 1 << 20


class CopiedFile(NamedTuple):
    """The size of a file and the checksum of its content: BLAKE2b of 16 bytes, in hexadecimal digits."""

    size: int
    check: str


@contextmanager
def silent(total: int) -> Iterator[Shown]:
    """Progress that nobody sees."""
    yield lambda done, text: None


def copied(source: Path, target: Path, length: int | None = None, *, durable: bool = True) -> CopiedFile:
    """Copy a file, or its first bytes, durably but for its name. Its mode stays what it was."""
    check, done = blake2b(digest_size=16), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb", buffering=0) as given, target.open("xb", buffering=0) as written:
        found = os.fstat(given.fileno())
        size = found.st_size if length is None else length
        while done < size:
            data = given.read(min(_SOME, size - done))
            if not data:
                raise StoreError(f"a file of {size} bytes", f"{done}", str(source))
            check.update(data)
            view = memoryview(data)
            while view:
                view = view[written.write(view) :]
            done += len(data)
        os.fchmod(written.fileno(), stat.S_IMODE(found.st_mode))
        if durable:
            os.fsync(written.fileno())
    return CopiedFile(size, check.hexdigest())


def checked(path: Path) -> CopiedFile:
    """The size and the checksum of a file that is there; it is made durable."""
    check, size = blake2b(digest_size=16), 0
    with path.open("rb", buffering=0) as file:
        while data := file.read(_SOME):
            check.update(data)
            size += len(data)
        os.fsync(file.fileno())
    return CopiedFile(size, check.hexdigest())


def synced(root: Path) -> None:
    """Make the names in a directory and in all directories below it durable."""
    for directory, _, _ in os.walk(root):
        sync_directory(Path(directory))


def made_empty(path: Path, what: str) -> bool:
    """Make a directory, or see that it is empty; whether it was made. One with anything in it is refused."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        names = sorted(os.listdir(path)) if path.is_dir() else []
        if names or not path.is_dir():
            got = f"one with {names[0]} in it" if names else "a file"
            raise StoreError(f"a directory that is not there yet, or an empty one, {what}", got, str(path)) from None
        return False
    return True


def unusable(error: OSError, at: Path) -> StoreError:
    """What went wrong with files, in one sentence."""
    if isinstance(error, StoreError):
        return error
    where = str(error.filename or at)
    return StoreError("room to write, and files that can be read", f"{error.strerror or error}", where)
