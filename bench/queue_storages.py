"""Storages of queues for the bench of queues: Tidegate's, and SQLite, LMDB and RocksDB as one would use them.

Each makes a batch durable with one commit, finds deliveries of a queue by number, and knows the last number of each.
The rivals keep less: no names of queues, no meaning of subscriptions, no checksums of ours, and the number of the last
delivery of each queue in memory only. LMDB and RocksDB are in the ``dev`` group and are imported when they are used.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from bench.queue_deliveries import DeliveryBatch, Stored, meaning, subscription_name
from tidegate.runs.cut import Cut
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.references import MatchReferences
from tidegate.runs.sinks import Notifications, Receipts
from tidegate.store.queue_reader import QueueReader
from tidegate.store.queues import Queues, Told
from tidegate.store.registrations import Registration
from tidegate.store.registry import Registry
from tidegate.store.registry_tables import Recipient

__all__ = ["RIVALS", "Lmdb", "Rocks", "Sqlite", "Storage", "ThroughSink", "Tidegate", "on_disk", "principal_name"]


def principal_name(principal: int) -> str:
    """What a principal of the bench is called."""
    return f"principal-{principal}"


def on_disk(directory: Path) -> int:
    """Bytes that the files of a directory take on the disk."""
    return sum(512 * path.stat().st_blocks for path in directory.rglob("*") if path.is_file())


class Storage(ABC):
    """Queues in a directory, opened to write and read, or only to read."""

    name: ClassVar[str]
    package: ClassVar[str]
    """What is imported for it."""

    @classmethod
    def is_there(cls) -> bool:
        """Whether it is installed."""
        return find_spec(cls.package) is not None

    @classmethod
    def version(cls) -> str:
        """The version of the package."""
        return sqlite3.sqlite_version if cls.package == "sqlite3" else version(cls.package)

    @abstractmethod
    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None: ...

    @abstractmethod
    def commit(self, batch: DeliveryBatch) -> None:
        """Make a batch durable."""

    @abstractmethod
    def read(self, principal: int, after: int, limit: int) -> list[Any]:
        """Deliveries of a principal with numbers above ``after``, in whatever form the storage gives its users."""

    @abstractmethod
    def last(self, principal: int) -> int:
        """The number of the last delivery of a principal."""

    def stored(self, found: list[Any]) -> list[Stored]:
        """What ``read`` gave, in one form for all storages."""
        return found

    def settle(self) -> None:  # noqa: B027
        """Wait for what goes on aside and belongs to writing."""

    def tidy(self) -> None:  # noqa: B027
        """Make the files as small as they get, for a fair count of bytes."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""


class Tidegate(Storage):
    """``store/queues.py``; a reader is a ``QueueReader``."""

    name, package = "Tidegate", "tidegate"

    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None:
        self._queues = QueueReader(directory) if reads else Queues(directory)
        if isinstance(self._queues, Queues) and not len(self._queues):
            for principal in range(principals):
                self._queues.make(principal_name(principal))

    def commit(self, batch: DeliveryBatch) -> None:
        assert isinstance(self._queues, Queues)
        self._queues.commit(batch.number, batch.time, batch.told, lambda named: [meaning(one) for one in named])

    def read(self, principal: int, after: int, limit: int) -> list[Any]:
        return self._queues.read(self._queues.queue(principal_name(principal)), after, limit).deliveries

    def stored(self, found: list[Any]) -> list[Stored]:
        return [Stored(d.number, d.row, d.matched_at, tuple(map(_subscription, d.meanings))) for d in found]

    def last(self, principal: int) -> int:
        return self._queues.last(self._queues.queue(principal_name(principal)))

    def settle(self) -> None:
        if isinstance(self._queues, Queues):
            self._queues.wait()

    def close(self) -> None:
        self._queues.close()


