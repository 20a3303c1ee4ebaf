"""The directory of a log: ``opened`` makes and mends it, ``locked`` locks it, ``drop`` removes old segments.

``Log`` calls these. Only one process at a time holds the lock. A process that only reads works without it; when it
opens the directory it mends what a crash has left, if it gets the lock at once and may write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import StoreError, shown
from tidegate.store.log_segment import NOTES, LogSegment, data_file, index_file, segments
from tidegate.store.log_tail import Tail, sync_directory
from tidegate.store.wakeups import PREFIX

if TYPE_CHECKING:
    from tidegate.store.gone_rows import Named

__all__ = ["drop", "locked", "opened"]

_LOCK = "lock"
_NAME = re.compile(rf"\d{{20}}(\.log|\.index|{NOTES}|{NOTES}\.new)|{_LOCK}|{PREFIX}\w+")
#: Errors because of which a process that only reads cannot mend: another one is writing, or it may not write.
_CANNOT = (errno.EAGAIN, errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def locked(directory: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of the log. Its file is opened anew each time: a forked process must not share the lock."""
    descriptor = os.open(f"{directory}/{_LOCK}", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def opened(directory: Path, create: bool) -> None:
    """Make sure that the directory holds a log and nothing else, and mend the log after a crash."""
    if create and not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)
    if not create and not directory.is_dir():
        raise StoreError("a log", "no directory", str(directory))
    names = os.listdir(directory)
    if foreign := next((name for name in sorted(names) if not _NAME.fullmatch(name)), None):
        raise StoreError("a directory for a log alone", f"one with {shown(foreign)} in it", str(directory))
    if create:
        (directory / _LOCK).touch()
    elif _LOCK not in names:
        raise StoreError("a log", "a directory without one", str(directory))
    # A process that only reads mends too: entries of an index that a power cut took may have been read before it.
    try:
        with locked(directory, wait=create):
            if create and not any(name.endswith(".log") for name in os.listdir(directory)):
                Tail.create(directory, 0).close()
            _mend(directory)
    except OSError as error:
        if create or error.errno not in _CANNOT:
            raise


def _mend(directory: Path) -> None:
    """Write the missing entries of all whole frames. Only the last segment may end with a frame that is not whole."""
    firsts = segments(directory)
    for first, following in zip(firsts, [*firsts[1:], None], strict=True):
        index = index_file(directory, first)
        if not index.exists():
            index.touch()
            sync_directory(directory)
        if following is None:
            with Tail(directory, first) as tail:
                if not tail.is_whole:
                    tail.mend()
            continue
        with suppress(StoreError), LogSegment(directory, first) as segment:
            if segment.last.end_row == following:
                continue
        with Tail(directory, first) as tail:
            tail.mend(is_last=False)
            if tail.last.end_row != following:
                got = f"whole frames up to row {tail.last.end_row}"
                raise StoreError(f"rows up to {following}", got, str(tail.file))
            tail.seal()


def drop(directory: Path, before: int | None, oldest: int | None, size: int | None, named: Named | None) -> int:
    """Drop segments from the first on, never the last, and return how many; the caller has the lock.

    Those go that were finished before ``oldest`` (µs since 1970) or that are more than ``size`` bytes allow; without
    either, all. The first with a row at or after ``before`` stays, with all behind it. What is ``named`` of a segment
    is noted before it goes, and what was noted goes once nothing of it is named; notes do not count as bytes.
    """
    firsts = segments(directory)
    for name in directory.glob("*.index"):  # left behind by a process that was killed in the loop below
        if int(name.stem) not in firsts:
            name.unlink()
    if named is not None:
        from tidegate.store.gone_rows import forget, note  # a process that only reads need not import how

        forget(directory, named)
    files = [file for file in directory.iterdir() if file.suffix != NOTES]
    kept, dropped = sum(file.stat().st_size for file in files), 0
    for first in firsts[:-1]:
        with LogSegment(directory, first) as segment:
            last = segment.last
        is_old = oldest is not None and last.appended < oldest
        is_more = size is not None and kept > size
        is_needed = before is not None and last.end_row > before
        if is_needed or not (is_old or is_more or (oldest is None and size is None)):
            break
        if named is not None:
            note(directory, first, named)
        # The index goes last: a reader that has it open sees from it that the segment is gone.
        for file in (data_file(directory, first), index_file(directory, first)):
            kept -= file.stat().st_size
            file.unlink()
        dropped += 1
    return dropped
