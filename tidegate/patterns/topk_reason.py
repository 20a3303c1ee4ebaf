"""The rank of a publication in the window of a ``topk``, and the score that it has to beat, in words and as facts.

``TopK.reason`` reads window and scores from its state; nothing here knows where they are kept.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.patterns.reason import Reason, lasting, number, when

__all__ = ["RankedWindow", "rank_reason", "seen_reason"]


class RankedWindow(NamedTuple):
    """The window of one subscription, without the publication that is asked about."""

    k: int
    width: int
    """Microseconds, or publications."""
    is_counted: bool
    places: NDArray[np.int64]
    """Where in memory its publications are, those that patterns saw last first."""
    scores: NDArray[np.float64]

    def rank(self, score: float, place: int) -> int:
        """The rank of a score; of equal ones, those of publications at later places are better."""
        better = (self.scores < score) | ((self.scores == score) & (self.places > place))
        return 1 + int(np.count_nonzero(better & np.isfinite(self.scores)))

    @property
    def ranked(self) -> int:
        """How many have a score."""
        return int(np.count_nonzero(np.isfinite(self.scores)))

    @property
    def bar(self) -> float | None:
        """The worst score of the k best: what comes next is told if its own is not worse; None if fewer are there."""
        found = np.sort(self.scores[np.isfinite(self.scores)])
        return float(found[self.k - 1]) if len(found) >= self.k else None


def rank_reason(window: RankedWindow, score: float, time: int, closing: int) -> Reason:
    """Why a publication with that score and time, which comes next, is told or not."""
    facts = {"k": window.k, "ranked": window.ranked, "to_beat": window.bar}
    if not isfinite(score):
        return Reason("it has no score, so it is not ranked", {"score": None, "rank": None, **facts}, False)
    rank = window.rank(score, place=int(window.places.max(initial=-1)) + 1)
    facts = {"score": score, "rank": rank, **facts}
    if rank <= window.k:
        few = f"the window has {window.ranked or 'no'} other{'s' * (window.ranked > 1)}"
        beaten = few if window.bar is None else f"{number(window.bar)} is the score to beat"
        text = f"score {number(score)} is rank {rank}; {beaten}"
        if time > closing:
            return Reason(f"{text}; the subscription is not active any more", facts, False)
        return Reason(text, facts, True)
    assert window.bar is not None, "a rank beyond k has k better ones"
    text = f"score {number(score)} is rank {rank}, beyond {_best(window.k)}; {number(window.bar)} is the score to beat"
    if window.is_counted:
        return Reason(f"{text}; told later if better ones leave the window before it", facts, False)
    leaves = time + window.width
    return Reason(
        f"{text}; told later if better ones expire before {when(leaves)}, when it does itself",
        {**facts, "until": when(leaves)},
        False,
    )


def seen_reason(window: RankedWindow, score: float, place: int, told: bool | None, clock: int, time: int) -> Reason:
    """What has become of a publication that patterns have seen already, at that place in memory."""
    facts = {"k": window.k, "ranked": window.ranked, "to_beat": window.bar, "score": score if isfinite(score) else None}
    if not isfinite(score):
        return Reason("it had no score, so it was not ranked", {**facts, "rank": None}, False)
    if place not in window.places:
        gone = "" if window.is_counted else f" {lasting(clock - time - window.width)} ago"
        return Reason(f"score {number(score)}; it left the window{gone}", {**facts, "rank": None}, False)
    rank = window.rank(score, place)
    was = {True: ", and it was told", False: ", and it was not told yet", None: ""}[told]
    text = f"score {number(score)} is rank {rank} now{was}; told of are {_best(window.k)}"
    return Reason(text, {**facts, "rank": rank, "told": told}, False)


def _best(k: int) -> str:
    return "the best" if k == 1 else f"the {k} best"
