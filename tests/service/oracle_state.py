"""What the oracle keeps: the log, the registry, the queues and the last cut, as plain lists.

There is no index, and nothing is kept that can be found by looking through the log and the registry again. A copy of
the `State` is a backup.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.service.conditions import And, Condition, Value, holds
from tests.service.steps import Publication, QueueName, Subscription


@dataclass(frozen=True)
class Logged:
    """A row of the log that is a publication, with the stamps of its append."""

    publication: Publication
    version: int
    appended: int

    @property
    def time(self) -> int:
        return self.appended if self.publication.time is None else self.publication.time

    @property
    def fields(self) -> dict[str, Value]:
        """What conditions see."""
        publication = self.publication
        named = {"source": publication.source, "id": publication.id}
        if publication.phase is not None:
            named["phase"] = publication.phase
        return {**dict(publication.attributes), **named}

    def valid(self, moment: int) -> bool:
        """Whether the publication has not expired at a moment; without `valid_until` it never does."""
        return self.publication.valid_until is None or self.publication.valid_until > moment


@dataclass(frozen=True)
class Tombstone:
    """A row of the log that withdraws earlier rows."""

    rows: tuple[int, ...]


LogRow: TypeAlias = Logged | Tombstone


@dataclass
class Made:
    """A subscription from the version that made it to the version that ended it; replacing makes another one.

    Another `read` makes it anew as well, but of what it was at `first`.
    """

    principal: str
    id: str
    subscription: Subscription
    read: Condition
    made: int
    first: int
    ended: int | None = None

    @property
    def queue(self) -> QueueName:
        return self.principal, self.subscription.deliver

    def alive(self, version: int) -> bool:
        return self.made <= version and (self.ended is None or version < self.ended)

    def matches(self, logged: Logged) -> bool:
        """By event time between the bounds of activity, and by the condition together with what may be read."""
        asked = self.subscription
        if asked.active_from is not None and logged.time < asked.active_from:
            return False
        if asked.active_until is not None and logged.time >= asked.active_until:
            return False
        return holds(And((asked.where, self.read)), logged.fields)


@dataclass(frozen=True)
class Registration:
    """A version at which a principal was registered, or unregistered."""

    version: int
    principal: str
    begins: bool


@dataclass(frozen=True)
class Kept:
    """An entry of a queue; its number is its place."""

    kind: Literal["publication", "initial", "retracted"]
    row: int
    told: tuple[Made, ...] = ()
    retracts: int | None = None


@dataclass
class KeptQueue:
    epoch: str
    entries: list[Kept] = field(default_factory=list)


@dataclass(frozen=True)
class TakenCut:
    """What a batch reaches to: so many rows of the log, a version of the registry, and a time."""

    rows: int = 0
    version: int = 0
    time: int = 0


@dataclass
class State:
    """What a data directory holds, and a backup of it."""

    log: list[LogRow] = field(default_factory=list)
    version: int = 0
    subscriptions: list[Made] = field(default_factory=list)
    registrations: list[Registration] = field(default_factory=list)
    registered: set[str] = field(default_factory=set)
    reads: dict[str, Condition] = field(default_factory=dict)
    queues: dict[QueueName, KeptQueue] = field(default_factory=dict)
    committed: TakenCut = TakenCut()
    died_before_commit: TakenCut | None = None
    died_in_commit: bool = False

    def publications(self, rows: int) -> Iterator[tuple[int, Logged]]:
        """The publications among the first rows of the log, with their rows."""
        for row, logged in enumerate(self.log[:rows]):
            if isinstance(logged, Logged):
                yield row, logged

    def withdrawn(self, row: int, rows: int) -> bool:
        """Whether one of the first rows of the log withdraws a row."""
        return any(isinstance(stone, Tombstone) and row in stone.rows for stone in self.log[:rows])

    def unregistered(self, principal: str, after: int, upto: int | None = None) -> bool:
        """Whether a principal was unregistered at a version after one, and not after another."""
        return any(
            not change.begins and change.principal == principal and after < change.version
            for change in self.registrations
            if upto is None or change.version <= upto
        )
