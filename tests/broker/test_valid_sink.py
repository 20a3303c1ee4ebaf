"""Initial matches, retractions, and queues that come and go: the sink against obvious loops over what was done."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.test_process_run import killed
from tests.broker.valid_world import ValidWorld, expected
from tests.parts.profiles import examples
from tidegate.runs.queue_sink import QueueSink
from tidegate.store import queues as queues_module
from tidegate.store import valid_set
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues
from tidegate.store.valid_set import ValidSet
from tidegate.store.withdrawn_rows import WithdrawnFile

#: Where a run may be killed, beside the places of every run.
_PLACES = (
    (Queues, "commit"),
    (QueueSink, "commit"),
    (ValidSet, "settle"),
    (ValidSet, "_write"),
    (WithdrawnFile, "add"),
)


def small(patch, random):
    """Files of few publications, which are merged soon; what was reached is written down now and then."""
    patch.setattr(valid_set, "_ROWS", random.choice([3, 10, 1000]))
    patch.setattr(valid_set, "_FILES", 2)
    patch.setattr(valid_set, "_SOME", 2)
    patch.setattr(valid_set, "_EVERY", random.choice([-1.0, 1000.0]))
    patch.setattr(queues_module, "_FRAMES", random.choice([2, 64]))


@given(seed=st.integers(0, 1 << 32))
@examples(10)
def test_queues_have_what_obvious_loops_say(tmp_path_factory, seed):
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        small(patch, random)
        world = ValidWorld(tmp_path_factory.mktemp("world"), random, patch)
        steps = [world.publish] * 4 + [world.subscribe] * 3 + [world.unpublish, world.tick] * 2
        steps += [world.unsubscribe, world.register, world.unregister]
        for _ in range(random.randrange(3, 8)):
            for _ in range(random.randrange(1, 8)):
                random.choice(steps)()
            with pytest.MonkeyPatch.context() as death:
                if random.random() < 0.5:
                    death.setattr(ValidSet, "write", lambda self: None)  # as where a process is killed
                while not killed(death, random, world, random.choice([2, 7, 65_536]), _PLACES):
                    pass
        assert world.run(random.choice([2, 65_536]))
        assert world.delivered() == expected(world.notes)


@pytest.fixture
def world(tmp_path, monkeypatch):
    return ValidWorld(tmp_path, Random(1), monkeypatch)


def test_nothing_is_told_of_who_was_unregistered_also_if_registered_again(world):
    """All in one batch: what the first subscription matched is not for the queue that was made afterwards."""
    world.random.choice = lambda some: some[0]  # ann, stream, n >= 0
    world.random.random = lambda: 1.0  # neither initial nor expired
    world.subscribe()
    world.publish(1)
    world.notes.rows[0].n = 1
    world.log.append({"id": "q", "source": "x", "time": "2026-11-15T08:00:00Z", "n": 1})
    world.unregister()
    world.subscribe()
    assert world.run()
    assert world.delivered() == {("ann", "stream"): []}


def test_an_unregistered_principal_has_another_epoch_afterwards(world):
    def queue():
        with QueueReader(world.directory / "queues") as reader:
            return reader.find("ann", "stream")

    world.random.choice = lambda some: some[0]
    world.register()
    assert world.run()
    before = queue()
    world.unregister()
    assert world.run()
    assert queue() is None
    world.register()
    assert world.run()
    assert queue().epoch != before.epoch
    assert queue().since == 3
