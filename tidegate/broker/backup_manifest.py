"""The manifest of a backup: what is in it, of when, and the checksum of each of its files.

It is written last. A directory without one is no backup, but what is left of one that was never finished.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import checked_json
from tidegate.broker.file_copies import CopiedFile
from tidegate.errors import StoreError
from tidegate.store.log_tail import sync_directory

__all__ = ["DATA", "BackupManifest"]

_FILE, _FORMAT = "manifest.json", 1
#: The directory beside the manifest that the files are in.
DATA = "data"


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup says of itself."""

    made_at: str
    """When it was made: the moment that everything in it is of, in UTC."""
    tidegate: str
    """The version of the Tidegate that made it."""
    runner: str
    batch: int
    """The last batch that the run had begun; −1 if none."""
    rows: tuple[int, int]
    """The first row of the log that was kept, and the row after its last."""
    version: int
    """The version of the registry; 0 if the directory has none."""
    files: Mapping[str, CopiedFile]
    """By path in the data directory."""

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    def summary(self) -> dict[str, Any]:
        """All but the list of files, for people and programs."""
        facts = {name: getattr(self, name) for name in ("made_at", "tidegate", "runner", "batch")}
        begin, end = self.rows
        return {**facts, "first_row": begin, "end_row": end, "version": self.version, **self._size()}

    def _size(self) -> dict[str, int]:
        return {"files": len(self.files), "bytes": self.nbytes}

    def write(self, backup: Path) -> None:
        """Write it, durably. All that it names is durable by now."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        files = {name: list(file) for name, file in self.files.items()}
        aside = backup / f"{_FILE}.new"
        with aside.open("xb") as file:
            file.write(checked_json.packed({"format": _FORMAT, **facts, "files": files}))
            file.flush()
            os.fsync(file.fileno())
        aside.rename(backup / _FILE)
        sync_directory(backup)

    @staticmethod
    def read(backup: Path) -> BackupManifest:
        """The manifest of a backup."""
        path = backup / _FILE
        try:
            facts = checked_json.unpacked(path.read_bytes())
            form = facts.pop("format")
            if form != _FORMAT:
                newer = ", of a newer Tidegate" if form > _FORMAT else ""
                raise StoreError(f"a backup of format {_FORMAT}", f"format {form}{newer}", str(path))
            files = {_inner(name): CopiedFile(*file) for name, file in facts.pop("files").items()}
            rows = facts.pop("rows")
            return BackupManifest(**facts, rows=(rows[0], rows[1]), files=files)
        except (FileNotFoundError, NotADirectoryError):
            got = "a directory without a manifest, which is written last"
            raise StoreError("a backup", got if backup.is_dir() else "no directory", str(backup)) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("the manifest of a backup", f"{type(error).__name__}: {error}", str(path)) from None


def _inner(name: str) -> str:
    """A path that does not lead out of the directory."""
    if name.startswith("/") or not name or ".." in name.split("/"):
        raise ValueError(f"a file {name!r}")
    return name
