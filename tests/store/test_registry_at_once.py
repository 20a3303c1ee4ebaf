"""Many change the registry at once, some are killed: whoever reads version v sees the subscriptions of version v."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import tidegate as tg
from tidegate.store import Registry

WRITERS = 3
ROUNDS = 12


def made(*ids: str) -> list[tg.Subscription]:
    return [tg.Subscription(id, "ann", "a > 1") for id in ids]


def active(registry: Registry, version: int) -> set[str]:
    return {r.id for r in registry.rows(0, version) if r.until is None or version < r.until}


def replayed(changes: dict[int, tuple[str, str]], version: int) -> set[str]:
    """The oracle: the changes one after the other."""
    there = set[str]()
    for number in range(1, version + 1):
        sign, id = changes[number]
        (there.add if sign == "+" else there.remove)(id)
    return there


class Crowd:
    """Threads that subscribe, unsubscribe and read, until the writers are done; what they did and what they saw."""

    def __init__(self, registries: list[Registry]) -> None:
        self.changes: dict[int, tuple[str, str]] = {}
        self.seen: list[tuple[int, set[str]]] = []
        self.failures: list[BaseException] = []
        writers = [
            threading.Thread(target=self.guarded, args=(self.write, registries[i % len(registries)], i))
            for i in range(WRITERS)
        ]
        self.is_done = False
        reader = threading.Thread(target=self.guarded, args=(self.read, registries[-1]))
        for thread in (*writers, reader):
            thread.start()
        for thread in writers:
            thread.join()
        self.is_done = True
        reader.join()

    def guarded(self, work, *arguments) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self.failures.append(error)

    def note(self, sign: str, ids: list[str], version: int) -> None:
        for number, id in enumerate(ids, version - len(ids) + 1):
            assert number not in self.changes, "two changes of one version"
            self.changes[number] = sign, id

    def write(self, registry: Registry, writer: int) -> None:
        choice = random.Random(writer)
        mine: list[str] = []
        for turn in range(ROUNDS):
            if mine and choice.random() < 0.4:
                choice.shuffle(mine)
                ids = [mine.pop() for _ in range(choice.randint(1, len(mine)))]
                self.note("-", ids, registry.unsubscribe(*(f"ann/{id}" for id in ids)))
            else:
                ids = [f"{writer}.{turn}.{i}" for i in range(choice.choice([1, 1, 3, 20]))]
                self.note("+", ids, registry.subscribe(*made(*ids)))
                mine += ids

    def read(self, registry: Registry) -> None:
        while not self.is_done:
            version = registry.version
            self.seen.append((version, active(registry, version)))
            assert [(v, u) for v, u in registry.ended(0, version) if u > version] == []


@pytest.mark.contract
def test_readers_see_every_version_whole(url):
    with Registry(url) as one, Registry(url) as two:
        crowd = Crowd([one, two])
        assert not crowd.failures
        last = one.version
        assert sorted(crowd.changes) == list(range(1, last + 1))
        assert len(crowd.seen) > 1
        for version, seen in crowd.seen:
            assert seen == replayed(crowd.changes, version), version
        for version in range(0, last + 1, 5):
            assert active(one, version) == replayed(crowd.changes, version), version
        assert len(one) == len(replayed(crowd.changes, last))


@pytest.mark.contract
def test_only_one_gets_an_id(url):
    outcomes: list[str] = []

    def tries(registry: Registry) -> None:
        try:
            registry.subscribe(*made("before" + threading.current_thread().name, "same"))
            outcomes.append("taken")
        except tg.SubscriptionError:
            outcomes.append("refused")

    with Registry(url) as one, Registry(url) as two:
        threads = [threading.Thread(target=tries, args=((one, two)[i % 2],)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["refused"] * 5 + ["taken"]
        assert (one.version, len(two)) == (2, 2)


def test_all_get_the_pin_of_the_first(url):
    pinned: set[int] = set()

    def pins(registry: Registry, number: int) -> None:
        registry.subscribe(*made(f"s{number}"))
        pinned.add(registry.pin("q", 1))

    with Registry(url) as one, Registry(url) as two:
        threads = [threading.Thread(target=pins, args=((one, two)[i % 2], i)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pinned == {one.pin("q", 1)}


@pytest.mark.contract
def test_pruning_never_takes_what_was_just_pinned(url):
    """Each pin is checked against all subscriptions of its version, while others end and are deleted."""
    failures: list[object] = []
    is_done = threading.Event()

    def churns(registry: Registry) -> None:
        try:
            for i in range(15):
                registry.subscribe(*made(f"s{i}"))
                registry.unsubscribe(f"ann/s{i}")
                registry.prune()
        except BaseException as error:
            failures.append(error)
        finally:
            is_done.set()

    with Registry(url) as one, Registry(url) as two:
        one.subscribe(*made("always"))
        churning = threading.Thread(target=churns, args=(one,))
        churning.start()
        batch = 0
        while not is_done.is_set():
            version = two.pin("q", batch)
            # Version 1 is "always"; then odd changes subscribe and even ones (3, 5, …) end it again.
            expected = {"always"} | ({f"s{version // 2 - 1}"} if version % 2 == 0 else set())
            if active(two, version) != expected:
                failures.append((version, active(two, version), expected))
            assert two.oldest_kept <= version
            batch += 3  # drops the pin before it
        churning.join()
    assert not failures


VICTIM = """
import sys, tidegate as tg
from tidegate.store import Registry
registry = Registry(sys.argv[1])
print("ready", flush=True)
for turn in range(10_000):
    ids = [f"{turn}.{i}" for i in range(200)]
    registry.subscribe(*[tg.Subscription(id, "ann", True) for id in ids])
    if turn % 2:
        registry.unsubscribe(*(f"ann/{id}" for id in ids))
"""


@pytest.mark.contract
def test_a_killed_process_leaves_all_or_none(url):
    with Registry(url) as registry:
        victim = subprocess.Popen([sys.executable, "-c", VICTIM, url], stdout=subprocess.PIPE)
        try:
            assert victim.stdout.readline() == b"ready\n"
            deadline = time.monotonic() + 60
            while not registry.version and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(random.uniform(0, 0.3))
        finally:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()
        version = registry.version
        assert version > 0
        assert version % 200 == 0
        rows = list(registry.rows(0, version))
        turns = {row.id.split(".")[0] for row in rows}
        assert len(rows) == 200 * len(turns)
        for turn in turns:
            ended = {row.until is not None for row in rows if row.id.startswith(f"{turn}.")}
            assert len(ended) == 1, turn
        assert version == len(rows) + len(registry.ended(0, version))
        assert registry.subscribe(*made("next")) == version + 1  # and nobody has to wait for the dead
