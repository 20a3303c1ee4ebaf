"""Set subsumption: whether a box (a range in each of some dimensions) is covered by a set of boxes taken together.

The overlay asks this before a broker forwards an operator: what it asks for may be asked for by others already. Three
classes decide it, ``Pairwise``, ``Exact`` and ``Probabilistic``, and ``Nothing`` never finds anything covered; each
follows ``Subsumption`` and can take another's place. None knows of brokers or of what the dimensions are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.errors import SettingError, SubscriptionError, shown
from tidegate.kernels.subsumption import NO, UNDECIDED, WRONG, in_one, in_union, seems_in_union

__all__ = ["NAMES", "Boxes", "Exact", "Nothing", "Pairwise", "Probabilistic", "Subsumption", "subsumption_named"]

Floats = NDArray[np.float64]


class Boxes:
    """A set of boxes of so many dimensions, each known by a number that no other box of the set ever has."""

    def __init__(self, dimension: int) -> None:
        _check_count(dimension, "dimension")
        self.dimension = dimension
        self._low, self._high = np.empty((8, dimension)), np.empty((8, dimension))
        self._rows: dict[int, int] = {}
        self._handles: list[int] = []
        self._next = 0
        self._view()

    def __len__(self) -> int:
        return len(self._handles)

    def __contains__(self, handle: object) -> bool:
        return handle in self._rows

    def _view(self) -> None:
        count = len(self._handles)
        #: Least and greatest of each box, one row a box, in no particular order; valid until the next change.
        self.arrays = self._low[:count], self._high[:count]

    def add(self, low: ArrayLike, high: ArrayLike) -> int:
        """Add a box, bounds included, and return the number by which to remove it. Equal boxes may be there twice."""
        low, high = _bounds(low, high, self)
        if not (low <= high).all():
            raise _wrong(low, high)
        count = len(self._handles)
        if count == len(self._low):
            self._low, self._high = (np.concatenate([array, np.empty_like(array)]) for array in (self._low, self._high))
        self._low[count], self._high[count] = low, high
        handle = self._next
        self._next += 1
        self._rows[handle] = count
        self._handles.append(handle)
        self._view()
        return handle

    def remove(self, handle: int) -> None:
        """Remove a box; the last one takes its row."""
        if handle not in self._rows:
            raise SubscriptionError("the number of a box of the set", shown(handle))
        row = self._rows.pop(handle)
        last = self._handles.pop()
        if last != handle:
            self._handles[row] = last
            self._rows[last] = row
            self._low[row], self._high[row] = self._low[len(self._handles)], self._high[len(self._handles)]
        self._view()


class Subsumption(Protocol):
    """A way to decide whether a box is covered by a set of boxes.

    ``undecided`` counts the questions that could not be settled as promised, ``compared`` how often a box of the set
    was held against the tested box, a piece of it or a point in it: work in a unit that all ways share.
    """

    undecided: int
    compared: int

    @property
    def name(self) -> str: ...

    def covered(self, low: Floats, high: Floats, among: Boxes) -> bool:
        """Whether every point of the tested box is in a box of the set, as far as this way can tell."""
        ...


@dataclass(slots=True)
class Nothing:
    """Nothing is ever covered."""

    undecided: int = field(default=0, init=False)
    compared: int = field(default=0, init=False)
    name: str = field(default="none", init=False)

    def covered(self, low: Floats, high: Floats, among: Boxes) -> bool:
        return False


@dataclass(slots=True)
class Pairwise:
    """Covered is what a single box of the set contains."""

    undecided: int = field(default=0, init=False)
    compared: int = field(default=0, init=False)
    name: str = field(default="pairwise", init=False)

    def covered(self, low: Floats, high: Floats, among: Boxes) -> bool:
        low, high = _bounds(low, high, among)
        answer, compared = in_one(*among.arrays, low, high)
        if answer == WRONG:
            raise _wrong(low, high)
        self.compared += compared
        return bool(answer != NO)


@dataclass(slots=True)
class Exact:
    """Covered is what the boxes of the set contain together, decided by subtracting them.

    The problem is co-NP-complete (Srivastava 1992), so the pieces looked at in one question are limited by ``budget``.
    One that needs more counts as undecided and not covered: more is forwarded then, and nothing is lost. ``pieces``
    counts them all.
    """

    budget: int = 20_000
    undecided: int = field(default=0, init=False)
    compared: int = field(default=0, init=False)
    pieces: int = field(default=0, init=False)
    name: str = field(default="exact", init=False)

    def __post_init__(self) -> None:
        _check_count(self.budget, "budget")

    def covered(self, low: Floats, high: Floats, among: Boxes) -> bool:
        low, high = _bounds(low, high, among)
        answer, pieces, compared = in_union(*among.arrays, low, high, self.budget)
        if answer == WRONG:
            raise _wrong(low, high)
        self.pieces += pieces
        self.compared += compared
        if answer == UNDECIDED:
            self.undecided += 1
            return False
        return bool(answer != NO)


@dataclass(slots=True)
class Probabilistic:
    """Covered is a box of which no random point was outside all boxes of the set.

    A "not covered" is certain. A "covered" is wrong with a probability of at most ``error``, if no hole is narrower
    than the narrowest strip that one box leaves free (two boxes side by side can leave a narrower one). That takes
    ⌈ln error ÷ ln(1 − ρ)⌉ points, where ρ is the product of those strips as parts of the tested box: for 1 in 1,000 and
    ρ = 1/100 they are 688. At most ``most`` are drawn. Where that is too few, the answer is still "covered", as it must
    be in five dimensions or nothing would ever be, and it counts as undecided. ``points`` counts all that were drawn,
    ``reached`` is the greatest probability of being wrong of any "covered" so far.
    """

    rng: np.random.Generator
    error: float = 1e-3
    most: int = 10_000
    undecided: int = field(default=0, init=False)
    compared: int = field(default=0, init=False)
    points: int = field(default=0, init=False)
    reached: float = field(default=0.0, init=False)
    name: str = field(default="probabilistic", init=False)
    _state: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.rng, np.random.Generator):
            raise SettingError("a generator of random numbers", shown(self.rng), "rng")
        if not isinstance(self.error, float) or not 0 < self.error < 1:
            raise SettingError("a probability above 0 and below 1", shown(self.error), "error")
        _check_count(self.most, "most")
        self._state = self.rng.integers(2**64, size=1, dtype=np.uint64)

    def covered(self, low: Floats, high: Floats, among: Boxes) -> bool:
        low, high = _bounds(low, high, among)
        answer, points, compared, reached = seems_in_union(*among.arrays, low, high, self.error, self.most, self._state)
        if answer == WRONG:
            raise _wrong(low, high)
        self.points += points
        self.compared += compared
        self.reached = max(self.reached, reached)
        if answer == UNDECIDED:
            self.undecided += 1
        return bool(answer != NO)


_WAYS: dict[str, Callable[..., Subsumption]] = {
    "none": Nothing,
    "pairwise": Pairwise,
    "exact": Exact,
    "probabilistic": Probabilistic,
}
NAMES = tuple(_WAYS)


def subsumption_named(name: str, **options: Any) -> Subsumption:
    """A new ``Subsumption`` of that name; ``options`` are those of its class."""
    if name not in _WAYS:
        raise SettingError(f"one of {', '.join(NAMES)}", shown(name), "subsumption")
    try:
        return _WAYS[name](**options)
    except TypeError:
        raise SettingError(f"options of {name}", ", ".join(map(shown, options)) or "none", "subsumption") from None


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_count(value: object, at: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**62:
        raise SettingError("a whole number of at least 1", shown(value), at)


def _bounds(low: ArrayLike, high: ArrayLike, among: Boxes) -> tuple[Floats, Floats]:
    """The bounds as arrays of doubles with one number per dimension, which the kernels rely on."""
    low, high = np.ascontiguousarray(low, np.float64), np.ascontiguousarray(high, np.float64)
    if low.shape != (among.dimension,) or high.shape != (among.dimension,):
        raise SubscriptionError(f"bounds in {among.dimension} dimensions", f"{low.shape} and {high.shape}")
    return low, high


def _wrong(low: Floats, high: Floats) -> SubscriptionError:
    return SubscriptionError("ranges with something in them", f"{shown(low.tolist())} … {shown(high.tolist())}")
