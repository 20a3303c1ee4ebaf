"""Places in the index against what defines them: one term at a time, and whole engines with snapshots in between."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.drawn_places import circles_and_points, points_near, regions
from tests.parts.profiles import examples
from tidegate.index.place_terms import DraftedPlaceTerms, PlaceTerms
from tidegate.index.places import SegmentPlaces
from tidegate.kernels.box_tree import DEEPEST, NODE, boxed, packed
from tidegate.kernels.places import MAYBE, related
from tidegate.language import to_json
from tidegate.language.tree import Attribute, Call, Geometry, Literal
from tidegate.predicates.filter import compile_filter
from tidegate.predicates.place import Region, WithinDistance, haversine

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)


@dataclass
class Point:
    """A publication that has nothing but a location."""

    location: tuple[float, float]

    def value(self, name):
        return self.location if name == "location" else None


# --- terms ----------------------------------------------------------------------------------------------------------


def drafted(predicates):
    """Terms of predicates, and the number of each predicate's term."""
    terms = DraftedPlaceTerms()
    numbers = [terms.number(predicate) for predicate in predicates]
    return terms.terms(), numbers


def assert_found_as_defined(predicates, points):
    terms, numbers = drafted(predicates)
    everything = np.ones(len(terms), np.bool_)
    made = SegmentPlaces.of(terms, everything)
    halves = [terms for _ in range(2)]
    some = np.arange(len(terms)) % 2 == 0
    again, moved = PlaceTerms.joined(halves, [some, ~some])
    assert len(again) == len(terms)
    lookups = [
        (made, np.arange(len(terms))),
        (SegmentPlaces.of(terms, everything, made.facts, made.arrays), np.arange(len(terms))),
        (SegmentPlaces.of(again, everything), np.where(some, *moved)),
    ]
    for point in map(Point, points):
        wanted = {number for number, p in zip(numbers, predicates, strict=True) if p.holds(point)}
        for lookup, number_of in lookups:
            renumbered = {int(number_of[number]) for number in wanted}
            alone = lookup.alone(point)
            publication, term = alone.pairs
            assert sorted(term.tolist()) == sorted(renumbered)
            assert not publication.any()
            every, none = np.arange(len(terms)), np.zeros(len(terms), np.int64)
            held = alone.holds(none, every, none.astype(np.bool_))
            assert set(np.flatnonzero(held).tolist()) == renumbered
            assert (alone.holds(none, every, everything) != held).all()


@examples(40)
@given(st.data())
def test_a_point_has_the_relations_that_shapely_says(data):
    predicates = data.draw(st.lists(regions(), min_size=1, max_size=4))
    points = [data.draw(points_near(p.geometry)) for p in predicates for _ in range(3)]
    assert_found_as_defined(predicates, points)


def test_differences_that_geos_loses_are_left_to_it():
    tiny = 5e-324
    line = Region("location", "s_intersects", Geometry("LineString", ((-1.0, 0.0), (0.0, tiny))), False)
    assert_found_as_defined([line], [(-0.25, tiny), (0.0, tiny), (-1.0, 0.0), (-0.25, 0.0), (-0.25, 1e-300)])


@examples(40)
@given(st.lists(circles_and_points(), min_size=1, max_size=3))
def test_a_point_is_in_the_circles_that_the_formula_says(world):
    assert_found_as_defined([circle for circle, _ in world], [point for _, points in world for point in points])


@examples(10)
@given(st.integers(1, 600), st.integers(0, 2**32))
def test_a_tree_finds_the_boxes_that_hold_a_point(count, seed):
    rng = np.random.default_rng(seed)
    corners = rng.integers(-20, 21, (count, 2)) * rng.choice([0.25, 1.0, 30.0], (count, 1))
    sizes = rng.integers(0, 4, (count, 2)) * rng.choice([0.0625, 1.0, 90.0], (count, 1))
    boxes = np.concatenate([corners, corners + sizes], axis=1)
    points = np.concatenate([boxes[:20, :2], boxes[:20, 2:], rng.integers(-20, 21, (20, 2)) * 0.5])
    tree = packed(boxes, np.arange(count, dtype=np.int32))
    stack, room = np.empty(NODE * DEEPEST, np.int64), np.empty(count + NODE, np.int32)
    for x, y in points.tolist():
        n = boxed(tree, np.array([x, y], np.float32), stack, room)
        wanted = [i for i, (west, south, east, north) in enumerate(boxes) if west <= x <= east and south <= y <= north]
        assert sorted(room[:n].tolist()) == wanted
        if len(wanted) > NODE:
            assert boxed(tree, np.array([x, y], np.float32), stack, room[:NODE]) == -1


