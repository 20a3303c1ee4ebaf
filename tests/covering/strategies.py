"""Random conditions as CQL2 text, with values so near that they often cover each other, and publications to match."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import inf, nextafter
from random import Random

from hypothesis import strategies as st

from tidegate import Publication
from tidegate.language import parse
from tidegate.predicates import Filter, compile_filter

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
OPS = ("=", "<>", "<", "<=", ">", ">=")


@lru_cache(maxsize=65_536)
def filter_of(text: str) -> Filter:
    return compile_filter(parse(text), text)


def publication(**attributes) -> Publication:
    fields = {k: attributes.pop(k) for k in ("start", "end", "phase", "location") if k in attributes}
    return Publication("p", "z7", NOW, attributes, **fields)


# --- comparisons: everything about them can be tried out ------------------------------------------------------------

_NUMBERS = (1, 2, 3)
_TEXTS = ("a", "b", "ba")
#: Every value that the comparisons below can tell apart: the constants, their neighbours, other types, none at all.
VALUES = [
    *(v for n in _NUMBERS for v in (nextafter(n, -inf), n, nextafter(n, inf))),
    *(v for t in ("", *_TEXTS) for v in (t, t + "\0")),
    "c",
    True,
    False,
    NOW,
    [1],
    None,
]
_ops = st.sampled_from(OPS)
_names = st.sampled_from(["x", "y"])
_numbers = st.sampled_from(_NUMBERS)
_quoted = st.sampled_from([f"'{t}'" for t in _TEXTS])
_constants = _numbers.map(str) | _quoted | st.sampled_from(["TRUE", "FALSE"])

comparisons = (
    st.builds("{} {} {}".format, _names, _ops, _numbers | _constants)
    | st.builds("{} IS {}NULL".format, _names, st.sampled_from(["", "NOT "]))
    | st.builds(lambda n, a, b: f"{n} BETWEEN {min(a, b)} AND {max(a, b)}", _names, _numbers, _numbers)
    | st.builds("{} {}IN ({}, {})".format, _names, st.sampled_from(["", "NOT "]), _quoted, _quoted)
)
conjunctions = st.lists(comparisons, min_size=1, max_size=4).map(" AND ".join) | st.sampled_from(["TRUE", "FALSE"])
disjunctions = st.lists(conjunctions.map("({})".format), min_size=1, max_size=3).map(" OR ".join)
EVERY = [publication(x=x, y=y) for x in VALUES for y in VALUES]

# --- all families ---------------------------------------------------------------------------------------------------

_patterns = st.text("ab%_", min_size=1, max_size=5)
_corners = st.sampled_from([0, 1, 2, 3, 170, 179])
_members = st.lists(st.sampled_from(["1", "2", "3", "'a'", "'ab'"]), max_size=3).map(lambda m: f"({', '.join(m)})")
_subs = st.sampled_from(["", "", "", ", '<'", ", '>='", ", '<>'"])
_relations = st.sampled_from(["a_equals", "a_contains", "a_containedBy", "a_overlaps"])


def _shape(kind, x, y, w, h):
    e, n = min(x + w, 180), y + h
    if kind == "BBOX":
        return f"BBOX({x}, {y}, {e}, {n})"
    if kind == "TRIANGLE":
        return f"POLYGON(({x} {y}, {e} {y}, {x} {n}, {x} {y}))"
    if kind == "POINT":
        return f"POINT({x} {y})"
    return f"POLYGON(({x} {y}, {e} {y}, {e} {n}, {x} {n}, {x} {y}))"


_shapes = st.builds(
    _shape,
    st.sampled_from(["BBOX", "POLYGON", "TRIANGLE", "POINT"]),
    _corners,
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(1, 3),
)
_spatial = st.sampled_from(["S_INTERSECTS", "S_WITHIN", "S_DISJOINT", "S_EQUALS", "S_TOUCHES"])
_metres = st.sampled_from([0, 1e5, 2e5, 4e5, 2e7])
_places = st.builds("{}(location, {})".format, _spatial, _shapes) | st.builds(
    "S_DWITHIN(location, POINT({} {}), {})".format, _corners, st.integers(0, 3), _metres
)
_bags = st.builds("{}(b, {}{})".format, _relations, _members, _subs)
_likes = st.builds("{} LIKE '{}'".format, st.sampled_from(["x", "x", "CASEI(x)"]), _patterns) | st.builds(
    "CASEI(x) {} '{}'".format, _ops, st.sampled_from(["a", "ab", "B"])
)
_several = st.builds("{} {} {}".format, st.sampled_from(["x", "x + y"]), _ops, st.sampled_from(["y", "2", "3"]))
_PHASES = ["phase = 'START'", "phase <> 'START'", "phase IN ('END', 'INSTANT')"]
_fields = st.sampled_from([*_PHASES, "source IS NOT NULL", "id IS NULL", "id = 'p'"]) | st.builds(
    "T_{}(event, INTERVAL('2026-11-15T0{}:00:00Z', '2026-11-15T09:00:00Z'))".format,
    st.sampled_from(["AFTER", "BEFORE", "DURING", "INTERSECTS", "DISJOINT", "MEETS", "OVERLAPS", "CONTAINS", "EQUALS"]),
    st.integers(6, 8),
)
predicates = comparisons | _likes | _places | _bags | _several | _fields
_maybe_not = st.builds("{}{}".format, st.sampled_from(["", "", "NOT "]), predicates)
conditions = st.lists(
    st.lists(_maybe_not, min_size=1, max_size=3).map(" AND ".join).map("({})".format), min_size=1, max_size=2
).map(" OR ".join)


def _anything(draw: Random) -> Publication:
    near = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
    start, end = (NOW.replace(hour=h) if h else None for h in sorted(draw.choices((0, 5, 6, 7, 8, 9, 10), k=2)))
    return publication(
        x=draw.choice([*VALUES, *_NUMBERS, "".join(draw.choices("abAB", k=draw.randrange(6)))]),
        y=draw.choice([*VALUES, *_NUMBERS, *_NUMBERS]),
        b=draw.choice([None, draw.choices([1, 2, 3, "a", "ab"], k=draw.randrange(5))]),
        location=draw.choice([None, *((lon, draw.choice(near)) for lon in (*near, 170.5, 173, 180, -180, -179.5))]),
        phase=draw.choice([None, "START", "END"]),
        start=start,
        end=end,
    )


#: Publications that match now this, now that of the conditions above.
SOME = [_anything(Random(seed)) for seed in range(600)]
