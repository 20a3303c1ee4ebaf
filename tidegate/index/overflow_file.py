"""Bytes that are rarely read: in memory while they are few, in a nameless temporary file once they are many.

The exact series behind the shapes of an index are twice the size of what matching reads and are looked at only in
doubt, and the expressions they came in are larger still. In a file the system may drop them from memory whenever it
needs the room (if TMPDIR is not itself in memory).
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import StoreError

__all__ = ["OverflowFile"]

#: Bytes that stay in memory.
_FEW = 1 << 25


class OverflowFile:
    """Bytes that are only appended. Nothing has changed if there was no room for more."""

    def __init__(self) -> None:
        self.length = 0
        self._memory = bytearray()
        self._file: Any = None

    def append(self, data: Any) -> int:
        """Take some bytes, or an array of numbers; where they begin."""
        view, begin = memoryview(data).cast("B"), self.length
        try:
            if self._file is None and begin + len(view) > _FEW:
                file = tempfile.TemporaryFile(prefix="tidegate-", buffering=0)  # noqa: SIM115 (it is kept)
                weakref.finalize(self, file.close)
                _write(file.fileno(), memoryview(self._memory), 0)
                self._file, self._memory = file, bytearray()  # whole before anybody sees it
            if self._file is None:
                self._memory += view
            else:
                _write(self._file.fileno(), view, begin)
        except OSError as error:
            raise StoreError("room for temporary files", f"{error.strerror}", tempfile.gettempdir()) from None
        self.length = begin + len(view)
        return begin

    def read(self, begin: int, size: int) -> bytes:
        """Some of them."""
        file, memory = self._file, self._memory
        return bytes(memory[begin : begin + size]) if file is None else os.pread(file.fileno(), size, begin)

    def doubles(self) -> NDArray[np.float64]:
        """All of them, as they are now, as numbers."""
        if self._file is None:
            return np.frombuffer(bytearray(self._memory), np.float64)
        return np.asarray(np.memmap(self._file, np.float64, "r+", shape=(self.length // 8,)))


def _write(descriptor: int, data: memoryview, at: int) -> None:
    """At a place of its own, so that a process and its children have no position in common."""
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written
