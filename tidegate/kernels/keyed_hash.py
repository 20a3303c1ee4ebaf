"""SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012): a hash that nobody can aim at without its key.

The id index knows publications by it: with an open hash somebody could make an id that collides with another's. Knows
nothing of files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit

__all__ = ["hash_all", "hash_one", "keyed_hash"]

_jit = njit(cache=True, nogil=True)
_inlined = njit(cache=True, nogil=True, inline="always")


@_inlined
def _rotated(x: Any, by: int) -> Any:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@_jit
def _round(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    a = a + b
    b = _rotated(b, 13) ^ a
    a = _rotated(a, 32)
    c = c + d
    d = _rotated(d, 16) ^ c
    a = a + d
    d = _rotated(d, 21) ^ a
    c = c + b
    b = _rotated(b, 17) ^ c
    c = _rotated(c, 32)
    return a, b, c, d


@_jit
def keyed_hash(one: Any, two: Any, data: Any, size: int) -> tuple[Any, Any]:
    """The two halves of the hash of the first bytes of some data, under a key of two halves."""
    a, b = np.uint64(0x736F6D6570736575) ^ one, np.uint64(0x646F72616E646F6D) ^ two ^ np.uint64(0xEE)
    c, d = np.uint64(0x6C7967656E657261) ^ one, np.uint64(0x7465646279746573) ^ two
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[i]) << np.uint64(8 * (i & 7))
        if i & 7 == 7:
            d ^= word
            a, b, c, d = _round(a, b, c, d)
            a, b, c, d = _round(a, b, c, d)
            a ^= word
            word = np.uint64(0)
    word |= np.uint64(size & 255) << np.uint64(56)
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a ^= word
    c ^= np.uint64(0xEE)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    first = a ^ b ^ c ^ d
    b ^= np.uint64(0xDD)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return first, a ^ b ^ c ^ d


@_jit
def hash_one(key: NDArray[np.uint64], data: bytes, found: NDArray[np.uint64]) -> None:
    """Put the hash of one publication, given as the bytes that ``hash_all`` makes, into the first row of ``found``."""
    found[0, 0], found[0, 1] = keyed_hash(key[0], key[1], data, len(data))


@_jit
def hash_all(
    key: NDArray[np.uint64],
    sources: tuple[NDArray[np.int64], NDArray[np.uint8]],
    ids: tuple[NDArray[np.int64], NDArray[np.uint8]],
    phases: NDArray[np.uint8],
    found: NDArray[np.uint64],
) -> None:
    """Put the hash of each publication into its row of ``found``.

    Texts are given as offsets and letters. What is hashed is the phase, the size of the source in
    four bytes, the source and the id, so that no two publications have the same bytes.
    """
    scratch = np.empty(64, np.uint8)
    for i in range(len(found)):
        begin, id_begin = sources[0][i], ids[0][i]
        size, id_size = sources[0][i + 1] - begin, ids[0][i + 1] - id_begin
        whole = 5 + size + id_size
        if whole > len(scratch):
            scratch = np.empty(2 * whole, np.uint8)
        scratch[0] = phases[i]
        for k in range(4):
            scratch[1 + k] = (size >> (8 * k)) & 255
        for k in range(size):
            scratch[5 + k] = sources[1][begin + k]
        for k in range(id_size):
            scratch[5 + size + k] = ids[1][id_begin + k]
        found[i, 0], found[i, 1] = keyed_hash(key[0], key[1], scratch, whole)
