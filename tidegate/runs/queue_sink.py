"""The sink ``queues``: writes what a batch tells into the queues of the principals that it is for.

The worker half sends references and no content: which row of the log was matched by which subscription, and what
patterns told of which rows. The driver half asks the registry whose subscriptions these are and where they are told,
orders everything (``told_of``), and has ``store/queues.py`` commit the batch. Who shows a delivery reads its row from
the log. Where the source is no log, content is sent along and kept with the delivery.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import time_ns
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.runs.references import MatchReferences, RaisedReferences
from tidegate.runs.sinks import DriverSink, Notifications, Receipt, Receipts
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription, PatternNotification, rows_named
from tidegate.store.queues import Queues, Told
from tidegate.store.registry import Registry

__all__ = ["KEEP", "MOST", "QueueSink", "Recipients", "told_of"]

#: For how long, and how many of a queue, deliveries are kept if nothing else is said.
KEEP, MOST = timedelta(days=7), 100_000
_MATCHED, _RAISED = "matched", "raised"
#: Recipients that are remembered at most.
_KNOWN = 2_000_000
_LAST = np.iinfo(np.int64).max


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


class Recipients:
    """To which queue each subscription is told, and what its number means. Asks the registry once for each."""

    def __init__(self, registry: Registry, queues: Queues) -> None:
        self._registry, self._queues = registry, queues
        self._known: dict[int, tuple[int, bytes]] = {}

    def queues_of(self, sinces: NDArray[np.int64]) -> NDArray[np.int32]:
        """The number of the queue of each subscription; they are given by the versions that made them."""
        wanted: list[int] = sinces.tolist()
        if new := [since for since in wanted if since not in self._known]:
            if len(self._known) > _KNOWN:
                self._known.clear()
                new = wanted
            for since, recipient in self._registry.recipients(new).items():
                queue = self._queues.make(recipient.subscriber, recipient.destination)
                meaning = MatchedSubscription(recipient.id, recipient.fields, recipient.expired).packed()
                self._known[since] = queue.number, meaning
        return np.array([self._known[since][0] for since in wanted], np.int32)

    def meanings(self, sinces: Sequence[int]) -> list[bytes]:
        """What the numbers mean, of subscriptions whose queues were asked for."""
        return [self._known[since][1] for since in sinces]


class QueueSink(DriverSink):
    """The driver half. It is the only writer of its queues, and keeps ``most`` deliveries of each for ``keep``, all
    together at most ``size`` bytes.
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
    ) -> None:
        self._directory, self._registry = directory, registry
        self._most, self._keep, self._size = most, keep, size
        self._queues: Queues | None = None

    def begin(self, query: str) -> None:
        self._queues = Queues(self._directory, most=self._most)
        self._queues.begin(query)
        self._recipients = Recipients(self._registry, self._queues)

    @property
    def queues(self) -> Queues:
        """The queues, while the run lasts."""
        assert self._queues is not None, "a sink that was begun"
        return self._queues

    @property
    def last_batch(self) -> int:
        return self.queues.last_batch

    def commit(self, batch: int, receipts: Receipts) -> None:
        if batch <= self.last_batch:
            return
        matched, raised = ([_unpacked(data) for data in receipts.of(kind)] for kind in (_MATCHED, _RAISED))
        told = told_of(matched, raised, self._recipients.queues_of)
        self.queues.commit(batch, receipts.cut.time, told, self._recipients.meanings)

    def tidy(self) -> None:
        before = None if self._keep is None else time_ns() // 1000 - self._keep // timedelta(microseconds=1)
        if before is not None or self._size is not None:
            self.queues.retain(before=before, size=self._size)

    def named(self, begin: int, end: int) -> NDArray[np.int64]:
        return self.queues.named(begin, end, rows_named)

    def close(self) -> None:
        if self._queues is not None:
            self._queues.close()


