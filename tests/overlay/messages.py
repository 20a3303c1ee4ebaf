"""Messages of every kind, with names that JSON must escape, the edges of numbers, and bounds that are not there."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hypothesis import strategies as st

from tests import drawn_publications as some
from tidegate.language import DEFAULT_LIMITS
from tidegate.model import NAME_LENGTH
from tidegate.overlay.messages import (
    Announce,
    Deliver,
    Interest,
    Publish,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.operators import Operator, OperatorPart

#: Years 0001 to 9999, in microseconds since 1970.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999

_long = st.sampled_from("xé\0").map(lambda letter: letter * NAME_LENGTH)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
_odd = st.sampled_from(["z7", "station-12/ambient", "a b", '"', "\\", "\0", "é", "😀", "s[a,b]", "\x7f"])
names = _odd | _odd | texts | texts | _long
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, some.MOST, 1e16, 5e-324, 7])
times = st.integers(EARLIEST, LATEST) | st.sampled_from([EARLIEST, LATEST, 0, 1_190_000_000_000_000])
locations = st.tuples(st.floats(-180, 180), st.floats(-90, 90)) | st.sampled_from(
    [(-180, 90), (180.0, -90.0), (0, -0.0)]
)


def _intervals(values=numbers):
    """Two bounds, either of which may be missing."""
    return st.tuples(values | st.just(-inf), values | st.just(inf)).map(
        lambda two: (min(two), max(two)) if two[0] != -inf and two[1] != inf else two
    )


regions = st.tuples(_intervals(), _intervals()).map(lambda two: (two[0][0], two[1][0], two[0][1], two[1][1]))
parts = st.builds(
    lambda attribute, bounds, source, region: OperatorPart(attribute, *bounds, source, region),
    names,
    _intervals(),
    st.none() | names,
    st.none() | regions,
)


def _label(part):
    """As it is on the other side, where all corners are floats."""
    return replace(part, region=part.region and tuple(map(float, part.region))).label


@st.composite
def operators(draw):
    chosen = draw(
        st.lists(parts, min_size=1, max_size=5, unique_by=_label)
        | st.just([OperatorPart(f"a{i}", i, i + 1, "z7" * i or None) for i in range(DEFAULT_LIMITS.filters)])
    )
    window = draw(st.integers(1, DEFAULT_LIMITS.window * 1_000_000))
    near = draw(st.none() | st.floats(5e-324, 1e9))
    main = draw(st.none() | st.integers(0, len(chosen) - 1))
    whole = Operator(draw(names), tuple(chosen), window, near, main)
    return draw(st.sampled_from([whole, whole.only(range(len(chosen)), 0), whole.only([0])]))


announce = st.builds(Announce, names, names, st.none() | locations)
subscribe = st.builds(Subscribe, operators())
interest = st.builds(Interest, names, texts | st.sampled_from([8, DEFAULT_LIMITS.text_length]).map(lambda n: "x" * n))
reading = st.builds(Reading, names, names, numbers, times, st.lists(names, max_size=3).map(tuple))
publish = st.builds(Publish, some.publications(mixed=True, most=1).map(lambda found: found[0]))


def _several(messages, key=None):
    return st.lists(messages, max_size=4, unique_by=key).map(tuple)


def wanted_id(message):
    return message.id if isinstance(message, Interest) else message.operator.id


KINDS = {
    "announce": announce,
    "revoke": st.builds(Revoke, names),
    "subscribe": subscribe,
    "interest": interest,
    "unsubscribe": st.builds(Unsubscribe, names),
    "reading": reading,
    "publish": publish,
    "sync": st.builds(
        Sync,
        _several(announce, lambda message: message.source),
        _several(subscribe | interest, wanted_id),
        _several(names, str),
    ),
    "refuse": st.builds(Refuse, texts) | st.builds(Refuse, texts, names),
    "deliver": st.builds(Deliver, names, _several(reading | publish)),
}
messages = st.one_of(*KINDS.values())
