"""A token that stands in the address, as browsers must give it, is written to no log of the broker."""

from __future__ import annotations

import logging

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.gateway.live_broker import live

#: Loggers of the clients of this test, which run in the same process.
_CLIENTS = ("httpx", "httpcore", "websockets.client")


def test_tokens_in_addresses_are_not_logged(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with live(tmp_path, "[serve]\nrequest_log = true\n") as broker:
        broker.register("ann")
        secret = broker.broker.principals.make_token("ann", ["subscriber"]).secret
        wrong = "tdg_" + 43 * "w"
        sockets = broker.url.replace("http", "ws") + "/v1/ws?access_token="
        with connect(sockets + secret) as socket:
            assert "hello" in str(socket.recv(timeout=10))
            socket.send('{"type": "publish", "publications": []}')
            assert '"status":403' in str(socket.recv(timeout=10))
        for address, headers in ((sockets + wrong, {}), (sockets + secret, {"Origin": "https://other.example"})):
            with pytest.raises(InvalidStatus), connect(address, additional_headers=headers):
                pass
        with httpx.Client(base_url=broker.url, timeout=10) as client:
            with client.stream("GET", "/v1/stream", params={"access_token": secret}) as stream:
                assert stream.status_code == 200
            for path in ("/v1/stream", "/v1/notifications", "/v1/nowhere"):
                assert client.get(path, params={"access_token": wrong}).status_code in (401, 404)
    ours = [record for record in caplog.records if not record.name.startswith(_CLIENTS)]
    assert {"tidegate.requests", "tidegate.audit"} <= {record.name for record in ours}
    assert '"what":"message Publish","result":"refused","principal":"ann"' in caplog.text
    told = "\n".join(logging.Formatter().format(record) for record in ours)
    assert secret not in told
    assert wrong not in told
