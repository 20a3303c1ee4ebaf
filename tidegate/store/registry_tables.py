"""The tables of a registry: a row per subscription, from the version that made it to the one that ended it, and a row
per principal, likewise; the clock.

``Registry`` and ``ontology_renewal`` use them. This module makes the tables, upgrades those of an older Tidegate, and
turns a subscription into a row and a row into a subscription. Knows nothing of what an expression means.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple, NoReturn

import orjson
from sqlalchemy import Column, Connection, Index, MetaData, Select, Table, bindparam, func, select, update

from tidegate.delivery_options import STREAM, Fields, checked_deliver, checked_fields, deliver_of
from tidegate.errors import StoreError, SubscriptionError, shown
from tidegate.model import NAME_LENGTH, Subscription, micros, moment
from tidegate.principal_names import registered_id
from tidegate.store.database import CHUNK, NUMBER, OPTIONS, insert_new, key, words
from tidegate.store.schema import SchemaPart, add_columns
from tidegate.store.stored_subscription import StoredSubscription
from tidegate.store.version_readers import Readers

__all__ = [
    "FIELDS",
    "PART",
    "RECIPIENT",
    "REGISTRATIONS",
    "ROWS",
    "Recipient",
    "active",
    "as_recipient",
    "as_row",
    "current",
    "findable",
    "living",
    "record",
    "registration",
    "there",
    "tick",
    "when",
]

_TABLES = MetaData()
_CLOCK = Table(
    "tidegate_clock",
    _TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("version", NUMBER, nullable=False),
    **OPTIONS,
)
#: ``id_key`` is of ``subscriber/id``, by which a registry knows a subscription; ``id`` is the subscriber's own.
#: ``expression`` is what is matched. ``asked`` is the expression it was made from, where that names terms of an
#: ontology and so may come to mean something else. ``initial`` to ``destination`` are NULL where a subscription has the
#: default; ``fields`` is JSON and ``destination`` the text of ``deliver``. ``origin`` is the version at which a
#: subscription was made first, if it was made anew since, and ``read_filter`` what its subscriber may read.
ROWS = Table(
    "tidegate_subscriptions",
    _TABLES,
    Column("since", NUMBER, primary_key=True, autoincrement=False),
    Column("until", NUMBER),
    Column("id_key", NUMBER, nullable=False),
    Column("id", words(NAME_LENGTH), nullable=False),
    Column("subscriber_key", NUMBER, nullable=False),
    Column("subscriber", words(NAME_LENGTH), nullable=False),
    Column("expression", words(), nullable=False),
    Column("active_from", NUMBER),
    Column("active_until", NUMBER),
    Column("created", NUMBER, nullable=False),
    Column("asked", words()),
    Column("initial", NUMBER),
    Column("fields", words()),
    Column("expired", NUMBER),
    Column("destination", words()),
    Column("origin", NUMBER),
    Column("read_filter", words()),
    Index("tidegate_subscriptions_id", "id_key"),
    Index("tidegate_subscriptions_until", "until"),
    Index("tidegate_subscriptions_subscriber", "subscriber_key"),
    Index("tidegate_subscriptions_active", "active_until"),
    **OPTIONS,
)
#: A row per time for which a principal was registered, from the version that registered it to the one that ended that.
REGISTRATIONS = Table(
    "tidegate_registrations",
    _TABLES,
    Column("since", NUMBER, primary_key=True, autoincrement=False),
    Column("until", NUMBER),
    Column("principal_key", NUMBER, nullable=False),
    Column("principal", words(NAME_LENGTH), nullable=False),
    Index("tidegate_registrations_until", "until"),
    Index("tidegate_registrations_principal", "principal_key"),
    **OPTIONS,
)
#: What ``as_row`` reads.
FIELDS = (
    ROWS.c.since,
    ROWS.c.until,
    ROWS.c.id,
    ROWS.c.subscriber,
    ROWS.c.expression,
    ROWS.c.active_from,
    ROWS.c.active_until,
    ROWS.c.asked,
    ROWS.c.initial,
    ROWS.c.fields,
    ROWS.c.expired,
    ROWS.c.destination,
    ROWS.c.origin,
    ROWS.c.read_filter,
)
#: What ``as_recipient`` reads.
RECIPIENT = (ROWS.c.since, ROWS.c.id, ROWS.c.subscriber, ROWS.c.destination, ROWS.c.fields, ROWS.c.expired)


class Recipient(NamedTuple):
    """Whom a subscription tells of a match, where to, with which fields, and whether also of what is valid no longer.
    ``id`` is the subscriber's own.
    """

    id: str
    subscriber: str
    destination: str
    fields: Fields
    expired: bool = False


# --- versions of the tables -----------------------------------------------------------------------------------------


def _create(connection: Connection) -> None:
    _TABLES.create_all(connection)
    Readers.create(connection)
    insert_new(connection, _CLOCK, [{"one": 1, "version": 0}])


def _keep_what_was_asked(connection: Connection) -> None:
    add_columns(connection, ROWS, ROWS.c.asked)


def _keep_what_is_delivered(connection: Connection) -> None:
    add_columns(connection, ROWS, ROWS.c.initial, ROWS.c.fields, ROWS.c.expired, ROWS.c.destination)


def _know_ids_by_subscriber(connection: Connection) -> None:
    """Make ``id_key`` of all rows again. It comes from the texts of the row, so this may be done twice."""
    tick(connection, 0)  # nobody adds a row meanwhile
    change = update(ROWS).where(ROWS.c.since == bindparam("row")).values(id_key=bindparam("made"))
    after = -1
    while True:
        rows = connection.execute(
            select(ROWS.c.since, ROWS.c.subscriber, ROWS.c.id)
            .where(ROWS.c.since > after)
            .order_by(ROWS.c.since)
            .limit(CHUNK)
        ).all()
        if not rows:
            return
        made = [{"row": row, "made": key(registered_id(subscriber, id))} for row, subscriber, id in rows]
        connection.execute(change, made)
        after = rows[-1][0]


def _register_subscribers(connection: Connection) -> None:
    """Keep what may be read, and who is registered: whoever has subscriptions, since the first of these was made."""
    _TABLES.create_all(connection)
    add_columns(connection, ROWS, ROWS.c.origin, ROWS.c.read_filter)
    (ends,) = (index for index in ROWS.indexes if index.name == "tidegate_subscriptions_active")
    ends.create(connection, checkfirst=True)
    tick(connection, 0)  # nobody adds a row meanwhile
    first = select(func.min(ROWS.c.since), ROWS.c.subscriber).where(ROWS.c.until.is_(None)).group_by(ROWS.c.subscriber)
    rows = [registration(since, subscriber) for since, subscriber in connection.execute(first)]
    insert_new(connection, REGISTRATIONS, rows)


_STEPS = (_create, _keep_what_was_asked, _keep_what_is_delivered, _know_ids_by_subscriber, _register_subscribers)
PART = SchemaPart("registry", _STEPS)


# --- the clock ------------------------------------------------------------------------------------------------------


def current(connection: Connection) -> int:
    """The current version."""
    return int(connection.execute(select(_CLOCK.c.version)).scalar_one())


def tick(connection: Connection, changes: int) -> int:
    """Move the clock by so many versions and return the last. Other transactions that do so wait until ours ends."""
    connection.execute(update(_CLOCK).values(version=_CLOCK.c.version + changes))
    return current(connection)


# --- rows -----------------------------------------------------------------------------------------------------------


def active(*fields: Column[Any]) -> Select[Any]:
    """The rows of subscriptions that have not ended, in the order they came."""
    return select(*(fields or FIELDS)).where(ROWS.c.until.is_(None)).order_by(ROWS.c.since)


def living(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Those of the ids that are in use, and the version at which each was made."""
    wanted, found = {findable(id) for id in ids}, dict[str, int]()
    keys = [key(id) for id in wanted]
    for at in range(0, len(keys), CHUNK):
        some = ROWS.c.id_key.in_(keys[at : at + CHUNK])
        fields = select(ROWS.c.subscriber, ROWS.c.id, ROWS.c.since)
        found |= {
            name: since
            for subscriber, id, since in connection.execute(fields.where(some, ROWS.c.until.is_(None)))
            if (name := registered_id(subscriber, id)) in wanted
        }
    return found


