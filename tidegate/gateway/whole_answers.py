"""Answers whose body is whole, written to the connection in one piece.

ASGI has two messages for an answer, which uvicorn checks and writes one after the other; for small answers that took a
fifth of the time of a request. ``write_whole`` does the same at once. What is no plain answer goes the ordinary way.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

__all__ = ["write_whole"]


def write_whole(response: Response, send: Send) -> bool:
    """Write an answer, if it is a plain one to a request of uvicorn's HTTP that waits for it; whether it was."""
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle or type(response) is not Response or response.background is not None:
        return False
    if cycle.disconnected or cycle.response_started or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    head = _head(response, cycle)
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(head + bytes(response.body) if response.body else head)
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _head(response: Response, cycle: RequestResponseCycle) -> bytes:
    """The line of the status, and the headers. None of these has the end of a line in it."""
    parts, lines = [STATUS_LINE[response.status_code]], 2
    for name, value in (*cycle.default_headers, *response.raw_headers):
        if name == b"connection" and b"close" in value.lower():
            cycle.keep_alive = False
            continue
        parts += (name, b": ", value, b"\r\n")
        lines += 1
    if not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
        lines += 1
    parts.append(b"\r\n")
    head = b"".join(parts)
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise RuntimeError("a header of an answer has more than one line")
    return head
