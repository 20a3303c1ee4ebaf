"""Renewal: stored subscriptions that use terms of an ontology get the meaning that the ontology loaded now gives them.

``Registry.renew`` calls ``renew``. A subscription whose meaning changes, or that of what its subscriber may read, is
ended and made anew under its id, all of them in one transaction that holds the registry's clock row. Knows nothing of
Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select, update

from tidegate.errors import SettingError, SubscriptionError, TidegateError, shown
from tidegate.index.catalogue import restored, stored
from tidegate.language.limits import NO_LIMITS
from tidegate.ontologies import current as ontologies
from tidegate.predicates.ontology import is_loaded
from tidegate.store.database import CHUNK, Database
from tidegate.store.principal_tables import PRINCIPALS, meaning, note_change
from tidegate.store.registry_tables import FIELDS, ROWS, active, as_row, tick
from tidegate.store.remaking import chunks, reading_otherwise, remake
from tidegate.store.stored_subscription import StoredSubscription, as_condition
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.expansion import self_contained

__all__ = ["UnrenewableSubscription", "renew"]

#: So many subscriptions are named in an error.
_NAMED = 10


class UnrenewableSubscription(NamedTuple):
    """A subscription that cannot be expressed with the ontology that is loaded now, and why."""

    id: str
    why: str

    def __str__(self) -> str:
        return f"{shown(self.id)} ({self.why})"


def renew(database: Database, keep: Callable[[UnrenewableSubscription], None] | None = None) -> int:
    """Expand what each subscription asked by the ontology that is loaded now; return how many that changed.

    ``keep`` is called with each subscription that cannot be expanded; without ``keep``, such a subscription is an error
    and nothing changes.
    """
    if not is_loaded():
        raise SettingError("an ontology, loaded with tg.load_ontology", "none", str(database))
    version, known = ontologies.version(), dict[int, str | UnrenewableSubscription | None]()
    with database.read() as connection:  # most of the work, before others have to wait for our transaction
        _look(connection, active().where(ROWS.c.asked.is_not(None)), known)
    lost: list[UnrenewableSubscription] = []

    def work(connection: Connection) -> int:
        tick(connection, 0)  # locks the clock: no other process changes the registry until the transaction ends
        if ontologies.version() != version:
            known.clear()  # another ontology was loaded since the read above
        living = list(connection.scalars(active(ROWS.c.since).where(ROWS.c.asked.is_not(None))))
        for some in chunks([since for since in living if since not in known]):  # made since the read above
            _look(connection, select(*FIELDS).where(ROWS.c.since.in_(some)), known)
        lost[:] = [found for since in living if isinstance(found := known[since], UnrenewableSubscription)]
        changed = {since: {"expression": found} for since in living if isinstance(found := known[since], str)}
        _look_at_reads(connection, changed, lost)
        if lost and keep is None:
            raise _refused(lost)
        remake(connection, changed)
        return len(changed)

    count = database.write(work)
    for one in lost:
        if keep is not None:
            keep(one)
    return count


def _look(
    connection: Connection, statement: Select[Any], known: dict[int, str | UnrenewableSubscription | None]
) -> None:
    """Note in ``known`` what each row means now: another expression, why there is none, or None for the same."""
    with connection.execute(statement, execution_options={"yield_per": CHUNK}) as result:  # of this statement alone
        for fields in result:
            row = as_row(fields)
            try:
                known[row.since] = _meant(row)
            except TidegateError as error:
                known[row.since] = UnrenewableSubscription(row.index_id, str(error).splitlines()[0])


def _look_at_reads(
    connection: Connection, changed: dict[int, dict[str, str]], lost: list[UnrenewableSubscription]
) -> None:
    """Give what principals may read its meaning; note in ``changed`` the subscriptions that are bound by another."""
    wanted = select(PRINCIPALS.c.name, PRINCIPALS.c.read_filter, PRINCIPALS.c.meant)
    for name, read, before in connection.execute(wanted.where(PRINCIPALS.c.read_filter.is_not(None))).all():
        try:
            meant = meaning(restored(read), NO_LIMITS)
        except TidegateError as error:
            lost.append(UnrenewableSubscription(f"the read of {name}", str(error).splitlines()[0]))
            continue
        if before is not None and as_condition(meant) == as_condition(before):
            continue
        connection.execute(update(PRINCIPALS).where(PRINCIPALS.c.name == name).values(meant=meant))
        note_change(connection)  # who knows a token that says this must hear what it means by now
        for since in reading_otherwise(connection, name, meant):
            changed.setdefault(since, {})["read_filter"] = meant


def _meant(row: StoredSubscription) -> str | None:
    """The expression that the row means now; None if that is what is stored."""
    compile_subscription(row.subscription, NO_LIMITS)  # raises if a term has gone, rather than expand it to nothing
    expression = stored(self_contained(row.subscription, NO_LIMITS)[0])
    if expression == row.where:
        return None
    row._replace(where=expression).compiled()  # a pipeline must be able to compile it
    return expression


def _refused(lost: list[UnrenewableSubscription]) -> SubscriptionError:
    named = "; ".join(map(str, lost[:_NAMED]))
    more = f"; and {len(lost) - _NAMED:,} more" if len(lost) > _NAMED else ""
    what = f"{len(lost):,} subscription{'' if len(lost) == 1 else 's'} that cannot: {named}{more}"
    return SubscriptionError("subscriptions that can be expressed with this ontology", what)
