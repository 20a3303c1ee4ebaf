"""Files of a data directory that are held for a while: what they are at one moment can be read later.

A hard link keeps a file that is removed or replaced meanwhile, and a length keeps apart what is added behind. Small
files, which may be changed in place, are copied at once, unless the caller knows better; so are all where there are no
links. Knows nothing of what the files are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.broker.file_copies import copied
from tidegate.errors import StoreError
from tidegate.store.directory_lock import DirectoryLock

__all__ = ["HeldFiles"]

#: Where files are held, in the data directory: links cannot leave its file system.
_PLACE = ".backup"
#: Files of up to so many bytes are copied.
_SMALL = 1 << 16


class HeldFiles:
    """The files that are held of a data directory, by their paths in it; ``lengths`` has how many bytes of each."""

    def __init__(self, root: Path, place: Path) -> None:
        self._root, self._place = root, place
        self.lengths: dict[str, int] = {}
        self._made = set[Path]()

    @staticmethod
    @contextmanager
    def of(root: Path) -> Iterator[HeldFiles]:
        """Hold files of a data directory, as the only one that does. What an earlier backup that was killed has held is
        let go.
        """
        place = root / _PLACE
        lock = DirectoryLock(str(place), "data directory", "backup")
        found = HeldFiles(root, place / "held")
        try:
            found.let_go()
            yield found
        finally:
            shutil.rmtree(place, ignore_errors=True)
            lock.release()

    def hold(self, name: str, length: int | None = None, *, linked: bool | None = None) -> Path:
        """Hold a file, or so many of its first bytes; where it can be read. ``FileNotFoundError`` if there is none.
        ``linked`` says whether it is linked or copied, if that is not a question of its size.
        """
        source, held = self._root / name, self._place / name
        size = source.stat().st_size if length is None else length
        self._make(held.parent)
        if linked or (linked is None and size > _SMALL):
            self._link(source, held, length)
        else:
            copied(source, held, length, durable=False)
        # another file may have taken its place since it was asked for its size
        self.lengths[name] = held.stat().st_size if length is None else length
        return held

    def keep(self, name: str, data: bytes) -> None:
        """Hold what a file had in it when it was read."""
        held = self._place / name
        self._make(held.parent)
        with held.open("xb") as file:  # never through a link
            file.write(data)
        self.lengths[name] = len(data)

    def _make(self, directory: Path) -> None:
        if directory not in self._made:
            directory.mkdir(parents=True, exist_ok=True)
            self._made.add(directory)

    @staticmethod
    def _link(source: Path, held: Path, length: int | None) -> None:
        try:
            os.link(source, held)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, or one without links
            copied(source, held, length, durable=False)

    def path(self, name: str) -> Path:
        """Where a file that is held can be read."""
        return self._place / name

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.lengths.clear()
        self._made.clear()
        if self._place.exists():
            try:
                shutil.rmtree(self._place)
            except OSError as error:
                raise StoreError("a directory that can be removed", f"{error.strerror}", str(self._place)) from None
