"""In which order the deliveries of a batch stand in queues: ``told_of`` and ``with_retractions`` say.

Initial matches come first, by row. Everything else is in the order of the rows of the log that caused it: a publication
itself, then what patterns told of it by the versions of their subscriptions; and where a tombstone is, the retractions
of what it withdrew. What the clock told comes last. Knows neither files nor the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.store.delivery_records import DeliveryKind, PatternNotification
from tidegate.store.queue_batches import numbered
from tidegate.store.queue_reader import QueuedRows
from tidegate.store.queues import NOTHING, Told
from tidegate.store.valid_set import Withdrawal

__all__ = ["NO_MATCHES", "Ordered", "RowMatches", "SentReferences", "told_of", "with_retractions"]

_Numbers = NDArray[np.int64]
_NONE = np.empty(0, np.int64)
#: The causes of what comes before all rows, and behind them.
_FIRST, _LAST = -1, np.iinfo(np.int64).max


class SentReferences(NamedTuple):
    """What a task has sent: arrays of references and, where publications have no rows, what stands for these."""

    arrays: dict[str, NDArray[Any]]
    contents: list[Any]
    """The JSON texts of publications that filters matched, the ids of those that patterns name."""


class RowMatches(NamedTuple):
    """Rows of the log and the subscriptions that they match, by the versions that made them; an element for each."""

    row: _Numbers
    since: _Numbers


NO_MATCHES = RowMatches(_NONE, _NONE)


class Ordered(NamedTuple):
    """What a batch tells, and for each thing the row that it is caused by, or what stands before and behind all."""

    told: Told
    cause: _Numbers


class _Things(NamedTuple):
    """Things of some kind before they are ordered, and who is told of each."""

    kind: int
    row: _Numbers
    cause: _Numbers
    """By which they are ordered, then by the row, the owner and the moment."""
    owner: _Numbers
    moment: _Numbers
    more: dict[int, bytes]
    thing: _Numbers
    since: _Numbers


def told_of(
    matched: Sequence[SentReferences],
    raised: Sequence[SentReferences],
    initial: RowMatches,
    queues_of: Callable[[_Numbers], NDArray[np.int32]],
) -> Ordered:
    """What a batch tells, in the order of queues. What has no queue is told to nobody."""
    parts = []
    if len(initial.row):
        parts.append(_initial_things(initial))
    if matched:
        parts.append(_matched_things(matched))
    if raised:
        parts.append(_raised_things(raised))
    if not parts:
        return Ordered(NOTHING, _NONE)
    sizes = [len(part.row) for part in parts]
    starts = np.cumsum([0, *sizes])
    row, cause, owner, moment = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "cause", "owner", "moment")
    )
    rank = np.lexsort((moment, owner, row, cause))
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    thing = np.concatenate([place[part.thing + start] for part, start in zip(parts, starts, strict=False)])
    since = np.concatenate([part.since for part in parts])
    order = np.lexsort((since, thing))
    thing, since = thing[order], since[order]
    named, which = np.unique(since, return_inverse=True)
    queue = queues_of(named)[which]
    has = queue >= 0
    more = {
        int(place[start + i]): content
        for part, start in zip(parts, starts, strict=False)
        for i, content in part.more.items()
    }
    kind = np.repeat(np.array([part.kind for part in parts], np.uint8), sizes)[rank]
    return Ordered(Told(kind, row[rank], more, thing[has], since[has], queue[has]), cause[rank])


def with_retractions(
    ordered: Ordered, withdrawals: Sequence[Withdrawal], queued: QueuedRows, last: NDArray[np.int64]
) -> Told:
    """The same with what tombstones of the batch retract: what ``queued`` has, of earlier batches, and what the batch
    itself tells of rows before a tombstone. ``last`` has by queue the number of its last delivery so far.
    """
    told, cause = ordered
    rows = np.concatenate([one.rows for one in withdrawals])
    rows, first = np.unique(rows, return_index=True)
    tombstone = np.repeat([one.row for one in withdrawals], [len(one.rows) for one in withdrawals])[first]
    thing, queue, number = numbered(told, last)
    here = np.flatnonzero((told.kind[thing] == DeliveryKind.PUBLICATION) & np.isin(told.row[thing], rows))
    row = np.concatenate((queued.row, told.row[thing[here]]))
    if not len(row):
        return told
    to = np.concatenate((queued.queue, queue[here]))
    retracted = np.concatenate((queued.number, number[here]))  # what is retracted here will stand further behind
    by = tombstone[np.searchsorted(rows, row)]
    order = np.lexsort((to, by))  # in a queue they stay in the order of their numbers
    n, m = len(told.kind), len(row)
    rank = np.argsort(np.concatenate((cause, by[order])), kind="stable")
    place = np.empty(n + m, np.int64)
    place[rank] = np.arange(n + m)
    things = np.concatenate((place[told.thing], place[n:]))
    pairs = np.argsort(things, kind="stable")
    found = Told(
        np.concatenate((told.kind, np.full(m, DeliveryKind.RETRACTED, np.uint8)))[rank],
        np.concatenate((told.row, row[order]))[rank],
        {int(place[i]): content for i, content in told.more.items()},
        things[pairs],
        np.concatenate((told.subscription, np.full(m, -1)))[pairs],
        np.concatenate((told.queue, to[order]))[pairs],
    )
    thing, _, number = numbered(found, last)
    retracted[len(queued.row) :] = number[found.kind[thing] != DeliveryKind.RETRACTED][here]
    texts = {int(place[n + i]): orjson.dumps({"retracts": one}) for i, one in enumerate(retracted[order].tolist())}
    return found._replace(more={**found.more, **texts})


def _initial_things(found: RowMatches) -> _Things:
    row, thing = np.unique(found.row, return_inverse=True)
    none = np.zeros(len(row), np.int64)
    return _Things(DeliveryKind.INITIAL, row, none + _FIRST, none, none, {}, thing, found.since)


def _matched_things(parts: Sequence[SentReferences]) -> _Things:
    """Publications that filters matched; where the source has no rows, with their contents."""
    since = np.concatenate([part.arrays["since"] for part in parts])
    more: dict[int, bytes] = {}
    if not any(part.contents for part in parts):
        row, thing = np.unique(np.concatenate([part.arrays["row"] for part in parts]), return_inverse=True)
        cause = row
    else:
        starts = np.cumsum([0, *(len(part.contents) for part in parts)])
        thing = np.concatenate([part.arrays["row"] + start for part, start in zip(parts, starts, strict=False)])
        more = dict(enumerate(content.encode() for part in parts for content in part.contents))
        row, cause = np.full(len(more), -1), np.arange(len(more))
    none = np.zeros(len(row), np.int64)
    return _Things(DeliveryKind.PUBLICATION, row, cause, none - 1, none, more, thing, since)


def _raised_things(parts: Sequence[SentReferences]) -> _Things:
    """Notifications of patterns, with what they say."""
    row, owner, moment = (np.concatenate([part.arrays[name] for part in parts]) for name in ("row", "since", "moment"))
    notes = dict(enumerate(note for part in parts for note in _notes(part)))
    cause = np.where(row < 0, _LAST, row)
    return _Things(DeliveryKind.PATTERN, row, cause, owner, moment, notes, np.arange(len(row)), owner)


def _notes(part: SentReferences) -> Iterator[bytes]:
    names = ("moment", "start", "rows", "score", "distance")
    moments, starts, rows, scores, distances = (part.arrays[name].tolist() for name in names)
    ids = part.contents or rows
    publications = [id if row < 0 else row for row, id in zip(rows, ids, strict=True)]
    for i, moment in enumerate(moments):
        score, distance = (None if one != one else one for one in (scores[i], distances[i]))
        named = tuple(publications[starts[i] : starts[i + 1]])
        yield PatternNotification(moment, named, score, distance).packed()
