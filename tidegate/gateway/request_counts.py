"""What a gateway counts of requests over HTTP: by route, method and status, and how long answers took."""

from __future__ import annotations

from tidegate.gateway.histograms import Histogram
from tidegate.gateway.routes import Route

__all__ = ["RequestCounts"]

#: What stands for the path of a request that has no route, whose path and method are its client's words.
_NO_ROUTE = "none"


class RequestCounts:
    """Requests that were answered. Added to in the event loop of one gateway, by one thread."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], Histogram] = {}

    def add(self, route: Route | None, method: str, status: int, seconds: float) -> None:
        """Count an answer, whose first byte came after so many seconds."""
        key = (_NO_ROUTE, _NO_ROUTE, status) if route is None else (route.path, method, status)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Histogram()
        found.add(seconds)

    def items(self) -> list[tuple[str, str, int, Histogram]]:
        """Path, method and status of all that there were, with their histogram."""
        return [(*key, found) for key, found in self._found.items()]
