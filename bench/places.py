"""Places: which polygons, circles and boxes of up to 100,000 does a point lie in, beside the trees of shapely."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import shapely
from numpy.typing import NDArray

import tidegate as tg
from bench.harness import Report, median, say, timed
from bench.notification_arrays import Told
from tidegate.predicates.place import haversine

__all__ = ["main"]

SEED = 2026
PUBLICATIONS, ALONE, ROUNDS = 4096, 400, 9
SIZES = (10_000, 100_000)
#: Degrees of the square in which places and points are uniform, and vertices and radius of a polygon.
SQUARE, VERTICES, RADIUS = 10.0, 12, 0.05
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
COUNTIES, WARNINGS = DATA / "ontologies/nebraska_counties.geojson", DATA / "severe_weather/county_warnings.csv"

COLUMNS = {
    "what": "what",
    "subscriptions": "subscriptions",
    "batch_us": "in batches µs/pub",
    "tree_us": "STRtree in bulk µs/pub",
    "ratio": "÷ STRtree",
    "alone_us": "one alone µs",
    "tree_alone_us": "STRtree alone µs",
    "matches": "matches/pub",
    "load_us": "load µs/sub",
    "bytes": "bytes/sub",
}


@dataclass(frozen=True)
class Places:
    """Conditions in CQL2-JSON, points to publish, and what finds the same pairs by shapely."""

    what: str
    conditions: list[dict[str, Any]]
    points: NDArray[np.float64]
    tree: shapely.STRtree
    exact: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]] | None = None
    """Which pairs of a point and a place that the tree gives hold; None where it says so itself."""

    def subscriptions(self) -> Iterator[tg.Subscription]:
        for i, condition in enumerate(self.conditions):
            yield tg.Subscription(f"s{i}", "bench", condition)

    def table(self) -> pa.Table:
        """The publications."""
        count = len(self.points)
        lon, lat = (pa.array(numbers) for numbers in self.points.T)
        return pa.table({
            "id": pa.array([f"p{i}" for i in range(count)]),
            "source": pa.array(["bench"] * count),
            "time": pa.array(np.arange(count), pa.timestamp("us", "UTC")),
            "location": pa.StructArray.from_arrays([lon, lat], ["lon", "lat"]),
        })  # fmt: skip

    def asked(self, points: Any) -> NDArray[np.int64]:
        """Points and places by shapely, two rows; for a single point the places alone."""
        if self.exact is None:
            return np.asarray(self.tree.query(points, predicate="intersects"))
        found = self.tree.query(points)
        return np.asarray(found[:, self.exact(*found)] if found.ndim > 1 else found)


def main(quick: bool = False) -> None:
    """All kinds of places, and the counties of Nebraska where their outlines are."""
    report = Report("places", SEED, COLUMNS)
    for n in SIZES[: 1 if quick else None]:
        for make in (polygons, circles, boxes):
            measure(report, make(n, np.random.default_rng(SEED)))
    if COUNTIES.exists() and WARNINGS.exists():
        measure(report, counties(np.random.default_rng(SEED)))
    else:
        say("left out: the counties of Nebraska, because ../shared/data is not here")
    report.finish()


def measure(report: Report, places: Places) -> None:
    """One row. Rounds of the engine and of shapely take turns."""
    say(f"{len(places.conditions):,} {places.what}")
    table, points = places.table(), shapely.points(places.points)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    located = [
        tg.Publication(f"p{i}", "bench", when, location=p)
        for i, p in enumerate(map(tuple, places.points[:ALONE].tolist()))
    ]
    load, engine = timed(lambda: tg.Engine(places.subscriptions()))
    with engine:
        told = Told.of(engine.publish(table))
        wanted = places.asked(points)
        seconds: dict[str, list[float]] = {"load": [load], "batches": [], "tree": [], "alone": [], "tree_alone": []}
        for publication in located:
            engine.publish([publication])
        for _ in range(ROUNDS):
            seconds["batches"].append(timed(lambda: engine.publish(table))[0])
            seconds["tree"].append(timed(lambda: places.asked(points))[0])
            seconds["alone"].append(timed(lambda: [engine.publish([p]) for p in located])[0])
            seconds["tree_alone"].append(timed(lambda: [places.asked(p) for p in points[:ALONE]])[0])
        count = len(points)
        batch, tree = median(seconds["batches"]) / count, median(seconds["tree"]) / count
        report.add(
            what=places.what,
            subscriptions=len(places.conditions),
            batch_us=batch * 1e6,
            tree_us=tree * 1e6,
            ratio=batch / tree,
            alone_us=median(seconds["alone"]) / len(located) * 1e6,
            tree_alone_us=median(seconds["tree_alone"]) / len(located) * 1e6,
            matches=len(told) / count,
            load_us=load / len(places.conditions) * 1e6,
            bytes=engine.index_bytes / len(places.conditions),
            exact=_pairs(told.publication, told.subscription) == _pairs(*wanted),
            seconds=seconds,
        )


def _pairs(publication: NDArray[np.int64], place: NDArray[np.int64]) -> list[tuple[int, int]]:
    return sorted(zip(publication.tolist(), place.tolist(), strict=True))


# --- what is looked for ---------------------------------------------------------------------------------------------


def polygons(n: int, rng: np.random.Generator) -> Places:
    """Stars of twelve corners, distinct, with up to six digits."""
    rings = np.empty((0, VERTICES + 1, 2))
    while len(rings) < n:
        centre = rng.random((n, 1, 2)) * SQUARE
        turns = np.sort(rng.random((n, VERTICES)), axis=1) * 2 * pi
        radii = RADIUS * (0.4 + 0.6 * rng.random((n, VERTICES)))
        corners = np.round(centre + radii[:, :, None] * np.stack([np.cos(turns), np.sin(turns)], axis=2), 6)
        closed = np.concatenate([corners, corners[:, :1]], axis=1)
        rings = np.concatenate([rings, closed[shapely.is_valid(shapely.polygons(closed))]])[:n]
    outlines = [{"type": "Polygon", "coordinates": [ring]} for ring in rings.tolist()]
    points = rng.random((PUBLICATIONS, 2)) * SQUARE
    return Places("polygons", list(map(_intersects, outlines)), points, shapely.STRtree(shapely.polygons(rings)))


def circles(n: int, rng: np.random.Generator) -> Places:
    """Distances of two to five kilometres. The rival has their boxes in its tree, and numpy computes the distances."""
    centre, metres = np.round(rng.random((n, 2)) * SQUARE, 6), np.round(2000 + 3000 * rng.random(n), 1)
    conditions = [
        {"op": "s_dwithin", "args": [{"property": "location"}, {"type": "Point", "coordinates": at}, far]}
        for at, far in zip(centre.tolist(), metres.tolist(), strict=True)
    ]
    points = rng.random((PUBLICATIONS, 2)) * SQUARE
    half = (metres / 110_000)[:, None] / np.cos(np.radians([0.0, SQUARE]))  # more than a circle reaches
    tree = shapely.STRtree(shapely.box(*(centre - half).T, *(centre + half).T))

    def near(point: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(haversine(*points[point].T, *centre[place].T) <= metres[place])

    return Places("circles", conditions, points, tree, near)


def boxes(n: int, rng: np.random.Generator) -> Places:
    """Rectangles, which are ranges of longitude and latitude."""
    centre, half = rng.random((n, 2)) * SQUARE, RADIUS * (0.4 + 0.6 * rng.random((n, 2)))
    bounds = np.round(np.concatenate([centre - half, centre + half], axis=1), 6)
    points = rng.random((PUBLICATIONS, 2)) * SQUARE
    conditions = [_intersects({"bbox": box}) for box in bounds.tolist()]
    return Places("boxes", conditions, points, shapely.STRtree(shapely.box(*bounds.T)))


def counties(rng: np.random.Generator) -> Places:
    """The 93 counties of Nebraska, and the warnings for them at places in their county or next to it."""
    features = orjson.loads(COUNTIES.read_bytes())["features"]
    outlines = {feature["properties"]["ugc"]: feature["geometry"] for feature in features}
    shapes = {ugc: shapely.from_geojson(orjson.dumps(outline)) for ugc, outline in outlines.items()}
    with WARNINGS.open(newline="") as file:
        warned = [row["ugc"] for row in csv.DictReader(file) if row["ugc"] in shapes]
    bounds = np.array([shapes[ugc].bounds for ugc in warned])[rng.integers(len(warned), size=PUBLICATIONS)]
    points = bounds[:, :2] + rng.uniform(-0.2, 1.2, (PUBLICATIONS, 2)) * (bounds[:, 2:] - bounds[:, :2])
    conditions = [_intersects(outline) for outline in outlines.values()]
    return Places("counties of Nebraska", conditions, points, shapely.STRtree(list(shapes.values())))


def _intersects(geometry: dict[str, Any]) -> dict[str, Any]:
    return {"op": "s_intersects", "args": [{"property": "location"}, geometry]}
