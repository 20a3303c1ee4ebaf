"""What a snapshot of an engine says of its shards of patterns, beside their arrays: a typed record with a format.

``PatternShards`` writes a ``ShardsRecord`` in ``save`` and reads it in ``load``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from tidegate.errors import SnapshotError

__all__ = ["ShardsRecord"]

_FILE = "shards.json"
#: The format that this Tidegate writes. In format 1 publications and events were known by their ids alone; it is read
#: where there are no patterns that remember any. In format 2 publications had no rows; it is read all the same.
_FORMAT = 3


@dataclass(frozen=True, slots=True)
class ShardsRecord:
    """How patterns are spread and how far their clock is. Times are in microseconds since 1970."""

    lateness: int
    shards: int | None = None
    clock: int | None = None
    """The moment up to which everything has been processed; None before the first publication appeared."""
    calls: int = 0
    """How many batches have appeared."""
    now: int | None = None
    """The time that ``Engine.advance`` was last given."""
    late: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write it to a snapshot."""
        (directory / _FILE).write_bytes(orjson.dumps({"format": _FORMAT, **asdict(self)}))

    @staticmethod
    def read(directory: Path) -> ShardsRecord:
        """Read that of a snapshot."""
        facts = orjson.loads((directory / _FILE).read_bytes())
        form = facts.pop("format")
        if form not in (2, _FORMAT) and (form != 1 or (directory / "patterns").exists()):
            raise SnapshotError(f"the patterns of a snapshot in format {_FORMAT}", f"format {form}", str(directory))
        return ShardsRecord(**facts)
