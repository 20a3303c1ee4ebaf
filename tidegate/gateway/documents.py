"""The documents of the API, for people's tools: nobody needs a token to read them."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.asyncapi import asyncapi
from tidegate.gateway.openapi import openapi
from tidegate.gateway.routes import BodyForm, Route

__all__ = ["with_documents"]

_JSON = (BodyForm("application/json", schema={"type": "object"}),)


def with_documents(routes: Iterable[Route]) -> list[Route]:
    """The routes, and those of the documents that describe them all."""

    async def openapi_json(request: ApiRequest) -> Response:
        return json_response(document)

    messages = asyncapi()

    async def asyncapi_json(request: ApiRequest) -> Response:
        return json_response(messages)

    every = [
        *routes,
        Route(
            method="GET",
            path="/asyncapi.json",
            handler=asyncapi_json,
            summary="The document of the messages over WebSockets and event streams, in AsyncAPI 3.",
            role=None,
            answers={200: _JSON},
        ),
        Route(
            method="GET",
            path="/openapi.json",
            handler=openapi_json,
            summary="This document.",
            role=None,
            answers={200: _JSON},
        ),
    ]
    document = openapi(every)
    return every
