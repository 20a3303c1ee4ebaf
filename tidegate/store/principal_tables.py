"""The tables of principals and tokens: what they hold, and the objects that their rows become.

``Principals`` uses them. They may stand beside those of a registry in one database. Knows nothing of secrets but that
a token has the hash of one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Column, Connection, Index, MetaData, Table, select, update

from tidegate.errors import SettingError, StoreError, TidegateError, shown
from tidegate.index.catalogue import restored, stored
from tidegate.language.limits import NO_LIMITS, Limits
from tidegate.model import Subscription, micros, moment
from tidegate.predicates import Filter
from tidegate.store.database import CHUNK, NUMBER, OPTIONS, Database, insert_new, words
from tidegate.store.registry_tables import PART as REGISTRY
from tidegate.store.registry_tables import tick
from tidegate.store.remaking import bind
from tidegate.store.schema import SchemaPart, add_columns
from tidegate.store.token_secrets import SALT_BYTES
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.expansion import self_contained

__all__ = [
    "CHANGES",
    "PART",
    "PRINCIPAL",
    "PRINCIPALS",
    "QUOTAS",
    "ROLES",
    "TOKEN",
    "TOKENS",
    "Principal",
    "Read",
    "Token",
    "checked_issuer",
    "checked_quotas",
    "checked_roles",
    "checked_sources",
    "meaning",
    "meanings",
    "note_change",
    "prepare",
    "principal_of",
    "salt",
    "token_of",
]

#: What may be read: CQL2 text, CQL2-JSON or a truth value.
Read = str | dict[str, Any] | bool
ROLES = ("subscriber", "publisher", "administrator")
#: What a principal may be limited in; without a number it is not.
QUOTAS = ("subscriptions", "publications_per_second", "connections", "queue_size", "valid_set", "cost")
#: Characters of the name of a principal, of the id of a token, and of a hash.
_NAME, _ID, _HASH = 128, 32, 96
#: Doubles, and so JSON elsewhere, have all whole numbers up to here.
_LARGEST = 2**53
_MOST_SOURCES, _PATTERN_LENGTH, _ISSUER = 1024, 1024, 1024

_TABLES = MetaData()
#: ``read_filter`` is what may be read, as it was given. ``meant`` is the same without what other processes need not
#: know, shapes of somebody's own and terms of an ontology: all living subscriptions of the principal have it.
#: ``issuer`` is whose JWTs speak of the principal, ``read_said`` when that was said which it may read now. With
#: ``removed_at`` there is no such principal: the row keeps what it might for its issuer's tokens that come after that.
PRINCIPALS = Table(
    "tidegate_principals",
    _TABLES,
    Column("name", words(_NAME), primary_key=True),
    Column("read_filter", words()),
    Column("quotas", words(), nullable=False),
    Column("created", NUMBER, nullable=False),
    Column("meant", words()),
    Column("issuer", words()),
    Column("read_said", NUMBER),
    Column("removed_at", NUMBER),
    **OPTIONS,
)
TOKENS = Table(
    "tidegate_tokens",
    _TABLES,
    Column("id", words(_ID), primary_key=True),
    Column("hash", words(_HASH), nullable=False),
    Column("principal", words(_NAME), nullable=False),
    Column("roles", words(), nullable=False),
    Column("sources", words()),
    Column("created", NUMBER, nullable=False),
    Column("expires", NUMBER),
    Column("used", NUMBER),
    Index("tidegate_tokens_hash", "hash", unique=True),
    Index("tidegate_tokens_principal", "principal"),
    **OPTIONS,
)
_SALT = Table(
    "tidegate_token_salt",
    _TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("salt", words(2 * SALT_BYTES), nullable=False),
    **OPTIONS,
)
#: One row: how often anything was changed that those who believe what they know of tokens must hear of.
_CHANGES = Table(
    "tidegate_principal_changes",
    _TABLES,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("number", NUMBER, nullable=False),
    **OPTIONS,
)
#: What gives that number.
CHANGES = "SELECT number FROM tidegate_principal_changes"
#: What ``principal_of`` and ``token_of`` read.
PRINCIPAL = (
    *(PRINCIPALS.c.name, PRINCIPALS.c.read_filter, PRINCIPALS.c.quotas, PRINCIPALS.c.created),
    PRINCIPALS.c.issuer,
)
TOKEN = (
    *(TOKENS.c.id, TOKENS.c.principal, TOKENS.c.roles, TOKENS.c.sources),
    *(TOKENS.c.created, TOKENS.c.expires, TOKENS.c.used),
)


def _create(connection: Connection) -> None:
    _TABLES.create_all(connection)
    insert_new(connection, _SALT, [{"one": 1, "salt": secrets.token_hex(SALT_BYTES)}])


def _apply_reads(connection: Connection) -> None:
    """Apply ``read`` to subscriptions; it was only kept. One with terms that are not known here lets nothing pass."""
    add_columns(connection, PRINCIPALS, PRINCIPALS.c.meant)
    tick(connection, 0)  # nobody subscribes meanwhile
    unapplied = PRINCIPALS.c.read_filter.is_not(None), PRINCIPALS.c.meant.is_(None)
    for name, read in connection.execute(select(PRINCIPALS.c.name, PRINCIPALS.c.read_filter).where(*unapplied)).all():
        try:
            meant = meaning(restored(read), NO_LIMITS)
        except TidegateError:
            meant = "false"
        connection.execute(update(PRINCIPALS).where(PRINCIPALS.c.name == name).values(meant=meant))
        bind(connection, name, meant)


def _count_changes(connection: Connection) -> None:
    """Count changes, so that a process can ask by one look whether there was any."""
    _CHANGES.create(connection, checkfirst=True)
    insert_new(connection, _CHANGES, [{"one": 1, "number": 0}])


def _know_issuers(connection: Connection) -> None:
    """Know of principals whose issuer's JWTs speak of them."""
    add_columns(connection, PRINCIPALS, PRINCIPALS.c.issuer, PRINCIPALS.c.read_said, PRINCIPALS.c.removed_at)


