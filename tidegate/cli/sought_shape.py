"""``SoughtShape``, what ``tidegate shapes tolerance`` looks for: a shape by name, given numbers, or those of a file.

Writes the expression that looks for it. Which tolerance is good is computed in ``tidegate.shapes.tolerance``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidegate.cli.text_records import text
from tidegate.errors import SettingError, shown
from tidegate.shapes.named_shapes import FORMATS, NamedShape, find, load, near
from tidegate.shapes.normal_form import normal, rendered

__all__ = ["SoughtShape", "meant", "pattern_of"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class SoughtShape:
    """What is looked for: numbers for series of their own length or, if ``is_stretched``, control points for any."""

    label: str
    points: tuple[float, ...]
    is_stretched: bool

    def at(self, n: int) -> Numbers | None:
        """The normal form at a length; None if the numbers have another length, or no normal form."""
        if not self.is_stretched:
            return normal(self.points) if n == len(self.points) else None
        return normal(rendered(self.points, n))

    def where(self, attribute: str, length: int | None, tolerance: float, short: bool = False) -> str:
        """The expression to subscribe with; with ``short``, most of many numbers are left out for display."""
        label, mode = self.label, "" if length is None else ", 'stream'"
        if self.is_stretched and length is not None:
            mode += f", {length}"
        elif self.is_stretched and label[0] == "(":
            mode = ", 'stretched'"
        if short and len(self.points) > 8 and label[0] == "(":
            label = f"({', '.join(map(_exactly, self.points[:3]))}, …, {_exactly(self.points[-1])})"
        plain = re.fullmatch(r"[A-Za-z_]\w*", attribute, re.ASCII)
        name = attribute if plain else '"' + attribute.replace('"', '""') + '"'
        return f"shape({name}, {label}{mode}) <= {_exactly(tolerance)}"


def _exactly(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def pattern_of(given: str, is_stretched: bool) -> SoughtShape:
    """The shape that ``--pattern`` gives; with ``is_stretched`` numbers are control points."""
    if shape := find(given):
        return SoughtShape(f"'{given}'", shape.points, True)
    path, at, content = Path(given), "--pattern", given
    if _is_file(path):
        at, content = given, text(path.read_bytes(), given, SettingError)
    try:
        numbers = tuple(map(float, re.split(r"[\s,;]+", content.strip().strip("()[]").strip())))
    except ValueError:
        if at == given and path.suffix.lower() in FORMATS:
            return _only(load(path), given)
        wanted = "the name of a shape, numbers such as '0, 1, 0', or a file that exists"
        raise SettingError(wanted, shown(content) + meant(near(given)), at) from None
    try:
        NamedShape("pattern", numbers)
    except SettingError as wrong:
        wrong.at = at
        raise
    return SoughtShape(f"({', '.join(map(_exactly, numbers))})", numbers, is_stretched)


def _only(found: list[NamedShape], file: str) -> SoughtShape:
    if len(found) > 1:
        names = ", ".join(shape.name for shape in found[:5])
        raise SettingError("a file with one shape, or --file with it and a name as --pattern", names, file)
    return SoughtShape(f"'{found[0].name}'", found[0].points, True)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text of numbers may be too long for a file name
        return False


def meant(names: list[str]) -> str:
    """The end of an error message that asks whether one of some similar names was meant; empty without names."""
    return f" (did you mean {' or '.join(names)}?)" if names else ""
