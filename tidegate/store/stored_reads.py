"""What a principal may read, as the registry's database has it, and as it is joined to the principal's subscriptions.

A ``read`` that means the same as the one before remakes no subscription. Who may change it is for others to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, case, select, update

from tidegate.errors import ConflictError, SettingError, shown
from tidegate.index.catalogue import restored, stored
from tidegate.language import Limits
from tidegate.store.principal_tables import PRINCIPALS, Read, meaning
from tidegate.store.remaking import bind
from tidegate.store.stored_subscription import as_condition

__all__ = ["StoredRead", "agree_on_read", "checked_read", "note_said", "set_read"]

#: Clauses of a ``read`` in disjunctive normal form: each is joined to each clause of what the principal asks.
_CLAUSES = 16


class StoredRead(NamedTuple):
    """What may be read: as it was given, and without what other processes do not know."""

    given: str | None
    meant: str | None


def checked_read(read: Read | None, limits: Limits) -> StoredRead:
    """A ``read`` as it is stored; an error if it is none, or too large."""
    if read is None:
        return StoredRead(None, None)
    meant = meaning(read, replace(limits, clauses=min(limits.clauses, _CLAUSES)))
    text = stored(read)
    if "\0" in text:  # PostgreSQL takes no text with NUL
        raise SettingError("text without the character NUL as read", shown(text))
    return StoredRead(text, meant)


def set_read(connection: Connection, principal: str, wanted: StoredRead) -> None:
    """Give a principal what it may read, and its subscriptions, too, unless it means what they have."""
    mine, meant = PRINCIPALS.c.name == principal, wanted.meant
    before = connection.scalar(select(PRINCIPALS.c.meant).where(mine))
    if before is not None and meant is not None and as_condition(before) == as_condition(meant):
        meant = before
    connection.execute(update(PRINCIPALS).where(mine).values(read_filter=wanted.given, meant=meant))
    bind(connection, principal, meant)


def note_said(connection: Connection, principal: str, moment: int) -> None:
    """Note that an administrator says now what a principal may read: after all that was said, whatever clocks say."""
    said = PRINCIPALS.c.read_said
    latest = case((said > moment, said), else_=moment)
    connection.execute(update(PRINCIPALS).where(PRINCIPALS.c.name == principal).values(read_said=latest))


def agree_on_read(connection: Connection, principal: str, wanted: StoredRead, moment: int) -> None:
    """Give the ``read`` to a principal that has none, at a moment; another than it has is refused."""
    has = connection.scalar(select(PRINCIPALS.c.read_filter).where(PRINCIPALS.c.name == principal))
    assert wanted.given is not None, "a read to agree on"
    if has is None:
        set_read(connection, principal, wanted)
        note_said(connection, principal, moment)
    elif as_condition(has) != as_condition(wanted.given):
        at = f"principal {principal}"
        raise ConflictError(f"the read that {principal} has: {shown(restored(has))}", shown(wanted.given), at)
