"""``Announcements``: the sensors a node knows, and the neighbour they lie behind (DSA, Figure 2 of Jurca et al.).

``CorrelationRouting`` fills it from the messages ``Announce`` and ``Revoke``; ``Correlator`` reads it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.overlay.messages import Announce
from tidegate.overlay.operators import OperatorPart

__all__ = ["Announcements"]


class Announcements:
    """Announcements by direction, which is the neighbour they came from, or ``LOCAL`` for sensors at this node.

    Each sensor is in one direction only.
    """

    def __init__(self) -> None:
        self._by_direction: dict[str, dict[str, Announce]] = {}
        self._direction: dict[str, str] = {}
        self._of_attribute: dict[str, dict[str, Announce]] = {}

    def __getitem__(self, direction: str) -> dict[str, Announce]:
        return self._by_direction[direction]

    def get(self, source: str) -> Announce | None:
        """The announcement of a sensor, or None if it is not known."""
        direction = self._direction.get(source)
        return None if direction is None else self._by_direction[direction][source]

    def direction(self, source: str) -> str | None:
        """The neighbour that a sensor lies behind, or ``LOCAL``; None if it is not known."""
        return self._direction.get(source)

    def __iter__(self) -> Iterator[tuple[str, Announce]]:
        """Each known sensor's announcement, with its direction."""
        for direction, known in self._by_direction.items():
            for announced in known.values():
                yield direction, announced

    def meet(self, direction: str) -> None:
        """Add a neighbour as a direction."""
        self._by_direction[direction] = {}

    def leave(self, direction: str) -> None:
        """Remove a neighbour that has gone; all sensors behind it must have been removed before."""
        del self._by_direction[direction]

    def add(self, direction: str, announced: Announce) -> None:
        """Add a sensor that was not known before."""
        self._by_direction[direction][announced.source] = announced
        self._direction[announced.source] = direction
        self._of_attribute.setdefault(announced.attribute, {})[announced.source] = announced

    def remove(self, source: str) -> Announce:
        """Remove a sensor that was known, and return its announcement."""
        announced = self._by_direction[self._direction.pop(source)].pop(source)
        del self._of_attribute[announced.attribute][source]
        return announced

    def addressed(self, part: OperatorPart) -> list[Announce]:
        """The sensors whose readings can belong to a part."""
        of_attribute = self._of_attribute.get(part.attribute, {})
        if part.source is not None:
            found = of_attribute.get(part.source)
            return (
                [found] if found is not None and part.addresses(found.source, found.attribute, found.location) else []
            )
        return [
            found for found in of_attribute.values() if part.addresses(found.source, found.attribute, found.location)
        ]

    def directions(self, part: OperatorPart) -> set[str]:
        """The directions in which there are sensors whose readings can belong to a part."""
        return {self._direction[found.source] for found in self.addressed(part)}
