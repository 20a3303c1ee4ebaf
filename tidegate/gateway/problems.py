"""Errors as answers: problem details (RFC 9457) with Tidegate's ``code``, ``expected`` and ``got``.

``RequestError`` is what the gateway itself has to say of a request; any other ``TidegateError`` gets the status that
fits it. Nothing of an error that is none of Tidegate's reaches a client but that there was one.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

from tidegate.errors import (
    ConflictError,
    PipelineError,
    SessionError,
    StoreError,
    TidegateError,
    UnknownSubscription,
)

__all__ = ["PROBLEM_TYPE", "RequestError", "not_found", "problem", "response_of", "status_of"]

PROBLEM_TYPE = "application/problem+json"
#: What an error of an operating system says when there is no room.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_STATUS: tuple[tuple[type[TidegateError], int], ...] = (
    (UnknownSubscription, 404),
    (ConflictError, 409),
    (SessionError, 409),
    (StoreError, 503),
    (PipelineError, 503),
)
_RETRY_SECONDS = "1"


class RequestError(TidegateError, ValueError):
    """A request that is not answered as it wants: the HTTP status that says so, a code, and headers of the answer."""

    code = "request"

    def __init__(
        self,
        status: int,
        code: str,
        expected: str,
        got: str,
        at: str = "",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(expected, got, at)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def not_found(what: str, got: str) -> RequestError:
    """There is nothing of that name."""
    return RequestError(404, "not_found", what, got)


def status_of(error: TidegateError) -> int:
    """The HTTP status that fits an error."""
    if isinstance(error, RequestError):
        return error.status
    if isinstance(error.__cause__ or error.__context__, OSError) and _is_full(error):
        return 507
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 422)


def _is_full(error: TidegateError) -> bool:
    cause = error.__cause__ or error.__context__
    return isinstance(cause, OSError) and cause.errno in _FULL


def problem(error: TidegateError) -> dict[str, Any]:
    """The members of a problem."""
    status = status_of(error)
    found: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": str(error),
        "code": "full" if status == 507 else error.code,
        "expected": error.expected,
        "got": error.got,
    }
    if error.at:
        found["at"] = error.at
    if caret := getattr(error, "caret", ""):
        found["caret"] = caret
    return found


def response_of(error: TidegateError) -> Response:
    """The answer to a request that failed."""
    status = status_of(error)
    headers = dict(error.headers) if isinstance(error, RequestError) else {}
    if status in (429, 503):
        headers.setdefault("Retry-After", _RETRY_SECONDS)
    return Response(orjson.dumps(problem(error)), status, headers, PROBLEM_TYPE)
