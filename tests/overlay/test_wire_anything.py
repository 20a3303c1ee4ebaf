"""Any bytes and any values at all: they are a message, or a ``MessageError`` and nothing else."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, replace

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from tests.overlay.messages import KINDS, messages, operators
from tests.overlay.wire_examples import by_value, refused
from tests.parts.profiles import examples
from tidegate.errors import MessageError
from tidegate.overlay.wire import checked, decode, encode, size


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
).map(deepcopy)  # tests change what they have drawn


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
