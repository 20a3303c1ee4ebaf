"""Paragraphs, lists and tables in Markdown, with lines as long as the rest of the project has. Knows no results."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from textwrap import fill
from typing import Any

__all__ = ["bullets", "paragraph", "table"]


def paragraph(text: str) -> str:
    """A paragraph."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def bullets(sentences: Iterable[str]) -> str:
    """A list."""
    return "\n".join(
        fill(each, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for each in sentences
    )


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]], left: int = 1) -> str:
    """Right-aligned but for the first columns, which say what a row is about."""
    headings = list(headings)
    rule = "|" + "---|" * left + "---:|" * (len(headings) - left)
    lines = ["| " + " | ".join(headings) + " |", rule]
    return "\n".join([*lines, *("| " + " | ".join(map(_shown, row)) + " |" for row in rows)])


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{int(value):,}" if isinstance(value, Integral) else str(value).replace("|", "\\|")
