"""How many notifications each tolerance of a ``shape`` would have brought on past data.

``sliding`` and ``whole`` compute the ``Distances`` of a pattern to a ``SeriesHistory``: readings of sources, of which
every sliding window is compared, or whole series. ``ToleranceOutcomes`` counts notifications; a run of windows within
the tolerance is one, as in a stream. Knows nothing of files and of publications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.kernels.shape import normal_forms
from tidegate.shapes.normal_form import LONGEST, SHORTEST

__all__ = ["Distances", "SeriesHistory", "ToleranceOutcome", "ToleranceOutcomes", "rounded", "sliding", "whole"]

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
#: Called with the number of windows that are done.
Show = Callable[[int], None]

#: Microseconds.
DAY = 86_400_000_000
#: Up to so many numbers (some seconds of work) all windows are compared exactly, beyond that only the closest ones.
EXACT = 2**28
#: Numbers at a time: they stay in the processor's cache.
_CHUNK = 2**18
#: Variance of a window, relative to its surroundings, below which running sums have lost its digits.
_FLAT = 1e-7


@dataclass(frozen=True)
class SeriesHistory:
    """Numbers in the order of source and time: those from ``starts[i]`` to ``starts[i + 1]`` belong together.

    They are the readings of source i, or else the i-th series.
    """

    values: Numbers
    starts: Rows
    origins: Rows
    """The source of each part, as a number."""
    days: float
    """Days from the first time to the last."""

    @classmethod
    def readings(cls, sources: Rows, times: Rows, values: Numbers) -> SeriesHistory:
        """Single readings: source (a number), time (microseconds) and value. What is not finite is no reading."""
        good = np.isfinite(values)
        sources, times, values = sources[good], times[good], values[good]
        order = np.lexsort((times, sources))
        origins, first = np.unique(sources[order], return_index=True)
        return cls(
            values[order], np.append(first, len(values)).astype(np.int64), origins.astype(np.int64), _days(times)
        )

    @classmethod
    def series(cls, sources: Rows, times: Rows, lengths: Rows, values: Numbers) -> SeriesHistory:
        """Whole series: source, time and how many of the values are its own."""
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return cls(values, starts, sources.astype(np.int64), _days(times))

    @property
    def lengths(self) -> Rows:
        """How many numbers each part has."""
        return np.diff(self.starts)


def _days(times: Rows) -> float:
    return float(times.max() - times.min()) / DAY if len(times) else 0.0


@dataclass(frozen=True)
class Distances:
    """How far each window of a history is from a pattern; infinitely, where it has no shape."""

    values: Numbers
    begins: Rows
    """Where each window begins among the values of the history."""
    lengths: Rows
    origins: Rows
    follows: NDArray[np.bool_]
    """Whether a window is the next of the same source, so that one run can hold both."""
    days: float
    sources: int
    """How many sources there are in the history."""


# --- distances ------------------------------------------------------------------------------------------------------


def sliding(history: SeriesHistory, pattern: Numbers, show: Show | None = None) -> Distances:
    """The distances of all windows that are as long as the pattern, a normal form."""
    n = len(pattern)
    many = np.maximum(history.lengths - n + 1, 0)
    part = np.repeat(np.arange(len(many)), many)
    within = np.arange(len(part)) - np.repeat(np.cumsum(many) - many, many)
    begins = history.starts[part] + within
    if len(begins) * n <= EXACT:
        values = _exact(history.values, begins, pattern, show)
    else:
        values = _closest_exact(history, begins, pattern, show)
    lengths = np.full(len(begins), n, np.int64)
    sources = len(np.unique(history.origins))
    return Distances(values, begins, lengths, history.origins[part], within > 0, history.days, sources)


def whole(history: SeriesHistory, at: Callable[[int], Numbers | None], show: Show | None = None) -> Distances:
    """The distance of each series to the pattern, whose normal form of length n is ``at(n)``; None leaves n out."""
    patterns = {int(n): at(int(n)) for n in np.unique(history.lengths) if SHORTEST <= n <= LONGEST}
    compared = np.isin(history.lengths, [n for n, pattern in patterns.items() if pattern is not None])
    begins, lengths = history.starts[:-1][compared], history.lengths[compared]
    values, done = np.empty(len(begins)), 0
    for n, pattern in patterns.items():
        rows = lengths == n
        if pattern is not None:
            values[rows] = _exact(history.values, begins[rows], pattern, _further(show, done))
            done += int(rows.sum())
    alone = np.zeros(len(begins), np.bool_)
    sources = len(np.unique(history.origins))
    return Distances(values, begins, lengths, history.origins[compared], alone, history.days, sources)


def _further(show: Show | None, before: int) -> Show | None:
    return None if show is None else lambda done: show(before + done)


def _exact(values: Numbers, begins: Rows, pattern: Numbers, show: Show | None) -> Numbers:
    """To the last bit the distances of ``normal_form``: numpy accumulates from the first number to the last."""
    n = len(pattern)
    size = max(1, _CHUNK // n)
    found, forms, held = np.empty(len(begins)), np.empty((size, n)), np.empty(size, np.bool_)
    for first in range(0, len(begins), size):
        some = begins[first : first + size]
        off = forms[: len(some)]
        normal_forms(some, values, np.arange(len(some)), off, held[: len(some)])
        off -= pattern
        off *= off
        np.cumsum(off, axis=1, out=off)
        found[first : first + size] = np.where(held[: len(some)], np.sqrt(off[:, -1]), np.inf)
        if show is not None:
            show(first + len(some))
    return found


def _closest_exact(history: SeriesHistory, begins: Rows, pattern: Numbers, show: Show | None) -> Numbers:
    """Rough distances for all windows, exact ones where that is small or where rounding may have spoilt it."""
    n, found = len(pattern), np.empty(len(begins))
    done = 0
    for first, last in zip(history.starts[:-1], history.starts[1:], strict=True):
        many = max(int(last - first) - n + 1, 0)
        if many:
            _rough(history.values[first:last], pattern, found[done : done + many])
            done += many
        if show is not None:
            show(done // 2)
    unsure = np.isnan(found)
    most = min(max(EXACT // n, 1), len(found))
    close = np.argpartition(np.where(unsure, np.inf, found), most - 1)[:most]
    rows = np.union1d(np.flatnonzero(unsure), close)
    portion = len(begins) / max(len(rows), 1) / 2
    found[rows] = _exact(
        history.values,
        begins[rows],
        pattern,
        None if show is None else lambda some: show(len(begins) // 2 + int(some * portion)),
    )
    return found


def _rough(values: Numbers, pattern: Numbers, out: Numbers) -> None:
    """All windows of one source: products by Fourier transforms of long blocks; NaN where digits were lost.

    D² = 2n(1 − r), with r the correlation of window and pattern.
    """
    n = len(pattern)
    size = 2 ** int(np.ceil(np.log2(max(8 * n, 2**14))))
    kernel = np.conj(np.fft.rfft(pattern, size))
    for first in range(0, len(out), size - n + 1):
        block = values[first : first + size]
        block = np.ldexp(block, -int(np.frexp(np.abs(block).max())[1]))
        block -= block.mean()
        block /= np.abs(block).max() or 1.0
        many = len(block) - n + 1
        products = np.fft.irfft(np.fft.rfft(block, size) * kernel, size)[:many]
        sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (block, block * block))
        variance = (squares[n:] - squares[:-n]) / n - ((sums[n:] - sums[:-n]) / n) ** 2
        lost = variance < _FLAT
        variance[lost] = 1.0
        square = 2 * n * (1 - products / (n * np.sqrt(variance)))
        out[first : first + many] = np.where(lost, np.nan, np.sqrt(np.maximum(square, 0.0)))


# --- outcomes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToleranceOutcome:
    """What one tolerance would have brought."""

    tolerance: float
    notifications: int
    per_day: float
    per_source: float
    """Notifications per day and source."""
    sources: int
    """How many sources would have brought any notification."""
    windows: int
    share: float
    """The share of all windows that are within the tolerance."""


@dataclass(frozen=True)
class ToleranceOutcomes:
    """The outcome of any tolerance, from distances that were computed once, and as exact as they are."""

    distances: Distances

    def __post_init__(self) -> None:
        if not len(self.distances.values):
            raise SettingError("a window at least as long as the pattern", "a history without any")
        if not self.distances.days:
            raise SettingError("a history of more than one moment", "one whose times are all the same")

    @cached_property
    def _within(self) -> Numbers:
        return np.sort(self.distances.values[np.isfinite(self.distances.values)])

    @cached_property
    def _joined(self) -> Numbers:
        """For each two neighbouring windows, the tolerance from which they are in one run."""
        values, follows = self.distances.values, self.distances.follows
        both = np.maximum(values[1:], values[:-1])[follows[1:]]
        return np.sort(both[np.isfinite(both)])

    @cached_property
    def _reached(self) -> Numbers:
        """The closest distance of each source."""
        found = np.full(int(self.distances.origins.max()) + 1, np.inf)
        np.minimum.at(found, self.distances.origins, self.distances.values)
        return np.sort(found[np.isfinite(found)])

    @property
    def closest(self) -> float:
        """The smallest distance; infinite where no window has a shape."""
        return float(self._within[0]) if len(self._within) else float("inf")

    def notifications(self, tolerances: Numbers) -> Rows:
        """How many notifications each tolerance would have brought: windows within, less those that continue a run."""
        within, joined = (np.searchsorted(found, tolerances, "right") for found in (self._within, self._joined))
        return within - joined

    def at(self, tolerance: float) -> ToleranceOutcome:
        """What this tolerance would have brought."""
        windows = int(np.searchsorted(self._within, tolerance, "right"))
        sources = int(np.searchsorted(self._reached, tolerance, "right"))
        count = int(self.notifications(np.array([tolerance]))[0])
        rate = count / self.distances.days
        share = windows / len(self.distances.values)
        return ToleranceOutcome(tolerance, count, rate, rate / self.distances.sources, sources, windows, share)

    def suggested(self, per_day: float) -> ToleranceOutcome | None:
        """The smallest tolerance that would have brought about so many a day; None where none would have.

        A wider one may bring fewer, as runs grow together.
        """
        if not len(self._within):
            return None
        counts = self.notifications(self._within)
        wanted = max(round(per_day * self.distances.days), 1)
        enough = np.flatnonzero(counts >= wanted)
        if not len(enough):
            return None
        found = float(self._within[enough[0]])
        there = int(counts[enough[0]])
        for digits in range(3, 17):  # as few as will do, since a person will read and type them
            outcome = self.at(rounded(found, digits))
            if abs(outcome.notifications - there) <= 0.05 * there:
                return outcome
        return self.at(found)

    def most(self) -> ToleranceOutcome:
        """The tolerance that would have brought the most notifications."""
        return self.at(float(self._within[np.argmax(self.notifications(self._within))]) if len(self._within) else 0.0)

    def grid(self, own: Iterable[float] = (), size: int = 10) -> list[ToleranceOutcome]:
        """From the closest window to half of all, in equal ratios of windows within; and the user's own tolerances."""
        found = set(own)
        if len(self._within):
            ranks = np.geomspace(1, max(len(self._within) / 2, 1), size).astype(np.int64) - 1
            found |= {rounded(float(self._within[rank])) for rank in ranks}
        return [self.at(tolerance) for tolerance in sorted(found)]


def rounded(distance: float, digits: int = 3) -> float:
    """Up to so many digits, so that the distance itself stays within."""
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(distance))))
