"""What a script of the service consists of, what each step answers, and what queues and readers hold: plain values.

A script is walked by the oracle and by a product alike: both are a `Service`. Moments are whole ticks, counted from
the moment at which the script begins. What a tick is in time, the product's driver says; with an hour, the `Limits`
of the default are those of SERVICE (a horizon of 24 hours and a validity of at most 30 days).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol, TypeAlias

from tests.service.conditions import Condition, Value

Phase: TypeAlias = Literal["START", "END", "INSTANT"] | None
Identity: TypeAlias = tuple[str, str, Phase]
"""Source, id and phase."""
QueueName: TypeAlias = tuple[str, str]
"""Principal and destination."""
Fields: TypeAlias = tuple[str, ...] | Literal["all", "none"]


@dataclass(frozen=True)
class Limits:
    """Settings of the service in ticks; a driver makes its product with them."""

    horizon: int = 24
    max_validity: int = 720
    lateness: int = 2


@dataclass(frozen=True)
class Publication:
    """What is sent; a `time` of None was left out and is the moment of the append."""

    source: str
    id: str
    phase: Phase = None
    time: int | None = 0
    valid_until: int | None = None
    attributes: tuple[tuple[str, Value], ...] = ()

    @property
    def identity(self) -> Identity:
        return self.source, self.id, self.phase


@dataclass(frozen=True)
class Subscription:
    """What a subscriber asks for: the body of the PUT."""

    where: Condition
    initial: bool = False
    expired: bool = False
    active_from: int | None = None
    active_until: int | None = None
    fields: Fields = "all"
    deliver: str = "stream"

    @property
    def is_never_active(self) -> bool:
        """Whether the bounds of activity leave no time between them."""
        begin, end = self.active_from, self.active_until
        return begin is not None and end is not None and end <= begin


@dataclass(frozen=True)
class Publish:
    """One request of one appender (they are numbered, and each is a process or handle of its own)."""

    publications: tuple[Publication, ...]
    appender: int = 0


@dataclass(frozen=True)
class Unpublish:
    source: str
    id: str
    appender: int = 0


@dataclass(frozen=True)
class Advance:
    """The clock goes on; nothing else happens."""

    ticks: int


@dataclass(frozen=True)
class Subscribe:
    """A PUT of a subscription; with `replace` it carries the right If-Match, so that other content is no conflict."""

    principal: str
    id: str
    subscription: Subscription
    replace: bool = False


@dataclass(frozen=True)
class Unsubscribe:
    principal: str
    id: str


@dataclass(frozen=True)
class SetRead:
    """An administrator says what a principal may read; None is everything."""

    principal: str
    read: Condition | None


@dataclass(frozen=True)
class Register:
    principal: str


@dataclass(frozen=True)
class Unregister:
    principal: str


@dataclass(frozen=True)
class Maintain:
    """The runner ends the subscriptions whose `active_until` is not after the clock less the lateness."""


class Death(Enum):
    """When the runner is killed in a batch whose cut is written ahead."""

    BEFORE_COMMIT = "before the commit of the queues"
    IN_COMMIT = "after it was written down which rows are withdrawn, before the commit of the queues"
    AFTER_COMMIT = "after the commit of the queues, before the valid set and the end of the batch are written"


@dataclass(frozen=True)
class Cut:
    """The runner finishes a batch that it was killed in, if there is one, and takes a new one.

    The new one has all rows of the log, the newest version and the clock's time. A runner that dies in it stays down,
    and the steps up to the next `Cut` or `Restart` meet what it left.
    """

    dies: Death | None = None


@dataclass(frozen=True)
class Restart:
    """All processes are killed and started again; the runner finishes a batch that it was killed in, and no more."""


@dataclass(frozen=True)
class Backup:
    """A backup is made; it replaces the one before."""


@dataclass(frozen=True)
class Restore:
    """The data directory is that of the last backup again. The clock is not set back."""


@dataclass(frozen=True)
class Read:
    """Everything after a number of a queue, as a reader is given it at the clock."""

    principal: str
    destination: str = "stream"
    after: int = 0


Step: TypeAlias = (
    Publish
    | Unpublish
    | Advance
    | Subscribe
    | Unsubscribe
    | SetRead
    | Register
    | Unregister
    | Maintain
    | Cut
    | Restart
    | Backup
    | Restore
    | Read
)


@dataclass(frozen=True)
class Script:
    steps: tuple[Step, ...]
    limits: Limits = field(default_factory=Limits)


PublishAnswer: TypeAlias = Literal["accepted", "duplicate", "conflict", "refused"]
"""Of one publication of a request; `refused` is every refusal with another code than `conflict`."""
SubscribeAnswer: TypeAlias = Literal["made", "same", "replaced", "refused"]


@dataclass(frozen=True)
class Delivery:
    """One entry of a queue. A retraction names the withdrawn publication, what it retracts, and no subscriptions."""

    number: int
    kind: Literal["publication", "initial", "retracted"]
    identity: Identity
    subscriptions: tuple[str, ...] = ()
    """Sorted by id: the order within a delivery is nobody's promise."""
    retracts: int | None = None


@dataclass(frozen=True)
class Queue:
    epoch: str
    deliveries: tuple[Delivery, ...] = ()


@dataclass(frozen=True)
class Notification:
    number: int
    identity: Identity
    subscriptions: tuple[str, ...]
    initial: bool
    attributes: Mapping[str, Value]
    """Those that the `fields` of the subscriptions that are named ask for together."""


@dataclass(frozen=True)
class Retracted:
    number: int
    retracts: int


@dataclass(frozen=True)
class Skipped:
    """All numbers from `first` to `last`, both included, for one reason."""

    first: int
    last: int
    reason: Literal["expired", "unpublished", "unreadable"]


@dataclass(frozen=True)
class Gap:
    """The reader asked for what comes after a number that the queue does not have; it is given all from the oldest."""


Item: TypeAlias = Notification | Retracted | Skipped | Gap


class Service(Protocol):
    """What walks a script: the oracle, or a driver of the product.

    Each method does one step and gives its answer. `begin` is called once, before the first step, on an empty data
    directory with the clock at tick 0. Nothing is lost by age: no retention of log or queues, no session that expires.
    """

    def begin(self, limits: Limits) -> None: ...

    def publish(self, step: Publish) -> tuple[PublishAnswer, ...]:
        """One answer for each publication of the step, in its order."""

    def unpublish(self, step: Unpublish) -> bool:
        """Whether it was found."""

    def advance(self, step: Advance) -> None: ...

    def subscribe(self, step: Subscribe) -> SubscribeAnswer: ...

    def unsubscribe(self, step: Unsubscribe) -> bool:
        """Whether the principal had it."""

    def set_read(self, step: SetRead) -> None: ...

    def register(self, step: Register) -> None: ...

    def unregister(self, step: Unregister) -> bool:
        """Whether the principal was registered."""

    def maintain(self, step: Maintain) -> None: ...

    def cut(self, step: Cut) -> None: ...

    def restart(self, step: Restart) -> None: ...

    def backup(self, step: Backup) -> None: ...

    def restore(self, step: Restore) -> None: ...

    def read(self, step: Read) -> tuple[Item, ...] | None:
        """The items in order. None, from the oracle only: the contract leaves open what is read at this moment."""

    def queues(self) -> Mapping[QueueName, Queue]:
        """All queues as the last commit left them, whatever a reader would be given."""
