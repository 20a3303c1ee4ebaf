"""A gateway with real sockets, in a thread of the test, and a runner in process that the test drives.

``LiveBroker.run`` runs what is in the log now, so a test decides when notifications come.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager

import httpx

import tidegate as tg
from tests.gateway.broker import opened, token
from tidegate.broker.process_run import ProcessRun
from tidegate.gateway.api import routes
from tidegate.gateway.application import Application
from tidegate.gateway.serving import GatewayServer
from tidegate.gateway.websocket import WebSockets

__all__ = ["LiveBroker", "live"]


class _Server(GatewayServer):
    """In a thread, which no signals reach."""

    @contextmanager
    def capture_signals(self):
        yield


class LiveBroker:
    """A broker that serves ``url``; ``broker`` is what its gateway has open."""

    def __init__(self, directory, text="", **settings):
        self.broker = opened(directory, text, **settings)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        application = Application(self.broker, routes(), WebSockets(self.broker))
        self.server = _Server(self.broker, application, self._socket, lambda: None)
        self._thread = threading.Thread(target=self._serve)
        self._run = None
        self.is_stopped = False

    def _serve(self):
        asyncio.run(self.server.serve())

    def start(self):
        self._thread.start()
        while not self.server.started:
            assert self._thread.is_alive()
            self._thread.join(0.005)

    def stop(self):
        if not self.is_stopped:
            self.is_stopped = True
            self.server.should_exit = True
            self._thread.join()
            self._socket.close()

    def close(self):
        self.stop()
        self.broker.close()

    def run(self):
        """Run what there is now."""
        config = self.broker.config
        source = config.source.open()
        registry = tg.Registry(self.broker.data.registry)
        sinks = [sink.open(registry, source) for sink in config.sinks]
        run = ProcessRun(source, registry, sinks, checkpoint=self.broker.data.checkpoint, lateness=0.0)
        run.start(available_now=True)
        try:
            run.wait()
        finally:
            run.close()
            registry.close()

    def register(self, *principals):
        """Have the principals sessions, and the runner make their queues."""
        for principal in principals:
            self.broker.registry.register(principal)
        self.run()

    def token(self, principal, *roles, **more):
        return token(self.broker, principal, roles or ("subscriber", "publisher"), **more)

    def client(self, principal, *roles, **more):
        return httpx.Client(base_url=self.url, headers=self.token(principal, *roles), timeout=30, **more)


@contextmanager
def live(directory, text="", **settings):
    broker = LiveBroker(directory, text, **settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.close()
