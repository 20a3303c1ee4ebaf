"""From an expression tree to a filter: checked, negations pushed down to the predicates, in disjunctive normal form.

``NOT`` never survives: each predicate compiles to its own negation, which like the predicate itself is false where
the attribute is missing. A disjunction of ranges on one column stays one predicate, so ``IN`` lists, ``<>`` and
``a = 1 OR a = 2`` cost one clause and not many.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from tidegate.errors import LimitError, ParseError, TypeMismatch, UnknownFunction
from tidegate.language.limits import DEFAULT_LIMITS, Limits
from tidegate.language.text_position import located, position_of
from tidegate.language.tree import Array, Attribute, Call, Interval, Literal, Node, Numbers, walk
from tidegate.predicates.column import Row
from tidegate.predicates.family import FUNCTIONS, HINTS, MEASURES, BeyondLimit, Mismatch, near_misses
from tidegate.predicates.predicate import Alternatives, Clause, Within
from tidegate.predicates.ranges import Ranges, intersect, union
from tidegate.predicates.scalar import ARITHMETIC

__all__ = ["Filter", "compile_filter"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A disjunction of clauses. No clauses match nothing; an empty clause matches everything."""

    clauses: tuple[Clause, ...]

    def holds(self, publication: Row) -> bool:
        """Whether some clause has all its predicates satisfied."""
        return any(all(predicate.holds(publication) for predicate in clause) for clause in self.clauses)

    def __and__(self, other: Filter) -> Filter:
        """The filter of what satisfies both."""
        return Filter(tuple(_simplified(mine + theirs) for mine in self.clauses for theirs in other.clauses))


#: Operators that are no predicates: they build conditions and values.
STRUCTURE = {"and", "or", "not", "casei", "accenti", *ARITHMETIC}


class _Refused(Exception):
    def __init__(self, kind: type[ParseError], expected: str, got: str, node: Node) -> None:
        super().__init__(expected, got)
        self.kind, self.expected, self.got, self.node = kind, expected, got, node


def compile_filter(node: Node, source: Any = None, limits: Limits = DEFAULT_LIMITS, root: Node | None = None) -> Filter:
    """The filter an expression means.

    ``source`` is the text or JSON it was read from, to show where it is wrong; ``root`` is the tree that was read from
    it, if the expression is only a part of it.
    """
    try:
        return Filter(tuple(_simplified(clause) for clause in _alternatives(node, False, limits)))
    except Mismatch as wrong:
        kind = LimitError if isinstance(wrong, BeyondLimit) else TypeMismatch
        error = _Refused(kind, wrong.expected, wrong.got, wrong.node)
    except _Refused as wrong:
        error = wrong
    for call in walk(node):  # an unknown function explains the error better, whatever it was
        if isinstance(call, Call) and not (call.op in FUNCTIONS or call.op in MEASURES or call.op in STRUCTURE):
            error = _unknown(call)
            break
    raise located(error.kind, error.expected, error.got, position_of(error.node, root or node), source)


def _alternatives(node: Node, negated: bool, limits: Limits) -> Alternatives:
    if isinstance(node, Call):
        op = node.op
        if op == "not":
            return _alternatives(node.args[0], not negated, limits)
        if op == "and" or op == "or":
            parts = [_alternatives(arg, negated, limits) for arg in node.args]
            return _all_of(parts, node, limits) if (op == "and") is not negated else _any_of(parts, node, limits)
        known = FUNCTIONS.get(op)
        if known is None and op in MEASURES:
            raise _Refused(TypeMismatch, "a condition", f"{op}, which is a number to be compared", node)
        if known is None:
            raise _unknown(node)
        least, most = known.arity
        if not least <= len(node.args) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise _Refused(TypeMismatch, f"{wanted} arguments of {op}", f"{len(node.args)}", node)
        return known.compile(node, negated)
    if isinstance(node, Literal) and isinstance(node.value, bool):
        return [()] if node.value is not negated else []
    if isinstance(node, Attribute):  # a truth value on its own: `windy AND no2 > 40`
        return FUNCTIONS["="].compile(Call("=", (node, Literal(True)), node.at), negated)
    raise _Refused(TypeMismatch, "a condition", _described(node), node)


def _any_of(parts: list[Alternatives], node: Node, limits: Limits) -> Alternatives:
    alternatives = [clause for part in parts for clause in part]
    if all(len(clause) == 1 for clause in alternatives):
        alternatives = _merged(alternatives)
    if len(alternatives) > limits.clauses:
        raise _too_many(len(alternatives), node, limits)
    return alternatives


def _merged(alternatives: Alternatives) -> Alternatives:
    """Ranges on the same single-valued column, joined: `a = 1 OR a = 2` is one set of points."""
    ranges: dict[Any, Ranges] = {}
    others: Alternatives = []
    for clause in alternatives:
        predicate = clause[0]
        if isinstance(predicate, Within) and not predicate.column.how.is_many:
            ranges[predicate.column] = ranges.get(predicate.column, ()) + predicate.ranges
        else:
            others.append(clause)
    return [(Within(column, union(joined)),) for column, joined in ranges.items()] + others


def _all_of(parts: list[Alternatives], node: Node, limits: Limits) -> Alternatives:
    size = 1
    for part in parts:
        size *= len(part)
        if size > limits.clauses:
            raise _too_many(size, node, limits)
    if size == 1:
        return [tuple(chain.from_iterable(part[0] for part in parts))]
    # each clause of a part is in so many of the clauses of the whole
    predicates = sum(size // len(part) * len(clause) for part in parts for clause in part)
    if predicates > limits.predicates:
        expected = f"at most {limits.predicates} conditions in all clauses together (setting predicates)"
        raise _Refused(LimitError, expected, f"{predicates}", node)
    return [tuple(chain.from_iterable(choice)) for choice in product(*parts)]


def _simplified(clause: Clause) -> Clause:
    """The clause with each predicate once and ranges on one column intersected (a Within is on a single-valued one)."""
    if len({p.column if isinstance(p, Within) else p for p in clause}) == len(clause):
        return clause
    kept: dict[Any, Any] = {}
    for predicate in clause:
        if isinstance(predicate, Within):
            before = kept.get(predicate.column)
            ranges = predicate.ranges if before is None else intersect(before.ranges, predicate.ranges)
            kept[predicate.column] = Within(predicate.column, ranges)
        else:
            kept[predicate] = predicate
    return tuple(kept.values())


def _too_many(size: int, node: Node, limits: Limits) -> _Refused:
    expected = f"at most {limits.clauses} clauses in disjunctive normal form (setting clauses)"
    return _Refused(LimitError, expected, f"{size} or more", node)


def _unknown(node: Call) -> _Refused:
    if (hint := HINTS.get(node.op.lower())) is not None:
        return _Refused(UnknownFunction, hint, node.op, node)
    near = near_misses(node.op)
    wanted = f"a registered function ({' or '.join(near)}?)" if near else "a registered function"
    return _Refused(UnknownFunction, wanted, f"{node.op}", node)


def _described(node: Node) -> str:
    if isinstance(node, Array | Numbers):
        return "a list"
    if isinstance(node, Literal):
        return f"the value {node.value!r}"
    return "an interval" if isinstance(node, Interval) else f"a {type(node).__name__.lower()}"
