"""How much is measured: the sizes of Table 1, and what a run can afford; and small ones, to see that it works."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "Plan"]


@dataclass(frozen=True)
class Plan:
    """Sizes of a run."""

    counts: tuple[int, ...]
    """N of Table 1."""
    length: int
    """L of Table 1."""
    ks: tuple[int, ...]
    k: int
    """The k of all figures."""
    shares: tuple[float, ...]
    """Sizes of the candidate list that c is chosen for, of all subscriptions."""
    publications: int
    """The paper takes N / 10, we never more than this: the R*-tree's time is most of a run's."""
    rounds: int
    races: dict[float, tuple[int, int]]
    """Publications and rounds of whole matches, by share of candidates."""
    repeated: int
    """Most subscriptions that are subscribed to more than once, to take a median: more take too long."""
    engine: int
    """Subscriptions of an engine."""
    windows: int
    """Most windows of stocks that are subscribed to."""
    checked: int = 3
    """Publications of each race that are also compared with every subscription by brute force."""


FULL = Plan(
    counts=(1_000, 2_000, 5_000, 10_000, 50_000, 100_000),
    length=2040,
    ks=(3, 4, 5, 6),
    k=5,
    shares=(0.001, 0.003, 0.01, 0.03, 0.08, 0.15, 0.25, 0.40, 0.60),
    publications=50,
    rounds=3,
    races={0.01: (200, 5), 0.08: (60, 5)},
    repeated=10_000,
    engine=20_000,
    windows=100_000,
)

QUICK = Plan(
    counts=(200, 400, 800),
    length=96,
    ks=(3, 5),
    k=5,
    shares=(0.01, 0.08, 0.25, 0.60),
    publications=10,
    rounds=2,
    races={0.01: (20, 2), 0.08: (20, 2)},
    repeated=400,
    engine=300,
    windows=1_000,
)
