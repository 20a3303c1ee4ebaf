"""The log of requests, on the logger ``tidegate.requests``: a line of JSON for each, if ``[serve] request_log`` is set.

A line has the path, and never the query: a token may stand in it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson

from tidegate.gateway.access import address_of

if TYPE_CHECKING:
    from tidegate.gateway.api_request import ApiRequest

__all__ = ["log_request"]

_LOG = logging.getLogger("tidegate.requests")
#: Characters of a path that are logged.
_LONGEST = 1024


def log_request(request: ApiRequest, status: int, seconds: float) -> None:
    """Log a request that was answered."""
    caller = request.caller_or_none
    line = {
        "at": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "method": request.method,
        "path": request.scope["path"][:_LONGEST],
        "status": status,
        "seconds": round(seconds, 6),
        "address": address_of(request),
        "principal": None if caller is None else caller.name,
        "token": None if caller is None else caller.token,
    }
    _LOG.info("%s", orjson.dumps(line, default=str).decode())
