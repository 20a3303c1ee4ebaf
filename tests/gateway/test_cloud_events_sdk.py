"""Events that the SDK of CloudEvents sends, in all three modes, are the publications that they say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from tests.gateway.live_broker import live

#: Characters beyond ASCII, a percent sign and quotes, which the modes encode each in its own way.
SUBJECT = 'hut "été" 100 %'


def event(number, **more):
    attributes = {
        "id": f"e{number}",
        "source": "/huts/7",
        "type": "reading",
        "time": datetime(2026, 11, 15, 8, number, tzinfo=UTC),
        "subject": SUBJECT,
        "datacontenttype": "application/json",
        **more,
    }
    return CloudEvent(attributes, {"temperature": 20.5 + number, "wind": {"speed": 3}})


def binary(events):
    return [to_binary_event(one) for one in events]


def structured(events):
    return [to_structured_event(one) for one in events]


class _Batch:
    """The SDK has no batches; each event in one is what it sends in structured mode."""

    def __init__(self, events):
        self.headers = {"content-type": "application/cloudevents-batch+json"}
        self.body = b"[" + b",".join(to_structured_event(one).body for one in events) + b"]"


@pytest.mark.parametrize("messages", [binary, structured, lambda events: [_Batch(events)]], ids=["b", "s", "batch"])
def test_what_the_sdk_sends_is_published(tmp_path, messages):
    with live(tmp_path) as broker, broker.client("ann", "publisher", "subscriber") as ann:
        taken = 0
        for message in messages([event(0), event(1, partitionkey="p")]):
            answer = ann.post("/v1/publications", content=message.body, headers=message.headers)
            assert answer.status_code == 202, answer.text
            taken += answer.json()["accepted"]
        assert taken == 2
        found = ann.get("/v1/publications").json()["publications"]
    for number, one in enumerate(found):
        assert (one["id"], one["source"]) == (f"e{number}", "/huts/7")
        assert one["time"] == f"2026-11-15T08:0{number}:00.000000Z"
        expected = {"type": "reading", "subject": SUBJECT, "temperature": 20.5 + number, "wind.speed": 3}
        assert one["attributes"] == expected | ({"partitionkey": "p"} if number else {})
