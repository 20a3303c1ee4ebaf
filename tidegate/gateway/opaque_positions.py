"""Positions in the log that tell nothing: for those who may not read everything, whom row numbers would tell how much
there is that they may not see.

A row number becomes another number of 64 bits by a keyed permutation (a Feistel network with BLAKE2 in four rounds).
"""

from __future__ import annotations

from hashlib import blake2b

from tidegate.errors import shown
from tidegate.gateway.problems import RequestError

__all__ = ["OpaquePositions"]

_ROUNDS, _HALF = range(4), 2**32
#: Rows are before this, so that nearly all other texts are known to be none.
_MOST = 2**48


class OpaquePositions:
    """Shows rows, from −1 on, as texts, and reads these."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def shown(self, row: int) -> str:
        left, right = divmod(row + 1, _HALF)
        for number in _ROUNDS:
            left, right = right, left ^ self._mixed(right, number)
        return f"{left:08x}{right:08x}"

    def read(self, text: str) -> int:
        try:
            left, right = divmod(int(text, 16), _HALF)
        except ValueError:
            left = _HALF
        if left < _HALF and len(text) == 16:
            for number in reversed(_ROUNDS):
                left, right = right ^ self._mixed(left, number), left
            if (row := left * _HALF + right - 1) < _MOST:
                return row
        raise RequestError(422, "parameter", "the `next` of a page before", shown(text), "after")

    def _mixed(self, half: int, number: int) -> int:
        data = half.to_bytes(4, "little") + bytes((number,))
        return int.from_bytes(blake2b(data, key=self._key, digest_size=4).digest(), "little")
