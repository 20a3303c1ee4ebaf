"""Pictures of series for the terminal, in braille; none where it cannot show them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tidegate.shapes.normal_form import rendered

__all__ = ["picture"]

Numbers = NDArray[np.float64]

#: The bit of each dot of a braille character, by row and column.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_EMPTY = "\u2800"


def picture(series: tuple[float, ...] | Numbers, width: int, height: int, console: Console) -> list[str]:
    """A series as lines of braille; none where the terminal cannot show them."""
    try:
        _EMPTY.encode(console.encoding)
    except UnicodeEncodeError:
        return []
    across, high = 2 * width, 4 * height
    levels = rendered(series, across)
    span = float(levels.max() - levels.min()) or 1.0
    rows = np.rint((levels.max() - levels) / span * (high - 1)).astype(np.int64)
    dots = np.zeros((high, across), np.bool_)
    for column, row in enumerate(rows):
        before = rows[max(column - 1, 0)]
        middle = (before + row) // 2  # a steep line belongs half to this column, half to the one before
        for at, upto in ((column, row), (max(column - 1, 0), before)):
            dots[min(middle, upto) : max(middle, upto) + 1, at] = True
    cells = dots.reshape(height, 4, width, 2).transpose(0, 2, 1, 3)
    return ["".join(chr(0x2800 + int(bits)) for bits in line) for line in (cells * _DOTS).sum(axis=(2, 3))]
