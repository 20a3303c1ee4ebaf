"""Shapes that have names: those that are built in, and users' own from a file (``load``).

A ``NamedShape`` is a few control points; the code that compares it decides at how many numbers it is rendered. Knows
nothing of expressions, whose compiler calls ``find`` with a name.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import isfinite
from pathlib import Path
from typing import Any

from tidegate.errors import SettingError, shown
from tidegate.shapes.normal_form import LONGEST, SHORTEST

__all__ = ["FORMATS", "NamedShape", "everything", "find", "load", "near", "own", "use"]

#: Endings of files of shapes.
FORMATS = (".toml", ".csv")
#: Characters of a name, and of what it means.
NAME_LENGTH, MEANING_LENGTH = 64, 1024

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
#: Words that say in an expression how a shape is compared.
_WORDS = ("stream", "stretched")
#: How alike a name must be to be suggested, of 1.
_ALIKE = 0.7


@dataclass(frozen=True)
class NamedShape:
    """A shape: control points, evenly spaced, and what it means to those who look for it."""

    name: str
    points: tuple[float, ...]
    meaning: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or len(self.name) > NAME_LENGTH or not _NAME.fullmatch(self.name):
            wanted = f"a name of small letters, digits and hyphens between them, {NAME_LENGTH} characters at most"
            raise SettingError(wanted, shown(self.name))
        if self.name in _WORDS:
            raise SettingError(f"a name other than {' and '.join(map(repr, _WORDS))}", shown(self.name))
        if not SHORTEST <= len(self.points) <= LONGEST:
            raise SettingError(f"{SHORTEST} to {LONGEST:,} numbers as points", f"{len(self.points):,}")
        object.__setattr__(self, "points", tuple(_number(point) for point in self.points))
        if min(self.points) == max(self.points):
            raise SettingError("points that are not all equal", f"{len(self.points)} times {shown(self.points[0])}")
        if not isinstance(self.meaning, str) or len(self.meaning) > MEANING_LENGTH:
            raise SettingError(f"text of {MEANING_LENGTH:,} characters at most as meaning", shown(self.meaning))


def _number(point: object) -> float:
    if isinstance(point, bool) or not isinstance(point, int | float):
        raise SettingError("numbers as points", shown(point))
    try:
        found = float(point)
    except OverflowError:
        raise SettingError("numbers as points that doubles can hold", shown(point)) from None
    if not isfinite(found):
        raise SettingError("finite numbers as points", shown(point))
    return found


# --- the library ----------------------------------------------------------------------------------------------------

_THREE_WAVES = (0, 0.5, 0.87, 1, 0.87, 0.5, 0, -0.5, -0.87, -1, -0.87, -0.5) * 3 + (0,)

#: Those that are always there, in the order they are listed.
_BUILT_IN = {
    shape.name: shape
    for shape in (
        NamedShape(
            "head-and-shoulders", (0, 2, 1, 3, 1, 2, 0), "three peaks, the middle one highest: a rise comes to its end"
        ),
        NamedShape(
            "inverse-head-and-shoulders",
            (3, 1, 2, 0, 2, 1, 3),
            "three troughs, the middle one lowest: a fall comes to its end",
        ),
        NamedShape(
            "double-top", (0, 2, 1.2, 2, 0), "two peaks of one height: twice up against the same limit, then down"
        ),
        NamedShape(
            "double-bottom", (2, 0, 0.8, 0, 2), "two troughs of one depth: twice down to the same floor, then up"
        ),
        NamedShape(
            "cup-and-handle",
            (10, 6.4, 3.6, 1.6, 0.4, 0, 0.4, 1.6, 3.6, 6.4, 10, 8.6, 7.8, 8.6, 11),
            "a round trough, a small dip after it, then out at the top",
        ),
        NamedShape(
            "flag",
            (0, 2, 4, 6, 8, 10, 9, 9.6, 8.6, 9.2, 8.2, 8.8, 7.8),
            "a steep rise, then a pause that drifts down a little",
        ),
        NamedShape("rising-wedge", (0, 4, 1.5, 5, 3, 6, 4.5, 7, 6), "swings that rise and become smaller"),
        NamedShape("spike", (0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0), "level, for a moment far above, level again: a peak"),
        NamedShape("dip", (1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1), "level, for a moment far below, level again"),
        NamedShape("step-up", (0,) * 10 + (1,) * 10, "level, then level higher up: a switch, a new setting"),
        NamedShape("step-down", (1,) * 10 + (0,) * 10, "level, then a drop to another level: something was turned off"),
        NamedShape("ramp-up", (0, 1, 2), "a steady rise"),
        NamedShape("ramp-down", (2, 1, 0), "a steady fall"),
        NamedShape(
            "plateau",
            (0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0),
            "up, level for a while, down again: a machine that ran",
        ),
        NamedShape(
            "hill",
            (0, 3.6, 6.4, 8.4, 9.6, 10, 9.6, 8.4, 6.4, 3.6, 0),
            "a round rise and fall, a bump: a day's temperature",
        ),
        NamedShape("valley", (10, 6.4, 3.6, 1.6, 0.4, 0, 0.4, 1.6, 3.6, 6.4, 10), "a round fall and rise: a u-shape"),
        NamedShape(
            "decay",
            (0, 0, 0, 16, 11.3, 8, 5.7, 4, 2.8, 2, 1.4, 1, 0.7, 0.5, 0.4, 0.3),
            "a jump that dies away: a kettle that cools",
        ),
        NamedShape(
            "saturation",
            (0, 6.3, 8.6, 9.5, 9.8, 9.9, 10),
            "a rise that slows until it is level: a battery that charges",
        ),
        NamedShape("oscillation", _THREE_WAVES, "three waves of one height"),
    )
}

_OWN: dict[str, NamedShape] = {}


def find(name: str) -> NamedShape | None:
    """The shape of that name."""
    return _BUILT_IN.get(name) or _OWN.get(name)


def everything() -> list[NamedShape]:
    """Every shape there is: those that are always there, then users' own as they came."""
    return [*_BUILT_IN.values(), *_OWN.values()]


