"""How frames of queues come about: from the deliveries of a batch, or from several frames that become one.

``frame_of_batch`` sorts what a batch tells by queue and gives it numbers; ``merged_frame`` puts the deliveries of each
queue behind each other, without those that are no longer kept. Both give arrays for ``queue_frames.packed``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.store.queue_frames import QueueFrame, packed

__all__ = ["NOTHING", "Told", "frame_of_batch", "merged_frame", "numbered"]

_NO_BYTES = np.empty(0, np.uint8)


class Told(NamedTuple):
    """What a batch tells, in the order of queues: publications and notifications of patterns, each for who matched.

    Thing i is of ``kind[i]``, was caused by ``row[i]`` of the log (−1: by none), and ``more`` has the bytes of what
    else there is to say of it. Pair j says that subscription ``subscription[j]``, whose deliveries go to ``queue[j]``,
    matched ``thing[j]``; pairs are in the order of things. A thing is delivered once to each queue of its pairs. Where
    the subscription is −1, the thing is for the queue whatever matched.
    """

    kind: NDArray[np.uint8]
    row: NDArray[np.int64]
    more: Mapping[int, bytes]
    thing: NDArray[np.int64]
    subscription: NDArray[np.int64]
    queue: NDArray[np.int32]


_NONE = np.empty(0, np.int64)
#: Of a batch that tells nothing.
NOTHING = Told(np.empty(0, np.uint8), _NONE, {}, _NONE, _NONE, np.empty(0, np.int32))


def _starts(sizes: NDArray[Any], dtype: Any = np.int64) -> NDArray[Any]:
    start = np.zeros(len(sizes) + 1, dtype)
    np.cumsum(sizes, out=start[1:])
    return start


def _positions(begins: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """The places of ranges, one range behind the other."""
    starts = _starts(sizes)
    found: NDArray[np.int64] = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], sizes)
    return found


def _joined(texts: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where texts begin, and all their bytes."""
    return _starts(np.array([len(text) for text in texts], np.int64)), np.frombuffer(b"".join(texts), np.uint8)


