"""Messages as bytes and back (``encode``, ``decode``), and whether an object is a message at all (``checked``).

A message is one JSON object with a version and a kind: ``{"v":1,"kind":"revoke","source":"z7"}``. Bytes or an object
that are no message raise ``MessageError``. Knows nothing of nodes, links or sockets.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan
from typing import Any, cast
from weakref import ref

import orjson

from tidegate.errors import MessageError, TidegateError
from tidegate.language import DEFAULT_LIMITS
from tidegate.language.json_errors import got
from tidegate.model import NAME_LENGTH, Publication, micros
from tidegate.overlay.message_rules import (
    LARGEST,
    BoundRule,
    EachRule,
    KindsRule,
    ManyRule,
    NumberRule,
    ObjectRule,
    Rule,
    TextRule,
    WholeRule,
    encodable,
)
from tidegate.overlay.messages import (
    Announce,
    Deliver,
    Interest,
    Message,
    Publish,
    Reading,
    Refuse,
    Revoke,
    Subscribe,
    Sync,
    Unsubscribe,
)
from tidegate.overlay.operators import Operator, OperatorPart
from tidegate.records import publication, stored_bodies

__all__ = ["MOST_BYTES", "SYNC_TIMES", "VERSION", "checked", "decode", "encode", "size"]

VERSION = 1
#: Bytes of one message, unless told otherwise.
MOST_BYTES = 1_048_576
#: A ``Sync`` has all that one side of a link knows, so it may be so many times as long.
SYNC_TIMES = 64


class _Published(Rule):
    """A publication, whose values the model has checked. In JSON it is whole, in the form that a history keeps."""

    _FIELDS = ("id", "source", "time", "phase", "start", "end", "location", "valid_until", "attributes")
    _GAPS = (({"gap": "NaN"}, nan), ({"gap": "Infinity"}, inf), ({"gap": "-Infinity"}, -inf))

    def check(self, value: Any) -> None:
        if type(value) is not Publication:
            raise MessageError("an object of class Publication", got(value))
        for name in value.attributes:
            encodable(name)

    def read(self, json: Any) -> Publication:
        if type(json) is not dict:
            raise MessageError("an object", got(json))
        for name in json:
            if name not in self._FIELDS:
                raise MessageError(f"no field but {', '.join(self._FIELDS)}", got(name))
        attributes = json.get("attributes")
        if type(attributes) is dict:
            attributes = {name: self._with_gaps(value) for name, value in attributes.items()}
        try:
            return publication({**json, "attributes": attributes}, "")
        except TidegateError as wrong:
            raise MessageError(wrong.expected, wrong.got, wrong.at and f": {wrong.at}") from None

    def write(self, value: Any) -> orjson.Fragment:
        return orjson.Fragment(stored_bodies.of_publications([value], whole=True)[0])

    def _with_gaps(self, value: Any) -> Any:
        """A list with its gaps (NaN and infinities) put back, which JSON has as objects ``{"gap": …}``."""
        if type(value) is not list:
            return value
        return [next((gap for word, gap in self._GAPS if item == word), item) for item in value]


# --- what messages hold ---------------------------------------------------------------------------------------------

_EARLIEST, _LATEST = (micros(edge.replace(tzinfo=UTC)) for edge in (datetime.min, datetime.max))
_PARTS, _DAYS = DEFAULT_LIMITS.filters, DEFAULT_LIMITS.window // 86_400

_name = TextRule(NAME_LENGTH)
#: An id, and what tells apart events of the same id (``overlay/journal.py``).
_key = TextRule(2 * NAME_LENGTH + 64)
#: What is split off an operator is called ``id[label,label]``, with the corners of regions in the labels.
_operator_name = TextRule((NAME_LENGTH + 128) * (_PARTS + 1))
_text = TextRule(DEFAULT_LIMITS.text_length)
_time = WholeRule("microseconds within the years 0001 to 9999", _EARLIEST, _LATEST)
_location = EachRule(
    "a point (lon, lat)", NumberRule("lon in [-180, 180]", -180.0, 180.0), NumberRule("lat in [-90, 90]", -90.0, 90.0)
)
_region = EachRule("west, south, east and north", BoundRule(-inf), BoundRule(-inf), BoundRule(inf), BoundRule(inf))
_part = ObjectRule(
    OperatorPart, attribute=_name, low=BoundRule(-inf), high=BoundRule(inf), source=_name, region=_region
)
_operator = ObjectRule(
    Operator,
    id=_operator_name,
    parts=ManyRule(_part, _PARTS),
    window=WholeRule(f"microseconds of a window of at most {_DAYS} days", 1, DEFAULT_LIMITS.window * 1_000_000),
    near=NumberRule("a distance in metres above 0", 5e-324),
    main=WholeRule("the position of a part", 0, _PARTS - 1),
)
_results = ManyRule(_operator_name)
_announce = ObjectRule(Announce, source=_name, attribute=_name, location=_location)
_subscribe = ObjectRule(Subscribe, operator=_operator)
_interest = ObjectRule(Interest, id=_operator_name, where=_text)
_reading = ObjectRule(Reading, id=_name, source=_name, value=NumberRule(), time=_time, results=_results)
_publish = ObjectRule(Publish, publication=_Published())


def _wanted(message: Subscribe | Interest) -> str:
    return message.id if isinstance(message, Interest) else message.operator.id


_message = KindsRule(
    _announce,
    ObjectRule(Revoke, source=_name),
    _subscribe,
    _interest,
    ObjectRule(Unsubscribe, id=_operator_name),
    _reading,
    _publish,
    ObjectRule(
        Sync,
        announced=ManyRule(_announce, key=lambda message: message.source),
        wanted=ManyRule(KindsRule(_subscribe, _interest), key=_wanted),
        held=ManyRule(_key, key=str),
    ),
    ObjectRule(Refuse, reason=_text, code=_name),
    ObjectRule(Deliver, subscription=_operator_name, events=ManyRule(KindsRule(_reading, _publish))),
)


# --- objects --------------------------------------------------------------------------------------------------------


def checked(message: object) -> Message:
    """The object, if it is a message and holds what a decoded one could hold."""
    # Nearly all messages are valid readings, or have an operator that the node before has checked: both are decided
    # here without the rules.
    if type(message) is Reading:
        if _is_plain(message):
            return message
    elif type(message) is Subscribe and _length(getattr(message, "operator", None)) is not None:
        return message
    try:
        _message.check(message)
    except MessageError as error:
        error.at = f"message{error.at}"
        raise
    if type(message) is Subscribe:
        _remember(message.operator)
    return cast(Message, message)


def _is_plain(reading: Reading) -> bool:
    """Whether a quick look shows that a reading is valid. If not, the rules decide."""
    try:
        id, source, value, time, results = reading.id, reading.source, reading.value, reading.time, reading.results
    except AttributeError:  # it was made without __init__
        return False
    if type(results) is not tuple:
        return False
    for name in results:
        if type(name) is not str or not 0 < len(name) <= _operator_name.most or not name.isascii():
            return False
    return (
        type(id) is type(source) is str
        and type(value) is float
        and type(time) is int
        and 0 < len(id) <= NAME_LENGTH
        and 0 < len(source) <= NAME_LENGTH
        and id.isascii()
        and source.isascii()
        and -LARGEST <= value <= LARGEST
        and _EARLIEST <= time <= _LATEST
    )


#: By ``id(operator)``: operators that were found valid, with the length of their JSON. They are frozen, and each passes
#: through many nodes.
_known: dict[int, tuple[ref[Operator], int]] = {}


def _length(operator: object) -> int | None:
    known = _known.get(id(operator))
    return known[1] if known is not None and known[0]() is operator else None


def _remember(operator: Operator) -> None:
    key = id(operator)
    _known[key] = ref(operator, lambda _: _known.pop(key, None)), len(orjson.dumps(_operator.write(operator)))


# --- bytes ----------------------------------------------------------------------------------------------------------


def encode(message: Message, most: int = MOST_BYTES) -> bytes:
    """The message as ``decode`` takes it, with at most so many bytes; a ``Sync`` may have 64 times as many."""
    checked(message)
    try:
        data = _json(message)
    except TypeError as wrong:  # callers can change the values of a publication after it was checked
        raise MessageError("values that JSON has", str(wrong), "message") from None
    _short(data, most)
    return data


def _json(message: Message) -> bytes:
    return orjson.dumps({"v": VERSION, **_message.write(message)})


def decode(data: bytes, most: int = MOST_BYTES) -> Message:
    """The message that the bytes are."""
    if type(data) is not bytes:
        raise MessageError("bytes", got(data))
    _short(data, most)
    try:
        json = orjson.loads(data)
    except orjson.JSONDecodeError as wrong:
        raise MessageError("JSON", str(wrong)) from None
    if type(json) is not dict:
        raise MessageError("a JSON object", got(json))
    version = json.pop("v", None)
    if type(version) is not int or version != VERSION:
        raise MessageError(f"{VERSION} as version v", got(version))
    try:
        message = _message.read(json)
    except MessageError as error:
        error.at = f"${error.at}"
        raise
    if len(data) > most and type(message) is not Sync:  # "kind" was there twice
        raise _too_long(data, most)
    return cast(Message, message)


_SYNC = orjson.dumps({"v": VERSION, "kind": "sync"})[:-1]


def _short(data: bytes, most: int) -> None:
    """Refuse data that is too long for its kind. Only the first bytes are looked at, so that it is not even parsed."""
    if len(data) > most and (len(data) > most * SYNC_TIMES or not data.startswith(_SYNC)):
        raise _too_long(data, most)


def _too_long(data: bytes, most: int) -> MessageError:
    return MessageError(f"at most {most} bytes, {SYNC_TIMES} times as many in a sync", f"{len(data)}")


# --- length ---------------------------------------------------------------------------------------------------------


def size(message: Message) -> int:
    """How many bytes ``encode`` makes of a valid message; faster than encoding it."""
    if type(message) is Reading and type(message.value) is float:
        if message.results:
            values = message.id, message.source, message.value, message.time, message.results
            return len(orjson.dumps(values)) + _AROUND_RESULTS
        return len(orjson.dumps((message.id, message.source, message.value, message.time))) + _AROUND_READING
    if type(message) is Subscribe:
        checked(message)
        return cast(int, _length(message.operator)) + _AROUND_OPERATOR
    return len(_json(message))


def _around(message: Message, *values: object) -> int:
    """The bytes of a message beyond those of its values."""
    return len(_json(message)) - len(orjson.dumps(values))


_AROUND_READING = _around(Reading("i", "s", 0.5, 0), "i", "s", 0.5, 0)
_AROUND_RESULTS = _around(Reading("i", "s", 0.5, 0, ("r",)), "i", "s", 0.5, 0, ("r",))
_AROUND_OPERATOR = len('{"v":1,"kind":"subscribe","operator":}')
