"""Publications, drawn so that conditions meet them: few names, few values, and the edges of every type."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from math import inf, nan
from pathlib import Path

from hypothesis import strategies as st

from tidegate.model import Publication
from tidegate.ontologies import current

#: The ontology of the examples; the laws ask about it, and its functions have no meaning without one.
ONTOLOGY = Path(__file__).parent / "ontologies" / "wine.ttl"
NAMESPACE = "http://example.org/wine#"
current.load(ONTOLOGY, prefixes={"vin": NAMESPACE})


# --- values -------------------------------------------------------------------------------------------------------


MOST = 1.7976931348623157e308
numbers = st.one_of(
    st.integers(-3, 6),
    st.integers(-6, 12).map(lambda n: n / 2),
    st.sampled_from([-0.0, 5e-324, MOST, -MOST, 0.1 + 0.2, 2.0**53, -(2.0**60)]),
    st.floats(-10, 10),
)
#: Whole numbers of 64 bits, in groups that have the same double.
longs = st.one_of(
    st.integers(-3, 6),
    st.builds(
        lambda edge, more: max(-(2**63), min(edge + more, 2**63 - 1)),
        st.sampled_from([2**53, -(2**53), 2**60, -(2**60), 2**63, -(2**63)]),
        st.integers(-3, 3),
    ),
)
small = st.integers(-3, 5) | st.integers(-4, 8).map(lambda n: n / 2)
_WORDS = [
    *(
        "",
        "a",
        "b",
        "ab",
        "abc",
        "abcabc",
        "Abc",
        "ABC",
        "äbc",
        "ÄBC",
        "straße",
        "STRASSE",
        "cat",
        "concat",
        "%",
        "a_b",
    ),
    *("\\", "a\0", "\0", "é", "e\u0301", "😀", "\ud7ff", "\ue000", "\U0010ffff", "a\U0010ffff", "a\nb", "it's"),
]
texts = st.sampled_from(_WORDS) | st.text(alphabet="abcA%_\\é\0", max_size=6)
_NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
_ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-5)), timezone(timedelta(hours=5, minutes=45))])
moments = st.builds(
    lambda hours, extra, zone: (_NOON + timedelta(hours=hours, microseconds=extra)).astimezone(zone),
    st.integers(-8, 8).map(lambda n: 6 * n),
    st.integers(-1, 1),
    _ZONES,
)
days = st.dates(date(2026, 11, 13), date(2026, 11, 17))
longitudes = st.sampled_from([-180, -179.5, -170, -1, 0, 0.5, 1, 1.25, 2, 3, 170, 179.999, 180])
latitudes = st.sampled_from([-90, -89.9, -1, 0, 0.5, 1, 1.25, 2, 3, 45, 89.9, 90])
points = st.tuples(longitudes.map(float), latitudes.map(float))

CLASSES, PROPERTIES = ("Wine", "RedWine", "VinRouge", "Chianti"), ("hasColor", "locatedIn", "growsIn", "contains")
INDIVIDUALS = ("FonteVino", "Bancroft", "OldRed", "Tuscany", "Italy", "Italia", "Red", "White")
_forms = st.sampled_from(["vin:", NAMESPACE])
#: Terms as publications write them; some the ontology does not know.
words = st.builds(str.__add__, _forms, st.sampled_from([*CLASSES, *PROPERTIES, *INDIVIDUALS, *INDIVIDUALS, "Beer", ""]))


def bags(members):
    return st.lists(members, max_size=4)


#: What a list may have for a number and no bag, series or scalar knows.
gaps = st.sampled_from([nan, inf, -inf])


def series(members):
    """Of the lengths that shapes are asked of, mostly."""
    long = st.lists(members, min_size=33, max_size=33)
    return st.one_of(*(st.lists(members, min_size=n, max_size=n) for n in (2, 3, 4, 5)), long)


KINDS = {
    "number": numbers,
    "long": longs,
    "text": texts,
    "truth": st.booleans(),
    "time": moments,
    "day": days,
    "point": points,
    "numbers": bags(small | small | gaps),
    "texts": bags(texts),
    "times": bags(moments),
    "truths": bags(st.booleans()),
    "mixture": bags(small | texts | st.booleans() | moments | gaps),
    "series": series(small),
    "term": words,
    "terms": bags(words),
}
UNMIXED = [kind for kind in KINDS if kind != "mixture"]
#: The same without gaps.
WHOLE = {"numbers": bags(small), "mixture": bags(small | texts | st.booleans() | moments)}
#: The attributes, with what they usually hold.
ATTRIBUTES = {
    "n": "number",
    "m": "long",
    "t": "text",
    "u": "text",
    "flag": "truth",
    "when": "time",
    "spot": "point",
    "bag": "numbers",
    "tags": "texts",
    "wave": "series",
    "term": "term",
    "terms": "terms",
}


# --- publications -------------------------------------------------------------------------------------------------


@st.composite
def publications(draw, mixed: bool = False, most: int = 8, whole: bool = False):
    """A batch. Most attributes hold what they usually do; ``mixed`` lets the type differ from row to row as well.

    No list has a gap if ``whole``: JSON has no NaN.
    """
    strategies = {**KINDS, **WHOLE} if whole else KINDS
    kinds = {name: draw(st.sampled_from([usual, usual, usual, *UNMIXED])) for name, usual in ATTRIBUTES.items()}
    found = []
    for i in range(draw(st.integers(1, most))):
        attributes = {}
        for name, kind in kinds.items():
            if mixed and draw(st.integers(0, 5)) == 0:
                kind = draw(st.sampled_from([*KINDS]))
            if draw(st.integers(0, 5)):
                attributes[name] = draw(strategies[kind])
        start, end = draw(st.none() | moments), draw(st.none() | moments)
        if start is not None and end is not None and end < start:
            start, end = end, start
        found.append(
            Publication(
                id=f"p{i}",
                source=draw(st.sampled_from(["z7", "abc", "é"])),
                time=draw(moments),
                attributes=attributes,
                start=start,
                end=end,
                phase=draw(st.sampled_from([None, "START", "END", "INSTANT"])),
                location=draw(st.none() | points),
                valid_until=draw(st.none() | moments),
            )
        )
    return found
