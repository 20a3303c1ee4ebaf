"""CloudEvents as publications: events of version 1.0 as JSON (structured), and as headers with a body (binary mode).

The members of ``data`` that is an object are attributes and fields; other ``data`` is the attribute ``value``. The
event's own attributes stand beside them and count where data has the same name; ``validuntil`` is ``valid_until``. What
only describes the form of the event (``specversion``, ``datacontenttype``, ``dataschema``) is left out.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson
from starlette.datastructures import Headers

from tidegate.errors import shown
from tidegate.gateway.given_publications import Unreadable
from tidegate.gateway.problems import RequestError

__all__ = ["BATCH", "STRUCTURED", "is_binary", "of_attributes", "of_event", "of_headers"]

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
_VERSION = "1.0"
_PREFIX = "ce-"
_REQUIRED = ("id", "source", "type")
_FORM = frozenset({"specversion", "data", "data_base64", "datacontenttype", "dataschema"})
_ESCAPED = re.compile(r"\\(.)")


def of_event(event: Any) -> dict[str, Any] | Unreadable:
    """The item that an event is, decoded from JSON."""
    if not isinstance(event, dict):
        return _wrong("an object", shown(event))
    data = event.get("data")
    if (encoded := event.get("data_base64")) is not None:
        if data is not None:
            return _wrong("data or data_base64", "both")
        try:
            data = _decoded(b64decode(encoded, validate=True), str(event.get("datacontenttype", "")))
        except (binascii.Error, ValueError, TypeError):
            return _wrong("data_base64 in Base64, of text or of the JSON that datacontenttype says", shown(encoded))
    return _item(event, data)


def is_binary(headers: Headers) -> bool:
    """Whether a request is an event in binary mode: its attributes are headers, its data is the body."""
    return f"{_PREFIX}specversion" in headers


def of_headers(headers: Headers, body: bytes) -> dict[str, Any] | Unreadable:
    """The item that an event in binary mode is."""
    event = dict[str, Any]()
    for name, value in headers.items():
        if not name.startswith(_PREFIX):
            continue
        name = name.removeprefix(_PREFIX)
        if name in event:
            return _wrong(f"one header {_PREFIX}{shown(name)[1:-1]}", "two")
        try:
            event[name] = _header_text(value)
        except UnicodeDecodeError:
            return _wrong("UTF-8 as text of a header, percent-encoded", shown(value))
    try:
        data = _decoded(body, headers.get("content-type", "application/json")) if body else None
    except ValueError as wrong:
        expected = "data in UTF-8 and of the Content-Type"
        raise RequestError(400, "json", expected, str(wrong), "the body") from None
    return _item(event, data)


def of_attributes(event: Mapping[str, Any], kind: str, body: bytes) -> dict[str, Any] | Unreadable:
    """The item that an event in binary mode is, whose attributes are texts; ``kind`` is that of its data."""
    try:
        data = _decoded(body, kind or "application/json") if body else None
    except ValueError as wrong:
        return _wrong("data in UTF-8 and of the content type", str(wrong))
    return _item(event, data)


def _header_text(value: str) -> str:
    """The text of a header, which may be quoted, and whose characters beyond ASCII are percent-encoded."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    return unquote_to_bytes(value.encode("latin-1")).decode()


def _decoded(data: bytes, content_type: str) -> Any:
    """Data as JSON, if it is of such a type, else as text; a ValueError where it is neither."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return orjson.loads(data)
    return data.decode()


def _item(event: Mapping[str, Any], data: Any) -> dict[str, Any] | Unreadable:
    if event.get("specversion") != _VERSION:
        return _wrong(f"specversion {_VERSION}", shown(event.get("specversion")))
    for name in _REQUIRED:
        value = event.get(name)
        if not isinstance(value, str) or not value:
            return _wrong(f"a text as {name}", shown(value))
    item = {**data} if isinstance(data, dict) else {} if data is None else {"value": data}
    for name, value in event.items():
        if name not in _FORM and value is not None:
            item["valid_until" if name == "validuntil" else name] = value
    return item


def _wrong(expected: str, got: str) -> Unreadable:
    return Unreadable("cloudevents", f"expected an event with {expected}; got {got}")
