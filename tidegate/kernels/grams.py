"""Patterns of LIKE by their rarest gram: which of very many a text can be as, in one pass over its bytes.

A *gram* is some bytes in a row of a literal piece of a pattern: 8 where the piece has as many, else 6, 4, 3, 2 or 1.
Each pattern is found by one gram, that which fewest patterns share and, of these, the one of the rarest letters. A text
is passed once: at each place the hash of the next bytes, for each size of grams there is, is looked for in a filter of
bits, and if it is there among the grams of its bucket. The patterns of a gram that is met are first compared with what
stands around it. If that does not decide it, they are compared with the text as a whole (``kernels/like.py``), once per
text, however often the gram occurs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.like import ANY, ONE, LikePatterns, TextBuffers, fits

__all__ = ["SIZES", "Grams", "fill_filter", "find", "longest_pieces", "rarest_grams"]

#: Bytes of a gram, by the number of its size.
SIZES = np.array([1, 2, 3, 4, 6, 8])
_MASKS = np.array([(1 << 8 * size) - 1 for size in SIZES.tolist()], np.uint64)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SALT = np.uint64(0xD6E8FEB86659FD93)
#: Letters of English and of logs, commonest first; all others are rarer.
_COMMON = b" etaoinsrhldcumfpgwybvkxjqz"
_RARITY = np.full(256, len(_COMMON), np.int64)
_RARITY[np.frombuffer(_COMMON, np.uint8)] = np.arange(len(_COMMON))


#: Letters on either side of a gram that are compared before the text as a whole is.
_NEAR = 24
#: What the letters around a gram say of a pattern.
_NO, _MAYBE, _YES = 0, 1, 2


class Grams(NamedTuple):
    """Grams by hash, and their patterns. The arrays ``filter`` and ``bucket`` are as long as powers of two say."""

    filter: NDArray[np.uint64]
    """A bit by the first bits of each hash."""
    bucket: NDArray[np.int32]
    """The grams bucket[h] … bucket[h + 1] have hashes that begin with h."""
    key: NDArray[np.uint64]
    """The hash of each gram, in ascending order."""
    start: NDArray[np.int32]
    pattern: NDArray[np.int32]
    """The patterns of gram g are pattern[start[g]] … pattern[start[g + 1]]."""
    place: NDArray[np.int32]
    """Where the gram begins in each of these patterns."""


@njit(cache=True, nogil=True)
def _salt(size: int, operand: int) -> Any:
    """What makes the hashes of grams differ by the number of their size and by operand."""
    return np.uint64(len(_MASKS) * operand + size + 1) * _SALT


@njit(cache=True, nogil=True)
def _hashed(window: Any, mask: Any, salt: Any) -> Any:
    """The hash of a gram, of which ``window`` has the bytes and maybe more, which ``mask`` leaves out."""
    mixed = ((window & mask) ^ salt) * _MIX
    return (mixed ^ (mixed >> np.uint64(29))) * _MIX


@njit(cache=True, nogil=True)
def _window(letters: NDArray[np.uint8], at: int, end: int) -> np.uint64:
    """The next eight bytes, zeros behind the end."""
    window = np.uint64(0)
    for k in range(min(8, end - at)):
        window |= np.uint64(letters[at + k]) << np.uint64(8 * k)
    return window


@njit(cache=True, nogil=True)
def longest_pieces(patterns: LikePatterns) -> NDArray[np.int64]:
    """The number of bytes of the longest literal piece of each pattern."""
    longest = np.zeros(len(patterns.start) - 1, np.int64)
    for t in range(len(longest)):
        size = 0
        for k in range(patterns.start[t], patterns.start[t + 1]):
            size = 0 if patterns.letters[k] >= ONE else size + 1
            longest[t] = max(longest[t], size)
    return longest


@njit(cache=True, nogil=True)
def rarest_grams(
    patterns: LikePatterns,
    operand: NDArray[np.uint16],
    size: NDArray[np.int64],
    some: NDArray[np.int64],
    count_bits: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """The hash of the gram by which each of some patterns is found, and where it begins in the pattern.

    ``size`` has the number of its size, by pattern. How many patterns share a gram is counted by the first
    ``count_bits`` bits of its hash.
    """
    shift = np.uint64(64 - count_bits)
    counted = np.zeros(1 << count_bits, np.int32)
    key, place = np.zeros(len(some), np.uint64), np.zeros(len(some), np.int32)
    for counts in (True, False):
        for i in range(len(some)):
            t = some[i]
            wide, end = SIZES[size[t]], patterns.start[t + 1]
            fewest, rarest, piece = -1, -1, 0
            for k in range(patterns.start[t], end):
                piece = 0 if patterns.letters[k] >= ONE else piece + 1
                if piece < wide:
                    continue
                window = _window(patterns.letters, k + 1 - wide, end)
                h = _hashed(window, _MASKS[size[t]], _salt(size[t], operand[t]))
                if counts:
                    counted[h >> shift] += 1
                    continue
                rarity = 0
                for j in range(k + 1 - wide, k + 1):
                    rarity += _RARITY[patterns.letters[j]]
                shared = counted[h >> shift]
                if fewest < 0 or shared < fewest or (shared == fewest and rarity > rarest):
                    fewest, rarest, key[i], place[i] = shared, rarity, h, k + 1 - wide - patterns.start[t]
    return key, place


@njit(cache=True, nogil=True)
def fill_filter(key: NDArray[np.uint64], filter: NDArray[np.uint64], bits: int) -> None:
    """Set the bit of each hash in a filter of 2^bits bits."""
    for i in range(len(key)):
        h = key[i] >> np.uint64(64 - bits)
        filter[h >> np.uint64(6)] |= np.uint64(1) << (h & np.uint64(63))


@njit(cache=True, nogil=True)
def _around(
    pattern: NDArray[np.uint8], a: int, b: int, place: int, text: NDArray[np.uint8], begin: int, end: int, at: int
) -> int:
    """Whether the text begin … end can be as the pattern a … b says, of which letter ``place`` stands at ``at``.

    Only the literal piece around that letter is compared, and no more than some letters of it. That is all there is to
    say if the pattern has no other piece and no ``ONE``.
    """
    i, j = place - 1, at - 1
    while i >= a and pattern[i] < ONE and place - i <= _NEAR:
        if j < begin or text[j] != pattern[i]:
            return _NO
        i, j = i - 1, j - 1
    if i < a and j >= begin:
        return _NO
    decided = i < a or (i == a and pattern[i] == ANY)
    i, j = place, at
    while i < b and pattern[i] < ONE and i - place <= _NEAR:
        if j >= end or text[j] != pattern[i]:
            return _NO
        i, j = i + 1, j + 1
    if i == b and j < end:
        return _NO
    decided &= i == b or (i == b - 1 and pattern[i] == ANY)
    return _YES if decided else _MAYBE


@njit(cache=True, nogil=True)
def find(
    texts: TextBuffers,
    operand: int,
    sizes: int,
    grams: Grams,
    patterns: LikePatterns,
    stamps: NDArray[np.int64],
    stamp: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of a publication and a pattern that its text of this operand is as, publications in ascending order.

    ``sizes`` has a bit for each size of grams there is. ``stamps``, by place in ``Grams.pattern``, are all less than
    ``stamp``; afterwards they are less than ``stamp`` plus the number of texts.
    """
    filter_shift = np.uint64(64 - int(np.log2(64 * len(grams.filter)) + 0.5))
    bucket_shift = np.uint64(64 - int(np.log2(len(grams.bucket) - 1) + 0.5))
    publication, found = np.empty(len(texts.valid) + 16, np.int64), np.empty(len(texts.valid) + 16, np.int64)
    n = 0
    letters = texts.letters
    wide, mask, salt = np.empty(len(_MASKS), np.int64), _MASKS.copy(), np.empty(len(_MASKS), np.uint64)
    count = 0
    for size in range(len(_MASKS)):
        if sizes >> size & 1:
            wide[count], mask[count], salt[count] = SIZES[size], _MASKS[size], _salt(size, operand)
            count += 1
    for p in range(len(texts.valid)):
        if not texts.valid[p]:
            continue
        begin, end = texts.offsets[p], texts.offsets[p + 1]
        window = _window(letters, begin, end)
        for at in range(begin, end):
            for c in range(count):
                if at + wide[c] > end:
                    break
                h = _hashed(window, mask[c], salt[c])
                bit = h >> filter_shift
                if not grams.filter[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1):
                    continue
                b = h >> bucket_shift
                for g in range(grams.bucket[b], grams.bucket[b + np.uint64(1)]):
                    if grams.key[g] != h:
                        continue
                    for k in range(grams.start[g], grams.start[g + 1]):
                        if stamps[k] == stamp + p:
                            continue
                        t = grams.pattern[k]
                        a, b = patterns.start[t], patterns.start[t + 1]
                        near = _around(patterns.letters, a, b, a + grams.place[k], letters, begin, end, at)
                        if near == _NO:
                            continue
                        stamps[k] = stamp + p
                        if near == _YES or fits(patterns.letters, a, b, letters, begin, end):
                            if n == len(found):
                                publication = np.concatenate((publication, np.empty_like(publication)))
                                found = np.concatenate((found, np.empty_like(found)))
                            publication[n], found[n] = p, t
                            n += 1
            window >>= np.uint64(8)
            if at + 8 < end:
                window |= np.uint64(letters[at + 8]) << np.uint64(56)
    return publication[:n], found[:n]
