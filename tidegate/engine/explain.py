"""Why a subscription did, or did not, match: the verdict on every node of its expression, with the values it saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.errors import TypeMismatch
from tidegate.language import Call, Node, to_text
from tidegate.language.limits import NO_LIMITS
from tidegate.patterns import family_of
from tidegate.patterns.pattern import Family
from tidegate.predicates import compile_filter
from tidegate.predicates.column import Row
from tidegate.predicates.family import Mismatch

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node: its text, whether it held, the attributes it looked at (None: missing), and the nodes below.

    One publication does not decide whether a pattern holds; the node of a pattern held if the pattern sees the
    publication, and the nodes below are its filters.
    """

    text: str
    held: bool
    values: dict[str, Any]
    parts: tuple[Explanation, ...] = ()
    is_pattern: bool = False

    @property
    def has_pattern(self) -> bool:
        """Whether a pattern is among the nodes."""
        return self.is_pattern or any(part.has_pattern for part in self.parts)

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        seen = ", ".join(
            f"{name} is {'missing' if value is None else repr(value)}" for name, value in self.values.items()
        )
        if self.is_pattern:
            seen = "depends on other publications" if self.held else "does not see it"
        yield f"{indent}{'✓' if self.held else '✗'} {self.text}" + (f"   — {seen}" if seen else "")
        for part in self.parts:
            yield from part._lines(indent + "  ")


def explain(node: Node, publication: Row) -> Explanation:
    """The verdicts, top down. NOT shows its own verdict above that of what it negates."""
    family = family_of(node)
    if family is not None and isinstance(node, Call):
        return _pattern(node, family, publication)
    if isinstance(node, Call) and node.op == "and":
        parts = tuple(explain(arg, publication) for arg in node.args)  # a pattern may be among them
        return Explanation("AND", all(part.held for part in parts), {}, parts)
    if isinstance(node, Call) and node.op in ("or", "not"):
        parts = tuple(explain(arg, publication) for arg in node.args)
        text = "OR" if node.op == "or" else to_text(node)
        if any(part.has_pattern for part in parts):  # the state of the pattern decides, so both outcomes are possible
            return Explanation(text, any(part.held or part.has_pattern for part in parts), {}, parts)
        return Explanation(text, _held(node, False, publication), {}, parts)
    held = _held(node, False, publication)
    names = {
        name
        for clause in compile_filter(node, limits=NO_LIMITS).clauses
        for predicate in clause
        for column, _ in predicate.hull
        for name in column.attributes
    }
    return Explanation(to_text(node), held, {name: publication.value(name) for name in sorted(names)})


def _pattern(node: Call, family: type[Family], publication: Row) -> Explanation:
    """Whether a pattern sees the publication: one of its filters holds, or it has none of its own."""
    try:
        form, _, filters, _ = family.compile(node, NO_LIMITS)
    except Mismatch as wrong:  # a shape of the user's own that this process does not know
        raise TypeMismatch(wrong.expected, wrong.got, to_text(node)) from None
    if family.takes_all:
        return Explanation(to_text(node), family.sees(form, publication), {}, is_pattern=True)
    parts = tuple(explain(part, publication) for part in filters)
    sees = (not parts or any(part.held for part in parts)) and family.sees(form, publication)
    return Explanation(to_text(node), sees, {}, parts, is_pattern=True)


def _held(node: Node, negated: bool, publication: Row) -> bool:
    """Whether a node, or its negation pushed down to the predicates, holds; no normal form is built."""
    if isinstance(node, Call) and node.op == "not":
        return _held(node.args[0], not negated, publication)
    if isinstance(node, Call) and node.op in ("and", "or"):
        every = all if (node.op == "and") is not negated else any
        return every([_held(arg, negated, publication) for arg in node.args])
    return compile_filter(Call("not", (node,)) if negated else node, limits=NO_LIMITS).holds(publication)
