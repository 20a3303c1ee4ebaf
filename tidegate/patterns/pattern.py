"""The contract of a pattern: what must hold over several publications and over time.

A pattern is plain data: the family it is of, its *form* (all that is not a number), its numbers, and its filters,
which are ordinary filters that it shares with every other pattern that has the same one. A ``Family`` keeps all
patterns of its kind that live in one shard, side by side in flat arrays (``Arrays``); ``Combine`` gives it publications
in the order of their time. The number of a subscription within a family is its *slot*. Every family has an oracle in
``tests/patterns``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.language.limits import Limits
from tidegate.language.tree import Call, Node
from tidegate.predicates.column import Column
from tidegate.predicates.filter import Filter

if TYPE_CHECKING:
    from tidegate.patterns.arrays import Arrays
    from tidegate.patterns.memory import Memory, Step
    from tidegate.patterns.reason import Asked, Coming, Reason

__all__ = [
    "FAMILIES",
    "NEVER",
    "NOTHING_RAISED",
    "Admission",
    "Family",
    "FamilyResult",
    "Inner",
    "Parts",
    "Pattern",
    "family",
    "family_of",
]

#: A moment, or a version, that never comes.
NEVER = 2**62


@dataclass(frozen=True)
class Inner:
    """A filter of a pattern. Two with the same text are one."""

    text: bytes
    filter: Filter = field(compare=False)

    @cached_property
    def key(self) -> bytes:
        """128 bits that stand for the text, wherever filters are numbered anew."""
        return blake2b(self.text, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of a subscription. It raises nothing at the moment ``ends`` or later."""

    family: str
    form: str
    numbers: tuple[float, ...]
    filters: tuple[Inner, ...]
    begins: int | None = None
    ends: int | None = None


class Parts(NamedTuple):
    """What a family makes of a call: its form, its numbers, and the conditions that are its filters."""

    form: str
    numbers: tuple[float, ...]
    filters: tuple[Node, ...]
    timeless: frozenset[int] = frozenset()
    """Filters that the subscription's time of activity does not bound."""


class FamilyResult(NamedTuple):
    """What a family raises: slots of subscriptions, moments, scores and distances (NaN where there is none), and the
    publications of i, by their place in memory, at ``items[start[i]:start[i + 1]]``; ``raised`` has the one that
    completed it, or −1.
    """

    slot: NDArray[np.int64]
    moment: NDArray[np.int64]
    score: NDArray[np.float64]
    distance: NDArray[np.float64]
    start: NDArray[np.int64]
    items: NDArray[np.int64]
    raised: NDArray[np.int64]

    @staticmethod
    def single(
        slot: NDArray[np.int64], moment: NDArray[np.int64], item: NDArray[np.int64], score: NDArray[np.float64] | None
    ) -> FamilyResult:
        """A result of at most one publication each; −1 for none."""
        if not len(slot):
            return NOTHING_RAISED
        nothing, is_there = np.full(len(slot), np.nan), item >= 0
        start, items = np.arange(len(slot) + 1), item
        if not is_there.all():
            start, items = np.concatenate(([0], np.cumsum(is_there))), item[is_there]
        return FamilyResult(slot, moment, nothing if score is None else score, nothing, start, items, item)


_NO_NUMBERS, _NO_FLOATS = np.empty(0, np.int64), np.empty(0)
NOTHING_RAISED = FamilyResult(
    _NO_NUMBERS, _NO_NUMBERS, _NO_FLOATS, _NO_FLOATS, np.zeros(1, np.int64), _NO_NUMBERS, _NO_NUMBERS
)


class Admission(NamedTuple):
    """A subscription that enters a shard: its owner, the versions at which it was made and ended, and when it began."""

    owner: int
    since: int
    until: int
    form: str
    numbers: Sequence[float]
    filters: Sequence[int]
    """Numbers of the filters in the shard."""
    made_at: int | None
    """The newest time that had appeared when it was made: the clock and the lateness; None if the clock did not run."""
    begins: int
    """The moment before which it sees nothing."""
    ends: int
    """The last moment at which it may raise anything."""


