"""Whether a broker lives, and whether it does its work: for those who supervise it. Nobody needs a token to ask."""

from __future__ import annotations

from starlette.responses import Response

from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.problems import RequestError
from tidegate.gateway.readiness import readiness
from tidegate.gateway.routes import BodyForm, Route

__all__ = ["ROUTES"]


async def healthz(request: ApiRequest) -> Response:
    """The process lives, and its event loop runs."""
    return json_response({"status": "ok"})


async def readyz(request: ApiRequest) -> Response:
    """Publications are taken, matched and delivered, or will be as soon as the runner is back."""
    found = await request.in_thread(readiness, request.broker)
    if found.missing:
        raise RequestError(503, "not_ready", found.missing, "a broker without that so far")
    if found.degraded:
        return json_response({"status": "degraded", "degraded": found.degraded, "lag": found.lag})
    return json_response({"status": "ready", "lag": found.lag})


_LAG = {"type": ["integer", "null"], "description": "How many publications are not matched yet."}
_READY = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ready", "degraded"]},
        "degraded": {"type": "string", "description": "What the broker does without; only if it is degraded."},
        "lag": _LAG,
    },
    "required": ["status", "lag"],
}

ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        handler=healthz,
        summary="Whether the process lives.",
        role=None,
        answers={200: (BodyForm("application/json", schema={"type": "object"}),)},
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=readyz,
        summary="Whether publications are taken, matched and delivered.",
        role=None,
        answers={200: (BodyForm("application/json", schema=_READY),), 503: ()},
    ),
)
