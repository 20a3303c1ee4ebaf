"""Rows that break a rule are left out and named, the others are as if they had come alone; three ways, one result."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.drawn_publications import publications
from tests.strategies import conditions
from tests.test_laws import ALL
from tidegate.index.batch import ArrowBatch, sift
from tidegate.predicates.column import PointLists
from tidegate.predicates.filter import compile_filter
from tidegate.rejected_row import RejectedRow
from tidegate.testing import as_table

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
LONG = "x" * 1_048_577
POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
STAMP = pa.timestamp("us", "UTC")
STRING = pa.string()


def columns(n, **given):
    """A table of n good publications, but for the columns that are given."""
    named = {"id": [f"p{i}" for i in range(n)], "source": ["z"] * n, "time": pa.array([NOW] * n, STAMP)} | given
    return pa.table({name: column for name, column in named.items() if column is not None})


def strings(offsets, letters, kind=STRING):
    width = np.int32 if kind == STRING else np.int64
    buffers = [None, pa.py_buffer(np.array(offsets, width)), pa.py_buffer(letters)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def not_utf8(kind=STRING):
    return strings([0, 1, 2, 3], b"a\xffc", kind)


def points(*pairs):
    return pa.array([p and {"lon": p[0], "lat": p[1]} for p in pairs], POINT)


#: Three rows of which the second is at fault, and what the reason says.
ROWS = {
    "id null": ({"id": ["p", None, "q"]}, "a value of id in every row; got null"),
    "id empty": ({"id": ["p", "", "q"]}, "a non-empty string as the id; got ''"),
    "id long": ({"id": ["p", "é" * 1025, "ü" * 1024]}, "at most 1024 characters as the id; got 1025"),
    "id not utf-8": ({"id": not_utf8()}, "Unicode text; got bytes that are no UTF-8; at column 'id'"),
    "source null": ({"source": ["p", None, "q"]}, "a value of source in every row; got null"),
    "source empty": ({"source": ["p", "", "q"]}, "a non-empty string as the source"),
    "time null": ({"time": pa.array([NOW, None, NOW], STAMP)}, "a value of time in every row"),
    "time late": ({"time": pa.array([0, 2**62, 0], STAMP)}, "0001 to 9999; got 4611686018427387904 us since 1970"),
    "time late in s": ({"time": pa.array([0, 2**62, 0], pa.timestamp("s", "UTC"))}, "years 0001 to 9999"),
    "time early": ({"start": pa.array([None, -(2**62), 0], pa.timestamp("ms", "UTC"))}, "years 0001 to 9999"),
    "day": ({"x": pa.array([0, 2**31 - 1, None], pa.date32())}, "got 2147483647 day since 1970; at column 'x'"),
    "day in ms": ({"x": pa.array([0, 2**61, None], pa.date64())}, "years 0001 to 9999"),
    "phase": ({"phase": [None, "BEGIN", "END"]}, "one of START, END, INSTANT as phase; got 'BEGIN'"),
    "end": (
        {"start": pa.array([1, 5, 1], STAMP), "end": pa.array([1, 4, None], STAMP)},
        "an end that is not before the start; got end 1970-01-01T00:00:00.000004+00:00",
    ),
    "location": ({"location": points((0, 0), (0, 91), None)}, "lat in [-90, 90]; got {'lon': 0.0, 'lat': 91.0}"),
    "location half": ({"location": points((0, 0), (None, 9), None)}, "lon in [-180, 180]"),
    "point nan": ({"x": points((0, 0), (nan, 9), None)}, "lon in [-180, 180]"),
    "nan": ({"x": [1.0, nan, None]}, "finite numbers, null for missing; got nan; at column 'x'"),
    "inf": ({"x": pa.array([None, -inf, 1.0], pa.float32())}, "finite numbers, null for missing; got -inf"),
    "text": ({"x": ["a", LONG, None]}, "text of at most 1048576 characters; got 1048577 characters"),
    "not utf-8": ({"x": not_utf8(pa.large_string())}, "Unicode text"),
    "list null": ({"x": [[1], [2, None], None]}, "lists without nulls"),
    "list text": ({"x": [["a"], ["b", LONG], []]}, "text of at most 1048576 characters"),
    "list time": ({"x": pa.array([[0], [1, 2**62], None], pa.list_(STAMP))}, "years 0001 to 9999"),
    "list long": ({"x": [[1], [0] * 1_048_577, None]}, "lists of at most 1048576 members; got 1048577"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_at_fault_is_left_out_and_named(name):
    given, reason = ROWS[name]
    table = columns(3, **given)
    batch, faults = sift(table)
    assert [fault.row for fault in faults] == [1]
    assert faults[0].reason.startswith("expected ")
    assert faults[0].reason.endswith("row 1")
    assert reason in faults[0].reason
    assert batch.length == 2
    assert batch.kept.tolist() == [0, 2]
    assert batch.ids().to_pylist() == [table.column("id")[i].as_py() for i in (0, 2)]
    with pytest.raises(tg.PublicationError) as error:
        ArrowBatch(table)
    assert str(error.value) == faults[0].reason


COLUMNS = {
    "no time": ({"time": None}, "a column time"),
    "time naive": ({"time": pa.array([0, 1], pa.timestamp("us"))}, "timestamps with a time zone"),
    "zone": ({"time": pa.array([0, 1], pa.timestamp("us", "Mars/Phobos"))}, "a time zone that exists"),
    "id numbers": ({"id": [1, 2]}, "strings as id"),
    "map": ({"x": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))}, "numbers, strings"),
    "struct": ({"x": pa.array([{"a": 1}, None])}, "points (struct lon, lat) of numbers"),
    "nested": ({"x": [[[1]], []]}, "numbers, strings"),
    "binary": ({"x": [b"a", b"b"]}, "numbers, strings"),
    "event": ({"event": [1, 2]}, "columns start and end"),
    "offsets": ({"x": strings([0, 9, 1], b"a")}, "texts that lie within the column's bytes"),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("way", [ArrowBatch, sift])
def test_a_wrong_column_is_no_fault_of_a_row(name, way):
    given, reason = COLUMNS[name]
    with pytest.raises(tg.PublicationError) as error:
        way(columns(2, **given))
    assert reason in str(error.value)


def alike(array, other):
    """Whether the values are the same, NaN included, which Arrow finds equal to nothing."""
    return array.type == other.type and repr(array.to_pylist()) == repr(other.to_pylist())


# --- against the model, row by row ----------------------------------------------------------------------------------

_times = st.sampled_from([None, NOW, NOW + timedelta(hours=1), NOW - timedelta(microseconds=1)])
_spots = st.sampled_from([None, (0.0, 0.0), (180.0, -90.0), (180.5, 0.0), (0.0, nan), (0.0, -91.0)])
_rows = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["p", "q", "é" * 1024, "", None, "x" * 1025]),
        "source": st.sampled_from(["z", "z", "z", "", None]),
        "time": st.sampled_from([NOW, NOW, None]),
        "start": _times,
        "end": _times,
        "phase": st.sampled_from([None, "START", "END", "BEGIN", ""]),
        "location": _spots,
        "n": st.sampled_from([None, 1.5, -0.0, nan, inf]),
        "t": st.sampled_from([None, "", "äöü", "a"]),
        "spot": _spots,
        "bag": st.sampled_from([None, [], [1.0], [1.0, nan], [None], [2.0, None, inf]]),
        "tags": st.sampled_from([None, [], ["a", "é"], [None, "a"]]),
        "day": st.sampled_from([None, date.min, date.max]),
    }
)
_KINDS = {
    **dict.fromkeys(("id", "source", "phase", "t"), pa.string()),
    **dict.fromkeys(("time", "start", "end"), STAMP),
    **dict.fromkeys(("location", "spot"), POINT),
    "n": pa.float64(),
    "bag": pa.list_(pa.float64()),
    "tags": pa.large_list(pa.string()),
    "day": pa.date32(),
}
_ATTRIBUTES = ("n", "t", "spot", "bag", "tags", "day")


def is_publication(row):
    fields = {name: value for name, value in row.items() if name not in _ATTRIBUTES}
    try:
        tg.Publication(**fields, attributes={name: row[name] for name in _ATTRIBUTES})
    except tg.PublicationError:
        return False
    return True


@given(rows=st.lists(_rows, max_size=8), cut=st.integers(0, 3))
def test_the_rows_kept_are_those_the_model_takes(rows, cut):
    values = {name: [row[name] for row in rows] for name in _KINDS}
    for name in ("location", "spot"):
        values[name] = [p and {"lon": p[0], "lat": p[1]} for p in values[name]]
    table = pa.table({name: pa.array(values[name], kind) for name, kind in _KINDS.items()}).slice(cut)
    rows = rows[cut:]
    batch, faults = sift(table)
    good = [i for i, row in enumerate(rows) if is_publication(row)]
    kept = list(range(len(rows))) if batch.kept is None else batch.kept.tolist()
    assert kept == good
    assert [fault.row for fault in faults] == [i for i in range(len(rows)) if i not in good]
    alone = ArrowBatch(table.take(pa.array(good, pa.int64())))
    assert all(alike(array, alone.arrays[name]) for name, array in batch.arrays.items())
    for row, reason in faults:
        with pytest.raises(tg.PublicationError) as error:
            ArrowBatch(table.slice(row, 1))
        assert reason == str(error.value).removesuffix("row 0") + f"row {row}"


# --- three ways in --------------------------------------------------------------------------------------------------


def same(table):
    strict, trusted = ArrowBatch(table), ArrowBatch.trusted(table)
    sifted, faults = sift(table)
    assert faults == []
    assert sifted.kept is None
    for batch in (trusted, sifted):
        assert batch.length == strict.length
        assert list(batch.arrays) == list(strict.arrays)
        for name, array in strict.arrays.items():
            assert alike(batch.arrays[name], array), name
    return strict


def same_points(a, b):
    if isinstance(a, PointLists):
        return a.offsets.tolist() == b.offsets.tolist() and same_points(a.points, b.points)
    return np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else a == b


@given(batch=publications(), node=conditions(ALL), cut=st.integers(0, 8))
def test_all_ways_give_the_same_points(batch, node, cut):
    table = as_table(batch)
    for part in (table, pa.concat_tables([table.slice(cut), table.slice(0, cut)])):
        same(part)
        ways = ArrowBatch(part), ArrowBatch.trusted(part), sift(part)[0]
        for column in {at for clause in compile_filter(node).clauses for p in clause for at, _ in p.hull}:
            strict, trusted, sifted = (way.points(column) for way in ways)
            assert same_points(strict, trusted)
            assert same_points(strict, sifted)


def test_all_ways_read_every_type_the_same():
    table = columns(
        3,
        start=pa.array([-5, None, 7], pa.timestamp("s", "America/New_York")),
        nanos=pa.array([-1, None, 1_999], pa.timestamp("ns", "Europe/Zagreb")),
        days=pa.array([-1, None, 86_400_000], pa.date64()),
        words=pa.array(["a", None, "a"]).dictionary_encode(),
        view=pa.array(["a", None, "é"], pa.string_view()),
        exact=pa.array([Decimal("1.5"), None, Decimal("-2")], pa.decimal128(5, 2)),
        half=pa.array(np.array([1, 2, 3], np.float16)),
        whole=pa.array([2**60, None, 3], pa.uint64()),
        far=pa.array([{"alt": 5, "lat": 1, "lon": 2}, None, {"alt": 5, "lat": 3, "lon": 4}]),
        fixed=pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
        tags=pa.array([["a"], None, []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        whens=pa.array([[1_999], None, [-1, 5]], pa.list_(pa.timestamp("ns", "UTC"))),
        nothing=pa.nulls(3),
        phase=pa.nulls(3),
    )
    batch = same(table)
    assert batch.arrays["nanos"].cast(pa.int64()).to_pylist() == [-1, None, 1]
    assert batch.arrays["start"].cast(pa.int64()).to_pylist() == [-5_000_000, None, 7_000_000]
    assert batch.arrays["days"].to_pylist() == [date(1969, 12, 31), None, date(1970, 1, 2)]
    assert batch.arrays["far"].to_pylist() == [{"lon": 2.0, "lat": 1.0}, None, {"lon": 4.0, "lat": 3.0}]
    assert batch.arrays["whens"].cast(pa.large_list(pa.int64())).to_pylist() == [[1], None, [-1, 0]]
    for name, values in {"words": ["a", None, "a"], "view": ["a", None, "é"], "exact": [1.5, None, -2.0]}.items():
        assert batch.arrays[name].to_pylist() == values
    assert batch.arrays["fixed"].to_pylist() == [[1, 2], None, [3, 4]]
    assert batch.arrays["tags"].to_pylist() == [["a"], None, []]
    same(table.slice(1))
    same(table.slice(0, 0))
    same(table.slice(1).combine_chunks().to_batches()[0])


def test_publications_may_be_there_twice():
    assert same(columns(3, id=["p", "q", "p"])).length == 3


def test_nothing_may_be_left():
    table = columns(2, x=[nan, inf])
    batch, faults = sift(table)
    assert (batch.length, len(faults), batch.kept.tolist()) == (0, 2, [])
    assert isinstance(faults[0], RejectedRow)
    index = tg.Engine([tg.Subscription("s", "ann", "TRUE")])._index
    assert index.match(batch).owners.tolist() == []


def test_the_first_rule_a_row_breaks_is_its_reason():
    table = columns(3, id=["", "p", ""], x=[nan, nan, 1.0])
    assert [fault.reason for fault in sift(table)[1]] == [
        "expected finite numbers, null for missing; got nan; at column 'x', row 0",
        "expected finite numbers, null for missing; got nan; at column 'x', row 1",
        "expected a non-empty string as the id; got ''; at row 2",
    ]


def test_values_under_nulls_are_no_values():
    valid = pa.py_buffer(bytes([0b101]))
    numbers = pa.Array.from_buffers(pa.float64(), 3, [valid, pa.py_buffer(np.array([1, nan, 3]))])
    times = pa.Array.from_buffers(STAMP, 3, [valid, pa.py_buffer(np.array([1, 2**62, 3]))])
    batch = same(columns(3, x=numbers, start=times, end=pa.array([1, 2, 3], STAMP)))
    assert batch.arrays["x"].to_pylist() == [1.0, None, 3.0]
