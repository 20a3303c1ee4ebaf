"""Deliveries of many queues at once, out of frames: for those who deliver to thousands of connections.

``QueueReader.read`` reads one queue at a time; ``stretches`` looks each frame through once for all queues, with the
same result. Knows no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.store.queue_frames import Delivery, QueueFrame

__all__ = ["Stretch", "stretches"]

#: Of so few queues in a frame each is read by itself: then little of a large frame is looked at.
_FEW = 4


class Stretch(NamedTuple):
    """Deliveries of a queue in the order of their numbers. ``begin`` is the number of the first that could be had: the
    one that was asked for, or a later one if that is not kept any more.
    """

    deliveries: list[Delivery]
    begin: int


class _Span(NamedTuple):
    """Where some of the queues stand in a frame: their places among those that are asked for and among those of the
    frame, the number of the first delivery there, and the number after the last.
    """

    frame: QueueFrame
    which: NDArray[np.int64]
    place: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]


def stretches(
    frames: Sequence[QueueFrame],
    queues: NDArray[np.int64],
    low: NDArray[np.int64],
    last: NDArray[np.int64],
    limit: int,
) -> list[Stretch]:
    """For each queue, each asked for once, up to ``limit`` deliveries with numbers from ``low`` to ``last``; or from
    the oldest on that is kept.
    """
    spans, begin = _spans(frames, queues, low, last)
    found: list[list[Delivery]] = [[] for _ in range(len(queues))]
    left = np.full(len(queues), limit, np.int64)
    for span in reversed(spans):
        first = np.maximum(span.first, begin[span.which])
        count = np.minimum(span.end - first, left[span.which])
        some = np.flatnonzero(count > 0)
        which, place, count = span.which[some], span.place[some], count[some]
        left[which] -= count
        offset = span.frame.begin[place] - span.first[some] + first[some]
        _read(span.frame, found, which, offset.astype(np.int64), first[some], count)
    return [Stretch(deliveries, number) for deliveries, number in zip(found, begin.tolist(), strict=True)]


def _spans(
    frames: Sequence[QueueFrame], queues: NDArray[np.int64], low: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[list[_Span], NDArray[np.int64]]:
    """Where the queues stand, in the latest frames first, and from which number on each can be read."""
    spans, is_sought = list[_Span](), low <= last
    for frame in reversed(frames):
        which = np.flatnonzero(is_sought)
        if not len(which):
            break
        if not len(frame.queue):
            continue
        place = np.minimum(np.searchsorted(frame.queue, queues[which]), len(frame.queue) - 1)
        is_here = frame.queue[place] == queues[which]
        which, place = which[is_here], place[is_here]
        first = frame.first[place]
        end = first + frame.begin[place + 1] - frame.begin[place]
        some = end > low[which]
        spans.append(_Span(frame, which[some], place[some], first[some], end[some]))
        is_sought[which[first <= low[which]]] = False
    begin = low.copy()
    begin[is_sought] = last[is_sought] + 1
    for span in spans:
        unfound = is_sought[span.which]
        np.minimum.at(begin, span.which[unfound], span.first[unfound])
    return spans, begin


def _read(
    frame: QueueFrame,
    found: list[list[Delivery]],
    which: NDArray[np.int64],
    offset: NDArray[np.int64],
    first: NDArray[np.int64],
    count: NDArray[np.int64],
) -> None:
    """Read ``count`` deliveries from ``offset`` on in a frame for each queue; ``first`` is the number of the first."""
    if not len(which):
        return
    if len(which) <= _FEW:
        for queue, begin, number, size in zip(*(some.tolist() for some in (which, offset, first, count)), strict=True):
            found[queue] += frame.read_places(begin, begin + size, number)
        return
    low, high = int(offset.min()), int((offset + count).max())
    starts = np.concatenate([[0], np.cumsum(count)])
    places = np.arange(starts[-1]) + np.repeat(offset - low - starts[:-1], count)
    numbers = (np.arange(starts[-1]) + np.repeat(first - starts[:-1], count)).tolist()
    every = frame.read_some(low, high, places, numbers)
    at = starts.tolist()
    for position, queue in enumerate(which.tolist()):
        found[queue] += every[at[position] : at[position + 1]]
