"""The id index: which publications the log has taken, so that none is taken twice.

``Identities`` maps a file that all processes share which append to the log; ``Log`` calls it while it holds the lock of
the log. Everything in the file follows from the log: it is brought up to the log's end before it is asked, and made
again where it cannot be believed: after a crash of the machine, when a process was killed while changing it, when sums
or settings differ. Knows nothing of what publications say.
"""

from __future__ import annotations

import mmap
import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.closing import Closing
from tidegate.errors import PublicationError, StoreError, shown
from tidegate.kernels import identity_ring as ring
from tidegate.model import Publication
from tidegate.records.validity import valid_until_of
from tidegate.store.identity_hashes import Hashes, IdentityHashes, identity
from tidegate.store.identity_replay import frames_from, has_entry
from tidegate.store.identity_settings import IdentitySettings
from tidegate.store.log_frames import WITHDRAWN
from tidegate.store.log_segment import DurableEntry

__all__ = ["Identities"]

_FILE = "index"
#: Changes whenever a file of an older program could be misread. Such a file is made again.
_FORMAT = 1
#: Words of the head that are ours: format, key, boot, horizon and capacity.
_OURS = [0, 10, 11, 12, 13, 14, 15]
#: States of a file: being changed, and replaced by another one of the same name.
_CHANGING, _REPLACED = 1, 2
#: Entries of a new ring, and how many times as many the next larger one has.
_LEAST, _GROWTH = 4096, 4
_Rows = NDArray[np.int64]
#: A source and an id.
Pair: TypeAlias = tuple[str, str]


@cache
def _boot() -> NDArray[np.uint64]:
    """What this run of the machine is called; where that cannot be known, a name that no other process has."""
    try:
        name = uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
    except (OSError, ValueError):
        name = uuid.uuid4()
    return np.frombuffer(name.bytes, np.uint64)


class _IndexFile:
    """A mapped file: ``words`` for kernels, and its head as numbers."""

    def __init__(self, descriptor: int) -> None:
        mapped = mmap.mmap(descriptor, 0)
        self.words: NDArray[np.uint64] = np.frombuffer(mapped, np.uint64)
        self.head = memoryview(mapped)[: 8 * ring.FIRST].cast("q")

    def is_whole(self) -> bool:
        """Whether all is as it was written, by somebody who was not stopped meanwhile."""
        head = self.head
        if head[ring.STATE] or head[ring.CHECK] != ring.check_of(self.words):
            return False
        return len(self.words) == _words(head[ring.SIZE]) and head[ring.SUM] == ring.sum_of(self.words)


def _columns(pairs: Sequence[Pair]) -> tuple[pa.Array, pa.Array]:
    """Sources and ids."""
    try:
        sources, ids = zip(*pairs, strict=True) if pairs else ((), ())
        return pa.array(sources, pa.string()), pa.array(ids, pa.string())
    except (TypeError, ValueError, pa.ArrowException):  # also what is no Unicode text
        raise PublicationError("pairs of a source and an id, both texts", shown(pairs)) from None


