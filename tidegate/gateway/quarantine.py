"""The quarantine over HTTP: rows that runners put aside because they are no publications, with the reason."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.parameters import AFTER, LIMIT
from tidegate.gateway.routes import BodyForm, Route
from tidegate.runs.quarantine import Quarantine

__all__ = ["ROUTES"]


class QuarantinedShown(msgspec.Struct):
    """A row, as text, and why it was put aside. ``place`` is its file and line."""

    place: str
    reason: str
    row: str


class QuarantinePage(msgspec.Struct):
    quarantined: list[QuarantinedShown]
    next: str | None


async def every(request: ApiRequest) -> Response:
    """Rows in the order of the batches that put them aside."""
    run, after, limit = request.broker.config.run, request.query["after"] or "", request.query["limit"]

    def work() -> QuarantinePage:
        found = Quarantine.at(run.quarantine or f"{run.checkpoint}/quarantine").page(after, limit + 1)
        shown = [QuarantinedShown(place, fault.reason, fault.row) for place, fault in found[:limit]]
        return QuarantinePage(shown, shown[-1].place if len(found) > limit else None)

    return json_response(msgspec.to_builtins(await request.in_thread(work)))


ROUTES = (
    Route(
        method="GET",
        path="/v1/quarantine",
        handler=every,
        summary="What runners put aside because it is no publication, and why.",
        role="administrator",
        query=(LIMIT, AFTER),
        answers={200: (BodyForm("application/json", QuarantinePage),)},
    ),
)
