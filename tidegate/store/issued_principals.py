"""Principals that an issuer of tokens speaks of: whose they are, and whose word of what they may read holds.

A principal belongs to one issuer or to nobody but the broker's administrators; an issuer speaks of its own only. Of
what it may read the newest word holds: the token that was issued last, or what an administrator said since. Older words
that say something else are refused. Knows tables, and neither signatures nor how a token is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select, update

from tidegate.language import Limits
from tidegate.store.database import CHUNK, Database, insert_new
from tidegate.store.principal_tables import PRINCIPAL, PRINCIPALS, Principal, Read, note_change, principal_of
from tidegate.store.registry_tables import tick
from tidegate.store.stored_reads import StoredRead, checked_read, set_read
from tidegate.store.stored_subscription import as_condition

__all__ = ["Admission", "IssuedPrincipals", "IssuedWord", "Standing", "remove", "standing"]

#: What is read of a principal to know how a word of its issuer stands.
_ISSUED = (*PRINCIPAL, PRINCIPALS.c.meant, PRINCIPALS.c.read_said, PRINCIPALS.c.removed_at)


class IssuedWord(NamedTuple):
    """What a token says of its principal, and when it was issued at the earliest, in µs since 1970. ``read`` is None if
    its issuer says nothing of that.
    """

    issuer: str
    principal: str
    read: StoredRead | None
    issued: int


class Standing(StrEnum):
    """How a word stands beside what is stored."""

    NEW = "new"
    """There is no such principal yet."""
    AGREES = "agrees"
    NEWER = "newer"
    """It says something else than what was said before, or the same later, or its principal was removed before."""
    OLDER = "older"
    """It says something else than what was said since, or its principal was removed since."""
    FOREIGN = "foreign"
    """The principal is not of this issuer."""


class Admission(NamedTuple):
    """How a word stood; and the principal, with what it may read as it is stored now, unless the word is refused."""

    standing: Standing
    principal: Principal | None = None
    meant: str | None = None


class IssuedPrincipals:
    """The principals of issuers in the database of ``Principals``."""

    def __init__(self, database: Database, limits: Limits, clock: Callable[[], int]) -> None:
        self._database, self._limits, self._clock = database, limits, clock

    def word(self, issuer: str, principal: str, read: Read | None, issued: int) -> IssuedWord:
        """What a token of an issuer says; an error if what it lets its principal read is no filter."""
        return IssuedWord(issuer, principal, None if read is None else checked_read(read, self._limits), issued)

    def admit(self, word: IssuedWord) -> Admission:
        """Take what a token says of its principal: that is made if it is new, and reads what the newest word says."""
        found = self.standings([word])[0]
        if found.standing in (Standing.NEW, Standing.NEWER):
            return self._database.write(lambda connection: _admit(connection, word, self._clock))
        return found

    def standings(self, words: Sequence[IssuedWord]) -> list[Admission]:
        """How words stand now, those that were taken and others. Changes nothing."""
        rows = dict[str, Any]()
        names = list(dict.fromkeys(one.principal for one in words))
        for at in range(0, len(names), CHUNK):
            some = select(*_ISSUED).where(PRINCIPALS.c.name.in_(names[at : at + CHUNK]))
            with self._database.read() as connection:
                rows |= {row.name: row for row in connection.execute(some)}
        return [_admission(rows.get(one.principal), one) for one in words]


def standing(row: Any, word: IssuedWord) -> Standing:
    """How a word stands beside the row of its principal."""
    if row is None:
        return Standing.NEW
    if row.issuer != word.issuer:
        return Standing.FOREIGN
    if row.removed_at is None:
        return _standing_of_read(row, word)
    is_older = word.issued <= row.removed_at or _standing_of_read(row, word) is Standing.OLDER
    return Standing.OLDER if is_older else Standing.NEWER


def _standing_of_read(row: Any, word: IssuedWord) -> Standing:
    if word.read is None:
        return Standing.AGREES
    said = row.read_said
    if row.read_filter is not None and word.read.given is not None and _is_same(row.read_filter, word.read.given):
        return Standing.NEWER if said is None or said < word.issued else Standing.AGREES
    return Standing.NEWER if said is None or said < word.issued else Standing.OLDER


def _admission(row: Any, word: IssuedWord) -> Admission:
    """The same, with the principal if nothing needs to be written."""
    found = standing(row, word)
    if found is not Standing.AGREES:
        return Admission(found)
    return Admission(found, principal_of(row[: len(PRINCIPAL)]), row.meant)


def remove(connection: Connection, name: str, moment: int) -> int:
    """Remove a principal within a transaction; how many there were. One of an issuer leaves a mark: its next token must
    be one that is issued after that moment, and then it has the limits that it had.
    """
    there = PRINCIPALS.c.name == name, PRINCIPALS.c.removed_at.is_(None)
    marked = update(PRINCIPALS).where(*there, PRINCIPALS.c.issuer.is_not(None)).values(removed_at=moment)
    return connection.execute(marked).rowcount or connection.execute(delete(PRINCIPALS).where(*there)).rowcount


def _admit(connection: Connection, word: IssuedWord, clock: Callable[[], int]) -> Admission:
    """Take a word within a transaction: its principal is made if it is new, and reads what a newer word says."""
    tick(connection, 0)  # nobody subscribes meanwhile
    mine = PRINCIPALS.c.name == word.principal
    made = {"name": word.principal, "read_filter": None, "quotas": "{}", "created": clock(), "meant": None}
    # First of all: an administrator may make the same principal at the same time.
    is_new = insert_new(connection, PRINCIPALS, [made | {"issuer": word.issuer, "read_said": None}]) > 0
    row = connection.execute(select(*_ISSUED).where(mine)).one()
    found = Standing.NEW if is_new else standing(row, word)
    if found in (Standing.FOREIGN, Standing.OLDER):
        return Admission(found)
    if row.removed_at is not None:
        connection.execute(update(PRINCIPALS).where(mine).values(removed_at=None))
    if found is not Standing.AGREES and word.read is not None:
        if row.read_filter is None or not _is_same(row.read_filter, word.read.given or ""):
            if not is_new:  # of a new one nobody knows anything
                note_change(connection)
            set_read(connection, word.principal, word.read)
        connection.execute(update(PRINCIPALS).where(mine).values(read_said=word.issued))
    row = connection.execute(select(*_ISSUED).where(mine)).one()
    return Admission(found, principal_of(row[: len(PRINCIPAL)]), row.meant)


def _is_same(one: str, other: str) -> bool:
    """Whether two stored filters are the same condition, however they are written."""
    return one == other or as_condition(one) == as_condition(other)
