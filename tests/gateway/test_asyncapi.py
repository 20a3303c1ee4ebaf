"""The document of the messages: it is AsyncAPI 3, and says what live connections send and take."""

from __future__ import annotations

import jsonschema
import pytest

from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications
from tidegate.gateway.asyncapi import asyncapi

DOCUMENT = asyncapi()
REFERENCE = {
    "type": "object",
    "required": ["$ref"],
    "additionalProperties": False,
    "properties": {"$ref": {"type": "string"}},
}
#: The rules of the specification for the parts that the document has.
RULES = {
    "type": "object",
    "required": ["asyncapi", "info"],
    "additionalProperties": False,
    "properties": {
        "asyncapi": {"const": "3.0.0"},
        "info": {"type": "object", "required": ["title", "version"]},
        "defaultContentType": {"type": "string"},
        "channels": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["address", "messages"],
                "additionalProperties": False,
                "properties": {
                    "address": {"type": "string"},
                    "description": {"type": "string"},
                    "messages": {"type": "object", "additionalProperties": REFERENCE},
                    "bindings": {"type": "object"},
                },
            },
        },
        "operations": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["action", "channel"],
                "additionalProperties": False,
                "properties": {
                    "action": {"enum": ["send", "receive"]},
                    "channel": REFERENCE,
                    "summary": {"type": "string"},
                    "security": {"type": "array", "items": REFERENCE},
                    "messages": {"type": "array", "items": REFERENCE},
                    "reply": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"channel": REFERENCE, "messages": {"type": "array", "items": REFERENCE}},
                    },
                },
            },
        },
        "components": {
            "type": "object",
            "propertyNames": {"enum": ["messages", "schemas", "securitySchemes"]},
            "properties": {
                "messages": {
                    "type": "object",
                    "propertyNames": {"pattern": r"^[\w\d.\-_]+$"},
                    "additionalProperties": {"type": "object", "required": ["name", "payload"]},
                },
                "schemas": {"type": "object", "propertyNames": {"pattern": r"^[\w\d.\-_]+$"}},
            },
        },
    },
}


def found(reference):
    at = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        at = at[part]
    return at


def references(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def check(message):
    """Hold a message against the schema of its type."""
    schema = DOCUMENT["components"]["messages"][message["type"]]["payload"]
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(message)
    return message


def test_the_document_is_asyncapi():
    jsonschema.validate(DOCUMENT, RULES)
    for reference in references(DOCUMENT):
        assert found(reference), reference
    for operation in DOCUMENT["operations"].values():
        of_channel = found(operation["channel"]["$ref"])["messages"]
        for message in operation["messages"]:
            assert message["$ref"].startswith(operation["channel"]["$ref"])
            assert message["$ref"].rpartition("/")[2] in of_channel


def test_every_message_of_a_live_connection_is_as_it_says(tmp_path):
    kinds = set()
    with live(tmp_path) as broker:
        broker.register("ann")
        with Client(broker, "ann") as socket:
            announcement = {"source": "z1", "attributes": {"n": {"min": 0}}}
            asked = [
                ("subscribe", {"id": "s1", "where": "n >= 0", "ref": 1}),
                ("publish", {"publications": publications(0, 2), "ref": "two"}),
                ("publish", {"publication": {"id": 7}}),
                ("announce", announcement),
                ("unsubscribe", {"id": "none"}),
                ("ping", {}),
            ]
            told = [check(socket.receive())]
            for type, more in asked:
                if type != "publish" or "publications" in more:
                    check({"type": type, **more})
                told.append(check(socket.ask(type, **more)))
            broker.run()
            told += [check(socket.receive()) for _ in range(2)]
            told.append(check(socket.ask("unpublish", source="z1", id="p0")))
            broker.run()
            told.append(check(socket.receive()))
            told.append(check(socket.ask("ack", upto=3, ref=None)))
        with Client(broker, "ann", query="?after=0") as socket:
            told += [check(socket.receive()) for _ in range(2)]
        with Client(broker, "ann", query="?after=99") as socket:
            told += [check(socket.receive()) for _ in range(2)]
    kinds = {message["type"] for message in told}
    assert kinds == {"hello", "accepted", "error", "notification", "retracted", "skipped", "gap"}


@pytest.mark.parametrize("wrong", [{"type": "ack"}, {"type": "ping", "more": 1}, {"type": "subscribe", "id": 1}])
def test_what_is_refused_is_not_as_it_says(wrong):
    with pytest.raises(jsonschema.ValidationError):
        check(wrong)
