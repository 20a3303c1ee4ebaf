"""What ``tidegate shapes tolerance`` looks for: a shape by its name, numbers as they are given, or those of a file.

Knows how to write the expression that looks for it; which tolerance is good is not its matter.
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
    """What is looked for: numbers of their own length, or control points for any."""

    label: str
    points: tuple[float, ...]
    is_stretched: bool

    def at(self, n: int) -> Numbers | None:
        """The normal form at a length, where the pattern has one."""
        if not self.is_stretched:
            return normal(self.points) if n == len(self.points) else None
        return normal(rendered(self.points, n))

    def where(self, attribute: str, length: int | None, tolerance: float, short: bool = False) -> str:
        """The expression to subscribe with; a short one leaves out most of many numbers."""
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
    """What is given as ``--pattern``; with ``is_stretched`` numbers are control points."""
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
    except (OSError, ValueError):  # numbers may be longer than any name of a file
        return False


def meant(names: list[str]) -> str:
    """A question after what was got, where something like it is known."""
    return f" (did you mean {' or '.join(names)}?)" if names else ""
