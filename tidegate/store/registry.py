"""The registry: which subscriptions there are, since when, and which were active at any version still needed.

Applications call ``Registry`` to subscribe, pipelines to learn what to match. Every change is a version of its own. The
transactions of all processes lock one row of the database, the clock, so changes are committed in the order of their
versions: a process that reads version v can read everything up to v. Knows nothing of Spark, and of indexes only that
``IndexLayers`` writes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Select, delete, func, or_, select

from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, SubscriptionError, UnknownSubscription, shown
from tidegate.language import DEFAULT_LIMITS, Limits
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Subscription, micros
from tidegate.moments import zoned
from tidegate.predicates.filter import Filter, compile_filter
from tidegate.principal_names import EXPECTED, is_principal_name
from tidegate.store import registrations
from tidegate.store.database import CHUNK, Database, key
from tidegate.store.database_url import address, file
from tidegate.store.ending import due, end, end_due
from tidegate.store.index_layers import IndexLayers
from tidegate.store.ontology_renewal import UnrenewableSubscription, renew
from tidegate.store.principal_tables import meanings, prepare
from tidegate.store.registrations import Registration
from tidegate.store.registry_tables import (
    FIELDS,
    RECIPIENT,
    REGISTRATIONS,
    ROWS,
    Recipient,
    active,
    as_recipient,
    as_row,
    current,
    findable,
    living,
    tick,
    when,
)
from tidegate.store.replacing import Put, Wanted, page, put
from tidegate.store.stored_subscription import StoredSubscription, as_condition
from tidegate.store.subscribing import add, expressions, one_by_one
from tidegate.store.version_readers import Pin, Reader, Readers, check_number
from tidegate.subscriptions.bulk import without_garbage_collection

__all__ = ["Registry", "RegistryEntry"]

_VERSION = "SELECT version FROM tidegate_clock"


class RegistryEntry(NamedTuple):
    """A subscription in a listing: the version at which it was made, and when that was."""

    subscription: Subscription
    since: int
    created: datetime


class Registry(Closing):
    """Subscriptions in a database, shared by any number of processes and threads.

    A subscriber is a principal, ``[A-Za-z0-9._@-]{1,128}``, and its ids are its own: to the registry and to what is
    matched with it a subscription is called ``subscriber/id``.

    ``url`` is the path of an SQLite file, which is made if need be unless ``create`` is false, or the URL of a
    PostgreSQL or MariaDB database. ``storage`` is where index snapshots are kept; for an SQLite file, a directory
    beside it.

    >>> registry = Registry("registry.db")
    >>> registry.subscribe(Subscription("s1", "ann", "no2 > 40"), Subscription("s2", "bob", "no2 > 90"))
    2
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        storage: str | os.PathLike[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        create: bool = True,
    ) -> None:
        where = address(url)
        here = file(where)
        #: Where index snapshots lie; None if no storage was given for a database on a server.
        self.storage = os.fspath(storage) if storage is not None else f"{here}.snapshots" if here else None
        self._limits = limits
        self._connect(where, create)
        self._database.open()

    def _connect(self, url: URL, create: bool) -> None:
        self._database = Database(url, prepare, create)
        self._readers = Readers(self._database, current)
        self._layers: IndexLayers | None = None

    def __getstate__(self) -> dict[str, Any]:
        url = self._database.url.render_as_string(hide_password=False)
        return {"url": url, "storage": self.storage, "limits": self._limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.storage, self._limits = state["storage"], state["limits"]
        self._connect(address(state["url"]), create=False)  # it was there when it was pickled

    def __repr__(self) -> str:
        return f"Registry({str(self._database)!r})"

    # --- changes ----------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of changes so far. Cheap enough to be asked for every append to a log."""
        return int(self._database.poll(_VERSION))

    def subscribe(self, *subscriptions: Subscription | Iterable[Subscription]) -> int:
        """Take subscriptions, all or none, and return the version from which all are active.

        An argument may be several, as a list or another iterable. Warns (``SubscriptionWarning``) of those that can
        hardly be meant as they are written.
        """
        with without_garbage_collection():
            taken = one_by_one(subscriptions)
            texts = expressions(taken, self._limits)
        return self._database.write(lambda connection: add(connection, taken, texts)) if taken else self.version

    def put(self, subscriber: str, wanted: Sequence[Wanted], most: float | None = None) -> list[Put]:
        """Put subscriptions of a subscriber, who then has at most so many, under their ids; see ``store/replacing``."""
        return self._database.write(lambda connection: put(connection, subscriber, wanted, most))

    def unsubscribe(self, *ids: str, check: Callable[[StoredSubscription], None] | None = None) -> int:
        """End subscriptions, each named ``subscriber/id``; all or none. ``check`` raises for one that is not meant.

        Returns the version from which none of them is active.
        """
        for id in ids:
            if not isinstance(id, str):
                raise UnknownSubscription("the id of a subscription", shown(id))
        if not ids:
            return self.version

        return self._database.write(lambda connection: end(connection, ids, check))

    def end_due(self, before: datetime) -> int:
        """End the subscriptions whose ``active_until`` is not after a moment, and return how many there were."""
        moment = micros(zoned(before, "the moment before which subscriptions end", "", SettingError))
        with self._database.read() as connection:
            is_any = bool(due(connection, moment))
        return self._database.write(lambda connection: end_due(connection, moment)) if is_any else 0

    def renew(self, keep: Callable[[UnrenewableSubscription], None] | None = None) -> int:
        """Give subscriptions the meaning that the loaded ontology gives to what they asked; return how many changed.

        What their subscribers may read gets its meaning, too. All that change end and are made anew under their ids, at
        once as others see it: publications that appeared before are matched with the old meaning, later ones with the
        new one, and patterns begin anew. If some cannot be expressed any more, because a term has gone, nothing changes
        and an error names them; unless ``keep`` is given, which is called with each of them, and they keep the meaning
        they have.
        """
        return renew(self._database, keep)

    def advance(self) -> int:
        """Move on by a version at which nothing changes, and return it: a run on a log then makes a batch."""
        return self._database.write(lambda connection: tick(connection, 1))

    # --- who is registered ------------------------------------------------------------------------------------------

    def register(self, principal: str) -> int:
        """Register a principal, as its first subscription does; return the version since which it is registered."""
        if not is_principal_name(principal):
            raise SubscriptionError(f"{EXPECTED}, to be registered", shown(principal))

        def work(connection: Connection) -> int:
            tick(connection, 0)  # nobody else registers it meanwhile
            there = registrations.registered(connection, [principal]).get(principal)
            if there is None:
                registrations.register(connection, {principal: (there := tick(connection, 1))})
            return there

        there = self.registered(principal)
        return self._database.write(work) if there is None else there

    def unregister(self, principal: str) -> int:
        """End the registration of a principal and all its subscriptions; return the version from which none is."""
        if not isinstance(principal, str):
            raise SettingError("a principal that is registered", shown(principal))
        return self._database.write(lambda connection: registrations.unregister(connection, principal))

    def registered(self, principal: str) -> int | None:
        """The version since which a principal is registered; None if it is not."""
        with self._database.read() as connection:
            return registrations.registered(connection, [principal]).get(principal)

    def registrations(self, after: int, upto: int) -> list[Registration]:
        """Who was registered and who was unregistered after one version and up to another, in order."""
        with self._database.read() as connection:
            return registrations.between(connection, after, upto)

    def readable(self, principal: str) -> Filter | None:
        """The filter of what a principal may read; None for everything."""
        with self._database.read() as connection:
            meant = meanings(connection, [findable(principal)]).get(principal)
        return None if meant is None else compile_filter(as_condition(meant), limits=NO_LIMITS)

    # --- what is active now -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        with self._database.read() as connection:
            return connection.execute(select(func.count()).where(ROWS.c.until.is_(None))).scalar_one()

    def __contains__(self, id: object) -> bool:
        with self._database.read() as connection:
            return isinstance(id, str) and bool(living(connection, [id]))

    def __iter__(self) -> Iterator[Subscription]:
        """The subscriptions, in the order they came."""
        return (row.subscription for row in self._rows(active()))

    def subscription(self, id: str) -> Subscription:
        """The subscription of that id, ``subscriber/id``."""
        return self.stored(id).subscription

    def stored(self, id: str) -> StoredSubscription:
        """The subscription of that id, ``subscriber/id``, as it is stored."""
        if isinstance(id, str):
            with self._database.read() as connection:
                rows = connection.execute(active().where(ROWS.c.id_key == key(findable(id)))).all()
            for found in map(as_row, rows):
                if found.index_id == id:
                    return found
        raise UnknownSubscription("the id of a subscription", shown(id))

    def listing(self, subscriber: str | None = None, limit: int | None = None) -> list[RegistryEntry]:
        """The subscriptions of one subscriber or of all, in the order they came; the first ``limit`` of them."""
        statement = active(*FIELDS, ROWS.c.created)
        if subscriber is not None:
            name = findable(subscriber)
            statement = statement.where(ROWS.c.subscriber_key == key(name), ROWS.c.subscriber == name)
        if limit is not None:
            check_number(limit, "a limit")
            statement = statement.limit(limit)
        with self._database.read() as connection:
            return [
                RegistryEntry(as_row(row[:-1]).subscription, row[0], when(row[-1], row))
                for row in connection.execute(statement)
            ]

    def page(self, subscriber: str, after: int, limit: int) -> list[StoredSubscription]:
        """The first subscriptions of a subscriber that were made after a version, in order."""
        with self._database.read() as connection:
            return page(connection, subscriber, after, limit)

    # --- what was active at a version -------------------------------------------------------------------------------

    def rows(self, after: int, upto: int) -> Iterator[StoredSubscription]:
        """The subscriptions made after one version and up to another, in order; with their end if they have ended."""
        return self._rows(select(*FIELDS).where(ROWS.c.since > after, ROWS.c.since <= upto).order_by(ROWS.c.since))

    def ended(self, after: int, upto: int) -> list[tuple[int, int]]:
        """Those that ended after one version and up to another, in order: the versions that made and ended each."""
        statement = select(ROWS.c.since, ROWS.c.until).where(ROWS.c.until > after, ROWS.c.until <= upto)
        with self._database.read() as connection:
            return [
                (since, until) for since, until in connection.execute(statement.order_by(ROWS.c.until, ROWS.c.since))
            ]

    def initial(self, after: int, upto: int) -> Iterator[StoredSubscription]:
        """Those with ``initial`` that were made after one version and up to another, at which they are still active.

        One that was made anew since, by another ``read`` or another ontology, was made when it was made ``first``: what
        was stamped below that version is initial to it, what was stamped later it was told as it came.
        """
        asked = ROWS.c.initial == 1, ROWS.c.since <= upto, or_(ROWS.c.until.is_(None), ROWS.c.until > upto)
        new = func.coalesce(ROWS.c.origin, ROWS.c.since) > after, ROWS.c.since > after
        return self._rows(select(*FIELDS).where(*asked, *new).order_by(ROWS.c.since))

    def recipients(self, sinces: Iterable[int]) -> dict[int, Recipient]:
        """Whom the subscriptions made at these versions tell; also those that have ended, as long as they are kept.

        Expressions are not even read.
        """
        wanted, found = [int(since) for since in sinces], dict[int, Recipient]()
        with self._database.read() as connection:
            for at in range(0, len(wanted), CHUNK):
                some = select(*RECIPIENT).where(ROWS.c.since.in_(wanted[at : at + CHUNK]))
                found |= {row[0]: as_recipient(row) for row in connection.execute(some)}
        return found

    def _rows(self, statement: Select[Any]) -> Iterator[StoredSubscription]:
        """Rows as they come from the database, never all at once in memory."""
        with (
            self._database.read() as connection,
            connection.execution_options(yield_per=CHUNK).execute(statement) as result,  # ends with the caller's loop
        ):
            for row in result:
                yield as_row(row)

    # --- which versions are needed ----------------------------------------------------------------------------------

    def pin(self, query: str, batch: int, version: int | None = None) -> int:
        """The version for a batch of a query. The first call decides it, by default for the current version.

        Pins of earlier batches than the two before are dropped.
        """
        return self._readers.pin(query, batch, version).version

    def pinned(self, query: str, batch: int) -> Pin:
        """The same, and when it was decided."""
        return self._readers.pin(query, batch, None)

    def needs(self, query: str, version: int) -> None:
        """Record that a query may still need this version and later ones. What it needs never moves back."""
        self._readers.needs(query, version)

    def forget(self, query: str) -> None:
        """Record that a query needs no version any more."""
        self._readers.forget(query)

    def readers(self) -> list[Reader]:
        """The queries that need versions."""
        return self._readers.all()

    def oldest_needed(self) -> int:
        """The oldest version that a query may need; the current one if there is no query."""
        with self._database.read() as connection:
            return self._readers.oldest_needed(connection)

    @property
    def oldest_kept(self) -> int:
        """The oldest version of which all subscriptions are still here."""
        with self._database.read() as connection:
            return self._readers.horizon(connection)

    def prune(self) -> int:
        """Delete the subscriptions that ended before any version that is needed, and return how many.

        Of registrations the same is deleted.
        """

        def work(connection: Connection) -> int:
            oldest = self._readers.raise_horizon(connection)
            connection.execute(delete(REGISTRATIONS).where(REGISTRATIONS.c.until <= oldest))
            return connection.execute(delete(ROWS).where(ROWS.c.until <= oldest)).rowcount

        return self._database.write(work)

    # --- snapshots --------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the database, password included."""
        return self._database.url.render_as_string(hide_password=False)

    @property
    def index_storage(self) -> str:
        """Where index snapshots lie."""
        if self.storage is None:
            got = "none for a registry that is no SQLite file"
            raise SettingError("a storage for index snapshots", got, str(self._database))
        return self.storage

    def prepare(self, oldest: int, version: int) -> None:
        """Make sure that index layers stand for these versions, so that workers have only files to map.

        Layers that are damaged or of a format that is not read any more are made again; the first call looks for them.
        Subscriptions that were pruned, because they ended before any version that is needed, are in none of them.
        """
        if self._layers is None:
            self._layers = IndexLayers(self.index_storage, lambda: self._database.exclusive("index-layers"))
            with self._database.exclusive("index-layers"):
                self._layers.discard_damaged()
        if self._layers.covers(oldest, version):
            return
        with self._database.exclusive("index-layers"):
            manifest = self._layers.current()
            if manifest is not None and manifest.covers(oldest, version):
                return
            if version > (now_at := self.version):
                wanted = f"a registry at version {version} or later, with which publications were stamped"
                raise StoreError(wanted, f"one at {now_at}", str(self._database))
            known = manifest.version if manifest else 0
            until = max(version, known)
            made, ended = self.rows(known, until), self.ended(known, until)
            if manifest is not None and oldest < manifest.oldest:  # layers may lack some that ended since
                again = {since for since, _ in self.ended(oldest, manifest.oldest)}
                made = chain(made, (row for row in self.rows(0, known) if row.since in again))
            self._layers.extend(min(oldest, self.oldest_needed()), until, made, ended)

    # --- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections; they are opened again if the registry is used again."""
        self._database.close()
