"""Draws counties and what happens in them as SVG. Knows of no engine and of no file.

All maps share one plane, 1,000 units wide; a picture of a part is a window onto it. Colours are CSS variables, so that
a picture is readable on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from math import cos, hypot, radians

from examples.severe_weather.counties import State

__all__ = ["LEGEND", "STYLE", "Atlas", "Box", "Scene", "identity", "key", "sheet"]

#: x, y, width and height in units of the plane.
Box = tuple[float, float, float, float]

STYLE = """
:root { --page: #ffffff; --ink: #1c2128; --muted: #5d6673; --land: #f3f1ea; --line: #bdb7a8; --new: #f0a202;
  --earlier: #fae0a3; --told: #0b5cad; --toldland: #cfe3f7; --halo: #ffffff; --lit: #1c2128; }
@media (prefers-color-scheme: dark) { :root { --page: #15181d; --ink: #e9ebee; --muted: #a3acb8; --land: #262b33;
  --line: #4b535f; --new: #d98e04; --earlier: #6f5520; --told: #7cc0ff; --toldland: #1d3f63; --halo: #15181d;
  --lit: #ffffff; } }
svg { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
.sea { fill: var(--page); }
.county { fill: var(--land); stroke: var(--line); stroke-width: 0.8; }
.county.earlier { fill: var(--earlier); }
.county.new { fill: var(--new); }
.county.both { fill: url(#both); }
.county.told { fill: var(--toldland); }
.ring { fill: none; stroke: var(--told); stroke-width: 3; stroke-linejoin: round; }
.name { fill: var(--muted); text-anchor: middle; pointer-events: none; paint-order: stroke; stroke-width: .2em; }
.name.earlier, .name.both { fill: var(--lit); font-weight: 600; stroke: var(--earlier); }
.name.new { fill: #1c2128; font-weight: 600; stroke: var(--new); }
.name.told { fill: var(--lit); font-weight: 600; stroke: var(--toldland); }
.name.who { fill: var(--ink); font-weight: 600; }
.name.who.new { fill: #1c2128; }
.way { fill: none; stroke: var(--ink); stroke-width: 2.2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.way.under { stroke: var(--halo); stroke-width: 5; opacity: 0.75; }
.head, .dot { fill: var(--ink); stroke: var(--halo); stroke-width: 1; vector-effect: non-scaling-stroke; }
.title { fill: var(--ink); font-weight: 600; }
.text { fill: var(--ink); }
.quiet { fill: var(--muted); }
"""

#: Class and meaning of what is on a map.
LEGEND = {
    "new": "warning that starts now",
    "earlier": "warning that runs already",
    "both": "both",
    "told": "subscriber who is told",
}


@dataclass(frozen=True)
class Scene:
    """What a map shows: counties with a new warning, with an earlier one, those told, and ways that storms take."""

    new: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    ways: tuple[tuple[str, ...], ...] = ()
    people: Mapping[str, str] | None = None
    """Names to write into counties, by term."""


class Atlas:
    """The plane and the counties on it."""

    def __init__(self, state: State) -> None:
        self.state = state
        points = [point for county in state.counties.values() for point in county.outline]
        self._west, self._north = min(lon for lon, _ in points), max(lat for _, lat in points)
        south, east = min(lat for _, lat in points), max(lon for lon, _ in points)
        self._narrow = cos(radians((south + self._north) / 2))
        self._scale = 1000 / ((east - self._west) * self._narrow)
        self.height = (self._north - south) * self._scale

    def on_plane(self, point: tuple[float, float]) -> tuple[float, float]:
        """Longitude and latitude as x and y."""
        return (point[0] - self._west) * self._narrow * self._scale, (self._north - point[1]) * self._scale

    def centre(self, term: str) -> tuple[float, float]:
        """Of a county, on the plane."""
        return self.on_plane(self.state.counties[term].centre)

    def around(self, terms: Iterable[str], margin: float = 14) -> Box:
        """The window that just holds the counties, within the plane."""
        points = [self.on_plane(point) for term in terms for point in self.state.counties[term].outline]
        left, top = max(min(x for x, _ in points) - margin, -6), max(min(y for _, y in points) - margin, -6)
        right = min(max(x for x, _ in points) + margin, 1006)
        return left, top, right - left, min(max(y for _, y in points) + margin, self.height + 6) - top

    @property
    def whole(self) -> Box:
        """The window onto everything."""
        return -6, -6, 1012, self.height + 12

    def definitions(self) -> str:
        """What maps refer to: each outline once, and the hatching."""
        made = []
        for term, county in self.state.counties.items():
            points = [self.on_plane(point) for point in county.outline]
            line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points[:-1])
            made.append(f'<path id="{identity(term)}" vector-effect="non-scaling-stroke" d="M{line}Z"/>')
        hatching = (
            '<pattern id="both" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<rect width="9" height="9" style="fill:var(--new)"/>'
            '<rect width="3.5" height="9" style="fill:var(--earlier)"/></pattern>'
        )
        return f"<defs>{hatching}{''.join(made)}</defs>"

    def map(self, scene: Scene, box: Box, pixels: float) -> str:
        """The inside of a map that is shown so many pixels wide."""
        unit = box[2] / pixels
        shown = [term for term in self.state.counties if self._within(term, box)]
        made = [f'<use href="#{identity(term)}" class="county {_class(scene, term)}"/>' for term in shown]
        made += [f'<use href="#{identity(term)}" class="ring"/>' for term in shown if term in scene.told]
        made += [self._way(way, unit) for way in scene.ways]
        for term in shown:
            x, y = self.centre(term)
            kind, below = _class(scene, term), 17 if any(term in way for way in scene.ways) else 4
            made.append(_text(self.state.counties[term].name, f"name {kind}", x, y + below * unit, 11 * unit))
            if scene.people and term in scene.people:
                made.append(_text(scene.people[term], f"name who {kind}", x, y + (below + 16) * unit, 13 * unit))
        return "".join(made)

    def live(self, pixels: float) -> str:
        """The inside of a map of everything that a script changes: areas m-…, rings r-…, names n-… and ways."""
        unit = self.whole[2] / pixels
        made = [
            f'<use id="m-{identity(term)}" href="#{identity(term)}" class="county"/>' for term in self.state.counties
        ]
        made += [
            f'<use id="r-{identity(term)}" href="#{identity(term)}" class="ring" style="display:none"/>'
            for term in self.state.counties
        ]
        made.append('<g id="ways"></g>')
        for term, county in self.state.counties.items():
            x, y = self.centre(term)
            made.append(_text(county.name, "name", x, y + 3.5 * unit, 9.5 * unit, f"n-{identity(term)}"))
        return "".join(made)

    def ways(self, ways: Iterable[tuple[str, ...]], pixels: float) -> str:
        """For the map of everything."""
        return "".join(self._way(way, self.whole[2] / pixels) for way in ways)

    def _within(self, term: str, box: Box) -> bool:
        """Whether some of it is in the window; its name may still be cut off."""
        points = [self.on_plane(point) for point in self.state.counties[term].outline]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        left, top, width, height = box
        return min(xs) < left + width and max(xs) > left and min(ys) < top + height and max(ys) > top

    def _way(self, way: tuple[str, ...], unit: float) -> str:
        """From centre to centre, with a dot where it begins and a head where it leads to."""
        points = [self.centre(term) for term in way]
        (x0, y0), (x1, y1) = points[-2:]
        long = hypot(x1 - x0, y1 - y0)
        dx, dy = (x1 - x0) / long * unit, (y1 - y0) / long * unit
        points[-1] = (x1 - 5 * dx, y1 - 5 * dy)
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        head = [
            (x1 + 4 * dx, y1 + 4 * dy),
            (x1 - 8 * dx - 6 * dy, y1 - 8 * dy + 6 * dx),
            (x1 - 8 * dx + 6 * dy, y1 - 8 * dy - 6 * dx),
        ]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in head)
        dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{4 * unit:.2f}"/>' for x, y in points[:-1])
        lines = f'<path class="way under" d="M{line}"/><path class="way" d="M{line}"/>'
        return f'{lines}{dots}<polygon class="head" points="{corners}"/>'


def identity(term: str) -> str:
    """The term as the id of an element."""
    return term.replace(":", "-")


def _text(words: str, kind: str, x: float, y: float, size: float, id: str = "") -> str:
    named = f' id="{id}"' if id else ""
    return f'<text{named} class="{kind.strip()}" x="{x:.1f}" y="{y:.1f}" font-size="{size:.2f}">{escape(words)}</text>'


def _class(scene: Scene, term: str) -> str:
    if term in scene.new:
        return "both" if term in scene.earlier else "new"
    if term in scene.earlier:
        return "earlier"
    return "told" if term in scene.told else ""


def key(x: float, y: float) -> str:
    """The legend in one line."""
    made = []
    for name, meaning in LEGEND.items():
        ring = f'<rect class="ring" x="{x}" y="{y - 11}" width="18" height="13"/>' if name == "told" else ""
        made.append(f'<rect class="county {name}" x="{x}" y="{y - 11}" width="18" height="13"/>{ring}')
        made.append(f'<text class="text" x="{x + 25}" y="{y}" font-size="12.5">{meaning}</text>')
        x += 25 + 6.6 * len(meaning) + 22
    return "".join(made)


def sheet(atlas: Atlas, title: str, panels: list[tuple[str, list[str], Scene]], box: Box, columns: int) -> str:
    """A picture that stands alone: panels side by side, each with a heading, lines of text, and a map."""
    wide, gap = 470.0, 24.0
    high = wide * box[3] / box[2]
    lines = max(len(text) for _, text, _ in panels)
    step = high + 30 + 18 * lines + gap
    width = columns * (wide + gap) + gap
    rows = -(-len(panels) // columns)
    made = []
    for i, (heading, text, scene) in enumerate(panels):
        x, y = gap + i % columns * (wide + gap), 84 + i // columns * step
        made.append(f'<text class="title" x="{x}" y="{y}" font-size="15">{escape(heading)}</text>')
        for j, line in enumerate(text):
            made.append(f'<text class="text" x="{x}" y="{y + 19 + 18 * j}" font-size="12.5">{escape(line)}</text>')
        window = " ".join(f"{number:.1f}" for number in box)
        top = y + 8 + 18 * lines + 6
        made.append(
            f'<svg x="{x}" y="{top:.1f}" width="{wide}" height="{high:.1f}" viewBox="{window}">'
            f"{atlas.map(scene, box, wide)}</svg>"
        )
    height = 84 + rows * step
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width:g} {height:.0f}" width="{width:g}" height="{height:.0f}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{atlas.definitions()}"
        '<rect class="sea" width="100%" height="100%"/>'
        f'<text class="title" x="{gap}" y="28" font-size="18">{escape(title)}</text>'
        f"{key(gap, 54)}{''.join(made)}</svg>\n"
    )
