"""The parts of a broker are started in order, and stopped in the other, whatever fails."""

from __future__ import annotations

import anyio
import pytest

from tests.gateway.broker import opened
from tidegate.gateway.api import routes
from tidegate.gateway.application import Application


class Part:
    is_ready = True

    def __init__(self, name, told, failing=()):
        self.name, self.told, self.failing = name, told, failing

    async def start(self):
        await self._step("start")

    async def stop(self):
        await self._step("stop")

    async def _step(self, what):
        self.told.append((what, self.name))
        if what in self.failing:
            raise RuntimeError(f"no {what}")


def test_parts_are_stopped_the_last_first_also_if_one_fails(tmp_path):
    async def ran(broker):
        await broker.start()
        await broker.stop()
        await broker.stop()

    told = []
    with opened(tmp_path) as broker:
        broker.parts += [Part("a", told), Part("b", told, ["stop"])]
        anyio.run(ran, broker)
    assert told == [("start", "a"), ("start", "b"), ("stop", "b"), ("stop", "a")]


def test_what_was_started_before_a_part_that_cannot_be_is_stopped(tmp_path):
    told = []
    with opened(tmp_path) as broker:
        broker.parts += [Part("a", told), Part("b", told, ["start"]), Part("c", told)]
        with pytest.raises(RuntimeError, match="no start"):
            anyio.run(broker.start)
    assert told == [("start", "a"), ("start", "b"), ("stop", "a")]


def test_a_server_starts_and_stops_them(tmp_path):
    async def ran(broker):
        came = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))
        sent = []

        async def receive():
            return next(came)

        async def send(message):
            sent.append(message["type"])

        await Application(broker, routes())({"type": "lifespan"}, receive, send)
        return sent

    told = []
    with opened(tmp_path) as broker:
        broker.parts.append(Part("a", told))
        assert anyio.run(ran, broker) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert told == [("start", "a"), ("stop", "a")]
        broker.parts.append(Part("b", told, ["start"]))
        assert anyio.run(ran, broker) == ["lifespan.startup.failed"]
