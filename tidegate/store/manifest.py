"""Manifests of index layers: which layers stand for which versions.

``IndexLayers`` writes a ``Manifest``; Spark's source of the log and the workers read it. They are small files that are
read often, and by processes that should start fast, so this module imports nothing that matching needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate import checked_json
from tidegate.errors import StoreError
from tidegate.store.storage import Storage

__all__ = ["Manifest", "ManifestLayer", "current", "file_name", "serials"]


#: The format of the file. Layers of format 3 do not say which subscriptions want what has expired, in those of format 2
#: subscriptions had other ids, and format 1 had no checksum either: a manifest of these is read as one without layers,
#: so that all are made again.
_FORMAT = 4
_CHECKED_FROM, _BEFORE = 2, 1


@dataclass(frozen=True, slots=True)
class ManifestLayer:
    """A layer of a manifest: its directory, how many subscriptions it holds, which of them have ended, and when.

    ``ended`` has numbers of subscriptions in the layer, ``ended_at`` the version at which each of them ended.
    """

    name: str
    count: int
    ended: Sequence[int] = ()
    ended_at: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The layers of a storage at one moment: they stand for every version from ``oldest`` to ``version``."""

    serial: int
    oldest: int
    version: int
    layers: tuple[ManifestLayer, ...]

    def covers(self, oldest: int, version: int) -> bool:
        """Whether its layers stand for all these versions."""
        return self.oldest <= oldest and version <= self.version

    def to_json(self) -> bytes:
        layers = [[x.name, x.count, list(x.ended), list(x.ended_at)] for x in self.layers]
        facts = {"format": _FORMAT, "oldest": self.oldest, "version": self.version, "layers": layers}
        return checked_json.packed(facts)

    @staticmethod
    def from_json(serial: int, data: bytes) -> Manifest:
        try:
            facts = checked_json.unpacked(data, checked_from=_CHECKED_FROM)
            form = facts.get("format", _BEFORE)
            if form in range(_BEFORE, _FORMAT):
                return Manifest(serial, 0, 0, ())
            if form != _FORMAT:
                raise StoreError(f"a manifest of format {_FORMAT}", f"format {form}", file_name(serial))
            layers = tuple(ManifestLayer(*layer) for layer in facts["layers"])
            return Manifest(serial, facts["oldest"], facts["version"], layers)
        except (ValueError, KeyError, TypeError) as error:
            got = f"{type(error).__name__}: {error}"
            raise StoreError("a manifest of index snapshots", got, file_name(serial)) from None


def current(place: Storage) -> Manifest | None:
    """The newest manifest of a storage; None if there is none."""
    for serial in sorted(serials(place), reverse=True):
        data = place.read(file_name(serial))
        if data is not None:
            try:
                return Manifest.from_json(serial, data)
            except StoreError as error:
                error.at = f"{error.at} of {place}"
                raise
    return None


def serials(place: Storage) -> list[int]:
    """The serial numbers of the manifests in a storage."""
    names = place.names()
    return [int(name[9:-5]) for name in names if name.startswith("manifest-") and name.endswith(".json")]


def file_name(serial: int) -> str:
    """The name of the file of a manifest."""
    return f"manifest-{serial:012d}.json"
