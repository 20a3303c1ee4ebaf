"""What the bench of queues delivers: which publication goes to whom, in batches, and what each queue must then have.

Each publication goes to ``FAN_OUT`` principals. In a *round* every principal gets one delivery, in an order of
the round's own: place q of round r is that of principal (a·q + c) mod n, with a and c drawn for the round. So what a
principal must have is computed from the drawn numbers alone, without looking at what was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription
from tidegate.store.queues import Told

__all__ = ["BEGIN", "FAN_OUT", "Deliveries", "DeliveryBatch", "Stored", "meaning", "subscription_name"]

#: Principals that a publication goes to, and when the first batch was matched (µs since 1970).
FAN_OUT, BEGIN = 100, 1_767_225_600_000_000
#: Of so many deliveries one was matched by both subscriptions of its principal, the others by the first alone.
_BOTH = 10


class Stored(NamedTuple):
    """A delivery as a storage gives it back."""

    number: int
    row: int
    matched_at: int
    subscriptions: tuple[int, ...]


class DeliveryBatch(NamedTuple):
    """What a batch delivers, in the order of the publications: element i of an array is one delivery."""

    number: int
    time: int
    queue: NDArray[np.int32]
    """By principal: queue i is that of principal i."""
    row: NDArray[np.int64]
    both: NDArray[np.bool_]
    """Whether both subscriptions matched."""
    told: Told
    """The same as the queues are told, with a pair of publication and subscription for each match."""


def _told(queue: NDArray[np.int32], row: NDArray[np.int64], both: NDArray[np.bool_]) -> Told:
    rows, thing = np.unique(row, return_inverse=True)
    match = np.repeat(np.arange(len(queue)), 1 + both)
    is_second = np.zeros(len(match), np.bool_)
    is_second[1:] = match[1:] == match[:-1]
    kinds = np.full(len(rows), DeliveryKind.PUBLICATION, np.uint8)
    return Told(kinds, rows, {}, thing[match], 2 * queue[match].astype(np.int64) + 1 + is_second, queue[match])


@dataclass(frozen=True)
class Deliveries:
    """Deliveries to so many principals, each of which gets ``rounds``, in batches of ``batch``."""

    principals: int
    rounds: int
    batch: int
    seed: int

    @property
    def count(self) -> int:
        return self.principals * self.rounds

    @property
    def batches(self) -> int:
        return self.count // self.batch

    @property
    def publications(self) -> int:
        return self.count // FAN_OUT

    @cached_property
    def _orders(self) -> list[tuple[int, int]]:
        """The factor and the shift of each round. A factor has no divisor in common with the principals."""
        rng = np.random.default_rng(self.seed)
        drawn = rng.integers(0, self.principals, (20 * self.rounds, 2))
        coprime = drawn[np.gcd(drawn[:, 0], self.principals) == 1][: self.rounds]
        assert len(coprime) == self.rounds
        return [(a, c) for a, c in coprime.tolist()]

    def at(self, number: int) -> DeliveryBatch:
        """A batch by its number, from 0."""
        place = np.arange(number * self.batch, (number + 1) * self.batch)
        orders = np.array(self._orders)[place // self.principals]
        queue = ((orders[:, 0] * (place % self.principals) + orders[:, 1]) % self.principals).astype(np.int32)
        row, both = place // FAN_OUT, place % _BOTH == 0
        return DeliveryBatch(number, BEGIN + number, queue, row, both, _told(queue, row, both))

    def after(self, number: int) -> DeliveryBatch:
        """A batch with one delivery, to principal 0."""
        queue, row, both = np.zeros(1, np.int32), np.array([self.publications - 1]), np.zeros(1, np.bool_)
        return DeliveryBatch(number, BEGIN + number, queue, row, both, _told(queue, row, both))

    def expected(self, principal: int) -> list[Stored]:
        """What the queue of a principal must have."""
        found = []
        for r, (a, c) in enumerate(self._orders):
            place = r * self.principals + pow(a, -1, self.principals) * (principal - c) % self.principals
            first = 2 * principal + 1
            subscriptions = (first, first + 1) if place % _BOTH == 0 else (first,)
            found.append(Stored(r + 1, place // FAN_OUT, BEGIN + place // self.batch, subscriptions))
        return found


def subscription_name(subscription: int) -> str:
    """The id of a subscription."""
    return f"subscription-{subscription}"


def meaning(subscription: int) -> bytes:
    """What a subscription means, as the queues keep it."""
    return MatchedSubscription(subscription_name(subscription), "all").packed()
