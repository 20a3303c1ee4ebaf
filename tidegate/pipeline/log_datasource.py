"""The log as a Spark source: its rows are references to slices of segments, which workers map.

``spark.readStream.format("tidegate-log")``. An offset is a row number of the log, and the time of day where patterns
are to have a clock that runs without publications. Spark's write-ahead log of offsets therefore says which publications
a batch has, and the log says with which version of the registry each of them is matched, so a batch that is run again
repeats itself exactly. Spark runs this module in several small processes, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.errors import SettingError, shown
from tidegate.runs.limits import BATCH_ROWS
from tidegate.store.log import Log, Slice
from tidegate.store.manifest import current
from tidegate.store.storage import storage_at

if TYPE_CHECKING:
    from tidegate.store.registry import Registry

__all__ = ["SLICE", "LogDataSource"]

#: The columns of a reference to the log.
SLICE = (
    "file string, first_byte bigint, last_byte bigint, first_row bigint, rows bigint, "
    "oldest_version bigint, newest_version bigint, clock bigint, clock_version bigint"
)
#: One task matches so many publications in less time than Spark takes to start a second one.
_ALONE = 4096
#: Seconds between two notes in the registry of the version from which on this query may need subscriptions.
_NOTED = 5.0


class LogDataSource(DataSource):
    """Options: ``path``, ``rows`` per batch, ``pieces`` to cut a batch into, ``starting`` (``latest``: a stream begins
    after what the log has when it is first read, else with all of it), ``registry``, ``storage``, ``query``,
    ``clock``: seconds between two ticks of the time of day, none by default; and ``shapes``: how the driver looks
    shapes up.
    """

    @classmethod
    def name(cls) -> str:
        return "tidegate-log"

    def schema(self) -> str:
        return SLICE

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Whole(_Planner(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Stream(_Planner(self.options))


class _Planner:
    """Cuts the log into slices. It opens the log and the registry on first use: open files are not pickled."""

    def __init__(self, options: Any) -> None:
        if not options.get("path"):
            raise SettingError("the directory of a log as option path", "none")
        self.path = str(options["path"])
        self.rows, self.pieces = (_count(options, name, usual) for name, usual in (("rows", BATCH_ROWS), ("pieces", 2)))
        self.query, self.starting = options.get("query"), options.get("starting")
        self._tick = int(float(options.get("clock") or 0) * 1e6)
        self._url, self._storage = options.get("registry"), options.get("storage")
        self._shapes = options.get("shapes")
        self._registry: Registry | None = None
        #: The version of the last publication that was planned; later ones have this version or a later one.
        self.newest: int | None = None
        self._log: Log | None = None
        #: The version for which the log has no appends under way that have an older one.
        self._standing = 0

    @property
    def log(self) -> Log:
        if self._log is None:
            self._log = Log(self.path, create=False)
        return self._log

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            from tidegate.store.registry import Registry  # imports the compiler, which is seldom needed here

            self._registry = Registry(str(self._url), storage=self._storage, create=False)
        return self._registry

    @property
    def notes(self) -> bool:
        """Whether the registry is told which versions this query may still need."""
        return bool(self._url and self.query)

    def newest_offset(self) -> dict[str, int]:
        """The end of the log; with a clock also the time of day at the last tick, in microseconds since 1970, and the
        version of the registry: no row that comes later has an older one.
        """
        if not self._tick:
            return {"row": self.log.end}
        now = time_ns() // 1000 // self._tick * self._tick
        version = self.registry.version if self._url else 0
        row = self.log.end  # read after the version: appends that begin now have it, or a later one
        if version != self._standing:  # some that had begun may have an older one
            row, version = self.log.standing(lambda: self.registry.version)
            self._standing = version
        return {"row": row, "clock": now, "version": version}

    def partitions(
        self, begin: int, end: int, clock: int | None = None, version: int | None = None
    ) -> Sequence[InputPartition]:
        pieces = min(self.pieces, 1 + (end - begin) // _ALONE)
        slices = self.log.slices(begin, end, pieces) if end > begin else []
        if clock is not None and version is not None and not slices:  # a tick and no publications
            slices = [Slice("", 0, 0, begin, 0, version, version)]
        if slices and self._url:
            oldest, self.newest = slices[0].oldest_version, slices[-1].newest_version  # stamps never fall
            manifest = current(storage_at(self._storage))
            latest = max(self.newest, version or 0)
            if manifest is None or not manifest.covers(oldest, latest):
                self._prepare(oldest, latest)
        return [InputPartition((*slice, clock, version)) for slice in slices]

    def _prepare(self, oldest: int, version: int) -> None:
        import orjson

        from tidegate.index.shapes import look_up_with
        from tidegate.shapes.sphere_group import ShapeLookup

        if self._shapes is not None:
            look_up_with(ShapeLookup.restored(orjson.loads(self._shapes)))
        self.registry.prepare(oldest, version)


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    values = dict(zip(_NAMES, partition.value, strict=True))
    yield pa.RecordBatch.from_pylist([values], _SCHEMA)


_NAMES = (*Slice._fields, "clock", "clock_version")
_SCHEMA = pa.schema([("file", pa.string()), *((name, pa.int64()) for name in _NAMES[1:])])


class _Whole(DataSourceReader):
    """What the log holds now, as a batch."""

    def __init__(self, planner: _Planner) -> None:
        self._planner = planner

    def partitions(self) -> Sequence[InputPartition]:
        return self._planner.partitions(self._planner.log.begin, self._planner.log.end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows."""

    def __init__(self, planner: _Planner) -> None:
        self._planner = planner
        self._noted = 0.0
        self._last: dict[str, int] | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._newest()

    def _newest(self) -> dict[str, int]:
        return self._planner.newest_offset()

    def initialOffset(self) -> dict[str, int]:
        log = self._planner.log
        return {"row": log.end if self._planner.starting == "latest" else log.begin}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._planner.rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        log, begin = self._planner.log, start["row"]
        latest = self._newest() if self._last is None else dict(self._last)
        if isinstance(limit, ReadMaxRows) and latest["row"] - begin > limit.max_rows:
            latest["row"] = log.cut(begin, limit.max_rows)
            latest = {"row": latest["row"]}  # no tick: publications that appeared before it are still to come
        latest["row"] = max(latest["row"], begin)
        if "clock" in start and latest.get("clock", start["clock"]) <= start["clock"]:
            latest |= {"clock": start["clock"], "version": start["version"]}
        return latest

    def reportLatestOffset(self) -> dict[str, int]:
        return {"row": self._planner.log.end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        ticked = end.get("clock") != start.get("clock")
        tick = (end["clock"], end["version"]) if ticked else ()
        return self._planner.partitions(start["row"], end["row"], *tick)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Note in the registry, every few seconds, which versions this query may need, so that older ones can go."""
        planner = self._planner
        if planner.notes and planner.newest is not None and monotonic() > self._noted + _NOTED:
            self._noted = monotonic()
            planner.registry.needs(planner.query, planner.newest)


def _count(options: Any, name: str, usual: int) -> int:
    given = options.get(name, usual)
    try:
        count = int(given)
    except ValueError:
        count = 0
    if count < 1:
        raise SettingError(f"a whole number above 0 as option {name}", shown(given))
    return count
