"""Bytes that are rarely read: in memory while they are few, in a nameless temporary file once they are many.

``DraftedShapeTerms`` keeps exact series in an ``OverflowFile``: they are twice the size of what matching reads and are
looked at only in doubt. ``Catalogue`` keeps long expressions in another: those that contain series are larger still.
The system may drop a file from memory whenever it needs the room (if TMPDIR is not itself in memory).
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
    """Bytes that are only appended. An ``append`` that finds no room raises ``StoreError`` and changes nothing."""

    def __init__(self) -> None:
        self.length = 0
        self._memory = bytearray()
        self._file: Any = None

    def append(self, data: Any) -> int:
        """Append bytes, or an array of numbers, and return the position at which they begin."""
        view, begin = memoryview(data).cast("B"), self.length
        try:
            if self._file is None and begin + len(view) > _FEW:
                file = tempfile.TemporaryFile(prefix="tidegate-", buffering=0)  # noqa: SIM115 (it is kept)
                weakref.finalize(self, file.close)
                _write(file.fileno(), memoryview(self._memory), 0)
                self._file, self._memory = file, bytearray()  # last, so that ``read`` never sees half a file
            if self._file is None:
                self._memory += view
            else:
                _write(self._file.fileno(), view, begin)
        except OSError as error:
            raise StoreError("room for temporary files", f"{error.strerror}", tempfile.gettempdir()) from None
        self.length = begin + len(view)
        return begin

    def read(self, begin: int, size: int) -> bytes:
        """``size`` bytes from position ``begin``."""
        file, memory = self._file, self._memory
        return bytes(memory[begin : begin + size]) if file is None else os.pread(file.fileno(), size, begin)

    def doubles(self) -> NDArray[np.float64]:
        """All bytes appended so far, as an array of doubles."""
        if self._file is None:
            return np.frombuffer(bytearray(self._memory), np.float64)
        return np.asarray(np.memmap(self._file, np.float64, "r+", shape=(self.length // 8,)))


def _write(descriptor: int, data: memoryview, at: int) -> None:
    """Write at a given position: a process and its forked children would share the position of the file."""
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written
