"""Messages as bytes: each comes back as it was, and bytes that are no message are a ``MessageError``."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.messages import EARLIEST, KINDS, LATEST
from tests.overlay.wire_examples import LONG, NAMED, OPERATOR, PUBLICATION, READING, by_value, refused
from tests.parts.profiles import examples
from tidegate.language import DEFAULT_LIMITS
from tidegate.overlay.messages import (
    Announce,
    Deliver,
    Interest,
    Message,
    Publish,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.operators import Operator, OperatorPart
from tidegate.overlay.wire import MOST_BYTES, SYNC_TIMES, checked, decode, encode, size

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
        '{"v":1,"kind":"publish","publication":{"id":"p1","source":"z7","time":"2026-11-15T12:00:00.000000Z",'
        '"phase":"START","location":[7.25,46.0],"valid_until":"2026-11-15T12:00:00.000000Z",'
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
    "publication time": (at(PUBLISH, PUB, "time", put=5), "a text such as", "time"),
    "publication zone": (at(PUBLISH, PUB, "time", put="2026-11-15T08:00:00"), "a time with a time zone"),
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
