"""Draws a network as SVG: who reads what, where users ask, and how much crossed each link; or as a page with it.

Takes counts and draws them. Knows nothing of how they came about, and asks for no file and no address: what it writes
is complete in itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from colorsys import hls_to_rgb
from html import escape
from math import ceil, sqrt
from textwrap import wrap
from xml.etree import ElementTree

from bench.papers.filter_split_forward.ring_layout import Rings, rings
from bench.papers.filter_split_forward.topology import Sensor, Topology
from tidegate.errors import SettingError, shown

__all__ = ["draw", "html"]

#: Subscriptions, readings and bytes that crossed a link in one direction.
Counts = tuple[int, int, int]
Traffic = Mapping[tuple[str, str], Counts]

_SENSOR, _RELAY, _WIDEST, _THINNEST = 10.0, 5.5, 13.0, 1.0
_STEP, _MARGIN, _LEGEND, _LINE = 40.0, 34.0, 250.0, 22.0
_INK, _GREY, _LINK, _IDLE, _USERS = "#222222", "#9a9a9a", "#5b7fa6", "#cfcfcf", "#f2c14e"
_SVG = "http://www.w3.org/2000/svg"
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw(
    topology: Topology,
    traffic: Traffic,
    users: Mapping[str, int],
    title: str,
    unit: str = "readings",
) -> str:
    """The network with its traffic by direction, and how many subscriptions were placed at which nodes."""
    _check(topology, traffic, users)
    sensors = {sensor.node: sensor for sensor in topology.sensors}
    most = max(users.values(), default=0)
    bare = {node: _SENSOR if node in sensors else _RELAY for node in topology.nodes}
    size = {node: 2 * max(bare[node], _halo(users.get(node, 0), most)) + 5 for node in topology.nodes}
    where = rings(topology.nodes, topology.edges, topology.centre, size, _STEP)
    legend = list(_legend(topology, traffic, most, unit))
    left, upper, right, lower = where.box
    width = right - left + 2 * _MARGIN + _LEGEND
    lines = wrap(_text(title), max(20, int(width / 10.5))) or [""]
    top = _MARGIN + 24 * len(lines)
    height = top + max(lower - upper + 2 * _MARGIN, sum(high for high, _ in legend) + _MARGIN)
    parts = [
        f'<svg xmlns="{_SVG}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        'font-family="Helvetica, Arial, sans-serif" role="img">',
        f"<title>{_safe(title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<g font-size="18" font-weight="bold" fill="{_INK}">',
        *(f'<text x="{_MARGIN:.0f}" y="{_MARGIN + 24 * i:.0f}">{_safe(line)}</text>' for i, line in enumerate(lines)),
        "</g>",
        f'<g transform="translate({_MARGIN - left:.1f} {top + _MARGIN - upper:.1f})">',
        *_halos(where, users, most),
        *_links(topology, traffic, where, unit),
        *_nodes(topology, sensors, users, where),
        "</g>",
        f'<g transform="translate({width - _LEGEND:.1f} {top:.1f})" font-size="13" fill="{_INK}">',
    ]
    down = 0.0
    for high, entry in legend:
        parts.append(f'<g transform="translate(0 {down + high / 2:.1f})">{entry}</g>')
        down += high
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _check(topology: Topology, traffic: Traffic, users: Mapping[str, int]) -> None:
    links = {direction for a, b in topology.edges for direction in ((a, b), (b, a))}
    for link in traffic:
        if link not in links:
            raise SettingError("traffic of links of the network", shown(link), "a picture")
    for node in users.keys() - set(topology.nodes):
        raise SettingError("users at nodes of the network", shown(node), "a picture")


def _text(name: object) -> str:
    """What XML cannot hold becomes a replacement character."""
    return _NO_XML.sub("\ufffd", str(name))


def _safe(name: object) -> str:
    return escape(_text(name))


def _halo(count: int, most: int) -> float:
    """The radius of the mark of subscriptions: its area beyond a relay grows with their number."""
    return sqrt(_RELAY**2 + 200 * count / most) if count else 0.0


def _users(x: float, y: float, count: int, most: int) -> str:
    return (
        f'<circle class="users" cx="{x:.1f}" cy="{y:.1f}" r="{_halo(count, most):.2f}" fill="{_USERS}" '
        'stroke="#c98f00" stroke-width="0.8"/>'
    )


def _halos(where: Rings, users: Mapping[str, int], most: int) -> Iterator[str]:
    for node in sorted(node for node, count in users.items() if count):
        yield _users(*where.place(node), users[node], most)


def _both(traffic: Traffic, a: str, b: str) -> tuple[Counts, Counts]:
    return traffic.get((a, b), (0, 0, 0)), traffic.get((b, a), (0, 0, 0))


def _busiest(topology: Topology, traffic: Traffic) -> int:
    return max((sum(of[1] for of in _both(traffic, a, b)) for a, b in topology.edges), default=0)


def _width(readings: int, most: int) -> float:
    return _THINNEST + (_WIDEST - _THINNEST) * readings / max(most, 1)


def _links(topology: Topology, traffic: Traffic, where: Rings, unit: str) -> Iterator[str]:
    """Idle links first, then wider ones first, so that a thin link is not hidden where links meet."""
    most = _busiest(topology, traffic)
    crossed = {(a, b): sum(of[1] for of in _both(traffic, a, b)) for a, b in topology.edges}
    for (a, b), readings in sorted(crossed.items(), key=lambda each: (each[1] > 0, -each[1], each[0])):
        there, back = _both(traffic, a, b)
        look = f'stroke="{_LINK}"' if readings else f'stroke="{_IDLE}" stroke-dasharray="4 3"'
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in where.way(a, b))
        tip = "\n".join((f"{a} – {b}", _direction(a, b, there, unit), _direction(b, a, back, unit)))
        data = "".join(
            f' data-{name}="{_safe(value)}"'
            for name, value in (
                ("a", a),
                ("b", b),
                ("there", " ".join(map(str, there))),
                ("back", " ".join(map(str, back))),
            )
        )
        yield (
            f'<polyline class="link" points="{points}" fill="none" {look} stroke-width="{_width(readings, most):.3f}" '
            f'stroke-linecap="round"{data}><title>{_safe(tip)}</title></polyline>'
        )


def _direction(a: str, b: str, of: Counts, unit: str) -> str:
    return f"{a} → {b}: {of[0]:,} subscriptions, {of[1]:,} {unit}, {of[2]:,} bytes"


def _nodes(topology: Topology, sensors: Mapping[str, Sensor], users: Mapping[str, int], where: Rings) -> Iterator[str]:
    stations = _stations(topology)
    for node in topology.nodes:
        x, y = where.place(node)
        sensor = sensors.get(node)
        tip = [node, f"{users.get(node, 0):,} subscriptions of users here"]
        if node == topology.centre:
            tip.insert(1, "the centre: the least sum of distances to all others")
        if sensor is None:
            mark = f'<circle r="{_RELAY}" fill="{_GREY}" stroke="#ffffff"/>'
        else:
            tip.insert(1, f"{sensor.attribute} of station {sensor.station} ({sensor.source})")
            mark = _badge(0, stations, stations.index(sensor.station))
        ring = f'<circle r="{(_SENSOR if sensor else _RELAY) + 2}" fill="none" stroke="{_INK}" stroke-width="1.6"/>'
        yield (
            f'<g class="node" data-node="{_safe(node)}" transform="translate({x:.1f} {y:.1f})">'
            f"<title>{_safe(chr(10).join(tip))}</title>{mark}{ring if node == topology.centre else ''}</g>"
        )


def _stations(topology: Topology) -> list[int]:
    return sorted({sensor.station for sensor in topology.sensors})


def _colour(number: int, of: int) -> tuple[str, str]:
    """A station's colour and that of the number in it. Neighbours in number differ in lightness too."""
    light = (0.36, 0.62)[number % 2]
    red, green, blue = hls_to_rgb(number / max(of, 1), light, 0.6)
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
    code = "".join(f"{round(255 * part):02x}" for part in (red, green, blue))
    return f"#{code}", "#ffffff" if dark else "#000000"


