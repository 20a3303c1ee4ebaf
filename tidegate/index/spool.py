"""Bytes that are rarely read: in memory while they are few, in a nameless temporary file once they are many.

The exact series behind the shapes of an index are twice the size of what matching reads and are looked at only in
doubt, and the expressions they came in are larger still. In a file the system may drop them from memory whenever it
needs the room.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spool"]

#: Bytes that stay in memory.
_FEW = 1 << 25


class Spool:
    """Bytes that are only appended."""

    def __init__(self) -> None:
        self.length = 0
        self._memory = bytearray()
        self._file: Any = None

    def append(self, data: Any) -> int:
        """Take some bytes, or an array of numbers; where they begin."""
        view = memoryview(data).cast("B")
        begin = self.length
        self.length += len(view)
        if self._file is None and self.length > _FEW:
            self._file = tempfile.TemporaryFile(prefix="tidegate-", buffering=1 << 20)  # noqa: SIM115 (it is kept)
            weakref.finalize(self, self._file.close)
            self._file.write(self._memory)
            self._memory = bytearray()
        if self._file is None:
            self._memory += view
        else:
            self._file.write(view)
        return begin

    def read(self, begin: int, size: int) -> bytes:
        """Some of them."""
        if self._file is None:
            return bytes(self._memory[begin : begin + size])
        self._file.flush()
        return os.pread(self._file.fileno(), size, begin)

    def doubles(self) -> NDArray[np.float64]:
        """All of them, as they are now, as numbers."""
        if self._file is None:
            return np.frombuffer(bytearray(self._memory), np.float64)
        self._file.flush()
        return np.asarray(np.memmap(self._file, np.float64, "r+", shape=(self.length // 8,)))
