"""What an expression means, in obvious steps: the oracle that every kernel is held against.

Evaluates an expression *tree* on one publication with plain Python operators and imports nothing of the predicates,
the index or the kernels. A condition is True, False, or None where it cannot be decided (a missing attribute, a value
of another type); negation is pushed down to conditions, and neither None nor its negation holds.
"""

from __future__ import annotations

import math
import unicodedata
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import permutations

import numpy as np
import shapely

from tests.oracle_ontology import ONTOLOGY, ontology
from tidegate.language.tree import Array, Attribute, Box, Call, Geometry, Instant, Interval, Literal
from tidegate.model import Publication
from tidegate.shapes import named_shapes

EARTH_RADIUS = 6_371_008.8
DAY = 86_400_000_000

#: An instant, or all the instants of a day: first and last microsecond.
Span = namedtuple("Span", "first last")


def holds(node, publication: Publication) -> bool:
    """Whether the publication satisfies the expression."""
    return _is(node, publication, True)


def _is(node, publication, wanted: bool) -> bool:
    if isinstance(node, Call) and node.op == "not":
        return _is(node.args[0], publication, not wanted)
    if isinstance(node, Call) and node.op in ("and", "or"):
        parts = [_is(arg, publication, wanted) for arg in node.args]
        return all(parts) if (node.op == "and") is wanted else any(parts)
    return condition(node, publication) is wanted


def condition(node, publication) -> bool | None:
    """One condition without NOT, AND, OR: True, False, or None where it cannot be decided."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Attribute):
        value = publication.value(node.name)
        return value if isinstance(value, bool) else None
    op, args = node.op, node.args
    if op in COMPARE:
        return compare(op, scalar(args[0], publication), scalar(args[1], publication))
    if op == "between":
        value, low, high = (scalar(arg, publication) for arg in args)
        return both(compare(">=", value, low), compare("<=", value, high))
    if op == "in":
        found = [compare("=", scalar(args[0], publication), scalar(item, publication)) for item in args[1].items]
        return None if None in found else any(found)
    if op == "isNull":
        return publication.value(args[0].name) is None
    if op == "like":
        value, pattern = scalar(args[0], publication), scalar(args[1], publication)
        return like(value, pattern) if isinstance(value, str) else None
    if op in ONTOLOGY:
        value = publication.value(args[0].name)
        return ontology(op, value, *(arg.value for arg in args[1:])) if isinstance(value, str) else None
    if op.startswith("a_"):
        return bag(op, publication.value(args[0].name), *args[1:])
    if op.startswith("t_"):
        return relation_in_time(op, args[0].name, args[1], publication)
    if op.startswith("s_"):
        return relation_in_space(op, args, publication)
    raise AssertionError(f"no oracle for {op}")


def both(a: bool | None, b: bool | None) -> bool | None:
    return None if a is None or b is None else a and b


# --- single values ------------------------------------------------------------------------------------------------


def scalar(node, publication):
    """A number, string, truth value or Span; None where there is none. What arithmetic takes and gives is a double."""
    if isinstance(node, Literal):
        return exact(node.value)
    if isinstance(node, Instant):
        return Span(node.micros, node.micros + (DAY - 1 if node.is_date else 0))
    if isinstance(node, Attribute):
        return exact(publication.value(node.name))
    if node.op == "shape":
        return shape(*node.args, publication=publication)
    if node.op in ("casei", "accenti"):
        text = scalar(node.args[0], publication)
        return fold(node.op, text) if isinstance(text, str) else None
    left, right = (scalar(arg, publication) for arg in node.args)
    if not is_number(left) or not is_number(right):
        return None
    try:
        result = ARITHMETIC[node.op](float(left), float(right))
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return result if math.isfinite(result) else None


def shape(attribute, series, mode=None, publication=None) -> float | None:
    """How far the normal forms of two series are apart; None where one has none."""
    value = publication.value(attribute.name)
    if not isinstance(value, list) or any(isinstance(x, bool) or not isinstance(x, int | float) for x in value):
        return None
    if isinstance(series, Literal):
        controls = named_shapes.find(series.value).points
    else:
        controls = [float(item.value) for item in series.items]
    if mode is not None or isinstance(series, Literal):
        n, last = len(value), len(controls) - 1
        places = [j * last / (n - 1) for j in range(n)] if n > 1 else []
        controls = np.interp(places, range(last + 1), controls)
    a, b = normal_form([float(x) for x in value]), normal_form(list(controls))
    if a is None or b is None or len(a) != len(b):
        return None
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (x - y) * (x - y)
    return math.sqrt(total)


def normal_form(series) -> list[float] | None:
    """Mean 0 and standard deviation 1, every sum from the first to the last; None of what is constant or has a gap."""
    if not 3 <= len(series) <= 65_536 or not all(map(math.isfinite, series)) or min(series) == max(series):
        return None
    exponent = math.frexp(max(abs(x) for x in series))[1]
    found = [math.ldexp(x, -exponent) for x in series]
    for _ in range(2):  # once more for what rounding left of the mean
        mean = 0.0
        for x in found:
            mean += x
        found = [x - mean / len(found) for x in found]
    square = 0.0
    for x in found:
        square += x * x
    return [x / math.sqrt(square / len(found)) for x in found]


def exact(value):
    """As comparisons see it."""
    return value if is_number(value) else plain(value)


def plain(value):
    """As everything else sees it: numbers are doubles."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, date):
        return Span(microseconds(value), microseconds(value))
    return None


