"""Why a pattern tells, or does not tell, of a publication: what families read from their state for ``explain``.

``Trial`` (``patterns/trial.py``) asks a family with a ``Coming`` and gets a ``Reason``. Reading changes nothing. The
state is that at the publication's turn: patterns have seen everything before it, and not yet the publication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.instant import render_instant
from tidegate.patterns.memory import Arrivals, Memory

__all__ = ["UNSEEN", "Asked", "Coming", "Reason", "id_of", "lasting", "named", "number", "when"]

#: What is said of a publication that passes no filter of a pattern.
UNSEEN = "does not see it"


class Reason(NamedTuple):
    """Why a publication raises a notification or not: a sentence, and the facts behind it as JSON values."""

    text: str
    facts: dict[str, Any]
    holds: bool
    """Whether the publication itself raises a notification; of a condition on the past, whether it holds."""
    filters: tuple[str, ...] = ()
    """A sentence for each of the pattern's filters, if there is something to say."""
    is_false: bool = False
    """Whether the negation of a condition on the past holds; where a value is missing, neither does."""


class Asked(NamedTuple):
    """A pattern, or one condition of a pattern that takes the whole expression, compiled by itself."""

    form: str
    numbers: Sequence[float]
    filters: Sequence[bytes | None]
    """Keys of its filters; None for those that it does not share with the subscription."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A publication that would come next."""

    arrival: Arrivals
    """The one publication; its filters may be none."""
    is_late: bool
    """Whether it comes too late for patterns to see it."""
    place: int
    """Where in memory the same publication is, if patterns have seen it already; else −1."""
    raised: int
    """How many notifications of the subscription it raises at its turn."""
    keep: int
    most: int
    """What ``past`` forgets, as ``Combine`` has it."""

    @property
    def time(self) -> int:
        return int(self.arrival.time[0])

    def passes(self, filter: int) -> bool:
        """Whether it passes a filter, by the number of the shard."""
        return filter in self.arrival.hits

    def is_of(self, sources: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these sources, as 128 bits each, is its own."""
        found: NDArray[np.bool_] = (sources == self.arrival.source[0]).all(axis=1)
        return found


def id_of(memory: Memory, place: int) -> str | None:
    """The id of a publication in memory; None for −1."""
    return None if place < 0 else memory.texts(np.array([place])).listed()[0]


def named(memory: Memory, place: int) -> str:
    """A publication in memory as a sentence names it: id and time."""
    return f"{id_of(memory, place)} of {when(int(memory.time.data[place]))}"


def when(moment: float) -> str:
    """A moment as sentences and facts have it; one beyond all years as a number of microseconds."""
    try:
        return render_instant(int(moment))
    except ValueError:
        return f"{moment:g} µs"


def lasting(micros: int) -> str:
    """A length of time, in the two largest of its units."""
    seconds, rest = divmod(abs(micros), 1_000_000)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if name == "s" and rest and len(parts) < 2:
            parts.append(f"{count + rest / 1e6:.6g} s")
        elif count and len(parts) < 2:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0 s"


def number(x: float) -> str:
    """A score or a distance as a sentence has it."""
    return f"{x:.6g}"
