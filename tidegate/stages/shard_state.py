"""``ShardState``, what Spark's state store keeps for a shard of patterns, and the records that it consists of.

The state of a shard is small: the name of a snapshot, what was done in the batches since, and a token. A batch
(``StepRecord``) is the references to its parts (``shard_parts.py``), the name of the file that says which subscriptions
came and ended, and the settings it ran with. All of it is JSON with the version of its format, and survives a kill; a
state of another format is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tidegate import array_bundle
from tidegate.errors import StoreError
from tidegate.language.limits import DEFAULT_LIMITS
from tidegate.patterns import Standing
from tidegate.patterns.combine import KEEP

__all__ = ["FORMAT", "TOGETHER", "CombineSettings", "PartReference", "ShardChanges", "ShardState", "StepRecord"]

#: The format of the states that this Tidegate writes; it reads no other. It is raised with the semantics of checkpoints
#: too (``runs/checkpoint.py``): a query of ``tg.match`` has no other number that tells of them.
FORMAT = 3
#: The order of a part whose publications all appeared together, in no order.
TOGETHER = -1


@dataclass(frozen=True, slots=True)
class PartReference:
    """What one select task hands to one shard: the versions and times that appeared, and the file of its part.

    Versions and times move the clock of every shard, so each gets a reference even if it wants no publication.
    """

    order: int | None = None
    """The log's row of its first publication; TOGETHER if they have no order; None if there is no publication."""
    first: int | None = None
    """The time of the first of its publications."""
    versions: tuple[tuple[int, int], ...] = ()
    """The versions at which its publications appeared, each with the newest time among those of this version."""
    wall: int | None = None
    """The time of day that came with them, where the source has a clock."""
    file: str | None = None
    """The name of the part's file; None if no pattern of the shard wants any of the publications."""
    size: int = 0
    """Bytes of the file."""

    def to_json(self) -> bytes:
        return orjson.dumps(self)

    @staticmethod
    def from_json(data: bytes | str) -> PartReference:
        return _reference(orjson.loads(data))

    def between(self, begin: int, end: int) -> PartReference:
        """The same for the versions from one up to another; publications of others are still in the file."""
        return replace(self, versions=tuple(seen for seen in self.versions if begin <= seen[0] < end))

    def without_versions(self) -> PartReference:
        """The same for a batch in which no subscription came or ended: then only the newest time matters."""
        if not self.versions:
            return self
        return replace(self, versions=((self.versions[-1][0], max(top for _, top in self.versions)),))


@dataclass(frozen=True, slots=True)
class CombineSettings:
    """Settings of a run that notifications depend on. A later run of the same query may have others."""

    lateness: int
    """Microseconds."""
    combinations: int = DEFAULT_LIMITS.combinations
    keep: int = KEEP
    """How long events are remembered, in microseconds."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One batch of a shard, with all it takes to do it again."""

    parts: tuple[PartReference, ...]
    changes: str | None
    """The file with the ``ShardChanges`` of the batch; None if there were none."""
    settings: CombineSettings

    def brief(self) -> StepRecord:
        """The same without what repeating it does not need."""
        if self.changes is not None:
            return self
        return replace(self, parts=tuple(part.without_versions() for part in self.parts))


@dataclass(frozen=True, slots=True)
class ShardState:
    """What Spark's state store has under the key of a shard."""

    token: str | None = None
    """The token of the live arrays that belong to this state; None before the first batch."""
    version: int = -1
    """The version of the registry up to which the shard has admitted and ended subscriptions."""
    snapshot: str | None = None
    snapshot_size: int = 0
    steps: tuple[StepRecord, ...] = ()
    """The batches since the snapshot."""

    @property
    def size(self) -> int:
        """Bytes of the parts since the snapshot."""
        return sum(part.size for step in self.steps for part in step.parts)

    @property
    def files(self) -> set[str]:
        """The names of the files that the shard can be built from again."""
        names = [part.file for step in self.steps for part in step.parts]
        names += [step.changes for step in self.steps] + [self.snapshot]
        return {name for name in names if name is not None}

    def to_json(self) -> str:
        return orjson.dumps({"format": FORMAT, "state": self}).decode()

    @staticmethod
    def from_json(text: str) -> ShardState:
        try:
            whole = orjson.loads(text)
            if whole["format"] != FORMAT:
                raise StoreError(f"the state of a shard in format {FORMAT}", f"format {whole['format']}", "checkpoint")
            state = whole["state"]
            steps = tuple(
                StepRecord(
                    tuple(_reference(part) for part in step["parts"]),
                    step["changes"],
                    CombineSettings(**step["settings"]),
                )
                for step in state.pop("steps")
            )
            return ShardState(**state, steps=steps)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("the state of a shard", f"{type(error).__name__}: {error}", "checkpoint") from None


def _reference(plain: dict[str, Any]) -> PartReference:
    versions = tuple((version, top) for version, top in plain.pop("versions"))
    return PartReference(**plain, versions=versions)


@dataclass(frozen=True, slots=True)
class ShardChanges:
    """The subscriptions that come to a shard and end in a batch, so that it can be built again without a registry."""

    admitted: Sequence[Standing]
    ended: Sequence[tuple[int, int]]
    """The owners that ended, each with the version at which it did."""

    def packed(self) -> bytes:
        """As the bytes of a file."""
        admitted = [s._asdict() | {"filters": [key.hex() for key in s.filters]} for s in self.admitted]
        return array_bundle.packed({}, {"format": FORMAT, "admitted": admitted, "ended": self.ended})

    @staticmethod
    def unpacked(facts: dict[str, Any]) -> ShardChanges:
        """From what ``array_bundle`` reads of the file."""
        if facts.get("format") != FORMAT:
            raise StoreError(f"the changes of a shard in format {FORMAT}", f"{facts.get('format')}", "checkpoint")
        admitted = [
            Standing(**(plain | {"filters": [bytes.fromhex(key) for key in plain["filters"]]}))
            for plain in facts["admitted"]
        ]
        return ShardChanges(admitted, [(owner, version) for owner, version in facts["ended"]])
