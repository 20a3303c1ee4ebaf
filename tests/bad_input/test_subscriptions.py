"""Bad subscriptions, and arguments of another kind, are a ``TidegateError`` and change nothing."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime
from math import inf, nan

import numpy as np
import pytest

import tidegate as tg
from tests.bad_input.refusing import DEEP, HUGE, NOW, Broken, nested, pub, refused
from tidegate.errors import CATALOGUE
from tidegate.index import segment_draft
from tidegate.model import LIST_LENGTH, NAME_LENGTH, TEXT_LENGTH


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
    "initial": (
        lambda: sub(initial=1, fields="none"),
        tg.SubscriptionError,
        "true or false as initial",
        "got 1",
        "'bad'",
    ),
    "initial of a pattern": (
        lambda: sub("topk(1, 'PT1H', x)", initial=True),
        tg.SubscriptionError,
        "not for patterns",
        "got topk",
    ),
    "expired": (lambda: sub(expired=None), tg.SubscriptionError, "true or false as expired"),
    "fields word": (lambda: sub(fields="some"), tg.SubscriptionError, "all, none or a list of names as fields"),
    "fields array": (lambda: sub(fields=np.array(["a", "b"])), tg.SubscriptionError, "a list of names as fields"),
    "fields member": (lambda: sub(fields=["a", 7]), tg.SubscriptionError, "a non-empty string as a name of fields"),
    "fields surrogate": (lambda: sub(fields=["\ud800"]), tg.SubscriptionError, "Unicode text as a name of fields"),
    "fields 10 MB": (lambda: sub(fields=[HUGE]), tg.SubscriptionError, "at most 1024 characters"),
    "many fields": (lambda: sub(fields=["a"] * 1025), tg.SubscriptionError, "at most 1024 names as fields"),
    "deliver word": (lambda: sub(deliver="webhook:x"), tg.SubscriptionError, 'stream, mqtt or {"webhook": NAME}'),
    "deliver array": (lambda: sub(deliver=np.array([1, 2])), tg.SubscriptionError, "as deliver"),
    "deliver more": (lambda: sub(deliver={"webhook": "a", "to": "b"}), tg.SubscriptionError, "as deliver"),
    "webhook": (lambda: sub(deliver={"webhook": ""}), tg.SubscriptionError, "a non-empty string as the name of a"),
    "empty": (lambda: sub(""), tg.ParseError, "'bad'"),
    "blank": (lambda: sub(" \n "), tg.ParseError),
    "half": (lambda: sub("no2 >"), tg.ParseError, "line 1", "^"),
    "tail": (lambda: sub("no2 > 40 40"), tg.ParseError, "line 1, column 10"),
    "second line": (lambda: sub("no2 > 40\nAND AND"), tg.ParseError, "line 2, column 5"),
    "NaN": (lambda: sub("x > NaN('a')"), tg.UnknownFunction),
    "infinite": (lambda: sub("x > 1e999"), tg.ParseError, "64-bit float"),
    "10 MB": (lambda: sub(f"x = '{HUGE}'"), tg.LimitError, "65536"),
    "deep": (lambda: sub(DEEP), tg.LimitError, "64"),
    "one parenthesis too many": (lambda: sub("(" * 65 + "x = 1" + ")" * 65), tg.LimitError, "64", "column 65"),
    "a pattern in a list": (lambda: sub("(x, past(y = 1))"), tg.TypeMismatch, "a condition", "got a list"),
    "an array as type": (
        lambda: sub({"type": np.array([1, 2]), "coordinates": [1, 2]}),
        tg.ParseError,
        "a GeoJSON geometry type",
        "$.type",
    ),
    "an array as type of a part": (
        lambda: sub({"type": "GeometryCollection", "geometries": [{"type": np.array([1, 2])}]}),
        tg.ParseError,
        "a geometry that is no collection",
        "$.geometries[0]",
    ),
    "many clauses of many conditions": (
        lambda: sub(" AND ".join([f"(a{i} = 1 OR b{i} = 1)" for i in range(10)] + [f"c{i} = 1" for i in range(7)])),
        tg.LimitError,
        "at most 16384 conditions in all clauses together (setting predicates)",
        "got 17408",
    ),
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
    monkeypatch.setattr(segment_draft, "MOST_COLUMNS", 3)
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