def note_change(connection: Connection) -> None:
    """Note within a transaction that a principal or token is changed. No other such transaction runs beside it."""
    connection.execute(update(_CHANGES).values(number=_CHANGES.c.number + 1))


PART = SchemaPart("principals", (_create, _apply_reads, _count_changes, _know_issuers))


def prepare(database: Database) -> None:
    """Make the tables of registry and principals, or bring them to this version: what one reads binds what it asks."""
    REGISTRY.prepare(database)
    PART.prepare(database)


def meanings(connection: Connection, principals: Iterable[str]) -> dict[str, str]:
    """What those of the principals may read that may not read everything, as it is stored with subscriptions."""
    wanted, found = list(principals), dict[str, str]()
    for at in range(0, len(wanted), CHUNK):
        some = PRINCIPALS.c.name.in_(wanted[at : at + CHUNK]), PRINCIPALS.c.meant.is_not(None)
        rows = connection.execute(select(PRINCIPALS.c.name, PRINCIPALS.c.meant).where(*some))
        found |= {row.name: row.meant for row in rows}
    return found


def meaning(read: Read, limits: Limits) -> str:
    """A ``read`` as it is stored with subscriptions, so that every process understands it; or an error."""
    given = Subscription("read", "principal", read)
    found = compile_subscription(given, limits)
    if not isinstance(found, Filter):
        raise SettingError("a filter as read", f"a pattern, {found.family}")
    return stored(self_contained(given, limits)[0])


def salt(connection: Connection) -> bytes:
    """The salt of this database."""
    return bytes.fromhex(connection.execute(select(_SALT.c.salt)).scalar_one())


class Principal(NamedTuple):
    """Who holds tokens: what it may read (a filter; None for everything), and its limits by name. ``issuer`` is whose
    JWTs speak of it; None if none do.
    """

    name: str
    read: Read | None
    quotas: Mapping[str, float]
    created: datetime
    issuer: str | None = None


