"""An answer that is written in one piece is the same bytes, and leaves its connection as uvicorn's way does."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.parts.profiles import examples
from tidegate.gateway.whole_answers import write_whole

_LOG = logging.getLogger("test")
_headers = st.dictionaries(
    st.sampled_from(["ETag", "Vary", "Retry-After", "Connection", "Cache-Control"]),
    st.sampled_from(["close", "Close", "keep-alive", "x, close", "1", "é", ""]),
)


class _Transport:
    def __init__(self):
        self.written, self.is_closed = b"", False

    def write(self, data):
        self.written += data

    def close(self):
        self.is_closed = True

    def pause_reading(self):
        """Nobody reads."""

    def resume_reading(self):
        """Nobody reads."""


def cycle(method="GET", keep_alive=True, **state):
    transport, answered = _Transport(), []
    found = RequestResponseCycle(
        {"type": "http", "method": method, "path": "/", "client": None, "query_string": b"", "http_version": "1.1"},
        transport,
        FlowControl(transport),
        _LOG,
        _LOG,
        False,
        [(b"date", b"today")],
        asyncio.Event(),
        False,
        keep_alive,
        lambda: answered.append(1),
    )
    found.answered = answered
    for name, value in state.items():
        setattr(found, name, value)
    return found


def left(one):
    """What an answer leaves behind."""
    return {
        "written": one.transport.written,
        "closed": one.transport.is_closed,
        "keep_alive": one.keep_alive,
        "complete": (one.response_started, one.response_complete, one.message_event.is_set()),
        "answered": one.answered,
    }


@examples(50)
@given(st.sampled_from([200, 202, 204, 304, 422, 503]), _headers, st.binary(max_size=20), st.booleans())
def test_it_is_the_same(status, headers, body, keep_alive):
    body = b"" if status in (204, 304) else body
    at_once, ordinary = cycle(keep_alive=keep_alive), cycle(keep_alive=keep_alive)

    async def work():
        assert write_whole(Response(body, status, headers, "application/json"), at_once.send)
        await Response(body, status, headers, "application/json")(ordinary.scope, ordinary.receive, ordinary.send)

    asyncio.run(work())
    one, other = left(at_once), left(ordinary)
    split = [found.pop("written").partition(b"\r\n\r\n") for found in (one, other)]
    lines, expected = (sorted(head.lower().split(b"\r\n")) for head, _, _ in split)
    if any(b"close" in value.encode().lower() for name, value in headers.items() if name == "Connection"):
        expected = [b"connection: close" if line.startswith(b"connection") else line for line in expected]
    assert (one, lines, split[0][2]) == (other, expected, split[1][2])


@pytest.mark.parametrize("state", [{"disconnected": True}, {"response_started": True}, {"method": "HEAD"}])
def test_others_go_the_ordinary_way(state):
    one = cycle(**state)
    assert not write_whole(Response(b"{}"), one.send)
    assert not one.transport.written


def test_what_is_no_plain_answer_goes_the_ordinary_way():
    assert not write_whole(StreamingResponse(iter([b"x"])), cycle().send)
    assert not write_whole(Response(b"{}"), lambda message: None)
    paused = cycle()
    paused.flow.pause_writing()
    assert not write_whole(Response(b"{}"), paused.send)


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "a\nb", "a\rb", "a\0b"])
def test_no_header_has_two_lines(value):
    one = cycle()
    with pytest.raises(RuntimeError):
        write_whole(Response(b"{}", headers={"ETag": value}), one.send)
    assert not one.transport.written
