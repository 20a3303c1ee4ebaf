"""``DeadLetterBook``: which deliveries to webhooks were given up, as ranges of numbers in the registry's database.

A delivery itself stays where it is, in its queue, for as long as that keeps it. Here only ranges are kept, joined where
they meet, and of each endpoint so many at most: of more the oldest are forgotten, and counted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from tidegate.store.database import Database
from tidegate.store.registry_tables import findable
from tidegate.store.webhook_tables import DEAD, DeadLetters, dead_letters_of

__all__ = ["MOST_RANGES", "DeadLetterBook", "Forgotten"]

#: Ranges that are kept of an endpoint.
MOST_RANGES = 1_000


class Forgotten(NamedTuple):
    """How many ranges were forgotten because there were too many, and how many deliveries those had."""

    ranges: int
    deliveries: int


class DeadLetterBook:
    """The dead letters in a database of webhooks."""

    def __init__(self, database: Database, most: int = MOST_RANGES) -> None:
        self._database, self._most = database, most

    def add(self, principal: str, name: str, letters: DeadLetters) -> Forgotten:
        """Keep the numbers of a range. What was given up right before it for the same reason becomes one with it; what
        was in an earlier queue is forgotten.
        """
        mine = DEAD.c.principal == principal, DEAD.c.name == name
        epoch = (*mine, DEAD.c.epoch == letters.epoch)

        def work(connection: Connection) -> Forgotten:
            connection.execute(
                delete(DEAD).where(*mine, DEAD.c.epoch != letters.epoch)
            )  # which nobody can read any more
            _cut(connection, principal, name, letters.epoch, letters.begin, letters.upto)
            meets = (*epoch, DEAD.c.upto == letters.begin - 1, DEAD.c.reason == letters.reason)
            joined = update(DEAD).where(*meets).values(upto=letters.upto, given_up_at=letters.given_up_at)
            if not connection.execute(joined).rowcount:
                row = {"principal": principal, "name": name, **letters._asdict()}
                connection.execute(insert(DEAD), row)
            return self._forget(connection, principal, name)

        return self._database.write(work)

    def _forget(self, connection: Connection, principal: str, name: str) -> Forgotten:
        """Remove the oldest ranges beyond those that are kept."""
        mine = DEAD.c.principal == principal, DEAD.c.name == name
        over = connection.execute(select(func.count()).select_from(DEAD).where(*mine)).scalar_one() - self._most
        if over <= 0:
            return Forgotten(0, 0)
        oldest = select(DEAD.c.epoch, DEAD.c.begin, DEAD.c.upto).where(*mine)
        rows = connection.execute(oldest.order_by(DEAD.c.given_up_at, DEAD.c.begin).limit(over)).all()
        for epoch, begin, _ in rows:
            connection.execute(delete(DEAD).where(*mine, DEAD.c.epoch == epoch, DEAD.c.begin == begin))
        return Forgotten(len(rows), sum(upto - begin + 1 for _, begin, upto in rows))

    def remove(self, principal: str, name: str, epoch: str, begin: int, upto: int) -> None:
        """The deliveries of these numbers were taken after all."""
        self._database.write(lambda connection: _cut(connection, principal, name, epoch, begin, upto))

    def page(self, principal: str, name: str, after: int, limit: int) -> list[DeadLetters]:
        """Ranges in the order of their numbers, those that end behind a number."""
        mine = DEAD.c.principal == principal, DEAD.c.name == findable(name), DEAD.c.upto > after
        with self._database.read() as connection:
            found = connection.execute(select(DEAD).where(*mine).order_by(DEAD.c.begin).limit(limit))
            return [dead_letters_of(row) for row in found]


def _cut(connection: Connection, principal: str, name: str, epoch: str, begin: int, upto: int) -> None:
    """Take numbers out of all ranges that have them."""
    mine = DEAD.c.principal == principal, DEAD.c.name == name, DEAD.c.epoch == epoch
    meeting = or_(DEAD.c.begin.between(begin, upto), DEAD.c.upto.between(begin, upto))
    around = (DEAD.c.begin <= begin) & (DEAD.c.upto >= upto)
    rows = connection.execute(select(DEAD).where(*mine, meeting | around)).all()
    kept: Collection[DeadLetters] = [part for row in rows for part in _parts(dead_letters_of(row), begin, upto)]
    for row in rows:
        connection.execute(delete(DEAD).where(*mine, DEAD.c.begin == row.begin))
    for part in kept:
        connection.execute(insert(DEAD), {"principal": principal, "name": name, **part._asdict()})


def _parts(letters: DeadLetters, begin: int, upto: int) -> list[DeadLetters]:
    """What is left of a range without the numbers from ``begin`` to ``upto``."""
    before, behind = (
        letters._replace(upto=min(letters.upto, begin - 1)),
        letters._replace(begin=max(letters.begin, upto + 1)),
    )
    return [part for part in (before, behind) if part.begin <= part.upto]
