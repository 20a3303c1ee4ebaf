"""Deliveries of one queue with the publications that they name, and how many of them are enough for a page.

Knows what publications are called in deliveries and how many bytes each has, and nothing of what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidegate.broker.read_filter import ReadFilter
from tidegate.store.delivery_records import DeliveryKind, PatternNotification
from tidegate.store.queue_frames import Delivery

__all__ = ["BESIDE", "NamedDeliveries", "PublicationName", "names_of"]

#: A publication as a delivery names it; see ``delivered_items``.
PublicationName = int | bytes | str
#: Bytes of an item beside the publications that it shows, about.
BESIDE = 200


def names_of(delivery: Delivery) -> tuple[PublicationName, ...]:
    """The publications that a delivery names."""
    if delivery.kind == DeliveryKind.PATTERN:
        return PatternNotification.unpacked(delivery.told).publications
    if delivery.kind == DeliveryKind.SKIPPED:
        return ()
    return (delivery.row if delivery.row >= 0 else delivery.told,)


class NamedDeliveries(NamedTuple):
    """Deliveries of a queue, what the reader may read, and the publications that they name; ``is_plain`` says whether
    each is of one row of the log.
    """

    deliveries: list[Delivery]
    read: ReadFilter | None
    names: set[PublicationName]
    is_plain: bool

    @staticmethod
    def of(deliveries: list[Delivery], read: ReadFilter | None) -> NamedDeliveries:
        names, is_plain = set[PublicationName](), True
        for delivery in deliveries:
            if delivery.kind == 0 and delivery.row >= 0:  # nearly all are so
                names.add(delivery.row)
            else:
                is_plain = False
                names.update(names_of(delivery))
        return NamedDeliveries(deliveries, read, names, is_plain)

    def within(self, sizes: Mapping[PublicationName, int], most: int) -> tuple[NamedDeliveries, int]:
        """The first of them, up to the one with which there are ``most`` bytes, about, and how many bytes there are."""
        size = 0
        for count, delivery in enumerate(self.deliveries, 1):
            size += BESIDE + sum(sizes[name] for name in names_of(delivery))
            if size >= most and count < len(self.deliveries):
                return NamedDeliveries.of(self.deliveries[:count], self.read), size
        return self, size
