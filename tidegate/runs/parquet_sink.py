"""The Parquet sink: a directory per batch that appears whole, once, and that any reader of Parquet understands.

Tasks write files under names of their own to a hidden directory. ``Parquet.commit``, in the driver, gathers those that
receipts name and publishes them with one rename to ``batch=000000000042``; a batch that is run again finds its
directory there and changes nothing. Readers skip hidden names, so they never see what a crash left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from tidegate.errors import SettingError, StoreError, shown
from tidegate.runs.sinks import DriverSink, Notifications, Receipt, Receipts
from tidegate.store.storage import storage_at, synced

__all__ = ["Parquet"]

_PARTS = ".parts"
#: The file with the name of the query whose batches these are.
_OWNER = "_query"


@lru_cache(maxsize=16)
def _opened(location: str) -> tuple[fs.FileSystem, str]:
    try:
        if "://" in location:
            filesystem, root = fs.FileSystem.from_uri(location)
        else:
            filesystem, root = fs.LocalFileSystem(), os.path.abspath(location)
        filesystem.create_dir(f"{root}/{_PARTS}", recursive=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError("a directory that can be written", f"{error}", shown(location)) from None
    return filesystem, root.rstrip("/")


def _sync(location: str, name: str) -> None:
    """On this machine, wait until the file is on the disk; remote storage has done so when the write returns."""
    files, root = _opened(location)
    if isinstance(files, fs.LocalFileSystem):
        synced(Path(root) / _PARTS / name)


class Parquet(DriverSink):
    """Notifications in Parquet files, ``grouped`` by publication (the cheap form) or flat."""

    def __init__(self, location: str | os.PathLike[str], *, grouped: bool = True) -> None:
        self._location = os.fspath(location)
        self.half: _Parts = _Parts(self._location, "grouped" if grouped else "flat")

    def begin(self, query: str) -> None:
        """Remove what tasks of a run that was killed have left.

        A directory of another query is refused, because its batches have the same numbers.
        """
        files, root = _opened(self._location)
        owner = storage_at(self._location)
        if (other := owner.read(_OWNER)) is None:
            owner.write(_OWNER, query.encode())
        elif other != query.encode():
            raise SettingError(
                "a directory for the notifications of one checkpoint alone",
                "one in which another has written",
                self._location,
            )
        files.delete_dir_contents(f"{root}/{_PARTS}")

    def commit(self, batch: int, receipts: Receipts) -> None:
        files, root = _opened(self._location)
        names = [name.decode() for name in receipts.of(self.half.kind)]
        if not names:
            return
        final = f"{root}/batch={batch:012d}"
        if files.get_file_info(final).type != fs.FileType.NotFound:
            for name in names:
                files.delete_file(f"{root}/{_PARTS}/{name}")
            return
        aside = f"{root}/{_PARTS}/{batch}-{uuid4().hex}"
        files.create_dir(aside)
        for number, name in enumerate(sorted(names)):
            files.move(f"{root}/{_PARTS}/{name}", f"{aside}/part-{number:05d}.parquet")
        files.move(aside, final)

    def close(self) -> None:
        return None


@dataclass(frozen=True)
class _Parts:
    """The worker half."""

    location: str
    form: str

    @property
    def kind(self) -> str:
        return f"parquet {self.form} {self.location}"

    def writer(self, batch: int, part: int) -> _Writer:
        return _Writer(self)


class _Writer:
    def __init__(self, half: _Parts) -> None:
        self._half = half
        self._name = f"{uuid4().hex}.parquet"
        self._file: pq.ParquetWriter | None = None

    def take(self, found: Notifications) -> None:
        if not found.notifications:
            return
        table = getattr(found, self._half.form)
        if self._file is None:
            files, root = _opened(self._half.location)
            path = f"{root}/{_PARTS}/{self._name}"
            self._file = pq.ParquetWriter(path, table.schema, filesystem=files, compression="zstd")
        self._file.write_table(table)

    def close(self) -> Iterator[Receipt]:
        if self._file is not None:
            self._file.close()
            _sync(self._half.location, self._name)
            yield self._half.kind, self._name.encode()