def own() -> list[NamedShape]:
    """Users' own, as they came."""
    return list(_OWN.values())


def near(name: str) -> list[str]:
    """Names that may have been meant, the likeliest first, three at most."""
    meant = re.sub(r"[\s_]+", "-", name.strip().lower())

    def alike(shape: NamedShape) -> float:
        within = bool(meant) and any(meant in text or text in meant for text in (shape.name, shape.meaning) if text)
        words = (shape.name, *(word for word in shape.name.split("-") if len(word) > 3))
        return max(SequenceMatcher(None, meant, word).ratio() for word in words) + within

    ranked = sorted(((alike(shape), shape.name) for shape in everything()), key=lambda pair: -pair[0])
    return [known for score, known in ranked if score >= _ALIKE][:3]


@contextmanager
def use(*shapes: NamedShape) -> Iterator[None]:
    """Add shapes for the body of a ``with`` statement; after it the library is as before, whatever was loaded in it."""
    before = dict(_OWN)
    try:
        _add([(shape, "") for shape in shapes])
        yield
    finally:
        _OWN.clear()
        _OWN.update(before)


def _add(shapes: list[tuple[NamedShape, str]]) -> None:
    """Add all shapes, or none if one of them is refused; each comes with its place in the file, for the error."""
    added: dict[str, NamedShape] = {}
    for shape, at in shapes:
        if shape.name in _BUILT_IN:
            raise SettingError("a name that no built-in shape has", shown(shape.name), at)
        if shape.name in added:
            raise SettingError("each name once", f"{shown(shape.name)} again", at)
        # A file may be loaded again, but an expression may not change its meaning by that.
        if _OWN.get(shape.name, shape).points != shape.points:
            raise SettingError("each name once", f"{shown(shape.name)} again, with other points than before", at)
        added[shape.name] = shape
    _OWN.update(added)


# --- users' own -----------------------------------------------------------------------------------------------------


def load(path: str | Path) -> list[NamedShape]:
    """The shapes of a TOML or CSV file, which expressions may use from now on.

    TOML has tables ``[shapes.my-shape]`` with ``points`` and, if wanted, ``meaning``; a row of CSV has a name, then
    numbers.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"a file of shapes that ends in {' or '.join(FORMATS)}", shown(path.name))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise SettingError("text in UTF-8", f"the byte 0x{wrong.object[wrong.start]:02x}", str(path)) from None
    except OSError as wrong:
        raise SettingError("a file of shapes", f"{wrong.strerror or wrong}", str(path)) from None
    rows = _toml(text, path) if path.suffix.lower() == ".toml" else _csv(text, path)
    found: list[tuple[NamedShape, str]] = []
    for name, points, meaning, at in rows:
        try:
            found.append((NamedShape(name, tuple(points), meaning), at))
        except SettingError as wrong:
            wrong.at = at
            raise
    if not found:
        raise SettingError("a shape at least", "a file without any", str(path))
    _add(found)
    return [shape for shape, _ in found]


_Row = tuple[str, Sequence[Any], Any, str]


def _toml(text: str, path: Path) -> Iterator[_Row]:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise SettingError("TOML", f"{wrong}", str(path)) from None
    tables = content.get("shapes", {})
    if not isinstance(tables, dict) or content.keys() - {"shapes"}:
        other = next(iter(content.keys() - {"shapes"}), "shapes")
        raise SettingError("tables [shapes.NAME]", f"{other} = {shown(content[other])}", str(path))
    for name, table in tables.items():
        at = f"{path}, shapes.{name}"
        if not isinstance(table, dict) or not isinstance(table.get("points"), list):
            raise SettingError("a table with points = [numbers]", shown(table), at)
        if unknown := table.keys() - {"points", "meaning"}:
            raise SettingError("points and meaning only", shown(min(unknown)), at)
        yield name, table["points"], table.get("meaning", ""), at


def _csv(text: str, path: Path) -> Iterator[_Row]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True, skipinitialspace=True)
    try:
        for row in reader:
            at = f"{path}, line {reader.line_num}"
            name, *cells = (cell.strip() for cell in row) if row else ("",)
            while cells and not cells[-1]:  # spreadsheets fill short rows with empty cells
                cells.pop()
            if name or cells:
                yield name, [_parsed(cell, at) for cell in cells], "", at
    except csv.Error as wrong:
        raise SettingError("a row of CSV", f"{wrong}", f"{path}, line {reader.line_num}") from None


def _parsed(cell: str, at: str) -> float:
    try:
        return float(cell if cell.isascii() and "_" not in cell else "no number")
    except ValueError:
        raise SettingError("numbers after the name", shown(cell), at) from None
