"""Why a subscription does, or does not, match: the verdict on every node of its expression, with the values it saw.

``Engine.explain`` calls ``explain``. Conditions on one publication are decided by their predicates. What a pattern
makes of the publication is decided by a ``Trial``, from what patterns remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.engine.explanation import Explanation
from tidegate.errors import TypeMismatch
from tidegate.language import Call, Node, to_text
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Notification
from tidegate.patterns import family_of
from tidegate.patterns.pattern import Family, Parts
from tidegate.patterns.reason import Asked, Reason
from tidegate.patterns.trial import Trial
from tidegate.predicates import compile_filter
from tidegate.predicates.column import Row
from tidegate.predicates.family import Mismatch
from tidegate.subscriptions import filter_key

__all__ = ["explain", "explain_pattern"]


def explain(node: Node, publication: Row) -> Explanation:
    """The verdicts on an expression without patterns, top down. NOT shows its own above that of what it negates."""
    return _Explaining(publication, None).node(node)


def explain_pattern(node: Node, publication: Row, trial: Trial, told: Sequence[Notification]) -> Explanation:
    """The verdicts on an expression with a pattern; ``told`` is what the subscriber would be told."""
    found = _Explaining(publication, trial).node(node)
    reason = "; ".join(filter(None, (*trial.notes, found.reason))) or None
    return replace(found, held=found.held and trial.is_seen, reason=reason, told=tuple(told))


class _Explaining:
    """One publication, and what patterns would make of it."""

    def __init__(self, publication: Row, trial: Trial | None) -> None:
        self._publication, self._trial = publication, trial
        self._reasons: dict[int, tuple[Parts, Reason]] = {}  # by the id of a node of the tree

    def node(self, node: Node) -> Explanation:
        family = family_of(node)
        if family is not None and isinstance(node, Call):
            return self._pattern(node, family)
        if isinstance(node, Call) and node.op in ("and", "or", "not"):
            parts = tuple(self.node(arg) for arg in node.args)
            return Explanation(_name(node), self._held(node, False), {}, parts)
        names = {
            name
            for clause in compile_filter(node, limits=NO_LIMITS).clauses
            for predicate in clause
            for column, _ in predicate.hull
            for name in column.attributes
        }
        return Explanation(to_text(node), self._held(node, False), self._values(names))

    def _values(self, names: set[str]) -> dict[str, object]:
        return {name: self._publication.value(name) for name in sorted(names)}

    def _pattern(self, node: Call, family: type[Family]) -> Explanation:
        compiled, reason = self._reason(node, family)
        parts: tuple[Explanation, ...] = ()
        if not family.takes_all:
            written = [filter for filter in compiled.filters if any(filter is part for part in node.args)]
            told = reason.filters or (None,) * len(written)
            parts = tuple(replace(self.node(filter), reason=why) for filter, why in zip(written, told, strict=True))
        values = self._values(set(family.attributes(compiled.form)))
        return Explanation(
            to_text(node), reason.holds, values, parts, is_pattern=True, reason=reason.text, facts=reason.facts
        )

    def _reason(self, node: Call, family: type[Family]) -> tuple[Parts, Reason]:
        assert self._trial is not None, "a subscription with a pattern has a trial"
        if (known := self._reasons.get(id(node))) is not None:
            return known
        try:
            compiled = family.compile(node, NO_LIMITS)
        except Mismatch as wrong:  # a shape of the user's own that this process does not know
            raise TypeMismatch(wrong.expected, wrong.got, to_text(node)) from None
        shared = [filter_key(c) if i in compiled.timeless else None for i, c in enumerate(compiled.filters)]
        found = compiled, self._trial.reason(Asked(compiled.form, compiled.numbers, shared))
        self._reasons[id(node)] = found
        return found

    def _held(self, node: Node, negated: bool) -> bool:
        """Whether a node, or its negation pushed down to the predicates, holds; no normal form is built."""
        if isinstance(node, Call) and node.op == "not":
            return self._held(node.args[0], not negated)
        if isinstance(node, Call) and node.op in ("and", "or"):
            every = all if (node.op == "and") is not negated else any
            return every([self._held(arg, negated) for arg in node.args])
        family = family_of(node)
        if family is not None and isinstance(node, Call):
            reason = self._reason(node, family)[1]
            return reason.is_false if negated else reason.holds
        return compile_filter(Call("not", (node,)) if negated else node, limits=NO_LIMITS).holds(self._publication)


def _name(node: Call) -> str:
    return to_text(node) if node.op == "not" else node.op.upper()
