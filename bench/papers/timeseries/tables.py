"""What the page calls things, and tables with a column for each structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.papers.markdown import table

__all__ = ["NAMED", "by_structure", "percent"]

#: What the page calls each measured thing.
NAMED = {
    "cascade": "cascade",
    "scan": "linear scan",
    "interval": "interval trees",
    "rstar": "R*-tree",
    "rstar_inserted": "R*-tree, one by one",
    "rstar_library": "R*-tree, the library's own search",
    "faiss": "FAISS, IndexFlatIP",
    "faiss_l2": "FAISS, IndexFlatL2",
    "product": "numpy's matrix product",
    "normal": "normal form",
    "features": "features",
    "scan_at_once": "scan, at once",
    "interval_at_once": "interval trees, at once",
    "rstar_at_once": "R*-tree, at once",
}


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage, which no line is broken in."""
    return f"{100 * share:.{digits}f}\u00a0%"


def by_structure(points: list[dict[str, Any]], key: str, heading: str, value: Callable[[dict[str, Any]], Any]) -> str:
    """One row per point, one column per structure."""
    names = list(points[0][key])
    return table([heading, *(NAMED[name] for name in names)], ([value(p), *(p[key][n] for n in names)] for p in points))
