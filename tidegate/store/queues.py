"""Queues: what each principal is told, numbered without gaps, kept until it is too old or there is too much of it.

``Queues`` is their only writer, in the runner: one commit per batch under the number of the batch. A commit is one
frame behind a journal (``store/queue_frames.py``). A thread of the writer merges frames into larger ones, sorted by
queue. What is delivered is a reference to the log. Knows nothing of subscriptions or sessions.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import SettingError, StoreError
from tidegate.store.log_tail import sync_directory
from tidegate.store.queue_batches import NOTHING, Told, frame_of_batch, merged_frame
from tidegate.store.queue_directory import Queue, QueueDirectory
from tidegate.store.queue_files import (
    COMMITTED,
    JOURNAL,
    MANIFEST,
    Committed,
    QueueFile,
    QueueManifest,
    create_file,
    read_manifest,
    total,
    write_manifest,
)
from tidegate.store.queue_frames import QueueFrame
from tidegate.store.queue_reader import QueueReader, unusable
from tidegate.store.wakeups import PREFIX, Waker

__all__ = ["NOTHING", "Queues", "Told"]

#: A journal is merged when it has so many frames, or so many bytes; so many files of a level become one of the next.
_FRAMES, _BYTES, _FILES = 64, 32 << 20, 8
#: Files are merged up to so many bytes.
_LARGEST = 256 << 20
_ENDED = np.iinfo(np.int64).max
_LOG = logging.getLogger("tidegate")
_sync = getattr(os, "fdatasync", os.fsync)


class Queues(QueueReader):
    """The queues in a directory, as their only writer has them. The directory is made if need be."""

    def __init__(self, directory: str | os.PathLike[str], *, most: int = 100_000) -> None:
        self._changes: list[list[Any]] = []
        self._merging: Future[None] | None = None
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="tidegate-queues")
        self._is_closed = False
        super().__init__(directory, most=most)
        self._waker = Waker(self.directory)

    def _open(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._opened.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            got = "queues of a runner that is at work"
            raise StoreError("queues that nobody else writes to", got, str(self.directory)) from None
        self._committed = Committed(self.directory, writes=True)
        self._opened.callback(self._committed.close)
        self._begin()

    def _begin(self) -> None:
        manifest = read_manifest(self.directory)
        if manifest is None:
            manifest = QueueManifest((("1.journal", JOURNAL), ("2.journal", JOURNAL)), None, 2)
            for name, _ in manifest.files:
                create_file(self.directory, name)
            self._committed.write(1, 0)
            write_manifest(self.directory, manifest)
        known = {"lock", MANIFEST, COMMITTED, manifest.base, *(name for name, _ in manifest.files)}
        for name in os.listdir(self.directory):
            if name not in known and not name.startswith(PREFIX):  # left by a crash
                os.unlink(self.directory / name)
        self._files = [QueueFile(self.directory, name, level) for name, level in manifest.files]
        self._recover()
        self._adopt()

    def _recover(self) -> None:
        """Find the journal to go on with, and where: only the last one with frames may end with a torn one, and only
        behind what is known to be committed.
        """
        journals = [file for file in self._files if file.level == JOURNAL]
        filled = [file for file in journals if file.path.stat().st_size]
        journal, end = (0, 0) if self._committed.is_new else self._committed.read()
        for file in journals:
            file.refresh()
            if file.serial == journal:
                file.expect(end)
            if file.serial < journal or file not in filled[-1:]:
                file.expect_whole()
        begun = [file for file in journals if file in filled or file.serial == journal]
        current = begun[-1] if begun else journals[0]
        self._journal = os.open(current.path, os.O_RDWR | os.O_CLOEXEC)
        self._opened.callback(lambda: os.close(self._journal))  # by then it may be another one
        if os.fstat(self._journal).st_size != current.end:
            os.ftruncate(self._journal, current.end)
            os.fsync(self._journal)
        self._committed.write(current.serial, current.end)
        self._current_name = current.name

    @property
    def _current(self) -> QueueFile:
        """The journal that grows."""
        return next(file for file in self._files if file.name == self._current_name)

    # --- writing ----------------------------------------------------------------------------------------------------

    def begin(self, run: str) -> None:
        """Say which run writes: numbers of batches mean nothing to another one, which is refused.

        A run is what one checkpoint belongs to. Its name is durable with the first commit.
        """
        with self._reading:
            if self._known.run is None:
                self._known.run = run
                self._changes.append(["run", run])
            elif self._known.run != run:
                wanted = f"the run that these queues belong to, {self._known.run}"
                raise StoreError(wanted, f"{run}, of another checkpoint", str(self.directory))

    def make(self, principal: str, destination: str = "stream", since: int = 0) -> Queue:
        """The queue of a principal to a destination; a new one is durable with the next commit.

        ``since`` is the version of the registry that brings it.
        """
        with self._reading:
            found = self._known.find(principal, destination)
            if found is None:
                found = Queue(self._known.next, principal, destination, secrets.token_hex(8), since)
                self._known.make(found)
                self._changes.append(["made", *found])
            return found

    def end(self, queue: Queue) -> None:
        """End a queue and what it holds, durably with the next commit. Another one for the same has another epoch."""
        with self._reading:
            self._expect_there(queue)
            self._known.end(queue.number)
            self._changes.append(["ended", queue.number])

    def cut(self, row: int, version: int) -> None:
        """Note, durably with the next commit, up to which row of the log tombstones are told, and up to which version
        of the registry queues were made and ended and initial matches told.
        """
        with self._reading:
            self._changes.append(["cut", row, version])

    def commit(self, batch: int, time: int, told: Told, meanings: Callable[[list[int]], Sequence[bytes]]) -> bool:
        """Make what a batch tells durable, once: a batch that was committed before is passed over (False).

        ``time`` is when it was matched, in µs since 1970; ``meanings`` is asked what numbers of subscriptions mean. A
        batch that tells nothing and changes nothing is not written.
        """
        if batch <= self.last_batch:
            return False
        if not len(told.queue) and not self._changes:
            return True
        changes = b"".join([orjson.dumps(change) + b"\n" for change in self._changes])
        data = frame_of_batch(batch, time, told, self._known.last, meanings, changes)
        with self._reading:
            file = self._current
        try:
            _write(self._journal, data, file.end)
            _sync(self._journal)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._journal, file.end)
            raise StoreError("room to write", f"{error.strerror or error}", str(file.path)) from None
        frame = QueueFrame(data, f"byte {file.end} of {file.path}", is_ours=True)
        with self._reading:
            file.take(frame)
            self._changes.clear()
            self._known.take(frame)
            try:
                self._committed.write(file.serial, file.end)
            except OSError as error:
                raise unusable(error, self.directory) from None
        self._waker.wake()
        if len(file.frames) >= _FRAMES or file.end >= _BYTES:
            self._merge_aside()
        return True

    def renew_epochs(self) -> list[Queue]:
        """Give all queues other epochs, durably, and return them as they were: to whoever has read them, the numbers
        that they have from now on mean something else. Nobody reads them meanwhile; open them again afterwards.
        """
        with self._reading:
            known, base = list(self._known), self._queues_after([])
        fresh = {queue.number: secrets.token_hex(8) for queue in known}
        for queue in list(base):
            base.make(queue._replace(epoch=fresh.get(queue.number, queue.epoch)))
        base.renewed = fresh
        serial, before = self._manifest.serial + 1, self._manifest.base
        try:
            create_file(self.directory, f"{serial}.base", base.to_bytes())
            self._install(self._files, f"{serial}.base", serial)
            if before is not None:
                os.unlink(self.directory / before)
        except OSError as error:
            raise unusable(error, self.directory) from None
        return known

    # --- merging ----------------------------------------------------------------------------------------------------

    def _merge_aside(self) -> None:
        """Go on in the next journal, and have the thread of the queues merge what is before it.

        Where merging fails, because the disk is full, say, this journal goes on, and it is tried again later.
        """
        if self._merging is not None:
            if not self._merging.done():
                return
            if (error := self._merging.exception()) is not None:
                _LOG.error("queues could not be merged: %s", error)
            self._merging = None
        with self._reading:
            following = self._files[-1]
            if following.name != self._current_name:
                os.close(self._journal)
                self._journal = os.open(following.path, os.O_RDWR | os.O_CLOEXEC)
                self._current_name = following.name
                self._committed.write(following.serial, 0)
        self._merging = self._aside.submit(self._merge_all)

    def _merge_all(self) -> None:
        """Merge the journals before the current one, then files of one level, until nothing is worth merging."""
        try:
            current = self._files.index(self._current)
            first = next(i for i, file in enumerate(self._files) if file.level == JOURNAL)
            if first < current:
                self._replace(first, current)
            while (similar := self._similar()) is not None:
                self._replace(*similar)
        except OSError as error:
            raise unusable(error, self.directory) from None

    def _similar(self) -> tuple[int, int] | None:
        """The first run of files of one level that should be one."""
        merged = [file for file in self._files if file.level > JOURNAL]
        for first in range(len(merged) - _FILES + 1):
            some = merged[first : first + _FILES]
            if len({file.level for file in some}) == 1 and total(some) <= _LARGEST:
                return first, first + _FILES
        return None

    def _replace(self, first: int, end: int) -> None:
        """Put one merged file in the place of several; behind all is a journal that is not in use."""
        some = self._files[first:end]
        serial = self._manifest.serial + 1
        name = f"{serial}.queues"
        create_file(self.directory, name, merged_frame([f for file in some for f in file.frames], self._oldest_kept()))
        merged = QueueFile(self.directory, name, 1 + max(file.level for file in some))
        merged.refresh()
        new = [*self._files[:first], merged, *self._files[end:]]
        if new[-1].name == self._current_name:
            serial += 1
            create_file(self.directory, f"{serial}.journal")
            new.append(QueueFile(self.directory, f"{serial}.journal", JOURNAL))
        self._install(new, self._manifest.base, serial)
        for file in some:
            os.unlink(file.path)

    def _install(self, files: list[QueueFile], base: str | None, serial: int) -> None:
        manifest = QueueManifest(tuple((file.name, file.level) for file in files), base, serial)
        sync_directory(self.directory)
        write_manifest(self.directory, manifest)
        with self._reading:
            self._files, self._manifest = files, manifest

    def _oldest_kept(self) -> NDArray[np.int64]:
        """By queue the number of the first delivery that is kept."""
        with self._reading:
            last = self._known.last
            oldest = np.full(len(last), _ENDED)
            ending = [number for what, number, *_ in self._changes if what == "ended"]  # not committed: they may stay
            living = [*(queue.number for queue in self._known), *ending]
            oldest[living] = np.maximum(last[living] - self.most + 1, 0)
        return oldest

    def wait(self) -> None:
        """Wait until nothing is being merged; if that failed, its error is raised here."""
        if self._merging is not None:
            self._merging.result()

    def retain(self, *, before: int | None = None, size: int | None = None) -> int:
        """Drop the oldest files and return how many: those matched before a time (µs since 1970), or beyond a size.

        A file goes as a whole, once everything in it may go; what is being written stays. ``last`` stays what it was.
        """
        if before is None and size is None:
            raise SettingError("before or size", "neither")
        try:
            return self._aside.submit(self._drop_oldest, before, size).result()  # never beside a merge
        except OSError as error:
            raise unusable(error, self.directory) from None

    def _drop_oldest(self, before: int | None, size: int | None) -> int:
        merged = [file for file in self._files if file.level > JOURNAL]
        count, left = 0, total(self._files)
        for file in merged:
            is_old = before is not None and file.frames[-1].newest < before
            if not is_old and not (size is not None and left > size):
                break
            count, left = count + 1, left - file.end
        if count:
            serial = self._manifest.serial + 1
            dropped, base = self._files[:count], self._manifest.base
            create_file(self.directory, f"{serial}.base", self._queues_after(dropped).to_bytes())
            self._install(self._files[count:], f"{serial}.base", serial)
            for name in (*(file.name for file in dropped), *filter(None, [base])):
                os.unlink(self.directory / name)
        return count

    def _queues_after(self, files: Sequence[QueueFile]) -> QueueDirectory:
        """The queues that there were behind the oldest files."""
        base = self._manifest.base
        found = QueueDirectory() if base is None else QueueDirectory.from_file(self.directory / base)
        for file in files:
            for frame in file.frames:
                found.take(frame)
        return found

    def close(self) -> None:
        """Wait for what is being merged, then close all files."""
        if self._is_closed:
            return
        self._is_closed = True
        self._aside.shutdown()
        self._waker.close()
        super().close()


def _write(file: int, data: bytearray, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
