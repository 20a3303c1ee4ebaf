"""Where a mistake is: turns an offset or a JSON path into the words and the caret that an error carries.

The parser calls it, and so do ``predicates`` and ``subscriptions`` when an expression does not compile. Knows texts and
places only, neither grammar nor operators.
"""

from __future__ import annotations

import re
from typing import TypeVar
from unicodedata import combining, east_asian_width

from tidegate.errors import ParseError
from tidegate.language.tree import Array, Call, Geometry, Node, Numbers, Place

__all__ = ["Misplaced", "caret", "line_and_column", "located", "position_of"]

WIDTH = 100
_BREAK = re.compile(r"[\r\n]")

Error = TypeVar("Error", bound=ParseError)


class Misplaced(Exception):
    """A mistake whose place is known as an offset only; ``parse``, which has the text, makes a ParseError of it."""

    def __init__(self, expected: str, got: str, at: Place) -> None:
        self.expected, self.got, self.at = expected, got, at
        super().__init__(expected, got, at)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1; a column is a character."""
    line, start, _ = _line(text, offset)
    return line, offset - start + 1


def caret(text: str, offset: int) -> str:
    """The line that has the offset, cut to a window when long, and ``^`` below it; nothing for an empty line."""
    _, start, end = _line(text, offset)
    if start == end:
        return ""
    first = max(start, min(offset - WIDTH // 2, end - WIDTH))
    last = min(end, first + WIDTH)
    shown = [_printable(character) for character in text[first:last]]
    if first > start:
        shown[0] = "…"
    if last < end:
        shown[-1] = "…"
    indent = sum(map(_columns, shown[: offset - first]))
    return f"  {''.join(shown)}\n  {' ' * indent}^"


def located(error_type: type[Error], expected: str, got: str, at: Place, source: object) -> Error:
    """An error that tells its place: line, column and caret in a text, the path in JSON."""
    if isinstance(at, int) and isinstance(source, str):
        line, column = line_and_column(source, at)
        return error_type(expected, got, f"line {line}, column {column}", caret(source, at))
    return error_type(expected, got, at if isinstance(at, str) else "")


def position_of(node: Node, root: Node) -> Place:
    """A node's ``at`` or, in a tree that came from JSON and has none, its path below ``root``.

    Trees from JSON share attribute nodes, so an attribute used twice is found at its first use.
    """
    if node.at is not None:
        return node.at
    stack: list[tuple[Node, str]] = [(root, "$")]
    while stack:
        found, path = stack.pop()
        if found is node:
            return path
        children: tuple[object, ...] = ()
        inside = ""
        if isinstance(found, Call):
            children, inside = found.args, ".args"
        elif isinstance(found, Array):
            children = found.items
        elif isinstance(found, Numbers) and (member := found.index(node)) is not None:
            return f"{path}[{member}]"
        elif isinstance(found, Geometry) and found.kind == "GeometryCollection":
            children, inside = found.coordinates, ".geometries"
        pairs = [(child, f"{path}{inside}[{index}]") for index, child in enumerate(children)]
        stack.extend(reversed(pairs))  # type: ignore[arg-type]
    return None


def _line(text: str, offset: int) -> tuple[int, int, int]:
    """The number of the line that holds the offset, where it starts and where it ends."""
    before = text[:offset]
    # An offset between the two characters of \r\n is still on the line they end.
    if before.endswith("\r") and text.startswith("\n", offset):
        before = before[:-1]
    start = max(before.rfind("\n"), before.rfind("\r")) + 1
    line = 1 + before.count("\n") + before.count("\r") - before.count("\r\n")
    end = _BREAK.search(text, max(offset, start))
    return line, start, end.start() if end else len(text)


def _printable(character: str) -> str:
    return " " if character in "\t\r\n" else character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _columns(character: str) -> int:
    return 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
