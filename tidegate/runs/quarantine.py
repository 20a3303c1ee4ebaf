"""The quarantine: rows that are no publications, kept with the reason, so that one of them never stops a query.

A task writes the faults of its part of a batch to a file of its own, under a name that a retry of the task gives
again: what was written before is replaced, not repeated.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import orjson

from tidegate.rejected_row import QuarantinedRow
from tidegate.store.storage import Storage, storage_at

__all__ = ["Quarantine"]


@dataclass(frozen=True)
class Quarantine:
    """Files of JSON Lines, ``batch-…-part-….jsonl``, at a path or URL; ``query`` keeps queries that share it apart."""

    location: str
    query: str = ""

    @staticmethod
    def at(location: str | os.PathLike[str], query: str = "") -> Quarantine:
        return Quarantine(os.fspath(location), query)

    @cached_property
    def _storage(self) -> Storage:
        return storage_at(self.location)

    def keep(self, batch: int, part: int, faults: Sequence[QuarantinedRow]) -> None:
        """Write the faults of one part of a batch, in place of what an earlier attempt wrote."""
        lines = [orjson.dumps({"reason": f.reason, "row": f.row}, option=orjson.OPT_APPEND_NEWLINE) for f in faults]
        self._storage.write(f"{self._prefix(batch)}part-{part:05d}.jsonl", b"".join(lines))

    def begin(self, batch: int) -> None:
        """Remove what an earlier run of this batch left: that run may have cut it into more parts."""
        for name in self._storage.names():
            if name.startswith(self._prefix(batch)):
                self._storage.remove(name)

    def faults(self) -> list[QuarantinedRow]:
        """All rows in the quarantine, in the order of batches; those of all queries if this one has no name."""
        found = []
        for name in sorted(self._storage.names()):
            if (not self.query or name.startswith(self._batches)) and name.endswith(".jsonl"):
                lines = (self._storage.read(name) or b"").splitlines()
                found += [QuarantinedRow(**orjson.loads(line)) for line in lines]
        return found

    def page(self, after: str = "", limit: int = 100) -> list[tuple[str, QuarantinedRow]]:
        """Rows in that order, those behind a place: each with its place, which is the name of its file and its line."""
        name, _, digits = after.rpartition(":")
        begin = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0
        found: list[tuple[str, QuarantinedRow]] = []
        for file in sorted(self._storage.names()):
            if file < name or not file.endswith(".jsonl") or (self.query and not file.startswith(self._batches)):
                continue
            lines = (self._storage.read(file) or b"").splitlines()
            for number in range(begin if file == name else 0, len(lines)):
                if len(found) == limit:
                    return found
                found.append((f"{file}:{number + 1}", QuarantinedRow(**orjson.loads(lines[number]))))
        return found

    def _prefix(self, batch: int) -> str:
        return f"{self._batches}{batch:012d}-"

    @property
    def _batches(self) -> str:
        return f"{self.query}-batch-" if self.query else "batch-"
