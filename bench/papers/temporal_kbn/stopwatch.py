"""How long a method took, all its calls together, without the class knowing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from time import perf_counter
from typing import Any

__all__ = ["Stopwatch"]


class Stopwatch:
    """Seconds spent in some methods while it runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def on(self, **methods: tuple[type, str]) -> Iterator[Stopwatch]:
        """Name what is measured, each a class and a method of it."""
        before = {name: getattr(kind, method) for name, (kind, method) in methods.items()}
        for name, (kind, method) in methods.items():
            setattr(kind, method, self._timed(name, before[name]))
        try:
            yield self
        finally:
            for name, (kind, method) in methods.items():
                setattr(kind, method, before[name])

    def _timed(self, name: str, work: Any) -> Any:
        self.seconds[name] = 0.0

        @wraps(work)
        def timed(*arguments: Any, **named: Any) -> Any:
            begin = perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self.seconds[name] += perf_counter() - begin

        return timed

    def take(self) -> dict[str, float]:
        """What was spent since it was last taken."""
        taken = dict(self.seconds)
        for name in self.seconds:
            self.seconds[name] = 0.0
        return taken
