"""``ProcessNumbers``: what one gateway has counted, in a form that can be added up and written to a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Key", "ProcessNumbers", "key_of"]

#: The name of a metric and its labels.
Key = tuple[str, tuple[tuple[str, str], ...]]


def key_of(name: str, **labels: object) -> Key:
    return name, tuple((label, str(value)) for label, value in labels.items())


@dataclass(slots=True)
class ProcessNumbers:
    """Counts, which only grow; buckets of histograms and their sums; and levels, which are of a process that lives."""

    counts: dict[Key, float] = field(default_factory=dict)
    histograms: dict[Key, list[float]] = field(default_factory=dict)
    levels: dict[Key, float] = field(default_factory=dict)

    def add(self, other: ProcessNumbers, *, is_alive: bool = True) -> None:
        """Add what another process has counted, and its levels if it lives."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        for key, numbers in other.histograms.items():
            mine = self.histograms.get(key, [0.0] * len(numbers))
            if len(mine) == len(numbers):  # one of a release with other bounds is left out
                self.histograms[key] = [a + b for a, b in zip(mine, numbers, strict=True)]
        if is_alive:
            for key, level in other.levels.items():
                self.levels[key] = self.levels.get(key, 0) + level

    def as_json(self) -> dict[str, Any]:
        return {
            "counts": _listed(self.counts.items()),
            "histograms": _listed(self.histograms.items()),
            "levels": _listed(self.levels.items()),
        }

    @staticmethod
    def of_json(facts: dict[str, Any]) -> ProcessNumbers:
        """The numbers that were written; a ``ValueError``, ``KeyError`` or ``TypeError`` if they are none."""
        return ProcessNumbers(*({_key(one): one[2] for one in facts[name]} for name in _MEMBERS))


_MEMBERS = ("counts", "histograms", "levels")


def _listed(items: Iterable[tuple[Key, Any]]) -> list[list[Any]]:
    return [[name, labels, value] for (name, labels), value in items]


def _key(one: list[Any]) -> Key:
    name, labels, _ = one
    return str(name), tuple((str(label), str(value)) for label, value in labels)
