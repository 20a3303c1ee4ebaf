"""The documents of the API describe what is served, and are what their specifications want."""

from __future__ import annotations

import anyio
import pytest
from openapi_spec_validator import validate

from tests.gateway.broker import client_of, opened
from tidegate.gateway.api import routes


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


def test_operations_have_names_of_their_own(document):
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))