def _legend(topology: Topology, traffic: Traffic, most: int, unit: str) -> Iterator[tuple[float, str]]:
    """Line by line, with the height of each."""
    stations = _stations(topology)
    if stations:
        yield _LINE, _entry(_badge(16, stations, 0), "sensor; number of its station")
    relay = f'<circle cx="16" r="{_RELAY}" fill="{_GREY}"/>'
    yield _LINE, _entry(relay, "relay")
    around = f'<circle cx="16" r="{_RELAY + 2}" fill="none" stroke="{_INK}" stroke-width="1.6"/>'
    yield _LINE, _entry(relay + around, "centre of the network")
    if most:
        yield 2 * _LINE, _heading("subscriptions of users at a node")
        for count in sorted({most, ceil(most / 4)}):
            yield max(_LINE, 2 * _halo(count, most) + 4), _entry(_users(16, 0, count, most), f"{count:,}")
    busiest = _busiest(topology, traffic)
    yield 2 * _LINE, _heading(f"{unit} over a link, both directions")
    for count in sorted({0, ceil(busiest / 4), ceil(busiest / 2), busiest}):
        look = f'stroke="{_LINK}"' if count else f'stroke="{_IDLE}" stroke-dasharray="4 3"'
        line = f'<line x1="0" x2="32" {look} stroke-width="{_width(count, busiest):.2f}"/>'
        yield _LINE, _entry(line, f"{count:,}")
    if stations:
        yield 2 * _LINE, _heading("stations")
    for start in range(0, len(stations), 8):
        row = range(start, min(start + 8, len(stations)))
        yield _LINE + 3, "".join(_badge(10 + 27 * (i - start), stations, i) for i in row)


