"""The forms in which publications come by HTTP: JSON, NDJSON, CloudEvents and Arrow, as lists of items.

An item is a decoded object, whatever it holds, or ``Unreadable`` where it is too large, or could not be decoded and
others could.
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
from tidegate.gateway.item_sizes import large_item, sizes_of_array, without_large
from tidegate.gateway.problems import RequestError
from tidegate.gateway.routes import BodyForm
from tidegate.runs.serve_section import ServeSection

__all__ = ["FORMS", "PUBLICATION", "items_of"]

NDJSON = "application/x-ndjson"
_NO_JSON = "json"
_Decoder = Callable[[bytes, ServeSection], list[Any]]


async def items_of(request: ApiRequest) -> list[Any]:
    """The items of a request's body."""
    body = await request.bytes()
    limits = request.broker.limits
    kind = content_type(request) or JSON
    if cloud_events.is_binary(request.headers):
        decode: _Decoder | None = partial(_event_of_headers, request.headers)
    else:
        decode = _DECODERS.get(kind)
    if decode is None:
        raise RequestError(415, "content_type", f"one of {', '.join(_DECODERS)}", shown(kind), "Content-Type")
    if len(body) <= LARGE and decode is not arrow_items:  # a few bytes of Arrow may be very many values
        return decode(body, limits)
    return await run_sync(decode, body, limits, limiter=request.broker.large_bodies)


def _decoded(body: bytes) -> Any:
    """What JSON says."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as wrong:
        raise RequestError(400, _NO_JSON, "JSON", wrong.msg, f"byte {wrong.pos}") from None


def _json(body: bytes, limits: ServeSection) -> list[Any]:
    expect_few(body, limits.max_publications)
    found = _decoded(body)
    return _array(found, body, limits) if type(found) is list else [_whole(found, body, limits)]


def _array(items: list[Any], body: bytes, limits: ServeSection) -> list[Any]:
    """The items of an array, but for those that are too large."""
    if len(body) <= limits.max_publication:
        return items
    return without_large(items, sizes_of_array(body), limits.max_publication)


def _whole(item: Any, body: bytes, limits: ServeSection) -> Any:
    """The item that is a whole body, unless it is too large."""
    return item if len(body) <= limits.max_publication else large_item(len(body), limits.max_publication)


def _lines(body: bytes, limits: ServeSection) -> list[Any]:
    """A line that is no JSON is an item that cannot be read; a body of only such lines is none."""
    most = limits.max_publications
    expect_few(body, most)
    if body.count(b"\n") > 2 * most:
        raise RequestError(413, "too_large", f"at most {2 * most:,} lines", "more")
    found = [_line(line, limits) for line in body.split(b"\n") if line and not line.isspace()]
    if all(type(item) is Unreadable and item.code == _NO_JSON for item in found):
        got = found[0].detail if found else "no line"
        raise RequestError(400, _NO_JSON, "JSON on each line", got)
    return found


def _line(line: bytes, limits: ServeSection) -> Any:
    try:
        return _whole(orjson.loads(line), line, limits)
    except orjson.JSONDecodeError as wrong:
        return Unreadable(_NO_JSON, f"expected JSON on each line; got what is none: {wrong.msg}")


def _cloud_event(body: bytes, limits: ServeSection) -> list[Any]:
    return [_whole(cloud_events.of_event(_decoded(body)), body, limits)]


def _cloud_events(body: bytes, limits: ServeSection) -> list[Any]:
    expect_few(body, limits.max_publications)
    found = _decoded(body)
    if type(found) is not list:
        raise RequestError(422, "cloudevents", "an array of events", shown(found))
    return _array([cloud_events.of_event(event) for event in found], body, limits)


def _event_of_headers(headers: Headers, body: bytes, limits: ServeSection) -> list[Any]:
    expect_few(body, limits.max_publications)
    return [_whole(cloud_events.of_headers(headers, body), body, limits)]


_DECODERS: dict[str, _Decoder] = {
    JSON: _json,
    NDJSON: _lines,
    cloud_events.STRUCTURED: _cloud_event,
    cloud_events.BATCH: _cloud_events,
    ARROW: arrow_items,
}

#: What is null is as if it were not there, in publications and in CloudEvents.
_TIME = {"type": ["string", "null"], "format": "date-time"}
#: The schema of one publication.
PUBLICATION = {
    "type": "object",
    "required": ["source"],
    "properties": {
        "id": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024},
        "source": {"type": "string", "minLength": 1, "maxLength": 1024},
        "time": _TIME,
        "start": _TIME,
        "end": _TIME,
        "phase": {"enum": ["START", "END", "INSTANT", None]},
        "location": {"type": ["object", "null"], "properties": {"lon": {"type": "number"}, "lat": {"type": "number"}}},
        "valid_until": _TIME,
        "attributes": {"type": ["object", "null"]},
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
    BodyForm(JSON, schema={"oneOf": [PUBLICATION, {"type": "array", "items": PUBLICATION}]}),
    BodyForm(NDJSON, schema={"type": "string"}),
    BodyForm(cloud_events.STRUCTURED, schema=_EVENT),
    BodyForm(cloud_events.BATCH, schema={"type": "array", "items": _EVENT}),
    BodyForm(ARROW, schema={"type": "string", "contentEncoding": "binary"}),
)
