"""``Recipients``: to which queue each subscription is told, for the sink ``queues``.

Queues come and go with the versions of the registry: a principal has one for ``stream`` while it is registered, and one
for each other destination from the first subscription on that names it; all end when it is unregistered. What is told
of a subscription that was made before has no queue then, and is dropped. Knows nothing of publications.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.delivery_options import STREAM
from tidegate.store.delivery_records import MatchedSubscription
from tidegate.store.queues import Queues
from tidegate.store.registry import Registry

__all__ = ["NO_QUEUE", "Recipients"]

#: The number of the queue of a subscription that has none any more.
NO_QUEUE = -1
#: Recipients that are remembered at most, and asked for at a time.
_KNOWN, _AT_A_TIME = 2_000_000, 100_000
_LOG = logging.getLogger("tidegate")


class Recipients:
    """The queue of each subscription, and what its number means. Asks the registry once for each."""

    def __init__(self, registry: Registry, queues: Queues) -> None:
        self._registry, self._queues = registry, queues
        self._known: dict[int, tuple[int, bytes]] = {}
        self._ended = np.empty(0, np.int64)

    def follow(self, after: int, upto: int) -> None:
        """Make and end queues, as the registry has it after one version and up to another."""
        left: dict[str, int] = {}
        come: list[tuple[str, int]] = []
        for version, principal, is_registered in self._registry.registrations(after, upto):
            if is_registered:
                come.append((principal, version))
            else:
                left[principal] = version
        ended = [queue for queue in self._queues if queue.principal in left] if left else []
        for queue in ended:
            self._queues.end(queue)
        self._ended = np.append(self._ended, [queue.number for queue in ended])
        for principal, version in come:
            if version > left.get(principal, -1):
                self._queues.make(principal, STREAM, version)
        for first in range(after + 1, upto + 1, _AT_A_TIME):
            sinces = range(first, min(first + _AT_A_TIME, upto + 1))
            for since, recipient in self._registry.recipients(sinces).items():
                if since > left.get(recipient.subscriber, -1):
                    self._queues.make(recipient.subscriber, recipient.destination, since)

    def queues_of(self, sinces: NDArray[np.int64]) -> NDArray[np.int32]:
        """The number of the queue of each subscription, ``NO_QUEUE`` for one whose principal was unregistered since.

        Subscriptions are given by the versions that made them, up to the last that was followed.
        """
        wanted: list[int] = sinces.tolist()
        if new := [since for since in wanted if since not in self._known]:
            if len(self._known) > _KNOWN:
                self._known.clear()
                new = wanted
            self._learn(new)
        found = np.array([self._known[since][0] for since in wanted], np.int32)
        if len(self._ended):
            found[np.isin(found, self._ended)] = NO_QUEUE
        return found

    def _learn(self, sinces: Sequence[int]) -> None:
        found = self._registry.recipients(sinces)
        for since in sinces:
            recipient = found.get(since)
            if recipient is None:  # it ended so long ago that the registry has forgotten it
                _LOG.warning("what is told of the subscription of version %d is for nobody who is known", since)
                self._known[since] = NO_QUEUE, b""
                continue
            queue = self._queues.find(recipient.subscriber, recipient.destination)
            number = NO_QUEUE if queue is None or since < queue.since else queue.number
            meaning = MatchedSubscription(recipient.id, recipient.fields, recipient.expired)
            self._known[since] = number, meaning.packed()

    def meanings(self, sinces: Sequence[int]) -> list[bytes]:
        """What the numbers mean, of subscriptions whose queues were asked for."""
        return [self._known[since][1] for since in sinces]
