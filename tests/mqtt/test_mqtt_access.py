"""The law of access over MQTT: no message tells a principal of a publication that it may not read, and whatever it may
read is told. What waits while the MQTT broker is away is judged by what may be read when it goes out.
"""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from tests.gateway.access_world import World, marks_in
from tests.gateway.test_access_law import PATTERNS, told
from tests.mqtt.bridged import bridged, looped
from tidegate.model import Subscription


class Reader:
    """A principal, what it may read, and what it was told since it was asked last."""

    def __init__(self, w, world, name):
        self.w, self.world, self.name, self.read, self.seen = w, world, name, "TRUE", 0
        for id, where, more in (("all", "TRUE", {"initial": True}), ("some", "n >= 4 OR kind IS NOT NULL", {})):
            w.broker.registry.subscribe(Subscription(id, name, where, deliver="mqtt", **more))
        for id, where in PATTERNS.items():
            w.broker.registry.subscribe(Subscription(id, name, where, deliver="mqtt"))

    def may_read(self, read):
        self.read = read
        self.w.broker.principals.put(self.name, read=read)

    async def told(self, also=frozenset()):
        """The items that came since, once all of the queue has; no byte of them is of what it may not read."""
        async with asyncio.timeout(60):
            while (queues := self.w.broker.delivery.queues) is None:  # the runner has made them, and they are opened
                await asyncio.sleep(0.05)
            while True:
                queues.refresh()
                queue = queues.find(self.name, "mqtt")
                if queue is not None and queues.acknowledged(queue) == queues.last(queue):
                    break
                await asyncio.sleep(0.05)
        every = self.w.mqtt.told(f"tidegate/notifications/{self.name}")
        new, self.seen = every[self.seen :], len(every)
        allowed = self.world.may_read(self.read) | set(also)
        for one in new:
            found = marks_in(one.payload + json.dumps(one.properties).encode())
            assert found <= allowed, (self.name, self.read, found - allowed)
        return [json.loads(one.payload) for one in new]


async def publish(w, world, count):
    """Publish over MQTT, and run; the marks of it."""
    before = set(world.made)
    done = len(w.mqtt.acknowledged)
    for number, item in enumerate(world.publish(count), 1):
        w.mqtt.send(f"tidegate/publications/{item['source']}", json.dumps(item).encode(), number)
    await w.mqtt.until(lambda: len(w.mqtt.acknowledged) == done + count)
    assert {reason for _, reason in w.mqtt.acknowledged[done:]} == {0}
    return set(world.made) - before


async def check_world(directory, number, readers, count):
    """Hold a world against the law; how many triples of principal, filter and publication were looked at."""
    world = World(number)
    async with bridged(directory) as w:
        await w.connected()
        early = await publish(w, world, count // 3)
        everybody = [Reader(w, world, f"r{one}") for one in range(readers)]
        for reader in everybody:
            reader.may_read(world.read())
        await asyncio.to_thread(w.run)
        late = await publish(w, world, count - len(early))
        await asyncio.to_thread(w.run)
        valid = {mark for mark in early if "valid_until" in world.publications[mark]}
        for reader in everybody:
            items, may = await reader.told(), world.may_read(reader.read)
            assert told(items, "all", initial=True) == valid & may
            assert told(items, "all") == late & may

        withdrawn = set(world.some(world.made, count // 10))
        w.broker.log.unpublish(list(world.pairs(withdrawn)))
        await asyncio.to_thread(w.run)
        for reader in everybody:
            retracted = await reader.told()
            assert {item["type"] for item in retracted} <= {"retracted"}
            wanted = withdrawn & (valid | late) & world.may_read(reader.read)
            assert marks_in(json.dumps(retracted).encode()) == wanted

        waiting = await publish(w, world, count // 3)
        w.mqtt.refuses_login = 136
        w.mqtt.cut()
        await asyncio.to_thread(w.run)
        before = {reader.name: world.may_read(reader.read) for reader in everybody}
        for reader in everybody:
            reader.may_read(world.read())
        await asyncio.to_thread(w.run)
        w.mqtt.refuses_login = 0
        await w.mqtt.until(lambda: w.mqtt.writer)
        for reader in everybody:
            items, may = await reader.told(), world.may_read(reader.read)
            assert told(items, "all") == waiting & before[reader.name] & may
            assert {item["reason"] for item in items if item["type"] == "skipped"} <= {"unreadable"}
        return readers * (len(world.made) + len(waiting))


def test_nobody_is_told_over_mqtt_of_what_it_may_not_read(tmp_path):
    @looped
    async def work():
        assert await check_world(tmp_path, 1, 4, 60) > 300

    work()


@pytest.mark.thorough
def test_nobody_is_told_over_mqtt_of_what_it_may_not_read_in_many_worlds(tmp_path):
    triples = 0
    for number in itertools.count(2):
        (tmp_path / str(number)).mkdir()
        triples += asyncio.run(check_world(tmp_path / str(number), number, 16, 400))
        if triples >= 100_000:
            break
