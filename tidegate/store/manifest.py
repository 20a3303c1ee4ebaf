"""Manifests of a shelf: which layers stand for which versions. Small files that are read often, and by processes that
should start fast; so nothing is imported here that matching needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from tidegate.store.place import Place

__all__ = ["Ended", "Manifest", "Named", "current", "file_name", "serials"]


@dataclass(frozen=True, slots=True)
class Ended:
    """Subscriptions of a layer that have ended: their numbers in it, and the versions of their ends."""

    numbers: Sequence[int] = ()
    versions: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """A layer of a manifest: its directory, how many subscriptions it holds, and which of them have ended."""

    name: str
    count: int
    ended: Ended


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the shelf held at one moment: its layers stand for every version from ``oldest`` to ``version``."""

    serial: int
    oldest: int
    version: int
    layers: tuple[Named, ...]

    def covers(self, oldest: int, version: int) -> bool:
        """Whether it can answer for all these versions."""
        return self.oldest <= oldest and version <= self.version

    def to_json(self) -> bytes:
        layers = [[x.name, x.count, list(x.ended.numbers), list(x.ended.versions)] for x in self.layers]
        return orjson.dumps({"oldest": self.oldest, "version": self.version, "layers": layers})

    @staticmethod
    def from_json(serial: int, data: bytes) -> Manifest:
        facts = orjson.loads(data)
        layers = tuple(Named(name, count, Ended(numbers, at)) for name, count, numbers, at in facts["layers"])
        return Manifest(serial, facts["oldest"], facts["version"], layers)


def current(place: Place) -> Manifest | None:
    """The newest manifest at a place."""
    for serial in sorted(serials(place), reverse=True):
        data = place.read(file_name(serial))
        if data is not None:
            return Manifest.from_json(serial, data)
    return None


def serials(place: Place) -> list[int]:
    """The numbers of the manifests there are."""
    names = place.names()
    return [int(name[9:-5]) for name in names if name.startswith("manifest-") and name.endswith(".json")]


def file_name(serial: int) -> str:
    """The file of a manifest."""
    return f"manifest-{serial:012d}.json"