class ThroughSink(Tidegate):
    """The same through the sink of a run: references, ``told_of``, commit. The registry is asked once for each
    subscription, and answers at once here.
    """

    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None:
        self._sink = QueueSink(directory, cast(Registry, _Known()))
        self._sink.begin("bench")
        self._queues, self._version = self._sink.queues, 2 * principals

    def commit(self, batch: DeliveryBatch) -> None:
        told, writer = batch.told, self._sink.half.writer(batch.number, 0)
        writer.take(cast(Notifications, _Matched(told)))
        self._sink.commit(batch.number, Receipts(writer.close(), Cut(-1, self._version, batch.time)))


class _Known:
    """What the sink asks of a registry."""

    def registrations(self, after: int, upto: int) -> list[Registration]:
        return []

    def recipients(self, sinces: Sequence[int]) -> dict[int, Recipient]:
        return {n: Recipient(subscription_name(n), principal_name((n - 1) // 2), "stream", "all") for n in sinces}


class _Matched:
    """What the sink's worker half takes of a batch."""

    def __init__(self, told: Told) -> None:
        self.notifications = len(told.thing)
        self.references = MatchReferences(told.thing, told.row[told.thing], told.subscription, lambda places: [])


def _subscription(packed: bytes) -> int:
    return int(orjson.loads(packed)[0].rpartition("-")[2])


# --- rivals -----------------------------------------------------------------------------------------------------------

_KEY, _VALUE = struct.Struct(">II"), struct.Struct("<qq")


class _Numbered(NamedTuple):
    """A batch in the order of queues, with the numbers of deliveries; ``matched``: the subscriptions, as bytes."""

    queue: NDArray[np.int32]
    number: NDArray[np.int64]
    row: NDArray[np.int64]
    matched: list[bytes]

    @staticmethod
    def of(batch: DeliveryBatch, last: NDArray[np.int64]) -> _Numbered:
        """Gives numbers, and notes them in ``last``."""
        order = np.argsort(batch.queue, kind="stable")
        queue = batch.queue[order]
        queues, begin, count = np.unique(queue, return_index=True, return_counts=True)
        number = np.repeat(last[queues] + 1 - begin, count) + np.arange(len(queue))
        last[queues] += count
        first = 2 * queue + 1
        one, two = first.astype("<i4").tobytes(), np.stack((first, first + 1), axis=1).astype("<i4").tobytes()
        both = batch.both[order].tolist()
        matched = [two[8 * i : 8 * i + 8] if b else one[4 * i : 4 * i + 4] for i, b in enumerate(both)]
        return _Numbered(queue, number, batch.row[order], matched)

    def items(self, time: int) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in the order of the keys."""
        keys = np.stack((self.queue, self.number), axis=1).astype(">u4").tobytes()
        values = np.stack((self.row, np.full(len(self.row), time)), axis=1).astype("<i8").tobytes()
        for i, matched in enumerate(self.matched):
            yield keys[8 * i : 8 * i + 8], values[16 * i : 16 * i + 16] + matched


class _Rival(Storage):
    """What the rivals share: last numbers are kept in memory, and asked for when a queue is first written to."""

    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None:
        directory.mkdir(exist_ok=True)
        self._last = np.full(principals, -1)

    def _numbered(self, batch: DeliveryBatch) -> _Numbered:
        queues = np.unique(batch.queue)
        for principal in queues[self._last[queues] < 0].tolist():
            self._last[principal] = self.last(principal)
        return _Numbered.of(batch, self._last)

    def stored(self, found: list[Any]) -> list[Stored]:
        return [
            Stored(number, row, time, tuple(np.frombuffer(matched, "<i4").tolist()))
            for number, row, time, matched in found
        ]


class Sqlite(_Rival):
    """A table by queue and number, with a write-ahead log and ``synchronous = FULL``."""

    name, package = "SQLite", "sqlite3"

    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None:
        super().__init__(directory, principals, reads=reads)
        self._database = sqlite3.connect(directory / "queues.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        if not reads:
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS deliveries (queue INTEGER, number INTEGER, row INTEGER, matched_at INTEGER,"
                " subscriptions BLOB, PRIMARY KEY (queue, number)) WITHOUT ROWID"
            )

    def commit(self, batch: DeliveryBatch) -> None:
        some = self._numbered(batch)
        columns = some.queue.tolist(), some.number.tolist(), some.row.tolist(), [batch.time] * len(some.row)
        self._database.execute("BEGIN IMMEDIATE")
        rows = zip(*columns, some.matched, strict=True)
        self._database.executemany("INSERT INTO deliveries VALUES (?, ?, ?, ?, ?)", rows)
        self._database.execute("COMMIT")

    def read(self, principal: int, after: int, limit: int) -> list[Any]:
        query = "SELECT number, row, matched_at, subscriptions FROM deliveries WHERE queue = ? AND number > ? LIMIT ?"
        return self._database.execute(query, (principal, after, limit)).fetchall()

    def last(self, principal: int) -> int:
        found = self._database.execute("SELECT max(number) FROM deliveries WHERE queue = ?", (principal,)).fetchone()
        return int(found[0] or 0)

    def tidy(self) -> None:
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._database.close()


def _unpacked(key: bytes, value: bytes) -> tuple[int, int, int, bytes]:
    return _KEY.unpack(key)[1], *_VALUE.unpack_from(value), value[16:]


class Lmdb(_Rival):
    """Keys of queue and number in one tree; each commit is synced."""

    name, package = "LMDB", "lmdb"

    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None:
        super().__init__(directory, principals, reads=reads)
        self._database: Any = import_module("lmdb").open(os.fspath(directory), map_size=64 << 30, readonly=reads)

    def commit(self, batch: DeliveryBatch) -> None:
        some = self._numbered(batch)
        with self._database.begin(write=True) as transaction:
            transaction.cursor().putmulti(list(some.items(batch.time)))

    def read(self, principal: int, after: int, limit: int) -> list[Any]:
        found: list[Any] = []
        with self._database.begin() as transaction:
            cursor = transaction.cursor()
            cursor.set_range(_KEY.pack(principal, after + 1))
            begin = _KEY.pack(principal, 0)[:4]
            for key, value in cursor:
                if key[:4] != begin or len(found) == limit:
                    break
                found.append(_unpacked(key, value))
        return found

    def last(self, principal: int) -> int:
        with self._database.begin() as transaction:
            cursor = transaction.cursor()
            there = cursor.set_range(_KEY.pack(principal + 1, 0))
            if not (cursor.prev() if there else cursor.last()):
                return 0
            queue, number = _KEY.unpack(cursor.key())
            return number if queue == principal else 0

    def close(self) -> None:
        self._database.close()


class Rocks(_Rival):
    """Keys of queue and number; a batch is one ``WriteBatch``, written with ``sync``."""

    name, package = "RocksDB", "rocksdict"

    def __init__(self, directory: Path, principals: int, *, reads: bool = False) -> None:
        super().__init__(directory, principals, reads=reads)
        self._package: Any = import_module("rocksdict")
        options = self._package.Options(raw_mode=True)
        access = self._package.AccessType
        mode = access.read_only(False) if reads else access.read_write()
        self._database = self._package.Rdict(os.fspath(directory), options, access_type=mode)
        self._synced = self._package.WriteOptions()
        self._synced.sync = True

    def commit(self, batch: DeliveryBatch) -> None:
        some = self._package.WriteBatch(raw_mode=True)
        for key, value in self._numbered(batch).items(batch.time):
            some.put(key, value)
        self._database.write(some, self._synced)

    def read(self, principal: int, after: int, limit: int) -> list[Any]:
        found: list[Any] = []
        begin = _KEY.pack(principal, 0)[:4]
        for key, value in self._database.items(from_key=_KEY.pack(principal, after + 1)):
            if key[:4] != begin or len(found) == limit:
                break
            found.append(_unpacked(key, value))
        return found

    def last(self, principal: int) -> int:
        found = self._database.iter()
        found.seek_for_prev(_KEY.pack(principal, 0xFFFF_FFFF))
        if not found.valid():
            return 0
        queue, number = _KEY.unpack(found.key())
        return number if queue == principal else 0

    def tidy(self) -> None:
        self._database.flush()
        self._database.compact_range(None, None)

    def close(self) -> None:
        self._database.close()


RIVALS: tuple[type[Storage], ...] = (Sqlite, Lmdb, Rocks)
