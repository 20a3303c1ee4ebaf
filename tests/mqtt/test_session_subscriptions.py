"""What is known of the session at the MQTT broker outlives the bridge, and is never believed of another one."""

from __future__ import annotations

from tidegate.mqtt import session_subscriptions
from tidegate.mqtt.session_subscriptions import SessionSubscriptions
from tidegate.runs.mqtt_section import MqttAddress, MqttSection, RuleSection
from tidegate.runs.topic_templates import topic_template

REQUESTS, PUBLICATIONS = "tidegate/requests/+", "tidegate/publications/#"


def made(directory, *filters, client_id="me", host="b"):
    rules = tuple(RuleSection(topic_template(one)) for one in filters)
    return SessionSubscriptions(MqttSection(MqttAddress(host, 1, False), rules=rules), directory, client_id)


def begun(directory, *filters, has_session=False, **more):
    """Subscriptions, and what they give up; all of them are granted."""
    found = made(directory, *filters, **more)
    gone = found.begin(has_session)
    for one in found.topic_filters:
        found.subscribed(one, True)
    return found, gone


def test_ids_follow_from_the_texts_of_filters_and_are_all_different(tmp_path, monkeypatch):
    one, other = made(tmp_path, "a/+", "a/#"), made(tmp_path, "c", "a/#", "a/+")
    assert [one.live_id(name) for name in ("a/+", "a/#")] == [other.live_id(name) for name in ("a/+", "a/#")]
    monkeypatch.setattr(session_subscriptions, "_NUMBERS", 5)
    few = made(tmp_path, "a", "b", "c")
    assert sorted(of(name) for of in (few.live_id, few.stored_id) for name in few.topic_filters) == list(range(1, 11))


def test_the_same_is_known_after_a_restart_and_nothing_of_another_session(tmp_path):
    begun(tmp_path, "a/+", "a/#")
    for more in ({}, {"client_id": "you"}, {"host": "c"}):
        found, is_other = made(tmp_path, "a/+", "a/#", **more), bool(more)
        assert found.is_copy("a/+", [found.live_id("a/#")]) is not is_other
        assert found.is_fetched("a/+") is not is_other
    found.begin(False)
    assert not found.is_fetched("a/+")


def test_a_filter_that_is_added_drops_no_copies_until_one_of_its_own_is_acknowledged(tmp_path):
    begun(tmp_path, "a/#")
    found, gone = begun(tmp_path, "a/+", "a/#", has_session=True)
    narrow, wide = found.live_id("a/+"), found.live_id("a/#")
    assert gone == []
    assert not found.is_copy("a/+", [wide])
    assert found.proof("a/+", [wide]) == ""
    assert found.proof("a/+", [found.stored_id("a/+")]) == ""  # which may come before
    assert found.proof("a/+", [narrow, wide]) == "a/+"
    found.prove("a/+")
    for one in (found, made(tmp_path, "a/+", "a/#")):
        assert one.is_copy("a/+", [wide])
        assert not one.is_copy("a/+", None)
        assert one.proof("a/+", [narrow]) == ""
    found.subscribed("a/+", False)
    assert not found.is_copy("a/+", [wide])


def test_what_is_not_wanted_any_more_is_given_up_until_the_mqtt_broker_has_done_so(tmp_path):
    begun(tmp_path, "a/+", "a/#")
    for _ in range(2):
        found, gone = begun(tmp_path, "a/#", has_session=True)
        assert gone == ["a/+"]
    found.removed("a/+")
    assert begun(tmp_path, "a/+", has_session=True)[1] == ["a/#"]
    assert not made(tmp_path, "a/+", "a/#").is_copy("a/+", [found.live_id("a/#")])


def test_a_damaged_file_is_not_believed(tmp_path):
    begun(tmp_path, "a/+")
    [file] = tmp_path.glob("*.json")
    content = file.read_bytes()
    for place in range(0, len(content), 5):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert made(tmp_path, "a/+")._proven in (set(), {REQUESTS, PUBLICATIONS, "a/+"})
    file.write_bytes(b"")
    assert not made(tmp_path, "a/+").is_fetched("a/+")
