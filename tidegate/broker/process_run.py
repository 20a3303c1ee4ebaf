"""``ProcessRun``: a run in one process, without Java: a source, select, combine and the sinks, one batch after another.

    source ──► select ► worker halves of the sinks ──► combine ──► receipts ──► driver halves of the sinks
      │                                                                             │
      └─ offsets: the record of batches           batch number: what makes it once ─┘

It does what ``pipeline.Flow`` does on Spark, with the same stages, sinks, subscriptions and quarantine, and gives the
same notifications. All batches run in one thread, which a wake-up from the log tells of new publications.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic, perf_counter

import orjson

from tidegate.broker.batch_record import BatchRecord
from tidegate.broker.source_readers import Offset, SourceReader, reader_of
from tidegate.errors import SettingError
from tidegate.language.limits import DEFAULT_LIMITS
from tidegate.patterns.combine import KEEP
from tidegate.runs.checkpoint import begun
from tidegate.runs.cut import Cut
from tidegate.runs.maintenance import Maintenance, look_after
from tidegate.runs.quarantine import Quarantine
from tidegate.runs.sinks import COUNTS, Receipts, Sink, check_batches, named_by
from tidegate.runs.sources import Source
from tidegate.runs.status import Status
from tidegate.stages.combine import CombineStep
from tidegate.stages.feed import fed_for
from tidegate.stages.live_shard import forget
from tidegate.stages.select import VERSION, Select, Subscriptions
from tidegate.stages.select_task import WATERMARK, ReceiptRows, ReceiptTask
from tidegate.stages.shard_parts import ShardFiles
from tidegate.stages.shard_state import CombineSettings
from tidegate.stages.task_context import LocalTask, local_task
from tidegate.store.commit_lock import CommitLock
from tidegate.store.directory_lock import DirectoryLock
from tidegate.store.registry import Registry

__all__ = ["ProcessRun"]

_LOG = logging.getLogger("tidegate")
#: The only shard: patterns are spread over several only where there are several processes.
_SHARDS = (0,)
#: Seconds between two notes in the registry of the version from which on this run may need subscriptions.
_NOTED = 5.0


class ProcessRun:
    """A run that matches the publications of a source with a registry and feeds the sinks, in a thread of its own."""

    def __init__(
        self,
        source: Source,
        registry: Registry,
        sinks: Sequence[Sink],
        *,
        checkpoint: str | os.PathLike[str],
        quarantine: str | os.PathLike[str] | None = None,
        interval: float = 0.0,
        lateness: float = 5.0,
        ahead: float | None = None,
        patterns: bool = True,
        clock: float = 0.0,
        combinations: int = DEFAULT_LIMITS.combinations,
        keep: float | None = None,
    ) -> None:
        if clock and not (source.ticks and patterns):
            got = "one without" if not source.ticks else "a run without patterns"
            raise SettingError("a source that can tell the time of day (the log) for a clock", got)
        if ahead is not None and not source.dates:
            raise SettingError("a source that says when it took a publication (log, Kafka) for ahead", "one without")
        self._checkpoint = os.fspath(checkpoint).rstrip("/")
        if "://" in self._checkpoint:
            raise SettingError('a directory of this machine as checkpoint of runner = "process"', self._checkpoint)
        self._source, self._registry, self._sinks = source, registry, sinks
        self._clock, self._interval = clock, interval
        self._ahead = None if ahead is None else int(ahead * 1e6)
        self._settings = CombineSettings(int(lateness * 1e6), combinations, KEEP if keep is None else int(keep * 1e6))
        self._opened = ExitStack()  # what close closes, the last first, also where a full disk fails one of them
        self._opened.callback(DirectoryLock(self._checkpoint).release)
        for sink in sinks:
            self._opened.callback(sink.close)
        self._opened.callback(source.close)
        self._commits = CommitLock(self._checkpoint)
        identity = source.identity_seen_from(self._checkpoint)
        self._begun = begun(self._checkpoint, identity, patterns, len(_SHARDS), "process", source.identity)
        self.query = self._begun.query
        self.quarantine = Quarantine.at(quarantine or f"{self._checkpoint}/quarantine")
        self.status = Status(registry)
        self._maintenance = Maintenance(self._tidy)
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._noted = 0.0
        self._is_closed = False

    # --- starting and ending ----------------------------------------------------------------------------------------

    def start(self, available_now: bool = False) -> None:
        """Start the run; with ``available_now`` it ends by itself when all that the source has now is done.

        If that fails, everything is closed.
        """
        try:
            self._start(available_now)
        except BaseException:
            self.close()
            raise

    def _start(self, available_now: bool) -> None:
        self._registry.needs(self.query, 0)  # keep all versions until the first batch says which it needs
        version = self._registry.version
        self._registry.prepare(version, version)
        with self._commits.shared():  # both cut off what a crash has left
            for sink in self._sinks:
                sink.begin(self.query)
            self._record = BatchRecord(self._checkpoint)
            self._opened.callback(self._record.close)
        check_batches(self._sinks, self._record.batch, self._record.path)
        self._reader = reader_of(self._source, self.query, self._registry, self._clock, self._checkpoint)
        self._opened.callback(self._reader.close)
        self._make_stages(self._reader)
        self._opened.callback(forget, self.query)
        if self._record.batch >= 0:
            self.quarantine.begin(self._record.batch)
        self._thread = threading.Thread(target=self._run, args=(available_now,), name="tidegate-run", daemon=True)
        self._thread.start()
        self._maintenance.start()

    def _make_stages(self, reader: SourceReader) -> None:
        halves = tuple(dict.fromkeys(sink.half for sink in self._sinks))
        subscriptions = Subscriptions(self._registry.index_storage, self._registry)
        feed = fed_for(halves, reader.feed, self._source.stamps)
        select = Select(feed, subscriptions, self._ahead)
        files = ShardFiles(f"{self._checkpoint}/patterns") if self._begun.patterns else None
        outlet = ReceiptRows(halves, files, _SHARDS if files is not None else ())
        self._select = ReceiptTask(select, outlet, self.quarantine)
        self._combine = None
        if files is not None:
            self._combine = CombineStep(files, _SHARDS, subscriptions, self._settings, halves, query=self.query)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the run to end; whether it has ended. A failure of it is raised."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """End the run after the batch that is running. The next run takes the batches after it."""
        self._stopping.set()
        self._thread.join()
        self.close()

    def close(self) -> None:
        """Close the source and the sinks."""
        if self._is_closed:
            return
        self._is_closed = True
        self._maintenance.stop()
        self._opened.close()

    def _tidy(self) -> None:
        """End subscriptions whose time is over, and have registry, sinks and source drop what nobody can need any more.

        Called by the maintenance thread.
        """
        done = self._record.offset  # before the sinks write down what they need of the rows up to here
        look_after(self._registry, self._settings.lateness)
        for sink in self._sinks:
            sink.tidy()
        if done is not None:
            self._source.done(done, named_by(self._sinks))

    # --- batches ----------------------------------------------------------------------------------------------------

    def _run(self, available_now: bool) -> None:
        try:
            record, reader = self._record, self._reader
            done = record.offset if record.offset is not None else reader.first()
            if record.begun is not None:
                done = self._batch(record.batch, done, record.begun)
            while not self._stopping.is_set():
                began = monotonic()
                following = reader.next(done)
                if following is not None:
                    record.begin(record.batch + 1, following)
                    done = self._batch(record.batch, done, following)
                    if self._interval:
                        self._stopping.wait(max(0.0, began + self._interval - monotonic()))
                elif available_now:
                    return
                else:
                    reader.wait(reader.poll)
        except BaseException as error:
            self._error = error

    def _batch(self, number: int, start: Offset, end: Offset) -> Offset:
        """Run one batch, and have every sink commit it."""
        began = perf_counter()
        found = self._done(number, start, end)
        worked = perf_counter()
        with self._commits.shared():
            for sink in self._sinks:
                sink.commit(number, found)
        counts = [orjson.loads(payload) for payload in found.of(COUNTS)]
        self.status.add(number, counts, worked - began, perf_counter() - worked, found.cut.row)
        if self._combine is None and any(task.get("unserved") for task in counts):
            _LOG.error("subscriptions with patterns came to a run that was begun with patterns = false: not served")
        self._record.end(self._state)
        return end

    def _done(self, number: int, start: Offset, end: Offset) -> Receipts:
        """Both stages of a batch; its receipts."""
        properties = {}
        cut = None  # one that the source makes comes with the receipts
        if self._source.stamps:
            self._need(start["version"])
        else:
            version, at = self._registry.pinned(self.query, number)
            self._registry.prepare(version, version)
            properties[VERSION] = str(version)
            self._need(version)
            cut = Cut(-1, version, at)
        if self.status.newest is not None:
            properties[WATERMARK] = str(self.status.newest - self._settings.lateness)
        with local_task(LocalTask(self.query, number, properties)):
            parts, receipts = self._select.receipts(self._reader.batches(start, end))
            self._state = self._record.state
            if self._combine is not None:
                began = perf_counter()
                told, counts, self._state = self._combine.step(0, parts, self._state)
                receipts += self._combine.receipts(told, counts, began)
        return Receipts(receipts, cut)

    def _need(self, version: int) -> None:
        """Note in the registry, every few seconds, which versions this run may need, so that older ones can go."""
        if monotonic() > self._noted + _NOTED:
            self._noted = monotonic()
            self._registry.needs(self.query, version)
