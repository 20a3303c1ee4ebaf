"""The valid set: the publications that are valid at a cut of the log, with all they say, longer than the log has them.

The runner has the only ``ValidSet``. It follows the log from cut to cut in memory (``advance``), and writes down how
far it has come every few seconds, never before the batch is committed (``settle``): after a kill it reads the log again
from there, which ``Source.done`` therefore keeps. What is withdrawn is durable at once, in ``withdrawn_rows``. Files
are written once; ``tidy`` merges them, without what is no longer valid. Knows nothing of subscriptions or queues.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.closing import Closing
from tidegate.errors import StoreError
from tidegate.store.directory_lock import DirectoryLock
from tidegate.store.log import Log
from tidegate.store.log_frames import WITHDRAWN, Frame, read_with
from tidegate.store.log_tail import sync_directory
from tidegate.store.valid_files import ValidFile, ValidGroup, ValidRows, joined, write_file
from tidegate.store.valid_manifest import ValidEntry, ValidManifest, read_manifest, write_manifest
from tidegate.store.valid_usage import USAGE, ValidUsage
from tidegate.store.withdrawn_rows import WithdrawnFile

__all__ = ["QUOTA", "ValidSet", "Withdrawal"]

#: Bytes that a valid set may have if nothing else is said.
QUOTA = 8 << 30
#: Seconds between two times that it is written down how far the set has come.
_EVERY = 10.0
#: Publications, and bytes of them, that are kept in memory before they become a file.
_ROWS, _BYTES = 131_072, 32 << 20
#: So many groups in memory are put together before they are looked at.
_CHUNKS = 16
#: So many files of a level become one of the next, up to so many bytes.
_FILES, _LARGEST = 8, 128 << 20
#: Withdrawn rows are looked through for those that concern nobody any more once there are twice as many, and so many.
_SOME = 1024
_FIELD = "valid_until"
_LOG = logging.getLogger("tidegate")


class Withdrawal(NamedTuple):
    """A tombstone: its row in the log, and the rows that were withdrawn with it."""

    row: int
    rows: NDArray[np.int64]


class ValidSet(Closing):
    """The valid set in a directory, as its only writer has it. The directory is made if need be.

    ``quota`` is how many bytes it may have, which who appends to the log is told by ``ValidUsage``.
    """

    def __init__(self, directory: str | os.PathLike[str], run: str, *, quota: int = QUOTA) -> None:
        self.directory, self._run = Path(directory).absolute(), run
        self.changing = threading.RLock()
        """Held by who changes the set: from ``advance`` to ``settle``, and while files are put in place of others."""
        lock = DirectoryLock(str(self.directory), "valid set")
        try:
            self._open(read_manifest(self.directory), quota)
        except BaseException:
            lock.release()
            raise
        self._lock = lock

    def _open(self, manifest: ValidManifest | None, quota: int) -> None:
        if manifest is not None and manifest.run != self._run:
            wanted = f"the run that this valid set belongs to, {manifest.run}"
            raise StoreError(wanted, f"{self._run}, of another checkpoint", str(self.directory))
        known = {"lock", USAGE, *(manifest.names() if manifest else ())}
        for name in os.listdir(self.directory):
            if name not in known:  # left by a crash
                os.unlink(self.directory / name)
        self._serial = manifest.serial if manifest else 1
        self.withdrawn = WithdrawnFile(self.directory, manifest, self._serial)
        entries = manifest.files if manifest else ()
        self._files = [ValidFile(self.directory / entry.name, entry.level) for entry in entries]
        self.batch, self.row = (manifest.batch, manifest.row) if manifest else (-1, 0)
        self._pending: list[ValidGroup] = []
        self._pending_rows = self._pending_bytes = 0
        self._time = self._older = 0
        self._is_ahead = False
        self._leaving: list[Path] = []
        self._written = manifest
        self._usage = ValidUsage(self.directory, quota=quota)
        if manifest is None:
            self._write()
        self._written_at = monotonic()

    # --- following the log ------------------------------------------------------------------------------------------

    def advance(self, log: Log, row: int, time: int) -> list[Withdrawal]:
        """Take what the log has up to a cut at a row and a time: the set is then what is valid there. Returns the
        tombstones that were read, in order; after a kill some may be of batches before.

        The caller holds ``changing`` from here to ``settle``.
        """
        if row < self.row:
            wanted = f"a batch that ends at row {self.row} or later, where the valid set stands"
            raise StoreError(wanted, f"one at row {row}", str(self.directory))
        self._is_ahead, self._time = True, time
        begin, found = max(self.row, log.begin), list[Withdrawal]()
        if begin > self.row and self.batch >= 0:
            _LOG.warning("the log has dropped rows %d to %d, which the valid set has not seen", self.row, begin - 1)
        for slice in log.slices(begin, row, 1) if begin < row else ():
            for frame in read_with(slice, _FIELD):
                if frame.kind == WITHDRAWN:
                    found += _withdrawals(frame)
                else:
                    self._take(frame, time)
        self.row = row
        if found:
            self.withdrawn.add(np.concatenate([one.rows for one in found]))
        return found

    def _take(self, frame: Frame, time: int) -> None:
        """Keep the publications of a frame that are valid at a time."""
        until = _micros(frame.batch.column(_FIELD))
        places = np.flatnonzero(until > time)
        if not len(places):
            return
        content = pa.Table.from_batches([frame.batch])
        if len(places) < len(until):
            content = content.take(pa.array(places))
        rows = frame.first_row + places
        group = ValidGroup(content, ValidRows(rows, np.full(len(rows), frame.version), until[places]))
        self._pending.append(group)
        self._pending_rows, self._pending_bytes = self._pending_rows + len(rows), self._pending_bytes + group.nbytes
        if self._pending_rows > _ROWS or self._pending_bytes > _BYTES:
            self._flush()

    def _flush(self) -> None:
        """Make a file of what is in memory. No manifest names it yet."""
        if self._pending:
            self._files.append(self._created(joined(self._pending), 0))
            self._older += self._files[-1].nbytes
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _created(self, groups: Sequence[ValidGroup], level: int) -> ValidFile:
        with self.changing:
            self._serial += 1
            path = self.directory / f"{self._serial}.valid"
        try:
            write_file(path, groups)
        except OSError as error:
            raise StoreError("room to write", f"{error.strerror or error}", str(path)) from None
        return ValidFile(path, level)

    def settle(self, batch: int) -> None:
        """Note that a batch is committed: what was advanced to may be written down."""
        self.batch, self._is_ahead = batch, False
        self._usage.write(self.nbytes)
        if monotonic() > self._written_at + _EVERY:
            self.write()

    # --- what is valid ----------------------------------------------------------------------------------------------

    def groups(self) -> Iterator[ValidGroup]:
        """All publications, those included that are no longer valid. The caller holds ``changing``."""
        for file in self._files:
            yield from file.groups
        if len(self._pending) > _CHUNKS:
            self._pending = [ValidGroup(group.content.combine_chunks(), group.rows) for group in joined(self._pending)]
        yield from self._pending

    def is_valid(self, rows: ValidRows) -> NDArray[np.bool_]:
        """Which of these publications are valid at the last cut, and not withdrawn."""
        valid: NDArray[np.bool_] = rows.until > self._time
        return valid & ~self.withdrawn.among(rows.row)

    @property
    def nbytes(self) -> int:
        """Bytes of what is valid, about."""
        return self._older + self._pending_bytes

    # --- writing down -----------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write down how far the set has come, unless the last batch is not committed."""
        with self.changing:
            if self._is_ahead or (self._written is not None and self._written.row == self.row):
                return
            self._flush()
            self._older = sum(self._living(file) * file.nbytes // file.count for file in self._files)
            self._write()
            self._written_at = monotonic()

    def _write(self) -> None:
        files = tuple(ValidEntry(file.name, file.level, file.first, file.last) for file in self._files)
        withdrawn = self.withdrawn
        manifest = ValidManifest(self._run, self.batch, self.row, files, withdrawn.name, withdrawn.end, self._serial)
        try:
            sync_directory(self.directory)
            write_manifest(self.directory, manifest)
        except OSError as error:
            raise StoreError("room to write", f"{error.strerror or error}", str(self.directory)) from None
        self._written = manifest
        for path in self._leaving:
            path.unlink(missing_ok=True)
        self._leaving.clear()

    def tidy(self, oldest: Callable[[], int | None]) -> None:
        """Write down how far the set has come, merge files, and drop what is no longer valid. ``oldest`` finds the
        first row that queues name, if any; rows before it that are no longer valid need not be known as withdrawn.

        Called by the maintenance thread; ``advance`` waits only while files are put in place of others.
        """
        self.write()
        while (some := self._mergeable()) is not None:
            self._replace(some)
        if len(self.withdrawn) > _SOME:
            self._forget(oldest())

    def _living(self, file: ValidFile) -> int:
        return sum(int(np.count_nonzero(self.is_valid(group.rows))) for group in file.groups)

    def _mergeable(self) -> list[ValidFile] | None:
        """Files that follow each other and should be one, or one of which most is no longer valid."""
        with self.changing:
            files = list(self._files)
        for file in files:
            if 2 * self._living(file) < file.count:
                return [file]
        for first in range(len(files) - _FILES + 1):
            some = files[first : first + _FILES]
            if len({file.level for file in some}) == 1 and sum(file.nbytes for file in some) <= _LARGEST:
                return some
        return None

    def _replace(self, some: Sequence[ValidFile]) -> None:
        """Put one file, or none, with what is still valid in the place of several."""
        groups = joined(group.where(self.is_valid(group.rows)) for file in some for group in file.groups)
        level = some[0].level + (len(some) > 1)
        new = [self._created(groups, level)] if groups else []
        with self.changing:
            at = self._files.index(some[0])
            self._files[at : at + len(some)] = new
            self._leaving += [file.path for file in some]
            if not self._is_ahead:
                self._flush()
                self._write()

    def _forget(self, named: int | None) -> None:
        """Forget the withdrawn rows that neither queues nor files have."""
        with self.changing:
            oldest = min(
                [
                    self.row if named is None else named,
                    self.row,
                    *(file.first for file in self._files),
                    *self._first_pending(),
                ]
            )
            kept = self.withdrawn.rows[self.withdrawn.rows >= oldest]
            if not self._is_ahead and 2 * len(kept) <= len(self.withdrawn):
                self._serial += 1
                self._leaving.append(self.withdrawn.replace(self._serial, kept))
                self._flush()
                self._write()

    def _first_pending(self) -> list[int]:
        return [int(group.rows.row[0]) for group in self._pending]

    def close(self) -> None:
        """Write down how far the set has come, and let another run have it."""
        try:
            with suppress(StoreError):  # a full disk: the log has it
                self.write()
        finally:
            self.withdrawn.close()
            self._usage.close()
            self._files.clear()
            self._lock.release()


def _withdrawals(frame: Frame) -> Iterator[Withdrawal]:
    rows = frame.batch.column("rows")
    starts, values = np.asarray(rows.offsets), np.asarray(rows.values)
    for i in range(frame.batch.num_rows):
        yield Withdrawal(frame.first_row + i, values[starts[i] : starts[i + 1]].astype(np.int64))


def _micros(times: pa.Array) -> NDArray[np.int64]:
    """Times in microseconds since 1970; 0 for none."""
    micros = times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())
    found: NDArray[np.int64] = np.asarray(micros.fill_null(0))
    return found
