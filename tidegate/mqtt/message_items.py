"""What a message says: from its topic, payload and properties to items as ``Submission`` takes them, or a refusal.

The rules of ``[mqtt]`` and the topic of publications say how. A topic says as what source somebody may publish, since
brokers of MQTT allow by topic: a payload that names another source is refused. Knows no connection and no log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from tidegate.errors import shown
from tidegate.gateway.given_publications import Unreadable
from tidegate.model import moment
from tidegate.mqtt.message_refusals import MessageRefused
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.packets import Message
from tidegate.mqtt.payload_formats import PayloadFormat, Read, auto_of, format_named
from tidegate.mqtt.session_subscriptions import SessionSubscriptions
from tidegate.records.json_values import stamp
from tidegate.runs.mqtt_section import MqttSection, RuleSection

__all__ = ["MessageItems", "MessageRead"]

Item = dict[str, Any]
_SECOND = 1_000_000
#: Seconds that a publication may be valid at most: what an expiry says beyond that is cut off.
_LONGEST = 30 * 86_400 - 60


class MessageRead(NamedTuple):
    """The items that a message is; none if it came by another subscription than that of the rule that counts, and so
    comes once more. Of one that may come again an identity was made, so ``is_state``: what is known of
    it by then is no other publication. ``proves`` is the topic filter of which it is the first own message, if any.
    """

    items: list[Any]
    is_state: bool = False
    proves: str = ""


class _Rule(NamedTuple):
    section: RuleSection
    read: PayloadFormat | None
    constants: Mapping[str, Any]


class MessageItems:
    """Reads messages by the rules of a section. ``most_bytes`` and ``most_items`` are those of one message."""

    def __init__(
        self,
        section: MqttSection,
        subscriptions: SessionSubscriptions,
        most_bytes: int,
        most_items: int,
        clock: Callable[[], int],
    ) -> None:
        self._section, self._most_bytes, self._most_items, self._clock = section, most_bytes, most_items, clock
        self._subscriptions = subscriptions
        self._publications = section.topic("publications") + "/"
        own = ("notifications", "responses", "status", "requests")
        self._own = tuple(f"{section.topic(name)}/" for name in own)
        self._rules = [_Rule(one, format_named(one.format), one.constants or {}) for one in section.rules]

    def read(self, message: Message) -> MessageRead:
        """The items that a message is, one or more; or ``MessageRefused``."""
        topic = message.topic
        if not message.is_whole or len(message.payload) > self._most_bytes:
            raise MessageRefused("too_large", f"a payload of at most {self._most_bytes:,} bytes", "a larger one")
        ids = message.properties.get(Property.SUBSCRIPTION_ID)
        is_plain = len(message.properties) == (0 if ids is None else 1)
        if topic.startswith(self._publications):
            topic_filter, valid_for = self._subscriptions.publications, 0.0
            found = self._published(message, topic[len(self._publications) :], is_plain)
        else:
            topic_filter, found, valid_for = self._ruled(message)
        if self._subscriptions.is_copy(topic_filter, ids):
            return MessageRead([])
        read = MessageRead(found, proves=self._subscriptions.proof(topic_filter, ids))
        if is_plain and not message.retain and not valid_for:
            return read
        is_stored = ids is not None and self._subscriptions.stored_id(topic_filter) in ids
        return read._replace(is_state=self._state(message, found, valid_for, is_stored))

    def _published(self, message: Message, source: str, is_plain: bool) -> list[Any]:
        if not source:
            raise MessageRefused("topic", f"{self._publications}SOURCE", shown(message.topic))
        if is_plain and message.payload[:1] == b"{":  # nearly always
            try:
                found: Item = orjson.loads(message.payload)
            except orjson.JSONDecodeError as wrong:
                raise MessageRefused("json", "JSON", wrong.msg) from None
            own = found.get("source")
            if own is None:
                found["source"] = source
            elif own != source:
                raise _other_source(source, own)
            return [found]
        read = auto_of(message)(message, "value", self._clock())
        return self._of(source, read, {})

    def _ruled(self, message: Message) -> tuple[str, list[Any], float]:
        """The topic filter of the first rule that matches, the items, and for how long they are valid."""
        topic = message.topic
        if not f"{topic}/".startswith(self._own):
            for rule in self._rules:
                named = rule.section.topic.named(topic)
                if named is not None:
                    read = (rule.read or auto_of(message))(message, rule.section.value, self._clock())
                    more = {**rule.constants, **named}
                    found = self._of(more.pop("source", None), read, more, topic)
                    return rule.section.topic.topic_filter, found, rule.section.valid_for
        raise MessageRefused("topic", "a topic of a rule", shown(topic))

    def _of(self, source: Any, read: Read, more: Mapping[str, Any], otherwise: str = "") -> list[Any]:
        """The items that a payload says, with what its topic says."""
        if len(read.items) > self._most_items:
            raise MessageRefused("too_large", f"at most {self._most_items:,} publications", f"{len(read.items):,}")
        found = list[Any]()
        for item in read.items:
            if type(item) is Unreadable:
                found.append(item)
                continue
            if type(item) is not dict:
                raise MessageRefused("payload", "an object", shown(item))
            own = item.get("source")
            if source is None:
                item["source"] = own or read.source or otherwise
            elif own is None or own == source:
                item["source"] = source
            else:
                found.append(Unreadable("source", str(_other_source(source, own))))
                continue
            for name, value in more.items():
                if item.setdefault(name, value) != value:
                    got = shown(item[name])
                    raise MessageRefused("payload", f"{value!r} as {name}, as the topic or a rule says", got)
            found.append(item)
        return found

    def _state(self, message: Message, items: list[Any], valid_for: float, is_stored: bool) -> bool:
        """Give the items the end of their validity; those of a message that was stored an identity that follows from
        it. Whether there is such an end.
        """
        expiry = message.properties.get(Property.MESSAGE_EXPIRY)
        seconds = valid_for if expiry is None else expiry
        if expiry is None and message.retain and not valid_for:
            seconds = self._section.retained_seconds
        until = None
        if seconds:
            until = stamp(moment(self._clock() + round(min(seconds, _LONGEST) * _SECOND)))
        is_stored = is_stored and message.retain
        digest = _digest(message) if is_stored else ""
        for place, item in enumerate(items):
            if type(item) is not dict:
                continue
            if until is not None and item.get("valid_until") is None:
                item["valid_until"] = until
            if is_stored and item.get("id") is None:
                item["id"] = f"retained-{digest}-{place}"
        return until is not None


def _digest(message: Message) -> str:
    """What tells a stored message from others: its topic and all it says."""
    properties = message.properties
    said = [properties.get(Property.CONTENT_TYPE), properties.get(Property.USER)]
    found = blake2b(orjson.dumps([message.topic, said]), digest_size=12)
    found.update(message.payload)
    return found.hexdigest()


def _other_source(source: str, got: Any) -> MessageRefused:
    return MessageRefused("source", f"the source {shown(source)}, as the topic says", shown(got))
