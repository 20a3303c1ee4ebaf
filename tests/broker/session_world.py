"""A data directory with a registry and queues, whose runner and gateways are played by tests: one step at a time.

Time is the world's: ``pass_time`` moves it. A gateway that is killed writes nothing any more.
"""

from __future__ import annotations

from datetime import timedelta

import orjson

from tests.store.written_queues import NOTIFICATION, told
from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.sessions import Sessions
from tidegate.store.data_directory import DataDirectory
from tidegate.store.delivery_records import MatchedSubscription
from tidegate.store.queues import Queues
from tidegate.store.registry import Registry

__all__ = ["KEEP", "SECOND", "Killed", "World", "numbers"]

SECOND = 1_000_000
#: Sessions of the world end after so long.
KEEP = timedelta(minutes=3)


class Killed(BaseException):
    """What a process meets in the middle of something, when it is killed there."""


class DyingRegistry:
    """A registry as a process sees it that is killed before or after the call of a method."""

    def __init__(self, registry, method, is_before):
        self._registry, self._method, self._is_before = registry, method, is_before

    def __getattr__(self, name):
        found = getattr(self._registry, name)
        if name != self._method:
            return found

        def killed(*arguments):
            if not self._is_before:
                found(*arguments)
            raise Killed

        return killed


class World:
    def __init__(self, root):
        self.now = 1_700_000_000 * SECOND
        data = DataDirectory.made(root / "data", "process")
        self.place = data.path
        self.registry = Registry(data.registry)
        self._queues = Queues(data.queues)
        self._cut = self._batch = 0
        self._told = 0
        self._opened = []

    # --- gateways ---------------------------------------------------------------------------------------------------

    def gateway(self, registry=None, keep=KEEP):
        queues = OpenQueues(self.place)
        self._opened.append(queues)
        return Sessions(queues, registry or self.registry, keep=keep, clock=lambda: self.now)

    def dying(self, method, is_before):
        """A gateway that is killed before or after it calls that method of the registry."""
        return self.gateway(DyingRegistry(self.registry, method, is_before))

    def pass_time(self, seconds, *gateways):
        """Time passes, in which gateways tick every half minute at least."""
        while seconds > 0:
            step = min(seconds, 30)
            self.now += int(step * SECOND)
            seconds -= step
            for gateway in gateways:
                gateway.tick()

    # --- the runner -------------------------------------------------------------------------------------------------

    def run(self, **counts):
        """A batch: queues are made and ended as the registry says, and so many deliveries told to each principal."""
        version = self.registry.version
        for one in self.registry.registrations(self._cut, version):
            for queue in [queue for queue in self._queues if queue.principal == one.principal]:
                self._queues.end(queue)
            if one.is_registered:
                self._queues.make(one.principal, since=one.version)
        if version > self._cut:
            self._queues.cut(0, version)
        self._cut, self._batch = version, self._batch + 1
        things = []
        for principal, count in counts.items():
            queue = self._queues.queue(principal)
            for _ in range(count):
                self._told += 1
                content = {"id": f"p{self._told}", "source": "z", "time": "2026-11-15T08:00:00Z", "attributes": {}}
                things.append((NOTIFICATION, -1, orjson.dumps(content), [(queue, 1)]))
        meaning = MatchedSubscription("s", "all").packed()
        self._queues.commit(self._batch, self.now, told(things), lambda numbers: [meaning for _ in numbers])

    def drop(self, most):
        """Keep so many deliveries of each queue at most."""
        for queues in [self._queues, *(queues._reader for queues in self._opened)]:
            queues.most = most

    def end_queue(self, principal):
        """As a restore does: the queue is another one."""
        self._queues.end(self._queues.queue(principal))
        self._queues.make(principal)
        self.run()

    def close(self):
        for queues in self._opened:
            queues.close()
        self._queues.close()
        self.registry.close()


def numbers(items):
    """The numbers of items, each a notification."""
    assert all(item["type"] == "notification" for item in items), items
    return [item["number"] for item in items]
