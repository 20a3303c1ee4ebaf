"""The words of CQL2: which operators it defines, how many arguments they take, what is reserved, what is a name.

The readers of both notations and ``render`` share these tables. They do not say what an operator means. Functions that
are not listed here are taken as they are; ``predicates`` and ``patterns`` know them.
"""

from __future__ import annotations

import re

from tidegate.errors import ParseError

__all__ = [
    "ARITHMETIC",
    "ARRAY_OPERATORS",
    "COMPARISONS",
    "RESERVED",
    "ROLES",
    "SPATIAL",
    "TEMPORAL",
    "arity_fault",
    "is_name",
    "operator",
]

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/", "%", "div", "^")
ARRAY_OPERATORS = ("a_equals", "a_contains", "a_containedBy", "a_overlaps")
SPATIAL = ("s_intersects", "s_equals", "s_disjoint", "s_touches", "s_within", "s_overlaps", "s_crosses", "s_contains")
TEMPORAL = tuple(
    f"t_{relation}"
    for relation in (
        *("after", "before", "contains", "disjoint", "during", "equals", "finishedBy", "finishes", "intersects"),
        *("meets", "metBy", "overlappedBy", "overlaps", "startedBy", "starts"),
    )
)

MANY = 1 << 30

#: Each operator of the standard with the fewest and the most arguments it takes.
ROLES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("and", "or"), (2, MANY)),
    **dict.fromkeys(("not", "isNull", "casei", "accenti"), (1, 1)),
    **dict.fromkeys(("in", "like", *COMPARISONS, *ARITHMETIC, *SPATIAL, *TEMPORAL), (2, 2)),
    **dict.fromkeys(("between", "s_dwithin"), (3, 3)),
    **dict.fromkeys(ARRAY_OPERATORS, (2, 3)),
}

_CANONICAL = {name.lower(): name for name in ROLES}

#: Words that are never a bare attribute name.
RESERVED = frozenset(("and", "or", "not", "like", "between", "in", "is", "null", "true", "false"))

#: Words that stand for a literal when a parenthesis follows, hence never a function.
_GEOMETRIES = ("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection")
_LITERALS = frozenset(
    ("timestamp", "date", "interval", "bbox", *_GEOMETRIES, *(kind + "z" for kind in _GEOMETRIES)),
)

_START = (
    ":_A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1ffe\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = re.compile(f"[{_START}][{_START}.0-9\u0300-\u036f\u203f\u2040]*+")


def operator(name: str) -> str:
    """The CQL2-JSON name if the standard defines the operator, whatever its case; else the name as written."""
    return _CANONICAL.get(name.lower(), name) if name.isascii() else name


def is_name(name: str, called: bool = False) -> bool:
    """Whether the grammar reads the text as one bare name, of an attribute or, if ``called``, of a function."""
    if _NAME.fullmatch(name) is None:
        return False
    word = name.lower()
    return word not in RESERVED and not (called and word in _LITERALS)


def arity_fault(op: str, count: int) -> ParseError | None:
    """The mistake of calling a standard operator with that many arguments, or None where there is none."""
    fewest, most = ROLES.get(op, (0, MANY))
    if fewest <= count <= most:
        return None
    wanted = f"{fewest} or more" if most == MANY else f"{fewest}" if fewest == most else f"{fewest} or {most}"
    return ParseError(f"{wanted} argument{'s' * (wanted != '1')} of {op}", f"{count}")
