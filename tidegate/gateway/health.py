"""Whether a broker lives, and whether it does its work: for those who supervise it. Nobody needs a token to ask."""

from __future__ import annotations

from starlette.responses import Response

from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.routes import BodyForm, Route

__all__ = ["ROUTES"]


async def healthz(request: ApiRequest) -> Response:
    """The process lives, and its event loop runs."""
    return json_response({"status": "ok"})


ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        handler=healthz,
        summary="Whether the process lives.",
        role=None,
        answers={200: (BodyForm("application/json", schema={"type": "object"}),)},
    ),
)
