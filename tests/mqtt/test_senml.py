"""SenML as RFC 8428 has it: its examples by hand, against an oracle that resolves records first, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.mqtt.message_refusals import MessageRefused
from tidegate.mqtt.senml import Measured, of_pack

NOW = 1_800_000_000_000_000
DEVICE = "urn:dev:ow:10e2073a0108006:"


def test_one_record():
    """Section 5.1.1."""
    pack = [{"n": "urn:dev:ow:10e2073a01080063", "u": "Cel", "v": 23.1}]
    name = "urn:dev:ow:10e2073a01080063"
    assert of_pack(pack, NOW) == [Measured("", None, {name: 23.1, f"{name}.unit": "Cel"})]


def test_several_of_one_device_and_a_base_name():
    """Section 5.1.2."""
    pack = [{"bn": DEVICE, "n": "voltage", "u": "V", "v": 120.1}, {"n": "current", "u": "A", "v": 1.2}]
    [found] = of_pack(pack, NOW)
    assert found.base == DEVICE
    assert found.attributes == {"voltage": 120.1, "voltage.unit": "V", "current": 1.2, "current.unit": "A"}


def test_times_behind_a_base_time_and_a_base_unit():
    """Section 5.1.2, its second example."""
    pack = [{"bn": DEVICE, "bt": 1.276020076001e09, "bu": "A", "bver": 5, "n": "voltage", "u": "V", "v": 120.1}]
    pack += [{"n": "current", "t": -at, "v": 1 + at / 10} for at in (5, 4, 3, 2, 1)]
    pack.append({"n": "current", "v": 1.7})
    found = of_pack(pack, NOW)
    assert [one.time for one in found] == [
        *("2010-06-08T18:01:16.001000Z", "2010-06-08T18:01:11.001000Z", "2010-06-08T18:01:12.001000Z"),
        *("2010-06-08T18:01:13.001000Z", "2010-06-08T18:01:14.001000Z", "2010-06-08T18:01:15.001000Z"),
    ]
    first = {"voltage": 120.1, "voltage.unit": "V", "current": 1.7, "current.unit": "A"}
    assert found[0].attributes == first
    assert found[1].attributes == {"current": 1.5, "current.unit": "A"}


def test_texts_truths_data_and_sums():
    """Section 5.1.3 and 5.1.4, and values of all kinds."""
    pack = [
        {"bn": "urn:dev:ow:10e2073a01080063:", "n": "temp", "u": "Cel", "v": 23.1},
        {"n": "label", "vs": "Machine Room"},
        {"n": "open", "vb": False},
        {"n": "nfc", "vd": "aGkgCg"},
        {"n": "energy", "u": "J", "s": 100},
    ]
    [found] = of_pack(pack, NOW)
    assert found.attributes == {
        "temp": 23.1,
        "temp.unit": "Cel",
        "label": "Machine Room",
        "open": False,
        "nfc": "aGkgCg",
        "energy.sum": 100,
        "energy.unit": "J",
    }


def test_base_values_base_sums_and_relative_times():
    pack = [{"bn": "a:", "bv": 20, "bs": 5, "n": "x", "v": 1, "s": 2, "t": -60}, {"n": "y", "t": 10}]
    first, second = of_pack(pack, NOW)
    assert first == Measured("a:", "2027-01-15T07:59:00.000000Z", {"x": 21, "x.sum": 7})
    assert second == Measured("a:", "2027-01-15T08:00:10.000000Z", {"y.sum": 5})


def test_the_same_name_twice_at_one_time_is_two():
    assert [one.attributes for one in of_pack([{"n": "a", "v": 1}, {"n": "a", "v": 2}], NOW)] == [{"a": 1}, {"a": 2}]


def test_a_base_name_alone_is_the_name():
    assert of_pack([{"bn": "dev1", "v": 1}], NOW) == [Measured("dev1", None, {"value": 1})]


RECORDS = st.fixed_dictionaries(
    {"n": st.sampled_from(["x", "y", "z"])},
    optional={
        "bn": st.sampled_from(["a:", "b:"]),
        "bt": st.integers(0, 5).map(lambda n: 2**28 + n),
        "bu": st.sampled_from(["V", "A"]),
        "bv": st.integers(1, 3),
        "u": st.just("W"),
        "t": st.integers(-3, 3),
        "v": st.integers(-5, 5),
    },
)


def resolved(pack):
    """Each record with what it says by itself: name, time, value, unit; in the steps of section 4.6."""
    base, found = {"bn": "", "bt": 0, "bu": "", "bv": None}, []
    for record in pack:
        base |= {name: value for name, value in record.items() if name in base}
        value = record.get("v")
        if base["bv"] is not None:
            value = (value or 0) + base["bv"]
        if value is not None:
            found.append((base["bn"], record["n"], base["bt"] + record.get("t", 0), value, record.get("u", base["bu"])))
    return found


@examples(100)
@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_packs_say_what_their_resolved_records_say(pack):
    from datetime import datetime

    said = []
    for base, time, attributes in of_pack(pack, NOW):
        seconds = 0 if time is None else datetime.fromisoformat(time).timestamp()
        names = [name for name in attributes if "." not in name]
        said += [(base, name, seconds, attributes[name], attributes.get(f"{name}.unit", "")) for name in names]
    expected = [
        (base, name, 0 if time == 0 else time if time >= 2**28 else NOW / 1e6 + time, value, unit)
        for base, name, time, value, unit in resolved(pack)
    ]
    assert sorted(said) == sorted(expected)


@pytest.mark.parametrize(
    ("pack", "wrong"),
    [
        ({}, "an array of records"),
        ([], "an array of records"),
        ([5], "an object"),
        ([{"v": 1}], "a name"),
        ([{"n": "a", "v": "1"}], "a number as v"),
        ([{"n": "a", "v": True}], "a number as v"),
        ([{"n": "a", "v": 1, "vs": "x"}], "one value"),
        ([{"n": 5, "v": 1}], "text as n"),
        ([{"n": "a", "vb": 1}], "true or false"),
        ([{"n": "a", "v": 1, "odd_": 1}], "must be understood"),
        ([{"n": "a", "v": 1, "bver": 11}], "a bver of at most 10"),
        ([{"n": "a", "v": 1, "bver": 5}, {"n": "a", "v": 1, "bver": 6}], "one bver"),
        ([{"n": "a", "v": 1, "t": 1e300}], "a time between"),
        ([{"n": "a", "v": 1}] * 10_001, "at most 10,000 records"),
    ],
)
def test_what_is_none_is_refused(pack, wrong):
    with pytest.raises(MessageRefused, match=wrong) as caught:
        of_pack(pack, NOW)
    assert caught.value.code == "senml"