def is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def microseconds(when: date) -> int:
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day, tzinfo=UTC)
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def fold(op: str, text: str) -> str:
    if op == "casei":
        return text.casefold()
    letters = [c for c in unicodedata.normalize("NFD", text) if unicodedata.combining(c) == 0]
    return unicodedata.normalize("NFC", "".join(letters))


ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": math.fmod,
    "div": lambda a, b: float(math.trunc(a / b)),
    "^": math.pow,
}
COMPARE = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compare(op, a, b) -> bool | None:
    if is_number(a) and is_number(b):
        return COMPARE[op](a, b)  # exact in Python, also of an integer and a float
    if a is None or b is None or type(a) is not type(b):
        return None
    if not isinstance(a, Span):
        return COMPARE[op](a, b)
    before, after = a.last < b.first, a.first > b.last
    return {
        "=": not before and not after,
        "<>": before or after,
        "<": before,
        "<=": not after,
        ">": after,
        ">=": not before,
    }[op]


@cache
def like(text: str, pattern: str) -> bool:
    """``%`` is any characters, ``_`` is one, ``\\`` makes the next one plain."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return any(like(text[i:], rest) for i in range(len(text) + 1))
    if first == "\\" and rest:
        first, rest = rest[0], rest[1:]
    elif first == "_":
        return bool(text) and like(text[1:], rest)
    return bool(text) and text[0] == first and like(text[1:], rest)


# --- bags ---------------------------------------------------------------------------------------------------------


def bag(op, value, constant: Array, sub: Literal | None = None) -> bool | None:
    """Every injective assignment is tried. A DATE among the members is its midnight; NaN and infinities are none."""
    if not isinstance(value, list):
        return None
    mine = [None if isinstance(m, float) and not math.isfinite(m) else plain(m) for m in value]
    theirs = [member(item) for item in constant.items]
    properties = [sub.args[0].value] if isinstance(sub, Call) else []
    sub = "=" if sub is None else "related" if isinstance(sub, Call) else sub.value
    sub = sub.upper() if sub.upper() in ("IN", "LIKE") else sub  # keywords of CQL2 are written in any case

    def partners(a, b) -> bool:
        if sub in ONTOLOGY:
            return isinstance(a, str) and ontology(sub, a, *properties, b)
        if sub == "IN":
            return any(compare("=", a, one) is True for one in (b if isinstance(b, list) else [b]))
        if sub == "LIKE":
            return isinstance(a, str) and isinstance(b, str) and like(a, b)
        return compare(sub, a, b) is True

    if op == "a_overlaps":
        return any(partners(a, b) for a in mine for b in theirs)
    if op == "a_equals" and len(mine) != len(theirs):
        return False
    if op == "a_contains":
        return any(all(map(partners, some, theirs)) for some in permutations(mine, len(theirs)))
    return any(all(map(partners, mine, some)) for some in permutations(theirs, len(mine)))


def member(item):
    if isinstance(item, Array):
        return [member(inner) for inner in item.items]
    return Span(item.micros, item.micros) if isinstance(item, Instant) else plain(item.value)


# --- time ---------------------------------------------------------------------------------------------------------


def relation_in_time(op, name, right, publication) -> bool | None:
    """A date begins with the first microsecond of its day and ends with the last."""
    start, end = (right.start, right.end) if isinstance(right, Interval) else (right, right)
    first = -math.inf if start is None else scalar(start, publication).first
    last = math.inf if end is None else scalar(end, publication).last
    s, e = (plain(publication.value(n)) for n in (("start", "end") if name == "event" else (name, name)))
    if not isinstance(s, Span) or not isinstance(e, Span):
        return None
    s, e = s.first, e.last
    apart = e < first or last < s
    if name != "event":
        return {
            "t_after": last < s,
            "t_before": s < first,
            "t_disjoint": apart,
            "t_during": not apart,
            "t_equals": s == first == last if isinstance(right, Interval) else not apart,
            "t_intersects": not apart,
        }[op]
    return {
        "t_after": last < s,
        "t_before": e < first,
        "t_contains": s < first and last < e,
        "t_disjoint": apart,
        "t_during": first < s and e < last,
        "t_equals": s == first and e == last,
        "t_finishedBy": s < first and e == last,
        "t_finishes": first < s and e == last,
        "t_intersects": not apart,
        "t_meets": e == first,
        "t_metBy": s == last,
        "t_overlappedBy": first < s and s < last and last < e,
        "t_overlaps": s < first and first < e and e < last,
        "t_startedBy": s == first and last < e,
        "t_starts": s == first and e < last,
    }[op]


# --- space --------------------------------------------------------------------------------------------------------


def relation_in_space(op, args, publication) -> bool | None:
    left, right = args[:2]
    if isinstance(right, Attribute):
        left, right = right, left
        op = {"s_contains": "s_within", "s_within": "s_contains"}.get(op, op)
    value = publication.value(left.name)
    if not isinstance(value, tuple):
        return None
    if op == "s_dwithin":
        return metres(value, right.coordinates) <= args[2].value
    if isinstance(right, Box):
        return in_box(op, *value, right)
    point, shape = shapely.Point(value), geometry(right)
    return {
        "s_intersects": lambda: point.intersects(shape),
        "s_disjoint": lambda: point.disjoint(shape),
        "s_within": lambda: point.within(shape),
        "s_contains": lambda: point.contains(shape),
        "s_equals": lambda: point.equals(shape),
        "s_touches": lambda: point.touches(shape),
    }[op]()


def metres(a, b) -> float:
    (lon, lat), (lon2, lat2) = ([math.radians(c) for c in point[:2]] for point in (a, b))
    h = math.sin((lat2 - lat) / 2) ** 2 + math.cos(lat) * math.cos(lat2) * math.sin((lon2 - lon) / 2) ** 2
    return 2 * EARTH_RADIUS * math.asin(math.sqrt(min(h, 1.0)))


def in_box(op, lon, lat, box: Box) -> bool:
    """Boxes with west > east lie across the antimeridian; nothing but their interior is within them."""
    west, south, east, north = box.bounds if len(box.bounds) == 4 else (*box.bounds[:2], *box.bounds[3:5])
    inside_lon = west < lon < east if west <= east else lon > west or lon < east
    closed_lon = west <= lon <= east if west <= east else lon >= west or lon <= east
    inside, closed = inside_lon and south < lat < north, closed_lon and south <= lat <= north
    return {
        "s_within": inside,
        "s_intersects": closed,
        "s_disjoint": not closed,
        "s_touches": closed and not inside,
        "s_equals": False,
        "s_contains": False,
    }[op]


def geometry(node: Geometry):
    if node.kind == "Polygon":
        return shapely.Polygon(node.coordinates[0], node.coordinates[1:])
    if node.kind == "Point":
        return shapely.Point(node.coordinates)
    if node.kind == "LineString":
        return shapely.LineString(node.coordinates)
    if node.kind == "MultiPoint":
        return shapely.MultiPoint(node.coordinates)
    raise AssertionError(f"no oracle for {node.kind}")
