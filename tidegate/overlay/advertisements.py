"""Which sensors a node has heard of, and in which direction they are (DSA, Figure 2 of Jurca et al.)."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.overlay.messages import Advertise
from tidegate.overlay.operators import Part

__all__ = ["Advertisements"]


class Advertisements:
    """Advertisements by whom they came from: a neighbour, or ``LOCAL``. A sensor is in one direction only."""

    def __init__(self) -> None:
        self._by_direction: dict[str, dict[str, Advertise]] = {}
        self._direction: dict[str, str] = {}
        self._of_attribute: dict[str, dict[str, Advertise]] = {}

    def __getitem__(self, direction: str) -> dict[str, Advertise]:
        return self._by_direction[direction]

    def get(self, source: str) -> Advertise | None:
        """What is known of a sensor."""
        direction = self._direction.get(source)
        return None if direction is None else self._by_direction[direction][source]

    def direction(self, source: str) -> str | None:
        """Where a sensor is."""
        return self._direction.get(source)

    def __iter__(self) -> Iterator[tuple[str, Advertise]]:
        """Directions and the sensors there."""
        for direction, known in self._by_direction.items():
            for advertised in known.values():
                yield direction, advertised

    def meet(self, direction: str) -> None:
        """A neighbour that is new."""
        self._by_direction[direction] = {}

    def leave(self, direction: str) -> None:
        """A neighbour that has gone, and had no sensors left."""
        del self._by_direction[direction]

    def add(self, direction: str, advertised: Advertise) -> None:
        """A sensor that was not known before."""
        self._by_direction[direction][advertised.source] = advertised
        self._direction[advertised.source] = direction
        self._of_attribute.setdefault(advertised.attribute, {})[advertised.source] = advertised

    def remove(self, source: str) -> Advertise:
        """A sensor that was known."""
        advertised = self._by_direction[self._direction.pop(source)].pop(source)
        del self._of_attribute[advertised.attribute][source]
        return advertised

    def addressed(self, part: Part) -> list[Advertise]:
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

    def directions(self, part: Part) -> set[str]:
        """Where there are sensors for a part."""
        return {self._direction[found.source] for found in self.addressed(part)}
