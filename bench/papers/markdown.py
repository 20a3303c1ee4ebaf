"""Paragraphs, lists, pictures and tables of the papers' pages, in Markdown, with lines of 120. Knows no results."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill
from typing import Any

from bench.harness import shown

__all__ = ["bullets", "paragraph", "picture", "table"]


def paragraph(text: str) -> str:
    """A paragraph."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def bullets(sentences: Iterable[str]) -> str:
    """A list."""
    return "\n".join(
        fill(each, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for each in sentences
    )


def picture(name: str, title: str) -> str:
    """A figure that ``figure_style.save`` wrote beside the page."""
    return f"![{title}]({name}.png)"


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]], left: int = 1) -> str:
    """Right-aligned but for the first columns, which say what a row is about."""
    headings = list(headings)
    rule = "|" + "---|" * left + "---:|" * (len(headings) - left)
    lines = ["| " + " | ".join(headings) + " |", rule]
    return "\n".join(
        [*lines, *("| " + " | ".join(shown(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)]
    )
