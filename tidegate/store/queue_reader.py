"""Reading queues: which there are, and their deliveries by number. Any process may read while the runner writes.

A reader finds the deliveries of a queue in a few dozen frames however many batches there were, because the writer
(``store/queues.py``) merges them. ``refresh`` takes notice of what was committed since.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, shown
from tidegate.store.queue_directory import Queue, QueueDirectory
from tidegate.store.queue_files import JOURNAL, MANIFEST, Committed, QueueFile, read_manifest, total
from tidegate.store.queue_frames import Delivery, QueueFrame
from tidegate.store.queue_stretches import Stretch, stretches

__all__ = ["QueuePage", "QueueReader", "QueuedRows", "unusable"]

#: How often a reader looks at files that are replaced meanwhile.
_TRIES = 10


class QueuePage(NamedTuple):
    """Some deliveries of a queue in the order of their numbers; the oldest number that is kept, and the last."""

    queue: Queue
    deliveries: list[Delivery]
    oldest: int
    last: int


class QueuedRows(NamedTuple):
    """Deliveries of publications, an element for each: the queue, the number in it, the row of the log."""

    queue: NDArray[np.int32]
    number: NDArray[np.int64]
    row: NDArray[np.int64]


_NOWHERE = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)


class QueueReader(Closing):
    """The queues in a directory, to be read. ``refresh`` takes notice of what was committed since.

    ``most`` is how many deliveries of a queue are kept.
    """

    def __init__(self, directory: str | os.PathLike[str], *, most: int = 100_000) -> None:
        if most < 1:
            raise SettingError("at least 1 delivery per queue", shown(most))
        self.directory, self.most = Path(directory).absolute(), most
        self.sizes: Mapping[str, int] = {}
        """Principals of whose queues fewer are kept, and how many."""
        self._reading = threading.RLock()
        self._files: list[QueueFile] = []
        self._known = QueueDirectory()
        self._seen = (0, 0)
        self._grown: list[NDArray[np.int32]] | None = None
        self._opened = ExitStack()
        try:
            self._open()
        except OSError as error:
            self._opened.close()
            raise unusable(error, self.directory) from None

    def _open(self) -> None:
        self._committed = Committed(self.directory, writes=False)
        self._opened.callback(self._committed.close)
        self.refresh()

    def _adopt(self) -> None:
        """Look at the files that the manifest names; those that are known stay."""
        self._seen = _identity(self.directory)
        manifest = read_manifest(self.directory)
        if manifest is None:
            raise StoreError("a directory with queues", "none", str(self.directory))
        if manifest.base is not None:
            base = QueueDirectory.from_file(self.directory / manifest.base)
            if not self._files or base.batch > self._known.batch:  # what was dropped is not known either
                base.changes = self._known.changes + 1
                self._known, self._grown = base, None
        known = {file.name: file for file in self._files}
        files = [known.get(name) or QueueFile(self.directory, name, level) for name, level in manifest.files]
        self._take_new(files)
        self._manifest, self._files = manifest, files

    def _take_new(self, files: Sequence[QueueFile]) -> bool:
        """Take the frames that are durable and that we do not know; whether there were any."""
        journal, end = self._committed.read()
        before = self._known.batch
        for file in files:
            if file.level == JOURNAL and file.serial > journal:
                break
            file.refresh(end if file.serial == journal else None)
            if file.level == JOURNAL:
                file.expect(end if file.serial == journal else file.path.stat().st_size)
            if file.frames and file.frames[-1].last_batch > self._known.batch:
                for frame in file.frames:
                    if frame.last_batch > self._known.batch:
                        self._known.take(frame)
                        if self._grown is not None:
                            self._grown.append(frame.queue)
        return self._known.batch > before

    # --- reading ----------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Take notice of what was committed since; whether there was anything."""
        with self._reading:
            for left in reversed(range(_TRIES)):
                try:
                    before = self._known.batch
                    if _identity(self.directory) != self._seen:
                        self._adopt()
                    return self._take_new(self._files) or self._known.batch > before
                except FileNotFoundError as error:  # merged while we looked: there is another manifest by now
                    self._seen = (0, 0)
                    if not left:
                        raise StoreError("a file of queues", "none", str(error.filename)) from None
            raise AssertionError("a last try")

    def grown(self) -> NDArray[np.int32] | None:
        """The numbers of the queues that have grown since this was asked last; None if any may have."""
        with self._reading:
            grown, self._grown = self._grown, []
        if grown is None:
            return None
        return np.unique(np.concatenate([np.empty(0, np.int32), *grown]))

    @property
    def changes(self) -> int:
        """Moves whenever a queue was made or has ended."""
        return self._known.changes

    @property
    def last_batch(self) -> int:
        """The last batch that was committed and told or changed anything; −1 if none."""
        return self._known.batch

    @property
    def last_cut(self) -> tuple[int, int]:
        """The row up to which tombstones are told, and the version up to which registrations and subscriptions are."""
        return self._known.row, self._known.version

    def __iter__(self) -> Iterator[Queue]:
        with self._reading:
            return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def queue(self, principal: str, destination: str = "stream") -> Queue:
        """The queue of a principal to a destination."""
        found = self.find(principal, destination)
        if found is None:
            raise StoreError("a principal with a queue", shown(principal), f"{destination} of {self.directory}")
        return found

    def find(self, principal: str, destination: str) -> Queue | None:
        """The queue of a principal to a destination; None if there is none."""
        is_text = isinstance(principal, str) and isinstance(destination, str)
        return self._known.find(principal, destination) if is_text else None

    def of(self, principal: str) -> list[Queue]:
        """The queues of a principal."""
        return self._known.of(principal)

    def __contains__(self, queue: object) -> bool:
        return isinstance(queue, Queue) and queue in self._known

    def lasts(self) -> NDArray[np.int64]:
        """By the number of a queue the number of its last delivery."""
        with self._reading:
            return self._known.last.copy()

    def last(self, queue: Queue) -> int:
        """The number of the last delivery of a queue, 0 if there was none."""
        return int(self._known.last[queue.number])

    def oldest(self, queue: Queue) -> int:
        """The number of the oldest delivery that is kept; one after the last if none is."""
        with self._reading:
            last = self.last(queue)
            for frame in self._frames():
                first, end = frame.span(queue.number)
                if end:
                    return max(first, last - self.most_of(queue) + 1)
            return last + 1

    def most_of(self, queue: Queue) -> int:
        """How many deliveries of a queue are kept at most."""
        return min(self.most, self.sizes.get(queue.principal, self.most)) if self.sizes else self.most

    def read(self, queue: Queue, after: int, limit: int = 100) -> QueuePage:
        """Deliveries with numbers above ``after``, or from the oldest that is kept if that is later."""
        if type(after) is not int or after < 0:
            raise SettingError("a number of a queue, from 0 up", shown(after), "after")
        if type(limit) is not int or limit < 1:
            raise SettingError("a number from 1 up", shown(limit), "limit")
        with self._reading:
            self._expect_there(queue)
            oldest, last = self.oldest(queue), self.last(queue)
            low, found, spans = max(after + 1, oldest), list[Delivery](), []
            for frame in reversed(list(self._frames())):
                first, end = frame.span(queue.number)
                if end > low:
                    spans.append((max(first, low), end, frame))
                if end and first <= low:
                    break
            for first, end, frame in reversed(spans):
                if limit == len(found):
                    break
                found += frame.read(queue.number, first, min(end, first + limit - len(found)))
            return QueuePage(queue, found, oldest, last)

    def read_many(self, queues: Sequence[Queue], after: Sequence[int], limit: int = 100) -> list[Stretch]:
        """For each queue what ``read`` finds, of all in one go; nothing of those that have ended. A queue that is asked
        for twice is read twice.
        """
        found: list[Stretch] = []
        at = 0
        while at < len(queues):  # as many as are different
            some = dict[int, int]()
            while at < len(queues) and queues[at].number not in some:
                some[queues[at].number] = after[at]
                at += 1
            found += self._read_distinct(queues[at - len(some) : at], list(some.values()), limit)
        return found

    def _read_distinct(self, queues: Sequence[Queue], after: Sequence[int], limit: int) -> list[Stretch]:
        numbers, low = np.array([queue.number for queue in queues], np.int64), np.array(after, np.int64) + 1
        with self._reading:
            last = self._known.last[numbers]
            last[[queue not in self._known for queue in queues]] = -1
            most = np.array([self.most_of(queue) for queue in queues], np.int64) if self.sizes else self.most
            return stretches(list(self._frames()), numbers, np.maximum(low, last - most + 1), last, limit)

    def named(self, begin: int, end: int, rows_told: Callable[[bytes], Iterable[int]]) -> NDArray[np.int64]:
        """The rows of the log, of a range, that deliveries name, in ascending order: each delivery's own row, and those
        that ``rows_told`` finds in what else it has to say. Looks at all deliveries.
        """
        with self._reading:
            frames = list(self._frames())
        found = [np.empty(0, np.int64)]
        for frame in frames:
            rows = frame.array("row")
            found.append(np.unique(rows[(rows >= begin) & (rows < end)]))
            told = [row for place in range(len(frame.array("told"))) for row in rows_told(frame.telling(place))]
            found.append(np.array([row for row in told if begin <= row < end], np.int64))
        return np.unique(np.concatenate(found))

    def of_rows(self, rows: NDArray[np.int64]) -> QueuedRows:
        """The deliveries of publications, initial ones among them, in some rows of the log, which ascend: those that
        are kept, by queue and number.
        """
        with self._reading:
            frames, last = list(self._frames()), self._known.last.copy()
            living = np.zeros(len(last), np.bool_)
            living[[queue.number for queue in self._known]] = True
        found = [frame.of_rows(rows) for frame in frames]
        queue, number, row = (np.concatenate(some) for some in zip(*found, strict=True)) if found else (*_NOWHERE,)
        kept = np.flatnonzero(living[queue] & (number > last[queue] - self.most))
        kept = kept[np.lexsort((number[kept], queue[kept]))]
        return QueuedRows(queue[kept], number[kept], row[kept])

    def oldest_row(self) -> int | None:
        """The first row of the log that a delivery is of; None if none is."""
        with self._reading:
            frames = list(self._frames())
        firsts = [first for f in frames for first, last in f.spans.reshape(-1, 2).tolist() if first <= last]
        return min(firsts, default=None)

    def _expect_there(self, queue: Queue) -> None:
        if queue not in self._known:
            got = f"{queue.principal} of epoch {queue.epoch}"
            raise StoreError("a queue that has not ended", got, f"{queue.destination} of {self.directory}")

    def _frames(self) -> Iterator[QueueFrame]:
        if not self._files:
            raise StoreError("queues that are open", "closed ones", str(self.directory))
        return (frame for file in self._files for frame in file.frames)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return total(self._files)

    def close(self) -> None:
        self._opened.close()
        self._files = []


def _identity(directory: Path) -> tuple[int, int]:
    """What tells a manifest from another one."""
    try:
        found = os.stat(directory / MANIFEST)
    except FileNotFoundError:
        raise StoreError("a directory with queues", "none", str(directory)) from None
    return found.st_ino, found.st_mtime_ns


def unusable(error: OSError, directory: Path) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError("a directory with queues that can be used", f"{error.strerror or error}", str(directory))
