"""How a log is read in batches: which offset is next, and references to the slices of segments that make up a batch.

An offset is a row number of the log, and the time of day where patterns are to have a clock that runs without
publications. Whoever runs batches writes offsets down first, and the log says with which version of the registry each
publication is matched, so a batch that is run again repeats itself exactly. Spark uses this in several small processes,
so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import SettingError, shown
from tidegate.runs.limits import BATCH_ROWS
from tidegate.store.log import Log, Slice
from tidegate.store.manifest import current
from tidegate.store.storage import storage_at

if TYPE_CHECKING:
    from tidegate.store.registry import Registry

__all__ = ["LogPlanner", "reference"]

#: One task matches so many publications in less time than Spark takes to start a second one.
_ALONE = 4096


class LogPlanner:
    """Cuts the log into slices. It opens the log and the registry on first use: open files are not pickled.

    Options: ``path``, ``rows`` per batch, ``pieces`` to cut a batch into, ``starting`` (``latest``: a stream begins
    after what the log has when it is first read, else with all of it), ``registry``, ``storage``, ``query``,
    ``clock``: seconds between two ticks of the time of day, none by default; and ``shapes``: how the driver looks
    shapes up.
    """

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

    def close(self) -> None:
        """Close the log and the registry, if they are open."""
        for opened in (self._log, self._registry):
            if opened is not None:
                opened.close()

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

    def initial_offset(self) -> dict[str, int]:
        """Where a new checkpoint begins."""
        return {"row": self.log.end if self.starting == "latest" else self.log.begin}

    def next_offset(self, start: Mapping[str, int], newest: Mapping[str, int], most: int | None) -> dict[str, int]:
        """The end of the batch that begins at ``start``: ``newest``, or ``most`` rows later if that is before it."""
        found, begin = dict(newest), start["row"]
        if most is not None and found["row"] - begin > most:
            # no tick: publications that appeared before it are still to come
            found = {"row": self.log.cut(begin, most)}
        found["row"] = max(found["row"], begin)
        if "clock" in start and found.get("clock", start["clock"]) <= start["clock"]:
            found |= {"clock": start["clock"], "version": start["version"]}
        return found

    def references(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """What lies between two offsets, for ``reference``."""
        ticked = end.get("clock") != start.get("clock")
        return self.slices(start["row"], end["row"], *((end["clock"], end["version"]) if ticked else ()))

    def slices(
        self, begin: int, end: int, clock: int | None = None, version: int | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows between two numbers, with a tick if there is one."""
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
        return [(*slice, clock, version) for slice in slices]

    def _prepare(self, oldest: int, version: int) -> None:
        import orjson

        from tidegate.index.shapes import look_up_with
        from tidegate.shapes.sphere_group import ShapeLookup

        if self._shapes is not None:
            look_up_with(ShapeLookup.restored(orjson.loads(self._shapes)))
        self.registry.prepare(oldest, version)


def reference(values: tuple[Any, ...]) -> pa.RecordBatch:
    """A reference as the row that ``feed.slices`` takes."""
    return pa.RecordBatch.from_pylist([dict(zip(_NAMES, values, strict=True))], _SCHEMA)


_NAMES = (*Slice._fields, "clock", "clock_version")
_SCHEMA = pa.schema([("file", pa.string()), *((name, pa.int64()) for name in _NAMES[1:])])


def _count(options: Any, name: str, usual: int) -> int:
    given = options.get(name, usual)
    try:
        count = int(given)
    except ValueError:
        count = 0
    if count < 1:
        raise SettingError(f"a whole number above 0 as option {name}", shown(given))
    return count
