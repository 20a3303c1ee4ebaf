"""Which keys make Spark give each shard a partition of its own.

Spark places a key by its hash (Murmur3, as in ``org.apache.spark.unsafe.hash.Murmur3_x86_32``), and 0 and 1 would share
one of two partitions.
"""

from __future__ import annotations

__all__ = ["keys"]

_ALL = 0xFFFFFFFF


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & _ALL


def _hash(number: int, seed: int = 42) -> int:
    """Spark's hash of an int, without its sign."""
    k = _rotated(number * 0xCC9E2D51 & _ALL, 15) * 0x1B873593 & _ALL
    h = (_rotated(seed ^ k, 13) * 5 + 0xE6546B64) & _ALL
    h ^= 4  # bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & _ALL
    h = (h ^ h >> 13) * 0xC2B2AE35 & _ALL
    return h ^ h >> 16


def keys(shards: int) -> tuple[int, ...]:
    """For each of so many partitions the smallest key that Spark puts there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < shards:
        signed = _hash(number) - (1 << 32 if _hash(number) >> 31 else 0)
        found.setdefault(signed % shards, number)
        number += 1
    return tuple(found[partition] for partition in range(shards))
