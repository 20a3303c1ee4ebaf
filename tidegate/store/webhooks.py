"""``StoredWebhooks``: the endpoints to which principals have deliveries posted, as data in the registry's database.

The gateways make, change and remove endpoints; the sender reads them, writes how each stands, and learns by one number
that something was changed. Sends nothing. Secrets are stored as they are, since deliveries are signed with them: an
SQLite file with any is readable by its owner only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, select, update

from tidegate.closing import Closing
from tidegate.delivery_options import destination_of
from tidegate.errors import ConflictError, StoreError, shown
from tidegate.store import webhook_secrets
from tidegate.store.database import Database, key
from tidegate.store.database_url import address, file
from tidegate.store.dead_letters import DeadLetterBook
from tidegate.store.registry import Registry
from tidegate.store.registry_tables import ROWS, findable, tick
from tidegate.store.version_readers import now
from tidegate.store.webhook_tables import (
    CHANGES,
    ENDPOINTS,
    REPLAYS,
    STATES,
    Batch,
    Progress,
    Replay,
    Webhook,
    next_change,
    prepare,
    remove_endpoints,
    replay_of,
    webhook_of,
)

__all__ = ["PutWebhook", "StoredWebhooks", "TooManyWebhooks"]

#: Replays of an endpoint that wait.
_MOST_REPLAYS = 10
#: What reads an SQLite file: its owner, nobody else.
_OWNER = 0o600
_SECOND = 1_000_000
#: Has how an endpoint stands written, if it is not another one since.
_SAVE = update(ENDPOINTS).where(
    ENDPOINTS.c.principal == bindparam("of_principal"),
    ENDPOINTS.c.name == bindparam("of_name"),
    ENDPOINTS.c.revision == bindparam("at"),
)


class PutWebhook(NamedTuple):
    """An endpoint that was put, and whether there was none of its name."""

    webhook: Webhook
    is_new: bool


class TooManyWebhooks(StoreError):
    """A principal has as many endpoints as it may, or an endpoint as many replays."""


class StoredWebhooks(Closing):
    """The endpoints in the database of a registry, shared by any number of processes and threads."""

    def __init__(self, where: Registry | str | os.PathLike[str], *, clock: Callable[[], int] = now) -> None:
        self._database = Database(address(where.url if isinstance(where, Registry) else where), prepare)
        self._clock = clock
        self._database.open()
        self.dead = DeadLetterBook(self._database)
        """What was given up."""

    def __repr__(self) -> str:
        return f"StoredWebhooks({str(self._database)!r})"

    def close(self) -> None:
        """Close the connections; they are opened again if this is used again."""
        self._database.close()

    # --- made and changed by principals -----------------------------------------------------------------------------

    def put(
        self, principal: str, name: str, url: str, *, batch: Batch | None, secret: str | None, most: int
    ) -> PutWebhook:
        """Make an endpoint with this secret, or a new one; or change the one of this name. One with another address is
        verified again. A principal with ``most`` of them may make no other.
        """
        if secret is not None:
            webhook_secrets.key_of(secret)
        self._keep_to_owner()
        said = {"url": url, "batch_items": batch and batch.items, "batch_bytes": batch and batch.bytes}

        def work(connection: Connection) -> PutWebhook:
            tick(connection, 0)  # nobody else changes endpoints meanwhile
            there = self._find(connection, principal, name)
            if there is None:
                mine = select(func.count()).select_from(ENDPOINTS).where(ENDPOINTS.c.principal == principal)
                if connection.execute(mine).scalar_one() >= most:
                    raise TooManyWebhooks(f"at most {most:,} webhooks of {principal}", "one more")
                row: dict[str, Any] = {"principal": principal, "name": name, "secret": secret or webhook_secrets.made()}
                row |= {"created": self._clock(), "revision": next_change(connection), **said, **_row(Progress())}
                connection.execute(insert(ENDPOINTS), row)
            elif secret is not None and secret != there.secret:
                expected = "the secret that is there, or a rotation to make it another"
                raise ConflictError(expected, "another", f"webhook {shown(name)}")
            elif (there.url, there.batch) != (url, batch):
                anew = _row(Progress()) if there.url != url else {}
                self._change(connection, principal, name, **said, **anew)
            found = self._find(connection, principal, name)
            assert found is not None, "an endpoint that was put"
            return PutWebhook(found, there is None)

        return self._database.write(work)

    def rotate(self, principal: str, name: str, secret: str | None, overlap: float) -> Webhook | None:
        """Give an endpoint this secret, or a new one; the one before signs as well for so many seconds. One that has
        this secret already stays as it is. None if there is no such endpoint.

        Two secrets sign at most: while an old one does, another rotation is refused unless it has no overlap.
        """
        if secret is not None:
            webhook_secrets.key_of(secret)

        def work(connection: Connection) -> Webhook | None:
            there = self._find(connection, principal, name)
            if there is None or there.secret == secret:
                return there
            if overlap and len(there.secrets_at(self._clock())) > 1:
                expected = "a webhook whose old secret signs no more, or a rotation with overlap 0, which ends both"
                raise ConflictError(expected, "one that is being rotated", f"webhook {shown(name)}")
            until = self._clock() + int(overlap * _SECOND) if overlap else None
            old = there.secret if overlap else None
            new = {"secret": secret or webhook_secrets.made(), "old_secret": old, "old_until": until}
            self._change(connection, principal, name, **new)
            return self._find(connection, principal, name)

        return self._database.write(work)

    def ask_verification(self, principal: str, name: str) -> Webhook | None:
        """Have an endpoint verified anew and now, whatever became of it. None if there is no such endpoint."""

        def work(connection: Connection) -> Webhook | None:
            if self._find(connection, principal, name) is None:
                return None
            self._change(connection, principal, name, **_row(Progress()))
            return self._find(connection, principal, name)

        return self._database.write(work)

    def remove(self, principal: str, name: str) -> bool:
        """Remove an endpoint that no subscription names, with its dead letters; whether there was one."""

        def work(connection: Connection) -> bool:
            tick(connection, 0)  # nobody subscribes meanwhile
            destination = destination_of({"webhook": name})
            mine = ROWS.c.subscriber_key == key(principal), ROWS.c.subscriber == principal, ROWS.c.until.is_(None)
            there = select(ROWS.c.id).where(*mine, ROWS.c.destination == destination).limit(1)
            named = connection.execute(there).scalar_one_or_none()
            if named is not None:
                got = f"one that {shown(named)} delivers to"
                raise ConflictError("a webhook that no subscription delivers to", got, f"webhook {shown(name)}")
            return remove_endpoints(connection, _whose(principal, name))

        return self._database.write(work)

    def _change(self, connection: Connection, principal: str, name: str, **values: object) -> None:
        revision = next_change(connection)
        connection.execute(update(ENDPOINTS).where(_whose(principal, name)).values(revision=revision, **values))

    def _keep_to_owner(self) -> None:
        """Let nobody else read the file of the database, nor what is written beside it."""
        here = file(self._database.url)
        if here is not None:
            for end in ("", "-wal", "-shm"):
                with suppress(OSError):  # of another owner, who has seen to it
                    os.chmod(f"{here}{end}", _OWNER)

    # --- looked at --------------------------------------------------------------------------------------------------

    def find(self, principal: str, name: str) -> Webhook | None:
        """The endpoint of that name; None if the principal has none."""
        with self._database.read() as connection:
            return self._find(connection, principal, name)

    @staticmethod
    def _find(connection: Connection, principal: str, name: str) -> Webhook | None:
        row = connection.execute(select(ENDPOINTS).where(_whose(principal, name))).one_or_none()
        return None if row is None else webhook_of(row)

    def page(self, principal: str, after: str, limit: int) -> list[Webhook]:
        """The endpoints of a principal behind a name, in the order of their names."""
        wanted = select(ENDPOINTS).where(ENDPOINTS.c.principal == principal, ENDPOINTS.c.name > findable(after))
        with self._database.read() as connection:
            return [webhook_of(row) for row in connection.execute(wanted.order_by(ENDPOINTS.c.name).limit(limit))]

    def by_state(self) -> dict[str, int]:
        """How many endpoints there are in each state."""
        wanted = select(ENDPOINTS.c.state, func.count()).group_by(ENDPOINTS.c.state)
        with self._database.read() as connection:
            found = {row[0]: row[1] for row in connection.execute(wanted)}
        return {state: found.get(state, 0) for state in STATES}

    def failing(self, most: int) -> list[Webhook]:
        """Some of the endpoints that are given nothing or do not take it, those that fail for longest first."""
        wanted = select(ENDPOINTS).where(ENDPOINTS.c.state.in_(("failing", "disabled")))
        with self._database.read() as connection:
            found = connection.execute(wanted.order_by(ENDPOINTS.c.failing_since).limit(most))
            return [webhook_of(row) for row in found]

    # --- of the sender ----------------------------------------------------------------------------------------------

    @property
    def changes(self) -> int:
        """A number that is another one after each change that the sender must hear of. Cheap."""
        return int(self._database.poll(CHANGES) or 0)

    def all(self) -> list[Webhook]:
        """All endpoints."""
        with self._database.read() as connection:
            return [webhook_of(row) for row in connection.execute(select(ENDPOINTS))]

    def save(self, stands: Iterable[tuple[Webhook, Progress]]) -> None:
        """Write how endpoints stand, unless they were changed since they were read."""
        rows = [
            {"of_principal": one.principal, "of_name": findable(one.name), "at": one.revision, **_row(progress)}
            for one, progress in stands
        ]
        if rows:
            self._database.write(lambda connection: connection.execute(_SAVE, rows))

    def forget_old_secrets(self) -> None:
        """Remove the secrets that sign no more."""
        over = update(ENDPOINTS).where(ENDPOINTS.c.old_until <= self._clock())
        self._database.write(lambda connection: connection.execute(over.values(old_secret=None, old_until=None)))

    # --- sent again -------------------------------------------------------------------------------------------------

    def ask_replay(self, principal: str, name: str, epoch: str, begin: int, upto: int) -> Replay:
        """Have the deliveries of some numbers sent again, beside what comes."""
        replay = Replay(secrets.token_hex(8), principal, name, epoch, begin - 1, upto, self._clock())

        def work(connection: Connection) -> None:
            tick(connection, 0)
            mine = REPLAYS.c.principal == principal, REPLAYS.c.name == name
            if connection.execute(select(func.count()).select_from(REPLAYS).where(*mine)).scalar_one() >= _MOST_REPLAYS:
                raise TooManyWebhooks(
                    f"at most {_MOST_REPLAYS} replays that wait", "one more", f"webhook {shown(name)}"
                )
            connection.execute(insert(REPLAYS), replay._asdict())
            next_change(connection)

        self._database.write(work)
        return replay

    def replays(self) -> list[Replay]:
        """All that are under way or wait, of each endpoint those asked for first."""
        with self._database.read() as connection:
            found = connection.execute(select(REPLAYS).order_by(REPLAYS.c.asked_at, REPLAYS.c.id))
            return [replay_of(row) for row in found]

    def step_replay(self, replay: Replay, position: int) -> None:
        """Note how far a replay is; at its end it is removed."""
        mine = REPLAYS.c.id == replay.id
        if position >= replay.upto:
            self._database.write(lambda connection: connection.execute(delete(REPLAYS).where(mine)))
        else:
            statement = update(REPLAYS).where(mine).values(position=position)
            self._database.write(lambda connection: connection.execute(statement))


def _whose(principal: str, name: str) -> ColumnElement[bool]:
    return and_(ENDPOINTS.c.principal == principal, ENDPOINTS.c.name == findable(name))


def _row(progress: Progress) -> dict[str, Any]:
    return {**progress._asdict(), "gave_up": int(progress.gave_up)}
