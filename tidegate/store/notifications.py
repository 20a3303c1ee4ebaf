"""Notifications in a database, for sinks that must not write anything twice and for applications that read them later.

``NotificationStore.write`` writes a batch in one transaction together with a row that marks the batch as written, so it
is there as a whole or not at all. Knows nothing of how notifications come about.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Column, Connection, Double, Index, MetaData, Select, Table, func, select

from tidegate.closing import Closing
from tidegate.errors import SettingError, shown
from tidegate.model import FLAT, NAME_LENGTH, micros
from tidegate.store.database import CHUNK, NUMBER, OPTIONS, Database, insert_new, key, words
from tidegate.store.database_url import address
from tidegate.store.schema import SchemaPart
from tidegate.store.version_readers import QUERY_LENGTH, check_number, check_query, now

__all__ = ["NotificationStore"]

#: Characters of the id of a notification; ours have 32.
_ID_LENGTH = 255
_LENGTHS = {"notification_id": _ID_LENGTH, "subscription_id": NAME_LENGTH, "subscriber": NAME_LENGTH}

TABLES = MetaData()
_BATCHES = Table(
    "tidegate_batches",
    TABLES,
    Column("query", words(QUERY_LENGTH), primary_key=True),
    Column("batch", NUMBER, primary_key=True, autoincrement=False),
    Column("written_at", NUMBER, nullable=False),
    **OPTIONS,
)
_ROWS = Table(
    "tidegate_notifications",
    TABLES,
    Column("notification_id", words(_ID_LENGTH), primary_key=True),
    Column("subscription_key", NUMBER, nullable=False),
    Column("subscription_id", words(NAME_LENGTH), nullable=False),
    Column("subscriber_key", NUMBER, nullable=False),
    Column("subscriber", words(NAME_LENGTH), nullable=False),
    Column("time", NUMBER, nullable=False),
    Column("publication_ids", words(), nullable=False),
    Column("score", Double()),
    Column("distance", Double()),
    Index("tidegate_notifications_subscription", "subscription_key", "time"),
    Index("tidegate_notifications_subscriber", "subscriber_key", "time"),
    Index("tidegate_notifications_time", "time"),
    **OPTIONS,
)


def _create(connection: Connection) -> None:
    TABLES.create_all(connection)


_PART = SchemaPart("notification store", (_create,))


class NotificationStore(Closing):
    """Notifications at a path (an SQLite file) or URL, shared by any number of processes and threads."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._database = Database(address(url), _PART.prepare)
        self._database.open()

    def __getstate__(self) -> str:
        return self._database.url.render_as_string(hide_password=False)

    def __setstate__(self, url: str) -> None:
        self._database = Database(address(url), _PART.prepare)

    def __repr__(self) -> str:
        return f"NotificationStore({str(self._database)!r})"

    def write(self, query: str, batch: int, table: pa.Table) -> int:
        """Write the notifications of a batch and return how many were new; 0 if the batch was written before.

        A score or distance that is no finite number is kept as missing: MariaDB has no such numbers.
        """
        check_query(query)
        check_number(batch, "a batch number")
        table = _checked(table)

        def work(connection: Connection) -> int:
            mark = {"query": query, "batch": batch, "written_at": now()}
            if not insert_new(connection, _BATCHES, [mark]):
                return 0
            return sum(
                insert_new(connection, _ROWS, _records(table.slice(at, CHUNK)))
                for at in range(0, table.num_rows, CHUNK)
            )

        return self._database.write(work)

    def read(
        self,
        *,
        subscriber: str | None = None,
        subscription: str | None = None,
        after: datetime | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The notifications of a subscriber, of a subscription, later than a time; the first ``limit`` of them.

        They are ordered by time, subscription and their own id.
        """
        statement = select(*(_ROWS.c[name] for name in FLAT.names)).order_by(
            _ROWS.c.time, _ROWS.c.subscription_id, _ROWS.c.notification_id
        )
        for what, column, number in (
            (subscriber, _ROWS.c.subscriber, _ROWS.c.subscriber_key),
            (subscription, _ROWS.c.subscription_id, _ROWS.c.subscription_key),
        ):
            if what is not None:
                _check_text(what)
                statement = statement.where(number == key(what), column == what)
        if after is not None:
            if not isinstance(after, datetime) or after.tzinfo is None:
                raise SettingError("a datetime with a time zone as after", shown(after))
            statement = statement.where(_ROWS.c.time > micros(after))
        if limit is not None:
            check_number(limit, "a limit")
            statement = statement.limit(limit)
        return pa.Table.from_batches(self._batches(statement), FLAT)

    def _batches(self, statement: Select[Any]) -> Iterator[pa.RecordBatch]:
        with (
            self._database.read() as connection,
            connection.execution_options(yield_per=CHUNK).execute(statement) as result,
        ):
            for rows in result.partitions():
                columns = list(zip(*rows, strict=True))
                columns[4] = tuple(orjson.loads(ids) for ids in columns[4])
                arrays = [pa.array(column, kind) for column, kind in zip(columns, FLAT.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=FLAT)

    def __len__(self) -> int:
        with self._database.read() as connection:
            return connection.execute(select(func.count()).select_from(_ROWS)).scalar_one()

    def close(self) -> None:
        """Close the connections; they are opened again if the store is used again."""
        self._database.close()


def _checked(table: pa.Table) -> pa.Table:
    """The table, checked and ordered by id: concurrent writers then lock rows in the same order and never deadlock."""
    if not isinstance(table, pa.Table) or table.schema.names != FLAT.names:
        got = ", ".join(table.schema.names) if isinstance(table, pa.Table) else shown(table)
        raise SettingError(f"an Arrow table with the columns {', '.join(FLAT.names)}", got)
    try:
        table = table.cast(FLAT)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SettingError("columns of notifications", str(error).splitlines()[0]) from None
    for name in FLAT.names[:5]:
        if table.column(name).null_count:
            raise SettingError(f"a value of {name} in every row", "null")
    for name, most in _LENGTHS.items():
        texts = table.column(name)
        if (longest := pc.max(pc.utf8_length(texts)).as_py() or 0) > most:
            raise SettingError(f"at most {most} characters as {name}", f"{longest}")
        if pc.any(pc.match_substring(texts, "\0")).as_py():  # PostgreSQL takes no text with NUL
            raise SettingError(f"text without the character NUL as {name}", "one with it")
    return table.sort_by("notification_id")


def _check_text(text: object) -> None:
    if not isinstance(text, str) or "\0" in text:
        raise SettingError("the name of a subscriber or subscription", shown(text))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingError("Unicode text", f"{shown(text)} with a lone surrogate") from None


def _records(table: pa.Table) -> Sequence[dict[str, Any]]:
    ids, subscriptions, subscribers, publications, scores, distances = (
        table.column(name).to_pylist() for name in FLAT.names if name != "time"
    )
    times = table.column("time").cast(pa.int64()).to_pylist()
    return [
        {
            "notification_id": id,
            "subscription_key": key(subscription),
            "subscription_id": subscription,
            "subscriber_key": key(subscriber),
            "subscriber": subscriber,
            "time": time,
            "publication_ids": orjson.dumps(made_by).decode(),
            "score": _finite(score),
            "distance": _finite(distance),
        }
        for id, subscription, subscriber, made_by, score, distance, time in zip(
            ids, subscriptions, subscribers, publications, scores, distances, times, strict=True
        )
    ]


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None
