"""How much is measured: the sizes of the paper's two tests, and what a run can afford; small ones to see it work."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "Plan"]


@dataclass(frozen=True)
class Plan:
    """Sizes of a run."""

    subscribers: int
    events: int
    """Of each run; each is published twice, when it starts and when it ends."""
    runs: int
    """Of Test 1, for ours and for the scan in pages. The paper has 50."""
    row_by_row: int
    """The slow scan is measured for one event of so many in Test 1."""
    stored: tuple[int, ...]
    """Events that are there before Test 2."""
    limits: tuple[int, ...]
    """α of Table 6.2; with more than the fewest stored events only the first and the last."""
    stretch: int
    """Publications of Test 2 that one rival takes before it is the other's turn."""
    paged: int
    """How many of a stretch the scan in pages is measured for; the others it only stores."""
    rowed: int
    """The same for the scan row by row, which takes its turn in every third stretch."""
    batches: tuple[int, int]
    """Batches of the last row, and their publications."""
    databases: tuple[str, ...] = ("sqlite", "postgresql", "mariadb")

    def limits_with(self, stored: int) -> tuple[int, ...]:
        """A new engine reads the whole history, which takes a while where that is long."""
        return self.limits if stored == self.stored[0] else (self.limits[0], self.limits[-1])


FULL = Plan(
    subscribers=50,
    events=250,
    runs=5,
    row_by_row=10,
    stored=(50_000, 1_000_000),
    limits=(200, 500, 1_000, 2_000, 5_000),
    stretch=50,
    paged=10,
    rowed=2,
    batches=(6, 1_000),
)

QUICK = Plan(
    subscribers=20,
    events=40,
    runs=1,
    row_by_row=4,
    stored=(500, 2_000),
    limits=(50, 200),
    stretch=20,
    paged=8,
    rowed=2,
    batches=(2, 100),
    databases=("sqlite",),
)
