"""What a shard of patterns remembers beside its arrays: a typed record with a version, so that it survives a restart.

``Arrays`` writes it with every snapshot and every published state and reads it back. Knows nothing of arrays or files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from tidegate.errors import SnapshotError

__all__ = ["ShardFacts"]

_VERSION = 1


@dataclass(slots=True)
class ShardFacts:
    """The facts of one shard, and what its families count."""

    clock: int | None = None
    """The moment up to which everything has been processed; None before the first publication appeared."""
    late: int = 0
    """Publications that came too late for patterns."""
    newest: int | None = None
    """The time of the newest publication that appeared; only the combine step on Spark uses it."""
    wall: int | None = None
    """The last time of day that a source gave; only the combine step on Spark uses it."""
    token: str | None = None
    """The token that names the state of this process's arrays; only the combine step on Spark uses it."""
    columns: list[list[Any]] = field(default_factory=list)
    """The columns of values in memory, each as ``Column.plain`` gives it."""
    kept_items: int = 0
    """Publications that were left when memory was last cleared of what no window reaches."""
    kept_pairs: int = 0
    """Pairs of a publication and a filter that were left then."""
    counts: dict[str, int] = field(default_factory=dict)
    """What families count, by a name that no other family has."""
    topk_forms: list[str] = field(default_factory=list)
    """The forms of ``TopK``, as its arrays number them."""
    born: int | None = None
    """The version of the first subscription of ``Past``; publications that appeared before it are not remembered."""
    remembers: bool = False
    """Whether ``Past`` has a history, so that subscriptions see what was remembered before they were made."""
    refused: dict[str, int] = field(default_factory=dict)
    """How many publications could not be part of an event (an END without its START, say), by reason."""

    def count(self, name: str, more: int) -> None:
        """Count some more."""
        self.counts[name] = self.counts.get(name, 0) + more

    def to_json(self) -> dict[str, Any]:
        """The facts as a JSON value, which ``from_json`` reads back. Lists and dictionaries are shared, not copied."""
        return {"version": _VERSION, **{each.name: getattr(self, each.name) for each in fields(self)}}

    @staticmethod
    def from_json(told: Any) -> ShardFacts:
        """The facts that were written so; another version is refused."""
        if not isinstance(told, dict):
            raise SnapshotError("the facts of a shard as an object", type(told).__name__)
        if told.get("version") != _VERSION:
            raise SnapshotError(f"the facts of a shard in version {_VERSION}", f"version {told.get('version')}")
        try:
            return ShardFacts(**{name: value for name, value in told.items() if name != "version"})
        except TypeError as error:
            raise SnapshotError("the facts of a shard", str(error)) from None
