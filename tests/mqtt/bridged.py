"""A broker in the process of a test that is bridged to a ``FakeMqttBroker``, and a runner that the test drives."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import wraps
from random import Random

import tidegate as tg
from tests.gateway.broker import opened
from tests.mqtt.fake_mqtt_broker import fake_mqtt_broker
from tidegate.broker.process_run import ProcessRun
from tidegate.mqtt.bridge import Bridge
from tidegate.mqtt.credentials import Credentials

__all__ = ["Bridged", "bridged", "bridging", "counted", "looped"]


def looped(test):
    """A test that is a coroutine, as a function that runs it."""

    @wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


class Bridged:
    """``broker`` is what the bridge has open, ``mqtt`` the other end, ``bridge`` the bridge, which has been started."""

    def __init__(self, broker, mqtt, bridge, port):
        self.broker, self.mqtt, self.bridge, self.port = broker, mqtt, bridge, port

    def run(self):
        """Run what there is now."""
        config, data = self.broker.config, self.broker.data
        source, registry = config.source.open(), tg.Registry(data.registry)
        sinks = [sink.open(registry, source) for sink in config.sinks]
        run = ProcessRun(source, registry, sinks, checkpoint=data.checkpoint, lateness=0.0)
        run.start(available_now=True)
        try:
            run.wait()
        finally:
            run.close()
            registry.close()

    async def subscribe(self, principal, where="TRUE", id="s", **more):
        """Subscribe with ``deliver: mqtt``, and have the queue made."""
        self.broker.registry.subscribe(tg.Subscription(id, principal, where, deliver="mqtt", **more))
        await asyncio.to_thread(self.run)

    async def connected(self):
        """Wait until the bridge is connected and has subscribed."""
        count = len(self.mqtt.logins)
        await self.mqtt.until(lambda: self.mqtt.writer and len(self.mqtt.logins) >= max(count, 1))
        await self.mqtt.until(lambda: any(one.payload == b"online" for one in self.mqtt.published))

    def rows(self):
        """What the log has."""
        with tg.Log(self.broker.data.log) as log:
            return log.end


def counted(broker, name):
    """What was counted under a name, by cause."""
    return {cause: count for its, cause, count in broker.counts.items() if its == name}


@asynccontextmanager
async def bridging(directory, lines):
    """A broker and a bridge of it that is started; ``lines`` are of its file, those of ``[mqtt]`` last."""
    with opened(directory, lines) as broker:
        await broker.start()
        bridge = Bridge(broker, broker.config.mqtt, Credentials(broker.config.mqtt, broker.data.run), Random(1))
        task = asyncio.create_task(bridge.run())
        try:
            yield broker, bridge
        finally:
            bridge.stop()
            await task
            await broker.stop()


@asynccontextmanager
async def bridged(directory, text="", serve="", **settings):
    """A bridge that is started; ``text`` has lines of ``[mqtt]``."""
    async with fake_mqtt_broker() as (mqtt, port):
        for name, value in settings.items():
            setattr(mqtt, name, value)
        lines = f'{serve}\n[mqtt]\naddress = "mqtt://127.0.0.1:{port}"\nclient_id = "bridge"\n{text}\n'
        async with bridging(directory, lines) as (broker, bridge):
            yield Bridged(broker, mqtt, bridge, port)