def _deliveries(told: Told) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs in the order of queues, and the places among these of the first of each delivery."""
    order = np.argsort(told.queue, kind="stable")
    queue, thing = told.queue[order], told.thing[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (queue[1:] != queue[:-1]) | (thing[1:] != thing[:-1])
    return order, np.flatnonzero(is_first)


def numbered(told: Told, last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """The deliveries of a batch as ``frame_of_batch`` will number them: thing, queue and number of each."""
    order, pairs = _deliveries(told)
    thing, queue = told.thing[order][pairs], told.queue[order][pairs]
    _, begin, which = np.unique(queue, return_index=True, return_inverse=True)
    return thing, queue, last[queue] + 1 + np.arange(len(queue)) - begin[which]


def frame_of_batch(
    batch: int,
    time: int,
    told: Told,
    last: NDArray[np.int64],
    meanings: Callable[[list[int]], Sequence[bytes]],
    changes: bytes,
) -> bytearray:
    """A frame with what a batch tells. ``last`` has by queue the number of its last delivery so far; ``meanings`` says
    what subscriptions mean.
    """
    order, pairs = _deliveries(told)
    of, to = told.thing[order][pairs], told.queue[order][pairs]
    queues, begin = np.unique(to, return_index=True)
    subscription = told.subscription[order]
    matched_begin = _starts(subscription >= 0)[np.append(pairs, len(order))]
    named, matched = np.unique(subscription[subscription >= 0], return_inverse=True)
    meaning_begin, meaning = _joined(meanings(named.tolist()))
    positions = np.flatnonzero(np.isin(of, np.fromiter(told.more, np.int64))) if told.more else _NO_BYTES
    told_begin, tellings = _joined([told.more[int(of[d])] for d in positions])
    arrays = {
        "queue": queues, "begin": np.append(begin, len(to)), "first": last[queues] + 1,
        "row": told.row[of], "batch": np.zeros(len(of)), "kind": told.kind[of],
        "matched_begin": matched_begin, "matched": matched,
        "batches": np.array([batch]), "times": np.array([time]),
        "named": named, "meaning_begin": meaning_begin, "meanings": meaning,
        "told": positions, "told_begin": told_begin, "tellings": tellings,
        "changes": np.frombuffer(changes, np.uint8),
    }  # fmt: skip
    return packed(arrays, batch, batch)


def merged_frame(frames: Sequence[QueueFrame], oldest: NDArray[np.int64]) -> bytearray:
    """One frame of the deliveries of several, which follow each other. ``oldest`` has by queue the number of the first
    delivery that is kept.
    """
    queue, begin, first, size = _kept(frames, oldest)
    order = np.argsort(queue, kind="stable")
    queue, begin, first, size = queue[order], begin[order], first[order], size[order]
    here = _positions(begin, size)
    batch_begin = _starts(np.array([len(f.array("batches")) for f in frames]))
    batch = _all(frames, "batch", batch_begin)[here]
    used_batches = np.union1d(batch, batch_begin[-1:] - 1)  # the last says how old a frame is that delivers nothing
    batch = np.searchsorted(used_batches, batch)
    matched_begin, matched, named, meanings = _matches(frames, here)
    told, tellings = _tellings(frames, here)
    meaning_begin, meaning = _joined(meanings)
    told_begin, telling = _joined(tellings)
    queues, entries = np.unique(queue, return_index=True)
    arrays = {
        "queue": queues, "begin": np.append(_starts(size)[entries], len(here)), "first": first[entries],
        "row": _all(frames, "row")[here], "batch": batch, "kind": _all(frames, "kind")[here],
        "matched_begin": matched_begin, "matched": matched,
        "batches": _all(frames, "batches")[used_batches], "times": _all(frames, "times")[used_batches],
        "named": named, "meaning_begin": meaning_begin, "meanings": meaning,
        "told": told, "told_begin": told_begin, "tellings": telling,
        "changes": np.concatenate([f.array("changes") for f in frames]),
    }  # fmt: skip
    return packed(arrays, frames[0].first_batch, frames[-1].last_batch)


def _all(frames: Sequence[QueueFrame], name: str, more: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """An array of all frames, with a number per frame added to its values."""
    arrays = [frame.array(name) for frame in frames]
    if more is None:
        return np.concatenate(arrays)
    return np.concatenate([array.astype(np.int64) + n for array, n in zip(arrays, more, strict=False)])


def _kept(
    frames: Sequence[QueueFrame], oldest: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each queue of each frame: the queue, the place and the number of the first delivery kept, and how many."""
    delivery_begin = _starts(np.array([frame.deliveries for frame in frames]))
    queue = np.concatenate([frame.queue for frame in frames])
    begin = np.concatenate([f.begin[:-1] + n for f, n in zip(frames, delivery_begin, strict=False)])
    first = np.concatenate([frame.first for frame in frames])
    size = np.concatenate([np.diff(frame.begin) for frame in frames]).astype(np.int64)
    gone = np.clip(oldest[queue] - first, 0, size)
    some = gone < size
    return queue[some], (begin + gone)[some], (first + gone)[some], (size - gone)[some]


def _matches(
    frames: Sequence[QueueFrame], here: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[bytes]]:
    """Which subscriptions matched these deliveries, and what the numbers of those that are still named mean."""
    match_begin = _starts(np.array([len(f.array("matched")) for f in frames]))
    begins = _all_but_last(frames, "matched_begin", match_begin)
    sizes = np.concatenate([np.diff(f.array("matched_begin")) for f in frames])[here]
    named_begin = _starts(np.array([len(f.array("named")) for f in frames]))
    places = _all(frames, "matched", named_begin)[_positions(begins[here], sizes)]
    numbers = _all(frames, "named")
    named, at, matched = np.unique(numbers[places], return_index=True, return_inverse=True)
    meanings = []
    for place in places[at].tolist():
        frame = int(np.searchsorted(named_begin, place, "right")) - 1
        meanings.append(frames[frame].meaning(place - int(named_begin[frame])))
    return _starts(sizes), matched, named, meanings


def _all_but_last(frames: Sequence[QueueFrame], name: str, more: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([f.array(name)[:-1].astype(np.int64) + n for f, n in zip(frames, more, strict=False)])


def _tellings(frames: Sequence[QueueFrame], here: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[bytes]]:
    """Which of these deliveries have more to tell, and what."""
    delivery_begin = _starts(np.array([frame.deliveries for frame in frames]))
    known = _all(frames, "told", delivery_begin)
    if not len(known):
        return np.empty(0, np.int64), []
    at = np.minimum(np.searchsorted(known, here), len(known) - 1)
    told = np.flatnonzero(known[at] == here)
    told_begin = _starts(np.array([len(f.array("told")) for f in frames]))
    tellings = []
    for place in at[told].tolist():
        frame = int(np.searchsorted(told_begin, place, "right")) - 1
        tellings.append(frames[frame].telling(place - int(told_begin[frame])))
    return told, tellings
