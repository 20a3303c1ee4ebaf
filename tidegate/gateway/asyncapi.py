"""The document of what goes over WebSockets and event streams in AsyncAPI 3, made from the types of the messages.

"Send" is what the broker sends. Knows no message by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from tidegate import __version__
from tidegate.gateway import delivered_messages, websocket_messages
from tidegate.gateway.delivered_messages import Accepted, Hello, Lagging, Refused

__all__ = ["asyncapi"]

_REF = "#/components/schemas/{name}"
_ITEMS = get_args(delivered_messages.Item)
_FROM_BROKER = (Hello, *_ITEMS, Lagging)
_ANSWERS = (Accepted, Refused)
_FROM_CLIENT = get_args(websocket_messages.ClientMessage)
_DESCRIPTION = """What a broker tells principals of their queues, and what they may ask over the same connection.

Times are RFC 3339 with an offset, and come out in UTC. All connections of a principal see everything and share what is
acknowledged."""
_AFTER = {"type": "string", "description": "Go on behind this number, `N` or `epoch-N`."}
_TOKEN = {"type": "string", "description": "The token, where no header can have it."}


def asyncapi() -> dict[str, Any]:
    """The document."""
    every = (*_FROM_BROKER, *_ANSWERS, *_FROM_CLIENT)
    schemas, components = msgspec.json.schema_components(every, ref_template=_REF)
    messages = {_tag(kind): _message(kind, schema) for kind, schema in zip(every, schemas, strict=True)}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidegate",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache 2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "websocket": _channel("/v1/ws", "A WebSocket: the caller's queue, and requests.", every, ws=True),
            "stream": _channel("/v1/stream", "The caller's queue as Server-Sent Events.", (*_ITEMS, Lagging), ws=False),
        },
        "operations": {
            "tell": _operation("send", "websocket", _FROM_BROKER, "Tell what there is, `hello` first."),
            "tellByEvents": _operation("send", "stream", (*_ITEMS, Lagging), "Tell what there is."),
            **{_tag(kind): _request(kind) for kind in _FROM_CLIENT},
        },
        "components": {
            "messages": messages,
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _tag(kind: Any) -> str:
    tag: str = kind.__struct_config__.tag
    return tag


def _message(kind: Any, schema: Any) -> dict[str, Any]:
    return {"name": _tag(kind), "summary": (kind.__doc__ or "").strip(), "payload": schema}


def _channel(address: str, description: str, kinds: Sequence[Any], *, ws: bool) -> dict[str, Any]:
    query = {"type": "object", "properties": {"after": _AFTER, "access_token": _TOKEN}}
    binding = {"ws": {"method": "GET", "query": query, "bindingVersion": "0.1.0"}} if ws else {}
    return {
        "address": address,
        "description": description,
        "messages": {_tag(kind): {"$ref": f"#/components/messages/{_tag(kind)}"} for kind in kinds},
        **({"bindings": binding} if binding else {}),
    }


def _operation(action: str, channel: str, kinds: Sequence[Any], summary: str) -> dict[str, Any]:
    return {
        "action": action,
        "summary": summary,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": _of_channel(channel, kinds),
        "security": [{"$ref": "#/components/securitySchemes/token"}],
    }


def _request(kind: Any) -> dict[str, Any]:
    answers = {"channel": {"$ref": "#/channels/websocket"}, "messages": _of_channel("websocket", _ANSWERS)}
    summary = (kind.__doc__ or "").strip()
    return {**_operation("receive", "websocket", (kind,), summary), "reply": answers}


def _of_channel(channel: str, kinds: Sequence[Any]) -> list[dict[str, str]]:
    return [{"$ref": f"#/channels/{channel}/messages/{_tag(kind)}"} for kind in kinds]
