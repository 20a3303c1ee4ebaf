"""How many rehearsals a gateway computes at once: a few, and one for each principal. Used in the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.gateway.problems import RequestError

__all__ = ["RehearsalPlaces"]

_RETRY = {"Retry-After": "5"}


class RehearsalPlaces:
    """Who has a rehearsal computed now."""

    def __init__(self) -> None:
        self._taken = set[str]()

    @contextmanager
    def taken(self, principal: str, most: int) -> Iterator[None]:
        """Take a place for a principal, or refuse it: there are so many at most."""
        if principal in self._taken:
            expected, got = f"one rehearsal or explanation of a pattern at once for {principal}", "another"
            raise RequestError(429, "busy", expected, got, headers=_RETRY)
        if len(self._taken) >= most:
            raise RequestError(503, "busy", f"at most {most} rehearsals at once", "one more", headers=_RETRY)
        self._taken.add(principal)
        try:
            yield
        finally:
            self._taken.remove(principal)
