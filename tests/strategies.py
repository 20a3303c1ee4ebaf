"""Conditions, drawn so that they meet publications.

``CONDITIONS`` has a strategy for every operator and function that a family has registered. Whoever adds a family adds
its strategies here, and the laws of ``tidegate.testing`` do the rest.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.drawn_publications import (
    ATTRIBUTES,
    CLASSES,
    INDIVIDUALS,
    MOST,
    NAMESPACE,
    PROPERTIES,
    bags,
    days,
    latitudes,
    longitudes,
    longs,
    moments,
    numbers,
    points,
    small,
    texts,
)
from tidegate.language import Array, Attribute, Box, Call, Geometry, Instant, Interval, Literal, Numbers, render_instant
from tidegate.language.words import TEMPORAL
from tidegate.model import RESERVED, micros


def _names(*kinds: str, reserved: tuple[str, ...] = ()):
    usual = [name for name, kind in ATTRIBUTES.items() if kind in kinds]
    return st.sampled_from([*usual, *usual, *reserved, *ATTRIBUTES]).map(Attribute)


def _instant(micros: int) -> Instant:
    return Instant(render_instant(micros), micros, False)


literals = {"number": (numbers | longs).map(Literal), "text": texts.map(Literal), "truth": st.booleans().map(Literal)}
timestamps = moments.map(lambda when: _instant(micros(when)))
dates = days.map(lambda day: Instant(day.isoformat(), micros(day), True))
instants = timestamps | dates
_number_names = _names("number", "long")
_text_names = _names("text", reserved=("source", "phase", "id"))
_time_names = _names("time", reserved=("time", "start", "end", "valid_until"))
_terms = st.recursive(
    _number_names | st.integers(0, 3).map(Literal),
    lambda inner: (
        st.builds(lambda op, a, b: Call(op, (a, b)), st.sampled_from(["+", "-", "*", "/", "%", "div"]), inner, inner)
        | st.builds(lambda a, b: Call("^", (a, Literal(b))), _number_names, st.integers(0, 3))
    ),
    max_leaves=3,
)


def _mentions(node) -> bool:
    return isinstance(node, Attribute) or (isinstance(node, Call) and any(map(_mentions, node.args)))


# Arithmetic without any attribute may have no finite result, which is an error and not a condition.
terms = _terms.filter(lambda node: not isinstance(node, Call) or all(_mentions(a) for a in _calls(node)))


def _calls(node):
    return [node, *(c for arg in node.args for c in _calls(arg))] if isinstance(node, Call) else []


def _folded(inner):
    return inner | st.builds(lambda op, node: Call(op, (node,)), st.sampled_from(["casei", "accenti"]), inner)


_pairs = st.one_of(
    st.tuples(terms, literals["number"]),
    st.tuples(_folded(_text_names), _folded(literals["text"])),
    st.tuples(_names("truth"), literals["truth"]),
    st.tuples(_time_names, instants),
    st.tuples(terms, terms),
    st.tuples(_text_names, _folded(_text_names)),
    st.tuples(_time_names, _time_names),
    st.tuples(st.sampled_from(list(ATTRIBUTES)).map(Attribute), st.sampled_from(list(ATTRIBUTES)).map(Attribute)),
    st.tuples(literals["number"], literals["number"]),
    st.tuples(instants, instants),
)


def _compare(op):
    return st.builds(lambda pair, flip: Call(op, pair[::-1] if flip else pair), _pairs, st.booleans())


def _key(node):
    return node.micros if isinstance(node, Instant) else node.value


def _between(operands, bounds):
    return st.builds(
        lambda v, two: Call("between", (v, *sorted(two, key=_key))), operands, st.lists(bounds, min_size=2, max_size=2)
    )


_between_any = st.one_of(
    _between(terms, literals["number"]),
    _between(_folded(_text_names), literals["text"]),
    _between(_time_names, instants),
    _between(literals["number"], literals["number"]),
    st.builds(lambda *args: Call("between", args), terms, _number_names, literals["number"]),
    st.builds(lambda *args: Call("between", args), literals["number"], _number_names, _number_names),
)


def _in(operands, items):
    return st.builds(
        lambda v, some: Call("in", (v, Array(tuple(some)))), operands, st.lists(items, min_size=1, max_size=4)
    )


_in_any = st.one_of(
    _in(terms, literals["number"]),
    _in(_folded(_text_names), literals["text"]),
    _in(_time_names, instants),
    _in(_names("truth"), literals["truth"]),
    _in(literals["number"], literals["number"]),
)
_patterns = st.lists(
    st.sampled_from(["%", "_", "a", "b", "c", "abc", "cat", "\\%", "\\", "é", "A", "ss"]), max_size=6
).map("".join)
_like = st.builds(lambda v, p: Call("like", (v, p)), _folded(_text_names), _folded(_patterns.map(Literal)))
_members = {
    "number": bags(small.map(Literal)),
    "text": bags(texts.map(Literal)),
    "any": bags(small.map(Literal) | texts.map(Literal) | st.booleans().map(Literal) | instants),
}
_sub = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])

#: Members that are lists, of which a value is one.
_lists = bags(_members["any"].map(lambda some: Array(tuple(some))) | small.map(Literal) | texts.map(Literal))
_lists |= bags(bags(texts.map(Literal)).map(lambda some: Array(tuple(some))))


def _terms_of(*names: str):
    """Terms as expressions write them."""
    form = st.sampled_from(["vin:{}", "<" + NAMESPACE + "{}>", NAMESPACE + "{}"])
    return st.builds(lambda form, name: Literal(form.format(name)), form, st.sampled_from(names))


_anything = _terms_of(*CLASSES, *PROPERTIES, *INDIVIDUALS)
_term_names = _names("term", reserved=("source", "id"))
_asked_of = {
    "isA": _terms_of(*CLASSES),
    "equivalent": _anything,
    "moreSpecific": _terms_of(*CLASSES, *PROPERTIES),
    "lessSpecific": _terms_of(*CLASSES, *PROPERTIES),
}


def _ontology(op):
    if op == "related":
        return st.builds(
            lambda *args: Call(op, args),
            _term_names, _terms_of(*PROPERTIES), _terms_of(*INDIVIDUALS),
        )  # fmt: skip
    return st.builds(lambda name, term: Call(op, (name, term)), _term_names, _asked_of[op])


def _semantic(op):
    """Bags with a relation of the ontology."""
    plain = [
        st.builds(lambda n, some, sub=sub: Call(op, (n, Array(tuple(some)), Literal(sub))), _names("terms"), bags(of))
        for sub, of in _asked_of.items()
    ]
    related = st.builds(
        lambda name, some, of: Call(op, (name, Array(tuple(some)), Call("related", (of,)))),
        _names("terms"), bags(_terms_of(*INDIVIDUALS)), _terms_of(*PROPERTIES),
    )  # fmt: skip
    return st.one_of(*plain, related)


def _bag(op):
    def call(name, members, sub):
        return Call(op, (name, Array(tuple(members)), *([Literal(sub)] if sub else ())))

    return st.one_of(
        st.builds(call, _names("numbers"), _members["number"], st.none() | _sub),
        st.builds(call, _names("texts"), _members["text"], st.none() | _sub),
        st.builds(call, _names("texts"), bags(_patterns.map(Literal)), st.just("LIKE")),
        st.builds(call, _names("texts", "numbers"), _members["any"], st.none() | _sub),
        st.builds(call, _names("numbers"), st.just([Literal(MOST)]), _sub),
        st.builds(call, _names("texts", "numbers"), _lists, st.just("IN")),
        _semantic(op),
    )


def _interval(a, b):
    if a is not None and b is not None and a.micros > b.micros:
        a, b = b, a
    return Interval(a, b)


_intervals = st.builds(_interval, st.none() | instants, st.none() | instants)
_POINT_RELATIONS = ("t_after", "t_before", "t_disjoint", "t_during", "t_equals", "t_intersects")


def _temporal(op):
    left = st.just(Attribute("event"))
    if op in _POINT_RELATIONS:
        left |= _time_names
    return st.builds(lambda a, b: Call(op, (a, b)), left, instants | _intervals)


_spots = st.sampled_from(["location", "location", "spot", "spot", "n", "t"]).map(Attribute)
_places = points.map(lambda point: Geometry("Point", point))


def _box(lons, lats, high) -> Box:
    (west, east), (south, north) = lons, sorted(lats)
    return Box((west, south, 0.0, east, north, 9.0) if high else (west, south, east, north))


def _two(values):
    return st.lists(values.map(float), min_size=2, max_size=2, unique=True)


_boxes = st.builds(_box, _two(longitudes), _two(latitudes), st.booleans())
_POLYGONS = [
    (((0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0), (0.0, 0.0)),),
    (((-1.0, -1.0), (3.0, 0.0), (0.5, 3.0), (-1.0, -1.0)),),
    (
        ((0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0), (0.0, 0.0)),
        ((1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (1.0, 2.0), (1.0, 1.0)),
    ),
    (((170.0, -90.0), (180.0, -90.0), (180.0, 90.0), (170.0, 90.0), (170.0, -90.0)),),
    (((1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (1.0, 1.0)),),
]
_geometries = st.one_of(
    st.sampled_from(_POLYGONS).map(lambda rings: Geometry("Polygon", rings)),
    _places,
    st.lists(points, min_size=2, max_size=3, unique=True).map(lambda ps: Geometry("LineString", tuple(ps))),
    st.lists(points, min_size=1, max_size=3, unique=True).map(lambda ps: Geometry("MultiPoint", tuple(ps))),
)


def _spatial(op):
    return st.builds(
        lambda spot, shape, flip: Call(op, (shape, spot) if flip else (spot, shape)),
        _spots,
        _geometries | _boxes,
        st.booleans(),
    )


_metres = st.sampled_from([0, 0.5, 137.1, 55_001.3, 120_003.7, 1_000_000, 9.5e6, 10_100_000, 19_900_123.4, 2.1e7])

_shapes = st.one_of(
    st.lists(small.map(Literal), min_size=3, max_size=5).map(lambda items: (Array(tuple(items)),)),
    st.lists(small.map(Literal), min_size=2, max_size=6).map(lambda items: (Array(tuple(items)), Literal("stretched"))),
    st.sampled_from(["spike", "step-up", "head-and-shoulders"]).map(lambda name: (Literal(name),)),
    st.lists(small, min_size=33, max_size=33).map(lambda values: (Numbers(values),)),
).filter(lambda args: not hasattr(args[0], "items") or len({item.value for item in args[0].items}) > 1)
_shape = st.builds(lambda name, args: Call("shape", (name, *args)), _names("series", "numbers"), _shapes)
_tolerances = st.sampled_from([0, 0.5, 1, 1.5, 2.0, 2.5, 3, 4, 8.5, 20]) | st.floats(0, 4)


def _toleration(shape, op, bounds, flip):
    if op == "between":
        return Call(op, (shape, *map(Literal, sorted(bounds))))
    return Call(op, (Literal(bounds[0]), shape) if flip else (shape, Literal(bounds[0])))


_shape_any = st.builds(
    _toleration,
    _shape.filter(lambda call: call.args[0].name not in RESERVED),
    st.sampled_from(["<=", "<=", "<", ">", ">=", "between"]),
    st.tuples(_tolerances, _tolerances),
    st.booleans(),
)

#: A strategy per operator and function, by its CQL2-JSON name.
CONDITIONS = {
    **{op: _compare(op) for op in ("=", "<>", "<", "<=", ">", ">=")},
    "between": _between_any,
    "in": _in_any,
    "isNull": st.sampled_from([*ATTRIBUTES, "location", "start", "phase", "nowhere"]).map(
        lambda n: Call("isNull", (Attribute(n),))
    ),
    "like": _like,
    **{op: _bag(op) for op in ("a_equals", "a_contains", "a_containedBy", "a_overlaps")},
    **{op: _temporal(op) for op in TEMPORAL},
    **{op: _spatial(op) for op in ("s_intersects", "s_disjoint", "s_within", "s_contains", "s_equals", "s_touches")},
    "s_dwithin": st.builds(lambda a, c, m: Call("s_dwithin", (a, c, Literal(m))), _spots, _places, _metres),
    "shape": _shape_any,
    **{op: _ontology(op) for op in ("isA", "equivalent", "moreSpecific", "lessSpecific", "related")},
}


def conditions(ops: list[str]):
    """A condition of one of the operators."""
    return st.sampled_from(ops).flatmap(CONDITIONS.__getitem__)


def expressions(ops: list[str], most: int = 6):
    """Conditions of the operators joined by AND, OR and NOT."""
    leaves = conditions(ops) | st.just(Attribute("flag")) | st.booleans().map(Literal)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(lambda a: Call("not", (a,)), inner)
            | st.builds(
                lambda op, some: Call(op, tuple(some)),
                st.sampled_from(["and", "or"]),
                st.lists(inner, min_size=2, max_size=3),
            )
        ),
        max_leaves=most,
    )
