"""Directories whose files are written once: their sizes and checksums are in one more file, which is written last.

``seal`` writes that file, ``files.json``. A reader opens it as a ``Seal`` and has it verify the others. Large
directories are read for that by the first process of a machine only, which leaves a mark in the cache directory; the
mark is good for files with the same inodes, sizes and times. Knows nothing of what the files hold.
"""

from __future__ import annotations

import os
import time
import zlib
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from tidegate import checked_json
from tidegate.errors import SnapshotError
from tidegate.machine_cache import cache_directory

__all__ = ["Seal", "seal"]

_FILE = "files.json"
#: The format of ``files.json``.
_FORMAT = 1
#: Directories of at most so many bytes are verified each time: that takes less than a millisecond.
SMALL = 1 << 20
#: Nanoseconds after its last change from which on a file is known by its time: later changes get another one.
_SETTLED = 100_000_000
#: Seconds after which a mark that nobody has used is removed.
_UNUSED = 30 * 86_400
#: Bytes that are read at a time: they stay in the processor's cache while the checksum is computed.
_SOME = 1 << 18


def seal(directory: Path) -> None:
    """Write down sizes and checksums of all files in a directory; of a directory in it, those of its own seal."""
    files = {}
    for path in sorted(p for p in directory.iterdir() if p.name != _FILE):
        path = path / _FILE if path.is_dir() else path
        files[str(path.relative_to(directory))] = [path.stat().st_size, _checksum(path)]
    (directory / _FILE).write_bytes(checked_json.packed({"format": _FORMAT, "files": files}))


class Seal:
    """The sizes and checksums that the files of a directory must have."""

    def __init__(self, directory: Path, files: dict[str, tuple[int, int]]) -> None:
        self._directory, self._files = directory, files
        self._mark: Path | None = None

    @staticmethod
    def of(directory: Path) -> Seal | None:
        """The seal of a directory; None if it has none."""
        try:
            facts = checked_json.unpacked((directory / _FILE).read_bytes())
            if facts["format"] != _FORMAT:
                raise SnapshotError(f"files of format {_FORMAT}", f"format {facts['format']}", str(directory / _FILE))
            return Seal(directory, {name: (size, check) for name, (size, check) in facts["files"].items()})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            got = f"{type(error).__name__}: {error}"
            raise SnapshotError("a list of the files of a snapshot", got, str(directory / _FILE)) from None

    def verify(self) -> bool:
        """Compare the files with the seal; a ``SnapshotError`` names one that differs.

        Returns whether their contents were read. If not, a process of this machine has done so before.
        """
        known = [(name, size, check, self._stat(name)) for name, (size, check) in self._files.items()]
        for name, size, _, stat in known:
            if stat.st_size != size:
                raise SnapshotError(f"a file of {size} bytes", f"{stat.st_size}", str(self._directory / name))
        newest = max((max(stat.st_mtime_ns, stat.st_ctime_ns) for *_, stat in known), default=0)
        if sum(size for _, size, _, _ in known) > SMALL and newest < time.time_ns() - _SETTLED:
            facts = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns, c) for *_, c, s in known]
            mark = cache_directory() / "verified" / blake2b(repr(facts).encode(), digest_size=16).hexdigest()
            with suppress(OSError):
                os.utime(mark)  # is there, and was used just now
                return False
            self._mark = mark
        for name, _, check, _ in known:
            path = self._directory / name
            if _checksum(path) != check:
                raise SnapshotError("a file as it was written", "another one, by its checksum", str(path))
        return True

    def remember(self) -> None:
        """Leave a mark for the processes that open the directory later, once its contents were found to be right."""
        if self._mark is None:
            return
        with suppress(OSError):  # then each process verifies for itself
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
            with os.scandir(self._mark.parent) as marks:
                for mark in marks:
                    if mark.stat().st_mtime < time.time() - _UNUSED:
                        os.unlink(mark.path)

    def _stat(self, name: str) -> os.stat_result:
        try:
            return (self._directory / name).stat()
        except OSError as error:
            raise SnapshotError("a file of a snapshot", f"{error.strerror}", str(self._directory / name)) from None


def _checksum(path: Path) -> int:
    """Read, not mapped: a file that is cut off meanwhile is an error and no signal."""
    check, room = 0, memoryview(bytearray(_SOME))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(room):
            check = zlib.crc32(room[:count], check)
    return check
