"""What an item is as a message: which values are properties as well, and when it expires."""

from __future__ import annotations

import json

import pytest

from tidegate.broker.encoded_items import EncodedItem
from tidegate.mqtt.notification_messages import message_of
from tidegate.mqtt.packet_properties import Property

NOW = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z


def properties(read_at=NOW, **publication):
    body = json.dumps({"type": "notification", "publication": {"attributes": {}, **publication}}).encode()
    return message_of(EncodedItem("notification", 1, body), "e", NOW, read_at)


UNWANTED = ["\x00", "\x01", "\n", "\x1f", "\x7f", "\x85", "\x9f", "\ufdd0", "\ufdef", "\ufffe", "\uffff", "\U0010ffff"]


@pytest.mark.parametrize("character", UNWANTED, ids=ascii)
def test_a_value_for_which_an_mqtt_broker_may_close_the_connection_is_no_property(character):
    found = dict(properties(id=f"a{character}", source="z7", attributes={"subject": character, "type": "t"})[38])
    assert (found["id"], found["source"], found["type"]) == ("e-1", "z7", "t")
    assert "subject" not in found


def test_any_other_value_is():
    value = "\u00e9\u00a0~ \ufdcf\ufdf0\ufffd\U0001f30a"
    assert dict(properties(id=value)[38])["id"] == value


def test_what_expires_between_reading_and_sending_is_not_kept_for_ever():
    assert properties(valid_until="2027-01-15T08:00:09.5Z")[Property.MESSAGE_EXPIRY] == 10
    assert properties(NOW - 9_000_000, valid_until="2027-01-15T07:59:55Z")[Property.MESSAGE_EXPIRY] == 1
    wanted = properties(NOW - 1000, valid_until="2027-01-15T07:59:55Z")
    assert Property.MESSAGE_EXPIRY not in wanted  # it had expired when it was read, and somebody wants it nevertheless
