"""Objects that are no messages have no bytes; and how long the bytes of others are."""

from __future__ import annotations

import gc
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given

from tests.drawn_publications import MOST
from tests.overlay.messages import EARLIEST, KINDS, LATEST
from tests.overlay.wire_examples import LONG, NOON, OPERATOR, PUBLICATION, READING, part, refused, subscribe
from tests.parts.profiles import examples
from tidegate.model import Publication
from tidegate.overlay import wire
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
from tidegate.overlay.wire import checked, decode, encode, size

# --- objects that are no messages -----------------------------------------------------------------------------------


class Shout(str):
    pass


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