def _slots(size: int) -> int:
    return 1 << max(3, (size + size // 2 - 1).bit_length())


def _words(size: int) -> int:
    return ring.FIRST + ring.WORDS * size + _slots(size)


def _zeros(descriptor: int, begin: int, size: int) -> None:
    """Give a file room on the disk, where the system has no call for it."""
    for at in range(begin, begin + size, 1 << 20):
        os.pwrite(descriptor, bytes(min(1 << 20, begin + size - at)), at)


# A page of a mapped file for which the disk has no room would kill the process.
_reserve = getattr(os, "posix_fallocate", _zeros)


class Identities(Closing):
    """The id index in a directory. An identity counts for ``horizon``, or for as long as its publication is valid.

    At most ``capacity`` identities are known; beyond that the oldest are forgotten. What is not given is as it was when
    the directory was last used: at first a day and 10 million.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        horizon: timedelta | None = None,
        capacity: int | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        self._settings = IdentitySettings.used(self.directory, horizon, capacity)
        self.hashes = IdentityHashes(self._settings.key)
        self._file: _IndexFile | None = None
        self._words = self._one = np.zeros((1, 2), np.uint64)

    @property
    def horizon(self) -> timedelta:
        """For how long an identity counts at least."""
        return timedelta(microseconds=self._settings.horizon)

    @property
    def capacity(self) -> int:
        """How many identities are known at most."""
        return self._settings.capacity

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return 0 if self._file is None else self._file.words.nbytes

    @property
    def forgotten(self) -> int:
        """How many identities were forgotten although they counted, since the file was made."""
        return 0 if self._file is None else self._file.head[ring.FORGOTTEN]

    def close(self) -> None:
        """Unmap the file."""
        self._use(None)

    # --- the caller holds the lock of the log -------------------------------------------------------------------------

    def follow(self, log: Path, end: DurableEntry, now: int) -> None:
        """Know all that is in the log, which ends with this entry."""
        file = self._file
        if file is None or file.head[ring.STATE]:
            file = self._use(self._opened())
        if file is not None:
            head = file.head
            if head[ring.APPENDED] == end.appended and head[ring.ROW] == end.end_row:
                if head[ring.END_BYTE] == end.end_byte:
                    return
            elif has_entry(log, head[ring.ROW], head[ring.END_BYTE], head[ring.APPENDED]):
                self._replay(log, end, now)
                return
        self._use(self._made(min(_LEAST, self._settings.capacity)))
        self._replay(log, end, now)

    def known_one(self, publication: Publication, now: int) -> tuple[Hashes, int]:
        """The hash of one publication, to be used at once, and its row, or −1 if it is new."""
        data = identity(publication.source, publication.id, publication.phase)
        return self._one, ring.found_row(self._words, now, data, self._one)

    def known(self, hashes: Hashes, now: int) -> _Rows | None:
        """For each hash its row, −1 if it is new, or −2 − i if it is new and was given before, at place i; None where
        all are new.
        """
        rows = np.empty(len(hashes), np.int64)
        return rows if ring.found_rows(self._words, now, hashes, rows) else None

    def add(self, hashes: Hashes, valid_until: _Rows, first_row: int, now: int, end: DurableEntry) -> None:
        """Know new publications that were appended in consecutive rows; the log ends with this entry now.

        ``valid_until`` has a time for each, or is empty.
        """
        self._change()
        self._put(hashes, valid_until, first_row, now, end)
        assert self._file is not None
        self._file.head[ring.STATE] = 0

    def standing(self, pairs: Iterable[Pair], now: int) -> dict[Pair, list[int]]:
        """For each source and id the rows of what is known of any phase and was not withdrawn."""
        each = list(dict.fromkeys(pairs))
        rows = self._standing(self.hashes.of_all_phases(*_columns(each)), now).reshape(len(each), -1)
        return {pair: [row for row in some if row >= 0] for pair, some in zip(each, rows.tolist(), strict=True)}

    def withdraw(self, pairs: Sequence[Pair], now: int, end: DurableEntry) -> None:
        """Note that these were withdrawn by tombstones that were appended; the log ends with this entry now."""
        self._change()
        self._withdraw(self.hashes.of_all_phases(*_columns(pairs)), now)
        self._sealed(end)

    def _standing(self, hashes: Hashes, now: int) -> _Rows:
        rows = np.empty(len(hashes), np.int64)
        ring.withdraw_all(self._words, now, hashes, rows, False)
        return rows

    def _withdraw(self, hashes: Hashes, now: int) -> None:
        ring.withdraw_all(self._words, now, hashes, np.empty(len(hashes), np.int64), True)

    # --- the file -----------------------------------------------------------------------------------------------------

    def _use(self, file: _IndexFile | None) -> _IndexFile | None:
        self._file = file
        self._words = self._one if file is None else file.words
        return file

    def _change(self) -> None:
        assert self._file is not None
        self._file.head[ring.STATE] = _CHANGING

    def _sealed(self, end: DurableEntry) -> None:
        assert self._file is not None
        ring.seal(self._words, end.end_row, end.end_byte, end.appended)
        self._file.head[ring.STATE] = 0

    def _opened(self) -> _IndexFile | None:
        """The file that is there, if it can be believed."""
        self._settings = self._settings.again()
        self.hashes = IdentityHashes(self._settings.key)
        try:
            descriptor = os.open(self.directory / _FILE, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            if os.fstat(descriptor).st_size < 8 * _words(1):
                return None
            file = _IndexFile(descriptor)
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)
        return file if (file.words[_OURS] == self._facts()).all() and file.is_whole() else None

    def _facts(self) -> NDArray[np.uint64]:
        settings = self._settings
        return np.array([_FORMAT, *settings.key, *_boot(), settings.horizon, settings.capacity], np.uint64)

    def _made(self, size: int) -> _IndexFile:
        """An empty file with a ring of a size, in place of the one that is there."""
        beginning, path = self.directory / f"{_FILE}.new", self.directory / _FILE
        try:
            with suppress(FileNotFoundError):
                beginning.unlink()
            descriptor = os.open(beginning, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                _reserve(descriptor, 0, 8 * _words(size))
                file = _IndexFile(descriptor)
            finally:
                os.close(descriptor)
            file.head[ring.STATE] = _CHANGING
            file.words[_OURS] = self._facts()
            file.head[ring.SIZE], file.head[ring.SLOTS] = size, _slots(size)
            if self._file is not None:
                self._file.head[ring.STATE] = _REPLACED
            os.rename(beginning, path)
        except OSError as error:
            with suppress(OSError):
                beginning.unlink()
            raise StoreError("room for an id index", f"{error.strerror or error}", str(path)) from None
        return file

    def _put(self, hashes: Hashes, valid_until: _Rows, first_row: int, now: int, end: DurableEntry) -> None:
        """Know hashes by consecutive rows, in a larger file if there is no room for them."""
        done, may_forget, horizon = 0, False, self._settings.horizon
        to = end.end_row, end.end_byte, end.appended
        while True:
            done = ring.put_all(self._words, now, horizon, hashes, valid_until, first_row, to, done, may_forget)
            if done == len(hashes):
                return
            may_forget = not self._has_grown(now)

    def _has_grown(self, now: int) -> bool:
        """Whether there is a larger file now. Where the disk has no room for one, the oldest are forgotten instead."""
        file = self._file
        assert file is not None
        size = min(_GROWTH * file.head[ring.SIZE], self._settings.capacity)
        if size == file.head[ring.SIZE]:
            return False
        try:
            larger = self._made(size)
        except StoreError:
            return False
        larger.head[ring.FORGOTTEN] = file.head[ring.FORGOTTEN]
        ring.move_all(file.words, now, larger.words)
        self._use(larger)
        return True

    # --- from the log -------------------------------------------------------------------------------------------------

    def _replay(self, log: Path, end: DurableEntry, now: int) -> None:
        """Do again what the log says from where the file ends. What no longer counts is left out."""
        assert self._file is not None
        self._change()
        for header, batch in frames_from(log, self._file.head[ring.ROW]):
            if header.kind == WITHDRAWN:
                hashes = self.hashes.of_all_phases(batch.column("source"), batch.column("id"))
                listed = batch.column("rows").flatten().to_numpy()
                self._withdraw(hashes[np.isin(self._standing(hashes, header.appended), listed)], header.appended)
                continue
            valid = valid_until_of(batch)
            if header.appended + self._settings.horizon > now or (valid > now).any():
                self._put(self.hashes.of(batch), valid, header.first_row, header.appended, end)
        self._sealed(end)
