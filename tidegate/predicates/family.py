"""The registry of predicate families: which operators and functions exist, and what each compiles to.

A family registers its functions by decorating the function that compiles a call of them. The type checker, the
documentation tests, the command-line help and the laws all find a family here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from tidegate.language.tree import Call, Node
from tidegate.predicates.predicate import Alternatives

__all__ = [
    "FUNCTIONS",
    "HINTS",
    "MEASURES",
    "OTHERS",
    "BeyondLimit",
    "Function",
    "Measure",
    "Mismatch",
    "function",
    "measure",
    "near_misses",
]


class Mismatch(Exception):
    """A call that cannot be compiled; the filter compiler makes it a ``TypeMismatch`` with the place in the source."""

    def __init__(self, expected: str, got: str, node: Node) -> None:
        super().__init__(expected, got)
        self.expected, self.got, self.node = expected, got, node


class BeyondLimit(Mismatch):
    """A call that asks for more than a limit allows; becomes a ``LimitError``."""


Compile = Callable[[Call, bool], Alternatives]


@dataclass(frozen=True, slots=True)
class Function:
    """An operator or function: ``compile(call, negated)`` gives its predicates as alternatives of conjunctions."""

    op: str
    family: str
    arity: tuple[int, int]
    example: str
    compile: Compile


Compare = Callable[[Call, str, float, Node], Alternatives]


@dataclass(frozen=True, slots=True)
class Measure:
    """A function with a number as its value: ``compile(call, op, bound, node)`` gives what comparing it means."""

    op: str
    family: str
    arity: tuple[int, int]
    example: str
    compile: Compare


#: Every operator and function by its CQL2-JSON name.
FUNCTIONS: dict[str, Function] = {}
#: Every function with a number as its value; it is compared with a constant.
MEASURES: dict[str, Measure] = {}
#: Names of functions that are no predicates, so that ``near_misses`` can suggest them for a misspelt name.
OTHERS: set[str] = set()


_SEVERAL = "a condition on one publication, or a pattern over several (topk, together, absent, past)"
_NO_CLOCK = "TIMESTAMP('…'), or a pattern with a window such as past(…, 'PT1H'), as expressions have no clock"
#: What to write in place of functions that other languages have; said where somebody calls them.
HINTS: dict[str, str] = {
    "abs": "two bounds in place of an absolute value, such as x NOT BETWEEN -5 AND 5",
    "distance": "S_DWITHIN(location, POINT(…), 1000) for a condition on a distance, as distance is for scores of topk",
    **dict.fromkeys(("avg", "mean", "median", "sum", "count", "min", "max", "stddev"), _SEVERAL),
    **dict.fromkeys(("now", "today", "current_timestamp", "current_date"), _NO_CLOCK),
}


def function(family: str, ops: dict[str, str], arity: tuple[int, int]) -> Callable[[Compile], Compile]:
    """Register ``ops`` (name → an example that matches something) to be compiled by the decorated function."""

    def register(compile: Compile) -> Compile:
        for op, example in ops.items():
            FUNCTIONS[op] = Function(op, family, arity, example, compile)
        return compile

    return register


def measure(family: str, ops: dict[str, str], arity: tuple[int, int]) -> Callable[[Compare], Compare]:
    """Register ``ops`` (name → an example that matches something) whose comparison the decorated function compiles."""

    def register(compile: Compare) -> Compare:
        for op, example in ops.items():
            MEASURES[op] = Measure(op, family, arity, example, compile)
        return compile

    return register


def near_misses(op: str) -> list[str]:
    """Registered names that look like ``op``, best first."""
    names = {name.lower(): name for name in (*FUNCTIONS, *MEASURES, *OTHERS) if name[0].isalpha()}
    return [names[name] for name in get_close_matches(op.lower(), names, n=3, cutoff=0.6)]
