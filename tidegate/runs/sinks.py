"""Where notifications go: the contract of a sink, and the sinks that only the driver has: SQL, the console, a function.

A sink has two halves. The *worker half* runs in the tasks and writes, or sends on, what was found there; the *driver
half* makes it count, once, for the batch. A batch that is run again after a failure is recognised by its number, so
nothing is delivered twice by sinks that can know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TextIO

import orjson
import pyarrow as pa

from tidegate.model import FLAT, GROUPED
from tidegate.store.notifications import NotificationStore

__all__ = [
    "COUNTS",
    "Callback",
    "Console",
    "DriverSink",
    "Notifications",
    "Receipt",
    "Receipts",
    "Sent",
    "Sink",
    "Sql",
    "WorkerHalf",
    "Writer",
    "lines",
]


#: The kind of the receipt that counts what a task did.
COUNTS = "counts"

Receipt = tuple[str, bytes]


class Notifications(Protocol):
    """What is told, as tables that are made when they are asked for."""

    @property
    def notifications(self) -> int:
        """How many there are."""

    @property
    def flat(self) -> pa.Table:
        """A row per notification."""

    @property
    def grouped(self) -> pa.Table:
        """A row per publication."""


class Writer(Protocol):
    """The worker half of a sink, made anew for each task. Everything that reaches the workers is pickled."""

    def take(self, found: Notifications) -> None:
        """Write what was found, or keep it until the end."""

    def close(self) -> Iterator[Receipt]:
        """All of the task has been seen; what the driver needs to know to make it count."""


class WorkerHalf(Protocol):
    """Makes writers; travels to the workers."""

    @property
    def form(self) -> str:
        """What its writers take: ``flat`` or ``grouped``."""

    def writer(self, batch: int, part: int) -> Writer: ...


class Receipts:
    """What the tasks of a batch said: payloads by kind."""

    def __init__(self, table: pa.Table) -> None:
        self._kinds, self._payloads = table.column("kind").to_pylist(), table.column("payload")

    def of(self, kind: str) -> list[bytes]:
        """The payloads of one kind."""
        return [payload.as_py() for k, payload in zip(self._kinds, self._payloads, strict=True) if k == kind]

    @cached_property
    def flat(self) -> pa.Table:
        """The notifications that were sent to the driver, ordered by time and subscription."""
        return self._sent("flat", FLAT).sort_by([("time", "ascending"), ("subscription_id", "ascending")])

    @cached_property
    def grouped(self) -> pa.Table:
        """The same, a row per publication."""
        return self._sent("grouped", GROUPED)

    def _sent(self, kind: str, schema: pa.Schema) -> pa.Table:
        tables = [pa.ipc.open_stream(payload).read_all() for payload in self.of(kind)]
        return pa.concat_tables([schema.empty_table(), *tables])


class Sink(Protocol):
    """One way out. ``half`` is what its tasks need; sinks with equal halves share one."""

    @property
    def half(self) -> WorkerHalf: ...

    def begin(self, query: str) -> None:
        """Called once before the first batch: open what must be open, tidy what a crash left."""

    def commit(self, batch: int, receipts: Receipts) -> None:
        """Make a batch count. Called again with the same batch after a failure."""

    def close(self) -> None: ...


# --- sinks in the driver --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """The worker half of sinks that live in the driver: what was found travels there as Arrow."""

    form: str = "flat"

    def writer(self, batch: int, part: int) -> _Sending:
        return _Sending(self.form)


class _Sending:
    def __init__(self, form: str) -> None:
        self._form = form
        self._tables: list[pa.Table] = []

    def take(self, found: Notifications) -> None:
        if found.notifications:
            self._tables.append(getattr(found, self._form))

    def close(self) -> Iterator[Receipt]:
        if self._tables:
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, self._tables[0].schema) as stream:
                for table in self._tables:
                    stream.write_table(table)
            yield self._form, out.getvalue().to_pybytes()


class DriverSink:
    """What driver sinks have in common: they are sent the notifications, and have nothing to open or close."""

    half: WorkerHalf = Sent()

    def begin(self, query: str) -> None:
        return None

    def close(self) -> None:
        return None


class Callback(DriverSink):
    """Calls ``function(batch, notifications)`` with an Arrow table, for batches that have any.

    After a crash the last batch may be given again, with the same number and the same notification ids.
    """

    def __init__(self, function: Callable[[int, pa.Table], Any]) -> None:
        self._function = function

    def commit(self, batch: int, receipts: Receipts) -> None:
        if len(receipts.flat):
            self._function(batch, receipts.flat)


class Console(DriverSink):
    """Writes each notification as a line of JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def commit(self, batch: int, receipts: Receipts) -> None:
        for line in lines(receipts.flat):
            self._stream.write(line.decode() + "\n")
        self._stream.flush()


class Sql(DriverSink):
    """The notification store: a transaction per batch, so a batch is there whole and once."""

    def __init__(self, url: str) -> None:
        self._store = NotificationStore(url)
        self._query = ""

    def begin(self, query: str) -> None:
        self._query = query

    def commit(self, batch: int, receipts: Receipts) -> None:
        if len(receipts.flat):
            self._store.write(self._query, batch, receipts.flat)

    def close(self) -> None:
        self._store.close()


def lines(notifications: pa.Table) -> Sequence[bytes]:
    """Notifications as JSON, times in UTC."""
    return [orjson.dumps(row, option=orjson.OPT_UTC_Z) for row in notifications.to_pylist()]
