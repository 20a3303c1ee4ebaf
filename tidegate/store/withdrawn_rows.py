"""Withdrawn rows: which rows of the log have publications that were unpublished.

The runner writes them down batch by batch with ``add``, before it tells anybody; readers in other processes ask
``among``. A file has a record for each batch with tombstones, and is written anew, under another name, when most of its
rows concern nobody any more; the manifest of the valid set says which file it is, and up to where it is known to be
durable. Knows nothing of what the publications said.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import StoreError
from tidegate.store.log_tail import sync_directory
from tidegate.store.valid_manifest import ENDING, ValidManifest, identity, read_manifest

__all__ = ["WithdrawnFile", "WithdrawnRows"]

#: Changes whenever a file of an older program could be misread. The checksum is of what follows, which begins with how
#: many rows there are.
_MAGIC = b"TGW1"
_HEAD = struct.Struct("<4sIq")
_NONE = np.empty(0, np.int64)
#: How often a reader looks for a file that is replaced meanwhile.
_TRIES = 10


def _record(rows: NDArray[np.int64]) -> bytes:
    body = len(rows).to_bytes(8, "little") + rows.astype("<i8").tobytes()
    return _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def _records(data: bytes) -> Iterator[tuple[NDArray[np.int64], int]]:
    """The rows of each whole record, and the byte after it."""
    at = 0
    while at + _HEAD.size <= len(data):
        magic, check, count = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + 8 * count
        if magic != _MAGIC or count < 0 or end > len(data) or zlib.crc32(data[at + 8 : end]) != check:
            return
        yield np.frombuffer(data, "<i8", count, at + _HEAD.size), end
        at = end


def _read(path: Path, known: tuple[NDArray[np.int64], int], least: int) -> tuple[NDArray[np.int64], int]:
    """The rows of a file and its end. Some are known up to a byte; at least so many bytes must be whole."""
    found, begin = [known[0]], known[1]
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        data = os.pread(file.fileno(), size - begin, begin) if size > begin else b""
    end = begin
    for rows, after in _records(data):
        found.append(rows)
        end = begin + after
    if end < least:
        raise StoreError("withdrawn rows as they were written", "other bytes", f"byte {end} of {path}")
    return (known[0] if len(found) == 1 else np.unique(np.concatenate(found))), end


class WithdrawnRows:
    """The withdrawn rows of a valid set, to be read. ``refresh`` takes notice of what was withdrawn since.

    A directory without a valid set has none. ``directory`` is that of the valid set. Threads may refresh one and ask it
    at once: it has all rows that it had, or all that it has now.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self._rows, self._end = _NONE, 0
        self._name = ""
        self._seen = (0, 0)
        self._refreshing = threading.Lock()
        self.refresh()

    def __len__(self) -> int:
        return len(self._rows)

    def among(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these rows are withdrawn."""
        known = self._rows  # another thread may refresh
        if not len(known):
            return np.zeros(len(rows), np.bool_)
        found: NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, rows), len(known) - 1)] == rows
        return found

    def refresh(self) -> bool:
        """Take notice of what was withdrawn since; whether there was anything."""
        for left in reversed(range(_TRIES)):
            try:
                with self._refreshing:
                    return self._refresh()
            except FileNotFoundError as error:  # written anew while we looked: the manifest names another one by now
                self._seen = (0, 0)
                if not left:
                    raise StoreError("a file of withdrawn rows", "none", str(error.filename)) from None
        raise AssertionError("a last try")

    def _refresh(self) -> bool:
        seen = identity(self.directory)
        if seen is None:
            return False
        name, least = self._name, 0
        if seen != self._seen:
            manifest = read_manifest(self.directory)
            if manifest is None:
                return False
            least = manifest.withdrawn_end
            name = manifest.withdrawn
        known = (self._rows, self._end) if name == self._name else (_NONE, 0)
        rows, end = _read(self.directory / name, known, least)
        is_new = rows is not self._rows
        self._rows, self._end, self._name, self._seen = rows, end, name, seen
        return is_new


class WithdrawnFile(WithdrawnRows):
    """The same for their only writer, the valid set, which has the manifest.

    ``name`` and ``end`` say which file it is and up to where it is durable.
    """

    def __init__(self, directory: Path, manifest: ValidManifest | None, serial: int) -> None:
        self.directory, self._rows, self._end = directory, _NONE, 0
        if manifest is None:
            self._name = self._create(serial, _NONE)
        else:
            self._name = manifest.withdrawn
            self._rows, self._end = _read(directory / self._name, (_NONE, 0), manifest.withdrawn_end)
        self._file = os.open(directory / self._name, os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(self._file).st_size != self._end:  # a record that was torn by a crash
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)

    @property
    def name(self) -> str:
        return self._name

    @property
    def end(self) -> int:
        return self._end

    def refresh(self) -> bool:
        """Nobody else writes."""
        return False

    def add(self, rows: NDArray[np.int64]) -> None:
        """Note that rows are withdrawn, durably. Those that are known already change nothing."""
        new = np.unique(rows[~self.among(rows)])
        if not len(new):
            return
        data = _record(new)
        try:
            os.pwrite(self._file, data, self._end)
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise StoreError("room to write", f"{error.strerror or error}", str(self.directory / self._name)) from None
        self._rows, self._end = np.union1d(self._rows, new), self._end + len(data)

    def replace(self, serial: int, kept: NDArray[np.int64]) -> Path:
        """Go on in a new file with the rows that still concern anybody; the path of the one before, which may go once a
        manifest names the new one.
        """
        before = self.directory / self._name
        name = self._create(serial, kept)
        os.close(self._file)
        self._file = os.open(self.directory / name, os.O_RDWR | os.O_CLOEXEC)
        self._name, self._rows = name, kept
        self._end = os.fstat(self._file).st_size
        return before

    @property
    def rows(self) -> NDArray[np.int64]:
        """All of them, in ascending order."""
        return self._rows

    def _create(self, serial: int, rows: NDArray[np.int64]) -> str:
        name = f"{serial}{ENDING}"
        with open(self.directory / name, "wb", buffering=0) as file:
            file.write(_record(rows) if len(rows) else b"")
            os.fsync(file.fileno())
        sync_directory(self.directory)
        return name

    def close(self) -> None:
        os.close(self._file)
