"""Conditions of the strategy ``Covering``: what one means, its inner filters, and what is left of it without its past.

Stevens 2009, §4.3: a broker that matches ``past(…)`` for a user or for another broker must itself receive the events
that the inner filters look for. ``read`` makes a ``RoutedCondition`` from CQL2, ``inside`` lists its inner filters.
Knows the language, and nothing of nodes, links or messages.
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

#: A node that matches ``past`` asks for every START and END. An engine refuses an END whose START it did not see, and a
#: condition may hold for the one and not for the other.
LIFE = "phase IN ('START', 'END')"


@dataclass(frozen=True, slots=True)
class RoutedCondition:
    """A condition as text and compiled, with the texts of its inner filters of the first level.

    ``outside`` is the condition without its past: it looks at single publications and holds whenever this one does.
    It is None for a condition that has no past.
    """

    where: str
    means: Filter | Pattern
    inner: tuple[str, ...] = ()
    outside: RoutedCondition | None = None

    @property
    def plain(self) -> RoutedCondition:
        """A condition on single publications that matches at least what this one matches."""
        return self if self.outside is None else self.outside

    @property
    def grows(self) -> bool:
        """Whether the same condition, subscribed earlier, matches all that this one matches from now on.

        The earlier one remembers more events. That can only add matches where ``past`` must find some event. It can
        remove matches where there must be none (a negated ``past``), and where the last n events are looked at: an
        event that began before this condition was subscribed may be one of them.
        """
        if isinstance(self.means, Filter):
            return True
        plan = planned(self.means.form, self.means.numbers)
        literals = [i for clauses in (plan.clauses, *plan.rules) for _, literals in clauses for i in literals]
        return all(i & 1 == 0 for i in literals) and all(atom.attribute is None for atom in plan.atoms)


def read(where: str, limits: Limits = DEFAULT_LIMITS) -> RoutedCondition:
    """Compile a condition. A pattern of any other family than ``past`` is refused with ``MessageError``."""
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

    Stevens 2009 (§4.3) asks the master for those of the first level and leaves the deeper ones to the master. But this
    node itself matches publications from its children with an inner filter, and the events that this inner filter looks
    for may come from the master.
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
    """The condition without its calls of ``past``: it holds whenever this one holds, whatever was remembered.

    With ``negated`` the node stands below a NOT, and the result fails whenever this one fails.
    """
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
