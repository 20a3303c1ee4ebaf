"""Requests over MQTT: messages with a response topic, answered as a WebSocket answers: subscribe, unsubscribe, ping.

Whoever asks brings a token of Tidegate, since users of the MQTT broker are not its principals: as the member ``token``
or as a user property of that name. The topic names its principal, so that an MQTT broker can say who may ask for whom.
Answers go only to topics under that of responses: nobody makes the bridge publish elsewhere. Without a token that holds
they repeat nothing of the request but its correlation data. A request is acknowledged once it is in line: whatever is
published does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson
from msgspec import UNSET, to_builtins

from tidegate.errors import TidegateError, shown
from tidegate.gateway.access import nobody
from tidegate.gateway.audit import is_refused_access
from tidegate.gateway.caller import Caller
from tidegate.gateway.problems import RequestError, problem
from tidegate.gateway.subscribing import subscribe, unsubscribe
from tidegate.gateway.websocket_messages import Ping, Subscribe, Unsubscribe, reference_of
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Message, Reason
from tidegate.mqtt.wire_fields import is_plain
from tidegate.runs.mqtt_section import MqttSection

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker

__all__ = ["Requests"]

_LOG = logging.getLogger("tidegate.mqtt")
_TOKEN = "token"
#: Where requests come from, to the audit and to the bound of wrong tokens: all of them from one place.
_ADDRESS = "mqtt"
#: Requests that are answered at a time, that wait for that, and bytes that one may have.
_AT_ONCE, _MOST_WAITING, _LARGEST = 16, 250, 64 << 10
#: Bytes and levels of a response topic: MQTT brokers close the connection over too many, such as Mosquitto over 200.
_LONGEST_TOPIC, _MOST_LEVELS = 1024, 64
_KINDS = Subscribe | Unsubscribe | Ping
Answer = dict[str, Any]
#: Publishes an answer: topic, payload, properties.
Send = Callable[[str, bytes, dict[int, Any]], None]


class _Request(NamedTuple):
    """What there is to keep of a message: for which principal, the payload (None if it is too large), the token if that
    is not in there, and where the answer goes.
    """

    principal: str
    payload: bytes | None
    token: str | None
    response: str
    correlation: bytes | None


class Requests:
    """Answers requests in the event loop of the bridge; ``send`` publishes."""

    def __init__(self, broker: OpenBroker, section: MqttSection, send: Send) -> None:
        self._broker, self._send = broker, send
        self._topics, self._responses = f"{section.topic('requests')}/", f"{section.topic('responses')}/"
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._answering = set[asyncio.Task[None]]()

    def takes(self, topic: str) -> bool:
        """Whether messages of a topic are requests."""
        return topic.startswith(self._topics)

    def take(self, message: Message) -> int:
        """Have a request answered; the reason with which its message is acknowledged."""
        response = message.properties.get(Property.RESPONSE_TOPIC, "")
        if not self._may_answer_to(response):
            self._broker.counts.add("mqtt_requests", "response_topic")
            return Reason.NOT_AUTHORIZED
        if len(self._answering) >= _MOST_WAITING:
            self._broker.counts.add("mqtt_requests", "busy")
            return Reason.QUOTA_EXCEEDED
        is_small = message.is_whole and len(message.payload) <= _LARGEST
        given = [value for name, value in message.properties.get(Property.USER, ()) if name == _TOKEN]
        request = _Request(
            message.topic.removeprefix(self._topics),
            message.payload if is_small else None,
            given[0] if given else None,
            response,
            message.properties.get(Property.CORRELATION_DATA),
        )
        task = asyncio.create_task(self._answer(request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return Reason.SUCCESS

    def _may_answer_to(self, topic: str) -> bool:
        is_short = len(topic) <= _LONGEST_TOPIC and topic.count("/") < _MOST_LEVELS
        return is_short and topic.startswith(self._responses) and not set(topic) & set("+#") and is_plain(topic)

    async def _answer(self, request: _Request) -> None:
        properties: dict[int, Any] = {Property.PAYLOAD_IS_TEXT: 1, Property.CONTENT_TYPE: "application/json"}
        if request.correlation is not None:
            properties[Property.CORRELATION_DATA] = request.correlation
        try:
            async with self._turns:
                said = await self._answered(request)
            self._send(request.response, orjson.dumps(said), properties)
        except Exception:
            _LOG.exception("a request failed")

    async def _answered(self, request: _Request) -> Answer:
        caller, counts, ref = None, self._broker.counts, Answer()
        try:
            body = self._body(request.payload)
            caller = await self._broker.access.caller(self._secret(request, body), _ADDRESS)
            if (given := reference_of(request.payload or b"")) is not UNSET:
                ref["ref"] = given
            if caller.name != request.principal:
                expected = f"a token of {shown(request.principal)}, whose topic this is"
                raise RequestError(403, "forbidden", expected, "another's")
            self._check_rate(caller)
            said = await self._done(caller, self._request(body))
            counts.add("mqtt_requests", "accepted")
            return {"type": "accepted", **said, **ref}
        except TidegateError as error:
            counts.add("mqtt_requests", error.code)
            if caller is not None and is_refused_access(error):
                who = {"principal": caller.name, "token": caller.token}
                self._broker.access.audit.refused("request over MQTT", str(error), address=_ADDRESS, **who)
            refused = problem(error)
            del refused["type"]
            return {"type": "error", **refused, **ref}

    @staticmethod
    def _body(payload: bytes | None) -> Answer:
        if payload is None:
            raise RequestError(413, "too_large", f"a request of at most {_LARGEST:,} bytes", "one that is too large")
        try:
            body = orjson.loads(payload)
        except orjson.JSONDecodeError as wrong:
            raise RequestError(400, "json", "JSON", wrong.msg) from None
        if not isinstance(body, dict):
            raise RequestError(422, "message", "an object", shown(type(body).__name__))
        return body

    @staticmethod
    def _secret(request: _Request, body: Answer) -> str:
        secret = body.pop(_TOKEN, request.token)
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
