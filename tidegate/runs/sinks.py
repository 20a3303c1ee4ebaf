"""Sinks, where notifications go: the protocol ``Sink``, and those that write in the driver: SQL, console, a function.

A sink has two halves. The *worker half* (``WorkerHalf``, ``Writer``) runs in the tasks and writes the notifications
found there or sends them to the driver; the *driver half* (``Sink.commit``) makes them count, once, for the batch. A
batch that is run again after a failure has the same number, so sinks that store the number deliver nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TextIO

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import StoreError
from tidegate.model import FLAT, GROUPED
from tidegate.patterns.past import Fates
from tidegate.runs.cut import Cut
from tidegate.runs.references import MatchReferences, RaisedReferences
from tidegate.store.notifications import NotificationStore

__all__ = [
    "COUNTS",
    "CUT",
    "NO_ROWS",
    "Callback",
    "Console",
    "Cut",
    "DriverSink",
    "Notifications",
    "Receipt",
    "Receipts",
    "Sent",
    "Sink",
    "Sql",
    "WorkerHalf",
    "Writer",
    "check_batches",
    "lines",
    "named_by",
]


#: The kind of the receipt that counts what a task did.
COUNTS = "counts"
#: What a sink names that keeps what it shows itself.
NO_ROWS = np.empty(0, np.int64)
#: The kind of the receipt that tells the cut of the batch, where the source makes it; all tasks tell the same.
CUT = "cut"

Receipt = tuple[str, bytes]


class Notifications(Protocol):
    """Notifications as tables, or as references, that are made on first use."""

    @property
    def notifications(self) -> int:
        """How many notifications there are."""

    @property
    def flat(self) -> pa.Table:
        """A row per notification."""

    @property
    def grouped(self) -> pa.Table:
        """A row per publication."""

    @property
    def references(self) -> MatchReferences | RaisedReferences:
        """The rows of the log and the numbers of the subscriptions."""

    @property
    def fates(self) -> Fates | None:
        """What became of publications as parts of events; None where nobody asked about the past."""


class Writer(Protocol):
    """The worker half of a sink, made anew for each task. Everything that reaches the workers is pickled."""

    def take(self, found: Notifications) -> None:
        """Write the notifications, or keep them until ``close``."""

    def close(self) -> Iterator[Receipt]:
        """The receipts with which the driver half can commit, once the task has matched all its publications."""


class WorkerHalf(Protocol):
    """Makes writers. Spark pickles it and sends it to the workers."""

    @property
    def form(self) -> str:
        """What its writers take: ``flat``, ``grouped``, ``references`` or ``fates``."""

    def writer(self, batch: int, part: int) -> Writer: ...


class Receipts:
    """The receipts of all tasks of a batch: payloads by kind.

    ``cut`` is the one that the runner made, for a source that makes none.
    """

    def __init__(self, receipts: Iterable[Receipt], cut: Cut | None = None) -> None:
        self._by_kind: dict[str, list[bytes]] = {}
        for kind, payload in receipts:
            self._by_kind.setdefault(kind, []).append(payload)
        self._cut = cut

    @staticmethod
    def of_table(table: pa.Table, cut: Cut | None = None) -> Receipts:
        """The receipts that Spark has collected."""
        return Receipts(zip(table.column("kind").to_pylist(), table.column("payload").to_pylist(), strict=True), cut)

    @cached_property
    def cut(self) -> Cut:
        """The cut of the batch: the same when the batch is run again."""
        told = self.of(CUT)
        found = Cut(*orjson.loads(told[0])) if told else self._cut
        if found is None:
            raise RuntimeError("receipts of a batch without a cut")
        return found

    def of(self, kind: str) -> list[bytes]:
        """The payloads of one kind."""
        return self._by_kind.get(kind, [])

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
    """A destination of notifications. ``half`` is its worker half; sinks with equal halves share one."""

    @property
    def half(self) -> WorkerHalf: ...

    def begin(self, query: str) -> None:
        """Called once before the first batch: open what must be open, and remove what a crash left."""

    def commit(self, batch: int, receipts: Receipts) -> None:
        """Make a batch count. Called again with the same batch after a failure."""

    def tidy(self) -> None:
        """Drop what is too old to be kept. Called once a minute by the maintenance thread, also during ``commit``."""

    def named(self, begin: int, end: int) -> NDArray[np.int64]:
        """The rows of the log, of a range, that this sink may still show to somebody, in ascending order. Called by the
        maintenance thread before these rows are dropped.
        """

    @property
    def last_batch(self) -> int:
        """The last batch that it has and would not take again, where it keeps that itself; else −1. After ``begin``."""

    def close(self) -> None: ...


def check_batches(sinks: Sequence[Sink], batch: int, record: str) -> None:
    """A ``StoreError`` if a sink has a batch after ``batch``, the last one that the runner knows to have begun.

    The runner's record was lost then, and the sink would take the next batches, with other contents, for done.
    """
    if (known := max((sink.last_batch for sink in sinks), default=-1)) > batch:
        wanted = f"a record of batches up to {known}, which a sink has, or a new checkpoint with new sinks"
        raise StoreError(wanted, f"one up to {batch}" if batch >= 0 else "none", record)


def named_by(sinks: Sequence[Sink]) -> Callable[[int, int], NDArray[np.int64]]:
    """What finds the rows of the log, of a range, that some of these sinks may still show to somebody."""
    return lambda begin, end: np.unique(np.concatenate([sink.named(begin, end) for sink in sinks]))


# --- sinks in the driver --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """The worker half of sinks that write in the driver: it sends the notifications there as Arrow."""

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
    """A sink that writes in the driver, with nothing to open or close unless a subclass has."""

    half: WorkerHalf = Sent()

    def begin(self, query: str) -> None:
        return None

    @property
    def last_batch(self) -> int:
        return -1

    def tidy(self) -> None:
        return None

    def named(self, begin: int, end: int) -> NDArray[np.int64]:
        return NO_ROWS

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
