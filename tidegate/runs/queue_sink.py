"""The sink ``queues``: writes what a batch tells into the queues of the principals that it is for.

The worker half sends references and no content: which row of the log was matched by which subscription, and what
patterns told of which rows. The driver half asks the registry whose subscriptions these are and where they are told,
adds what was valid before a subscription came (``initial_matches``) and what tombstones retract, orders everything
(``queue_order``), and has ``store/queues.py`` commit the batch. Who shows a delivery reads its row from the log. Where
the source is no log, content is sent along and kept with the delivery, and there is no valid set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import time_ns

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.runs.initial_matches import initial_matches
from tidegate.runs.queue_order import NO_MATCHES, SentReferences, told_of, with_retractions
from tidegate.runs.recipients import Recipients
from tidegate.runs.references import MatchReferences, RaisedReferences
from tidegate.runs.sinks import DriverSink, Notifications, Receipt, Receipts
from tidegate.store.delivery_records import rows_named
from tidegate.store.log import Log
from tidegate.store.queues import Queues
from tidegate.store.registry import Registry
from tidegate.store.valid_set import QUOTA, ValidSet, Withdrawal

__all__ = ["KEEP", "MOST", "VALID", "QueueSink"]

#: For how long, and how many of a queue, deliveries are kept if nothing else is said.
KEEP, MOST = timedelta(days=7), 100_000
#: The directory of the valid set, beside that of the queues.
VALID = "valid"
_MATCHED, _RAISED = "matched", "raised"


# --- the worker half ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class References:
    """The worker half: it sends references to the driver."""

    form: str = "references"

    def writer(self, batch: int, part: int) -> _ReferenceWriter:
        return _ReferenceWriter()


class _ReferenceWriter:
    def __init__(self) -> None:
        self._receipts: list[Receipt] = []

    def take(self, found: Notifications) -> None:
        if not found.notifications:
            return
        references = found.references
        if isinstance(references, MatchReferences):
            self._receipts.append((_MATCHED, _matched(references)))
        else:
            self._receipts.append((_RAISED, _raised(references)))

    def close(self) -> Iterator[Receipt]:
        return iter(self._receipts)


def _matched(found: MatchReferences) -> bytes:
    """Matches as bytes. Publications without a row are numbered, and their contents are sent along."""
    if found.row[0] >= 0:
        return array_bundle.packed({"row": found.row, "since": found.since})
    places, number = np.unique(found.publication, return_inverse=True)
    contents = [orjson.dumps(content).decode() for content in found.contents(places)]
    return array_bundle.packed({"row": number, "since": found.since}, contents)


def _raised(found: RaisedReferences) -> bytes:
    """Notifications of patterns as bytes. Where a publication has no row, ids are sent along."""
    names = ("since", "row", "moment", "score", "distance", "start", "rows")
    ids = found.ids.listed() if (found.rows < 0).any() else None
    return array_bundle.packed({name: getattr(found, name) for name in names}, ids)


# --- the driver half ------------------------------------------------------------------------------------------------


class QueueSink(DriverSink):
    """The driver half. It is the only writer of its queues, and keeps ``most`` deliveries of each for ``keep``, all
    together at most ``size`` bytes.

    With the directory of a ``log`` it also keeps the valid set, in the directory ``valid`` or beside the queues, of
    ``valid_bytes`` at most, and tells of initial matches and retractions.
    """

    half = References()

    def __init__(
        self,
        directory: str | os.PathLike[str],
        registry: Registry,
        *,
        most: int = MOST,
        keep: timedelta | None = KEEP,
        size: int | None = None,
        log: str | os.PathLike[str] | None = None,
        valid: str | os.PathLike[str] | None = None,
        valid_bytes: int = QUOTA,
    ) -> None:
        self._directory, self._registry = directory, registry
        self._most, self._keep, self._size = most, keep, size
        self._log_path, self._valid_path = log, valid or Path(directory).with_name(VALID)
        self._valid_bytes, self._opened = valid_bytes, ExitStack()
        self._queues: Queues | None = None
        self._log: Log | None = None
        self._valid: ValidSet | None = None

    def begin(self, query: str) -> None:
        with ExitStack() as opened:
            self._queues = opened.enter_context(Queues(self._directory, most=self._most))
            self._queues.begin(query)
            self._recipients = Recipients(self._registry, self._queues)
            if self._log_path is not None:
                self._log = opened.enter_context(Log(self._log_path, create=False))
                self._valid = opened.enter_context(ValidSet(self._valid_path, query, quota=self._valid_bytes))
            self._opened = opened.pop_all()

    @property
    def queues(self) -> Queues:
        """The queues, while the run lasts."""
        assert self._queues is not None, "a sink that was begun"
        return self._queues

    @property
    def last_batch(self) -> int:
        return max(self.queues.last_batch, -1 if self._valid is None else self._valid.batch)

    def commit(self, batch: int, receipts: Receipts) -> None:
        if self._valid is None:
            self._commit(batch, receipts, [])
            return
        with self._valid.changing:
            assert self._log is not None, "a valid set is of a log"
            withdrawals = self._valid.advance(self._log, receipts.cut.row, receipts.cut.time)
            self._commit(batch, receipts, withdrawals)
            self._valid.settle(batch)

    def _commit(self, batch: int, receipts: Receipts, withdrawals: Sequence[Withdrawal]) -> None:
        """Commit a batch to the queues, unless they have it. Some tombstones may be of earlier batches."""
        queues, cut = self.queues, receipts.cut
        if batch <= queues.last_batch:
            return
        row, version = queues.last_cut
        withdrawals = [one for one in withdrawals if one.row >= row]
        if cut.version > version:
            self._recipients.follow(version, cut.version)
        if cut.version > version or withdrawals:
            queues.cut(max(cut.row, row), max(cut.version, version))
        initial = NO_MATCHES
        if self._valid is not None and cut.version > version:
            initial = initial_matches(self._valid, self._registry.initial(version, cut.version))
        matched, raised = ([_unpacked(data) for data in receipts.of(kind)] for kind in (_MATCHED, _RAISED))
        ordered = told_of(matched, raised, initial, self._recipients.queues_of)
        told = ordered.told
        if withdrawals:
            rows = np.unique(np.concatenate([one.rows for one in withdrawals]))
            told = with_retractions(ordered, withdrawals, queues.of_rows(rows), queues.lasts())
        queues.commit(batch, cut.time, told, self._recipients.meanings)

    def tidy(self) -> None:
        before = None if self._keep is None else time_ns() // 1000 - self._keep // timedelta(microseconds=1)
        if before is not None or self._size is not None:
            self.queues.retain(before=before, size=self._size)
        if self._valid is not None:
            self._valid.tidy(self.queues.oldest_row)

    def named(self, begin: int, end: int) -> NDArray[np.int64]:
        return self.queues.named(begin, end, rows_named)

    def close(self) -> None:
        self._opened.close()


def _unpacked(data: bytes) -> SentReferences:
    arrays, contents = array_bundle.unpacked(data)
    return SentReferences(arrays, contents or [])
