"""Random expression trees: everything that parse or from_json can produce, for laws in any test."""

from __future__ import annotations

from datetime import UTC, date, datetime

from hypothesis import strategies as st

from tidegate.language import Array, Attribute, Box, Call, Geometry, Instant, Interval, Literal, Numbers, instant
from tidegate.language.tree import LONG
from tidegate.language.words import ARRAY_OPERATORS, ROLES

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-(2**63), 2**64 - 1) | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
literals = st.builds(Literal, numbers | st.booleans() | texts | st.sampled_from(["it's", "'", '"', "..", "%_\\"]))

_NAMES = ["no2", "lat", "a.b", "x:y", "_", "and", "Or", "div", "date", "point", "é", "日本", "😀", 'a"b', "a b", "'"]
names = st.sampled_from(_NAMES)
attributes = st.builds(Attribute, names | texts.filter(bool))

_instant_texts = (
    st.dates().map(date.isoformat)
    | st.datetimes(timezones=st.just(UTC)).map(lambda t: t.isoformat().replace("+00:00", "Z"))
    | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(lambda t: t.isoformat() + "-09:30")
)


def _instant(text: str) -> Instant:
    return Instant(text, *instant(text))


instants = _instant_texts.map(_instant)
bounds = st.none() | instants | attributes
intervals = st.builds(Interval, bounds, bounds)

_floats = st.floats(-180, 180)


def _lists(items, least=1, most=4):
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def _simple(dimensions: int):
    position = st.tuples(*[_floats] * dimensions)
    ring = st.lists(position, min_size=3, max_size=6).map(lambda points: (*points, points[0]))
    polygon = _lists(ring, most=2)
    coordinates = {
        "Point": position,
        "LineString": _lists(position, 2),
        "MultiPoint": _lists(position),
        "Polygon": polygon,
        "MultiLineString": _lists(_lists(position, 2)),
        "MultiPolygon": _lists(polygon, most=2),
    }
    return st.one_of([st.builds(Geometry, st.just(kind), made) for kind, made in coordinates.items()])


simple = _simple(2) | _simple(3)
geometries = simple | st.builds(Geometry, st.just("GeometryCollection"), _lists(simple))
boxes = st.builds(Box, st.tuples(*[_floats] * 4) | st.tuples(*[_floats] * 6))

series = st.builds(Numbers, st.lists(numbers, min_size=LONG, max_size=LONG + 8))

leaves = literals | attributes | instants | intervals | geometries | boxes

functions = st.sampled_from(["topk", "together", "past", "shape", "isA", "F", "ünï", "a.b:c", "pointy", "_"])


def _grown(inner):
    arrays = st.builds(Array, st.lists(inner, max_size=3).map(tuple)) | series
    any_node = inner | arrays

    def standard(op: str):
        fewest, most = ROLES[op]
        if op == "in":
            return st.builds(Call, st.just(op), st.tuples(any_node, arrays))
        return st.builds(Call, st.just(op), _lists(any_node, fewest, min(most, fewest + 1)))

    calls = st.builds(Call, functions, _lists(any_node, 0, 3))
    # Array operators twice: what they make of parentheses is the printer's hardest case.
    return calls | arrays | st.sampled_from([*ROLES, *ARRAY_OPERATORS]).flatmap(standard)


trees = st.recursive(leaves, _grown, max_leaves=12)
