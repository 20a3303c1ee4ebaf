"""Requests over MQTT: messages with a response topic, answered as a WebSocket answers: subscribe, unsubscribe, ping.

Whoever asks brings a token of Tidegate, since users of the MQTT broker are not its principals: as the member ``token``
or as a user property of that name. The topic names its principal, so that an MQTT broker can say who may ask for whom.
Answers go only to topics under that of responses: nobody makes the bridge publish elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec import UNSET, to_builtins

from tidegate.errors import TidegateError, shown
from tidegate.gateway.access import nobody
from tidegate.gateway.audit import is_refused_access
from tidegate.gateway.caller import Caller
from tidegate.gateway.problems import RequestError, problem
from tidegate.gateway.subscribing import subscribe, unsubscribe
from tidegate.gateway.websocket_messages import Ping, Subscribe, Unsubscribe
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Message, Reason
from tidegate.runs.mqtt_section import MqttSection

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["Requests"]

_TOKEN = "token"
#: Where requests come from, to the audit and to the bound of wrong tokens: all of them from one place.
_ADDRESS = "mqtt"
#: Requests that are answered at a time, and that wait for that.
_AT_ONCE, _MOST_WAITING = 16, 1000
_KINDS = Subscribe | Unsubscribe | Ping
Answer = dict[str, Any]
#: Publishes an answer: topic, payload, properties.
Send = Callable[[str, bytes, dict[int, Any]], None]


class Requests:
    """Answers requests in the event loop of the bridge; ``send`` publishes."""

    def __init__(self, broker: OpenBroker, section: MqttSection, send: Send) -> None:
        self._broker, self._send = broker, send
        self._topics, self._responses = f"{section.topic('requests')}/", f"{section.topic('responses')}/"
        self.topic_filter = f"{self._topics}+"
        self._turns, self._waiting = asyncio.Semaphore(_AT_ONCE), 0

    def takes(self, topic: str) -> bool:
        """Whether messages of a topic are requests."""
        return topic.startswith(self._topics)

    async def answer(self, message: Message) -> int:
        """Answer a request; the reason with which its message is acknowledged."""
        response = message.properties.get(Property.RESPONSE_TOPIC, "")
        if not response.startswith(self._responses) or set(response) & set("+#"):
            self._broker.counts.add("mqtt_requests", "response_topic")
            return Reason.NOT_AUTHORIZED
        if self._waiting >= _MOST_WAITING:
            self._broker.counts.add("mqtt_requests", "busy")
            return Reason.QUOTA_EXCEEDED
        self._waiting += 1
        try:
            async with self._turns:
                said = await self._answered(message)
        finally:
            self._waiting -= 1
        properties: dict[int, Any] = {Property.PAYLOAD_IS_TEXT: 1, Property.CONTENT_TYPE: "application/json"}
        if (correlation := message.properties.get(Property.CORRELATION_DATA)) is not None:
            properties[Property.CORRELATION_DATA] = correlation
        self._send(response, orjson.dumps(said), properties)
        return Reason.SUCCESS

    async def _answered(self, message: Message) -> Answer:
        caller, body, counts = None, dict[str, Any](), self._broker.counts
        try:
            body = self._body(message)
            secret = self._secret(message, body)
            caller = await self._broker.access.caller(secret, _ADDRESS)
            name = message.topic.removeprefix(self._topics)
            if caller.name != name:
                raise RequestError(403, "forbidden", f"a token of {shown(name)}, whose topic this is", "another's")
            self._check_rate(caller)
            said = await self._done(caller, self._request(body))
            counts.add("mqtt_requests", "accepted")
            return _with_reference({"type": "accepted", **said}, body)
        except TidegateError as error:
            counts.add("mqtt_requests", error.code)
            if caller is not None and is_refused_access(error):
                who = {"principal": caller.name, "token": caller.token}
                self._broker.access.audit.refused("request over MQTT", str(error), address=_ADDRESS, **who)
            refused = problem(error)
            del refused["type"]
            return _with_reference({"type": "error", **refused}, body)

    def _body(self, message: Message) -> Answer:
        if not message.is_whole:
            raise RequestError(413, "too_large", "a smaller request", "one that is too large")
        try:
            body = orjson.loads(message.payload)
        except orjson.JSONDecodeError as wrong:
            raise RequestError(400, "json", "JSON", wrong.msg) from None
        if not isinstance(body, dict):
            raise RequestError(422, "message", "an object", shown(type(body).__name__))
        return body

    @staticmethod
    def _secret(message: Message, body: Answer) -> str:
        given = [value for name, value in message.properties.get(Property.USER, ()) if name == _TOKEN]
        secret = body.pop(_TOKEN, given[0] if given else None)
        if not isinstance(secret, str) or not secret:
            raise nobody("none, neither as member token nor as user property")
        return secret

    @staticmethod
    def _request(body: Answer) -> _KINDS:
        if body.get("type") == "subscribe":
            body.setdefault("deliver", "mqtt")
        try:
            found: Subscribe | Unsubscribe | Ping = msgspec.convert(body, type=_KINDS)
        except msgspec.ValidationError as wrong:
            expected = "subscribe, unsubscribe or ping, as over a WebSocket"
            raise RequestError(422, "message", expected, str(wrong)) from None
        return found

    def _check_rate(self, caller: Caller) -> None:
        rate = self._broker.limits.requests_per_second
        if rate and self._broker.rates.take(f"requests of {caller.name}", rate) > 0:
            raise RequestError(429, "rate", f"at most {rate:,g} requests a second", "more")

    async def _done(self, caller: Caller, request: Subscribe | Unsubscribe | Ping) -> Answer:
        match request:
            case Subscribe(id=id, if_match=if_match):
                caller.expect("subscriber")
                found = await subscribe(self._broker, caller, id, request, if_match)
                return {"created": found.created, **to_builtins(found.subscription)}
            case Unsubscribe(id=id):
                caller.expect("subscriber")
                await unsubscribe(self._broker, caller, id)
        return {}


def _with_reference(answer: Answer, body: Answer) -> Answer:
    ref = body.get("ref", UNSET)
    return {**answer, "ref": ref} if isinstance(ref, str | int) or ref is None else answer
