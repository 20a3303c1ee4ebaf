"""Requests over MQTT are answered as over a WebSocket, to whoever brings a token, and on topics of answers only."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.mqtt.bridged import bridged, counted, looped
from tests.mqtt.fake_mqtt_broker import properties

REPLY = "tidegate/responses/mine"
LEVELS = f"tidegate/responses{'/a' * 100}"


class Asking:
    """Sends requests and waits for their answers."""

    def __init__(self, world):
        self.world, self.count = world, 0

    async def __call__(self, body, principal="ann", response=REPLY, **more):
        self.count += 1
        before = len(self.world.mqtt.told(response))
        packed = properties(ResponseTopic=response, CorrelationData=b"%d" % self.count, **more)
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.world.mqtt.send(f"tidegate/requests/{principal}", payload, self.count, packed)
        await self.world.mqtt.until(lambda: len(self.world.mqtt.told(response)) > before)
        answer = self.world.mqtt.told(response)[-1]
        assert answer.properties["CorrelationData"] == (b"%d" % self.count).hex()
        await self.world.mqtt.until(lambda: len(self.world.mqtt.acknowledged) == self.count)
        return json.loads(answer.payload)


def secret(world, name="ann", *roles):
    return world.broker.principals.make_token(name, roles or ["subscriber"]).secret


@looped
async def test_a_subscription_is_made_and_ended_and_goes_out_over_mqtt(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        ask, token = Asking(w), secret(w)
        said = await ask({"type": "subscribe", "id": "warm", "where": "t > 20", "token": token, "ref": 7})
        assert (said["type"], said["created"], said["deliver"], said["ref"]) == ("accepted", True, "mqtt", 7)
        [stored] = w.broker.registry.page("ann", 0, 10)
        assert stored.destination == "mqtt"
        same = await ask({"type": "subscribe", "id": "warm", "where": "t > 20"}, UserProperty=[("token", token)])
        assert (same["type"], same["created"]) == ("accepted", False)
        other = {"type": "subscribe", "id": "read", "where": "t > 20", "deliver": "stream", "token": token}
        assert (await ask(other))["deliver"] == "stream"
        assert await ask({"type": "ping", "token": token}) == {"type": "accepted"}
        assert await ask({"type": "unsubscribe", "id": "warm", "token": token}) == {"type": "accepted"}
        assert [one.id for one in w.broker.registry.page("ann", 0, 10)] == ["read"]
        assert counted(w.broker, "mqtt_requests") == {"accepted": 5}


@looped
async def test_what_is_refused_is_answered_with_a_problem(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        ask, token, publisher = Asking(w), secret(w), secret(w, "pub", "publisher")
        good = {"type": "subscribe", "id": "s", "where": "t > 20"}
        for body, principal, status, code in (
            (good, "ann", 401, "unauthorized"),
            ({**good, "token": "no-token-that-there-is"}, "ann", 401, "unauthorized"),
            ({**good, "token": token}, "bob", 403, "forbidden"),
            ({**good, "token": publisher}, "pub", 403, "forbidden"),
            ({**good, "token": token, "where": "t >"}, "ann", 422, "parse"),
            ({**good, "token": token, "more": 1}, "ann", 422, "message"),
            ({"type": "publish", "publication": {}, "token": token}, "ann", 422, "message"),
            ({"type": "unsubscribe", "id": "none", "token": token}, "ann", 404, "unknown"),
            (b"{", "ann", 400, "json"),
            (b"[]", "ann", 422, "message"),
        ):
            said = await ask(body, principal)
            assert (said["type"], said["status"], said["code"]) == ("error", status, code), body
            assert token not in json.dumps(said)
        assert [reason for _, reason in w.mqtt.acknowledged] == [0] * 10
        assert w.broker.registry.page("ann", 0, 10) == []


@looped
async def test_who_brings_many_wrong_tokens_has_to_wait_and_who_has_one_does_not(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        ask, token = Asking(w), secret(w)
        assert (await ask({"type": "ping", "token": token}))["type"] == "accepted"
        codes = [(await ask({"type": "ping", "token": f"chosen-by-somebody-{n}"}))["code"] for n in range(40)]
        assert set(codes) == {"unauthorized", "rate"}
        assert (await ask({"type": "ping", "token": token}))["type"] == "accepted"


@pytest.mark.parametrize("topic", ["tidegate/publications/z7", "elsewhere", "tidegate/responses/+", LEVELS, "", None])
def test_nobody_makes_the_bridge_publish_elsewhere(tmp_path, topic):
    @looped
    async def work():
        async with bridged(tmp_path) as w:
            await w.connected()
            body = json.dumps({"type": "ping", "token": secret(w)}).encode()
            more = b"\0" if topic is None else properties(ResponseTopic=topic)
            w.mqtt.send("tidegate/requests/ann", body, 1, more)
            await w.mqtt.until(lambda: w.mqtt.acknowledged)
            assert w.mqtt.acknowledged == [(1, 135)]
            assert w.mqtt.told() == []
            assert counted(w.broker, "mqtt_requests") == {"response_topic": 1}

    work()


@looped
async def test_only_a_short_reference_of_who_has_a_token_is_repeated(tmp_path):
    async with bridged(tmp_path) as w:
        await w.connected()
        ask, token = Asking(w), secret(w)
        for body, ref in (
            ({"token": token, "ref": 7}, 7),
            ({"token": token, "ref": "x" * 257}, None),
            ({"token": "no-token-that-there-is", "ref": 7}, None),
        ):
            said = await ask({"type": "ping", **body})
            assert said.get("ref") == ref


@looped
async def test_a_request_that_is_large_is_refused_and_one_that_takes_long_holds_nothing_back(tmp_path, monkeypatch):
    async with bridged(tmp_path) as w:
        await w.connected()
        ask, token = Asking(w), secret(w)
        said = await ask({"type": "ping", "token": token, "more": "x" * (64 << 10)})
        assert (said["status"], said["code"]) == (413, "too_large")
        may_go_on, done = asyncio.Event(), w.bridge._requests._answered

        async def slow(request):
            await may_go_on.wait()
            return await done(request)

        monkeypatch.setattr(w.bridge._requests, "_answered", slow)
        body = json.dumps({"type": "ping", "token": token}).encode()
        w.mqtt.send("tidegate/requests/ann", body, 2, properties(ResponseTopic=REPLY))
        w.mqtt.send("tidegate/publications/z7", b'{"n": 1}', 3)
        await w.mqtt.until(lambda: w.mqtt.acknowledged[1:] == [(2, 0), (3, 0)])
        may_go_on.set()
        await w.mqtt.until(lambda: len(w.mqtt.told(REPLY)) == 2)


@looped
async def test_a_request_that_comes_twice_since_a_rule_matches_it_too_is_answered_once(tmp_path):
    async with bridged(tmp_path, '[[mqtt.rules]]\ntopic = "#"') as w:
        await w.connected()
        body = json.dumps({"type": "ping", "token": secret(w)}).encode()
        for number, topic_filter in enumerate(("#", "tidegate/requests/+"), 1):
            id = w.mqtt.ids(topic_filter)[-1]
            more = properties(ResponseTopic=REPLY, SubscriptionIdentifier=id)
            w.mqtt.send("tidegate/requests/ann", body, number, more)
        await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == 2 and w.mqtt.told(REPLY))
        assert counted(w.broker, "mqtt_requests") == {"accepted": 1}
