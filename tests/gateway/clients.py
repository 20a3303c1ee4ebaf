"""Clients of a live broker, with the libraries that others use."""

from __future__ import annotations

import json
from contextlib import contextmanager

from websockets.sync.client import connect

__all__ = ["Client", "events"]


class Client:
    """A WebSocket of a principal, whose messages are objects."""

    def __init__(self, broker, principal, *roles, query="", **more):
        headers = broker.token(principal, *roles)
        address = broker.url.replace("http", "ws") + "/v1/ws" + query
        self._opening = connect(address, additional_headers=headers, compression=None, **more)

    def __enter__(self):
        self._socket = self._opening.__enter__()
        return self

    def __exit__(self, *error):
        self._opening.__exit__(*error)

    def send_raw(self, message):
        self._socket.send(message)

    def send(self, type, **more):
        self._socket.send(json.dumps({"type": type, **more}))

    def receive(self):
        return json.loads(self._socket.recv(timeout=30))

    def ask(self, type, **more):
        self.send(type, **more)
        return self.receive()


@contextmanager
def events(client, **more):
    """The events of a stream as they come: type, id and data of each; a comment is None."""
    with client.stream("GET", "/v1/stream", **more) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield _events(answer.iter_lines())


def _events(lines):
    said = {}
    for line in lines:
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(": ")
            said[name] = value
        elif "data" in said:
            yield said["event"], said.get("id"), json.loads(said["data"])
            said = {}
        else:
            said = {}