def test_what_edges_do_not_say_is_asked_of_the_formulas():
    """A point on a slanted edge, one at the end of a line, and one at exactly the distance of a circle."""
    slanted = Geometry("Polygon", (((0.0, 0.0), (3.0, 1.0), (0.0, 3.0), (0.0, 0.0)),))
    line = Geometry("LineString", ((10.0, 10.0), (11.0, 10.0)))
    predicates = [
        Region("location", "s_touches", slanted, False),
        Region("location", "s_within", line, False),
        WithinDistance("location", 20.0, 0.0, haversine(21.0, 0.0, 20.0, 0.0), False),
    ]
    terms, _ = drafted(predicates)
    lookup, answers = SegmentPlaces.of(terms, np.ones(3, np.bool_)), []
    for i, (lon, lat) in enumerate([(1.5, 0.5), (11.0, 10.0), (21.0, 0.0)]):
        one = np.array([lon]), np.array([lat]), np.array([0]), np.array([i])
        answers.append(related(lookup._asked, *one).tolist())
        assert lookup.related(*one).tolist() == [predicates[i].holds(Point((lon, lat)))]
    assert answers == [[MAYBE]] * 3


@examples(10)
@given(st.integers(0, 2**32))
def test_arrays_that_do_not_fit_are_refused_or_do_no_harm(seed):
    """Two bits of all that a snapshot has of places are flipped; kernels follow offsets without looking."""
    rng = np.random.default_rng(seed)
    terms, _ = drafted([
        Region("location", "s_within", coast(200), False),
        Region("location", "s_intersects", Geometry("MultiPoint", ((10.0, 45.0), (11.0, 45.0))), False),
        Region("location", "s_touches", Geometry("LineString", ((9.0, 44.0), (11.0, 46.0))), False),
        *(WithinDistance("location", 10.0 + i, 45.0, 100_000.0 * i, False) for i in range(20)),
    ])  # fmt: skip
    everything = np.ones(len(terms), np.bool_)
    lookup = SegmentPlaces.of(terms, everything)
    points = [Point((10.0, 45.0)), *map(Point, map(tuple, rng.uniform((8, 43), (12, 47), (10, 2)).tolist()))]
    for _ in range(40):
        of_terms, of_lookup = ({name: np.array(a) for name, a in of.arrays.items()} for of in (terms, lookup))
        for arrays in (of_terms, of_lookup):
            flipped = arrays[rng.choice([name for name in arrays if arrays[name].nbytes])].reshape(-1).view(np.uint8)
            flipped[rng.integers(len(flipped))] ^= 1 << rng.integers(8)
        try:
            damaged = PlaceTerms.restored(terms.facts, of_terms)
            damaged.check()
            found = SegmentPlaces.of(damaged, everything, lookup.facts, of_lookup)
        except ValueError:
            continue
        for point in points:
            assert set(found.alone(point).pairs[1].tolist()) <= set(range(len(terms)))


# --- large outlines -------------------------------------------------------------------------------------------------


def coast(count):
    """A ring of many short edges with bays of several sizes."""
    turns = np.arange(count) * 2 * np.pi / count
    radii = 1 + sum(0.3 / n * np.sin(n * turns) for n in (3, 17, 101))
    ring = np.stack([10 + radii * np.cos(turns), 45 + radii * np.sin(turns)], axis=1)
    return Geometry("Polygon", (tuple(map(tuple, [*ring.tolist(), ring[0].tolist()])),))


