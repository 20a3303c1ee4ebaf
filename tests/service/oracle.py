"""The service in obvious loops: what each step answers, what every queue holds and what its reader is given.

Written from SERVICE (§1 to §3) and the design of identity, validity and initial matches, without reading the product,
and importing nothing of it. `Oracle` is a `Service`, so that it is compared with the product step by step.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Literal

from tests.service.conditions import Always, Condition, Value, holds, same_value, text
from tests.service.oracle_state import (
    Kept,
    KeptQueue,
    Logged,
    Made,
    Registration,
    State,
    TakenCut,
    Tombstone,
)
from tests.service.steps import (
    Advance,
    Backup,
    Cut,
    Death,
    Delivery,
    Gap,
    Identity,
    Item,
    Limits,
    Maintain,
    Notification,
    Publication,
    Publish,
    PublishAnswer,
    Queue,
    QueueName,
    Read,
    Register,
    Restart,
    Restore,
    Retracted,
    SetRead,
    Skipped,
    Subscribe,
    SubscribeAnswer,
    Subscription,
    Unpublish,
    Unregister,
    Unsubscribe,
)


class Oracle:
    """What the contract says of a script."""

    def begin(self, limits: Limits) -> None:
        self.limits = limits
        self.clock = 0
        self.epochs = 0
        self.state = State()
        self.backed_up: State | None = None

    # The log

    def publish(self, step: Publish) -> tuple[PublishAnswer, ...]:
        return tuple(self.publish_one(publication) for publication in step.publications)

    def publish_one(self, publication: Publication) -> PublishAnswer:
        until = publication.valid_until
        if until is not None and until > self.clock + self.limits.max_validity:
            return "refused"
        for _, logged in self.state.publications(len(self.state.log)):
            if logged.publication.identity == publication.identity and self.known(logged):
                return "duplicate" if same_content(logged.publication, publication) else "conflict"
        self.state.log.append(Logged(publication, self.state.version, self.clock))
        return "accepted"

    def known(self, logged: Logged) -> bool:
        """Whether the identity of a row counts: within the horizon, and for as long as the publication is valid."""
        until = logged.publication.valid_until
        return logged.appended + self.limits.horizon > self.clock or (until is not None and until > self.clock)

    def unpublish(self, step: Unpublish) -> bool:
        rows = [
            row
            for row, logged in self.state.publications(len(self.state.log))
            if (logged.publication.source, logged.publication.id) == (step.source, step.id)
            and self.known(logged)
            and not self.state.withdrawn(row, len(self.state.log))
        ]
        if rows:
            self.state.log.append(Tombstone(tuple(rows)))
        return bool(rows)

    # The registry

    def subscribe(self, step: Subscribe) -> SubscribeAnswer:
        current = self.current(step.principal, step.id)
        if step.subscription.is_never_active or (current is None and step.replace):
            return "refused"
        if current is not None and same_subscription(current.subscription, step.subscription):
            return "same"
        if current is not None and not step.replace:
            return "refused"
        self.state.version += 1
        if current is not None:
            current.ended = self.state.version
        self.make(step.principal, step.id, step.subscription)
        self.begin_session(step.principal)
        return "made" if current is None else "replaced"

    def unsubscribe(self, step: Unsubscribe) -> bool:
        current = self.current(step.principal, step.id)
        if current is None:
            return False
        self.state.version += 1
        current.ended = self.state.version
        return True

    def set_read(self, step: SetRead) -> None:
        """All subscriptions of the principal are ended and made anew at one version.

        Initial matches are not told again: an administrator has changed what may be read, and nobody has subscribed.
        """
        read = Always() if step.read is None else step.read
        if text(read) == text(self.may_read(step.principal)):
            return
        self.state.reads[step.principal] = read
        self.state.version += 1
        for current in self.all_current(step.principal):
            current.ended = self.state.version
            self.make(current.principal, current.id, current.subscription, current.first)

    def register(self, step: Register) -> None:
        if step.principal not in self.state.registered:
            self.state.version += 1
            self.begin_session(step.principal)

    def begin_session(self, principal: str) -> None:
        """A session has the queue `stream`, whatever its subscriptions deliver to."""
        if principal not in self.state.registered:
            self.state.registered.add(principal)
            self.state.registrations.append(Registration(self.state.version, principal, begins=True))

    def unregister(self, step: Unregister) -> bool:
        """The session ends: its subscriptions with it, what it may read stays."""
        if step.principal not in self.state.registered:
            return False
        self.state.version += 1
        self.state.registered.remove(step.principal)
        self.state.registrations.append(Registration(self.state.version, step.principal, begins=False))
        for current in self.all_current(step.principal):
            current.ended = self.state.version
        return True

    def maintain(self, step: Maintain) -> None:
        for current in self.state.subscriptions:
            until = current.subscription.active_until
            if current.ended is None and until is not None and until <= self.clock - self.limits.lateness:
                self.state.version += 1
                current.ended = self.state.version

    def make(self, principal: str, id: str, subscription: Subscription, first: int | None = None) -> None:
        read, version = self.may_read(principal), self.state.version
        made = Made(principal, id, subscription, read, version, version if first is None else first)
        self.state.subscriptions.append(made)

    def may_read(self, principal: str) -> Condition:
        return self.state.reads.get(principal, Always())

    def current(self, principal: str, id: str) -> Made | None:
        return next((current for current in self.all_current(principal) if current.id == id), None)

    def all_current(self, principal: str) -> list[Made]:
        return [made for made in self.state.subscriptions if made.principal == principal and made.ended is None]

    # The clock, the runner and backups

    def advance(self, step: Advance) -> None:
        self.clock += step.ticks

    def cut(self, step: Cut) -> None:
        self.finish_begun_batch()
        cut = TakenCut(len(self.state.log), self.state.version, self.clock)
        self.state.died_in_commit = step.dies in (Death.IN_COMMIT, Death.AFTER_COMMIT)
        if step.dies in (Death.BEFORE_COMMIT, Death.IN_COMMIT):
            self.state.died_before_commit = cut
            return
        self.commit(cut)

    def restart(self, step: Restart) -> None:
        self.finish_begun_batch()

    def finish_begun_batch(self) -> None:
        """The batch is run again with the cut that was written ahead, whatever has happened since."""
        cut, self.state.died_before_commit = self.state.died_before_commit, None
        if cut is not None:
            self.commit(cut)
        self.state.died_in_commit = False

    def backup(self, step: Backup) -> None:
        self.backed_up = deepcopy(self.state)

    def restore(self, step: Restore) -> None:
        assert self.backed_up is not None, "a script restores only what it has backed up"
        self.state = deepcopy(self.backed_up)
        for queue in self.state.queues.values():
            queue.epoch = self.new_epoch()

    def new_epoch(self) -> str:
        self.epochs += 1
        return f"epoch {self.epochs}"

    def commit(self, cut: TakenCut) -> None:
        """One batch reaches the queues: first sessions, then initial matches by row, then the rows of the log."""
        before = self.state.committed
        self.begin_and_end_queues(before, cut)
        for row, logged in self.state.publications(cut.rows):
            if self.in_valid_set(row, logged, cut):
                self.deliver(
                    "initial", row, [made for made in self.beginning(before, cut) if self.initially(made, logged)]
                )
        for row in range(before.rows, cut.rows):
            cause = self.state.log[row]
            if isinstance(cause, Tombstone):
                self.retract(cause)
            else:
                told = [made for made in self.deliverable(cut) if self.live(made, cause)]
                self.deliver("publication", row, told)
        self.state.committed = cut

    def in_valid_set(self, row: int, logged: Logged, cut: TakenCut) -> bool:
        if logged.publication.valid_until is None or not logged.valid(cut.time):
            return False
        return not self.state.withdrawn(row, cut.rows)

    def beginning(self, before: TakenCut, cut: TakenCut) -> list[Made]:
        """The subscriptions that this cut is the first to have, and that have not ended at it."""
        return [made for made in self.deliverable(cut) if before.version < made.first and made.alive(cut.version)]

    def deliverable(self, cut: TakenCut) -> list[Made]:
        """The subscriptions that this cut has, without those whose session it ends."""
        return [
            made
            for made in self.state.subscriptions
            if made.made <= cut.version and not self.state.unregistered(made.principal, made.made, cut.version)
        ]

    def initially(self, made: Made, logged: Logged) -> bool:
        """Whether a publication that is valid is an initial match of a subscription that begins."""
        return made.subscription.initial and logged.version < made.first and made.matches(logged)

    def live(self, made: Made, logged: Logged) -> bool:
        """Whether a subscription is told of a publication when it is cut; expiry is judged by the append's stamp."""
        counts = made.subscription.expired or logged.valid(logged.appended)
        return made.alive(logged.version) and counts and made.matches(logged)

    def begin_and_end_queues(self, before: TakenCut, cut: TakenCut) -> None:
        for version in range(before.version + 1, cut.version + 1):
            for change in self.state.registrations:
                if change.version == version and change.begins:
                    self.begin_queue((change.principal, "stream"))
                elif change.version == version:
                    for name in [name for name in self.state.queues if name[0] == change.principal]:
                        del self.state.queues[name]
            for made in self.state.subscriptions:
                if made.made == version:
                    self.begin_queue(made.queue)

    def begin_queue(self, name: QueueName) -> None:
        if name not in self.state.queues:
            self.state.queues[name] = KeptQueue(self.new_epoch())

    def deliver(self, kind: Literal["publication", "initial"], row: int, told: list[Made]) -> None:
        """One entry in each queue that any of these subscriptions delivers to."""
        for name, queue in self.state.queues.items():
            here = tuple(made for made in told if made.queue == name)
            if here:
                queue.entries.append(Kept(kind, row, here))

    def retract(self, stone: Tombstone) -> None:
        for queue in self.state.queues.values():
            for number, entry in enumerate(list(queue.entries), start=1):
                if entry.kind != "retracted" and entry.row in stone.rows:
                    queue.entries.append(Kept("retracted", entry.row, retracts=number))

    # What is in queues, and what readers are given

    def queues(self) -> Mapping[QueueName, Queue]:
        return {
            name: Queue(queue.epoch, tuple(self.delivery(number, entry) for number, entry in numbered(queue)))
            for name, queue in self.state.queues.items()
        }

    def delivery(self, number: int, entry: Kept) -> Delivery:
        ids = tuple(sorted(made.id for made in entry.told))
        return Delivery(number, entry.kind, self.identity(entry), ids, entry.retracts)

    def identity(self, entry: Kept) -> Identity:
        return self.logged(entry).publication.identity

    def logged(self, entry: Kept) -> Logged:
        logged = self.state.log[entry.row]
        assert isinstance(logged, Logged)
        return logged

    def read(self, step: Read) -> tuple[Item, ...] | None:
        if self.state.died_in_commit:
            return None  # the queues are not of one batch with what says which rows are withdrawn
        if self.state.unregistered(step.principal, self.state.committed.version):
            return ()  # the session has ended, and the runner has not come to it
        queue = self.state.queues.get((step.principal, step.destination))
        if queue is None:
            return ()
        beyond = step.after > len(queue.entries)
        items: list[Item] = [Gap()] if beyond else []
        for number, entry in numbered(queue):
            if number > step.after or beyond:
                add(items, self.item(step.principal, number, entry))
        return tuple(items)

    def item(self, principal: str, number: int, entry: Kept) -> Item:
        """What a reader is given for one entry. That something may not be read is the reason before all others."""
        logged = self.logged(entry)
        if not holds(self.may_read(principal), logged.fields):
            return Skipped(number, number, "unreadable")
        if entry.kind == "retracted":
            assert entry.retracts is not None
            return Retracted(number, entry.retracts)
        if self.state.withdrawn(entry.row, self.state.committed.rows):
            return Skipped(number, number, "unpublished")
        named = [made for made in entry.told if logged.valid(self.clock) or made.subscription.expired]
        if not named:
            return Skipped(number, number, "expired")
        ids = tuple(sorted(made.id for made in named))
        attributes = shown(logged.publication, [made.subscription for made in named])
        return Notification(number, logged.publication.identity, ids, entry.kind == "initial", attributes)


