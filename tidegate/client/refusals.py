"""Answers of a broker that are problems, as the errors that they would be in this process.

A problem has Tidegate's ``code``, ``expected`` and ``got`` (RFC 9457). Any other answer becomes an error of the status
alone. Knows no library of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from tidegate.errors import CATALOGUE, AccessError, BrokerError, ParseError, RefusedError, TidegateError, shown

__all__ = ["IS_TRIED_AGAIN", "refusal", "refused_item"]

#: Statuses that say that another attempt may succeed.
IS_TRIED_AGAIN = frozenset({408, 429, 502, 503, 504, 507})
_NOTHING: Mapping[str, Any] = {}


def refusal(status: int, body: bytes, at: str) -> TidegateError:
    """The error that an answer is; ``at`` is the request."""
    problem = _problem(body)
    expected = str(problem.get("expected") or "an answer of a broker")
    got = str(problem.get("got") or problem.get("detail") or f"status {status} {_phrase(status)}")
    code = problem.get("code")
    where = ", ".join(filter(None, (str(problem.get("at") or ""), at)))
    error = _made(status, code if isinstance(code, str) else "", expected, got, where, str(problem.get("caret") or ""))
    if isinstance(code, str):
        error.code = code
    if isinstance(error, AccessError | BrokerError | RefusedError):
        error.status = status
    return error


def refused_item(code: str, detail: str, at: str) -> TidegateError:
    """The error of one publication that was refused."""
    expected, _, got = detail.removeprefix("expected ").partition("; got ")
    kind = CATALOGUE.get(code, RefusedError)
    error = kind(expected if got else "a publication", got or detail, at)
    error.code = code
    return error


def _made(status: int, code: str, expected: str, got: str, at: str, caret: str) -> TidegateError:
    if status in (401, 403):
        return AccessError(expected, got, at)
    kind = CATALOGUE.get(code)
    if kind is not None and issubclass(kind, ParseError):
        return kind(expected, got, at, caret)
    if kind is not None:
        return kind(expected, got, at)
    return (RefusedError if 400 <= status < 500 and status not in IS_TRIED_AGAIN else BrokerError)(expected, got, at)


def _problem(body: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"got": f"{shown(body)}"} if body else _NOTHING
    return found if isinstance(found, dict) else _NOTHING


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "of no known meaning"
