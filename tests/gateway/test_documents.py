"""The documents of the API describe what is served, and are what their specifications want."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import get_args

import anyio
import pytest
from openapi_spec_validator import validate

from tests.gateway.broker import client_of, opened
from tidegate.errors import CATALOGUE
from tidegate.gateway import delivered_messages
from tidegate.gateway.api import routes
from tidegate.gateway.websocket_messages import ClientMessage

ROOT = Path(__file__).parents[2]
ERRORS = (ROOT / "docs" / "ERRORS.md").read_text("utf-8").split("\n## What a broker answers\n", 1)[1]
STABILITY = (ROOT / "docs" / "STABILITY.md").read_text("utf-8")
GATEWAY = sorted((ROOT / "tidegate" / "gateway").glob("*.py"))
#: What makes a code: the name that is called, and where the status and the code stand. "item" is the status of what
#: refuses one publication of several.
_MAKERS = {"RequestError": (0, 1), "_answer": (0, 1), "Unreadable": ("item", 0), "_refuse": ("item", 1)}
#: Calls that pass on a code which was made elsewhere.
_PASSED_ON = ["RequestError(status, code, …)", "_refuse(item.code)", "_refuse(error.code)", "_refuse(outcome.code)"]


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    async def asked():
        with opened(tmp_path_factory.mktemp("documents")) as broker:
            async with client_of(broker) as client:
                return (await client.get("/openapi.json")).json()

    return anyio.run(asked)


def test_the_document_is_openapi(document):
    validate(document)


def test_each_route_is_described(document):
    for route in routes().all:
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["summary"], route
        assert set(route.answers) <= set(map(int, operation["responses"].keys() - {"default"})), route
        assert route.answers, route


def test_an_answer_that_is_an_error_may_be_a_problem(document):
    of = {
        (path, status): answer["content"].keys()
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        if status >= "400"  # "default" is beyond
    }
    assert all("application/problem+json" in types for types in of.values())
    for path in ("/v1/publications", "/v1/subscriptions"):
        assert of[path, "422"] == {"application/json", "application/problem+json"}


def test_operations_have_names_of_their_own(document):
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))


def made_codes():
    """The codes that the source of the gateway makes, with their statuses, and the calls that only pass one on."""
    found, passed_on = defaultdict(set), []
    for path in GATEWAY:
        tree = ast.parse(path.read_text("utf-8"))
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

        def value(node, constants=constants):
            return constants.get(node.id) if isinstance(node, ast.Name) else getattr(node, "value", None)

        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            is_other = (name == "_answer" and path.stem != "http_connection") or (
                name == "_refuse" and path.stem != "submission"
            )
            if name not in _MAKERS or is_other:
                continue
            where, which = _MAKERS[name]
            status, code = where if where == "item" else value(node.args[where]), value(node.args[which])
            if isinstance(code, str):
                assert status == "item" or type(status) is int, (path.name, node.lineno)
                found[code].add(str(status))
            elif where == "item":
                passed_on.append(f"{name}({ast.unparse(node.args[which])})")
            else:
                passed_on.append(f"{name}({ast.unparse(node.args[0])}, {ast.unparse(node.args[1])}, …)")
    return dict(found), passed_on


def test_each_code_is_in_the_table_of_errors_with_its_statuses():
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| .+ \|$", ERRORS, re.MULTILINE)
    made, passed_on = made_codes()
    assert sorted(passed_on) == sorted(_PASSED_ON), "a code that this test cannot read"
    assert len(made) > 30
    assert {code: set(statuses.split(", ")) for code, statuses in rows} == made
    assert [code for code, _ in rows] == sorted(made)


def test_classes_of_errors_of_the_gateway_have_codes_that_are_documented():
    """``request`` is that of ``RequestError`` itself, of which each has a code of its own."""
    text = "\n".join(path.read_text("utf-8") for path in GATEWAY)
    codes = set(re.findall(r'^    code = "(\w+)"$', text, re.MULTILINE))
    assert codes - {"request"} <= set(CATALOGUE)


def test_close_codes_are_documented():
    text = "\n".join(path.read_text("utf-8") for path in GATEWAY)
    made = set(re.findall(r"\bEnding\((\d{4}), ", text))
    assert len(made) > 4
    assert made <= set(re.findall(r"^\| (\d{4}) \|", STABILITY, re.MULTILINE))


def test_types_of_messages_are_documented():
    kinds = *get_args(ClientMessage), *get_args(delivered_messages.Item)
    others = delivered_messages.Hello, delivered_messages.Lagging, delivered_messages.Accepted
    for kind in (*kinds, *others, delivered_messages.Refused):
        assert f"`{kind.__struct_config__.tag}`" in STABILITY
