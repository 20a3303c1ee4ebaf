"""Principals and their tokens: who may subscribe, publish and administer, as data in the registry's database.

``Principals`` makes and changes them and finds who holds a secret. It decides nothing: what a role may do is for those
who ask. Of a secret only a hash is stored (``token_secrets``), and no error, text or log has one.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, not_, or_, select, update

from tidegate.closing import Closing
from tidegate.errors import ConflictError, SettingError, shown
from tidegate.language import DEFAULT_LIMITS, Limits
from tidegate.model import micros
from tidegate.moments import zoned
from tidegate.principal_names import EXPECTED, is_principal_name
from tidegate.store.database import CHUNK, Database, insert_new
from tidegate.store.database_url import address
from tidegate.store.issued_principals import IssuedPrincipals, remove
from tidegate.store.principal_tables import (
    CHANGES,
    PRINCIPAL,
    PRINCIPALS,
    TOKEN,
    TOKENS,
    Principal,
    Read,
    Token,
    checked_issuer,
    checked_quotas,
    checked_roles,
    checked_sources,
    note_change,
    prepare,
    principal_of,
    salt,
    token_of,
)
from tidegate.store.readers_limits import ReadersLimits
from tidegate.store.registry import Registry
from tidegate.store.registry_tables import tick
from tidegate.store.stored_reads import agree_on_read, checked_read, note_said, set_read
from tidegate.store.token_secrets import SecretHashes, check_chosen, made
from tidegate.store.version_readers import now
from tidegate.store.webhook_tables import remove_webhooks_of

__all__ = ["Holder", "Kept", "NewToken", "Principal", "Principals", "Token"]

#: A use of a token within so many microseconds of the last is not written.
_HOUR = 3_600_000_000
_READ_OF = "SELECT meant FROM tidegate_principals WHERE name ="
#: What an unknown secret is compared with, so that it costs what a known one costs.
_NOBODY = "sha256:" + 64 * "0"


#: What ``put`` may leave as it is, and what it does if nothing is said.
Kept = Literal["read", "quotas", "issuer"]
_KEPT: tuple[Kept, ...] = ("issuer",)


class Holder(NamedTuple):
    """Who holds a secret, and what it allows."""

    token: Token
    principal: Principal


@dataclass(frozen=True, slots=True)
class NewToken:
    """The id of a token and its secret, which nobody can read again; the secret is in no text of this object."""

    id: str
    secret: str = field(repr=False)


class Principals(Closing):
    """The principals and tokens of a registry, or of the database at a path or URL."""

    def __init__(
        self,
        where: Registry | str | os.PathLike[str],
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = now,
    ) -> None:
        self._database = Database(address(where.url if isinstance(where, Registry) else where), prepare)
        self._limits, self._clock = limits, clock
        self.issued = IssuedPrincipals(self._database, limits, clock)
        self._readers = ReadersLimits(self._database)
        self._database.open()
        with self._database.read() as connection:
            self._hashes = SecretHashes(salt(connection))

    def __repr__(self) -> str:
        return f"Principals({str(self._database)!r})"

    def close(self) -> None:
        """Close the connections; they are opened again if this is used again."""
        self._database.close()

    # --- principals -------------------------------------------------------------------------------------------------

    def put(
        self,
        name: str,
        *,
        read: Read | None = None,
        quotas: Mapping[str, float] | None = None,
        issuer: str | None = None,
        keep: Collection[Kept] = _KEPT,
    ) -> Principal:
        """Make a principal, or change the one of this name, to have exactly this ``read``, these ``quotas`` and this
        ``issuer``, whose JWTs may then speak of it; what ``keep`` names stays as it is.

        ``read`` is a filter, ANDed to all that the principal asks; without one it may read everything. With another
        than before, its subscriptions are made anew at the same moment: see ``store/remaking.py``.
        """
        _check_name(name)
        wanted, quotas_text = checked_read(read, self._limits), _json(checked_quotas(quotas or {}))
        whose, mine = checked_issuer(issuer), PRINCIPALS.c.name == name

        def work(connection: Connection) -> Principal:
            tick(connection, 0)  # nobody subscribes meanwhile
            note_change(connection)
            self._is_made(connection, name)
            if "quotas" not in keep:
                connection.execute(update(PRINCIPALS).where(mine).values(quotas=quotas_text))
            if "issuer" not in keep:
                connection.execute(update(PRINCIPALS).where(mine).values(issuer=whose))
            if "read" not in keep:
                set_read(connection, name, wanted)
                note_said(connection, name, self._clock())
            return principal_of(connection.execute(_named(name)).one())

        return self._database.write(work)

    def principal(self, name: str) -> Principal:
        """The principal of that name."""
        if is_principal_name(name):
            with self._database.read() as connection:
                row = connection.execute(_named(name)).one_or_none()
            if row is not None:
                return principal_of(row)
        raise _unknown(name)

    def read_of(self, name: str) -> str | None:
        """What a principal may read, as every process understands it; None for everything, as also who is not known
        here may. Cheap enough to be asked for every page of a queue.
        """
        if not is_principal_name(name):
            return None
        found: str | None = self._database.poll(f"{_READ_OF} '{name}'")  # a name has no quotes
        return found

    def reads(self) -> dict[str, str]:
        """The same for all who may not read everything, by name. Cheap while nobody writes to the database."""
        return self._readers.limits()[0]

    def queue_sizes(self) -> dict[str, int]:
        """How many deliveries each queue of a principal may have, for those whose quotas say so. As cheap."""
        return self._readers.limits()[1]

    def among(self, names: Set[str]) -> set[str]:
        """Those of the names that are principals."""
        found, wanted = set[str](), sorted(names)
        for at in range(0, len(wanted), CHUNK):
            with self._database.read() as connection:
                mine = PRINCIPALS.c.name.in_(wanted[at : at + CHUNK]), PRINCIPALS.c.removed_at.is_(None)
                found.update(connection.scalars(select(PRINCIPALS.c.name).where(*mine)))
        return found

    def all(self, *, after: str = "", limit: int | None = None) -> list[Principal]:
        """Principals by name: all, or from behind a name on."""
        wanted = PRINCIPALS.c.name > after, PRINCIPALS.c.removed_at.is_(None)
        statement = select(*PRINCIPAL).where(*wanted).order_by(PRINCIPALS.c.name).limit(limit)
        with self._database.read() as connection:
            return [principal_of(row) for row in connection.execute(statement)]

    def remove(self, name: str, *, keeping_a_way_in: bool = False) -> None:
        """Remove a principal, its tokens and webhooks, neither subscriptions nor queues; limits of an issuer's stay."""

        def work(connection: Connection) -> bool:
            note_change(connection)
            if keeping_a_way_in:
                self._expect_a_way_in(connection, TOKENS.c.principal == name, f"principal {name}")
            count = remove(connection, name, self._clock())
            connection.execute(delete(TOKENS).where(TOKENS.c.principal == name))
            return remove_webhooks_of(connection, name) or count > 0

        if not is_principal_name(name) or not self._database.write(work):
            raise _unknown(name)

    def _is_made(self, connection: Connection, name: str) -> bool:
        """Whether this transaction made the principal; False if it was there."""
        connection.execute(delete(PRINCIPALS).where(PRINCIPALS.c.name == name, PRINCIPALS.c.removed_at.is_not(None)))
        row = {"name": name, "read_filter": None, "quotas": "{}", "created": self._clock(), "meant": None}
        return insert_new(connection, PRINCIPALS, [row]) > 0

    # --- tokens -----------------------------------------------------------------------------------------------------

    def make_token(
        self,
        principal: str,
        roles: Collection[str],
        *,
        sources: Sequence[str] | None = None,
        read: Read | None = None,
        expires: datetime | None = None,
        secret: str | None = None,
    ) -> NewToken:
        """Make a token, and its principal if there is none; the only time that its secret is given.

        ``sources`` are patterns such as ``z*`` of what it may publish as; without them, any source. ``read`` becomes
        the principal's if it has none, and is a ``ConflictError`` if it has another. A ``secret`` of one's own is 16
        visible ASCII characters or more; if a token has it that allows the same, that token is returned.
        """
        _check_name(principal)
        may, wanted = checked_roles(roles), checked_read(read, self._limits)
        allowed = None if sources is None else _json(checked_sources(sources))
        ends = None if expires is None else micros(zoned(expires, "the expiry of a token", "", SettingError))
        if secret is not None:
            check_chosen(secret)
        text = made() if secret is None else secret
        row: dict[str, Any] = {
            "id": secrets.token_hex(8),
            "hash": self._hashes.of(text),
            "principal": principal,
            "roles": _json(may),
        }
        row |= {"sources": allowed, "created": self._clock(), "expires": ends, "used": None}

        def work(connection: Connection) -> str:
            if wanted.given is not None:
                tick(connection, 0)  # nobody subscribes meanwhile
                note_change(connection)
            self._is_made(connection, principal)
            if wanted.given is not None:
                agree_on_read(connection, principal, wanted, self._clock())
            if secret is None:
                connection.execute(insert(TOKENS), row)
            elif not insert_new(connection, TOKENS, [row]):
                return _same_token(connection, row)
            return str(row["id"])

        return NewToken(self._database.write(work), text)

    def holder(self, secret: str, *, note_use: bool = True) -> Holder | None:
        """Who holds this secret; None if nobody does, or not any more. Unknown secrets cost what known ones cost.

        That a token was used is written down once an hour, which may wait for others that write. Who cannot wait notes
        it later, with ``note_uses``.
        """
        if not isinstance(secret, str):
            return None
        found = self._hashes.of(secret)
        with self._database.read() as connection:
            row = connection.execute(_HOLDERS.where(TOKENS.c.hash == found)).one_or_none()
        is_right = hmac.compare_digest(_NOBODY if row is None else row.hash, found)
        if row is None or not is_right:
            return None
        holder = self._living(row)
        if holder is not None and note_use:
            self.note_uses([holder.token])
        return holder

    def _living(self, row: Sequence[Any]) -> Holder | None:
        """The holder that a row is of; None if its token has expired."""
        end = len(TOKEN) + 1
        token = token_of(row[1:end])
        return Holder(token, principal_of(row[end:])) if token.holds_at(self._clock()) else None

    def holders(self, ids: Sequence[str]) -> dict[str, Holder]:
        """Who holds the tokens of these ids now; those that were revoked or have expired are not there."""
        found = dict[str, Holder]()
        for at in range(0, len(ids), CHUNK):
            with self._database.read() as connection:
                rows = connection.execute(_HOLDERS.where(TOKENS.c.id.in_(ids[at : at + CHUNK]))).all()
            found |= {holder.token.id: holder for holder in map(self._living, rows) if holder is not None}
        return found

    @property
    def changes(self) -> int:
        """A number that is another one after each change that somebody who knows tokens must hear of. Cheap."""
        return int(self._database.poll(CHANGES) or 0)

    def note_uses(self, tokens: Iterable[Token]) -> None:
        """Note that tokens were used, those of which it was not noted within the last hour."""
        moment = self._clock()
        due = [token.id for token in tokens if token.used is None or micros(token.used) + _HOUR <= moment]
        for at in range(0, len(due), CHUNK):
            self._note_uses(due[at : at + CHUNK], moment)

    def _note_uses(self, ids: Sequence[str], moment: int) -> None:
        is_old = or_(TOKENS.c.used.is_(None), TOKENS.c.used <= moment - _HOUR)
        statement = update(TOKENS).where(TOKENS.c.id.in_(ids), is_old).values(used=moment)
        self._database.write(lambda connection: connection.execute(statement))

    def token(self, id: str) -> Token:
        """The token of that id."""
        if isinstance(id, str) and id.isalnum() and id.isascii():
            with self._database.read() as connection:
                row = connection.execute(select(*TOKEN).where(TOKENS.c.id == id)).one_or_none()
            if row is not None:
                return token_of(row)
        raise SettingError("the id of a token that there is", "another text")  # perhaps a secret: not to be shown

    def tokens(
        self, principal: str | None = None, *, after: tuple[int, str] | None = None, limit: int | None = None
    ) -> list[Token]:
        """The tokens of a principal, or of all, in the order in which they were made; from behind a time (µs since
        1970) and id on.
        """
        statement = select(*TOKEN).order_by(TOKENS.c.created, TOKENS.c.id).limit(limit)
        if principal is not None:
            _check_name(principal)
            statement = statement.where(TOKENS.c.principal == principal)
        if after is not None:
            made, id = after
            statement = statement.where(or_(TOKENS.c.created > made, and_(TOKENS.c.created == made, TOKENS.c.id > id)))
        with self._database.read() as connection:
            return [token_of(row) for row in connection.execute(statement)]

    def revoke(self, id: str, *, keeping_a_way_in: bool = False) -> None:
        """Revoke a token: from now on nobody holds its secret. With ``keeping_a_way_in`` not the last one that an
        administrator has.
        """
        self.token(id)

        def work(connection: Connection) -> None:
            note_change(connection)
            if keeping_a_way_in:
                self._expect_a_way_in(connection, TOKENS.c.id == id, f"token {id}")
            connection.execute(delete(TOKENS).where(TOKENS.c.id == id))

        self._database.write(work)

    def _expect_a_way_in(self, connection: Connection, without: ColumnElement[bool], at: str) -> None:
        """Refuse to go on without some tokens if an administrator has one of them and none has another."""
        moment = self._clock()
        ways = and_(
            TOKENS.c.roles.contains("administrator"), or_(TOKENS.c.expires.is_(None), TOKENS.c.expires > moment)
        )
        going, staying = (
            connection.scalar(select(TOKENS.c.id).where(ways, some).limit(1)) for some in (without, not_(without))
        )
        if going is not None and staying is None:
            raise ConflictError("another token of an administrator, so that somebody can still come in", "the last", at)


_HOLDERS = (
    select(TOKENS.c.hash, *TOKEN, *PRINCIPAL)
    .join(PRINCIPALS, PRINCIPALS.c.name == TOKENS.c.principal)
    .where(PRINCIPALS.c.removed_at.is_(None))
)


def _named(name: str) -> Any:
    return select(*PRINCIPAL).where(PRINCIPALS.c.name == name, PRINCIPALS.c.removed_at.is_(None))


def _same_token(connection: Connection, row: Mapping[str, Any]) -> str:
    """The id of the token that has the secret of this row; an error if it allows anything else."""
    there = connection.execute(select(TOKENS).where(TOKENS.c.hash == row["hash"])).mappings().one()
    same = ("principal", "roles", "sources", "expires")
    if any(there[name] != row[name] for name in same):
        raise ConflictError("a secret that no other token has", "one that a token has which allows something else")
    return str(there["id"])


def _check_name(name: object) -> None:
    if not is_principal_name(name):
        raise SettingError(EXPECTED, shown(name))


def _unknown(name: object) -> SettingError:
    return SettingError("a principal that there is", shown(name))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
