"""Which sensors a node has heard of, and in which direction they are (DSA, Figure 2 of Jurca et al.)."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.overlay.messages import Announce
from tidegate.overlay.operators import OperatorPart

__all__ = ["Announcements"]


class Announcements:
    """Announcements by whom they came from: a neighbour, or ``LOCAL``. A sensor is in one direction only."""

    def __init__(self) -> None:
        self._by_direction: dict[str, dict[str, Announce]] = {}
        self._direction: dict[str, str] = {}
        self._of_attribute: dict[str, dict[str, Announce]] = {}

    def __getitem__(self, direction: str) -> dict[str, Announce]:
        return self._by_direction[direction]

    def get(self, source: str) -> Announce | None:
        """What is known of a sensor."""
        direction = self._direction.get(source)
        return None if direction is None else self._by_direction[direction][source]

    def direction(self, source: str) -> str | None:
        """Where a sensor is."""
        return self._direction.get(source)

    def __iter__(self) -> Iterator[tuple[str, Announce]]:
        """Directions and the sensors there."""
        for direction, known in self._by_direction.items():
            for announced in known.values():
                yield direction, announced

    def meet(self, direction: str) -> None:
        """A neighbour that is new."""
        self._by_direction[direction] = {}

    def leave(self, direction: str) -> None:
        """A neighbour that has gone, and had no sensors left."""
        del self._by_direction[direction]

    def add(self, direction: str, announced: Announce) -> None:
        """A sensor that was not known before."""
        self._by_direction[direction][announced.source] = announced
        self._direction[announced.source] = direction
        self._of_attribute.setdefault(announced.attribute, {})[announced.source] = announced

    def remove(self, source: str) -> Announce:
        """A sensor that was known."""
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
        """Where there are sensors for a part."""
        return {self._direction[found.source] for found in self.addressed(part)}
