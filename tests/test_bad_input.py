"""Bad input anywhere is a ``TidegateError`` that says what was expected and where, and changes nothing."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.errors import CATALOGUE, TidegateError
from tidegate.index import draft
from tidegate.model import LIST_LENGTH, NAME_LENGTH, TEXT_LENGTH

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
HUGE = "x" * 10_000_000
DEEP = "(" * 5000 + "x = 1" + ")" * 5000


class Broken(tzinfo):
    def utcoffset(self, when):
        raise RuntimeError("no such zone")


class Silent(tzinfo):
    def utcoffset(self, when):
        return None


def pub(**fields):
    return tg.Publication(**{"id": "p", "source": "z", "time": NOW} | fields)


def with_value(value):
    return lambda: pub(attributes={"no2": value})


def nested(depth):
    where = {"op": "=", "args": [{"property": "x"}, 1]}
    for _ in range(depth):
        where = {"op": "not", "args": [where]}
    return where


@pytest.fixture
def engine():
    return tg.Engine([tg.Subscription("old", "ann", "no2 > 40"), tg.Subscription("any", "bob", "TRUE")])


def state(engine):
    probe = [pub(id=f"p{i}", attributes={"no2": value}) for i, value in enumerate([39, 41, "x", None])]
    return list(engine), len(engine), engine.publish(probe)


def refused(engine, act, error, *parts):
    """The call raises that error with these parts in its message, and the engine is as it was."""
    before = state(engine)
    with pytest.raises(TidegateError) as caught:
        act()
    assert type(caught.value) is error, repr(caught.value)
    message = str(caught.value)
    assert re.match(r"expected .+; got .+", message, re.DOTALL)
    assert len(message) < 2000
    for part in parts:
        assert part in message
    assert state(engine) == before
    engine.subscribe(tg.Subscription("new", "ann", "no2 IS NULL"))
    assert {n.subscription for n in engine.publish([pub()])} == {"any", "new"}


# --- publications as objects --------------------------------------------------------------------------------------

PUBLICATIONS = {
    "not an object": (lambda: {"id": "p"}, "publications"),
    "id empty": (lambda: pub(id=""), "a non-empty string as the id", "''"),
    "id number": (lambda: pub(id=5), "a non-empty string as the id", "got 5"),
    "id 10 MB": (lambda: pub(id=HUGE), "at most 1024 characters as the id", "10000000"),
    "id surrogate": (lambda: pub(id="\ud800"), "Unicode text as the id", "lone surrogate"),
    "source none": (lambda: pub(source=None), "a non-empty string as the source", "publication 'p'"),
    "time text": (lambda: pub(time="2026-11-15"), "a datetime as the time", "'2026-11-15'"),
    "time date": (lambda: pub(time=date(2026, 11, 15)), "a datetime as the time"),
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


@pytest.mark.parametrize("what", [None, 5, "text", b"bytes", pub(), [pub(), None], {"id": "p"}])
def test_no_publications_at_all(engine, what):
    refused(engine, lambda: engine.publish(what), tg.PublicationError)


def test_a_publication_twice(engine):
    refused(engine, lambda: engine.publish([pub(), pub()]), tg.PublicationError, "each publication once", "'p' twice")


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
    "id twice": (lambda: table(id=["p", "p"]), "each publication once", "'p' twice"),
    "id and phase twice": (lambda: table(id=["p", "p"], phase=["END", "END"]), "each publication once", "'p' twice"),
    "id not utf-8": (lambda: table(id=not_utf8()), "Unicode text"),
    "time text": (lambda: table(time=["now", "then"]), "timestamps with a time zone as time", "string"),
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
    "location fields": (lambda: table(location=pa.array([{"x": 1, "y": 2}] * 2)), "points (struct lon, lat)"),
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


# --- subscriptions ------------------------------------------------------------------------------------------------


def sub(where="TRUE", **fields):
    return tg.Subscription(**{"id": "bad", "subscriber": "ann", "where": where} | fields)


SUBSCRIPTIONS = {
    "not an object": (lambda: "no2 > 40", tg.SubscriptionError, "a Subscription"),
    "id empty": (lambda: sub(id=""), tg.SubscriptionError, "a non-empty string as the id"),
    "id 10 MB": (lambda: sub(id=HUGE), tg.SubscriptionError, "at most 1024 characters"),
    "id surrogate": (lambda: sub(id="\ud800"), tg.SubscriptionError, "Unicode text as the id"),
    "id in use": (lambda: sub(id="old"), tg.SubscriptionError, "not in use", "'old'"),
    "subscriber": (lambda: sub(subscriber=None), tg.SubscriptionError, "as the subscriber", "'bad'"),
    "where none": (lambda: sub(None), tg.SubscriptionError, "CQL2 text or a CQL2-JSON dict"),
    "where list": (lambda: sub([1]), tg.SubscriptionError, "CQL2 text or a CQL2-JSON dict"),
    "active naive": (
        lambda: sub(active_from=datetime(2026, 11, 15)),
        tg.SubscriptionError,
        "with a time zone as active_from",
    ),
    "active broken": (
        lambda: sub(active_until=datetime(2026, 11, 15, tzinfo=Broken())),
        tg.SubscriptionError,
        "usable time zone",
    ),
    "active backwards": (
        lambda: sub(active_from=NOW, active_until=NOW),
        tg.SubscriptionError,
        "active_until after active_from",
    ),
    "empty": (lambda: sub(""), tg.ParseError, "'bad'"),
    "blank": (lambda: sub(" \n "), tg.ParseError),
    "half": (lambda: sub("no2 >"), tg.ParseError, "line 1", "^"),
    "tail": (lambda: sub("no2 > 40 40"), tg.ParseError, "line 1, column 10"),
    "second line": (lambda: sub("no2 > 40\nAND AND"), tg.ParseError, "line 2, column 5"),
    "NaN": (lambda: sub("x > NaN('a')"), tg.UnknownFunction),
    "infinite": (lambda: sub("x > 1e999"), tg.ParseError, "64-bit float"),
    "10 MB": (lambda: sub(f"x = '{HUGE}'"), tg.LimitError, "65536"),
    "deep": (lambda: sub(DEEP), tg.LimitError, "64"),
    "many clauses": (
        lambda: sub(" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(11))),
        tg.LimitError,
        "1024 clauses",
    ),
    "surrogate": (lambda: sub("x = '\ud800'"), tg.ParseError, "Unicode text"),
    "unknown function": (lambda: sub("S_DWITHN(location, POINT(1 2), 5)"), tg.UnknownFunction, "s_dwithin", "S_DWITHN"),
    "zone missing": (lambda: sub("time > TIMESTAMP('2026-11-15T08:00:00')"), tg.ParseError, "offset from UTC"),
    "zone unknown": (lambda: sub("time > TIMESTAMP('2026-11-15T08:00:00[Mars/Phobos]')"), tg.ParseError, "timestamp"),
    "no such day": (lambda: sub("time > DATE('2026-02-30')"), tg.ParseError, "a day that exists"),
    "number to text": (lambda: sub("source > 5"), tg.TypeMismatch, "source", "5"),
    "bounds swapped": (lambda: sub("x BETWEEN 5 AND 4"), tg.TypeMismatch, "lower bound first", "5 AND 4"),
    "mixed list": (lambda: sub("x IN (1, 'a')"), tg.TypeMismatch, "IN"),
    "division": (lambda: sub("x > 1 / 0"), tg.TypeMismatch, "finite result"),
    "pattern": (lambda: sub("x LIKE y"), tg.TypeMismatch, "a pattern"),
    "sub-operator": (lambda: sub("a_equals(x, (1), 'near')"), tg.TypeMismatch, "a sub-operator"),
    "no point": (lambda: sub("S_WITHIN(source, BBOX(1, 2, 3, 4))"), tg.TypeMismatch, "an attribute that is a point"),
    "bow tie": (
        lambda: sub("S_WITHIN(location, POLYGON((0 0, 1 1, 1 0, 0 1, 0 0)))"),
        tg.TypeMismatch,
        "a valid geometry",
    ),
    "distance": (lambda: sub("S_DWITHIN(location, POINT(1 2), -5)"), tg.TypeMismatch, "0 or more"),
    "centre": (lambda: sub("S_DWITHIN(location, POINT(200 2), 5)"), tg.TypeMismatch, "lon in [-180, 180]"),
    "interval": (
        lambda: sub("T_DURING(time, INTERVAL('2026-11-16', '2026-11-15'))"),
        tg.TypeMismatch,
        "earlier end first",
    ),
    "a value": (lambda: sub("5"), tg.TypeMismatch, "a condition"),
    "json empty": (lambda: sub({}), tg.ParseError, "$"),
    "json op": (lambda: sub({"op": 5, "args": []}), tg.ParseError, "$"),
    "json args": (lambda: sub({"op": "=", "args": "x"}), tg.ParseError, "$"),
    "json arity": (lambda: sub({"op": "=", "args": [1]}), tg.ParseError, "2 arguments of ="),
    "json nan": (
        lambda: sub({"op": "=", "args": [{"property": "x"}, nan]}),
        tg.ParseError,
        "a finite number",
        "$.args[1]",
    ),
    "json inf": (lambda: sub({"op": "=", "args": [{"property": "x"}, inf]}), tg.ParseError, "a finite number"),
    "json huge": (lambda: sub({"op": "=", "args": [{"property": "x"}, 10**400]}), tg.ParseError, "a finite number"),
    "json none": (lambda: sub({"op": "=", "args": [{"property": "x"}, None]}), tg.ParseError, "$.args[1]"),
    "json object": (lambda: sub({"op": "=", "args": [{"property": "x"}, object()]}), tg.ParseError, "$.args[1]"),
    "json surrogate": (lambda: sub({"op": "=", "args": [{"property": "x"}, "\ud800"]}), tg.ParseError, "Unicode text"),
    "json name": (lambda: sub({"op": "=", "args": [{"property": ""}, 1]}), tg.ParseError, "$.args[0]"),
    "json deep": (lambda: sub(nested(5000)), tg.LimitError, "64"),
    "json 10 MB": (lambda: sub({"op": "=", "args": [{"property": "x"}, HUGE]}), tg.LimitError, "65536"),
    "json function": (lambda: sub({"op": "casey", "args": []}), tg.UnknownFunction, "casey"),
    "json zone": (
        lambda: sub({"op": ">", "args": [{"property": "time"}, {"timestamp": "2026-11-15T08:00:00"}]}),
        tg.ParseError,
        "offset",
    ),
    "json type": (lambda: sub({"op": ">", "args": [{"property": "source"}, 5]}), tg.TypeMismatch, "$.args[1]"),
    "json geometry": (
        lambda: sub({"op": "s_within", "args": [{"property": "location"}, {"type": "Polygon", "coordinates": []}]}),
        tg.ParseError,
        "$",
    ),
}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_subscriptions(engine, name):
    make, error, *parts = SUBSCRIPTIONS[name]
    refused(engine, lambda: engine.subscribe(make()), error, *parts)


def test_a_refused_id_can_be_used(engine):
    with pytest.raises(tg.ParseError):
        engine.subscribe(sub("no2 >"))
    engine.subscribe(sub("no2 > 40"))
    assert "bad" in engine


def test_the_longest_that_is_allowed_is_taken(engine):
    """One more is refused; a name, a text and a list have a length each."""
    name, text, some = "é" * NAME_LENGTH, "a" * TEXT_LENGTH, [1] * LIST_LENGTH
    engine.publish([pub(id=name), pub(id="with much", attributes={"text": text, "some": some})])
    engine.subscribe(tg.Subscription(name, name, "no2 > 40"))
    for more in ({"id": name + "a"}, {"attributes": {"text": text + "a"}}, {"attributes": {"some": [*some, 1]}}):
        with pytest.raises(tg.PublicationError, match="at most"):
            pub(**more)


def test_numbers_of_many_digits_are_taken(engine, tmp_path):
    engine.subscribe(sub({"op": ">", "args": [{"property": "no2"}, 2**70]}))
    engine.subscribe(sub(f"no2 + {2**70} > {2**71}", id="sum"))
    found = [n.subscription for n in engine.publish([pub(attributes={"no2": 2.0**72})])]
    assert found == ["any", "bad", "old", "sum"]
    engine.save(tmp_path)
    assert [n.subscription for n in tg.Engine.load(tmp_path).publish([pub(attributes={"no2": 2.0**72})])] == found


@pytest.mark.parametrize("id", ["nobody", "", 5, None, []])
def test_ending_what_is_not_there(engine, id):
    refused(engine, lambda: engine.unsubscribe(id), tg.UnknownSubscription, "the id of a subscription")


def test_more_columns_than_an_index_can_have(engine, monkeypatch):
    monkeypatch.setattr(draft, "MOST_COLUMNS", 3)
    refused(
        engine,
        lambda: engine.subscribe(sub("a = 1 AND b = 2 AND c = 3 AND d = 4")),
        tg.LimitError,
        "columns in an index",
    )


def test_a_table_of_bad_subscriptions_makes_no_engine():
    with pytest.raises(tg.ParseError, match="'bad'"):
        tg.Engine([sub(id="good"), sub("no2 >")])
    with pytest.raises(tg.SubscriptionError, match="not in use"):
        tg.Engine([sub(), sub()])


def test_every_leaf_is_a_built_in_too_and_survives_a_copy():
    for code, leaf in CATALOGUE.items():
        assert leaf.code == code
        error = leaf("this", "that", "there")
        assert isinstance(error, ValueError | KeyError | OSError | TypeError | RuntimeError)
        assert str(error) == "expected this; got that; at there"
        assert str(copy.copy(error)) == str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: pub(attributes={"x": 10**5000}), tg.PublicationError),
        (lambda: tg.Publication(10**5000, "s", NOW), tg.PublicationError),
        (lambda: tg.Engine(5), tg.SubscriptionError),
        (lambda: tg.Engine(sub()), tg.SubscriptionError),
        (lambda: tg.Engine().save(5), tg.SnapshotError),
        (lambda: tg.Engine.load(5), tg.SnapshotError),
        (lambda: tg.Engine().publish({}), tg.PublicationError),
    ],
)
def test_arguments_of_another_kind(make, error):
    with pytest.raises(error, match="expected"):
        make()


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
