"""The product as a ``Service``: data directories, a gateway that does what clients ask, and a runner that is stepped.

Nothing runs by itself: the runner takes a batch when the script says so, and the clock is the script's. It is patched
into the product where that asks for the time of day itself.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Protocol

import pytest

from tests.service import steps
from tests.service.product_caches import use_caches
from tests.service.product_gateway import Gateway
from tests.service.product_runner import Place
from tests.service.product_values import BEGIN, TICK, delivery_of
from tests.service.steps import Death, Item, Limits, PublishAnswer, Queue, QueueName, SubscribeAnswer
from tidegate.broker.backup import back_up
from tidegate.broker.restore import restore
from tidegate.model import micros
from tidegate.runs import maintenance
from tidegate.stages import log_planner
from tidegate.store.cursors import Cursors
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log_rows import LogRows
from tidegate.store.principals import Principals
from tidegate.store.queue_reader import QueueReader
from tidegate.store.registry import Registry


class Runner(Protocol):
    """A runner of a data directory as scripts use it: it starts when it has something to do."""

    def start(self) -> None: ...

    def finish(self) -> None:
        """Run the batch again that it was killed in, if there is one."""

    def cut(self, dies: Death | None, choose: Callable[[tuple[Place, ...]], Place]) -> None:
        """Finish, then run a batch with all that there is; it dies at one of the places, if it dies."""

    def tidy(self) -> None:
        """Do what the maintenance thread does."""

    def kill(self) -> None: ...


class Product:
    """The product with a runner, in data directories below one directory."""

    def __init__(self, directory: Path, name: str, runner: Callable[[DataDirectory, Registry, float], Runner]) -> None:
        self.directory, self.name, self.made_runner = directory, name, runner
        self.processes = ExitStack()
        self.clock, self.places = 0, 0

    def now(self) -> int:
        return micros(BEGIN + self.clock * TICK)

    @contextmanager
    def used(self) -> Iterator["Product"]:
        """While it is used the time of day is the script's; in the end all processes are killed."""
        with pytest.MonkeyPatch.context() as patch, ExitStack() as ends:
            patch.setattr(log_planner, "time_ns", lambda: self.now() * 1000)
            patch.setattr(maintenance, "now", self.now)
            use_caches(patch)
            ends.callback(self.kill)
            yield self

    def begin(self, limits: Limits) -> None:
        self.limits, self.random = limits, Random(0)
        self.data = DataDirectory.made(shutil.copytree(empty(self.name).name, self.next_place()), self.name)
        self.data.know_for(limits.horizon * TICK)
        self.start()

    def next_place(self) -> Path:
        self.places += 1
        return self.directory / str(self.places)

    def start(self) -> None:
        with ExitStack() as started:
            data = self.data
            self.registry = started.enter_context(Registry(data.registry))
            self.runner = self.made_runner(data, self.registry, self.limits.lateness * TICK.total_seconds())
            started.callback(self.runner.kill)
            self.runner.start()
            self.gateway = started.enter_context(Gateway(data, self.registry, self.limits, self.now))
            self.reader = started.enter_context(QueueReader(data.queues))
            self.rows = started.enter_context(LogRows(data.log))
            self.processes = started.pop_all()

    def kill(self) -> None:
        self.processes.close()

    # What clients ask

    def publish(self, step: steps.Publish) -> tuple[PublishAnswer, ...]:
        return self.gateway.publish(step)

    def unpublish(self, step: steps.Unpublish) -> bool:
        return self.gateway.unpublish(step)

    def subscribe(self, step: steps.Subscribe) -> SubscribeAnswer:
        return self.gateway.subscribe(step)

    def unsubscribe(self, step: steps.Unsubscribe) -> bool:
        return self.gateway.unsubscribe(step)

    def set_read(self, step: steps.SetRead) -> None:
        self.gateway.set_read(step)

    def register(self, step: steps.Register) -> None:
        self.gateway.register(step)

    def unregister(self, step: steps.Unregister) -> bool:
        return self.gateway.unregister(step)

    def read(self, step: steps.Read) -> tuple[Item, ...]:
        return self.gateway.read(step)

    # The clock, the runner and backups

    def advance(self, step: steps.Advance) -> None:
        self.clock += step.ticks

    def maintain(self, step: steps.Maintain) -> None:
        self.runner.tidy()

    def cut(self, step: steps.Cut) -> None:
        self.runner.cut(step.dies, self.random.choice)

    def restart(self, step: steps.Restart) -> None:
        self.kill()
        self.start()
        self.runner.finish()

    def backup(self, step: steps.Backup) -> None:
        self.backed_up = self.next_place()
        back_up(self.data, self.backed_up)

    def restore(self, step: steps.Restore) -> None:
        self.kill()
        self.data = restore(self.backed_up, self.next_place()).data
        self.start()

    # What is in queues

    def queues(self) -> Mapping[QueueName, Queue]:
        self.reader.refresh()
        found = {}
        for queue in self.reader:
            entries = self.reader.read(queue, 0, 1_000_000).deliveries
            rows = sorted({entry.row for entry in entries})
            contents = dict(zip(rows, self.rows.publications(rows), strict=True)) if rows else {}
            told = tuple(delivery_of(entry, contents) for entry in entries)
            found[queue.principal, queue.destination] = Queue(queue.epoch, told)
        return found


@cache
def empty(name: str) -> "TemporaryDirectory[str]":
    """A data directory of a runner with the tables of its databases, which take a while to make."""
    made = TemporaryDirectory()
    data = DataDirectory.made(made.name, name)
    with Registry(data.registry) as registry, Principals(registry), Cursors(data.cursors):
        return made
