"""What a principal may read, asked of publications that were matched before: those that a queue names.

A filter is compiled once and evaluated by an index, as subscriptions are, on many publications in one go. Knows neither
queues nor principals; ``DeliveredItems`` asks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import PublicationError, SettingError
from tidegate.index import ArrowBatch, Index
from tidegate.index.batch import ObjectBatch
from tidegate.index.catalogue import restored
from tidegate.language.limits import NO_LIMITS
from tidegate.model import COORDINATES, Subscription
from tidegate.predicates import Filter
from tidegate.records.record import publication
from tidegate.subscriptions import compile_subscription

__all__ = ["ReadFilter", "with_gaps"]

_ALWAYS = frozenset({"id", "source", "time", *COORDINATES})


class ReadFilter:
    """A ``read``, as it is stored. ``of`` gives one that was compiled before."""

    def __init__(self, read: str) -> None:
        found = compile_subscription(Subscription("read", "principal", restored(read)), NO_LIMITS)
        if not isinstance(found, Filter):
            raise SettingError("a filter as read", f"a pattern, {found.family}")
        self._index = Index()
        self._index.add(0, found)
        self._names = _ALWAYS | self._index.names

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(read: str) -> ReadFilter:
        """The filter of what is stored."""
        return ReadFilter(read)

    def holds(self, publications: pa.Table) -> NDArray[np.bool_]:
        """Which rows of a table of the log may be read."""
        names = [name for name in publications.column_names if name in self._names]
        found = self._index.match(ArrowBatch.trusted(publications.select(names)))
        readable: NDArray[np.bool_] = np.diff(found.start) > 0
        return readable

    def holds_for(self, contents: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
        """Which publications, given as ``row_objects`` makes them, may be read. What is none may not."""
        readable = np.zeros(len(contents), np.bool_)
        for place, content in enumerate(contents):
            with suppress(PublicationError):
                found = self._index.match(ObjectBatch([publication(with_gaps(content), "")]))
                readable[place] = len(found.owners) > 0
        return readable


def with_gaps(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same with NaN where a series has a gap, which is null in JSON."""
    attributes = {
        name: [nan if one is None else one for one in value] if isinstance(value, list) else value
        for name, value in content.get("attributes", {}).items()
    }
    return {**content, "attributes": attributes}
