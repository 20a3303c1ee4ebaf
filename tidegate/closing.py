"""``Closing``, the base of what is opened, used and closed: engine, registry, log, history. Knows none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """Can be used in a ``with`` statement, at whose end ``close`` is called."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release files, connections and threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