def there(connection: Connection, ids: Sequence[str]) -> dict[str, StoredSubscription]:
    """Those of the ids that are in use, and the subscription of each."""
    wanted, found = {findable(id) for id in ids}, dict[str, StoredSubscription]()
    keys = [key(id) for id in wanted]
    for at in range(0, len(keys), CHUNK):
        rows = map(as_row, connection.execute(active().where(ROWS.c.id_key.in_(keys[at : at + CHUNK]))))
        found |= {row.index_id: row for row in rows if row.index_id in wanted}
    return found


def findable(name: str) -> str:
    """The name; or, for a text that no database takes, one that can be looked up and is never found."""
    return "" if "\0" in name or not _is_unicode(name) else name


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def record(
    since: int, subscription: Subscription, expression: str, asked: str | None, created: int, read: str | None
) -> dict[str, Any]:
    """The row of a subscription, as it is inserted."""
    s = subscription
    return {
        "since": since,
        "id_key": key(s.registered_id),
        "id": s.id,
        "subscriber_key": key(s.subscriber),
        "subscriber": s.subscriber,
        "expression": expression,
        "active_from": None if s.active_from is None else micros(s.active_from),
        "active_until": None if s.active_until is None else micros(s.active_until),
        "created": created,
        "asked": asked,
        "initial": 1 if s.initial else None,
        "fields": None if s.fields == "all" else orjson.dumps(s.fields).decode(),
        "expired": 1 if s.expired else None,
        "destination": None if s.destination == STREAM else s.destination,
        "read_filter": read,
    }


