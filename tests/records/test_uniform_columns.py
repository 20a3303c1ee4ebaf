"""Records that are checked column by column: what is taken is what the model makes of each record alone."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tests.records.drawn_records import records as any_records
from tidegate.errors import TidegateError
from tidegate.records.record import publication
from tidegate.records.row_objects import row_objects
from tidegate.records.tables import apart, kinds_of
from tidegate.records.uniform_columns import checked_batch
from tidegate.records.uniform_rows import record_batch
from tidegate.whole_numbers import DOUBLES

NUMBERS = st.sampled_from([0, 1, -7, 2.0, 2.5, -0.0, DOUBLES, DOUBLES + 1, 2**64, 1e300, 5e-324])
TEXTS = st.sampled_from(["", "a", "é", "x" * 1025, "\0"])
POINTS = st.sampled_from(
    [{"lon": 8.5, "lat": 46}, {"lon": 181, "lat": 0}, {"lon": 1.0}, {"lon": "1", "lat": 2}, {"lat": 1.0, "lon": -2.0}]
)
OTHERS = st.sampled_from([[1.5, 2.5], {"a": 1}, {"date": "2026-11-01"}])
VALUES = st.none() | st.booleans() | NUMBERS | TEXTS | POINTS | OTHERS
TIMES = st.sampled_from(
    ["2026-11-01T08:00:00Z", "2026-11-01T09:00:00.123456789+01:00", "2026-11-01 08:00Z", "9999-12-31T23:59:59Z"]
)
BAD_TIMES = st.sampled_from(
    ["2026-02-30T08:00:00Z", "now", "2026-11-01T08:00:60Z", "2026-11-01T08:00:00", "2026-11-01"]
)
NAMES = st.sampled_from(["no2", "n", "location", "station", "latitude", "valid_until", "phase", "", "location.lon"])


@st.composite
def records(draw):
    """Records with few names, so that many have the same ones; mostly of one kind each."""
    kinds = {
        name: draw(st.sampled_from([NUMBERS, TEXTS, st.booleans(), POINTS, VALUES])) for name in ("no2", "n", "station")
    }
    kinds |= {"location": POINTS, "phase": st.just("START"), "valid_until": TIMES}
    shared = draw(st.lists(NAMES.filter(lambda name: name in kinds), unique=True, max_size=3))
    is_wild, is_nested = draw(st.booleans()), draw(st.booleans())

    @st.composite
    def one(draw):
        names = draw(st.lists(NAMES, unique=True, max_size=3)) if is_wild else shared
        rest = {name: draw(kinds.get(name, VALUES)) for name in names}
        fields = {"location": rest.pop("location")} if "location" in rest and is_nested else {}
        record = {"id": draw(TEXTS.filter(len) | st.just("b")), "source": "z", "time": draw(TIMES), **fields}
        if is_wild and draw(st.integers(0, 9)) == 0:
            record |= draw(st.sampled_from([{"time": "now"}, {"id": ""}, {"id": 5}, {"source": None}, {"time": None}]))
        return record | ({"attributes": rest} if is_nested else rest)

    return draw(st.lists(one(), min_size=1, max_size=8))


@examples(250)
@given(records() | any_records(mixed=False))
@example(
    [
        {"id": "a", "source": "z", "time": "2026-11-01T08:00:00Z", "n": 1},
        {"id": "b", "source": "z", "time": "2026-11-01T08:00:00Z", "n": 2.0},
    ]
)
def test_what_is_taken_is_what_the_model_makes_of_each(drawn):
    """A batch says what the publications say, one by one; where one of them is none there is no batch."""
    found = checked_batch(drawn)
    if found is None:
        return
    publications = [publication(record, "") for record in drawn]
    expected = [
        row
        for _, table in apart(((i, p, kinds_of(p, None)) for i, p in enumerate(publications)), None, for_log=True)
        for row in row_objects(table)
    ]
    assert orjson.dumps(row_objects(pa.Table.from_batches([found]))) == orjson.dumps(expected)
    same = record_batch(publications)
    if same is not None and set(map(tuple, drawn)) == {tuple(drawn[0])}:
        assert {f.name: (f.type, f.metadata) for f in found.schema} == {
            f.name: (f.type, f.metadata) for f in same.schema
        }


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": 5},
        {"source": None},
        {"time": None},
        {"n": [1]},
        {"n": {"a": 1}},
        {"n": float("inf")},
        {"n": 2**53 + 1},
        {"n": "\ud800"},
        {"": 1},
        {"location": {"lon": 181, "lat": 1}},
        {"end": "2026-11-01T08:00:00Z"},
        {"longitude": 8.5},
        {"x" * 1025: 1},
        {f"n{i}": 1 for i in range(70)},
    ],
)
def test_what_needs_a_look_of_its_own(wrong):
    good = {"id": "a", "source": "z", "time": "2026-11-01T08:00:00Z", "n": 1}
    assert checked_batch([good, good]).num_rows == 2
    assert checked_batch([good, good | wrong]) is None


@examples(20)
@given(BAD_TIMES)
def test_times_that_are_none(time):
    record = {"id": "a", "source": "z", "time": time}
    assert checked_batch([record]) is None
    with pytest.raises(TidegateError):
        publication(record, "")