class Token(NamedTuple):
    """What a secret allows its principal: roles, and the patterns of the sources that it may publish as, None for any.

    ``used`` is when it was last used, by the hour.
    """

    id: str
    principal: str
    roles: tuple[str, ...]
    sources: tuple[str, ...] | None
    created: datetime
    expires: datetime | None
    used: datetime | None

    def covers(self, source: str) -> bool:
        """Whether a publisher with this token may publish as that source."""
        return self.sources is None or any(fnmatchcase(source, pattern) for pattern in self.sources)

    def holds_at(self, moment: int) -> bool:
        """Whether it has not expired at a moment, in microseconds since 1970."""
        return self.expires is None or moment < micros(self.expires)


def principal_of(row: Sequence[Any]) -> Principal:
    """The principal of a row."""
    name, read, quotas, created, issuer = row
    try:
        limits = MappingProxyType(checked_quotas(orjson.loads(quotas)))
        return Principal(name, None if read is None else restored(read), limits, moment(created), issuer)
    except (ValueError, TypeError, OverflowError, AttributeError):
        raise StoreError("a principal as it was stored", "something else", f"principal {shown(name)}") from None


def token_of(row: Sequence[Any]) -> Token:
    """The token of a row."""
    id, principal, roles, sources, created, expires, used = row
    try:
        may, times = checked_roles(orjson.loads(roles)), [None if at is None else moment(at) for at in (expires, used)]
        allowed = None if sources is None else checked_sources(orjson.loads(sources))
        return Token(id, principal, may, allowed, moment(created), *times)
    except (ValueError, TypeError, OverflowError):
        raise StoreError("a token as it was stored", "something else", f"token {shown(id)}") from None


# --- what is given --------------------------------------------------------------------------------------------------


def checked_quotas(quotas: object) -> dict[str, float]:
    """Limits by name, each a number above 0."""
    if not isinstance(quotas, Mapping):
        raise SettingError("a mapping of limits as quotas", shown(quotas))
    for name, limit in quotas.items():
        if name not in QUOTAS:
            raise SettingError(f"quotas of the names {', '.join(QUOTAS)}", shown(name))
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= _LARGEST:
            raise SettingError(f"a number above 0, up to 2**53, as the quota {name}", shown(limit))
    return dict(quotas)


def checked_issuer(issuer: object) -> str | None:
    """The name of an issuer of JWTs; None for no issuer."""
    if issuer is not None and (not isinstance(issuer, str) or not 0 < len(issuer) <= _ISSUER or "\0" in issuer):
        raise SettingError(f"an issuer of 1 to {_ISSUER} characters, or none", shown(issuer))
    return issuer


def checked_roles(roles: object) -> tuple[str, ...]:
    """One role or more, in their own order."""
    if not isinstance(roles, list | tuple | set | frozenset) or not roles or not all(role in ROLES for role in roles):
        raise SettingError(f"some of the roles {', '.join(ROLES)}", shown(roles))
    return tuple(role for role in ROLES if role in roles)


def checked_sources(sources: object) -> tuple[str, ...]:
    """One pattern or more. A token that may publish as any source has None in their place, never an empty list."""
    if not isinstance(sources, list | tuple) or not sources:
        raise SettingError("a list of patterns as sources, or none for any source", shown(sources))
    if len(sources) > _MOST_SOURCES:
        raise SettingError(f"at most {_MOST_SOURCES} patterns as sources", f"{len(sources)}")
    for pattern in sources:
        if not isinstance(pattern, str) or not 0 < len(pattern) <= _PATTERN_LENGTH:
            raise SettingError(f"a pattern of 1 to {_PATTERN_LENGTH} characters in sources", shown(pattern))
        if any("\ud800" <= character <= "\udfff" for character in pattern):
            raise SettingError("Unicode text as a pattern of sources", f"{shown(pattern)} with a lone surrogate")
    return tuple(dict.fromkeys(sources))