def registration(since: int, principal: str) -> dict[str, Any]:
    """The row of a principal that is registered at a version, as it is inserted."""
    return {"since": since, "until": None, "principal_key": key(principal), "principal": principal}


def as_row(fields: Sequence[Any]) -> StoredSubscription:
    """The subscription of a row, as it is read. A row that we cannot have written is an error."""
    if tuple(map(type, fields)) not in _KINDS:
        _refuse(fields)
    since, until, id, subscriber, expression, begin, end, asked, initial, names, expired, destination, *more = fields
    times = (None if begin is None else when(begin, fields), None if end is None else when(end, fields))
    told = "all" if names is None else _fields(names, fields)
    place = STREAM if destination is None else _destination(destination, fields)
    return StoredSubscription(
        *(since, until, id, subscriber, expression, *times, asked, bool(initial), told, bool(expired), place, True),
        *more,
    )


def as_recipient(row: Sequence[Any]) -> Recipient:
    """What a row says of deliveries, as it is read. A row that we cannot have written is an error."""
    _, id, subscriber, destination, names, expired = row
    return Recipient(id, subscriber, _destination(destination, row), _fields(names, row), bool(expired))


def _fields(names: Any, row: Sequence[Any]) -> Fields:
    if names is None:
        return "all"
    try:
        return checked_fields(orjson.loads(names), "")
    except (ValueError, TypeError):  # ``SubscriptionError`` is one
        raise StoreError("fields as they were stored", shown(names), _place(row)) from None


def _destination(destination: Any, row: Sequence[Any]) -> str:
    if destination is None:
        return STREAM
    try:
        checked_deliver(deliver_of(destination), "")
    except (SubscriptionError, AttributeError):
        raise StoreError("a destination as it was stored", shown(destination), _place(row)) from None
    return str(destination)


def when(micros: Any, fields: Sequence[Any]) -> datetime:
    """A time of a row."""
    try:
        return moment(micros)
    except (OverflowError, TypeError):
        raise StoreError("a time within the years 0001 to 9999", shown(micros), _place(fields)) from None


_MAYBE_NUMBER, _MAYBE_TEXT = (int, type(None)), (str, type(None))
_ALLOWED = (
    *((int,), _MAYBE_NUMBER, (str,), (str,), (str,), _MAYBE_NUMBER, _MAYBE_NUMBER, _MAYBE_TEXT),
    *(_MAYBE_NUMBER, _MAYBE_TEXT, _MAYBE_NUMBER, _MAYBE_TEXT, _MAYBE_NUMBER, _MAYBE_TEXT),
)
#: The types that the values of a row can have together.
_KINDS = frozenset(product(*_ALLOWED))


def _refuse(fields: Sequence[Any]) -> NoReturn:
    name, value = next(
        (str(column.name), value)
        for column, value, allowed in zip(FIELDS, fields, _ALLOWED, strict=True)
        if type(value) not in allowed
    )
    number = name in ("since", "until", "active_from", "active_until", "initial", "expired", "origin")
    raise StoreError(f"{'a whole number' if number else 'text'} as {name}", shown(value), _place(fields))


def _place(fields: Sequence[Any]) -> str:
    return f"version {shown(fields[0])} in the table {ROWS.name}"
