"""How large a valid set is, and may be: a few bytes that the runner writes, and who appends to the log reads.

The file is written in place and not synced: it only says when publications with a validity are to be refused, and the
runner writes it again with every batch.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from contextlib import suppress
from pathlib import Path

__all__ = ["USAGE", "ValidUsage"]

USAGE = "usage"
#: Bytes that are used, bytes that may be, and the checksum of both.
_FIELDS = struct.Struct("<qqI")


class ValidUsage:
    """What the valid set in a directory uses. With ``quota`` it is written, else read."""

    def __init__(self, directory: str | os.PathLike[str], *, quota: int | None = None) -> None:
        self._path, self._quota = Path(directory) / USAGE, quota
        self._file: int | None = None
        self._open()

    def _open(self) -> None:
        flags = os.O_RDONLY if self._quota is None else os.O_RDWR | os.O_CREAT
        with suppress(FileNotFoundError):  # no run has made a valid set yet
            self._file = os.open(self._path, flags | os.O_CLOEXEC, 0o666)
            self._closing = weakref.finalize(self, os.close, self._file)

    def is_over(self) -> bool:
        """Whether there is more than may be. Cheap enough to be asked for every append to a log."""
        used, quota = self.read() or (0, 1)
        return used >= quota

    def read(self) -> tuple[int, int] | None:
        """The bytes that are used, and those that may be; None where that is not known, or just being written."""
        if self._file is None:
            self._open()
        data = b"" if self._file is None else os.pread(self._file, _FIELDS.size, 0)
        if len(data) < _FIELDS.size:
            return None
        used, quota, check = _FIELDS.unpack(data)
        return (used, quota) if zlib.crc32(data[:-4]) == check else None

    def write(self, used: int) -> None:
        """Say how much is used."""
        assert self._file is not None, "usage that is written"
        assert self._quota is not None, "usage that is written"
        data = _FIELDS.pack(used, self._quota, 0)[:-4]
        os.pwrite(self._file, data + zlib.crc32(data).to_bytes(4, "little"), 0)

    def close(self) -> None:
        if self._file is not None:
            self._file = None
            self._closing()
