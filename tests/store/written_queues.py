"""Queues as tests write them, without a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tidegate.store import queues as queues_module
from tidegate.store.queues import Queues, Told

__all__ = ["NOTHING", "NOTIFICATION", "RETRACTED", "few_frames_are_merged", "filled", "meaning", "meanings", "told"]

NOTIFICATION, RETRACTED = 0, 2
NONE = np.empty(0, np.int64)
NOTHING = Told(NONE.astype(np.uint8), NONE, {}, NONE, NONE, NONE.astype(np.int32))


def meaning(number):
    return f"s{number} {'x' * (number % 7)}".encode()


def meanings(numbers):
    return [meaning(number) for number in numbers]


def told(things):
    """``things``: for each its kind, its row, what else there is to say, and its pairs (queue, subscription)."""
    pairs = [(i, s, queue.number) for i, (_, _, _, matched) in enumerate(things) for queue, s in matched]
    thing, subscription, queue = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Told(
        np.array([kind for kind, *_ in things], np.uint8),
        np.array([row for _, row, *_ in things], np.int64),
        {i: more for i, (_, _, more, _) in enumerate(things) if more},
        np.array(thing, np.int64),
        np.array(subscription, np.int64),
        np.array(queue, np.int32),
    )


@contextmanager
def few_frames_are_merged() -> Iterator[None]:
    """Three frames of a journal are merged already, and two files."""
    known = queues_module._FRAMES, queues_module._FILES
    queues_module._FRAMES, queues_module._FILES = 3, 2
    try:
        yield
    finally:
        queues_module._FRAMES, queues_module._FILES = known


def filled(directory, batches=10, queues=3):
    with Queues(directory) as writer:
        made = [writer.make(f"p{i}") for i in range(queues)]
        for batch in range(writer.last_batch + 1, batches):
            things = [(NOTIFICATION, batch * 10 + i, b"", [(q, q.number) for q in made]) for i in range(2)]
            writer.commit(batch, batch, told(things), meanings)
            writer.wait()
