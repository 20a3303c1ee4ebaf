"""The paper's events and subscriptions: Tables 6.1 and 6.2, and what its publisher publishes.

An event has two attributes, A from 1 to 10 and B, one of ten wines, five of them red. It is published when it starts
and again when it ends. Knows nothing of who matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg
from tidegate.model import moment

__all__ = [
    "ALL",
    "BEGIN",
    "PREFIX",
    "RED",
    "WINES",
    "Events",
    "Inner",
    "Operator",
    "Part",
    "Wanted",
    "drawn",
    "table_61",
    "table_62",
]

Attributes = Mapping[str, Any]

PREFIX = "http://www.w3.org/TR/2003/PR-owl-guide-20031209/wine#"
RED = (
    "ChateauLafiteRothschildPauillac",
    "ChateauMorgonBeaujolais",
    "MariettaZinfandel",
    "PageMillWineryCabernetSauvignon",
    "WhitehallLaneCabernetFranc",
)
_WHITE = (
    "CongressSpringsSemillon",
    "MountadamChardonnay",
    "PulignyMontrachetWhiteBurgundy",
    "SelaksSauvignonBlanc",
    "StGenevieveTexasWhite",
)
#: Addresses, as the paper's B has them; the red ones first.
WINES = tuple(PREFIX + name for name in (*RED, *_WHITE))
_REDS = frozenset(WINES[: len(RED)])
#: When the first event starts (2026-01-01), and how long events last, in microseconds.
BEGIN = 1_767_225_600_000_000
_SHORTEST, _LONGEST = 3_000_000, 8_000_000


@dataclass(frozen=True)
class Inner:
    """A filter over the attributes of one publication."""

    where: str
    passes: Callable[[Attributes], bool]


@dataclass(frozen=True)
class Operator:
    """FILTER_<(limit), DURING or AFTER(limit), over an inner filter. The limit counts events or microseconds."""

    kind: str
    inner: Inner
    limit: int | None = None

    @property
    def where(self) -> str:
        """As we write it."""
        match self.kind:
            case "FILTER":
                return f"A < past(A, {self.inner.where}, {self.limit})"
            case "DURING":
                return f"T_DURING(end, past({self.inner.where}))"
            case _:
                assert self.limit is not None
                return f"T_AFTER(start, past({self.inner.where}, 'PT{self.limit / 1e6:g}S'))"

    @property
    def phase(self) -> str | None:
        """The only phase whose publications have what the operator compares; None for both."""
        return {"FILTER": None, "DURING": "END", "AFTER": "START"}[self.kind]


@dataclass(frozen=True)
class Wanted:
    """One row of a table of subscriptions: a plain condition or an operator."""

    name: str
    condition: Inner | Operator

    @property
    def where(self) -> str:
        """As we write it."""
        return self.condition.where


_LESS = Inner("A < 8", lambda of: of["A"] < 8)
_RED = Inner("related(B, 'vin:hasColor', 'vin:Red')", lambda of: of["B"] in _REDS)
_MISSING = Inner("C > 10", lambda of: of.get("C", 0) > 10)
#: Which every event passes: what fills a history.
ALL = Wanted("all", Operator("FILTER", Inner("A >= 1", lambda of: of["A"] >= 1), 1))


def table_61() -> tuple[Wanted, ...]:
    """Table 6.1. Limits of AFTER are taken to be milliseconds, as Java's clock gives them."""
    return (
        Wanted("A", _LESS),
        Wanted("B", _RED),
        Wanted("C", Operator("FILTER", _RED, 200)),
        Wanted("D", Operator("DURING", _LESS)),
        Wanted("E", Operator("AFTER", _LESS, 500_000)),
        Wanted("F", Operator("AFTER", _LESS, 125_000)),
        Wanted("G", Operator("FILTER", _MISSING, 200)),
    )


def table_62(limit: int) -> tuple[Wanted, ...]:
    """Table 6.2. It prints the same target twice; the second one is surely the filter above it."""
    return (Wanted("A", Operator("FILTER", _RED, limit)), Wanted("G", Operator("FILTER", _MISSING, limit)))


def drawn(rng: np.random.Generator, table: tuple[Wanted, ...], count: int) -> dict[str, Wanted]:
    """Subscribers, each with one row of the table; every row has one at least, so that all of it is measured."""
    picks = [*range(len(table)), *rng.integers(len(table), size=count - len(table)).tolist()]
    return {f"s{i}": table[pick] for i, pick in enumerate(picks)}


@dataclass(frozen=True)
class Part:
    """A publication: that an event starts, or that it ends."""

    id: str
    phase: str
    time: int
    attributes: dict[str, Any]

    def publication(self) -> tg.Publication:
        """As we take it."""
        time = moment(self.time)
        start, end = (time, None) if self.phase == "START" else (None, time)
        return tg.Publication(self.id, "bench", time, self.attributes, start=start, end=end, phase=self.phase)


@dataclass(frozen=True)
class Events:
    """Events in the order in which they start. Wine is a number among the ten."""

    first: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    a: NDArray[np.int64]
    wine: NDArray[np.int64]

    @classmethod
    def drawn(cls, rng: np.random.Generator, count: int, spacing: int, begin: int = BEGIN, first: int = 0) -> Events:
        """One every so many microseconds."""
        start = begin + spacing * np.arange(count, dtype=np.int64)
        end = start + rng.integers(_SHORTEST, _LONGEST, count, endpoint=True)
        return cls(first, start, end, rng.integers(1, 11, count), rng.integers(len(WINES), size=count))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def ids(self) -> list[str]:
        return [f"e{i}" for i in range(self.first, self.first + len(self))]

    def attributes(self, i: int) -> dict[str, Any]:
        """Of one event."""
        return {"A": int(self.a[i]), "B": WINES[self.wine[i]]}

    def parts(self) -> list[Part]:
        """All publications, in order of time."""
        found = []
        for i, id in enumerate(self.ids):
            attributes = self.attributes(i)
            found.append(Part(id, "START", int(self.start[i]), attributes))
            found.append(Part(id, "END", int(self.end[i]), attributes))
        return sorted(found, key=lambda part: part.time)

    def whole(self, size: int) -> Iterator[pa.Table]:
        """Tables of whole events, told of in the order they start, which is that of the rows of the other stores."""
        names = pa.array(WINES)
        ids = pa.array(self.ids)
        for at in range(0, len(self), size):
            begin, end = (pa.array(each[at : at + size], pa.timestamp("us", "UTC")) for each in (self.start, self.end))
            some = ids[at : at + size]
            yield pa.table(
                {
                    "id": some,
                    "source": pa.repeat("bench", len(some)),
                    "time": begin,
                    "start": begin,
                    "end": end,
                    "A": pa.array(self.a[at : at + size]),
                    "B": names.take(pa.array(self.wine[at : at + size])),
                }
            )
