"""The manifest of a valid set: which files it has, and after which batch of which run it stood so.

It is written whole and durably, in place of the one before. A file that no manifest names is what a crash left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidegate import checked_json
from tidegate.errors import StoreError
from tidegate.store.log_tail import sync_directory
from tidegate.store.queue_files import create_file

__all__ = ["ENDING", "MANIFEST", "ValidEntry", "ValidManifest", "identity", "read_manifest", "write_manifest"]

MANIFEST, _FORMAT = "valid.json", 1
#: How the names of files of withdrawn rows end.
ENDING = ".withdrawn"


class ValidEntry(NamedTuple):
    """A file of publications: how often its content was merged, and its first and last row."""

    name: str
    level: int
    first: int
    last: int


class ValidManifest(NamedTuple):
    """A valid set after a batch of a run."""

    run: str
    batch: int
    row: int
    """The row of the log after the last one that was looked at."""
    files: tuple[ValidEntry, ...]
    """In the order of their rows."""
    withdrawn: str
    """The file of the withdrawn rows."""
    withdrawn_end: int
    """The byte in it up to which it is known to be durable."""
    serial: int
    """The number of the newest file."""

    def names(self) -> Iterator[str]:
        """The names of all files."""
        yield from (MANIFEST, self.withdrawn, *(file.name for file in self.files))


def identity(directory: Path) -> tuple[int, int] | None:
    """What tells the manifest of a directory from an earlier one; None if there is none."""
    try:
        found = os.stat(directory / MANIFEST)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def read_manifest(directory: Path) -> ValidManifest | None:
    """The manifest of a directory; None if it has none."""
    path = directory / MANIFEST
    try:
        facts = checked_json.unpacked(path.read_bytes())
        if facts.pop("format") != _FORMAT:
            raise StoreError(f"a valid set of format {_FORMAT}", "another format", str(path))
        files = tuple(ValidEntry(*entry) for entry in facts.pop("files"))
        return ValidManifest(files=files, **facts)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError("a manifest of a valid set", f"{type(error).__name__}: {error}", str(path)) from None


def write_manifest(directory: Path, manifest: ValidManifest) -> None:
    """Put a manifest in place of the one that is there, durably."""
    facts = {**manifest._asdict(), "files": [list(file) for file in manifest.files]}
    create_file(directory, f"{MANIFEST}.new", checked_json.packed({"format": _FORMAT, **facts}))
    os.replace(directory / f"{MANIFEST}.new", directory / MANIFEST)
    sync_directory(directory)