def edges_looked_at(lookup):
    """How many edges the fullest band of a lookup's only place has."""
    return int(np.diff(lookup.arrays["edge_start"]).max())


def test_a_large_outline_is_not_looked_at_edge_by_edge():
    region = Region("location", "s_within", coast(16_000), False)
    terms, _ = drafted([region])
    lookup = SegmentPlaces.of(terms, np.ones(1, np.bool_))
    assert edges_looked_at(lookup) < 400
    assert len(lookup.arrays["edge"]) <= 4 * 16_001
    rng = np.random.default_rng(1)
    points = np.stack([8.5 + 3 * rng.random(300), 43.5 + 3 * rng.random(300)], axis=1)
    wanted = shapely.within(shapely.points(points), shapely.Polygon(region.geometry.coordinates[0]))
    got = [len(lookup.alone(Point(tuple(point))).pairs[1]) == 1 for point in points.tolist()]
    assert got == wanted.tolist()


def test_edges_from_south_to_north_are_not_listed_in_every_band():
    teeth = 4_000
    ring = [(i / teeth, 2.0 if i % 2 else 0.0) for i in range(2 * teeth)]
    comb = Geometry("Polygon", ((*ring, (2.0, -1.0), (0.0, -1.0), ring[0]),))
    terms, _ = drafted([Region("location", "s_within", comb, False)])
    assert len(SegmentPlaces.of(terms, np.ones(1, np.bool_)).arrays["edge"]) <= 4 * len(terms.places.vertex)


# --- engines --------------------------------------------------------------------------------------------------------


def _expressions(calls):
    """Conditions with places among others: more of them, none, or the most telling one."""
    kinds = st.sampled_from(["a", "b"]).map(lambda kind: Call("=", (Attribute("kind"), Literal(kind))))
    negated = calls.map(lambda call: Call("not", (call,)))
    return (
        calls
        | negated
        | st.builds(lambda a, b: Call("and", (a, b)), calls, kinds)
        | st.builds(lambda a, b: Call("and", (a, b)), calls, negated)
        | st.builds(lambda a, b: Call("and", (a, b)), negated, kinds)
        | st.builds(lambda a, b: Call("or", (a, b)), calls, calls)
    )


@st.composite
def worlds(draw):
    """Expressions, and publications with points near their places."""
    predicates = draw(st.lists(regions() | regions("home"), min_size=2, max_size=6))
    points = [draw(points_near(predicate.geometry)) for predicate in predicates]
    for circle, near in draw(st.lists(circles_and_points(), max_size=3)):
        predicates.append(circle)
        points += near
    calls = st.sampled_from([predicate.call()[0] for predicate in predicates])
    expressions = draw(st.lists(_expressions(calls), min_size=2, max_size=12))
    publications = []
    for i in range(12):  # more than are matched one at a time
        attributes = {"kind": draw(st.sampled_from(["a", "b"]))}
        if draw(st.integers(0, 3)):
            attributes["home"] = draw(st.sampled_from(points))
        location = draw(st.none() | st.sampled_from(points) | st.sampled_from(points))
        publications.append(tg.Publication(f"p{i}", "s", NOW, attributes, location=location))
    return expressions, publications


def assert_told(engine, expressions, publications):
    """Each publication to those whose predicates hold for it, all at once and one at a time."""
    filters = {name: compile_filter(node) for name, node in expressions.items()}
    wanted = {(p.id, name) for name, filter in filters.items() for p in publications if filter.holds(p)}
    together = [(n.publications[0], n.subscription) for n in engine.publish(publications)]
    alone = [(n.publications[0], n.subscription) for p in publications for n in engine.publish([p])]
    assert len(together) == len(set(together))
    assert set(together) == wanted
    assert sorted(alone) == sorted(together)


