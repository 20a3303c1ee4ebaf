"""Bad publications, as objects and as tables, are a ``TidegateError`` and change nothing."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tests.bad_input.refusing import HUGE, NOW, Broken, Silent, pub, refused, with_value

# --- publications as objects --------------------------------------------------------------------------------------


PUBLICATIONS = {
    "not an object": (lambda: 5, "publications or dicts", "item 1"),
    "not all fields": (lambda: {"id": "p"}, "a field source", "item 1"),
    "id empty": (lambda: pub(id=""), "a non-empty string as the id", "''"),
    "id number": (lambda: pub(id=5), "a non-empty string as the id", "got 5"),
    "id 10 MB": (lambda: pub(id=HUGE), "at most 1024 characters as the id", "10000000"),
    "id surrogate": (lambda: pub(id="\ud800"), "Unicode text as the id", "lone surrogate"),
    "source none": (lambda: pub(source=None), "a non-empty string as the source", "publication 'p'"),
    "time text": (lambda: pub(time="2026-11-15"), "a timestamp such as '2026-11-15T08:00:00Z' as the time"),
    "time date": (lambda: pub(time=date(2026, 11, 15)), "a datetime or a text such as"),
    "time naive": (lambda: pub(time=datetime(2026, 11, 15)), "with a time zone", "without one"),
    "time zone broken": (lambda: pub(time=datetime(2026, 11, 15, tzinfo=Broken())), "usable time zone", "no such zone"),
    "time zone silent": (lambda: pub(time=datetime(2026, 11, 15, tzinfo=Silent())), "with a time zone"),
    "time too late": (
        lambda: pub(time=datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
        "years 0001 to 9999",
    ),
    "time too early": (
        lambda: pub(time=datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
        "years 0001 to 9999",
    ),
    "start naive": (lambda: pub(start=datetime(2026, 11, 15)), "time zone as start"),
    "end before start": (lambda: pub(start=NOW, end=NOW - timedelta(1)), "an end that is not before the start"),
    "phase": (lambda: pub(phase="MIDDLE"), "START, END, INSTANT", "'MIDDLE'"),
    "location text": (lambda: pub(location="here"), "a point (lon, lat)"),
    "location far": (lambda: pub(location=(181, 0)), "lon in [-180, 180]", "(181, 0)"),
    "location nan": (lambda: pub(location=(nan, 0.0)), "lon in [-180, 180]"),
    "location three": (lambda: pub(location=(1, 2, 3)), "a point (lon, lat)"),
    "location truth": (lambda: pub(location=(True, 1)), "a point (lon, lat)"),
    "attributes list": (lambda: pub(attributes=[1]), "a mapping of attributes"),
    "attribute name": (lambda: pub(attributes={5: 1}), "a non-empty string as attribute name"),
    "attribute name empty": (lambda: pub(attributes={"": 1}), "a non-empty string as attribute name"),
    "attribute reserved": (lambda: pub(attributes={"time": 1}), "not reserved", "'time'"),
    "nan": (with_value(nan), "a finite number", "nan", "attribute 'no2'"),
    "inf": (with_value(-inf), "a finite number", "-inf"),
    "too large": (with_value(10**400), "a finite number"),
    "numpy nan": (with_value(np.float64("nan")), "a finite number"),
    "complex": (with_value(1j), "a number, string, truth value", "1j"),
    "bytes": (with_value(b"x" * 10_000_000), "a number, string, truth value"),
    "10 MB": (with_value(HUGE), "at most 1048576 characters", "10000000 characters"),
    "surrogate": (with_value("a\udfff"), "Unicode text", "lone surrogate"),
    "naive": (with_value(datetime(2026, 11, 15)), "with a time zone"),
    "dict": (with_value({"a": 1}), "a number, string, truth value"),
    "point far": (with_value((0.0, 91.0)), "lat in [-90, 90]"),
    "list too large": (with_value([1, nan, 10**400]), "a finite number", "[2]"),
    "list none": (with_value([None]), "a number, string, truth value", "[0]"),
    "list nested": (with_value([[1]]), "a number, string, truth value", "[0]"),
    "list 10 MB": (with_value(["a", HUGE]), "at most 1048576 characters"),
    "list long": (with_value([1] * 1_048_577), "a list of at most 1048576 members"),
    "set": (with_value({1, 2}), "a number, string, truth value"),
}


@pytest.mark.parametrize("name", PUBLICATIONS)
def test_publications(engine, name):
    make, *parts = PUBLICATIONS[name]
    refused(engine, lambda: engine.publish([pub(id="good"), make()]), tg.PublicationError, *parts)


@pytest.mark.parametrize("what", [None, 5, "text", b"bytes", [pub(), None], {"id": "p"}])
def test_no_publications_at_all(engine, what):
    refused(engine, lambda: engine.publish(what), tg.PublicationError)


# --- publications as tables ---------------------------------------------------------------------------------------


def table(**columns):
    merged = {"id": ["p", "q"], "source": ["z", "z"], "time": pa.array([NOW, NOW], pa.timestamp("us", "UTC"))} | columns
    return pa.table({name: column for name, column in merged.items() if column is not None})


def points(*pairs):
    return pa.array(
        [p and {"lon": p[0], "lat": p[1]} for p in pairs], pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
    )


def not_utf8():
    return pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )


def stamps(values, unit="us", zone="UTC"):
    return pa.array(values, pa.timestamp(unit, zone))


TABLES = {
    "no id": (lambda: table(id=None), "a column id", "source, time"),
    "no time": (lambda: table(time=None), "a column time"),
    "no columns": (lambda: pa.table({}), "a column id", "columns none"),
    "column twice": (
        lambda: pa.table([["p"], ["z"], [NOW], [1], [2]], ["id", "source", "time", "a", "a"]),
        "each column once",
        "'a'",
    ),
    "id null": (lambda: table(id=["p", None]), "a value of id in every row", "row 1"),
    "source null": (lambda: table(source=pa.nulls(2)), "a value of source in every row", "row 0"),
    "time null": (lambda: table(time=stamps([NOW, None])), "a value of time in every row", "row 1"),
    "id empty": (lambda: table(id=["p", ""]), "a non-empty string as the id", "row 1"),
    "source empty": (lambda: table(source=["", "z"]), "a non-empty string as the source", "row 0"),
    "id numbers": (lambda: table(id=[1, 2]), "strings as id", "int64", "column 'id'"),
    "id long": (lambda: table(id=["p", HUGE]), "at most 1048576 characters"),
    "id rather long": (lambda: table(id=["p", "x" * 1025]), "at most 1024 characters as the id", "row 1"),
    "id not utf-8": (lambda: table(id=not_utf8()), "Unicode text"),
    "time text": (lambda: table(time=["now", "then"]), "timestamps of ISO 8601", "'now'", "row 0"),
    "time naive": (lambda: table(time=stamps([NOW, NOW], zone=None)), "timestamps with a time zone", "without one"),
    "time zone unknown": (
        lambda: table(time=stamps([0, 1], zone="Mars/Phobos")),
        "a time zone that exists",
        "'Mars/Phobos'",
    ),
    "time out of range": (lambda: table(time=stamps([0, 2**62], "s")), "years 0001 to 9999", "column 'time'"),
    "time out of years": (lambda: table(time=stamps([0, 2**62])), "years 0001 to 9999"),
    "day out of years": (lambda: table(x=pa.array([0, 2**31 - 1], pa.date32())), "years 0001 to 9999", "column 'x'"),
    "end before start": (lambda: table(start=stamps([1, 5]), end=stamps([1, 4])), "not before the start", "row 1"),
    "phase": (lambda: table(phase=["START", "MIDDLE"]), "START, END, INSTANT", "'MIDDLE'", "row 1"),
    "event": (lambda: table(event=[1, 2]), "columns start and end"),
    "location numbers": (lambda: table(location=[1.0, 2.0]), "points (struct lon, lat) as location"),
    "location fields": (lambda: table(location=pa.array([{"x": 1, "z": 2}] * 2)), "points (struct lon, lat)"),
    "location far": (lambda: table(location=points((0, 0), (0, 91))), "lat in [-90, 90]", "row 1"),
    "location nan": (lambda: table(location=points((nan, 0), None)), "lon in [-180, 180]", "row 0"),
    "location half": (lambda: table(location=points((None, 0), None)), "lon in [-180, 180]", "row 0"),
    "nan": (lambda: table(x=[1.0, nan]), "finite numbers, null for missing", "nan", "column 'x', row 1"),
    "inf": (lambda: table(x=pa.array([inf, 1.0], pa.float32())), "finite numbers", "inf", "row 0"),
    "binary": (lambda: table(x=[b"a", b"b"]), "numbers, strings", "binary"),
    "duration": (lambda: table(x=pa.array([1, 2], pa.duration("s"))), "numbers, strings", "duration"),
    "naive": (lambda: table(x=stamps([0, 1], zone=None)), "timestamps with a time zone", "column 'x'"),
    "10 MB": (lambda: table(x=["a", HUGE]), "at most 1048576 characters", "column 'x'"),
    "not utf-8": (lambda: table(x=not_utf8()), "Unicode text", "no UTF-8"),
    "list null": (lambda: table(x=[[1], [None]]), "lists without nulls"),
    "list nested": (lambda: table(x=[[[1]], []]), "numbers, strings", "list"),
    "list 10 MB": (lambda: table(x=[["a"], [HUGE]]), "at most 1048576 characters"),
    "list naive": (lambda: table(x=pa.array([[0], [1]], pa.list_(pa.timestamp("us")))), "timestamps with a time zone"),
    "list long": (lambda: table(x=[[1], [0] * 1_048_577]), "at most 1048576 members"),
    "map": (lambda: table(x=pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))), "numbers, strings"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(engine, name):
    make, *parts = TABLES[name]
    refused(engine, lambda: engine.publish(make()), tg.PublicationError, *parts)


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.list_(pa.float64()), pa.timestamp("us", "UTC")])
def test_points_of_something_else(kind):
    location = pa.nulls(1, pa.struct([("lon", kind), ("lat", kind)]))
    time = pa.array([NOW], pa.timestamp("us", "UTC"))
    with pytest.raises(tg.PublicationError, match=r"points \(struct lon, lat\)"):
        tg.Engine().publish(pa.table({"id": ["p"], "source": ["s"], "time": time, "location": location}))


def test_arrow_kinds_that_are_taken():
    time = pa.array([NOW], pa.timestamp("us", "UTC"))
    columns = {
        "view": pa.array(["flood"], pa.string_view()),
        "tags": pa.array([["flood"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        "levels": pa.array([[Decimal("1.5")]], pa.list_(pa.decimal128(5, 2))),
        "nothing": pa.array([[]], pa.list_(pa.null(), 0)),
    }
    wheres = [
        "view = 'flood'",
        "a_contains(tags, ('flood'))",
        "a_contains(levels, (1.5))",
        "a_containedBy(nothing, (1))",
    ]
    engine = tg.Engine([tg.Subscription(str(i), "ann", where) for i, where in enumerate(wheres)])
    found = engine.publish(pa.table({"id": ["p"], "source": ["s"], "time": time, **columns}))
    assert found.column("subscription_id").to_pylist() == ["0", "1", "2", "3"]
