"""The forms in which publications come by HTTP: JSON, NDJSON, CloudEvents and Arrow, as lists of items.

An item is a decoded object, whatever it holds, or ``Unreadable`` where it could not be decoded and others could.
What an item has to be is for ``Submission``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from anyio.to_thread import run_sync
from starlette.datastructures import Headers

from tidegate.errors import shown
from tidegate.gateway import cloud_events
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.arrow_bodies import ARROW, arrow_items
from tidegate.gateway.bodies import JSON, LARGE, content_type, expect_few
from tidegate.gateway.given_publications import Unreadable
from tidegate.gateway.problems import RequestError
from tidegate.gateway.routes import BodyForm

__all__ = ["FORMS", "items_of"]

NDJSON = "application/x-ndjson"
_Decoder = Callable[[bytes, int], list[Any]]


async def items_of(request: ApiRequest) -> list[Any]:
    """The items of a request's body."""
    body = await request.bytes()
    most = request.broker.limits.max_publications
    kind = content_type(request) or JSON
    if cloud_events.is_binary(request.headers):
        decode: _Decoder | None = partial(_event_of_headers, request.headers)
    else:
        decode = _DECODERS.get(kind)
    if decode is None:
        raise RequestError(415, "content_type", f"one of {', '.join(_DECODERS)}", shown(kind), "Content-Type")
    if len(body) <= LARGE and decode is not arrow_items:  # a few bytes of Arrow may be very many values
        return decode(body, most)
    return await run_sync(decode, body, most, limiter=request.broker.large_bodies)


def _decoded(body: bytes) -> Any:
    """What JSON says."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise RequestError(400, "json", "JSON", wrong.msg, f"byte {wrong.pos}") from None


def _json(body: bytes, most: int) -> list[Any]:
    expect_few(body, most)
    found = _decoded(body)
    return found if type(found) is list else [found]


def _lines(body: bytes, most: int) -> list[Any]:
    """A line that is no JSON is an item that cannot be read; a body of only such lines is none."""
    expect_few(body, most)
    if body.count(b"\n") > 2 * most:
        raise RequestError(413, "too_large", f"at most {2 * most:,} lines", "more")
    found = [_line(line) for line in body.split(b"\n") if line and not line.isspace()]
    if all(type(item) is Unreadable for item in found):
        got = found[0].detail if found else "no line"
        raise RequestError(400, "json", "JSON on each line", got)
    return found


def _line(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as wrong:
        return Unreadable("json", f"expected JSON on each line; got what is none: {wrong.msg}")


def _cloud_event(body: bytes, most: int) -> list[Any]:
    return [cloud_events.of_event(_decoded(body))]


def _cloud_events(body: bytes, most: int) -> list[Any]:
    expect_few(body, most)
    found = _decoded(body)
    if type(found) is not list:
        raise RequestError(422, "cloudevents", "an array of events", shown(found))
    return [cloud_events.of_event(event) for event in found]


def _event_of_headers(headers: Headers, body: bytes, most: int) -> list[Any]:
    expect_few(body, most)
    return [cloud_events.of_headers(headers, body)]


_DECODERS: dict[str, _Decoder] = {
    JSON: _json,
    NDJSON: _lines,
    cloud_events.STRUCTURED: _cloud_event,
    cloud_events.BATCH: _cloud_events,
    ARROW: arrow_items,
}

_TIME = {"type": "string", "format": "date-time"}
_PUBLICATION = {
    "type": "object",
    "required": ["source"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 1024},
        "source": {"type": "string", "minLength": 1, "maxLength": 1024},
        "time": _TIME,
        "start": _TIME,
        "end": _TIME,
        "phase": {"enum": ["START", "END", "INSTANT"]},
        "location": {"type": "object", "properties": {"lon": {"type": "number"}, "lat": {"type": "number"}}},
        "valid_until": _TIME,
        "attributes": {"type": "object"},
    },
}
_EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        **{name: {"type": "string", "minLength": 1} for name in ("id", "source", "type")},
        "time": _TIME,
        "validuntil": _TIME,
        "data": {},
    },
}
FORMS = (
    BodyForm(JSON, schema={"oneOf": [_PUBLICATION, {"type": "array", "items": _PUBLICATION}]}),
    BodyForm(NDJSON, schema={"type": "string"}),
    BodyForm(cloud_events.STRUCTURED, schema=_EVENT),
    BodyForm(cloud_events.BATCH, schema={"type": "array", "items": _EVENT}),
    BodyForm(ARROW, schema={"type": "string", "contentEncoding": "binary"}),
)
