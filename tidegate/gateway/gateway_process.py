"""A gateway as a process: ``python -m tidegate.gateway.gateway_process``, which only the supervisor of a broker starts.

Its first message from there says what to serve and where; further ones are other settings. It writes a line to the
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
from collections.abc import Callable
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

__all__ = ["LISTENS", "ConfigReceiver", "GatewayOrder", "main", "new_loop"]

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
        receiver = ConfigReceiver(lambda config: server.reload(config.serve, config.issuers))
        follow_starter(receiver.received)
        look_for_cycles_seldom()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_served(server, receiver))
        place.release()
        return 0 if server.started else 1


async def _served(server: GatewayServer, receiver: ConfigReceiver) -> None:
    receiver.begin()
    await server.serve()
    receiver.end()


class ConfigReceiver:
    """What the supervisor sends is taken by ``reload`` in the event loop: a thread receives it, perhaps before there is
    a loop. What comes before ``begin`` is taken then.
    """

    def __init__(self, reload: Callable[[Config], None]) -> None:
        self._reload = reload
        self._last: Config | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Take what comes from now on, in this event loop."""
        self._loop = asyncio.get_running_loop()
        if (last := self._last) is not None:  # looked at after it is known where to bring what comes next
            self._reload(last)

    def end(self) -> None:
        """Take nothing any more."""
        self._loop = None

    def received(self, content: bytes) -> None:
        """Take a message. Called in the thread that receives them."""
        self._last = config = pickle.loads(content)
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self._reload, config)


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