def same_subscription(one: Subscription, other: Subscription) -> bool:
    """Whether two bodies of a PUT say the same; conditions are compared as they are written."""
    rest = replace(one, where=Always()) == replace(other, where=Always())
    return rest and text(one.where) == text(other.where)


def same_content(one: Publication, other: Publication) -> bool:
    """Whether two publications of one identity are the same as they were sent."""
    mine, theirs = dict(one.attributes), dict(other.attributes)
    return (
        (one.time, one.valid_until) == (other.time, other.valid_until)
        and mine.keys() == theirs.keys()
        and all(same_value(mine[name], theirs[name]) for name in mine)
    )


def shown(publication: Publication, subscriptions: list[Subscription]) -> dict[str, Value]:
    """The attributes that any of the subscriptions asks for."""
    return {
        name: value
        for name, value in publication.attributes
        if any(asked.fields == "all" or (asked.fields != "none" and name in asked.fields) for asked in subscriptions)
    }


def numbered(queue: KeptQueue) -> Iterator[tuple[int, Kept]]:
    return enumerate(queue.entries, start=1)


def add(items: list[Item], item: Item) -> None:
    """Put an item behind the others; numbers that are skipped in a row for one reason are one item."""
    last = items[-1] if items else None
    if isinstance(item, Skipped) and isinstance(last, Skipped) and last.reason == item.reason:
        items[-1] = Skipped(last.first, item.last, item.reason)
    else:
        items.append(item)
