"""What a condition on the past asks: from an expression with ``past(…)`` to rules, atoms and ordinary filters.

``T_DURING(start, past(f))`` and ``price < past(price, f, 200)`` are *atoms*. They stand anywhere under AND, OR and
NOT, and in filters of other atoms. Everything else of an expression is an ordinary condition, and goes to the index. An
inner filter that itself contains atoms is a *rule*. ``Past.compile`` calls ``compile_past``; ``planned`` restores the
``Plan`` from the form and numbers of a pattern. Knows no events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import orjson

from tidegate.errors import ParseError
from tidegate.kernels.past_atoms import COMPARISONS, RELATIONS
from tidegate.language import duration, from_json, to_json
from tidegate.language.limits import NO_LIMITS, Limits
from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Call, Literal, Node, walk
from tidegate.patterns.pattern import Parts
from tidegate.patterns.windows import whole
from tidegate.predicates.column import Column, column
from tidegate.predicates.comparison import kind_of
from tidegate.predicates.family import BeyondLimit, Mismatch
from tidegate.predicates.scalar import ARITHMETIC, operand_of

__all__ = ["Atom", "Plan", "compile_past", "is_atom", "planned"]

#: Events that a comparison looks at if it does not say how many (Stevens 2009, §5.3.1).
EVENTS = 10_000
#: What a single instant can be to an event.
POINT_RELATIONS = ("t_after", "t_before", "t_disjoint", "t_during", "t_equals", "t_intersects")
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SECOND = 1_000_000
#: A filter for all publications with a phase: every shard must see how events begin and end.
_LIFE = Call("not", (Call("isNull", (Attribute("phase"),)),))


def is_past(node: Node) -> bool:
    """Whether a node is a call of ``past``."""
    return type(node) is Call and node.op == "past"


def is_atom(node: Node) -> bool:
    """Whether a node asks about the past."""
    return type(node) is Call and node.op != "past" and any(is_past(arg) for arg in node.args)


# --- plans ----------------------------------------------------------------------------------------------------------


class Atom(NamedTuple):
    """One question: an operator, what is on its left, the inner filter, and the attribute compared (None: times).

    ``of`` is the number of an ordinary filter, or −1 − the number of a rule. ``limit`` is in microseconds (−1: none)
    or how many events; ``tolerance`` in microseconds.
    """

    op: str
    left: Any
    of: int
    attribute: str | None
    limit: int
    tolerance: int

    @property
    def lefts(self) -> tuple[Column | None, ...]:
        """The columns that may be on the left: as a number, as an instant, as the halves of a text."""
        if self.attribute is None:
            return (_kinds(Attribute(self.left))[1] if self.left not in _OWN else None, None, None, None)
        found = _kinds(from_json(self.left, NO_LIMITS))
        return found if self.op in ("=", "<>") else (*found[:2], None, None)

    @property
    def rights(self) -> tuple[Column | None, ...]:
        """The columns of remembered events that are compared, in the same kinds."""
        if self.attribute is None:
            return (None,) * 4
        return _kinds(Attribute(self.attribute))


#: What stands on the left of a relation and is no column.
_OWN = ("start", "end", "event", "time")

#: A conjunction: the number of an ordinary filter, and atoms, twice their number and one more if negated.
Clause = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a subscription asks: its own clauses, those of rules inside, and the atoms of all of them."""

    clauses: tuple[Clause, ...]
    rules: tuple[tuple[Clause, ...], ...]
    atoms: tuple[Atom, ...]

    def columns(self) -> Iterator[Column]:
        """The values of publications that are looked at."""
        yield from TIMES
        for atom in self.atoms:
            yield from (found for found in (*atom.lefts, *atom.rights) if found is not None)


#: Start and end of a publication, as it brings them.
TIMES = (column("time", "start"), column("time", "end"))


def planned(form: str, numbers: Sequence[float]) -> Plan:
    """The plan that was compiled to that form and those numbers."""
    told = orjson.loads(form)
    atoms = tuple(
        Atom(op, left, of, attribute, int(numbers[2 * i]), int(numbers[2 * i + 1]))
        for i, (op, left, of, attribute) in enumerate(told["atoms"])
    )

    def clauses(given: list[Any]) -> tuple[Clause, ...]:
        return tuple((filter, tuple(literals)) for filter, literals in given)

    return Plan(clauses(told["clauses"]), tuple(clauses(rule) for rule in told["rules"]), atoms)


