"""Subscriptions that are made anew: they end and begin again under their ids with another meaning, at one moment.

That happens when another ontology gives their expressions another meaning (``ontology_renewal``) and when their
subscriber may read something else (``principals``). What appeared before is matched with the old meaning, later
publications with the new one, and patterns begin anew. Initial matches are not told again: see ``first`` of a
``StoredSubscription``. Knows nothing of what an expression means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from tidegate.store.database import CHUNK, key
from tidegate.store.registry_tables import ROWS, active, tick

__all__ = ["bind", "chunks", "reading_otherwise", "remake"]


def remake(connection: Connection, changed: Mapping[int, Mapping[str, Any]]) -> None:
    """End rows and make them anew with other values, each at a version of its own, all taken by one ``tick``."""
    if not changed:
        return
    since = tick(connection, len(changed)) - len(changed)
    end = update(ROWS).where(ROWS.c.since == bindparam("ended")).values(until=bindparam("version"))
    for some in chunks(list(changed)):
        found = connection.execute(select(ROWS).where(ROWS.c.since.in_(some)).order_by(ROWS.c.since)).mappings().all()
        made = [
            {**row, **changed[row["since"]], "since": number, "origin": row["origin"] or row["since"]}
            for number, row in enumerate(found, since + 1)
        ]
        ended = [{"ended": old["since"], "version": new["since"]} for old, new in zip(found, made, strict=True)]
        connection.execute(end, ended)
        connection.execute(ROWS.insert(), made)
        since += len(made)


def reading_otherwise(connection: Connection, principal: str, read: str | None) -> list[int]:
    """The subscriptions of a principal that have another ``read``, by the versions that made them."""
    its = ROWS.c.subscriber_key == key(principal), ROWS.c.subscriber == principal
    rows = connection.execute(active(ROWS.c.since, ROWS.c.read_filter).where(*its))
    return [since for since, before in rows if before != read]


def bind(connection: Connection, principal: str, read: str | None) -> None:
    """Have all subscriptions of a principal bound by this ``read``. The caller has locked the clock."""
    otherwise = reading_otherwise(connection, principal, read)
    remake(connection, {since: {"read_filter": read} for since in otherwise})


def chunks(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    """The numbers, as many at a time as one statement takes."""
    return (numbers[at : at + CHUNK] for at in range(0, len(numbers), CHUNK))
