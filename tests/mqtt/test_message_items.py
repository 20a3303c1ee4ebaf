"""What messages say: topics, rules and payloads in all forms, events of a foreign SDK, and payloads that mean harm."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.gateway.given_publications import Unreadable
from tidegate.gateway.submission import Submission
from tidegate.mqtt.message_items import MessageItems
from tidegate.mqtt.message_refusals import MessageRefused, RefusalLog, reason_of
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Message
from tidegate.mqtt.session_subscriptions import SessionSubscriptions
from tidegate.runs.config import load

NOW = 1_800_000_000_000_000


@pytest.fixture
def reader(tmp_path):
    def made(rules="", most_bytes=10_000, most_items=100):
        file = tmp_path / "service.toml"
        file.write_text(f'[run]\ndata = "data"\nrunner = "process"\n[mqtt]\naddress = "mqtt://localhost"\n{rules}')
        section = load(file).mqtt
        return MessageItems(section, subscriptions_of(section, tmp_path), most_bytes, most_items, lambda: NOW)

    return made


def subscriptions_of(section, directory):
    """Those of a session that began with them."""
    found = SessionSubscriptions(section, directory, "me")
    found.begin(False)
    for one in found.topic_filters:
        found.subscribed(one, True)
    return found


def message(topic, payload, retain=False, **properties):
    payload = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Message(topic, payload, 1, retain, False, 1, {Property[name]: value for name, value in properties.items()})


def read(items, *given, **properties):
    return items.read(message(*given, **properties)).items


def refused(items, *given, **properties):
    with pytest.raises(MessageRefused) as caught:
        items.read(message(*given, **properties))
    return caught.value.code


def test_the_topic_of_publications_names_the_source(reader):
    items = reader()
    assert read(items, "tidegate/publications/z7", {"no2": 41}) == [{"no2": 41, "source": "z7"}]
    assert read(items, "tidegate/publications/a/b", {"x": 1, "source": "a/b"}) == [{"x": 1, "source": "a/b"}]
    assert read(items, "tidegate/publications/z7", b"41.5") == [{"value": 41.5, "source": "z7"}]
    assert read(items, "tidegate/publications/z7", b"open") == [{"value": "open", "source": "z7"}]
    several = read(items, "tidegate/publications/z7", [{"x": 1}, {"x": 2}])
    assert several == [{"x": 1, "source": "z7"}, {"x": 2, "source": "z7"}]
    assert refused(items, "tidegate/publications/z7", {"source": "z8"}) == "source"
    [wrong, right] = read(items, "tidegate/publications/z7", [{"source": "z8"}, {"x": 2}])
    assert (type(wrong), wrong.code, right["x"]) == (Unreadable, "source", 2)
    assert refused(items, "tidegate/publications/", {"x": 1}) == "topic"
    assert refused(items, "elsewhere", {"x": 1}) == "topic"
    assert refused(items, "tidegate/publications/z7", b'{"x": ') == "json"
    assert refused(items, "tidegate/publications/z7", b"null") == "payload"
    assert refused(items, "tidegate/publications/z7", b"[1, 2]") == "payload"
    assert refused(items, "tidegate/publications/z7", b"\xff") == "text"
    assert refused(items, "tidegate/publications/z7", [{"x": 1}] * 101) == "too_large"
    assert refused(items, "tidegate/publications/z7", b"1" * 10_001) == "too_large"


RULES = """
[[mqtt.rules]]
topic = "sensors/{area}/{source}/no2"
value = "no2"
format = "number"
valid_for = 60
constants = {unit = "ug", floor = 2}
[[mqtt.rules]]
topic = "texts/{id}"
format = "text"
[[mqtt.rules]]
topic = "any/#"
"""


def test_rules_name_levels_and_the_first_that_matches_counts(reader):
    items = reader(RULES)
    [found] = read(items, "sensors/north/z7/no2", b" 41.5\n")
    assert found.pop("valid_until") == "2027-01-15T08:01:00.000000Z"
    assert found == {"no2": 41.5, "source": "z7", "area": "north", "unit": "ug", "floor": 2}
    assert read(items, "texts/t1", b"5") == [{"value": "5", "id": "t1", "source": "texts/t1"}]
    assert read(items, "any/thing", b"true") == [{"value": True, "source": "any/thing"}]
    assert read(items, "any", {"source": "own", "x": 1}) == [{"source": "own", "x": 1}]
    for payload in (b"", b"x", b"nan", b"1e999", b"1_000", b"0x10", b"1 2", b"+-1", b"9" * 200):
        assert refused(items, "sensors/north/z7/no2", payload) == "number", payload
    assert refused(items, "texts/t1/more", b"5") == "topic"


def test_a_message_that_comes_by_several_subscriptions_counts_by_that_of_its_rule(reader):
    items = reader('[[mqtt.rules]]\ntopic = "a/{id}"\n[[mqtt.rules]]\ntopic = "a/#"\n[[mqtt.rules]]\ntopic = "a/#"\n')
    subscriptions = items._subscriptions
    own = ["tidegate/requests/+", "tidegate/publications/#"]
    assert subscriptions.topic_filters == [*own, "a/+", "a/#"]
    narrow, wide = subscriptions.live_id("a/+"), subscriptions.live_id("a/#")
    for ids in ([narrow], [wide, narrow], [subscriptions.stored_id("a/+")]):
        assert len(read(items, "a/x", {"n": 1}, SUBSCRIPTION_ID=ids)) == 1, ids
    assert read(items, "a/x", {"n": 1}, SUBSCRIPTION_ID=[wide]) == []
    assert len(read(items, "a/x/y", {"n": 1}, SUBSCRIPTION_ID=[wide])) == 1


def test_our_own_topics_are_no_publications_whatever_the_rules_say(reader):
    items = reader('[[mqtt.rules]]\ntopic = "#"')
    for name in ("notifications/ann", "responses/x", "status", "requests/ann"):
        assert refused(items, f"tidegate/{name}", {"x": 1}) == "topic"
    assert read(items, "tidegate/else", {"x": 1}) == [{"x": 1, "source": "tidegate/else"}]


def test_what_a_topic_says_is_not_overruled(reader):
    items = reader(RULES)
    assert read(items, "any/x", {"area": "south"}, CONTENT_TYPE="application/json")
    rule = reader('[[mqtt.rules]]\ntopic = "s/{source}/{area}"')
    assert refused(rule, "s/z7/north", {"area": "south"}) == "payload"
    assert read(rule, "s/z7/north", {"area": "north"}) == [{"area": "north", "source": "z7"}]


def test_the_content_type_says_how_a_payload_is_read(reader):
    items = reader(RULES)
    topic = "tidegate/publications/dev1"
    pack = [{"bn": "dev1:", "n": "t", "v": 1}, {"n": "h", "v": 2}]
    assert read(items, topic, pack, CONTENT_TYPE="application/senml+json") == [{"t": 1, "h": 2, "source": "dev1"}]
    assert read(items, topic, {"x": 1}, CONTENT_TYPE="application/vnd.x+json; charset=utf-8")[0]["x"] == 1
    assert read(items, topic, b"5", CONTENT_TYPE="text/plain")[0]["value"] == 5
    assert refused(items, topic, b"x", CONTENT_TYPE="image/png") == "payload"
    assert refused(items, topic, b"x", CONTENT_TYPE="application/json") == "json"
    two = [{"bn": "a:", "n": "t", "v": 1}, {"bn": "b:", "n": "t", "v": 2}]
    found = read(items, "any/x", two, CONTENT_TYPE="application/senml+json")
    assert [one["source"] for one in found] == ["a", "b"]
    assert refused(items, "any/x", [{"bn": "a:", "u": "V"}], CONTENT_TYPE="application/senml+json") == "senml"
    assert refused(items, "any/x", [{"n": "", "v": 1}], CONTENT_TYPE="application/senml+json") == "senml"


def test_events_of_a_foreign_sdk_in_binary_and_structured_mode(reader):
    """It has no binding to MQTT: its attributes become user properties here, as the CloudEvents standard has it."""
    event = CloudEvent(
        attributes={
            "id": "e1",
            "source": "roof",
            "type": "reading",
            "specversion": "1.0",
            "subject": "s",
            "time": datetime(2026, 11, 15, 8, tzinfo=UTC),
            "datacontenttype": "application/json",
            "site": "x",
            "validuntil": "2026-11-15T09:00:00Z",
        },
        data={"no2": 41},
    )
    attributes = {name: str(value) for name, value in event.get_attributes().items()}
    attributes["time"] = event.get_time().isoformat()
    kind = attributes.pop("datacontenttype")
    items, payload = reader(), event.get_data()
    topic = "tidegate/publications/roof"
    [binary] = read(items, topic, payload, USER=list(attributes.items()), CONTENT_TYPE=kind)
    expected = {"id": "e1", "source": "roof", "type": "reading", "subject": "s", "site": "x", "no2": 41}
    expected |= {"time": "2026-11-15T08:00:00+00:00", "valid_until": "2026-11-15T09:00:00Z"}
    assert binary == expected
    whole = {**attributes, "data": payload}
    assert read(items, topic, whole, CONTENT_TYPE="application/cloudevents+json") == [expected]
    assert read(items, topic, [whole], CONTENT_TYPE="application/cloudevents-batch+json") == [expected]
    assert refused(items, "tidegate/publications/z7", b"{}", USER=[("specversion", "1.0")] * 2) == "cloudevents"
    [wrong] = read(items, topic, b"{}", USER=[("specversion", "1.0"), ("id", "1")], CONTENT_TYPE=kind)
    assert wrong.code == "cloudevents"
    [other] = read(items, "tidegate/publications/z7", whole, CONTENT_TYPE="application/cloudevents+json")
    assert other.code == "source"


def test_an_expiry_is_a_validity_and_is_cut_at_thirty_days(reader):
    items = reader("retained_seconds = 100")
    topic = "tidegate/publications/z7"
    assert read(items, topic, {"x": 1}, MESSAGE_EXPIRY=60)[0]["valid_until"] == "2027-01-15T08:01:00.000000Z"
    assert read(items, topic, {"x": 1}, MESSAGE_EXPIRY=2**32 - 1)[0]["valid_until"] < "2027-02-14T08:00:00"
    own = {"x": 1, "valid_until": "2027-01-15T09:00:00Z"}
    assert read(items, topic, own, MESSAGE_EXPIRY=60)[0]["valid_until"] == own["valid_until"]
    assert read(items, topic, {"x": 1}, True)[0]["valid_until"] == "2027-01-15T08:01:40.000000Z"
    assert read(items, topic, {"x": 1}, True, MESSAGE_EXPIRY=60)[0]["valid_until"] == "2027-01-15T08:01:00.000000Z"
    assert "valid_until" not in read(reader("retained_seconds = 0"), topic, {"x": 1}, True)[0]


def test_the_identity_of_what_is_stored_follows_from_topic_and_content(reader):
    items = reader()
    subscriptions = items._subscriptions
    stored, live = (of(subscriptions.publications) for of in (subscriptions.stored_id, subscriptions.live_id))

    def id_of(topic, payload, *more, **properties):
        [found] = read(items, f"tidegate/publications/{topic}", payload, True, SUBSCRIPTION_ID=[stored], **properties)
        return found.get("id")

    first = id_of("a", {"x": 1})
    assert first == id_of("a", {"x": 1})
    others = [id_of("b", {"x": 1}), id_of("a", {"x": 2}), id_of("a", {"x": 1}, CONTENT_TYPE="application/json")]
    assert len({first, *others}) == 4
    assert id_of("a", {"x": 1, "id": "own"}) == "own"
    live = read(items, "tidegate/publications/a", {"x": 1}, True, SUBSCRIPTION_ID=[live])
    assert "id" not in live[0]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.sampled_from(["id", "source", "time", "specversion", "type", "valid_until", "location", "attributes", "x"])
PAYLOADS = st.one_of(
    st.binary(max_size=50),
    ANYTHING.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(NAMES, ANYTHING, max_size=5).map(lambda value: json.dumps(value).encode()),
    st.just(b"[" * 5000),
    st.just(b'{"a":' * 1000 + b"1" + b"}" * 1000),
)
TYPES = st.sampled_from(
    ["", "application/json", "application/senml+json", "application/cloudevents+json", "text/plain", "x/y", "\u00e9"]
)


@examples(200)
@given(st.data())
def test_payloads_that_mean_harm_are_refused_one_by_one(tmp_path_factory, data):
    directory = tmp_path_factory.getbasetemp()
    file = directory / "harm.toml"
    file.write_text(f'[run]\ndata = "data"\nrunner = "process"\n[mqtt]\naddress = "mqtt://localhost"\n{RULES}')
    section = load(file).mqtt
    items = MessageItems(section, subscriptions_of(section, directory), 10_000, 100, lambda: NOW)
    topic = data.draw(st.sampled_from(["tidegate/publications/z7", "sensors/n/z7/no2", "texts/1", "any/x", "else"]))
    payload, kind = data.draw(PAYLOADS), data.draw(TYPES)
    user = data.draw(st.lists(st.tuples(NAMES, st.text(max_size=5)), max_size=5))
    properties = {"CONTENT_TYPE": kind} if kind else {}
    properties |= {"USER": user} if user else {}
    try:
        found, refusal = items.read(message(topic, payload, **properties)).items, ""
    except MessageRefused as wrong:
        found, refusal = [], wrong.code
    assert refusal in {"", "json", "payload", "source", "topic", "number", "text", "cloudevents", "senml"}
    assert not refusal or reason_of(refusal) >= 128
    lot = Submission(found, now=NOW).prepare()
    assert len(lot.publications) <= len(found)
    if topic == "tidegate/publications/z7":
        assert {one.source for one in lot.publications} <= {"z7"}


def test_refusals_are_logged_at_a_bounded_rate(caplog):
    clock = [0.0]
    log = RefusalLog(lambda: clock[0])
    for _ in range(1000):
        log.note("json", "a/b", "detail")
    log.note("topic", "a/b", "detail")
    assert len(caplog.records) == 2
    clock[0] = 31
    log.note("json", "a/b", "detail")
    assert "999 before" in caplog.records[-1].getMessage()