def _kinds(node: Node) -> tuple[Column | None, ...]:
    """The columns of a value, by what it may be."""
    kind, operand = kind_of(node), operand_of(node)
    readings = {"number": ("number",), "time": ("time",), "text": ("half", "other-half"), "any": _READINGS}[kind]
    return tuple(column(reading, operand) if reading in readings else None for reading in _READINGS)


_READINGS = ("number", "time", "half", "other-half")


# --- compilation ----------------------------------------------------------------------------------------------------


def compile_past(node: Node, limits: Limits) -> Parts:
    """What a whole expression with ``past`` in it means."""
    compiler = _Compiler(limits)
    clauses = compiler.clauses(node, inner=False)
    form = {
        "clauses": clauses,
        "rules": compiler.rules,
        "atoms": [[atom.op, atom.left, atom.of, atom.attribute] for atom in compiler.atoms],
    }
    numbers = [float(n) for atom in compiler.atoms for n in (atom.limit, atom.tolerance)]
    conditions = tuple(compiler.conditions)
    return Parts(orjson.dumps(form).decode(), tuple(numbers), conditions, frozenset(compiler.unbounded))


@dataclass
class _Compiler:
    limits: Limits
    conditions: list[Node] = field(default_factory=lambda: [_LIFE])
    unbounded: set[int] = field(default_factory=lambda: {0})
    numbers: dict[tuple[Node, bool], int] = field(default_factory=lambda: {(_LIFE, True): 0})
    rules: list[list[Clause]] = field(default_factory=list)
    atoms: list[Atom] = field(default_factory=list)

    def clauses(self, node: Node, inner: bool) -> list[Clause]:
        """The clauses of a condition; those of one that is inside another are not bound to a time of activity."""
        found = []
        for ordinary, literals in self._alternatives(node, False):
            condition: Node = Literal(True)
            if ordinary:
                condition = ordinary[0] if len(ordinary) == 1 else Call("and", tuple(ordinary))
            found.append((self._filter(condition, inner), tuple(sorted(set(literals)))))
        return found

    def _filter(self, condition: Node, inner: bool) -> int:
        number = self.numbers.setdefault((condition, inner), len(self.conditions))
        if number == len(self.conditions):
            self.conditions.append(condition)
            if inner:
                self.unbounded.add(number)
        return number

    def _alternatives(self, node: Node, negated: bool) -> list[tuple[list[Node], list[int]]]:
        """Ordinary conditions and atoms, in disjunctive normal form."""
        if not any(is_past(part) for part in walk(node)):
            return [([Call("not", (node,), node.at) if negated else node], [])]
        if not isinstance(node, Call):
            raise Mismatch("a condition", "a list", node)
        if node.op == "not":
            return self._alternatives(node.args[0], not negated)
        if node.op in ("and", "or"):
            parts = [self._alternatives(arg, negated) for arg in node.args]
            if (node.op == "or") is not negated:
                alternatives = [one for part in parts for one in part]
            else:
                size = 1
                for part in parts:
                    size *= len(part)
                self._check(size, node)
                alternatives = [
                    ([c for one in choice for c in one[0]], [a for one in choice for a in one[1]])
                    for choice in product(*parts)
                ]
            self._check(len(alternatives), node)
            return alternatives
        return [([], [2 * self._atom(node) + int(negated)])]

    def _check(self, size: int, node: Node) -> None:
        if size > self.limits.clauses:
            most = f"at most {self.limits.clauses} clauses in disjunctive normal form (setting clauses)"
            raise BeyondLimit(most, f"{size} or more", node)

    def _atom(self, call: Call) -> int:
        if call.op in RELATIONS and len(call.args) == 2 and is_past(call.args[1]):
            atom = self._relation(call)
        elif call.op in COMPARISONS and len(call.args) == 2:
            atom = self._comparison(call)
        elif call.op == "past":
            raise Mismatch("past on the right of a T_… relation, or compared with a value", to_text(call), call)
        else:
            raise Mismatch("past in a T_… relation or a comparison", f"past in {call.op.upper()}", call)
        if atom not in self.atoms:
            self.atoms.append(atom)
        return self.atoms.index(atom)

    def _inner(self, condition: Node) -> int:
        """The number of an inner filter: ordinary, or a rule of its own."""
        clauses = self.clauses(condition, inner=True)
        if len(clauses) == 1 and not clauses[0][1]:
            return clauses[0][0]
        if clauses not in self.rules:
            self.rules.append(clauses)
        return -1 - self.rules.index(clauses)

    def _relation(self, call: Call) -> Atom:
        left, past = call.args
        assert isinstance(past, Call)
        if not isinstance(left, Attribute) or (left.name != "event" and kind_of(left) not in ("time", "any")):
            raise Mismatch("an attribute with an instant, or event, on the left", to_text(left), left)
        if left.name != "event" and call.op not in POINT_RELATIONS:
            raise Mismatch(f"event on the left of {call.op.upper()}", f"{left.name}, a single instant", left)
        if not 1 <= len(past.args) <= 3:
            raise Mismatch("past(filter[, limit[, tolerance]])", f"{len(past.args)} arguments", past)
        limit = -1 if len(past.args) < 2 else self._span(past.args[1], "limit", "..")
        tolerance = 0 if len(past.args) < 3 else self._span(past.args[2], "tolerance", None)
        return Atom(call.op, left.name, self._inner(_condition(past.args[0])), None, limit, tolerance)

    def _span(self, node: Node, what: str, none: str | None) -> int:
        """Microseconds of a limit or a tolerance."""
        example = "a duration such as 'PT2S'" + (" or '..'" if none else "")
        if not isinstance(node, Literal) or not isinstance(node.value, str):
            raise Mismatch(f"{example} as {what} of past", to_text(node), node)
        if node.value == none:
            return -1
        try:
            found = duration(node.value)
        except ParseError as error:
            raise Mismatch(f"{error.expected} as {what} of past", error.got, node) from None
        if found < 0:
            raise Mismatch(f"a {what} of past that is not negative", to_text(node), node)
        if found > self.limits.window * _SECOND:
            raise BeyondLimit(f"a {what} of at most {self.limits.window} seconds (setting window)", to_text(node), node)
        return found

    def _comparison(self, call: Call) -> Atom:
        left, past = call.args
        op = call.op
        if is_past(left):
            left, past, op = past, left, _MIRRORED[op]
        if not isinstance(past, Call) or not is_past(past):
            raise Mismatch("past alone on one side of a comparison", to_text(call), call)
        if is_past(left) or not any(isinstance(part, Attribute) for part in walk(left)):
            raise Mismatch("a value of the publication to compare with past", to_text(left), left)
        for part in walk(left):
            if not isinstance(part, Attribute | Literal) and not (isinstance(part, Call) and part.op in ARITHMETIC):
                raise Mismatch("an attribute, or arithmetic, to compare with past", to_text(left), left)
        if not 2 <= len(past.args) <= 3 or not isinstance(past.args[0], Attribute):
            raise Mismatch("past(attribute, filter[, number of events]) in a comparison", to_text(past), past)
        attribute = past.args[0]
        kinds = [kind_of(node) for node in (left, attribute)]
        for node, kind in zip((left, attribute), kinds, strict=True):
            if kind not in ("number", "time", "text", "any"):
                raise Mismatch("a number, text or instant to compare with past", to_text(node), node)
            if kind == "text" and op not in ("=", "<>"):
                raise Mismatch("= or <> between texts of now and past", call.op, call)
        if kinds[0] != kinds[1] and "any" not in kinds:
            raise Mismatch(f"two values of one type, not {_called(kinds[0])}", _called(kinds[1]), attribute)
        count = EVENTS
        if len(past.args) == 3:
            count = whole(past.args[2], "the number of past events", self.limits.window_count, "window_count")
        return Atom(op, to_json(left), self._inner(_condition(past.args[1])), attribute.name, count, 0)


def _called(kind: str) -> str:
    return {"number": "a number", "time": "an instant", "text": "a text"}[kind]


def _condition(node: Node) -> Node:
    if isinstance(node, Literal) and not isinstance(node.value, bool):
        raise Mismatch("a condition in past", to_text(node), node)
    return node
