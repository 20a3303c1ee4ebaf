"""Whether texts are as patterns of LIKE say, over UTF-8 bytes; ``predicates/like_pattern.py`` says the same in Python.

A pattern is its letters with two bytes that no UTF-8 has: ``ANY`` for ``%`` and ``ONE`` for ``_``. It is cut at
``ANY`` into stretches. The first and the last stand at the ends of the text; of those between them the first occurrence
is as good as any later one. So the text is passed once, whatever the pattern.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["ANY", "ONE", "LikePatterns", "TextBuffers", "fit_pairs", "fits"]

ANY, ONE = 0xFF, 0xFE
#: Characters of a stretch with ``ONE`` between two ``ANY``: the language allows no more, and a word has as many bits.
_WORD = 64


class LikePatterns(NamedTuple):
    """Pattern t is letters[start[t]] … letters[start[t + 1]]."""

    start: NDArray[np.int64]
    letters: NDArray[np.uint8]


class TextBuffers(NamedTuple):
    """Text i is letters[offsets[i]] … letters[offsets[i + 1]], if it is valid; else it is missing."""

    offsets: NDArray[np.int64]
    letters: NDArray[np.uint8]
    valid: NDArray[np.bool_]


@njit(cache=True, nogil=True)
def _after(text: NDArray[np.uint8], at: int, end: int) -> int:
    """Where the character at ``at`` ends."""
    at += 1
    while at < end and text[at] & 0xC0 == 0x80:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _before(text: NDArray[np.uint8], at: int, begin: int) -> int:
    """Where the character begins that ends at ``at``."""
    at -= 1
    while at > begin and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


@njit(cache=True, nogil=True)
def _found(pattern: NDArray[np.uint8], a: int, b: int, text: NDArray[np.uint8], at: int, end: int) -> int:
    """Where the letters a … b of a pattern first occur in a text from ``at`` on; −1 if nowhere."""
    size = b - a
    last, first_letter, last_letter = end - size, pattern[a], pattern[b - 1]
    spent, begin = 0, at
    while at <= last:
        if text[at] == first_letter and text[at + size - 1] == last_letter:
            k = 1
            while k < size - 1 and text[at + k] == pattern[a + k]:
                k += 1
            if k >= size - 1:
                return at
            spent += k
            if spent > 256 + 2 * (at - begin):  # it repeats itself
                return int(_found_in_one_pass(pattern, a, b, text, at + 1, end))
        at += 1
    return -1


@njit(cache=True, nogil=True)
def _found_in_one_pass(pattern: NDArray[np.uint8], a: int, b: int, text: NDArray[np.uint8], at: int, end: int) -> int:
    """``_found`` in linear time, after Knuth, Morris and Pratt 1977."""
    size = b - a
    border = np.zeros(size, np.int64)  # of the letters up to k: how many begin and end them
    k = 0
    for i in range(1, size):
        while k and pattern[a + i] != pattern[a + k]:
            k = border[k - 1]
        k += pattern[a + i] == pattern[a + k]
        border[i] = k
    k = 0
    for i in range(at, end):
        while k and text[i] != pattern[a + k]:
            k = border[k - 1]
        k += text[i] == pattern[a + k]
        if k == size:
            return i + 1 - size
    return -1


@njit(cache=True, nogil=True)
def _code_point(letters: NDArray[np.uint8], at: int, end: int) -> int:
    """A number for the character at ``at``, the same for the same character."""
    code = int(letters[at])
    at += 1
    while at < end and letters[at] & 0xC0 == 0x80:
        code = (code << 8) | int(letters[at])
        at += 1
    return code


@njit(cache=True, nogil=True)
def _wild_found(
    pattern: NDArray[np.uint8], a: int, b: int, text: NDArray[np.uint8], at: int, end: int
) -> tuple[int, int]:
    """Where the stretch a … b, which has some ``ONE``, first occurs and ends in a text; (−1, −1) if nowhere.

    Bit k of ``held`` says that the last k + 1 characters were as the first k + 1 of the stretch want them (Baeza-Yates
    and Gonnet 1992).
    """
    code = np.empty(_WORD, np.int64)
    size, anyone = 0, np.uint64(0)
    k = a
    while k < b and size < _WORD:
        if pattern[k] == ONE:
            anyone |= np.uint64(1) << np.uint64(size)
            code[size] = -1
            k += 1
        else:
            code[size] = _code_point(pattern, k, b)
            k = _after(pattern, k, b)
        size += 1
    plain = np.empty(128, np.uint64)  # for ASCII: where each letter may stand
    plain[:] = anyone
    for k in range(size):
        if 0 <= code[k] < 128:
            plain[code[k]] |= np.uint64(1) << np.uint64(k)
    begins = np.empty(size, np.int64)  # where the last characters began, in a ring
    held, number, done = np.uint64(0), 0, np.uint64(1) << np.uint64(size - 1)
    while at < end:
        begins[number % size] = at
        if text[at] < 128:
            mask = plain[text[at]]
            at += 1
        else:
            mask, here = anyone, _code_point(text, at, end)
            for k in range(size):
                if code[k] == here:
                    mask |= np.uint64(1) << np.uint64(k)
            at = _after(text, at, end)
        held = ((held << np.uint64(1)) | np.uint64(1)) & mask
        number += 1
        if held & done:
            return begins[number % size], at
    return -1, -1


@njit(cache=True, nogil=True)
def _forwards(pattern: NDArray[np.uint8], a: int, b: int, text: NDArray[np.uint8], at: int, end: int) -> int:
    """Where the stretch a … b ends that stands at ``at``; −1 if it does not stand there."""
    for k in range(a, b):
        if at >= end:
            return -1
        if pattern[k] == ONE:
            at = _after(text, at, end)
        elif text[at] == pattern[k]:
            at += 1
        else:
            return -1
    return at


@njit(cache=True, nogil=True)
def _backwards(pattern: NDArray[np.uint8], a: int, b: int, text: NDArray[np.uint8], begin: int, at: int) -> int:
    """Where the stretch a … b begins that ends at ``at``, not before ``begin``; −1 if it does not end there."""
    for k in range(b - 1, a - 1, -1):
        if at <= begin:
            return -1
        if pattern[k] == ONE:
            at = _before(text, at, begin)
        elif text[at - 1] == pattern[k]:
            at -= 1
        else:
            return -1
    return at


@njit(cache=True, nogil=True)
def fits(pattern: NDArray[np.uint8], a: int, b: int, text: NDArray[np.uint8], at: int, end: int) -> bool:
    """Whether the text at … end is as the pattern a … b says."""
    first = a
    while first < b and pattern[first] != ANY:
        first += 1
    at = _forwards(pattern, a, first, text, at, end)
    if at < 0 or first == b:
        return at == end
    last = b
    while pattern[last - 1] != ANY:
        last -= 1
    end = _backwards(pattern, last, b, text, at, end)
    if end < 0:
        return False
    a = first + 1
    while a < last:
        b, is_wild = a, False
        while pattern[b] != ANY:
            is_wild |= pattern[b] == ONE
            b += 1
        if is_wild:
            begin, at = _wild_found(pattern, a, b, text, at, end)
        elif b > a:
            begin = _found(pattern, a, b, text, at, end)
            at = begin + b - a
        else:
            begin = at
        if begin < 0:
            return False
        a = b + 1
    return True


@njit(cache=True, nogil=True)
def fit_pairs(
    publication: NDArray[np.int64],
    term: NDArray[np.int64],
    negated: NDArray[np.bool_],
    patterns: LikePatterns,
    texts: TextBuffers,
) -> NDArray[np.bool_]:
    """Whether the texts of publications are as patterns say, pair by pair, or are not if it is negated; neither is so
    of a text that is missing.
    """
    held = np.zeros(len(term), np.bool_)
    for i in range(len(term)):
        p, t = publication[i], term[i]
        if texts.valid[p]:
            held[i] = negated[i] != fits(
                patterns.letters, patterns.start[t], patterns.start[t + 1],
                texts.letters, texts.offsets[p], texts.offsets[p + 1],
            )  # fmt: skip
    return held
