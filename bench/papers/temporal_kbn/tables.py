"""Tables of the page, in Markdown, and the figures that the paper's own tables have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.harness import shown

__all__ = ["DATABASES", "NAMED", "PAPER_63", "PAPER_64", "ms", "table"]

#: What the page calls the databases and the rivals.
DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}
NAMED = {"ours": "ours", "paged": "scan in pages", "rows": "scan row by row"}

#: Table 6.3: limit to mean, standard deviation, count, standard error, in milliseconds, on Oracle.
PAPER_63 = {
    200: (193.20, 153.62, 4949, 2.18),
    500: (284.72, 371.35, 4954, 5.28),
    1000: (444.55, 759.29, 4949, 10.79),
    2000: (753.96, 1556.41, 4949, 22.12),
    5000: (2957.66, 5060.09, 4947, 71.94),
}
#: Table 6.4: limit to the means of matching, non-matching and all operators, and how many publications had the first.
PAPER_64 = {
    200: (31.05, 35.45, 40.68, 4492),
    500: (37.39, 67.79, 73.67, 4506),
    1000: (37.55, 116.82, 118.80, 4447),
    2000: (45.13, 256.52, 258.00, 4460),
    5000: (83.89, 587.88, 569.84, 4433),
}


def ms(microseconds: float | None) -> float | None:
    """Milliseconds."""
    return None if microseconds is None else microseconds / 1e3


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Right-aligned; the first column is what the row is about."""
    headings = list(headings)
    lines = ["| " + " | ".join(headings) + " |", "|---|" + "---:|" * (len(headings) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows)])
