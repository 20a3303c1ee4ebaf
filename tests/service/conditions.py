"""The small part of the subscription language that scripts of the service use, with a meaning of its own.

A condition is a frozen value. `holds` evaluates it by the tables of docs/LANGUAGE.md in three values, and `text` writes
it as CQL2 for the product. This module knows nothing of the product's parser or engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Always:
    """The condition that every publication satisfies."""


@dataclass(frozen=True)
class Compare:
    """A field of the publication against a constant."""

    name: str
    comparison: str
    constant: Value


@dataclass(frozen=True)
class IsNull:
    """True of a publication without the field, the only condition that a missing value satisfies."""

    name: str


@dataclass(frozen=True)
class Not:
    part: "Condition"


@dataclass(frozen=True)
class And:
    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class Or:
    parts: tuple["Condition", ...]


Condition: TypeAlias = Always | Compare | IsNull | Not | And | Or


def kind_of(value: Value) -> str:
    """Truth values are no numbers, and whole numbers and doubles are one kind."""
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are equal as values: 5 equals 5.0, and 1 does not equal TRUE."""
    return kind_of(one) == kind_of(other) and one == other


def holds(condition: Condition, fields: Mapping[str, Value]) -> bool:
    """Whether a publication with these fields satisfies the condition; unknown counts as no."""
    return verdict(condition, fields) is True


def verdict(condition: Condition, fields: Mapping[str, Value]) -> bool | None:
    """True, False, or None for unknown.

    LANGUAGE pushes NOT down to the predicates and lets a predicate on a missing value be false together with its
    negation. That is true of the same publications as three-valued logic in which such a predicate is unknown.
    """
    if isinstance(condition, Always):
        return True
    if isinstance(condition, IsNull):
        return condition.name not in fields
    if isinstance(condition, Compare):
        return compared(condition, fields)
    if isinstance(condition, Not):
        inner = verdict(condition.part, fields)
        return None if inner is None else not inner
    verdicts = [verdict(part, fields) for part in condition.parts]
    decisive = isinstance(condition, Or)  # one TRUE decides an OR, one FALSE decides an AND
    if decisive in verdicts:
        return decisive
    return None if None in verdicts else not decisive


def compared(condition: Compare, fields: Mapping[str, Value]) -> bool | None:
    value, constant = fields.get(condition.name), condition.constant
    if value is None or kind_of(value) != kind_of(constant):
        return None  # a value that the predicate cannot read is missing to it
    if value == constant:
        return condition.comparison in ("=", "<=", ">=")
    if value < constant:  # type: ignore[operator]
        return condition.comparison in ("<>", "<", "<=")
    return condition.comparison in ("<>", ">", ">=")


def text(condition: Condition) -> str:
    """The condition as CQL2 text."""
    if isinstance(condition, Always):
        return "TRUE"
    if isinstance(condition, IsNull):
        return f"{condition.name} IS NULL"
    if isinstance(condition, Compare):
        return f"{condition.name} {condition.comparison} {literal(condition.constant)}"
    if isinstance(condition, Not):
        return f"NOT ({text(condition.part)})"
    word = " AND " if isinstance(condition, And) else " OR "
    return "(" + word.join(text(part) for part in condition.parts) + ")"


def literal(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
