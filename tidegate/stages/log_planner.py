"""How a log is read in batches: which offset is next, and references to the slices of segments that make up a batch.

An offset is a cut (``runs/cut.py``): a row number of the log, the version of the registry, the time; and the last tick
where patterns are to have a clock that runs without publications. Whoever runs batches writes offsets down first, and
the log says with which version each publication is matched, so a batch that is run again repeats itself exactly.

A new version makes a cut also where there are no new rows; time alone makes none, but a tick does. The law of cuts:
rows before a cut are stamped with its version or an earlier one, rows behind it with the same or a later one. At the
end of the log the version is the registry's, read under the log's lock if it has moved. Where a batch ends before that,
it is the stamp of the batch's last row, for which the law holds because stamps never fall.

Spark uses this in several small processes, so it imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import SettingError, shown
from tidegate.runs.cut import Cut
from tidegate.runs.limits import BATCH_ROWS
from tidegate.store.log import Log, Slice
from tidegate.store.manifest import current
from tidegate.store.storage import storage_at

if TYPE_CHECKING:
    from tidegate.store.registry import Registry

__all__ = ["REFERENCE", "LogPlanner", "reference"]

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
        self._log: Log | None = None
        #: The last cut at the end of the log: no append was under way that had an older version.
        self._standing = Cut(-1, -1, 0)
        #: The versions for which there are index layers. A worker that finds none makes them.
        self._prepared = 0, -1

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
        """A cut at the end of the log, now; with a clock also the time of day at the last tick."""
        version = self._version()
        row = self.log.end  # read after the version: appends that begin now have it, or a later one
        if version != self._standing.version or (row != self._standing.row and version != self._version()):
            # appends under way may have an older version, or some that were made since a newer one
            row, version = self.log.standing(self._version)
        now = time_ns() // 1000
        self._standing = Cut(row, version, now)
        found = {"row": row, "version": version, "time": now}
        return {**found, "clock": now // self._tick * self._tick} if self._tick else found

    def _version(self) -> int:
        return self.registry.version if self._url else 0

    def initial_offset(self) -> dict[str, int]:
        """Where a new checkpoint begins, with version 0: what is subscribed by then comes with the first cut."""
        row = self.log.end if self.starting == "latest" else self.log.begin
        return {"row": row, "version": 0, "time": time_ns() // 1000}

    def next_offset(self, start: Mapping[str, int], newest: Mapping[str, int], most: int | None) -> dict[str, int]:
        """The end of the batch that begins at ``start``: ``newest``, or ``most`` rows later if that is before it.

        It is ``start`` if nothing has moved but the time.
        """
        begin, found = start["row"], dict(newest)
        if most is not None and found["row"] - begin > most:
            row = self.log.cut(begin, most)
            # no tick: publications that appeared before it are still to come
            found = {"row": row, "version": self.log.slices(begin, row, 1)[-1].newest_version, "time": found["time"]}
        for name, value in start.items():
            found[name] = max(found.get(name, 0), value)
        moved = any(found[name] != start.get(name) for name in found if name != "time")
        return found if moved else dict(start)

    def references(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """What lies between two offsets, for ``reference``: at least one, which tells the cut."""
        cut = Cut.of_offset(end)
        clock = end["clock"] if end.get("clock") != start.get("clock") else None
        slices = self._slices(start["row"], end["row"]) or [Slice("", 0, 0, end["row"], 0, cut.version, cut.version)]
        if self._url:
            oldest, newest = slices[0].oldest_version, max(slices[-1].newest_version, cut.version)  # stamps never fall
            if not self._prepared[0] <= oldest <= newest <= self._prepared[1]:
                manifest = current(storage_at(self._storage))
                if manifest is None or not manifest.covers(oldest, newest):
                    self._prepare(oldest, newest)
                self._prepared = oldest, newest
        return [(*slice, clock, *cut) for slice in slices]

    def whole(self) -> list[tuple[Any, ...]]:
        """All that the log holds now, as references without a cut."""
        return [(*slice, None, None, None, None) for slice in self._slices(self.log.begin, self.log.end)]

    def _slices(self, begin: int, end: int) -> list[Slice]:
        pieces = min(self.pieces, 1 + (end - begin) // _ALONE)
        return self.log.slices(begin, end, pieces) if end > begin else []

    def _prepare(self, oldest: int, version: int) -> None:
        import orjson

        from tidegate.index.shapes import look_up_with
        from tidegate.shapes.sphere_group import ShapeLookup

        if self._shapes is not None:
            look_up_with(ShapeLookup.restored(orjson.loads(self._shapes)))
        self.registry.prepare(oldest, version)


def reference(values: tuple[Any, ...]) -> pa.RecordBatch:
    """A reference as the row that ``feed.slices`` takes."""
    return pa.RecordBatch.from_pylist([dict(zip(REFERENCE, values, strict=True))], _SCHEMA)


#: The columns of a reference to the log.
REFERENCE = (*Slice._fields, "clock", "cut_row", "cut_version", "cut_time")
_SCHEMA = pa.schema([("file", pa.string()), *((name, pa.int64()) for name in REFERENCE[1:])])


def _count(options: Any, name: str, usual: int) -> int:
    given = options.get(name, usual)
    try:
        count = int(given)
    except ValueError:
        count = 0
    if count < 1:
        raise SettingError(f"a whole number above 0 as option {name}", shown(given))
    return count
