"""A broker whose publications are valid for a while and unpublished, and what its queues must have, in obvious loops.

``ValidWorld`` writes down all that it does; ``expected`` reads these notes and the cuts, and nothing that the product
has written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import orjson

import tidegate as tg
from tests.broker.test_process_run import Broker, Killed
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sinks import DriverSink
from tidegate.stages import log_planner
from tidegate.store.delivery_records import DeliveryKind, MatchedSubscription
from tidegate.store.log_frames import Tombstone
from tidegate.store.queue_reader import QueueReader

__all__ = ["CONDITIONS", "PRINCIPALS", "Expected", "Published", "Subscribed", "ValidWorld", "expected", "told_by"]

PRINCIPALS = ("ann", "bob")
#: The text of a condition, and what it means.
CONDITIONS = {
    "n >= 0": lambda n, kind: n is not None,
    "n > 3": lambda n, kind: n is not None and n > 3,
    "kind = 'b'": lambda n, kind: kind == "b",
    "n < 2 OR kind LIKE 'a%'": lambda n, kind: (n is not None and n < 2) or kind == "a",
    "kind LIKE '%b%'": lambda n, kind: kind == "b",
    "source = 'y'": None,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Published:
    row: int
    id: str
    source: str
    n: int | None
    kind: str | None
    until: int | None
    version: int
    appended: int

    def matches(self, where):
        return self.source == "y" if CONDITIONS[where] is None else CONDITIONS[where](self.n, self.kind)


@dataclass
class Unpublished:
    row: int
    rows: list[int]


@dataclass
class Subscribed:
    since: int
    id: str
    principal: str
    destination: str
    where: str
    initial: bool
    expired: bool
    until: int | None = None

    def is_active(self, version):
        return self.since <= version and (self.until is None or self.until > version)


@dataclass
class Notes:
    rows: list = field(default_factory=list)
    subscriptions: list = field(default_factory=list)
    registrations: list = field(default_factory=list)
    """(version, principal, whether it was registered)"""
    cuts: dict = field(default_factory=dict)


class NotedCuts(DriverSink):
    """Keeps the cut of each batch, and has the sink of the queues tidied now and then."""

    def __init__(self, cuts, queues, random):
        self._cuts, self._queues, self._random = cuts, queues, random

    def commit(self, batch, receipts):
        assert self._cuts.setdefault(batch, receipts.cut) == receipts.cut
        if self._random.random() < 0.3:
            self._queues.tidy()


class ValidWorld(Broker):
    """Its clock is in µs and moves when the script says so."""

    #: For how many seconds publications are valid.
    validities = (None, None, 0, 3, 5, 8, 100)

    def __init__(self, directory, random, patch, **settings):
        super().__init__(directory, **settings)
        self.random, self.notes, self.now = random, Notes(), 1_000_000_000
        patch.setattr(log_planner, "time_ns", lambda: self.now * 1000)
        self.log = tg.Log(directory / "log", version=lambda: self.registry.version, clock=lambda: self.now)
        self._numbers = iter(range(1_000_000))

    def publish(self, count=None):
        given, version = [], self.registry.version
        row = self.log.end
        for i in range(count or self.random.randrange(1, 5)):
            validity = self.random.choice(self.validities)
            until = None if validity is None else self.now + validity * 1_000_000
            one = Published(
                row + i,
                f"p{next(self._numbers)}",
                self.random.choice("xy"),
                self.random.choice([None, 1, 2, 3, 4, 5]),
                self.random.choice([None, "a", "b"]),
                until,
                version,
                self.now,
            )
            given.append(one)
        self.log.append([self._publication(one) for one in given])
        self.notes.rows += given

    def _publication(self, one):
        attributes = {name: value for name, value in (("n", one.n), ("kind", one.kind)) if value is not None}
        valid = None if one.until is None else EPOCH + timedelta(microseconds=one.until)
        return tg.Publication(
            one.id, one.source, EPOCH + timedelta(microseconds=self.now), attributes, valid_until=valid
        )

    def unpublish(self):
        withdrawn = {row for one in self.notes.rows if isinstance(one, Unpublished) for row in one.rows}
        there = [one for one in self.notes.rows if isinstance(one, Published) and one.row not in withdrawn]
        some = self.random.sample(there, min(len(there), self.random.choice([1, 1, 2])))
        if some:
            row = self.log.end
            self.log.withdraw([Tombstone(one.source, one.id, [one.row]) for one in some])
            self.notes.rows += [Unpublished(row + i, [one.row]) for i, one in enumerate(some)]

    def subscribe(self):
        number, principal = next(self._numbers), self.random.choice(PRINCIPALS)
        deliver, where = self.random.choice(["stream", "stream", "mqtt"]), self.random.choice(list(CONDITIONS))
        initial, expired = self.random.random() < 0.7, self.random.random() < 0.2
        made = tg.Subscription(f"s{number}", principal, where, initial=initial, expired=expired, deliver=deliver)
        is_new = self.registry.registered(principal) is None
        since = self.registry.subscribe(made)
        if is_new:
            self.notes.registrations.append((since, principal, True))
        self.notes.subscriptions.append(Subscribed(since, made.id, principal, deliver, where, initial, expired))

    def unsubscribe(self):
        living = [one for one in self.notes.subscriptions if one.until is None]
        if living:
            one = self.random.choice(living)
            one.until = self.registry.unsubscribe(f"{one.principal}/{one.id}")

    def register(self):
        principal = self.random.choice(PRINCIPALS)
        if self.registry.registered(principal) is None:
            self.notes.registrations.append((self.registry.register(principal), principal, True))

    def unregister(self):
        principal = self.random.choice(PRINCIPALS)
        if self.registry.registered(principal) is not None:
            version = self.registry.unregister(principal)
            self.notes.registrations.append((version, principal, False))
            for one in self.notes.subscriptions:
                if one.principal == principal and one.until is None:
                    one.until = version

    def tick(self):
        self.now += self.random.choice([1, 2_000_000, 4_000_000])

    def run(self, rows_of_batch=65_536, sinks=None):
        queues = QueueSink(self.directory / "queues", self.registry, keep=None, log=self.directory / "log")
        made = [queues, NotedCuts(self.notes.cuts, queues, self.random)]
        try:
            return super().run(rows_of_batch, made if sinks is None else sinks)
        except Killed:  # while it was opened
            return False

    def delivered(self):
        return told_by(self.directory / "queues")


def told_by(directory):
    """What the queues have: by principal and destination (kind, row, subscriptions or the number retracted)."""
    found = {}
    with QueueReader(directory) as reader:
        for queue in reader:
            page = reader.read(queue, 0, 1_000_000)
            assert [one.number for one in page.deliveries] == list(range(1, page.last + 1))
            found[queue.principal, queue.destination] = [_said(one) for one in page.deliveries]
    return found


def _said(delivery):
    kind = DeliveryKind(delivery.kind)
    if kind == DeliveryKind.RETRACTED:
        assert not delivery.meanings
        return kind.name, delivery.row, orjson.loads(delivery.told)["retracts"]
    return kind.name, delivery.row, sorted(MatchedSubscription.unpacked(one).id for one in delivery.meanings)


class Expected:
    """What queues must have after each batch."""

    def __init__(self, notes):
        self._notes, self.queues, self._since = notes, {}, {}

    def all(self):
        before = None
        for batch in sorted(self._notes.cuts):
            cut = self._notes.cuts[batch]
            self._batch((0, 0) if before is None else before[:2], cut)
            before = cut
        return self.queues

    def _batch(self, before, cut):
        for version in range(before[1] + 1, cut.version + 1):
            self._version(version)
        self._initial(before, cut)
        for row in range(before[0], cut.row):
            one = self._notes.rows[row]
            if isinstance(one, Published):
                self._tell("PUBLICATION", one.row, [s for s in self._notes.subscriptions if self._is_live(s, one)])
            else:
                self._retract(one)

    def _version(self, version):
        for at, principal, is_registered in self._notes.registrations:
            if at == version and is_registered:
                self._make(principal, "stream", version)
            elif at == version:
                for queue in [queue for queue in self.queues if queue[0] == principal]:
                    del self.queues[queue], self._since[queue]
        for one in self._notes.subscriptions:
            if one.since == version:
                self._make(one.principal, one.destination, version)

    def _make(self, principal, destination, version):
        if (principal, destination) not in self.queues:
            self.queues[principal, destination], self._since[principal, destination] = [], version

    def _is_live(self, subscription, one):
        is_expired = one.until is not None and one.until <= one.appended
        active = subscription.is_active(one.version)
        return active and one.matches(subscription.where) and (subscription.expired or not is_expired)

    def _initial(self, before, cut):
        there = self._notes.rows[: cut.row]
        withdrawn = {row for one in there if isinstance(one, Unpublished) for row in one.rows}
        new = [
            one
            for one in self._notes.subscriptions
            if one.initial and before[1] < one.since <= cut.version and one.is_active(cut.version)
        ]
        for one in there:
            if isinstance(one, Published) and one.until is not None and one.until > cut.time:
                matching = [s for s in new if one.version < s.since and one.matches(s.where)]
                if one.row not in withdrawn:
                    self._tell("INITIAL", one.row, matching)

    def _tell(self, kind, row, subscriptions):
        for queue, items in self.queues.items():
            mine = [
                s.id for s in subscriptions if (s.principal, s.destination) == queue and s.since >= self._since[queue]
            ]
            if mine:
                items.append((kind, row, sorted(mine)))

    def _retract(self, tombstone):
        for items in self.queues.values():
            for number, (kind, row, _) in enumerate(list(items), 1):
                if kind in ("PUBLICATION", "INITIAL") and row in tombstone.rows:
                    items.append(("RETRACTED", row, number))


def expected(notes):
    return Expected(notes).all()
