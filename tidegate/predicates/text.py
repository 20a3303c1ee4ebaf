r"""Text patterns: LIKE with ``%`` (any characters), ``_`` (one character) and ``\`` to escape them; CASEI and ACCENTI.

A pattern without wildcards, a prefix and a suffix are ranges, on the text or on the text read backwards, and exact. Any
other pattern has a hull of its fixed ends and is decided by comparing the text (``predicates/like_pattern.py``). The
index looks patterns up many at a time (``index/texts.py``); ``holds`` defines what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow.compute as pc

from tidegate.language.render import to_text
from tidegate.language.tree import Attribute, Call, Literal, Node, walk
from tidegate.predicates.column import Column, ColumnReading, Operand, Points, Row, Table, column, reading
from tidegate.predicates.comparison import kind_of, scalar_ranges, text_column
from tidegate.predicates.family import BeyondLimit, Mismatch, function
from tidegate.predicates.folding import folded, folding_of
from tidegate.predicates.like_pattern import WILD_LENGTH, like_pattern, pieces
from tidegate.predicates.predicate import Alternatives, Hull, Predicate, Within
from tidegate.predicates.ranges import ALL_TEXT, TOP, Point, Ranges, intersect, subset

__all__ = ["FixedEnd", "Like", "check_wildcards"]


def _text(operand: Operand, publication: Row) -> str | None:
    point = column("text", operand).point(publication)
    return point if isinstance(point, str) else None


@reading
class Reversed(ColumnReading):
    """Text read backwards, so that a suffix is a prefix."""

    name = "reversed"
    is_text = True

    def point(self, operand: Operand, publication: Row) -> Point | None:
        text = _text(operand, publication)
        return None if text is None else text[::-1]

    def points(self, operand: Operand, table: Table) -> Points | None:
        at = column("text", operand)
        texts = at.how.points(at.operand, table)
        return None if texts is None else pc.utf8_reverse(texts)

    def names(self, operand: Operand) -> tuple[str, ...]:
        return (folding_of(operand)[0],)


def _starting_with(prefix: str) -> Ranges:
    """All texts with that prefix: up to the first text after all of them."""
    for i in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[i])
        if code < 0x10FFFF:
            return ((prefix, prefix[:i] + chr(0xE000 if code == 0xD7FF else code + 1)),)
    return ((prefix, TOP),)


@lru_cache(maxsize=4_096)
def _hull(operand: Operand, pattern: str) -> Hull:
    """The fixed ends of a pattern."""
    parts = pieces(pattern)
    hull: list[tuple[Column, Ranges]] = [
        (column("text", operand), _starting_with(parts[0]) if parts[0] else ALL_TEXT),
    ]
    if parts[-1]:
        hull.append((column("reversed", operand), _starting_with(parts[-1][::-1])))
    return tuple(hull)


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """A text matches a pattern (or does not, if ``negated``); only for patterns that are no single range."""

    operand: Operand
    pattern: str
    negated: bool

    @property
    def hull(self) -> Hull:
        return ((column("text", self.operand), ALL_TEXT),) if self.negated else _hull(self.operand, self.pattern)

    def holds(self, publication: Row) -> bool:
        text = _text(self.operand, publication)
        return text is not None and like_pattern(self.pattern).fits(text) is not self.negated

    def covers(self, other: Predicate) -> bool:
        if self == other:
            return True
        if isinstance(other, Like) and other.operand == self.operand and other.negated is self.negated:
            general, special = (other, self) if self.negated else (self, other)
            return _characters(general.pattern) <= _characters(special.pattern) and _covers_pattern(
                _letters(general.pattern), _letters(special.pattern)
            )
        about = {at: r for at, r in other.hull if at.operand == self.operand and at.reading in ("text", "reversed")}
        return bool(about) and self.covers_ranges(about)

    def covers_ranges(self, known: Mapping[Column, Ranges]) -> bool:
        forwards = known.get(column("text", self.operand), ALL_TEXT)
        if all(high == low + "\0" for low, high in forwards):  # finitely many texts: try each
            fits = like_pattern(self.pattern).fits
            return all(fits(low) is not self.negated for low, _ in forwards)
        backwards = known.get(column("reversed", self.operand), ALL_TEXT)
        if forwards == backwards == ALL_TEXT:
            return False
        if self.negated:  # not one text of the ranges can match
            matched = dict(replace(self, negated=False).hull)
            read = ((column("text", self.operand), forwards), (column("reversed", self.operand), backwards))
            return any(not intersect(matched.get(at, ALL_TEXT), ranges) for at, ranges in read)
        letters = _letters(self.pattern)
        return all(_covers_pattern(letters, _beginning(*r)) for r in forwards) or all(
            _covers_pattern(letters, _beginning(*r)[::-1]) for r in backwards
        )

    def call(self) -> tuple[Call, bool]:
        operand = Attribute(self.operand) if isinstance(self.operand, str) else self.operand
        return Call("like", (operand, Literal(self.pattern))), self.negated


@dataclass(frozen=True, slots=True)
class FixedEnd(Within):
    """A text begins, or ends, with some letters: a range by itself, which the index may look up by its pattern.

    Joined with other ranges, or negated, it is a ``Within`` like any other.
    """

    pattern: str

    negated = False

    @property
    def operand(self) -> Operand:
        return self.column.operand


#: A pattern letter by letter: a character, "" for any one, None for any number of them.
Letters = tuple[str | None, ...]


@lru_cache(maxsize=65_536)
def _letters(pattern: str) -> Letters:
    """Of wildcards in a row, those for one character first: ``%_`` and ``_%`` are the same."""
    letters: list[str | None] = []
    for piece in pieces(pattern):
        if piece == "" and letters and letters[-1] is None:
            letters.insert(-1, "")
        elif piece is not None:
            letters.extend(piece or [""])
        elif not letters or letters[-1] is not None:
            letters.append(None)
    return tuple(letters)


@lru_cache(maxsize=65_536)
def _characters(pattern: str) -> frozenset[str]:
    """The characters that a pattern contains; comparing them soon shows that most patterns do not cover each other."""
    return frozenset(letter for letter in _letters(pattern) if letter)


def _beginning(low: str, high: Point) -> Letters:
    """The common beginning of all texts of a range, as a pattern."""
    if high == low + "\0":
        return tuple(low)
    shared = 0
    while isinstance(high, str) and shared < min(len(low), len(high)) and low[shared] == high[shared]:
        shared += 1
    longer = low[: shared + 1]
    known = longer if subset(((low, high),), _starting_with(longer)) else low[:shared]
    return (*known, None)


_MOST_STEPS = 4_000_000


def _covers_pattern(general: Letters, special: Letters) -> bool:
    """Whether the general pattern matches the special one read as a text in which a wildcard is a letter of its own."""
    if len(general) * len(special) > _MOST_STEPS:
        return False
    g = s = 0
    star, tried = -1, 0
    while s < len(special):
        wanted, letter = general[g] if g < len(general) else "end", special[s]
        if wanted is None:
            star, tried = g, s
            g += 1
        elif letter is not None and (wanted == "" or wanted == letter):
            g, s = g + 1, s + 1
        elif star >= 0:
            tried += 1
            g, s = star + 1, tried
        else:
            return False
    return all(wanted is None for wanted in general[g:])


def check_wildcards(pattern: str, node: Node) -> None:
    """Refuse a pattern that would take long to find in a long text; ``node`` is where it is written."""
    wild = like_pattern(pattern).longest_wild
    if wild > WILD_LENGTH:
        raise BeyondLimit(f"at most {WILD_LENGTH} characters with a _ among them between two %", f"{wild}", node)


_LIKE = {"like": "message LIKE '%Failed password%'"}


@function("text", _LIKE, (2, 2))
def like(call: Call, negated: bool) -> Alternatives:
    value, pattern = call.args
    folding: tuple[str, ...] = ()
    literal = pattern
    while isinstance(literal, Call) and literal.op in ("casei", "accenti"):
        folding, literal = (literal.op, *folding), literal.args[0]
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        raise Mismatch("a pattern in quotes after LIKE", to_text(pattern), pattern)
    if kind_of(value) not in ("text", "any") or not any(isinstance(part, Attribute) for part in walk(value)):
        raise Mismatch("a text attribute before LIKE", to_text(value), value)
    at = text_column(value)
    wanted = folded(literal.value, folding)
    parts = pieces(wanted)
    match parts:
        case () | (None,):
            exact = Within(at, ALL_TEXT if parts else scalar_ranges("=", Literal(""), "text"))
        case (str(whole),) if whole:
            exact = Within(at, scalar_ranges("=", Literal(whole), "text"))
        case (str(prefix), None) if prefix:
            exact = FixedEnd(at, _starting_with(prefix), wanted)
        case (None, str(suffix)) if suffix:
            exact = FixedEnd(text_column(value, "reversed"), _starting_with(suffix[::-1]), wanted)
        case _:
            check_wildcards(wanted, pattern)
            return [(Like(at.operand, wanted, negated),)]
    return [(exact.negation() if negated else exact,)]
