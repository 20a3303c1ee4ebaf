"""Conditions as nodes exchange them: what one means, what is inside its ``past``, and what is left of it without.

Stevens 2009, §4.3: a broker that looks at the past for somebody must itself hear of what it looks for. Knows the
language, and nothing of nodes, links or who asks whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.errors import MessageError
from tidegate.kernels.past_atoms import COMPARISONS
from tidegate.language import DEFAULT_LIMITS, Call, Limits, Literal, Node, parse, to_text, walk
from tidegate.patterns import Pattern
from tidegate.patterns.past_compile import is_past, planned
from tidegate.predicates import Filter
from tidegate.subscriptions import compile_where

__all__ = ["LIFE", "RoutedCondition", "inside", "read"]

#: Whoever looks at the past must hear how events begin and end, whoever wants them: an END that comes without its START
#: is refused, and what the one satisfies the other need not.
LIFE = "phase IN ('START', 'END')"


@dataclass(frozen=True, slots=True)
class RoutedCondition:
    """A condition and what it means; the inner filters of its first level, and what is left of it without its past."""

    where: str
    means: Filter | Pattern
    inner: tuple[str, ...] = ()
    outside: RoutedCondition | None = None

    @property
    def plain(self) -> RoutedCondition:
        """A wish that looks at single publications only, for at least all that this is told of."""
        return self if self.outside is None else self.outside

    @property
    def grows(self) -> bool:
        """Whether one that is made earlier is told of all that this is told of, from when this is made.

        It remembers more, which can only help where some event is looked for. It hurts where there must be none, and
        where the last n are looked at: an event that began before this was made may be one of them.
        """
        if isinstance(self.means, Filter):
            return True
        plan = planned(self.means.form, self.means.numbers)
        literals = [i for clauses in (plan.clauses, *plan.rules) for _, literals in clauses for i in literals]
        return all(i & 1 == 0 for i in literals) and all(atom.attribute is None for atom in plan.atoms)


def read(where: str, limits: Limits = DEFAULT_LIMITS) -> RoutedCondition:
    """What a condition means; it is refused if it is a pattern, unless that is ``past``."""
    node = parse(where, limits)
    means = compile_where(node, where, limits)
    if isinstance(means, Filter):
        return RoutedCondition(where, means)
    if means.family != "past":
        raise MessageError("a condition on single publications, or on the past", f"the pattern {means.family}")
    inner = tuple(dict.fromkeys(to_text(part) for part in _first_level(node)))
    return RoutedCondition(where, means, inner, read(to_text(_without_past(node, False)), limits))


def inside(wish: RoutedCondition, limits: Limits = DEFAULT_LIMITS) -> list[RoutedCondition]:
    """The inner filters of all levels, each once, and each before those inside it.

    Stevens 2009 (§4.3) asks for those of the first level and leaves the rest to the next broker up. But a publication
    that comes from below is held against an inner filter right here, and what that looks for may have come from above.
    """
    found: dict[str, RoutedCondition] = {}
    ahead = [wish]
    while ahead:
        for text in ahead.pop().inner:
            if text not in found:
                found[text] = read(text, limits)
                ahead.append(found[text])
    return list(found.values())


def _first_level(node: Node) -> Iterator[Node]:
    """The filters in the calls of ``past`` that are not inside another one."""
    if isinstance(node, Call):
        for arg in node.args:
            if isinstance(arg, Call) and is_past(arg):
                yield arg.args[1 if node.op in COMPARISONS else 0]
            else:
                yield from _first_level(arg)


def _without_past(node: Node, negated: bool) -> Node:
    """A condition that holds whenever this one does, whatever was remembered; for one that is negated, if it fails."""
    if not any(is_past(part) for part in walk(node)):
        return node
    assert isinstance(node, Call)
    if node.op == "not":
        inner = _without_past(node.args[0], not negated)
        return Literal(not inner.value) if isinstance(inner, Literal) else Call("not", (inner,))
    if node.op not in ("and", "or"):
        return Literal(not negated)
    neutral = node.op == "and"
    args = [_without_past(arg, negated) for arg in node.args]
    if any(isinstance(arg, Literal) and arg.value is not neutral for arg in args):
        return Literal(not neutral)
    left = [arg for arg in args if not isinstance(arg, Literal)]
    if len(left) < 2:
        return left[0] if left else Literal(neutral)
    return Call(node.op, tuple(left))
