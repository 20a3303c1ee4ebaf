"""What is opened once, used, and closed: an engine, a registry, a log, a history. Knows nothing of what they hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """Can be used in a ``with`` statement, at whose end ``close`` is called."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