class Family(ABC):
    """All patterns of one kind in one shard. Subclasses keep their state in ``arrays`` and nowhere else."""

    name: ClassVar[str]
    ops: ClassVar[tuple[str, ...]] = ()
    """Names of the calls that may be of the family; its own name if there are none."""
    arity: ClassVar[tuple[int, int]]
    """The least and the most arguments of a call that is claimed."""
    takes_all: ClassVar[bool] = False
    """Whether the whole expression is compiled, wherever in it the calls stand."""
    example: ClassVar[str]

    def __init__(self, arrays: Arrays, memory: Memory) -> None:
        self.arrays, self.memory = arrays, memory
        own = self.name
        self.owner = arrays.get(f"{own}-owner", np.int64)
        self.since = arrays.get(f"{own}-since", np.int64)
        self.until = arrays.get(f"{own}-until", np.int64)
        self.end = arrays.get(f"{own}-end", np.int64)
        """The last moment at which the clock may raise anything of it."""
        self.closing = arrays.get(f"{own}-closing", np.int64)
        """The latest time of a publication that may raise anything of it."""
        self.changes = 0
        """Grows with every change of what is kept by slot; what is worked out from that is kept for one number."""
        self._versions = (-1, -NEVER, False)

    # --- language ---------------------------------------------------------------------------------------------------

    @classmethod
    def claims(cls, call: Call) -> bool:
        """Whether a call of one of ``ops`` is a pattern of this family."""
        return call.op == cls.name

    @classmethod
    @abstractmethod
    def compile(cls, call: Call, limits: Limits) -> Parts:
        """What a call means; raises ``Mismatch`` or ``BeyondLimit``."""

    @classmethod
    def columns(cls, form: str) -> tuple[Column, ...]:
        """The numbers of a publication that patterns of that form look at."""
        return ()

    @classmethod
    def attributes(cls, form: str) -> tuple[str, ...]:
        """The names of what patterns of that form look at, for ``explain``."""
        return tuple(dict.fromkeys(name for column in cls.columns(form) for name in column.attributes))

    @classmethod
    @abstractmethod
    def window(cls, form: str, numbers: Sequence[float]) -> tuple[int, int]:
        """For how long, and for how many publications, what passed a filter must be remembered."""

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def _enter(self, admissions: Sequence[Admission]) -> NDArray[np.int64]:
        """Append the fields that all families have, and return the new slots."""
        first = self.owner.length
        columns = [
            (self.owner, [a.owner for a in admissions]),
            (self.since, [a.since for a in admissions]),
            (self.until, [a.until for a in admissions]),
            (self.end, [a.ends for a in admissions]),
            (self.closing, [a.ends for a in admissions]),
        ]
        for array, values in columns:
            array.extend(np.array(values, np.int64))
        self.changes += 1
        return np.arange(first, self.owner.length)

    def _others(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A mask of all slots, False for these."""
        kept = np.ones(self.owner.length, np.bool_)
        kept[slots] = False
        return kept

    def _leave(self, kept: NDArray[np.bool_]) -> None:
        """Keep only some of the slots in the arrays that all families have."""
        for array in (self.owner, self.since, self.until, self.end, self.closing):
            array.replace(array.used[kept])
        self.changes += 1

    def close(
        self,
        slots: NDArray[np.int64],
        versions: NDArray[np.int64],
        clocks: NDArray[np.int64],
        closing: NDArray[np.int64],
    ) -> None:
        """Let subscriptions end at these versions and clocks, and with publications of these times, if not before."""
        for array, bounds in ((self.until, versions), (self.end, clocks), (self.closing, closing)):
            array.data[slots] = np.minimum(array.data[slots], bounds)
        self.changes += 1

    def may_not_see(self, version: int) -> bool:
        """Whether a publication of that version or a later one may be outside the versions of a subscription."""
        if self._versions[0] != self.changes:
            latest, ended = int(self.since.used.max(initial=-NEVER)), bool((self.until.used < NEVER).any())
            self._versions = self.changes, latest, ended
        return self._versions[1] > version or self._versions[2]

    @abstractmethod
    def filters(self) -> NDArray[np.integer[Any]]:
        """The filters, in any order, of which ``step`` must see the publications."""

    @abstractmethod
    def add(self, admissions: Sequence[Admission]) -> None:
        """Take subscriptions."""

    @abstractmethod
    def remove(self, slots: NDArray[np.int64]) -> None:
        """Remove subscriptions; the others may change their slots."""

    def wake(self, first: int) -> None:
        """Called with the first time of all, when the clock begins to run. Most families do nothing."""
        return

    # --- publications -----------------------------------------------------------------------------------------------

    @abstractmethod
    def step(self, step: Step) -> FamilyResult:
        """Give a batch of publications to all subscriptions, and return what they raise."""

    @property
    def due(self) -> int:
        """A moment before which ``advance`` has nothing to do."""
        return NEVER

    def advance(self, clock: int) -> FamilyResult | None:
        """Let the clock run to a moment, and return what that raises up to and including it."""
        return None

    def raised(self, told: Sequence[FamilyResult]) -> Sequence[FamilyResult]:
        """The results of ``step`` and ``advance`` for one batch, in the order in which they are raised."""
        return told

    def items(self) -> list[NDArray[np.int64]]:
        """The arrays that name publications by their place in memory, which may change."""
        return []

    @property
    def counts(self) -> dict[str, int]:
        """The counters of the family, by name."""
        return {}

    def connect(self, other: Family) -> None:
        """Ask what a family of another shard in the same state asks, where that is no state. Most ask nothing."""
        return

    @abstractmethod
    def reason(self, slot: int, coming: Coming, asked: Asked) -> Reason:
        """Why a subscription is told, or not told, of a publication that would come next. Changes nothing."""

    def unseen(self, slot: int, coming: Coming) -> str | None:
        """Why a subscription does not see the publication at all, whatever its filters; None if that is no reason."""
        return None


#: Every family of patterns by the name of its function.
FAMILIES: dict[str, type[Family]] = {}
#: The families that may claim a call, by the name of its function.
_CLAIMANTS: dict[str, list[type[Family]]] = {}


def family(cls: type[Family]) -> type[Family]:
    """Register a family; decorates its class."""
    FAMILIES[cls.name] = cls
    for op in cls.ops or (cls.name,):
        _CLAIMANTS.setdefault(op, []).append(cls)
    return cls


def family_of(node: Node) -> type[Family] | None:
    """The family that a node is a pattern of; None if it is none."""
    if type(node) is not Call:
        return None
    return next((found for found in _CLAIMANTS.get(node.op, ()) if found.claims(node)), None)
