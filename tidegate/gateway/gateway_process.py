"""A gateway as a process: ``python -m tidegate.gateway.gateway_process``, which only the supervisor of a broker starts.

Its first message from there says what to serve and where; further ones are other limits. It writes a line to the
standard output when it listens.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import resource
import socket
import sys
from typing import NamedTuple

from tidegate.broker.garbage_collection import look_for_cycles_seldom
from tidegate.broker.supervised import follow_starter, next_message
from tidegate.errors import TidegateError
from tidegate.gateway.api import routes
from tidegate.gateway.application import Application
from tidegate.gateway.broker_locks import gateway_lock
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.process_log import log_to_standard_error
from tidegate.gateway.serving import GatewayServer
from tidegate.gateway.websocket import WebSockets
from tidegate.runs.config import Config

__all__ = ["LISTENS", "GatewayOrder", "main", "new_loop"]

#: What it writes when it listens, and the exit code that says that what it was given cannot be used.
LISTENS = b"listens\n"
_UNUSABLE = 2
_LOG = logging.getLogger("tidegate.gateway")


class GatewayOrder(NamedTuple):
    """What a gateway is to serve: which of the broker's gateways it is, on what socket it listens, and the settings."""

    number: int
    descriptor: int
    config: Config


def main() -> int:
    """Serve until the supervisor says otherwise; the exit code."""
    given = next_message()
    if given is None:
        return 1
    order: GatewayOrder = pickle.loads(given)  # what our starter wrote, nobody else
    log_to_standard_error(f"gateway {order.number}")
    _allow_many_files()
    try:
        return _serve(order)
    except TidegateError as wrong:
        _LOG.error("%s", wrong)
        return _UNUSABLE


def _serve(order: GatewayOrder) -> int:
    listening = socket.socket(fileno=order.descriptor)
    with OpenBroker(order.config) as broker:
        place = gateway_lock(broker.data, order.number)
        server = GatewayServer(broker, Application(broker, routes(), WebSockets(broker)), listening, _tell)
        loop = _Loop(server)
        follow_starter(loop.received)
        look_for_cycles_seldom()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(loop.serve())
        place.release()
        return 0 if server.started else 1


class _Loop:
    """The event loop of the server, into which the thread that listens to the supervisor passes other limits."""

    def __init__(self, server: GatewayServer) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve()
        self._loop = None

    def received(self, content: bytes) -> None:
        config: Config = pickle.loads(content)
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self._server.reload, config.serve, config.issuers)


def new_loop() -> asyncio.AbstractEventLoop:
    """The event loop of a gateway."""
    try:
        import uvloop
    except ImportError:  # there is none for this system
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _tell() -> None:
    sys.stdout.buffer.write(LISTENS)
    sys.stdout.buffer.flush()


def _allow_many_files() -> None:
    """Each connection is a file, and systems allow a thousand of them until somebody asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)  # Python would take a third of a second to take itself apart, of the five that a broker has