@examples(15)
@given(worlds())
def test_engines_with_places_tell_what_predicates_say(world):
    nodes, publications = world
    expressions = {f"s{i}": node for i, node in enumerate(nodes)}
    subscriptions = [tg.Subscription(name, "ann", to_json(node)) for name, node in expressions.items()]
    half = len(subscriptions) // 2
    with TemporaryDirectory() as directory:
        engine = tg.Engine(subscriptions[:half])
        first = dict(list(expressions.items())[:half])
        assert_told(engine, first, publications)
        engine.save(Path(directory) / "one")
        engine = tg.Engine.load(Path(directory) / "one")
        assert_told(engine, first, publications)
        for subscription in subscriptions[half:]:
            engine.subscribe(subscription)
        engine.unsubscribe("s0")
        left = {name: node for name, node in expressions.items() if name != "s0"}
        assert_told(engine, left, publications)
        engine.save(Path(directory) / "two")
        assert_told(tg.Engine.load(Path(directory) / "two"), left, publications)
        assert_told(engine, left, publications)


def test_a_collection_is_settled_by_itself():
    parts = (
        {"type": "Point", "coordinates": [5, 5]},
        {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 2], [0, 0]]]},
    )
    where = {
        "op": "s_intersects",
        "args": [{"property": "location"}, {"type": "GeometryCollection", "geometries": list(parts)}],
    }
    engine = tg.Engine([tg.Subscription("s", "ann", where)])
    told = [
        len(engine.publish([tg.Publication("p", "s", NOW, location=location)] * 9))
        for location in [(5, 5), (1, 0.5), (2, 1), (1, 1.5)]
    ]
    assert told == [9, 9, 9, 0]


# --- real places ----------------------------------------------------------------------------------------------------

DATA = Path(__file__).parents[2] / "shared" / "data"
COUNTIES, WARNINGS = DATA / "ontologies/nebraska_counties.geojson", DATA / "severe_weather/county_warnings.csv"


@pytest.mark.skipif(not (COUNTIES.exists() and WARNINGS.exists()), reason="../shared/data is not here")
def test_warnings_reach_the_counties_of_nebraska_that_they_lie_in():
    """Each warning is published at points in and around its county, and on the border that it has with others."""
    features = orjson.loads(COUNTIES.read_bytes())["features"]
    outlines = {feature["properties"]["ugc"]: feature["geometry"] for feature in features}
    shapes = {ugc: shapely.geometry.shape(outline) for ugc, outline in outlines.items()}
    engine = tg.Engine([
        tg.Subscription(f"{ugc} {relation}", "ann", {"op": relation, "args": [{"property": "location"}, outline]})
        for ugc, outline in outlines.items()
        for relation in ("s_intersects", "s_within", "s_touches")
    ])  # fmt: skip
    with WARNINGS.open(newline="") as file:
        warned = [row["ugc"] for row in csv.DictReader(file) if row["ugc"] in shapes]
    assert len(warned) > 20
    rng, publications = np.random.default_rng(7), []
    for ugc in warned:
        west, south, east, north = shapes[ugc].bounds
        corners = shapely.get_coordinates(shapes[ugc])[:6]
        middles = (corners[:-1] + corners[1:]) / 2
        around = rng.uniform((2 * west - east, 2 * south - north), (2 * east - west, 2 * north - south), (8, 2))
        inside = shapes[ugc].representative_point()
        for x, y in [*corners.tolist(), *middles.tolist(), *around.tolist(), (inside.x, inside.y)]:
            name = f"{ugc} {len(publications)}"
            publications.append(tg.Publication(name, "nws", NOW, {"ugc": ugc}, location=(x, y)))
    told = {(n.publications[0], n.subscription) for n in engine.publish(publications)}
    points = shapely.points([p.location for p in publications])
    wanted = set()
    for ugc, shape in shapes.items():
        for relation, say in (
            ("s_intersects", shapely.intersects),
            ("s_within", shapely.within),
            ("s_touches", shapely.touches),
        ):
            wanted |= {(publications[i].id, f"{ugc} {relation}") for i in np.flatnonzero(say(points, shape))}
    assert told == wanted
    assert {subscription for _, subscription in told} >= {f"{ugc} s_within" for ugc in warned}
    alone = {(n.publications[0], n.subscription) for p in publications[:60] for n in engine.publish([p])}
    assert alone == {pair for pair in wanted if pair[0] in {p.id for p in publications[:60]}}
