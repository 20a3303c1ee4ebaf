"""The page: one file with the map as it unfolds, the table and the synthetic storms; and the pictures for the docs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from html import escape
from pathlib import Path

from examples.severe_weather.county_warnings import CountyWarning
from examples.severe_weather.drawing import LEGEND, STYLE, Atlas, Box, Scene, identity, sheet
from examples.severe_weather.paths import PATHS
from examples.severe_weather.report import Report, listed, offset
from examples.severe_weather.subscribers import PEOPLE

__all__ = ["SOURCES", "page", "paths_picture", "told_picture"]

SOURCES = (
    "Warnings: US National Weather Service, from the archive of the Iowa Environmental Mesonet. "
    "County neighbours: US Census Bureau. Outlines: US Census Bureau, as in the npm package us-atlas 3.0.1."
)
_GENERATED = (
    "Everything on this page is generated: counties are the cells of a grid, storms come from a random generator."
)

#: Minutes for which a warning counts as new on the moving map.
_FRESH = 10
#: Pixels that the moving map is drawn for; where the timeline begins and ends.
_WIDE, _LEFT, _RIGHT = 1040, 300, 990


def told_picture(report: Report) -> str:
    """The moments at which somebody is told, side by side."""
    return sheet(Atlas(report.state), report.title, _moments(report), _window(report), 2)


def paths_picture(report: Report) -> str:
    """The synthetic storms."""
    title = "Storms over Hamilton County that never were (synthetic), and who is told of them"
    return sheet(Atlas(report.state), title, _paths(report), _around_hamilton(report), 3)


def _window(report: Report) -> Box:
    atlas = Atlas(report.state)
    terms = {term for warning, told in report.moments for way in report.scene(warning, told).ways for term in way}
    terms |= {term for warning, _ in report.moments for term in warning.counties}
    return atlas.around(terms) if terms else atlas.whole


def _around_hamilton(report: Report) -> Box:
    return Atlas(report.state).around(["ne:Hall", "ne:Merrick", "ne:York", "ne:Clay", "ne:Fillmore"])


def _moments(report: Report) -> list[tuple[str, list[str], Scene]]:
    made = []
    for warning, told in report.moments:
        earlier = {reason.warning.short: reason.warning for each in told for reason in each.reasons}
        lines = [f"new in {listed(report.names(warning.counties))}"]
        lines.append(f"during {'; '.join(f'{s} in {listed(report.names(w.counties))}' for s, w in earlier.items())}")
        heading = f"{warning.start:%H:%M}  {warning.short}: {listed(report.names([t.who for t in told]))} told"
        made.append((heading, lines, report.scene(warning, told)))
    return made


def _paths(report: Report) -> list[tuple[str, list[str], Scene]]:
    made = []
    for path, (_, counties) in PATHS.items():
        told = report.path_told(path)
        heading = f"{path}: {' → '.join(report.state.counties[term].name for term in counties)}"
        at = counties.index("ne:Hamilton")
        before = counties[:at]
        names = [name for name, is_told in told.items() if is_told]
        during = f"during one in {listed(report.names(before))}" if before else "on its own"
        scene = Scene(
            frozenset({"ne:Hamilton"}),
            frozenset(before),
            frozenset(person.county for person in PEOPLE if told[person.name]),
            (counties,) if len(counties) > 1 else (),
            {person.county: person.name for person in PEOPLE},
        )
        made.append((heading, [f"warning in Hamilton {during}", f"told: {listed(names)}"], scene))
    return made


def page(report: Report) -> str:
    """The whole file."""
    atlas = Atlas(report.state)
    warned, ahead = report.surprised
    hamilton = sum("ne:Hamilton" in warning.counties for warning in report.warnings)
    parts = {
        "title": escape(report.title),
        "style": STYLE,
        "generated": "" if report.real else f"<b>{_GENERATED}</b>",
        "warnings": str(len(report.warnings)),
        "warned": str(warned),
        "counties": str(len(report.state.counties)),
        "subscribers": str(report.subscribers),
        "notifications": str(len(report.told)),
        "next_door": str(report.next_door),
        "ahead": str(ahead),
        "hamilton": _counted(hamilton, "warning"),
        "people_told": _counted(len(report.people_told), "notification"),
        "key": "".join(f"<span>{_sample(name)}{meaning}</span>" for name, meaning in LEGEND.items()),
        "window": " ".join(f"{number:.1f}" for number in atlas.whole),
        "definitions": atlas.definitions(),
        "map": atlas.live(_WIDE),
        "zone": offset(report.warnings[0].start),
        "timeline": _timeline(report),
        "panels": _figures(atlas, _moments(report), _window(report), 500),
        "rows": "\n".join(_row(report.row(told)) for told in report.told),
        "paths": _figures(atlas, _paths(report), _around_hamilton(report), 340),
        "people": "\n".join(_person_rows(report)),
        "sources": SOURCES if report.real else _GENERATED,
        "data": json.dumps(_data(report, atlas)).replace("<", "\\u003c"),
    }
    text = (Path(__file__).parent / "page.html").read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _sample(name: str) -> str:
    ring = '<rect class="ring" width="20" height="15"/>' if name == "told" else ""
    return (
        f'<svg viewBox="0 0 20 15" aria-hidden="true"><rect class="county {name}" width="20" height="15"/>{ring}</svg>'
    )


def _figures(atlas: Atlas, panels: list[tuple[str, list[str], Scene]], box: Box, pixels: int) -> str:
    window = " ".join(f"{number:.1f}" for number in box)
    return "".join(
        f"<figure><figcaption><b>{escape(heading)}</b><br>{'<br>'.join(escape(line) for line in lines)}</figcaption>"
        f'<svg class="map" viewBox="{window}" role="img" aria-label="{escape(heading)}">'
        f"{atlas.map(scene, box, pixels)}</svg></figure>"
        for heading, lines, scene in panels
    )


def _row(cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _person_rows(report: Report) -> list[str]:
    made = []
    for path in PATHS:
        told = [name for name, is_told in report.path_told(path).items() if is_told]
        warning = next(w for w in report.synthetic if w.id.startswith(f"{path}.") and "ne:Hamilton" in w.counties)
        made.append(_row((path, f"{warning.start:%H:%M}", warning.short, ", ".join(told))))
    return made


def _begin(report: Report) -> datetime:
    """The full hour before the first warning."""
    return report.warnings[0].start.replace(minute=0)


def _minutes(report: Report, when: datetime) -> int:
    return (when - _begin(report)) // timedelta(minutes=1)


def _last(report: Report) -> int:
    return _minutes(report, max(warning.end for warning in report.warnings)) + 15


def _timeline(report: Report) -> str:
    scale = (_RIGHT - _LEFT) / _last(report)
    height = 34 + 24 * len(report.warnings)
    made = []
    for hour in range(0, _last(report), 60):
        x = _LEFT + hour * scale
        at = _begin(report) + timedelta(minutes=hour)
        made.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="20" y2="{height}"/>')
        made.append(f'<text class="quiet" x="{x:.1f}" y="13" font-size="11" text-anchor="middle">{at:%H:%M}</text>')
    for i, warning in enumerate(report.warnings):
        made.append(_bar(report, warning, 28 + 24 * i, scale))
    made.append(f'<line class="hand" id="hand" x1="{_LEFT}" x2="{_LEFT}" y1="18" y2="{height}"/>')
    return (
        f'<svg class="map" style="min-width: 720px" viewBox="0 0 1000 {height}" role="img" '
        'aria-label="All warnings over time">'
        f"{''.join(made)}</svg>"
    )


def _bar(report: Report, warning: CountyWarning, y: float, scale: float) -> str:
    begin, end = (_LEFT + scale * _minutes(report, when) for when in (warning.start, warning.end))
    told = [told.who for told in report.told if told.warning is warning]
    places = ", ".join(report.names(warning.counties))
    start = _minutes(report, warning.start)
    made = [
        f'<text class="quiet" x="0" y="{y + 11}" font-size="11.5">{escape(warning.short)}</text>',
        f'<text class="text" x="72" y="{y + 11}" font-size="11.5">{escape(places)}</text>',
        f'<rect class="bar" data-start="{start}" x="{begin:.1f}" y="{y}" width="{end - begin:.1f}" height="15"/>',
    ]
    for term, released in warning.released.items():
        if released < warning.end:
            x = _LEFT + scale * _minutes(report, released)
            name = escape(report.state.counties[term].name)
            gap = f'<rect class="notch" x="{x - 1:.1f}" y="{y}" width="2" height="15">'
            made.append(f"{gap}<title>{name} is released</title></rect>")
    if told:
        made.append(
            f'<text class="hear" x="{end + 6:.1f}" y="{y + 12}" font-size="11.5">'
            f"→ {escape(', '.join(report.names(told)))}</text>"
        )
    return "".join(made)


def _data(report: Report, atlas: Atlas) -> dict[str, object]:
    begin = _begin(report)
    days = [(begin.date() + timedelta(days=i)) for i in range((begin.hour * 60 + _last(report)) // 1440 + 1)]
    everything = [(warning, [told for told in report.told if told.warning is warning]) for warning in report.warnings]
    return {
        "names": {identity(term): county.name for term, county in report.state.counties.items()},
        "warnings": [
            {
                "short": warning.short,
                "start": _minutes(report, warning.start),
                "released": [(identity(term), _minutes(report, end)) for term, end in warning.released.items()],
                "told": [identity(told.who) for told in report.told if told.warning is warning],
                "ways": atlas.ways(ways, _WIDE),
                "on": sorted({identity(term) for way in ways for term in way}),
            }
            for warning, ways in ((warning, report.scene(warning, told).ways) for warning, told in everything)
        ],
        "moments": [_minutes(report, warning.start) for warning, _ in report.moments],
        "midnight": begin.hour * 60,
        "days": [f"{day.day} {day:%b}" for day in days],
        "last": _last(report),
        "fresh": _FRESH,
        "left": _LEFT,
        "perMinute": (_RIGHT - _LEFT) / _last(report),
    }
