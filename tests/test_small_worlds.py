"""Every family on a small world, exhaustively: all conditions over a few constants, all publications over a few values.

What the laws draw at random is here taken one by one, so that no corner depends on luck.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import chain, combinations_with_replacement, product

from tests import oracle
from tidegate import testing as laws
from tidegate.language import Array, Attribute, Box, Call, Geometry, Instant, Interval, Literal, render_instant
from tidegate.language.words import TEMPORAL
from tidegate.model import Publication, micros

MIDNIGHT = datetime(2026, 11, 15, tzinfo=UTC)
POINT_RELATIONS = ("t_after", "t_before", "t_disjoint", "t_during", "t_equals", "t_intersects")


def both_ways(nodes):
    """Each condition and its negation."""
    return [some for node in nodes for some in (node, Call("not", (node,)))]


def published(values, name="x"):
    """A publication for each value of an attribute, and one without it."""
    made = [Publication(f"p{i}", "z", MIDNIGHT, {name: value}) for i, value in enumerate(values)]
    return [*made, Publication("none", "z", MIDNIGHT)]


def agree(nodes, publications):
    """The engine, the filters and the oracle, on objects; the engine on objects, one at a time, and on a table."""
    laws.engine_equals_oracle(nodes, publications, oracle.holds)
    laws.cutting_changes_nothing(nodes, publications, range(len(publications)))
    laws.objects_and_tables_agree(nodes, publications)


def words(letters, longest):
    return ["".join(some) for n in range(longest + 1) for some in product(letters, repeat=n)]


def bags(members, largest):
    return [list(some) for n in range(largest + 1) for some in combinations_with_replacement(members, n)]


def test_patterns():
    nodes = [Call("like", (Attribute("x"), Literal(pattern))) for pattern in words("%_ab", 4)]
    texts = [*words("ab", 4), "\n", "a\nb", "ab\n", "abab\nab", "%", "_", "aXbYa"]
    agree(both_ways(nodes), published(texts))


def test_patterns_with_longer_pieces():
    patterns = [
        "%abc%",
        "abc%",
        "%abc",
        "abc%abc",
        "%abc%bca%",
        "_abc%",
        "%abc_",
        "ab%ab%ab",
        "a\\%b%",
        "%\\_%",
        "\\\\%x%",
        "%a\\",
    ]
    nodes = [Call("like", (Attribute("x"), Literal(pattern))) for pattern in patterns]
    texts = [
        a + b + c
        for a in ("", "abc", "ab", "%")
        for b in ("abc", "bca", "_", "\\x", "a%b")
        for c in ("", "abc", "c", "\\")
    ]
    agree(both_ways(nodes), published(texts))


def test_folded_text():
    texts = ["Straße", "STRASSE", "strasse", "Ärger", "ärger", "arger", "e\u0301", "é", "É", "E", "İ", ""]
    operands = [Attribute("x"), *(Call(op, (Attribute("x"),)) for op in ("casei", "accenti"))]
    operands.append(Call("casei", (Call("accenti", (Attribute("x"),)),)))
    constants = [Literal(text) for text in texts]
    constants += [Call("casei", (c,)) for c in constants] + [Call("accenti", (c,)) for c in constants]
    agree(both_ways(Call("=", pair) for pair in product(operands, constants)), published(texts))


def test_bags_with_sub_operators():
    subs = [None, "<>", "<", ">="]
    nodes = [
        Call(op, (Attribute("x"), Array(tuple(map(Literal, members))), *([Literal(sub)] if sub else ())))
        for op, members, sub in product(
            ("a_equals", "a_contains", "a_containedBy", "a_overlaps"), bags((1, 2, 3), 3), subs
        )
    ]
    agree(both_ways(nodes), published(bags((0, 1, 2, 2.5, 3), 3)))


def test_bags_of_patterns():
    nodes = [
        Call(op, (Attribute("x"), Array(tuple(map(Literal, members))), Literal("LIKE")))
        for op, members in product(
            ("a_equals", "a_contains", "a_containedBy", "a_overlaps"), bags(("a%", "%b", "ab", "_"), 3)
        )
    ]
    agree(both_ways(nodes), published(bags(("a", "b", "ab"), 3)))


def test_bags_of_several_kinds():
    members = [Literal(1), Literal("1"), Literal(True), instant(MIDNIGHT)]
    nodes = [
        Call(op, (Attribute("x"), Array(tuple(some)), Literal(sub)))
        for op, sub in product(("a_equals", "a_contains", "a_containedBy", "a_overlaps"), ("=", "<>", "<=", ">"))
        for some in bags(members, 2)
    ]
    laws.engine_equals_oracle(
        both_ways(nodes), published(bags((1, 2.0, "1", True, False, MIDNIGHT, MIDNIGHT.date()), 3)), oracle.holds
    )


def instant(when: datetime | date) -> Instant:
    at = micros(when)
    return Instant(render_instant(at), at, False) if isinstance(when, datetime) else Instant(when.isoformat(), at, True)


def test_relations_in_time():
    hours = [MIDNIGHT + timedelta(hours=h) for h in (-1, 0, 12, 24)]
    edges = [MIDNIGHT + timedelta(days=1, microseconds=-1)]
    ends = [None, *hours, *edges]
    publications = [
        Publication(f"p{i}-{j}", "z", a or MIDNIGHT, {"x": b} if b else {}, start=a, end=b)
        for (i, a), (j, b) in product(enumerate(ends), enumerate(ends))
        if a is None or b is None or a <= b
    ]
    constants = [*map(instant, hours), instant(MIDNIGHT.date())]
    bounds = [None, *map(instant, hours[:3]), instant(MIDNIGHT.date())]
    constants += [Interval(a, b) for a, b in product(bounds, bounds) if a is None or b is None or a.micros <= b.micros]
    nodes = [Call(op, (Attribute("event"), constant)) for op, constant in product(TEMPORAL, constants)]
    nodes += [
        Call(op, (Attribute(name), constant))
        for op, name, constant in product(POINT_RELATIONS, ("time", "start", "x"), constants)
    ]
    agree(both_ways(nodes), publications)


def test_comparisons_of_every_type():
    most = 1.7976931348623157e308
    numbers = [-most, -1, -0.0, 5e-324, 1, 1.0000000000000002, 2.0**53, most]
    longs = [-(2**63), -(2**53) - 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1]
    texts = ["", "\0", "a", "a\0", "ab", "\ud7ff", "\ue000", "\U0010ffff"]
    times = [MIDNIGHT + timedelta(microseconds=m) for m in (-1, 0, 1, 86_399_999_999, 86_400_000_000)]
    constants = {
        "number": [*map(Literal, numbers)],
        "long": [*map(Literal, longs)],
        "text": [*map(Literal, texts)],
        "time": [*map(instant, times), instant(MIDNIGHT.date())],
        "truth": [Literal(False), Literal(True)],
    }
    compare = ("=", "<>", "<", "<=", ">", ">=")
    x = Attribute("x")
    nodes = [Call(op, (x, c)) for op, c in product(compare, chain(*constants.values()))]
    nodes += [Call(op, (c, x)) for op, c in product(compare, chain(*constants.values()))]
    for some in constants.values():
        nodes += [Call("in", (x, Array(pair))) for pair in product(some, some)]
    for kind in ("number", "long", "text", "time"):
        nodes += [Call("between", (x, a, b)) for a, b in product(constants[kind], repeat=2) if key(a) <= key(b)]
        nodes += [Call(op, pair) for op, pair in product(compare, product(constants[kind][:4], repeat=2))]
    days = [MIDNIGHT.date()]
    values = {"number": numbers, "long": longs, "text": texts, "time": times, "truth": [False, True], "day": days}
    laws.engine_equals_oracle(both_ways(nodes), published(list(chain(*values.values()))), oracle.holds)
    for some in values.values():
        laws.objects_and_tables_agree(both_ways(nodes), published(some))


def key(node):
    return node.micros if isinstance(node, Instant) else node.value


def test_arithmetic_where_it_is_undefined():
    x, y = Attribute("x"), Attribute("y")
    terms = [
        Call(op, pair)
        for op in ("+", "-", "*", "/", "%", "div", "^")
        for pair in ((x, y), (y, Literal(0)), (Literal(1), y))
    ]
    terms += [Call("/", (Literal(1), term)) for term in terms] + [Call("^", (term, Literal(0))) for term in terms]
    nodes = [Call(op, (term, Literal(c))) for op, term, c in product(("<", "=", ">="), terms, (0, 1))]
    values = [None, 0, 1, -2, 0.5, 1e308, "text"]
    publications = [
        Publication(f"p{i}", "z", MIDNIGHT, {"x": a, "y": b}) for i, (a, b) in enumerate(product(values, values))
    ]
    laws.engine_equals_oracle(both_ways(nodes), publications, oracle.holds)
    laws.objects_and_tables_agree(both_ways(nodes), [p for p in publications if "text" not in p.attributes.values()])


def test_places():
    lons, lats = (-180.0, -179.9, -1.0, 0.0, 1.0, 2.0, 179.9, 180.0), (-90.0, -89.9, 0.0, 1.0, 2.0, 90.0)
    points = list(product(lons, lats))
    ring = ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 0.0))
    shapes = [
        Geometry("Polygon", (ring,)),
        Geometry("Point", (1.0, 1.0)),
        Geometry("LineString", ((0.0, 0.0), (2.0, 2.0))),
        *(Box((w, s, e, n)) for w, e in product(lons[::2], lons[1::2]) for s, n in ((-90.0, 1.0), (0.0, 2.0))),
        Box((179.9, 0.0, 5.0, -179.9, 2.0, 9.0)),
    ]
    spot = Attribute("location")
    ops = ("s_intersects", "s_disjoint", "s_within", "s_contains", "s_equals", "s_touches")
    nodes = [Call(op, pair) for op, shape in product(ops, shapes) for pair in ((spot, shape), (shape, spot))]
    distances = [Literal(m) for m in (0, 1.5, 25_000, 112_000, 400_000, 1.1e7, 1.99e7, 2.1e7)]
    nodes += [Call("s_dwithin", (spot, Geometry("Point", p), m)) for p, m in product(points[::3], distances)]
    publications = [Publication(f"p{i}", "z", MIDNIGHT, location=point) for i, point in enumerate(points)]
    agree(both_ways(nodes), [*publications, Publication("none", "z", MIDNIGHT)])


def test_covering():
    """Sound on every pair, of one family or of two."""
    x, spot = Attribute("x"), Attribute("location")
    nodes = [Call(op, (x, Literal(c))) for op, c in product(("<", ">=", "=", "<>"), (0, 1))]
    nodes += [Call("like", (x, Literal(p))) for p in ("%a%", "%ab%", "a%", "ab%", "%b", "_a%", "ab", "a_b%c")]
    bag = [Array(tuple(map(Literal, some))) for some in bags((1, 2), 2)]
    nodes += [Call(op, (x, b)) for op, b in product(("a_equals", "a_contains", "a_containedBy", "a_overlaps"), bag)]
    nodes += [Call(op, (x, b, Literal("<"))) for op, b in product(("a_contains", "a_overlaps"), bag)]
    nodes += [
        Call("s_dwithin", (spot, Geometry("Point", p), Literal(m)))
        for p in ((0.0, 0.0), (0.0, 1.0))
        for m in (0, 1e5, 3e5)
    ]
    squares = [
        tuple((s * a, s * b) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))) for s in (0.5, 1.0, 4.0)
    ]
    nodes += [
        Call(op, (spot, Geometry("Polygon", (r,))))
        for op, r in product(("s_within", "s_intersects", "s_touches"), squares)
    ]
    values = [0, 0.5, 1, "ab", "aab", "cab", "axbc", *bags((0, 1, 2), 3)]
    places = [
        Publication(f"l{i}", "z", MIDNIGHT, location=p) for i, p in enumerate(product((-1.0, 0.0, 0.9, 2.0), repeat=2))
    ]
    laws.covering_is_sound(nodes, [*published(values), *places])