class _Receipt(NamedTuple):
    arrays: dict[str, NDArray[Any]]
    contents: list[Any]
    """Where publications have no rows: the JSON texts of those that filters matched, the ids of those that patterns
    name.
    """


def _unpacked(data: bytes) -> _Receipt:
    arrays, contents = array_bundle.unpacked(data)
    return _Receipt(arrays, contents or [])


# --- order ----------------------------------------------------------------------------------------------------------


def told_of(
    matched: Sequence[_Receipt], raised: Sequence[_Receipt], queues_of: Callable[[NDArray[np.int64]], NDArray[np.int32]]
) -> Told:
    """What a batch tells, in the order of queues: by the row that caused it, first the publication itself, then what
    patterns told, by the versions of their subscriptions; what the clock told comes last.
    """
    rows, group, since, more = _matched_things(matched)
    cause, owner, moment, notes = _raised_things(raised)
    n, m = len(rows), len(cause)
    rank = np.lexsort((
        np.concatenate((np.zeros(n, np.int64), moment)),
        np.concatenate((np.full(n, -1), owner)),
        np.concatenate((np.arange(n) if n and rows[0] < 0 else rows, np.where(cause < 0, _LAST, cause))),
    ))  # fmt: skip
    place = np.empty(n + m, np.int64)
    place[rank] = np.arange(n + m)
    thing, subscription = np.concatenate((place[group], place[n:])), np.concatenate((since, owner))
    order = np.lexsort((subscription, thing))
    thing, subscription = thing[order], subscription[order]
    named, which = np.unique(subscription, return_inverse=True)
    kinds = np.concatenate((np.full(n, DeliveryKind.PUBLICATION), np.full(m, DeliveryKind.PATTERN)))
    everything = {int(place[i]): content for i, content in more.items()}
    everything |= {int(place[n + i]): note for i, note in enumerate(notes)}
    causes = np.concatenate((rows, cause))[rank]
    return Told(kinds[rank].astype(np.uint8), causes, everything, thing, subscription, queues_of(named)[which])


def _matched_things(
    parts: Sequence[_Receipt],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], dict[int, bytes]]:
    """The row of each publication that matched, −1 where the source has none; of each match its publication's number
    among these, and its subscription; and the content of publications that have no row.
    """
    if not parts:
        return _NONE, _NONE, _NONE, {}
    since = np.concatenate([part.arrays["since"] for part in parts])
    if not any(part.contents for part in parts):
        rows, group = np.unique(np.concatenate([part.arrays["row"] for part in parts]), return_inverse=True)
        return rows, group, since, {}
    starts = np.cumsum([0, *(len(part.contents) for part in parts)])
    group = np.concatenate([part.arrays["row"] + start for part, start in zip(parts, starts, strict=False)])
    contents = [content.encode() for part in parts for content in part.contents]
    return np.full(len(contents), -1), group, since, dict(enumerate(contents))


def _raised_things(
    parts: Sequence[_Receipt],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[bytes]]:
    """The row that caused each notification of a pattern, its subscription, when it is of, and what it says."""
    if not parts:
        return _NONE, _NONE, _NONE, []
    cause, owner, moment = (
        np.concatenate([part.arrays[name] for part in parts]) for name in ("row", "since", "moment")
    )
    notes = [note for part in parts for note in _notes(part)]
    return cause, owner, moment, notes


def _notes(part: _Receipt) -> Iterator[bytes]:
    names = ("moment", "start", "rows", "score", "distance")
    moments, starts, rows, scores, distances = (part.arrays[name].tolist() for name in names)
    ids = part.contents or rows
    publications = [id if row < 0 else row for row, id in zip(rows, ids, strict=True)]
    for i, moment in enumerate(moments):
        score, distance = (None if one != one else one for one in (scores[i], distances[i]))
        named = tuple(publications[starts[i] : starts[i + 1]])
        yield PatternNotification(moment, named, score, distance).packed()


_NONE = np.empty(0, np.int64)
