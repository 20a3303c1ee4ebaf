"""Whether the disk of a broker has room: what comes in is refused before anything breaks, and what goes out is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from tidegate.gateway.problems import RequestError

__all__ = ["FreeRoom"]

#: The share of the disk that stays free, and for how many seconds it is believed to be as it was.
_LEAST, _SECONDS = 0.05, 1.0


def _free_share(path: Path) -> float:
    """The share of a disk that may still be written."""
    found = os.statvfs(path)
    return found.f_bavail / found.f_blocks if found.f_blocks else 1.0


class FreeRoom:
    """Looks at the disk of a directory, at most once a second."""

    def __init__(
        self, path: Path, share: Callable[[Path], float] = _free_share, clock: Callable[[], float] = monotonic
    ) -> None:
        self._path, self._share, self._clock = path, share, clock
        self._free, self._until = 1.0, float("-inf")

    def is_full(self) -> bool:
        """Whether less is free than has to be."""
        now = self._clock()
        if now >= self._until:
            self._free, self._until = self._share(self._path), now + _SECONDS
        return self._free < _LEAST

    def expect(self) -> None:
        """Refuse a request that would be written."""
        if self.is_full():
            raise RequestError(507, "full", f"at least {_LEAST:.0%} of the disk free", f"{self._free:.1%}")
