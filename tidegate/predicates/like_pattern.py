r"""Patterns of LIKE: ``%`` for any characters, ``_`` for one, ``\`` to escape them; ``like_pattern(p).fits(text)``.

A pattern is cut at its ``%`` into stretches of fixed length. The first and the last stand at the ends of a text, and of
those between them the first occurrence is as good as any later one. So no search is ever taken up again, and
``%a%a%a%b%`` costs one pass. Nothing here knows of predicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

__all__ = ["WILD_LENGTH", "LikePattern", "like_pattern", "pieces"]

#: Characters of a stretch with ``_`` between two ``%``: each takes a pass over the text.
WILD_LENGTH = 64
#: Characters up to which a regular expression finds a stretch faster than bits do.
_SHORT = 256


@lru_cache(maxsize=65_536)
def pieces(pattern: str) -> tuple[str | None, ...]:
    """The pattern as literal pieces, None for ``%`` and one-character wildcards as ``""``."""
    found: list[str | None] = []
    literal: list[str] = []
    characters = iter(pattern)
    for c in characters:
        if c == "\\":
            literal.append(next(characters, "\\"))
        elif c in "%_":
            if literal:
                found.append("".join(literal))
                literal = []
            wildcard = None if c == "%" else ""
            if wildcard is not None or not found or found[-1] is not None:
                found.append(wildcard)
        else:
            literal.append(c)
    if literal:
        found.append("".join(literal))
    return tuple(found)


class _Wild:
    """A stretch of fixed length in which some characters may be any."""

    __slots__ = ("_letters", "_regex", "length")

    def __init__(self, parts: list[str]) -> None:
        self._regex = re.compile("".join(re.escape(part) or "." for part in parts), re.DOTALL)
        self._letters: dict[str, list[int]] = {}
        """Where each letter must stand."""
        self.length = 0
        for part in parts:
            for letter in part:
                self._letters.setdefault(letter, []).append(self.length)
                self.length += 1
            self.length += not part

    def is_at(self, text: str, at: int) -> bool:
        return self._regex.match(text, at) is not None

    def find(self, text: str, begin: int, end: int) -> int:
        if end - begin > _SHORT:
            return self._find_in_long(text, begin, end)
        found = self._regex.search(text, begin, end)
        return -1 if found is None else found.start()

    def _find_in_long(self, text: str, begin: int, end: int) -> int:
        """The same with all places of the text at once, as bits: those where each letter stands, moved and joined."""
        codes = np.frombuffer(text[begin:end].encode("utf-32-le", "surrogatepass"), np.uint32)
        found = (1 << max(0, len(codes) - self.length + 1)) - 1
        for letter, places in self._letters.items():
            stands = int.from_bytes(np.packbits(codes == ord(letter), bitorder="little").tobytes(), "little")
            for place in places:
                found &= stands >> place
        return begin + (found & -found).bit_length() - 1 if found else -1


class LikePattern:
    """A pattern, ready to be compared with many texts: ``fits`` says whether a whole text is as the pattern says."""

    __slots__ = ("fits", "longest_wild")

    def __init__(self, pattern: str) -> None:
        parts: list[list[str]] = [[]]
        for piece in pieces(pattern):
            if piece is None:
                parts.append([])
            else:
                parts[-1].append(piece)
        wild = [_Wild(some) for some in parts[1:-1] if "" in some]
        self.longest_wild = max((stretch.length for stretch in wild), default=0)
        """Characters of the longest stretch with ``_`` that is searched; 0 if there is none."""
        if any("" in some for some in parts):
            self.fits = _fits_wild([_Wild(some) for some in parts])
        else:
            self.fits = _fits_plain(["".join(some) for some in parts])


Fits = Callable[[str], bool]


def _fits_plain(stretches: list[str]) -> Fits:
    """For a pattern with no other wildcards than ``%``. Texts are searched in time linear in their length."""
    first, *middle = stretches
    if not middle:
        return lambda text: text == first
    last = middle.pop()
    if not first and not last and len(middle) == 1:
        return lambda text: middle[0] in text
    begin, behind = len(first), len(last)
    shortest = sum(map(len, stretches))

    def fits(text: str) -> bool:
        at, end = begin, len(text) - behind
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        for stretch in middle:
            at = text.find(stretch, at, end)
            if at < 0:
                return False
            at += len(stretch)
        return True

    return fits


def _fits_wild(stretches: list[_Wild]) -> Fits:
    first, *middle = stretches
    last = middle.pop() if middle else None
    shortest = sum(stretch.length for stretch in stretches)

    def fits(text: str) -> bool:
        if len(text) < shortest or (first.length and not first.is_at(text, 0)):
            return False
        if last is None:
            return len(text) == shortest
        at, end = first.length, len(text) - last.length
        if last.length and not last.is_at(text, end):
            return False
        for stretch in middle:
            at = stretch.find(text, at, end)
            if at < 0:
                return False
            at += stretch.length
        return True

    return fits


@lru_cache(maxsize=65_536)
def like_pattern(pattern: str) -> LikePattern:
    """The pattern, from a cache."""
    return LikePattern(pattern)