def _badge(x: float, stations: list[int], number: int) -> str:
    """A sensor's mark with the number of its station."""
    fill, ink = _colour(number, len(stations))
    return (
        f'<circle cx="{x}" r="{_SENSOR}" fill="{fill}" stroke="#ffffff"/>'
        f'<text x="{x}" y="3.8" font-size="11" text-anchor="middle" fill="{ink}">{_safe(stations[number])}</text>'
    )


def _heading(text: str) -> str:
    return f'<text y="8" font-weight="bold">{_safe(text)}</text>'


def _entry(mark: str, text: str) -> str:
    return f'{mark}<text x="42" y="4.5">{_safe(text)}</text>'


def html(svg: str, title: str, caption: str = "") -> str:
    """One file with a picture that ``draw`` made, a caption and the ten busiest links; nothing is fetched for it."""
    links = []
    for line in ElementTree.fromstring(svg).iter(f"{{{_SVG}}}polyline"):
        there, back = ([int(number) for number in line.attrib[f"data-{key}"].split()] for key in ("there", "back"))
        links.append((line.attrib["data-a"], line.attrib["data-b"], there, back))
    links.sort(key=lambda link: (-link[2][1] - link[3][1], link[:2]))
    whole = sum(there[2] + back[2] for _, _, there, back in links) or 1
    rows = "\n".join(
        f"<tr><td>{_safe(a)} – {_safe(b)}</td>"
        + "".join(f"<td>{number:,}</td>" for number in (*map(sum, zip(there, back, strict=True)), there[1], back[1]))
        + f"<td>{100 * (there[2] + back[2]) / whole:.1f} %</td></tr>"
        for a, b, there, back in links[:10]
    )
    names = ("link", "subscriptions", "readings", "bytes", "readings →", "readings ←", "of all bytes")
    heads = "".join(f"<th>{name}</th>" for name in names)
    said = caption or (
        "Each circle is a node; lines are links, as wide as readings crossed them. Point at a node or a link for its "
        "figures. Places in the picture say who is linked with whom, not where a station stands."
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_safe(title)}</title>
<style>
body {{ margin: 1.5rem auto; max-width: 1500px; padding: 0 1rem; background: #ffffff; color: {_INK};
  font: 16px/1.45 Helvetica, Arial, sans-serif; }}
svg {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; }}
caption {{ text-align: left; font-weight: bold; padding: 0.4rem 0; }}
th, td {{ padding: 0.2rem 0.9rem 0.2rem 0; text-align: right; border-bottom: 1px solid #dddddd; }}
th:first-child, td:first-child {{ text-align: left; }}
</style>
</head>
<body>
{svg}
<p>{_safe(said)}</p>
<table>
<caption>The ten busiest links</caption>
<tr>{heads}</tr>
{rows}
</table>
</body>
</html>
"""
