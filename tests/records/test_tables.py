"""JSON texts as tables say the same as the publications they are made from; what is none is a fault, never an error."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidegate as tg
from tests.drawn_publications import publications
from tests.parts.profiles import examples
from tests.records.drawn_records import (
    FIELDS,
    NOW,
    all_rows,
    any_json,
    is_mixed,
    matches,
    records,
    slowly,
    table_matches,
)
from tests.strategies import expressions
from tests.test_laws import ALL
from tidegate.errors import TidegateError
from tidegate.index.batch import ArrowBatch
from tidegate.model import RESERVED, micros, zoned
from tidegate.records import columns, expand, expand_attributes, tables
from tidegate.records.json_column import field
from tidegate.records.uniform_rows import record_batch
from tidegate.rejected_row import RejectedRow
from tidegate.testing import subscriptions
from tidegate.time_zones import TimeZone


@given(given=records(), nodes=st.lists(expressions(ALL), min_size=1, max_size=4))
def test_tables_match_as_the_publications_do(cut, given, nodes):
    texts = [json.dumps(record) for record in given]
    slow = slowly(texts)
    good = {row: p for row, p in slow.items() if isinstance(p, tg.Publication) and not is_mixed(p)}
    engine = tg.Engine(subscriptions(nodes))
    parts, faults = expand(texts, None)
    assert all_rows(parts, faults) == list(range(len(texts)))
    assert {fault.row for fault in faults} == slow.keys() - good.keys()
    for rows, table in parts:
        assert table.column("id").to_pylist() == [good[row].id for row in rows.tolist()]
        assert table.column("time").to_pylist() == [good[row].time for row in rows.tolist()]
    if len({(p.id, p.phase) for p in good.values()}) == len(good):
        wanted = matches(engine, list(good.values()))
        assert table_matches(engine, parts) == wanted
        names = {name for f in nodes for name in _names_in(f)}
        fewer, others = expand([text.encode() for text in texts], names)
        assert others == faults  # who subscribes does not decide what is a publication
        assert {name for _, table in fewer for name in table.column_names} <= names | RESERVED.keys()
        assert table_matches(engine, fewer) == wanted


def _names_in(node):
    if hasattr(node, "name"):
        return {node.name}
    return {name for arg in getattr(node, "args", ()) for name in _names_in(arg)}


@given(given=records())
def test_reasons_are_those_of_one_record(given):
    texts = [orjson.dumps(record, default=str, option=orjson.OPT_PASSTHROUGH_SUBCLASS) for record in map(_small, given)]
    _, faults = expand(texts, ["n"])
    for row, reason in faults:
        slow = slowly(texts)[row]
        if isinstance(slow, TidegateError):
            assert reason == str(slow)
        else:
            assert is_mixed(slow)
            assert "a list whose members are of one kind" in reason


def _small(value):
    """Without the integers that orjson does not write."""
    if isinstance(value, dict):
        return {name: _small(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_small(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def test_half_of_one_kind_and_half_of_another():
    texts = [
        json.dumps({"id": f"p{i}", **FIELDS, "v": i if i % 2 else str(i), "w": [i] if i % 3 else ["a"]})
        for i in range(60)
    ]
    parts, faults = expand(texts, None)
    assert faults == []
    assert len(parts) == 4
    assert all_rows(parts, faults) == list(range(60))
    for rows, table in parts:
        assert table.column("v").to_pylist() == [float(i) if i % 2 else str(i) for i in rows.tolist()]
        assert table.column("w").to_pylist() == [[float(i)] if i % 3 else ["a"] for i in rows.tolist()]


def test_values_come_as_they_are():
    record = {
        "id": "p", "source": "z", "time": "2026-11-15T09:00:00.1234567+01:00", "location": {"lon": 1, "lat": 2},
        "i": 3, "big": 2**63, "f": 0.5, "t": "é", "b": True, "none": None, "empty": [], "series": [1, 2.5],
        "tags": ["a", ""], "flags": [True, False], "when": {"timestamp": NOW}, "day": {"date": "2026-11-15"},
        "spot": {"type": "Point", "coordinates": [3, 4, 5]}, "whens": [{"timestamp": NOW}],
    }  # fmt: skip
    (((rows, table),), faults) = expand([json.dumps(record)], None)
    eight = datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert (rows.tolist(), faults) == ([0], [])
    assert table.to_pylist() == [
        {
            "id": "p", "source": "z", "time": eight + timedelta(microseconds=123456),
            "location": {"lon": 1.0, "lat": 2.0}, "i": 3.0, "big": 2.0**63,
            "f": 0.5, "t": "é", "b": True, "empty": [], "series": [1.0, 2.5],
            "tags": ["a", ""], "flags": [True, False], "when": eight, "day": date(2026, 11, 15),
            "spot": {"lon": 3.0, "lat": 4.0}, "whens": [eight],
        }
    ]  # fmt: skip
    ArrowBatch(table)


# --- what is none ---------------------------------------------------------------------------------------------------


BAD = {
    "null": (None, "expected a JSON object; got null; at row 1"),
    "empty": ("", "a JSON object"),
    "half": ('{"id": "p"', "a JSON object; got '{\"id\": \"p\"', where"),
    "bytes": (b"\xff\xfe", "a JSON object"),
    "surrogate": ('"\ud800"', "a JSON object"),
    "list": ("[1]", "a JSON object; got [1]"),
    "infinite": ('{"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "x": 1e999}', "infinity"),
    "deep": ("[" * 100_000, "a JSON object"),
    "nothing": ("{}", "a field id; got none; at row 1"),
    "no source": ({"source": None}, "a field source; got id, source, time"),
    "no time": ({"time": None}, "a field time"),
    "id number": ({"id": 5}, "a non-empty string as the id; got 5"),
    "id empty": ({"id": ""}, "a non-empty string as the id; got ''"),
    "id long": ({"id": "é" * 1025}, "at most 1024 characters as the id"),
    "source list": ({"source": ["z"]}, "a non-empty string as the source"),
    "time number": ({"time": 1_700_000_000}, "a datetime or a text such as"),
    "time day": ({"time": "2026-11-15"}, "a timestamp such as"),
    "time naive": ({"time": "2026-11-15T08:00:00"}, "a time with a time zone as time (for dicts"),
    "time never": ({"time": "2026-02-30T08:00:00Z"}, "a day that exists"),
    "time year": ({"time": "0001-01-01T00:00:00+05:00"}, "years 0001 to 9999"),
    "end": ({"start": NOW, "end": "2026-11-15T07:59:59Z"}, "an end that is not before the start"),
    "phase": ({"phase": "BEGIN"}, "one of START, END, INSTANT as phase; got 'BEGIN'"),
    "location": ({"location": {"lon": 181, "lat": 0}}, "lon in [-180, 180]"),
    "location text": ({"location": "here"}, "a point (lon, lat)"),
    "event": ({"event": 1}, "attribute names that are not reserved; got 'event'"),
    "name": ({"": 1}, "a non-empty string as attribute name"),
    "attributes": ({"attributes": [1]}, "an object of attributes"),
    "attributes reserved": ({"attributes": {"id": "q"}}, "attribute names that are not reserved; got 'id'"),
    "attributes no name": ({"attributes": {"": None}}, "a non-empty string as attribute name"),
    "object": ({"x": {"a": 1}}, "a value, a list or an object"),
    "date": ({"x": {"date": "2026-02-30"}}, "a date such as"),
    "timestamp": ({"x": {"timestamp": 5}}, "a datetime or a text such as"),
    "point": ({"x": {"lon": True, "lat": 0}}, "lon in [-180, 180]"),
    "no point": ({"x": {"type": "Point", "coordinates": [1]}}, "a value, a list or an object"),
    "list null": ({"x": [1, None]}, "a number, string, truth value or timestamp; got None"),
    "list nested": ({"x": [[1]]}, "a number, string, truth value or timestamp; got [1]"),
    "list mixed": ({"x": [1, "a"]}, "a list whose members are of one kind; got [1, 'a']; at publication 'p1'"),
    "text long": ({"x": "a" * 1_048_577}, "text of at most 1048576 characters"),
    "list long": ({"x": [0] * 1_048_577}, "a list of at most 1048576 members"),
}  # fmt: skip


@pytest.mark.parametrize("wanted", [None, ["x"], []])
@pytest.mark.parametrize("name", BAD)
def test_what_is_no_publication_is_a_fault(name, wanted):
    given, reason = BAD[name]
    text = json.dumps({"id": "p1", **FIELDS} | given) if isinstance(given, dict) else given
    good = [json.dumps({"id": f"p{i}", **FIELDS, "x": 1}) for i in (0, 2)]
    (((rows, table),), (fault,)) = expand([good[0], text, good[1]], wanted)
    assert isinstance(fault, RejectedRow)
    assert fault.row == 1
    assert fault.reason.startswith("expected ")
    assert fault.reason.endswith("row 1")
    assert reason in fault.reason
    assert len(fault.reason) < 600
    assert rows.tolist() == [0, 2]
    assert table.column("id").to_pylist() == ["p0", "p2"]
    filled = [name for name in table.column_names if table.column(name).null_count < 2]
    assert filled == ["id", "source", "time", *(["x"] if wanted != [] else [])]


@given(texts=st.lists(st.none() | st.text(max_size=20) | st.binary(max_size=20) | any_json.map(json.dumps), max_size=6))
@example(texts=[])
def test_no_text_at_all_is_an_error(cut, texts):
    for wanted in (None, ["n", "id"]):
        parts, faults = expand(texts, wanted)
        assert all_rows(parts, faults) == list(range(len(texts)))
        for _, table in parts:
            ArrowBatch(table, distinct=False)
    given = pa.table({"id": ["p"] * len(texts), "attributes": pa.array([_text(text) for text in texts], pa.string())})
    parts, faults = expand_attributes(given, "attributes", None)
    assert all_rows(parts, faults) == list(range(len(texts)))


def _text(text):
    return text.decode(errors="replace") if isinstance(text, bytes) else text


_digits = st.integers(0, 99).map("{:02}".format)
_stamps = st.builds(
    "{:04}-{}-{}{}{}:{}{}{}{}".format,
    st.sampled_from([0, 1, 1970, 2024, 2026, 2037, 2040, 9999]),
    st.sampled_from(["01", "02", "03", "10", "12", "13"]),
    st.sampled_from(["01", "08", "25", "29", "31", "32"]),
    st.sampled_from(["T", "T", "T", "t", " "]),
    st.sampled_from(["00", "02", "02", "23", "24"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from([":00", ":59", ":60", ""]) | _digits.map(":{}".format),
    st.sampled_from(["", ".", ".1", ".123456", ".1234567", ".999999999"]),
    st.sampled_from(["Z", "Z", "z", "", "+01:00", "-23:59", "+24:00", "+0100", "+01", "Z\n"]),
)


_zones = st.sampled_from([None, "Europe/Zurich", "America/St_Johns", "+05:30"])


@examples(400)
@given(texts=st.lists(_stamps | st.none() | st.just(5), max_size=8), zone=_zones)
def test_timestamps_are_read_as_the_model_reads_them(texts, zone):
    zone = TimeZone.named(zone)
    wanted, odd = [], []
    for i, text in enumerate(texts):
        try:
            wanted.append(None if text is None else micros(zoned(text, "time", "", tg.PublicationError, zone)))
        except TidegateError:
            wanted.append(None)
            odd.append(i)
    array, found = field("time", texts, zone)
    assert array.cast(pa.int64()).to_pylist() == wanted
    assert sorted(found) == odd


def test_names_of_their_own_do_not_fill_the_memory():
    texts = [json.dumps({"id": f"p{i}", **FIELDS, f"x{i}": i, f"y{i}": "a"}) for i in range(3000)]
    parts, faults = expand(texts, None)
    assert faults == []
    assert all_rows(parts, faults) == list(range(3000))
    assert sum(table.num_rows * table.num_columns for _, table in parts) < 3000 * 5 * 2 * columns.SPARSEST
    for rows, table in parts:
        for row, found in zip(rows.tolist(), table.to_pylist(), strict=True):
            assert {name: v for name, v in found.items() if v is not None and name not in RESERVED} == {
                f"x{row}": float(row),
                f"y{row}": "a",
            }


@given(publications(most=3), st.lists(st.sampled_from([5, 5.0, 5.5, 2**53 + 1, "a"]), min_size=3, max_size=3))
@examples(200)
def test_publications_of_one_kind_have_the_columns_of_a_table(given, values):
    found = record_batch(given)
    if found is None:
        kinds = [[(name, type(value)) for name, value in p.attributes.items()] for p in given]
        assert any(kind is list for some in kinds for _, kind in some) or len(given) > 1
    else:
        found.validate(full=True)
        assert pa.Table.from_batches([found]).equals(tables.table(given, marked=True), check_metadata=True)
    alike = [tg.Publication("p", "z7", "2026-11-15T12:00:00Z", {"n": value}, location=(1, 2)) for value in values]
    found, kinds = record_batch(alike), {tables.kinds_of(p, None)["n"] for p in alike}
    if found is None:  # 5 and 5.0 need marks
        assert len(kinds) > 1 or (5.0 in values and {int, float} == set(map(type, values)))
    else:
        assert pa.Table.from_batches([found]).equals(tables.table(alike, marked=True), check_metadata=True)
