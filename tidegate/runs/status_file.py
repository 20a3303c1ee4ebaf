"""The numbers of a run as a file beside its checkpoint, so that other processes can show them.

``StatusWriter`` writes it once a second in ``tidegate run``; ``posted`` reads it for ``tidegate status``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import orjson

from tidegate.errors import StoreError, TidegateError
from tidegate.runs.status import StatusSnapshot
from tidegate.store.storage import storage_at

__all__ = ["PostedStatus", "StatusWriter", "posted"]

_NAME = "status.json"
#: Seconds between two writes, and between two looks for the first batch.
_EVERY, _SOON = 1.0, 0.05
#: Seconds without a write after which a run that says it is running cannot be running.
_STALE = 10.0
_ENDED = ("stopped", "failed", "done")


class StatusWriter:
    """A thread that writes what ``snapshot`` gives. A write that fails is skipped: it must not end the run."""

    def __init__(self, checkpoint: str, query: str, snapshot: Callable[[], StatusSnapshot]) -> None:
        self._storage, self._query, self._snapshot = storage_at(checkpoint), query, snapshot
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-status", daemon=True)

    def __enter__(self) -> StatusWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._post()

    def _run(self) -> None:
        has_batches, due = self._post(), monotonic() + _EVERY
        while not self._ending.wait(_EVERY if has_batches else _SOON):
            if has_batches or self._snapshot().batches or monotonic() >= due:  # who waits for the first is told at once
                has_batches, due = self._post(), monotonic() + _EVERY

    def _post(self) -> bool:
        """Write the numbers; whether there were batches."""
        numbers = self._snapshot()
        facts = {"at": datetime.now(UTC), "process": os.getpid(), "query": self._query, **asdict(numbers)}
        with suppress(TidegateError, OSError):
            self._storage.write(_NAME, orjson.dumps(facts))
        return numbers.batches > 0


@dataclass(frozen=True)
class PostedStatus:
    """What a run wrote last, and when."""

    at: datetime
    process: int
    query: str
    numbers: dict[str, Any]

    @property
    def is_stale(self) -> bool:
        """Whether the run says that it is running but has not written for a while."""
        age = (datetime.now(UTC) - self.at).total_seconds()
        return self.numbers["state"] not in _ENDED and age > _STALE


def posted(checkpoint: str) -> PostedStatus | None:
    """What the run of a checkpoint wrote last; None if there was none."""
    if "://" not in checkpoint and not os.path.isdir(checkpoint):
        return None  # ``storage_at`` would make the directory
    data = storage_at(checkpoint).read(_NAME)
    if data is None:
        return None
    try:
        numbers = orjson.loads(data)
        at = datetime.fromisoformat(numbers.pop("at"))
        return PostedStatus(at, numbers.pop("process"), numbers.pop("query"), {"state": "", **numbers})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        got = f"{type(error).__name__}: {error}"
        raise StoreError("the numbers of a run", got, f"{checkpoint}/{_NAME}") from None
