"""Items of queues become messages, in order; the cursor of a queue follows what the MQTT broker acknowledges."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.mqtt.bridged import bridged, counted, looped
from tidegate.errors import StoreError

ANN = "tidegate/notifications/ann"


async def published(world, *items):
    """Publish and run what is there."""
    for number, item in enumerate(items, 1):
        world.mqtt.send("tidegate/publications/z7", json.dumps(item).encode(), number)
    count = len(world.mqtt.acknowledged) + len(items)
    await world.mqtt.until(lambda: len(world.mqtt.acknowledged) >= count)
    await asyncio.to_thread(world.run)


def told(world, topic=ANN):
    """The numbers that were told, and the items."""
    found = [json.loads(one.payload) for one in world.mqtt.told(topic)]
    return [one["number"] for one in found], found


async def acknowledged(world, number, principal="ann"):
    """Wait until the cursor of a principal is at a number."""
    async with asyncio.timeout(20):
        while True:
            queues = world.broker.delivery.queues
            queue = None if queues is None else queues.find(principal, "mqtt")
            if queue is not None and queues.acknowledged(queue) == number:
                return
            await asyncio.sleep(0.05)


@looped
async def test_an_item_is_a_message_with_the_attributes_of_an_event_and_the_rest_of_its_validity(tmp_path):
    until = datetime.now(UTC) + timedelta(seconds=1000)
    more = {"type": "reading", "subject": "s", "traceparent": "00-aa-bb-01", "tracestate": "x=1"}
    async with bridged(tmp_path) as w:
        await w.connected()
        await w.subscribe("ann", "no2 > 40")
        time = "2026-11-15T08:00:00Z"
        await published(
            w,
            {"id": "p1", "no2": 41, "time": time, "valid_until": until.isoformat(), **more},
            {"id": "p2", "no2": 1},
            {"id": "p3", "no2": 43, "type": 5},
        )
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        first, second = w.mqtt.told(ANN)
        assert (first.qos, first.retain, first.properties["ContentType"]) == (1, False, "application/json")
        expiry = first.properties["MessageExpiryInterval"]
        assert abs(expiry - (until - datetime.now(UTC)).total_seconds()) < 30
        event = dict(first.properties["UserProperty"])
        epoch = event.pop("epoch")
        assert event == {
            "specversion": "1.0",
            "id": "p1",
            "source": "z7",
            "time": "2026-11-15T08:00:00.000000Z",
            "number": "1",
            **more,
        }
        item = json.loads(first.payload)
        assert (item["number"], item["subscriptions"], item["publication"]["id"]) == (1, ["s"], "p1")
        assert "MessageExpiryInterval" not in second.properties
        assert dict(second.properties["UserProperty"])["type"] == "tidegate.notification"
        await acknowledged(w, 2)
        assert w.broker.delivery.queues.find("ann", "mqtt").epoch == epoch
        assert counted(w.broker, "mqtt_sent") == {"notification": 2}


@looped
async def test_what_is_withdrawn_is_retracted_and_what_is_left_out_is_told(tmp_path):
    async with bridged(tmp_path, reason=None) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1"}, {"id": "p2"})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        w.broker.log.unpublish([("z7", "p1")])
        await asyncio.to_thread(w.run)
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 3)
        _, items = told(w)
        assert (items[2]["type"], items[2]["retracts"], items[2]["publication"]["id"]) == ("retracted", 1, "p1")


@looped
async def test_the_cursor_moves_with_all_that_is_acknowledged_and_no_further(tmp_path):
    async with bridged(tmp_path, reason=None) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, *({"id": f"p{n}"} for n in range(5)))
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 5)
        packets = [one.packet for one in w.mqtt.told(ANN)]
        for at in (1, 2):
            w.mqtt.acknowledge(packets[at])
        await asyncio.sleep(0.7)
        await acknowledged(w, 0)
        w.mqtt.acknowledge(packets[0])
        await acknowledged(w, 3)


@looped
async def test_what_was_on_its_way_is_sent_again_as_such_and_what_follows_behind_it(tmp_path):
    async with bridged(tmp_path, reason=None, receive_maximum=3, has_session=True) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, *({"id": f"p{n}"} for n in range(8)))
        w.mqtt.acknowledge(w.mqtt.published[0].packet)  # that of its status
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 3)
        first = w.mqtt.told(ANN)
        await asyncio.sleep(0.2)
        assert len(w.mqtt.told(ANN)) == 3  # no more than it may
        w.mqtt.published.clear()
        w.mqtt.cut()
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 3)
        again = w.mqtt.told(ANN)
        assert [one.is_repeated for one in again] == [True] * 3
        assert [(one.packet, one.payload) for one in again] == [(one.packet, one.payload) for one in first]
        w.mqtt.reason = 0
        for one in again:
            w.mqtt.acknowledge(one.packet)
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 8)
        assert told(w)[0] == list(range(1, 9))
        await acknowledged(w, 8)


@looped
async def test_a_session_that_is_gone_gets_what_was_on_its_way_as_new(tmp_path):
    async with bridged(tmp_path, reason=None) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p"})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 1)
        w.mqtt.cut()
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        assert [one.is_repeated for one in w.mqtt.told(ANN)] == [False, False]


@looped
async def test_a_principal_that_is_refused_begins_again_behind_its_cursor_and_others_do_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.mqtt.outgoing._FIRST_REST", 0.2)
    async with bridged(tmp_path, reason=None) as w:
        await w.connected()
        await w.subscribe("ann")
        await w.subscribe("bob", id="b")
        await published(w, *({"id": f"p{n}"} for n in range(3)))
        await w.mqtt.until(lambda: len(w.mqtt.told()) == 6)
        w.mqtt.reason = 0
        for one in w.mqtt.told():
            number = json.loads(one.payload)["number"]
            w.mqtt.acknowledge(one.packet, 135 if one.topic == ANN and number == 2 else 0)
        await acknowledged(w, 3, "bob")
        await acknowledged(w, 3)
        assert told(w)[0] == [1, 2, 3, 2, 3]
        assert counted(w.broker, "mqtt_refused") == {"not_authorized": 1}


@looped
async def test_what_the_mqtt_broker_would_not_take_is_told_as_skipped(tmp_path):
    async with bridged(tmp_path, largest=800) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1", "text": "x" * 2000}, {"id": "p2"})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        _, items = told(w)
        assert items[0] == {"type": "skipped", "from": 1, "number": 1, "reason": "too_large"}
        assert items[1]["publication"]["id"] == "p2"
        await acknowledged(w, 2)


@looped
async def test_what_the_mqtt_broker_refuses_for_its_size_is_told_as_skipped_at_once(tmp_path):
    async with bridged(tmp_path, reason=None) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1"}, {"id": "p2"}, {"id": "p3"})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 3)
        first, second, third = w.mqtt.told(ANN)
        w.mqtt.reason = 0
        for one, reason in ((first, 0), (second, 149), (third, 149)):
            w.mqtt.acknowledge(one.packet, reason)
        await acknowledged(w, 3)
        _, items = told(w)
        skipped = [{"type": "skipped", "from": number, "number": number, "reason": "too_large"} for number in (2, 3)]
        assert items[3:] == skipped
        assert counted(w.broker, "mqtt_refused") == {"packet_too_large": 2}


@looped
async def test_what_was_on_its_way_and_is_too_large_for_the_next_connection_is_told_as_skipped(tmp_path):
    async with bridged(tmp_path, reason=None, has_session=True) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1", "text": "x" * 2000})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 1)
        w.mqtt.largest, w.mqtt.reason = 800, 0
        w.mqtt.cut()
        await acknowledged(w, 1)
        assert [item["type"] for item in told(w)[1]] == ["notification", "skipped"]


@looped
async def test_after_a_while_without_a_connection_what_was_on_its_way_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.mqtt.outgoing._SOON", 0.0)
    async with bridged(tmp_path, reason=None, has_session=True) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1", "n": 1}, {"id": "p2", "n": 2})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        w.broker.principals.put("ann", read="n = 2")
        w.mqtt.published.clear()
        w.mqtt.cut()
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        assert [(item["type"], item.get("reason")) for item in told(w)[1]] == [
            ("skipped", "unreadable"),
            ("notification", None),
        ]


@looped
async def test_what_waits_is_read_again_once_its_principal_may_read_something_else(tmp_path):
    async with bridged(tmp_path, reason=None, receive_maximum=2) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, *({"id": f"p{n}", "n": n} for n in range(4)))  # its status is on the way as well
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 1)
        [channel] = w.bridge._channels.values()
        w.broker.principals.put("ann", read="n = 3")
        async with asyncio.timeout(20):
            while not channel.is_ended:
                await asyncio.sleep(0.02)
        w.mqtt.reason = 0
        for one in w.mqtt.published:
            w.mqtt.acknowledge(one.packet)
        await acknowledged(w, 4)
        shown = [item["publication"]["id"] for item in told(w)[1] if item["type"] == "notification"]
        assert shown == ["p0", "p3"]


@looped
async def test_an_item_that_cannot_be_sent_is_tried_again_and_keeps_nobody_else_from_theirs(tmp_path, monkeypatch):
    from tidegate.mqtt import outgoing

    monkeypatch.setattr(outgoing, "_FIRST_REST", 0.1)
    failures, message_of = iter([True]), outgoing.message_of
    monkeypatch.setattr(outgoing, "message_of", lambda *given: 1 / 0 if next(failures, False) else message_of(*given))
    async with bridged(tmp_path) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1"}, {"id": "p2"})
        await acknowledged(w, 2)
        assert told(w)[0] == [1, 2]


@looped
async def test_queues_that_cannot_all_be_connected_leave_no_connection_behind(tmp_path, monkeypatch):
    async with bridged(tmp_path, refuses_login=136) as w:
        await w.subscribe("ann")
        await w.subscribe("bob", id="b")
        _, sessions = await w.broker.delivery.opened()
        acknowledged, fails = sessions.acknowledged, iter([False, True])

        def broken(queue):
            if next(fails, False):
                raise StoreError("cursors", "none")
            return acknowledged(queue)

        monkeypatch.setattr(sessions, "acknowledged", broken)
        channels = [w.bridge._outgoing.channel(name) for name in ("ann", "bob")]
        with pytest.raises(StoreError):
            await w.broker.delivery.attach(channels, "mqtt")
        assert next(fails, "all were asked for") == "all were asked for"
        assert len(sessions._connections) == w.broker.delivery.connections == 0


@looped
async def test_answers_are_for_the_connection_that_asked_and_for_an_mqtt_broker_that_takes_them(tmp_path):
    async with bridged(tmp_path, reason=None, has_session=True, largest=300) as w:
        await w.connected()
        w.bridge._outgoing.publish("tidegate/responses/a", b"x" * 500, {})
        w.bridge._outgoing.publish("tidegate/responses/b", b"small", {})
        await w.mqtt.until(w.mqtt.told)
        w.mqtt.published.clear()
        w.mqtt.cut()
        await w.connected()
        assert w.mqtt.told() == []
        assert [one.payload for one in w.mqtt.published] == [b"online"]
        assert counted(w.broker, "mqtt_dropped") == {"answer": 1}


@looped
async def test_principals_that_the_section_does_not_name_are_not_told(tmp_path):
    async with bridged(tmp_path, 'principals = ["bob"]') as w:
        await w.connected()
        await w.subscribe("ann")
        await w.subscribe("bob", id="b")
        await published(w, {"id": "p1"})
        await w.mqtt.until(w.mqtt.told)
        await asyncio.sleep(0.3)
        assert [one.topic for one in w.mqtt.told()] == ["tidegate/notifications/bob"]


@looped
async def test_a_session_that_ends_is_told_nothing_more_and_one_that_begins_anew_begins_with_one(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        await w.subscribe("ann")
        await published(w, {"id": "p1"})
        await acknowledged(w, 1)
        w.broker.registry.unregister("ann")
        await asyncio.to_thread(w.run)
        await w.subscribe("ann", id="again")
        await published(w, {"id": "p2"})
        await w.mqtt.until(lambda: len(w.mqtt.told(ANN)) == 2)
        assert told(w)[0] == [1, 1]
        epochs = {dict(one.properties["UserProperty"])["epoch"] for one in w.mqtt.told(ANN)}
        assert len(epochs) == 2


@looped
async def test_the_status_says_whether_the_bridge_is_there(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        [online] = [one for one in w.mqtt.published if one.topic == "tidegate/status"]
        assert (online.payload, online.retain, online.qos) == (b"online", True, 1)
        w.bridge.stop()
        await w.mqtt.until(lambda: w.mqtt.disconnected)
        assert w.mqtt.disconnected == [4]  # which has the MQTT broker publish the will
        assert b"\x00\x0ftidegate/status\x00\x07offline" in w.mqtt.logins[0]["rest"]


@looped
async def test_a_bridge_that_is_not_let_in_says_why_and_tries_again(tmp_path):
    async with bridged(tmp_path, refuses_login=134) as w:
        await w.mqtt.until(lambda: len(w.mqtt.logins) == 2)
        assert not w.bridge.is_connected
        assert "reason 134" in w.bridge._problem
        w.mqtt.refuses_login = 0
        await w.connected()
        assert w.bridge.is_connected
        assert counted(w.broker, "mqtt_connections")["failed"] >= 2


@looped
async def test_an_mqtt_broker_that_says_nothing_is_given_up(tmp_path):
    async with bridged(tmp_path, "keep_alive = 1") as w:
        await w.connected()
        await w.mqtt.until(lambda: w.mqtt.pings)  # while it answers, it is asked
        assert len(w.mqtt.logins) == 1
        w.mqtt._take = lambda first, body, writer: None
        async with asyncio.timeout(20):
            while w.bridge.is_connected:
                await asyncio.sleep(0.05)
        assert "said nothing" in w.bridge._problem


@pytest.mark.parametrize("count", [600])
def test_very_many_items_of_several_principals_come_each_once_and_in_order(tmp_path, count):
    @looped
    async def work():
        async with bridged(tmp_path, receive_maximum=20) as w:
            await w.connected()
            for name in ("ann", "bob", "cid"):
                await w.subscribe(name)
            await published(w, *({"id": f"p{n}"} for n in range(count)))
            await w.mqtt.until(lambda: len(w.mqtt.told()) == 3 * count)
            for name in ("ann", "bob", "cid"):
                assert told(w, f"tidegate/notifications/{name}")[0] == list(range(1, count + 1))
                await acknowledged(w, count, name)

    work()
