"""Who is connected with a token that is revoked, or that expires, is disconnected within a second."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.gateway.live_broker import live


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("revoked")) as found:
        found.register("ann")
        yield found


@pytest.fixture(params=["revoked", "expired", "publisher only"])
def ending(request, broker):
    """A token, and what ends it."""
    principals = broker.broker.principals
    expires = datetime.now(UTC) + timedelta(seconds=1) if request.param == "expired" else None
    roles = ["publisher"] if request.param == "publisher only" else ["subscriber"]
    made = principals.make_token("ann", roles, expires=expires)
    return made, (lambda: time.sleep(1)) if expires else (lambda: principals.revoke(made.id))


def test_its_websocket_is_closed(broker, ending):
    made, end = ending
    headers = {"Authorization": f"Bearer {made.secret}"}
    with connect(broker.url.replace("http", "ws") + "/v1/ws", additional_headers=headers) as socket:
        assert '"hello"' in str(socket.recv(timeout=10))
        end()
        ended = time.monotonic()
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd.code == 4003
        assert time.monotonic() - ended < 1.0


def test_its_stream_and_its_long_poll_end(broker, ending):
    made, end = ending
    if broker.broker.principals.token(made.id).roles == ("publisher",):
        pytest.skip("a publisher has no stream")
    headers = {"Authorization": f"Bearer {made.secret}"}
    with (
        httpx.Client(base_url=broker.url, headers=headers, timeout=10) as client,
        client.stream("GET", "/v1/stream") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        end()
        ended = time.monotonic()
        assert not [line for line in lines if line.startswith("event")]
        assert time.monotonic() - ended < 1.0
        assert client.get("/v1/notifications?wait=1").status_code == 401


def test_a_long_poll_that_waits_ends(broker):
    made = broker.broker.principals.make_token("ann", ["subscriber"])
    headers = {"Authorization": f"Bearer {made.secret}"}
    with httpx.Client(base_url=broker.url, headers=headers, timeout=30) as client:
        timer = threading.Timer(0.3, broker.broker.principals.revoke, [made.id])
        timer.start()
        began = time.monotonic()
        answer = client.get("/v1/notifications?wait=20")
        timer.join()
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert time.monotonic() - began < 1.5
