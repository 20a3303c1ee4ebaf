"""The picture of a network: sound XML, every node and link once, widths by traffic, and no two links that cross."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapely import LineString, Point

from bench.papers.filter_split_forward.network_picture import draw, html
from bench.papers.filter_split_forward.ring_layout import rings
from bench.papers.filter_split_forward.topology import SETUPS, topology
from tidegate.errors import SettingError

SVG = "{http://www.w3.org/2000/svg}"


def network(nodes, edges, sensors=(), centre=None):
    """``sensors``: node, attribute, station."""
    attached = tuple(
        SimpleNamespace(source=f"{node}-{attribute}", attribute=attribute, station=station, node=node, location=(0, 0))
        for node, attribute, station in sensors
    )
    return SimpleNamespace(nodes=tuple(nodes), edges=tuple(edges), sensors=attached, centre=centre or nodes[0])


PATH = network("abcd", ["ab", "bc", "cd"], [("d", "humidity", 7), ("c", "wind_speed", 7)], "b")
PATH.edges = (("a", "b"), ("b", "c"), ("c", "d"))


def drawn(*arguments):
    return ElementTree.fromstring(draw(*arguments))


def links(root):
    return {(line.attrib["data-a"], line.attrib["data-b"]): line for line in root.iter(f"{SVG}polyline")}


def nodes(root):
    return {group.attrib["data-node"]: group for group in root.iter(f"{SVG}g") if group.get("class") == "node"}


def width(line):
    return float(line.attrib["stroke-width"])


@pytest.mark.parametrize("setup", SETUPS)
def test_every_node_and_link_once_in_every_set_up(setup):
    tree = topology(SETUPS[setup], np.random.default_rng(7))
    root = drawn(tree, {}, dict.fromkeys(tree.nodes[::2], 3), setup)
    found = list(root.iter(f"{SVG}polyline"))
    assert sorted((line.attrib["data-a"], line.attrib["data-b"]) for line in found) == sorted(tree.edges)
    marked = [group.attrib["data-node"] for group in root.iter(f"{SVG}g") if group.get("class") == "node"]
    assert sorted(marked) == sorted(tree.nodes)
    users = [circle for circle in root.iter(f"{SVG}circle") if circle.get("class") == "users"]
    assert len(users) == len(tree.nodes[::2]) + 2  # two in the legend


def test_all_is_within_the_picture():
    tree = topology(SETUPS["large-sources"], np.random.default_rng(2))
    root = drawn(tree, {}, {tree.nodes[0]: 9}, "A title " * 40)
    wide, high = (float(root.attrib[key]) for key in ("width", "height"))
    groups = [group for group in root if group.tag == f"{SVG}g" and "transform" in group.attrib]
    for group in groups:
        x, y = map(float, re.findall(r"[-\d.]+", group.attrib["transform"]))
        for part in (part for part in group.iter(f"{SVG}g") if part is not group):
            dx, dy = map(float, re.findall(r"[-\d.]+", part.attrib["transform"]))
            assert 10 <= x + dx <= wide - 10
            assert 10 <= y + dy <= high - 10
    titles = [text for text in root.iter(f"{SVG}text") if "A title" in (text.text or "")]
    assert len(titles) > 1  # a long one is broken
    assert "".join(text.text for text in titles).replace(" ", "") == "Atitle" * 40


def test_width_grows_with_readings_of_both_directions():
    traffic = {("a", "b"): (1, 10, 5), ("b", "a"): (1, 10, 5), ("c", "b"): (0, 30, 1), ("c", "d"): (9, 0, 999)}
    found = links(drawn(PATH, traffic, {}, "t"))
    assert width(found["a", "b"]) < width(found["b", "c"])
    assert width(found["c", "d"]) < width(found["a", "b"])
    assert "stroke-dasharray" in found["c", "d"].attrib  # subscriptions alone make no reading
    assert "stroke-dasharray" not in found["a", "b"].attrib


@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=3))
def test_widths_are_in_the_order_of_readings(counts):
    traffic = {edge: (0, count, 0) for edge, count in zip(PATH.edges, counts, strict=True)}
    found = links(drawn(PATH, traffic, {}, "t"))
    widths = [width(found[edge]) for edge in PATH.edges]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert (counts[one] - counts[other]) * (widths[one] - widths[other]) >= 0
    assert max(widths) <= 13
    assert min(widths) >= 1


def test_a_link_tells_its_figures_by_direction():
    found = links(drawn(PATH, {("a", "b"): (1, 2000, 3), ("b", "a"): (4, 5, 6)}, {}, "t"))
    assert found["a", "b"].find(f"{SVG}title").text == (
        "a – b\na → b: 1 subscriptions, 2,000 readings, 3 bytes\nb → a: 4 subscriptions, 5 readings, 6 bytes"
    )


def test_a_sensor_has_its_station_and_attribute_and_a_relay_has_neither():
    root = drawn(PATH, {}, {"a": 1}, "t")
    found = nodes(root)
    assert "humidity of station 7" in found["d"].find(f"{SVG}title").text
    assert [text.text for text in found["d"].iter(f"{SVG}text")] == ["7"]
    assert list(found["a"].iter(f"{SVG}text")) == []
    assert "1 subscriptions of users here" in found["a"].find(f"{SVG}title").text
    colours = {name: found[name].find(f"{SVG}circle").attrib["fill"] for name in "abcd"}
    assert colours["c"] == colours["d"] != colours["a"] == colours["b"]
    assert len(list(found["b"].iter(f"{SVG}circle"))) == 2  # the centre has a ring


def test_stations_have_colours_of_their_own():
    tree = topology(SETUPS["large-sources"], np.random.default_rng(1))
    found = nodes(drawn(tree, {}, {}, "t"))
    by_station = {}
    for sensor in tree.sensors:
        by_station.setdefault(sensor.station, set()).add(found[sensor.node].find(f"{SVG}circle").attrib["fill"])
    assert all(len(colours) == 1 for colours in by_station.values())
    assert len(set.union(*by_station.values())) == 20


def test_marks_of_users_grow_with_their_subscriptions():
    root = drawn(PATH, {}, {"a": 1, "b": 4, "c": 9, "d": 0}, "t")
    sizes = [float(circle.attrib["r"]) for circle in root.iter(f"{SVG}circle") if circle.get("class") == "users"]
    assert len(sizes) == 3 + 2
    assert sizes[:3] == sorted(sizes[:3])
    assert len(set(sizes[:3])) == 3


NASTY = "<b>&\"'</b>"


def test_names_cannot_break_out():
    tree = network([NASTY, "]]>", "\0\x1f"], [(NASTY, "]]>"), (NASTY, "\0\x1f")], [(NASTY, "<i>", 1)])
    svg = draw(tree, {(NASTY, "]]>"): (1, 2, 3)}, {NASTY: 2}, "<script>alert(1)</script>", "<u>")
    root = ElementTree.fromstring(svg)
    assert NASTY in nodes(root)
    assert (NASTY, "]]>") in links(root)
    assert root.find(f"{SVG}title").text == "<script>alert(1)</script>"
    page = html(svg, "</title><script>", "<em>")
    for word in ("<script", "<b>", "<i>", "<u>", "<em>"):
        assert word not in page


@pytest.mark.thorough
@given(st.text(max_size=30), st.text(min_size=1, max_size=8))
def test_any_title_and_name_gives_xml(title, name):
    tree = network([name, name + "x"], [(name, name + "x")])
    ElementTree.fromstring(draw(tree, {}, {name: 1}, title))


def test_a_page_has_everything_in_it_and_the_busiest_links_first():
    names = [f"n{i:02}" for i in range(13)]
    tree = network(names, [(names[0], name) for name in names[1:]])
    traffic = {(name, names[0]): (1, 100 * i, 10) for i, name in enumerate(names[1:], 1)}
    traffic |= {(names[0], name): (0, 300 * i, 0) for i, name in enumerate(names[1:], 1)}
    page = html(draw(tree, traffic, {}, "t"), "A network")
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>A network</title>" in page
    assert re.findall(r"(?:src|href)=|url\(|@import", page) == []
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", page)
    assert [each[0] for each in rows] == [f"n00 – n{i:02}" for i in range(12, 2, -1)]
    assert rows[0] == ("n00 – n12", "1", "4,800")
    assert "<td>3,600</td><td>1,200</td><td>8.3 %</td>" in page  # there, back, 10 of 120 bytes


def test_the_same_network_gives_the_same_picture():
    users, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert draw(PATH, {}, users, "t") == draw(PATH, {}, other, "t")


def test_one_node_alone():
    root = drawn(network("a", []), {}, {}, "t")
    assert list(nodes(root)) == ["a"]
    assert links(root) == {}


@pytest.mark.parametrize(
    ("edges", "got"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], "3 links that reach 3 of them"),
        ([("a", "b")], "1 links that reach 2 of them"),
        ([("a", "b"), ("a", "b")], "2 links that reach 2 of them"),
        ([("a", "b"), ("b", "x")], "'b' – 'x'"),
    ],
)
def test_what_is_no_tree_is_refused(edges, got):
    with pytest.raises(SettingError, match=re.escape(got)):
        draw(network("abc", edges), {}, {}, "t")


def test_strangers_are_refused():
    with pytest.raises(SettingError, match="expected traffic of links of the network"):
        draw(PATH, {("a", "d"): (0, 0, 0)}, {}, "t")
    with pytest.raises(SettingError, match="expected users at nodes of the network; got 'z'"):
        draw(PATH, {}, {"z": 1}, "t")
    with pytest.raises(SettingError, match="expected a node of the network in the middle; got 'z'"):
        draw(network("a", [], centre="z"), {}, {}, "t")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40), st.data())
def test_no_two_links_cross_and_no_node_lies_on_another(parents, data):
    names = [f"n{i}" for i in range(len(parents) + 1)]
    edges = [(names[at % (i + 1)], names[i + 1]) for i, at in enumerate(parents)]
    size = {name: data.draw(st.sampled_from((10.0, 24.0))) for name in names}
    found = rings(names, edges, data.draw(st.sampled_from(names)), size, 40.0)
    ways = {edge: LineString(found.way(*edge)) for edge in edges}
    for one in edges:
        for other in edges:
            if one < other:
                shared = set(one) & set(other)
                met = ways[one].intersection(ways[other])
                if shared:
                    assert met.difference(Point(found.place(*shared)).buffer(0.01)).is_empty
                else:
                    assert met.is_empty
    for i, one in enumerate(names):
        for other in names[:i]:
            (ax, ay), (bx, by) = found.place(one), found.place(other)
            near, far = (found.polar[each][0] for each in (one, other))
            # Along the ring they are as far apart as they need; the straight line is a little shorter than the arc.
            enough = (size[one] + size[other]) / 2 * 0.6 if near == far else abs(near - far)
            assert np.hypot(ax - bx, ay - by) >= enough - 0.01


def test_a_crowded_ring_is_moved_outwards():
    names = [f"n{i:03}" for i in range(201)]
    found = rings(names, [(names[0], name) for name in names[1:]], names[0], dict.fromkeys(names, 24.0), 40.0)
    for one, other in pairwise(names[1:]):
        (ax, ay), (bx, by) = found.place(one), found.place(other)
        assert np.hypot(ax - bx, ay - by) >= 23.9
    assert found.polar[names[1]][0] < 850  # and not further than needed: 200 · 24 / (0.97 · 2π) is 788


def test_links_of_the_middle_are_straight():
    found = rings("abc", [("a", "b"), ("a", "c")], "a", dict.fromkeys("abc", 9.0), 40.0)
    assert len(found.way("a", "b")) == len(found.way("c", "a")) == 2
