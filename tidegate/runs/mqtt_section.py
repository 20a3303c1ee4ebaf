"""The section ``[mqtt]`` of a TOML file: the MQTT broker that a broker is bridged to, and how topics become
publications. ``tidegate/mqtt`` does what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tidegate.errors import SettingError, shown
from tidegate.principal_names import is_principal_name
from tidegate.runs.toml_sections import KeyPosition, count, key, location, number, section, text, texts
from tidegate.runs.topic_templates import TopicTemplate, check_topic, topic_template

__all__ = ["FORMATS", "MqttAddress", "MqttSection", "RuleSection"]

#: How the payload of a message is read: by what it says of itself, or always as one of these.
FORMATS = ("auto", "json", "number", "text", "cloudevents", "senml")
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_LARGEST_16, _LARGEST_32 = 65_535, 2**32 - 1
_MANY_PRINCIPALS = "*"


class MqttAddress(NamedTuple):
    """Where the MQTT broker listens, and whether with TLS."""

    host: str
    port: int
    has_tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.has_tls else 'mqtt'}://{host}:{self.port}"


def _address(value: Any, at: KeyPosition) -> MqttAddress:
    expected = "mqtt://host:port or mqtts://host:port"
    given = text(value, at)
    if "@" in given:  # a password is in no text of an error
        raise SettingError(f"{expected}, and username and password as keys of their own", "one with both", str(at))
    try:
        found = urlsplit(given)
        port = found.port
    except ValueError:
        raise at.wrong(expected, value) from None
    rest = found.path.strip("/") or found.query or found.fragment
    if found.scheme not in _PORTS or not found.hostname or rest or port == 0:
        raise at.wrong(expected, value)
    return MqttAddress(found.hostname, port or _PORTS[found.scheme], found.scheme == "mqtts")


def _password(value: Any, at: KeyPosition) -> str:
    """A password, of which an error says no more than its type."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SettingError("text that is not empty", f"another {type(value).__name__}", str(at))
    return value


def _topic(value: Any, at: KeyPosition) -> str:
    """A topic, or the first levels of topics, that messages may be published to."""
    try:
        return check_topic(text(value, at).removesuffix("/"))
    except SettingError as wrong:
        raise SettingError(wrong.expected, wrong.got, str(at)) from None


def _template(value: Any, at: KeyPosition) -> TopicTemplate:
    try:
        return topic_template(text(value, at))
    except SettingError as wrong:
        raise SettingError(wrong.expected, wrong.got, str(at)) from None


def _client_id(value: Any, at: KeyPosition) -> str:
    found = text(value, at)
    if len(found.encode()) > _LARGEST_16:
        raise at.wrong("a client id that is not so long", value)
    return found


def _principal(value: Any, at: KeyPosition) -> str:
    if not isinstance(value, str) or not is_principal_name(value):
        raise at.wrong("the name of a principal", value)
    return value


def _principals(value: Any, at: KeyPosition) -> tuple[str, ...] | None:
    if value == _MANY_PRINCIPALS:
        return None
    return tuple(_principal(one, at.key(str(place))) for place, one in enumerate(texts(value, at)))


def _small(value: Any, at: KeyPosition) -> int:
    """A number that a field of two bytes has."""
    found = count(value, at)
    if found > _LARGEST_16:
        raise at.wrong(f"a whole number from 1 to {_LARGEST_16}", value)
    return found


def _seconds(value: Any, at: KeyPosition) -> int:
    """Whole seconds that a field of four bytes has."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST_32:
        raise at.wrong(f"a whole number from 0 to {_LARGEST_32}", value)
    return value


def _format(value: Any, at: KeyPosition) -> str:
    if value not in FORMATS:
        raise at.wrong(f"one of {', '.join(FORMATS)}", value)
    return str(value)


def _constants(value: Any, at: KeyPosition) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise at.wrong("a table of attributes", value)
    for name, one in value.items():
        if not isinstance(one, str | int | float | bool):
            raise at.key(name).wrong("text, a number, true or false", one)
    return dict(value)


@dataclass(frozen=True)
class RuleSection:
    """How the messages of some topics become publications. ``constants`` are attributes and fields that all of them
    have; ``valid_for`` is for how many seconds they are valid, 0 for those that say so themselves only.
    """

    topic: TopicTemplate = key(_template)  # noqa: RUF009  (it makes a field)
    format: str = key(_format, "auto")
    value: str = key(text, "value")
    valid_for: float = key(number, 0.0)
    constants: Mapping[str, Any] | None = key(_constants, None)


def _rules(value: Any, at: KeyPosition) -> tuple[RuleSection, ...]:
    if not isinstance(value, list):
        raise at.wrong("sections [[mqtt.rules]]", value)
    return tuple(section(RuleSection, one, at.key(str(place))) for place, one in enumerate(value))


@dataclass(frozen=True)
class MqttSection:
    """An MQTT broker: how it is reached, under which topics, what comes from it and what goes there. Times are in
    seconds.
    """

    address: MqttAddress = key(_address)  # noqa: RUF009  (it makes a field)
    username: str | None = key(text, None)
    password: str | None = field(default=None, repr=False, metadata={"kind": _password})
    password_file: str | None = key(location, None)
    password_variable: str | None = key(text, None)
    ca: str | None = key(location, None)
    certificate: str | None = key(location, None)
    private_key: str | None = key(location, None)
    client_id: str | None = key(_client_id, None)
    session_seconds: int = key(_seconds, 604_800)
    keep_alive: int = key(_small, 30)
    prefix: str = key(_topic, "tidegate")
    publications: str = key(_topic, "publications")
    notifications: str = key(_topic, "notifications")
    requests: str = key(_topic, "requests")
    responses: str = key(_topic, "responses")
    status: str = key(_topic, "status")
    principal: str = key(_principal, "mqtt")
    sources: tuple[str, ...] | None = key(texts, None)
    principals: tuple[str, ...] | None = key(_principals, None)
    receive: int = key(_small, 2000)
    send: int = key(_small, 1000)
    retained_seconds: float = key(number, 86_400.0)
    rules: tuple[RuleSection, ...] = key(_rules, ())

    def topic(self, name: str) -> str:
        """One of the topics, behind the prefix."""
        return f"{self.prefix}/{getattr(self, name)}"

    def checked(self, at: str) -> MqttSection:
        """Itself, if its keys go together; or an error."""
        given = [name for name in ("password", "password_file", "password_variable") if getattr(self, name) is not None]
        if len(given) > 1:
            raise SettingError("one of password, password_file and password_variable", " and ".join(given), at)
        if (self.certificate is None) != (self.private_key is None):
            raise SettingError("certificate and private_key, or neither", "one of them", at)
        if not self.address.has_tls and (self.ca is not None or self.certificate is not None):
            raise SettingError("an address with mqtts:// for ca and certificate", str(self.address), at)
        topics = [self.topic(name) for name in ("publications", "notifications", "requests", "responses", "status")]
        for one in topics:
            beside = [other for other in topics if other is not one and f"{other}/".startswith(f"{one}/")]
            if beside:
                raise SettingError("topics of which none is above another", f"{shown(one)} and {shown(beside[0])}", at)
        return self
