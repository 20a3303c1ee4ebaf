"""Drawn worlds for the law of access: publications, filters of what may be read, and what each principal may see.

What may be read is decided by the oracle alone. Every publication has marks that nothing else has: its id, a text among
its attributes and, sometimes, its source and the name of an attribute. So whatever an answer is made of, the marks in
its bytes say which publications it tells of.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tests.oracle import holds
from tidegate.language.parse import parse
from tidegate.records.record import publication

__all__ = ["ALL_MARKS", "World", "marks_in"]

ALL_MARKS = re.compile(rb"(?:id|mark|src|attr)-([0-9a-f]{16})")
_TEXTS = ("storm", "rain", "snow", "Sun", "")
_SOURCES = ("hut-1", "hut-2", "valley-1", "valley-2", "lake")


def marks_in(data: bytes) -> set[str]:
    """The marks of publications that some bytes have."""
    return {found.decode() for found in ALL_MARKS.findall(data)}


class World:
    """Publications by their marks, and the filters of principals; all of it follows from a number."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        self.publications: dict[str, dict] = {}
        self.made: dict[str, object] = {}

    def publish(self, count: int) -> list[dict]:
        """So many more publications, as objects of JSON."""
        return [self._publication() for _ in range(count)]

    def _publication(self) -> dict:
        draw, mark = self._random, f"{self._random.getrandbits(64):016x}"
        time = datetime.now(UTC) - timedelta(seconds=draw.randrange(3600))
        found = {"id": f"id-{mark}", "source": draw.choice(_SOURCES), "time": time.isoformat(), "mark": f"mark-{mark}"}
        optional = {
            "n": lambda: draw.choice([draw.randrange(10), draw.uniform(0, 10)]),
            "m": lambda: draw.randrange(10),
            "kind": lambda: draw.choice(_TEXTS),
            "is_new": lambda: draw.random() < 0.5,
            "location": lambda: {"lon": draw.uniform(15, 17), "lat": draw.uniform(45, 47)},
            "phase": lambda: draw.choice(["START", "END"]),
        }
        found |= {name: make() for name, make in optional.items() if draw.random() < 0.6}
        if draw.random() < 0.15:
            found["source"] = f"src-{mark}"
        if draw.random() < 0.15:
            found[f"attr-{mark}"] = 1
        if draw.random() < 0.4:
            found["valid_until"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        self.publications[mark], self.made[mark] = found, publication(found, "")
        return found

    # --- what may be read -------------------------------------------------------------------------------------------

    def read(self) -> str:
        """A filter."""
        draw = self._random
        if draw.random() < 0.1:
            return draw.choice(["TRUE", "FALSE"])
        joined = draw.choice([" AND ", " OR "]).join(self._condition() for _ in range(draw.randrange(1, 4)))
        return f"NOT ({joined})" if draw.random() < 0.2 else joined

    def _condition(self) -> str:
        draw = self._random
        n, low = draw.choice("nm"), draw.randrange(10)
        west, south = draw.uniform(15, 17), draw.uniform(45, 47)
        marks = list(self.publications) or ["0"]
        found = draw.choice(
            [
                f"{n} > {low}",
                f"{n} <= {low}.5",
                f"{n} <> {low}",
                f"{n} + 1 >= {low}",
                f"{n} BETWEEN {low} AND {low + 3}",
                f"{n} IN (1, 2, {low})",
                f"{n} IS NULL",
                f"{n} IS NOT NULL",
                f"kind = '{draw.choice(_TEXTS)}'",
                f"kind LIKE '{draw.choice('srS')}%'",
                f"CASEI(kind) = CASEI('{draw.choice(_TEXTS)}')",
                f"source = '{draw.choice(_SOURCES)}'",
                f"source LIKE '{draw.choice(('hut', 'valley', 'src'))}%'",
                f"id LIKE 'id-{draw.choice('0123456789abcdef')}%'",
                f"mark = 'mark-{draw.choice(marks)}'",
                "is_new",
                "is_new = FALSE",
                f"S_INTERSECTS(location, BBOX({west:.3f}, {south:.3f}, {west + 1:.3f}, {south + 1:.3f}))",
            ]
        )
        return f"NOT {found}" if draw.random() < 0.15 else f"({found})"

    def may_read(self, read: str) -> set[str]:
        """The marks of the publications that the filter lets pass, by the oracle."""
        tree = parse(read)
        return {mark for mark, made in self.made.items() if holds(tree, made)}

    # --- drawing ----------------------------------------------------------------------------------------------------

    def some(self, marks, count: int) -> list[str]:
        return self._random.sample(sorted(marks), min(count, len(marks)))

    def pairs(self, marks) -> Iterator[tuple[str, str]]:
        """Source and id of publications."""
        for mark in marks:
            yield self.publications[mark]["source"], self.publications[mark]["id"]
