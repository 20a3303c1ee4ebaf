"""Messages as bytes: each comes back as it was, and whatever is no message is a ``MessageError`` and nothing else."""

from __future__ import annotations

import gc
import re
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from math import inf, nan

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.overlay.messages import EARLIEST, KINDS, LATEST, messages, operators
from tests.parts.profiles import examples
from tests.strategies import MOST
from tests.test_stored_bodies import seen
from tidegate.errors import MessageError, TidegateError
from tidegate.language import DEFAULT_LIMITS
from tidegate.model import Publication
from tidegate.overlay import wire
from tidegate.overlay.messages import (
    Announce,
    Deliver,
    Interest,
    Message,
    Publish,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.operators import Operator, OperatorPart
from tidegate.overlay.wire import MOST_BYTES, SYNC_TIMES, checked, decode, encode, size

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
PUBLICATION = Publication(
    "p1", "z7", NOON, {"no2": 41.5, "wave": [1.0, nan, -inf]}, phase="START", location=(7.25, 46), valid_until=NOON
)
OPERATOR = Operator(
    "s1",
    (OperatorPart("ambient", -5.5, inf, "z7"), OperatorPart("wind", -inf, 3, region=(-inf, 46.0, 7.5, inf))),
    300_000_000,
    near=250.0,
    main=1,
)
READING = Reading("r1", "z7", 12.5, 1_190_000_000_000_000)
NAMED = replace(READING, id='é"', value=-0.0, time=-1, results=("s1[z7,a]", "s2"))


def by_value(message):
    """A message as something to compare: numbers by their bits, publications as expressions see them."""
    if isinstance(message, Publication):
        held = {field.name: getattr(message, field.name) for field in fields(message)}
        attributes = {name: seen(value) for name, value in held.pop("attributes").items()}
        return {name: seen(value) for name, value in held.items()}, attributes
    if is_dataclass(message):
        return type(message), *(by_value(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, tuple):
        return tuple(map(by_value, message))
    return float(message).hex() if isinstance(message, int | float) else message


def refused(act, *parts):
    with pytest.raises(TidegateError) as caught:
        act()
    assert type(caught.value) is MessageError, repr(caught.value)
    message = str(caught.value)
    assert re.match(r"expected .+; got .+", message, re.DOTALL)
    assert len(message) < 2000
    for part in parts:
        assert part in message


# --- as they were ---------------------------------------------------------------------------------------------------


def test_every_kind_of_message_is_drawn():
    assert {kind.__name__.lower() for kind in Message.__args__} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@examples(50)
@given(st.data())
def test_a_message_comes_back(kind, data):
    message = data.draw(KINDS[kind])
    assert checked(message) is message
    encoded = encode(message)
    again = decode(encoded)
    assert type(again) is type(message)
    assert by_value(again) == by_value(message)
    assert kind in ("publish", "deliver") or again == message
    assert checked(again) is again
    assert encode(again) == encoded
    assert orjson.loads(encoded)["kind"] == kind
    assert size(message) == len(encoded) == size(again) == size(message)


EXAMPLES = [
    (Announce("z7", "ambient"), '{"v":1,"kind":"announce","source":"z7","attribute":"ambient"}'),
    (
        Announce("z7", "ambient", (7, 46.5)),
        '{"v":1,"kind":"announce","source":"z7","attribute":"ambient","location":[7.0,46.5]}',
    ),
    (Revoke("z7"), '{"v":1,"kind":"revoke","source":"z7"}'),
    (
        Subscribe(OPERATOR),
        '{"v":1,"kind":"subscribe","operator":{"id":"s1","parts":['
        '{"attribute":"ambient","low":-5.5,"high":null,"source":"z7"},'
        '{"attribute":"wind","low":null,"high":3.0,"region":[null,46.0,7.5,null]}'
        '],"window":300000000,"near":250.0,"main":1}}',
    ),
    (
        Subscribe(Operator("s2", (OperatorPart("a", 0.0, 1.0),), 1)),
        '{"v":1,"kind":"subscribe","operator":{"id":"s2","parts":[{"attribute":"a","low":0.0,"high":1.0}],"window":1}}',
    ),
    (Interest("s3", "no2 > 40"), '{"v":1,"kind":"interest","id":"s3","where":"no2 > 40"}'),
    (Unsubscribe("s3"), '{"v":1,"kind":"unsubscribe","id":"s3"}'),
    (READING, '{"v":1,"kind":"reading","id":"r1","source":"z7","value":12.5,"time":1190000000000000}'),
    (
        NAMED,
        '{"v":1,"kind":"reading","id":"é\\"","source":"z7","value":-0.0,"time":-1,"results":["s1[z7,a]","s2"]}',
    ),
    (replace(READING, value=5), '{"v":1,"kind":"reading","id":"r1","source":"z7","value":5.0,"time":1190000000000000}'),
    (
        Publish(PUBLICATION),
        '{"v":1,"kind":"publish","publication":{"id":"p1","source":"z7","time":"2026-11-15T12:00:00+00:00",'
        '"phase":"START","location":[7.25,46.0],"valid_until":"2026-11-15T12:00:00+00:00",'
        '"attributes":{"no2":41.5,"wave":[1.0,{"gap":"NaN"},{"gap":"-Infinity"}]}}}',
    ),
    (Sync(), '{"v":1,"kind":"sync"}'),
    (
        Sync(
            (Announce("z7", "a"),),
            (Interest("s3", "TRUE"), Subscribe(Operator("s", (OperatorPart("a", 0, 1),), 1))),
            ("r1",),
        ),
        '{"v":1,"kind":"sync","announced":[{"source":"z7","attribute":"a"}],"wanted":['
        '{"kind":"interest","id":"s3","where":"TRUE"},{"kind":"subscribe","operator":'
        '{"id":"s","parts":[{"attribute":"a","low":0.0,"high":1.0}],"window":1}}],"held":["r1"]}',
    ),
    (Refuse("no such kind"), '{"v":1,"kind":"refuse","reason":"no such kind"}'),
    (Refuse("who are you", "stranger"), '{"v":1,"kind":"refuse","reason":"who are you","code":"stranger"}'),
    (
        Deliver("s1", (READING,)),
        '{"v":1,"kind":"deliver","subscription":"s1","events":['
        '{"kind":"reading","id":"r1","source":"z7","value":12.5,"time":1190000000000000}]}',
    ),
]


@pytest.mark.parametrize(("message", "text"), EXAMPLES, ids=[type(message).__name__ for message, _ in EXAMPLES])
def test_the_bytes_are_these(message, text):
    assert encode(message).decode() == text
    assert by_value(decode(text.encode())) == by_value(message)


def test_the_order_of_fields_and_white_space_do_not_matter():
    text = (
        b' {"time": 1190000000000000,\n"results": [], "value": 12.5, "source":"z7","id":"r1","kind":"reading","v":1} '
    )
    assert decode(text) == READING


def test_numbers_without_a_point_are_numbers():
    found = decode(encode(READING).replace(b"12.5", b"12"))
    assert found.value == 12
    assert type(found.value) is float


# --- bytes that are no message --------------------------------------------------------------------------------------


def at(message, *path, **value):
    """The JSON of the message with the value that is ``put`` at the path; without one, with nothing there."""
    root = holder = orjson.loads(encode(message))
    for step in path[:-1]:
        holder = holder[step]
    if value:
        holder[path[-1]] = value["put"]
    else:
        del holder[path[-1]]
    return orjson.dumps(root)


def nested(depth, inner=b"1"):
    return b"[" * depth + inner + b"]" * depth


SUBSCRIBE, PUBLISH, DELIVER = Subscribe(OPERATOR), Publish(PUBLICATION), Deliver("s1", (READING, Publish(PUBLICATION)))
SYNC = Sync((Announce("z7", "a"), Announce("z8", "a")), (SUBSCRIBE, Interest("s3", "TRUE")), ("r1", "r2"))
PART, PUB = ("operator", "parts", 0), "publication"
MANY = [{"attribute": f"a{i}", "low": 0, "high": 1} for i in range(DEFAULT_LIMITS.filters + 1)]
LONG = "x" * 1025

BYTES = {
    "text": ("text", "bytes", "'text'"),
    "none": (None, "bytes"),
    "bytearray": (bytearray(encode(READING)), "bytes", "bytearray"),
    "empty": (b"", "JSON"),
    "no JSON": (b"hello", "JSON"),
    "NaN": (encode(READING).replace(b"12.5", b"NaN"), "JSON"),
    "too large a number": (encode(READING).replace(b"12.5", b"1e999"), "JSON", "infinity"),
    "digits": (encode(READING).replace(b"12.5", b"9" * 5000), "JSON"),
    "half": (encode(READING)[:-1], "JSON"),
    "tail": (encode(READING) + b"x", "JSON", "after document"),
    "two": (encode(READING) * 2, "JSON"),
    "null byte": (encode(READING) + b"\0", "JSON"),
    "mark": (b"\xef\xbb\xbf" + encode(READING), "JSON"),
    "not UTF-8": (encode(READING).replace(b"r1", b"\xff1"), "JSON", "UTF-8"),
    "surrogate": (encode(READING).replace(b"r1", b"\\ud800"), "JSON", "surrogate"),
    "deep": (nested(100_000), "JSON", "depth"),
    "deep and whole": (nested(900), "a JSON object", "a list of 1"),
    "deep value": (encode(READING).replace(b"12.5", nested(900)), "a finite number", "a list of 1", "$.value"),
    "deep attribute": (encode(PUBLISH).replace(b"41.5", nested(900)), "a number, string", "'no2'"),
    "deep objects": (encode(PUBLISH).replace(b"41.5", b'{"a":' * 900 + b"1" + b"}" * 900), "a value, a list"),
    "number": (b"1", "a JSON object", "got 1"),
    "list": (b"[]", "a JSON object", "a list of 0"),
    "nothing": (b"{}", "1 as version", "null"),
    "no version": (at(READING, "v"), "1 as version", "null"),
    "version 2": (at(READING, "v", put=2), "1 as version", "got 2"),
    "version true": (at(READING, "v", put=True), "1 as version", "True"),
    "version text": (at(READING, "v", put="1"), "1 as version"),
    "version 1.0": (at(READING, "v", put=1.0), "1 as version"),
    "no kind": (at(READING, "kind"), "one of announce", "$.kind", "null"),
    "kind unknown": (at(READING, "kind", put="gossip"), "one of announce", "'gossip'"),
    "kind cased": (at(READING, "kind", put="Reading"), "one of announce"),
    "kind list": (at(READING, "kind", put=["reading"]), "one of announce", "a list of 1"),
    "kind long": (at(READING, "kind", put="x" * 10_000), "one of announce"),
    "kind of a part": (at(READING, "kind", put="operator"), "one of announce"),
    "missing": (at(READING, "value"), "this field", "$.value", "id, source, time"),
    "extra": (at(READING, "colour", put=1), "no field but id, source, value, time, results", "'colour'"),
    "extra empty": (at(READING, "", put=1), "no field but", "''"),
    "extra null": (at(READING, "location", put=None), "no field but", "'location'"),
    "extra long": (at(READING, "x" * 10_000, put=1), "no field but"),
    "id empty": (at(READING, "id", put=""), "a non-empty string", "$.id"),
    "id null": (at(READING, "id", put=None), "a non-empty string", "null"),
    "id number": (at(READING, "id", put=5), "a non-empty string", "got 5"),
    "id long": (at(READING, "id", put=LONG), "at most 1024 characters", "1025"),
    "source long": (at(READING, "source", put=LONG), "at most 1024 characters", "$.source"),
    "value text": (at(READING, "value", put="12"), "a finite number", "'12'"),
    "value true": (at(READING, "value", put=True), "a finite number", "True"),
    "value null": (at(READING, "value", put=None), "a finite number", "null"),
    "time float": (at(READING, "time", put=1.0), "microseconds within the years 0001 to 9999", "$.time"),
    "time true": (at(READING, "time", put=True), "microseconds"),
    "time early": (at(READING, "time", put=EARLIEST - 1), "years 0001 to 9999"),
    "time late": (at(READING, "time", put=LATEST + 1), "years 0001 to 9999"),
    "time huge": (encode(READING).replace(b"1190000000000000", b"9" * 300), "years 0001 to 9999"),
    "results text": (at(NAMED, "results", put="s1"), "a list", "'s1'"),
    "results null": (at(NAMED, "results", put=None), "a list", "null"),
    "results member": (at(NAMED, "results", 1, put=7), "a non-empty string", "$.results[1]"),
    "location null": (at(Announce("z", "a", (0, 0)), "location", put=None), "a point (lon, lat)", "null"),
    "location three": (at(Announce("z", "a"), "location", put=[1, 2, 3]), "a point (lon, lat)", "a list of 3"),
    "location object": (at(Announce("z", "a"), "location", put={"lon": 1, "lat": 2}), "a point (lon, lat)"),
    "location west": (at(Announce("z", "a"), "location", put=[-180.5, 2]), "lon in [-180, 180]", "$.location[0]"),
    "location north": (at(Announce("z", "a"), "location", put=[0, 90.5]), "lat in [-90, 90]", "$.location[1]"),
    "location text": (at(Announce("z", "a"), "location", put=["0", 0]), "lon in [-180, 180]"),
    "location empty": (at(Announce("z", "a"), "location", put=[]), "a point (lon, lat)"),
    "attribute empty": (at(Announce("z", "a"), "attribute", put=""), "a non-empty string", "$.attribute"),
    "revoke nothing": (at(Revoke("z"), "source"), "this field", "an empty one"),
    "operator null": (at(SUBSCRIBE, "operator", put=None), "an object", "$.operator"),
    "operator list": (at(SUBSCRIBE, "operator", put=[]), "an object", "a list of 0"),
    "operator extra": (at(SUBSCRIBE, "operator", "kind", put="operator"), "no field but id, parts", "'kind'"),
    "operator id long": (at(SUBSCRIBE, "operator", "id", put="x" * 19_585), "at most 19584 characters"),
    "window 0": (at(SUBSCRIBE, "operator", "window", put=0), "a window of at most 366 days", "got 0"),
    "window long": (at(SUBSCRIBE, "operator", "window", put=31_622_400_000_001), "a window of at most 366 days"),
    "window float": (at(SUBSCRIBE, "operator", "window", put=1.5), "a window"),
    "near 0": (at(SUBSCRIBE, "operator", "near", put=0), "a distance in metres above 0", "$.operator.near"),
    "near text": (at(SUBSCRIBE, "operator", "near", put="1 km"), "a distance in metres above 0"),
    "main beyond": (at(SUBSCRIBE, "operator", "main", put=2), "one of the parts as main part", "got 2", "$.operator"),
    "main negative": (at(SUBSCRIBE, "operator", "main", put=-1), "the position of a part"),
    "main true": (at(SUBSCRIBE, "operator", "main", put=True), "the position of a part"),
    "no parts": (at(SUBSCRIBE, "operator", "parts", put=[]), "at least one part", "none"),
    "parts object": (at(SUBSCRIBE, "operator", "parts", put={}), "a list", "$.operator.parts"),
    "many parts": (at(SUBSCRIBE, "operator", "parts", put=MANY), "at most 16", "got 17"),
    "parts twice": (at(SUBSCRIBE, "operator", "parts", put=MANY[:1] * 2), "parts that differ", "two of the same"),
    "part null": (at(SUBSCRIBE, *PART, put=None), "an object", "$.operator.parts[0]"),
    "part swapped": (at(SUBSCRIBE, *PART, "high", put=-6), "a range with something in it", "$.operator.parts[0]"),
    "part low missing": (at(SUBSCRIBE, *PART, "low"), "this field", "$.operator.parts[0].low"),
    "part low text": (at(SUBSCRIBE, *PART, "low", put="-inf"), "a finite number or no bound"),
    "part source": (at(SUBSCRIBE, *PART, "source", put=""), "a non-empty string", "$.operator.parts[0].source"),
    "part attribute": (at(SUBSCRIBE, *PART, "attribute", put=LONG), "at most 1024 characters"),
    "region short": (at(SUBSCRIBE, *PART, "region", put=[1, 2]), "west, south, east and north", "a list of 2"),
    "region swapped": (at(SUBSCRIBE, *PART, "region", put=[2, 0, 1, 1]), "from west to east"),
    "region text": (at(SUBSCRIBE, *PART, "region", put=[0, 0, "1", 1]), "a finite number", "region[2]"),
    "where empty": (at(Interest("s", "TRUE"), "where", put=""), "a non-empty string", "$.where"),
    "where long": (at(Interest("s", "TRUE"), "where", put="x" * 65_537), "at most 65536 characters"),
    "where object": (at(Interest("s", "TRUE"), "where", put={"op": "="}), "a non-empty string", "an object of 1"),
    "reason empty": (at(Refuse("why"), "reason", put=""), "a non-empty string"),
    "code number": (at(Refuse("why"), "code", put=5), "a non-empty string", "$.code"),
    "publication null": (at(PUBLISH, PUB, put=None), "an object", "$.publication"),
    "publication extra": (at(PUBLISH, PUB, "no2", put=1), "no field but id, source, time", "'no2'"),
    "publication without id": (at(PUBLISH, PUB, "id"), "a field id", "$.publication"),
    "publication id": (at(PUBLISH, PUB, "id", put=LONG), "at most 1024 characters as the id"),
    "publication time": (at(PUBLISH, PUB, "time", put=5), "a timestamp such as", "time"),
    "publication zone": (at(PUBLISH, PUB, "time", put="2026-11-15T08:00:00"), "offset from UTC"),
    "publication phase": (at(PUBLISH, PUB, "phase", put="MIDDLE"), "START, END, INSTANT"),
    "publication location": (at(PUBLISH, PUB, "location", put=[181, 0]), "lon in [-180, 180]"),
    "publication attributes": (at(PUBLISH, PUB, "attributes", put=[1]), "an object of attributes"),
    "publication reserved": (at(PUBLISH, PUB, "attributes", "time", put=1), "not reserved"),
    "publication gap": (at(PUBLISH, PUB, "attributes", "wave", 1, "gap", put="Nothing"), "a value, a list", "wave"),
    "publication gap list": (at(PUBLISH, PUB, "attributes", "wave", 1, "gap", put=[]), "a value, a list"),
    "publication lone gap": (at(PUBLISH, PUB, "attributes", "no2", put={"gap": "NaN"}), "a value, a list"),
    "event kind": (at(DELIVER, "events", 0, "kind", put="revoke"), "one of reading, publish", "$.events[0].kind"),
    "event value": (at(DELIVER, "events", 0, "value", put=""), "a finite number", "$.events[0].value"),
    "event version": (at(DELIVER, "events", 0, "v", put=1), "no field but", "'v'", "$.events[0]"),
    "events object": (at(DELIVER, "events", put={}), "a list", "$.events"),
    "event null": (at(DELIVER, "events", 1, put=None), "an object", "$.events[1]"),
    "delivered to nobody": (at(DELIVER, "subscription", put=""), "a non-empty string"),
    "sync in sync": (at(SYNC, "wanted", 0, put={"kind": "sync"}), "one of subscribe, interest", "$.wanted[0].kind"),
    "sync source twice": (at(SYNC, "announced", 1, "source", put="z7"), "each of them once", "'z7' twice"),
    "sync wanted twice": (at(SYNC, "wanted", 1, "id", put="s1"), "each of them once", "'s1' twice", "$.wanted"),
    "sync held twice": (at(SYNC, "held", put=["r1", "r2", "r1"]), "each of them once", "'r1' twice", "$.held"),
    "sync held long": (at(SYNC, "held", 1, put="x" * 2113), "at most 2112 characters", "$.held[1]"),
    "sync part": (at(SYNC, "wanted", 0, *PART, "low", put=[]), "no bound", "$.wanted[0].operator.parts[0].low"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_refused(name):
    data, *parts = BYTES[name]
    refused(lambda: decode(data), *parts)


# --- too many bytes -------------------------------------------------------------------------------------------------


def test_a_message_has_at_most_so_many_bytes():
    text = encode(READING)
    assert decode(text, len(text)) == READING
    assert encode(READING, len(text)) == text
    refused(lambda: decode(text, len(text) - 1), f"at most {len(text) - 1} bytes", f"got {len(text)}")
    refused(lambda: encode(READING, len(text) - 1), f"at most {len(text) - 1} bytes")
    large = Publish(replace(PUBLICATION, attributes={"x": "x" * 700_000, "y": "y" * 700_000}))
    refused(lambda: encode(large), f"at most {MOST_BYTES} bytes")
    assert decode(encode(large, 2**21), 2**21) == large
    refused(lambda: decode(encode(large, 2**21)), f"at most {MOST_BYTES} bytes")
    refused(lambda: decode(b"[" * 10_000_000), f"at most {MOST_BYTES} bytes")


def test_a_sync_may_be_longer():
    long = Sync(held=tuple(f"{i:01024}" for i in range(1100)))
    text = encode(long)
    assert len(text) > MOST_BYTES
    assert decode(text) == long
    assert size(long) == len(text)
    most = -(-len(text) // SYNC_TIMES)
    assert decode(text, most) == long
    refused(lambda: decode(text, most - 1), f"at most {most - 1} bytes, 64 times as many in a sync")
    refused(lambda: encode(long, most - 1), f"at most {most - 1} bytes")


def test_nothing_else_is_longer_by_saying_that_it_is_a_sync():
    message = Interest("sync", "x" * 1000)
    twice = encode(message).replace(b'{"v":1,', b'{"v":1,"kind":"sync",')
    assert decode(twice) == message
    refused(lambda: decode(twice, 500), "at most 500 bytes")
    refused(lambda: decode(encode(message), 500), "at most 500 bytes")


# --- anything at all ------------------------------------------------------------------------------------------------


def taken_or_refused(data):
    """Whatever is taken is a message, and comes back; whatever is not is a ``MessageError``."""
    try:
        message = decode(data)
    except MessageError:
        refused(lambda: decode(data))
        return
    assert checked(message) is message
    again = encode(message)
    assert by_value(decode(again)) == by_value(message)
    assert size(message) == len(again)


@examples(300)
@given(st.binary(max_size=200))
@example(b'{"v":1}')
@example(b'{"v":1,"kind":"sync","wanted":[[]]}')
def test_random_bytes(data):
    taken_or_refused(data)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_words = st.sampled_from(
    ["v", "kind", "id", "source", "value", "time", "results", "attribute", "location", "operator", "parts", "wanted"]
)


@examples(200)
@given(st.sampled_from(sorted(KINDS)), st.dictionaries(_words, _json, max_size=6))
def test_random_objects(kind, held):
    taken_or_refused(orjson.dumps({"v": 1, "kind": kind, **held}))


@examples(200)
@given(messages, st.data())
def test_damaged_bytes(message, data):
    text = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        way = data.draw(st.sampled_from(["flip", "drop", "insert", "cut", "double"]))
        if way == "flip":
            text[place] ^= 1 << data.draw(st.integers(0, 7))
        elif way == "drop" and len(text) > 1:
            del text[place]
        elif way == "insert":
            text[place:place] = data.draw(
                st.sampled_from([b'"', b"{", b"}", b"[", b",", b"\\", b"9" * 400, b"\xff", b"-"])
            )
        elif way == "cut" and place:
            del text[place:]
        else:
            text += text[place:]
    taken_or_refused(bytes(text))


def spots(json, holder=None, key=None):
    """All places in the JSON, as what holds them and their key."""
    if holder is not None:
        yield holder, key
    inner = json.items() if isinstance(json, dict) else enumerate(json) if isinstance(json, list) else ()
    for step, value in list(inner):
        yield from spots(value, json, step)


def deep(depth):
    found = 1
    for _ in range(depth):
        found = [found]
    return found


_SWAPS = [None, True, False, 0, 1, -1, 2**64 - 1, -(2**63), 1e308, -0.0, "", "x", "\0", [], {}, [None], {"": None}]
_junk = st.one_of(
    st.sampled_from([*_SWAPS, [[1, 2], {"a": []}], {"kind": "reading"}, {"gap": "NaN"}]),
    st.integers(1, 200).map(deep),
    st.just(1025).map(lambda n: "x" * n),
    _json,
)


@examples(250)
@given(messages, st.data())
def test_fields_with_other_values(message, data):
    json = orjson.loads(encode(message))
    for _ in range(data.draw(st.integers(1, 2))):
        found = list(spots(json))
        holder, key = found[data.draw(st.integers(0, len(found) - 1))]
        way = data.draw(st.sampled_from(["swap", "swap", "drop", "add", "elsewhere"]))
        if way == "swap":
            holder[key] = data.draw(_junk)
        elif way == "drop":
            del holder[key]
        elif isinstance(holder, list):
            holder.append(holder[key])
        elif way == "add":
            holder[data.draw(_words | st.text(max_size=3))] = data.draw(_junk)
        else:
            other, place = found[data.draw(st.integers(0, len(found) - 1))]
            holder[key] = orjson.loads(orjson.dumps(other[place])) if place in other or type(other) is list else None
        if not list(spots(json)):
            break
    taken_or_refused(orjson.dumps(json))


# --- objects that are no messages -----------------------------------------------------------------------------------


class Shout(str):
    pass


def part(**other):
    return OperatorPart(**{"attribute": "a", "low": 0.0, "high": 1.0} | other)


def subscribe(*parts, **other):
    return Subscribe(Operator(**{"id": "s", "parts": parts or (part(),), "window": 5} | other))


class Later(Reading):
    pass


half_made = object.__new__(Reading)
object.__setattr__(half_made, "id", "r1")
changed = Publication("p", "z", NOON, {"a": [1]})
changed.attributes["a"].append(object())

OBJECTS = {
    "none": (None, "an object of class Announce, Revoke", "message"),
    "text": ("reading", "an object of class Announce", "'reading'"),
    "bytes": (encode(READING), "an object of class Announce", "bytes"),
    "dict": ({"kind": "reading"}, "an object of class Announce"),
    "class": (Reading, "an object of class Announce"),
    "operator": (OPERATOR, "an object of class Announce", "Operator"),
    "publication": (PUBLICATION, "an object of class Announce", "Publication"),
    "list": ([READING], "an object of class Announce"),
    "kin": (Later("r1", "z7", 1.0, 0), "an object of class Announce", "Later"),
    "half made": (half_made, "a non-empty string", "message.source"),
    "id none": (replace(READING, id=None), "a non-empty string", "message.id"),
    "id empty": (replace(READING, id=""), "a non-empty string"),
    "id long": (replace(READING, id=LONG), "at most 1024 characters"),
    "id surrogate": (replace(READING, id="\ud800"), "Unicode text", "lone surrogate"),
    "id bytes": (replace(READING, id=b"r1"), "a non-empty string", "bytes"),
    "id kin of text": (replace(READING, id=Shout("r1")), "a non-empty string"),
    "source empty": (replace(READING, source=""), "a non-empty string", "message.source"),
    "source long": (replace(READING, source=LONG), "at most 1024 characters", "message.source"),
    "source number": (replace(READING, source=7), "a non-empty string", "message.source"),
    "source surrogate": (replace(READING, source="é\udfff"), "Unicode text", "message.source"),
    "value nan": (replace(READING, value=nan), "a finite number", "nan", "message.value"),
    "value inf": (replace(READING, value=inf), "a finite number", "inf"),
    "value -inf": (replace(READING, value=-inf), "a finite number", "-inf"),
    "value text": (replace(READING, value="1"), "a finite number"),
    "value none": (replace(READING, value=None), "a finite number"),
    "value true": (replace(READING, value=True), "a finite number"),
    "value huge": (replace(READING, value=10**400), "a finite number", "77 digits"),
    "value odd": (replace(READING, value=2**53 + 1), "a 64-bit float"),
    "value array": (replace(READING, value=np.ones(3)), "a finite number"),
    "value numpy nan": (replace(READING, value=np.float64(nan)), "a finite number"),
    "time none": (replace(READING, time=None), "years 0001 to 9999", "message.time"),
    "time float": (replace(READING, time=1.0), "years 0001 to 9999"),
    "time true": (replace(READING, time=True), "years 0001 to 9999"),
    "time early": (replace(READING, time=EARLIEST - 1), "years 0001 to 9999"),
    "time late": (replace(READING, time=LATEST + 1), "years 0001 to 9999"),
    "time datetime": (replace(READING, time=NOON), "years 0001 to 9999", "datetime"),
    "time numpy": (replace(READING, time=np.int64(5)), "years 0001 to 9999", "int64"),
    "results none": (replace(READING, results=None), "a tuple", "message.results"),
    "results list": (replace(READING, results=["s"]), "a tuple", "a list of 1"),
    "results empty list": (replace(READING, results=[]), "a tuple", "a list of 0"),
    "results text": (replace(READING, results="s"), "a tuple"),
    "results number": (replace(READING, results=("s", 1)), "a non-empty string", "message.results[1]"),
    "results empty": (replace(READING, results=("",)), "a non-empty string"),
    "results long": (replace(READING, results=("x" * 19_585,)), "at most 19584 characters"),
    "results surrogate": (replace(READING, results=("\ud800",)), "Unicode text"),
    "location list": (Announce("z", "a", [0, 0]), "a point (lon, lat)", "message.location"),
    "location far": (Announce("z", "a", (0, 91)), "lat in [-90, 90]", "message.location[1]"),
    "location nan": (Announce("z", "a", (nan, 0)), "lon in [-180, 180]"),
    "location numpy": (Announce("z", "a", np.zeros(2)), "a point (lon, lat)"),
    "revoke none": (Revoke(None), "a non-empty string"),
    "subscribe text": (Subscribe("no2 > 40"), "an object of class Operator", "message.operator"),
    "parts list": (subscribe(parts=[part()]), "a tuple", "message.operator.parts"),
    "parts many": (subscribe(*(part(attribute=f"a{i}") for i in range(17))), "at most 16", "17"),
    "part bounds text": (subscribe(part(low="a", high="b")), "no bound", "message.operator.parts[0].low"),
    "part bounds true": (subscribe(part(low=False, high=True)), "no bound"),
    "part beyond": (subscribe(part(low=inf, high=inf)), "no bound", "inf", "parts[0].low"),
    "part below": (subscribe(part(low=-inf, high=-inf)), "no bound", "-inf", "parts[0].high"),
    "part integer": (subscribe(part(high=2**53 + 1)), "a 64-bit float"),
    "part region long": (subscribe(part(region=(0, 0, 1, 1, 1))), "west, south, east and north"),
    "part region list": (subscribe(part(region=[0, 0, 1, 1])), "west, south, east and north"),
    "part region text": (subscribe(part(region=("a", "a", "b", "b"))), "no bound", "region[0]"),
    "part region beyond": (subscribe(part(region=(inf, 0.0, inf, 1.0))), "no bound", "region[0]"),
    "part attribute long": (subscribe(part(attribute=LONG)), "at most 1024 characters"),
    "part source surrogate": (subscribe(part(source="\ud800")), "Unicode text"),
    "window true": (subscribe(window=True), "a window"),
    "window long": (subscribe(window=31_622_400_000_001), "a window of at most 366 days"),
    "near true": (subscribe(near=True), "a distance in metres"),
    "main float": (subscribe(main=0.0), "the position of a part"),
    "operator long": (subscribe(id="x" * 19_585), "at most 19584 characters"),
    "where dict": (Interest("s", {"op": "="}), "a non-empty string", "message.where"),
    "unsubscribe number": (Unsubscribe(5), "a non-empty string"),
    "publish text": (Publish("p"), "an object of class Publication", "message.publication"),
    "publish surrogate": (Publish(Publication("p", "z", NOON, {"\ud800": 1})), "Unicode text"),
    "sync list": (Sync(announced=[Announce("z", "a")]), "a tuple", "message.announced"),
    "sync reading": (Sync(wanted=(READING,)), "an object of class Subscribe, Interest", "message.wanted[0]"),
    "sync held twice": (Sync(held=("a", "b", "a")), "each of them once", "'a' twice"),
    "sync held unhashable": (Sync(held=("a", [])), "a non-empty string", "message.held[1]"),
    "sync source twice": (Sync((Announce("z", "a"), Announce("z", "b"))), "each of them once", "message.announced"),
    "sync wanted twice": (Sync(wanted=(subscribe(), Interest("s", "TRUE"))), "each of them once", "'s' twice"),
    "refuse none": (Refuse(None), "a non-empty string", "message.reason"),
    "refuse code": (Refuse("why", 5), "a non-empty string", "message.code"),
    "deliver one": (Deliver("s", READING), "a tuple", "message.events"),
    "deliver revoke": (Deliver("s", (READING, Revoke("z"))), "an object of class Reading, Publish", "events[1]"),
    "deliver nan": (Deliver("s", (replace(READING, value=nan),)), "a finite number", "message.events[0].value"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_that_are_refused(name):
    message, *parts = OBJECTS[name]
    refused(lambda: checked(message), *parts)
    refused(lambda: encode(message), *parts)
    refused(lambda: checked(message), *parts)


def test_a_publication_that_was_changed_has_no_bytes():
    refused(lambda: encode(Publish(changed)), "values that JSON has", "message")


@pytest.mark.parametrize(
    "message",
    [
        replace(READING, value=5),
        replace(READING, value=np.float64(12.5)),
        replace(READING, value=2**53),
        replace(READING, time=EARLIEST, source="é" * 1024, id="x" * 1024),
        replace(READING, time=LATEST, value=1.7976931348623157e308, results=("x" * 19_584,)),
        Announce("z7", "a", (180, -90)),
        Subscribe(
            Operator("s", (OperatorPart("a", np.float64(-inf), np.float64(1), region=(-inf, -1, inf, inf)),), 5, near=7)
        ),
    ],
)
def test_numbers_of_other_classes_are_taken(message):
    assert checked(message) is message
    assert decode(encode(message)) == message
    assert size(message) == len(encode(message))


def test_what_a_node_splits_off_has_a_name_that_is_taken():
    far = (-MOST, -MOST, -5e-324, -1.2345678901234567e-300)
    identified = tuple(part(source=f"{i:01024}") for i in range(16))
    abstract = tuple(part(attribute=f"{i:01024}", region=far) for i in range(16))
    for parts in (identified, abstract):
        whole = Operator("s" * 1024, parts, 5)
        for operator in (whole, whole.only(range(16), 3), whole.only(range(15))):
            message = Subscribe(operator)
            assert decode(encode(message)) == message
            assert decode(encode(Unsubscribe(operator.id))).id == operator.id
            assert checked(replace(READING, results=(operator.id,)))


@given(st.data())
@examples(200)
def test_what_is_checked_has_bytes_and_comes_back(data):
    """An object with any value in any field is refused, or travels."""
    message = data.draw(messages)
    field = data.draw(st.sampled_from(fields(message)))
    odd = data.draw(_junk | st.just(()) | messages | operators() | st.floats() | st.tuples(messages, _json))
    message = replace(message, **{field.name: odd})
    try:
        checked(message)
    except MessageError:
        refused(lambda: encode(message))
        return
    encoded = encode(message)
    assert by_value(decode(encoded)) == by_value(message)
    assert size(message) == len(encoded)


# --- length ---------------------------------------------------------------------------------------------------------


@examples(200)
@given(KINDS["reading"])
@example(replace(READING, value=1e22, id='"\\\n\x7fé😀'))
def test_the_length_of_readings(message):
    assert size(message) == len(encode(message))


def test_the_length_of_operators_that_come_and_go():
    """The memory of an operator may be that of another before."""
    for i in range(2000):
        message = Subscribe(Operator("s" * (i % 7 + 1), (part(high=float(i)),) if i % 2 else (part(low=-0.0),), 5))
        assert size(message) == len(encode(message))
        assert size(message) == len(encode(message))
    assert size(Subscribe(Operator("s", (part(low=0.0),), 5))) + 1 == size(
        Subscribe(Operator("s", (part(low=-0.0),), 5))
    )


def test_nothing_is_kept_of_an_operator_that_is_gone():
    message = Subscribe(Operator("gone", (part(),), 5))
    before = len(wire._known)
    checked(message)
    assert len(wire._known) == before + 1
    del message
    gc.collect()
    assert len(wire._known) <= before


def test_an_operator_that_is_refused_stays_refused():
    message = subscribe(part(low="a", high="b"))
    for act in (checked, encode, size, checked):
        refused(lambda act=act: act(message), "no bound")
