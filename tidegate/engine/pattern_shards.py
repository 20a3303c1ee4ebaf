"""Patterns in process: ``PatternShards`` gives publications to shards, a thread each, and returns what they raise.

``Engine`` has one and publishes to it under its lock. It does for the engine what the combine step on Spark does for
the pipeline: it stamps publications with the order in which they appeared, keeps the clock, and leaves the patterns to
one ``Combine`` per shard. Events of ``past`` patterns go through ``event_history`` to a history, if there is one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidegate import array_bundle
from tidegate.engine.event_history import EventHistory, check_replayed, knows, replayed, retired, written
from tidegate.engine.shard_intake import ShardIntake
from tidegate.engine.shards_record import ShardsRecord
from tidegate.errors import SnapshotError, StoreError
from tidegate.index.batch import Batch
from tidegate.index.patterns import Passed, Patterns, passed, read_patterns
from tidegate.index.snapshot import count
from tidegate.model import moment
from tidegate.patterns import Combine, Pattern, Raised
from tidegate.patterns.combine import KEEP
from tidegate.patterns.memory import LONG_AGO
from tidegate.patterns.past import Past
from tidegate.patterns.pattern import NEVER
from tidegate.patterns.trial import Trial

__all__ = ["PatternShards"]

#: Publications times subscriptions from which several threads are faster than one.
_WORTH = 100_000
#: Characters of a form from which to admit a pattern takes longer than a publication may.
_LONG_FORM = 2_000
#: How many publications are forgotten in memory before they are also removed from a history.
_WORTH_FORGETTING = 10_000
_COUNTS = ("unscored", "cut")
_NO_TURNS = np.empty(0, np.int64)


class PatternShards:
    """The patterns of an engine, spread over a shard per core (at most 8); ``past`` patterns share one more shard."""

    def __init__(self, lateness: int, combinations: int, shards: int | None = None, keep: int = KEEP) -> None:
        self.lateness, self._combinations, self._keep = lateness, combinations, keep
        self.patterns = Patterns()
        self._spread = shards or min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        self._shards = [Combine(lateness, None, combinations, keep) for _ in range(self._spread + 1)]
        self._intakes = [ShardIntake() for _ in self._shards]
        self._new: dict[int, tuple[int, int | None]] = {}  # by number, still to be admitted: version and clock of each
        self._pool: ThreadPoolExecutor | None = None
        self._clock: int | None = None
        self._calls = 0
        self._extent = (0, 0)
        self._now: int | None = None
        self.late = 0
        self._history: EventHistory | None = None
        self._forgotten = 0
        self._stopped: StoreError | None = None
        self._refused: dict[str, int] = {}
        self._counted: dict[str, int] = {}  # what shards counted that a snapshot without patterns had left

    @property
    def now(self) -> datetime | None:
        """The time that ``advance`` was last given."""
        return None if self._now is None else moment(self._now)

    @property
    def nbytes(self) -> int:
        """Bytes of all state."""
        return sum(shard.arrays.nbytes for shard in self._shards)

    def count(self, name: str) -> int:
        """One of the patterns' counts."""
        return self._counted.get(name, 0) + sum(shard.counts.get(name, 0) for shard in self._shards)

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def add(self, number: int, pattern: Pattern) -> None:
        """Take a subscription with a pattern; it sees what appears from now on."""
        self.patterns.add(number, pattern)
        self._new[number] = self._calls + 1, self._clock
        if len(pattern.form) > _LONG_FORM and self._history is None:
            self.settle()

    def _home(self, number: int) -> int:
        """The shard of a subscription. All ``past`` patterns are in one, so that events are remembered only once."""
        return self._spread if self.patterns.family(number) == Past.name else number % self._spread

    @property
    def _past(self) -> Past:
        found = self._shards[self._spread].families[Past.name]
        assert isinstance(found, Past)
        return found

    @property
    def refused(self) -> dict[str, int]:
        """How many publications the ``past`` patterns refused as part of an event, by reason."""
        return dict(Counter(self._refused) + Counter(self._past.refused))

    def _admit(self) -> None:
        """Give the subscriptions that were added since the last call to their shards."""
        for at, shard in enumerate(self._shards):
            mine = [number for number in self._new if self._home(number) == at]
            if mine:
                if at == self._spread:
                    self._extent = self._past.extent
                standing = self.patterns.standing(lambda number: self._new[number][0], mine)
                shard.admit(standing, [self._new[number][1] for number in mine])
                self._know(at, mine)
                if at == self._spread and self._history is not None:
                    self._recall(self._history)
        self._new.clear()

    # --- history ----------------------------------------------------------------------------------------------------

    def attach(self, history: EventHistory) -> None:
        """Keep events in this history from now on; ``past`` patterns also see the events that are in it already."""
        history.claim(self)
        self._history = history
        self._shards[self._spread] = self._empty()
        for number in self.patterns.numbers:
            if self._home(number) == self._spread:
                self._new[number] = self._calls + 1, self._clock

    def _empty(self) -> Combine:
        """A new shard for ``past`` patterns, with the settings of the history but none of its events."""
        shard = Combine(0, None, self._combinations, self._keep)
        assert self._history is not None
        shard.most = min(self._history.most or NEVER, NEVER)
        shard.arrays.facts.remembers = True
        past = shard.families[Past.name]
        assert isinstance(past, Past)
        past.continue_from(self._history.last)
        past.in_memory = min(self._history.memory or NEVER, NEVER)
        past.elder, past.named = partial(knows, self._history), self._history.named
        shard.arrays.facts.refused = self._history.refused_counts()
        return shard

    def settle(self) -> None:
        """Do for new subscriptions now what else the next publication does: admit them, replaying the history if they
        need it, index their filters, and see what columns they look at.
        """
        if self._new:
            self._admit()
            _ = self.patterns.index.segments, self.patterns.columns

    def _recall(self, history: EventHistory) -> None:
        """Replay the whole history if new subscriptions have inner filters or attributes that none had before."""
        with self._whole_or_stopped():
            if self._past.extent != self._extent and history.last:
                self._remember_anew(history)

    @contextmanager
    def _whole_or_stopped(self) -> Iterator[None]:
        """With a history, stop the engine after an error, when both may differ: every later ``publish`` raises."""
        try:
            yield
        except BaseException as error:
            if self._history is not None and self._stopped is None:
                got = error if isinstance(error, StoreError) else StoreError("a whole history", type(error).__name__)
                self._stopped = got
            raise

    def _remember_anew(self, history: EventHistory) -> None:
        shard = self._empty()
        mine = [number for number in self.patterns.numbers if self._home(number) == self._spread]
        shard.admit(self.patterns.standing(lambda _: self._calls + 1, mine))
        self._shards[self._spread] = shard
        self._know(self._spread, mine)
        past, facts = self._past, shard.arrays.facts
        if history.memory is not None:
            history.clear_elders()
        intake = self._intakes[self._spread]
        for batches in replayed(history):
            here = []
            for batch, seqs in batches:
                found = passed(batch, self.patterns.index.match(batch), self.patterns.columns)
                part = intake.arrivals(found, self.patterns, shard, LONG_AGO, seqs[found.rows])
                if part is not None:
                    here.append(replace(part, turn=part.version, version=np.zeros(len(part), np.int64)))
            past.given = np.sort(np.concatenate([_NO_TURNS, *(part.turn for part in here)]))
            if not past.knows_any and len(past.given):
                past.continue_from(int(past.given[0]) - 1)
            if here:
                shard.replay(here, [Past.name])
            if past.fates is not None:
                check_replayed(past.fates)
            self._retire(history)
        past.given = past.fates = None
        past.continue_from(history.last)
        facts.refused = history.refused_counts()

    def _retire(self, history: EventHistory) -> None:
        """Write to the history the events that ``Past`` has dropped from memory."""
        if self._past.leaving:
            retired(history, self._past.leaving)
            self._past.leaving = []

    def _write(self, batch: Batch, found: Passed | None) -> None:
        """Make the events of a batch durable in the history, before ``publish`` returns notifications."""
        history, fates = self._history, self._past.fates
        if history is None or fates is None or found is None:
            return
        self._past.fates = None
        if not history.serves(self):
            raise StoreError("a history that is open", "one that was closed, or is another engine's", "the history")
        written(history, batch, found, self._intakes[self._spread].takes(found), fates)
        self._retire(history)
        forgotten = self._past.forgotten
        if forgotten - self._forgotten > _WORTH_FORGETTING:
            history.forget(forgotten)
            self._forgotten = forgotten

    def _know(self, at: int, numbers: Iterable[int]) -> None:
        """Let the intake of a shard know the filters of these subscriptions."""
        filters = {f for number in numbers for f in self.patterns.filters_of(number)}
        self._intakes[at].know(list(filters), self.patterns, self._shards[at])

    def remove(self, number: int) -> None:
        """Remove a subscription."""
        self.patterns.remove(number)
        if self._new.pop(number, None) is None:
            if self._new and self._past.owner.used.tolist() == [number]:
                self._admit()  # those to the past were made before the last one ended, so memory does not begin anew
            for shard in self._shards:
                shard.dismiss(np.array([number]))
            if self._history is not None and not self._past.owner.length:
                self._shards[self._spread] = self._empty()  # the next subscription replays the history

    # --- publications -----------------------------------------------------------------------------------------------

    def note(self, batch: Batch) -> None:
        """Move the clock for publications that appear while there are no patterns."""
        if batch.length:
            self._appeared(batch)

    def _appeared(self, batch: Batch) -> tuple[int | None, int | None]:
        """Move the clock; return where it was, and its first value if it begins only now."""
        before = self._clock
        oldest, newest = batch.time_range()
        first = oldest - self.lateness if before is None else None
        newest -= self.lateness
        self._clock = newest if before is None else max(before, newest)
        self._calls += 1
        if before is not None and oldest < before:
            self.late += int(np.count_nonzero(batch.times() < before))
        return before, first

    def publish(self, batch: Batch, ids: bool = True) -> list[Raised]:
        """Give publications to the patterns and return what they raise.

        With ``ids`` all publications of a notification are named, else only the one that raised it.
        """
        if not batch.length:
            return []
        if self._stopped is not None:
            raise self._refusal(self._stopped)
        matches = self.patterns.index.match(batch)
        found = passed(batch, matches, self.patterns.columns) if len(matches.owners) else None
        before, first = self._appeared(batch)
        clock = first if before is None else before
        assert clock is not None
        with self._whole_or_stopped():
            raised = self._each(found, clock, first, ids)
            self._write(batch, found)
        return raised

    @staticmethod
    def _refusal(stopped: StoreError) -> StoreError:
        wanted = "an engine whose history is whole; open the history with a new one"
        return StoreError(wanted, f"{stopped.got}", stopped.at)

    def trial(self, number: int, batch: Batch) -> Trial:
        """What a subscription would make of a single publication that came next. Nothing is changed."""
        if self._stopped is not None:
            raise self._refusal(self._stopped)
        self.settle()
        found = passed(batch, self.patterns.index.match(batch), self.patterns.columns, np.zeros(1, np.int64))
        begins = batch.time_range()[0] - self.lateness
        before, first = (begins, begins) if self._clock is None else (self._clock, None)
        at = next(at for at, shard in enumerate(self._shards) if number in shard.owners())
        shard, intake = self._shards[at], self._intakes[at]
        arrival = intake.arrivals(found, self.patterns, shard, before, self._calls + 1, even_none=True)
        assert arrival is not None
        return Trial.of(shard, number, arrival, max(before, begins), first)

    def advance(self, now: int) -> list[Raised]:
        """Let the clock run to ``now`` and return what that raises."""
        self._now = now
        clock = now - self.lateness
        first = clock if self._clock is None else None
        if self._clock is None or clock > self._clock:
            self._clock = clock
        return self._each(None, clock, first)

    def _each(self, found: Passed | None, clock: int, first: int | None, ids: bool = True) -> list[Raised]:
        if self._new:
            self._admit()

        def run(at: int) -> Raised:
            shard, here = self._shards[at], None
            if found is not None and not shard.is_idle:
                here = self._intakes[at].arrivals(found, self.patterns, shard, clock, self._calls)
            return shard.take(() if here is None else (here,), self._clock, first, ids)

        work = 0 if found is None else len(found.rows) * len(self.patterns)
        if work < _WORTH or sum(any(shard.sizes().values()) for shard in self._shards) < 2:
            return [raised for at in range(len(self._shards)) if len(raised := run(at))]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self._shards), thread_name_prefix="tidegate-patterns")
        return [raised for raised in self._pool.map(run, range(len(self._shards))) if len(raised)]

    # --- keeping ----------------------------------------------------------------------------------------------------

    def save(self, directory: Path, place: NDArray[np.int64]) -> None:
        """Write patterns and what they remember beside an index; ``place`` gives subscriptions their new numbers."""
        ShardsRecord(
            lateness=self.lateness,
            shards=self._spread,
            clock=self._clock,
            calls=self._calls,
            now=self._now,
            late=self.late,
            refused=self._refused if self.patterns else self.refused,
            counted=self._counted if self.patterns else {name: self.count(name) for name in _COUNTS},
        ).write(directory)
        if not self.patterns:
            return
        self._admit()
        self.patterns.save(directory / "patterns", place)
        for at, shard in enumerate(self._shards):
            if at == self._spread and self._history is not None:  # the history is replayed instead
                shard = Combine(0, None, self._combinations, self._keep)
            state = shard.snapshot()
            for name in state:
                if name.endswith("-owner"):
                    state[name] = place[state[name]]
            array_bundle.write(directory / f"shard-{at}.bundle", state)

    @classmethod
    def load(cls, directories: Sequence[Path], combinations: int, keep: int = KEEP) -> PatternShards:
        """The patterns of one snapshot with their state, or those of several snapshots together, without state."""
        alone = directories[0] if len(directories) == 1 else None
        try:
            records = [ShardsRecord.read(directory) for directory in directories]
            known = records[0] if alone else ShardsRecord(max((one.lateness for one in records), default=0))
            shards = cls(known.lateness, combinations, known.shards, keep)
            shards._clock, shards._calls, shards._now = known.clock, known.calls, known.now
            shards.late, shards._counted, shards._refused = known.late, known.counted, known.refused
            shards.patterns = Patterns.assembled([(count(d), read_patterns(d)) for d in directories])
            if not shards.patterns:
                return shards
            if alone is not None:
                for at, shard in enumerate(shards._shards):
                    shard.restore(array_bundle.read(alone / f"shard-{at}.bundle")[0])
        except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, SnapshotError):
                raise
            raise SnapshotError(
                "the patterns of a snapshot", f"{type(error).__name__}: {error}", str(directories[0])
            ) from None
        homes = {int(o): at for at, shard in enumerate(shards._shards) for o in shard.owners()}
        for standing in list(shards.patterns.standing(lambda _: shards._calls + 1)):
            home = homes.get(standing.owner)
            if home is None:
                shards._new[standing.owner] = shards._calls + 1, shards._clock
                continue
            shards._know(home, [standing.owner])
        return shards

    def close(self) -> None:
        """End the threads."""
        history = self._history
        if history is not None and history.serves(self):
            if self._stopped is None and self._past.forgotten > self._forgotten:
                history.forget(self._past.forgotten)
            history.release(self)
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
