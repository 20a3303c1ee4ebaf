"""``tg.OpenQueues``: the queues that a run writes, for those who read and acknowledge them.

Programs use it, so do the commands ``queue`` and ``status``, and ``Sessions``, which knows connections as well. It
never writes to queues, only cursors. It asks the registry's database what principals may read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from tidegate.broker.delivered_items import DeliveredItems, ItemPage, QueuePosition
from tidegate.broker.encoded_items import PAGE, EncodedItems, EncodedPage
from tidegate.broker.read_filter import ReadFilter
from tidegate.closing import Closing
from tidegate.errors import SettingError, StoreError, shown
from tidegate.runs.config import Config, load
from tidegate.runs.sink_sections import QueuesOutput
from tidegate.runs.source_sections import GeneratorInput, LogInput
from tidegate.store.cursors import Cursors, check_number_of
from tidegate.store.database_url import address, file
from tidegate.store.log_rows import LogRows
from tidegate.store.principals import Principals
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_files import are_there
from tidegate.store.queue_frames import Delivery
from tidegate.store.queue_reader import QueueReader
from tidegate.store.version_readers import now
from tidegate.store.wakeups import Wakeup
from tidegate.store.withdrawn_rows import WithdrawnRows

__all__ = ["OpenQueues", "QueueState", "has_queues"]

#: The file of the cursors, beside the directory of the queues.
_CURSORS = "cursors.db"
#: Seconds that ``wait`` waits at most.
_DAY = 86_400.0


class QueueState(NamedTuple):
    """How a queue stands: its numbers, how many deliveries wait to be acknowledged, and since when (µs since 1970)."""

    principal: str
    destination: str
    epoch: str
    oldest: int
    last: int
    acknowledged: int
    waiting: int
    waiting_since: int | None


class OpenQueues(Closing):
    """The queues of a run, named by its TOML file or its data directory, or by what ``load`` has read of that. The run
    may go on meanwhile, or stand still.

    A principal has a queue for ``stream`` while it is registered, and one for each other destination from the first
    subscription on that names it. Deliveries have numbers 1, 2, 3 … and stay
    until they are too old, acknowledged or not. ``clock`` tells the time of day in microseconds since 1970:
    publications that have expired by then are shown only to subscriptions that want these.
    """

    def __init__(self, place: str | os.PathLike[str] | Config, *, clock: Callable[[], int] = now) -> None:
        if not isinstance(place, str | os.PathLike | Config):
            raise SettingError("the path of a TOML file or of a data directory", shown(place))
        config = place if isinstance(place, Config) else load(Path(place))
        sink = _sink(config)
        if sink is None:
            raise SettingError("a run with a sink of type queues", "one without", str(config.file))
        if not are_there(Path(sink.path)):
            raise StoreError("queues, which the first run makes", "none", sink.path)
        with ExitStack() as opened:
            self._reader = opened.enter_context(QueueReader(sink.path, most=sink.most))
            self._cursors = opened.enter_context(Cursors(Path(sink.path).with_name(_CURSORS)))
            self.records = self._cursors.sessions
            self._wakeup = opened.enter_context(Wakeup(sink.path))
            self._withdrawn, rows = WithdrawnRows(sink.valid_path), None
            if isinstance(config.source, LogInput | GeneratorInput):
                rows = opened.enter_context(LogRows(config.source.path, valid=sink.valid_path))
            self._items = DeliveredItems(self._reader, rows, withdrawn=self._withdrawn.among, clock=clock)
            self._encoded = EncodedItems(self._reader, rows, withdrawn=self._withdrawn.among, clock=clock)
            self._registry = address(config.subscriptions.registry)
            self._opened = opened.pop_all()

    def __len__(self) -> int:
        """How many queues there are."""
        return len(self._reader)

    @property
    def nbytes(self) -> int:
        """Bytes of all queues on the disk."""
        return self._reader.nbytes

    # --- deliveries -------------------------------------------------------------------------------------------------

    def page(
        self, principal: str, *, after: int | str | None = None, limit: int = 100, destination: str = "stream"
    ) -> ItemPage:
        """Items of a queue in order, as plain dicts: those after the acknowledged one, or after ``after``, a number or
        "epoch-number". The ``next`` of a page is what to give for ``after`` to go on; its ``epoch`` tells the queue
        from one that is made later. What has expired, or may not be read by the principal as its ``read`` says now, is
        skipped.
        """
        queue = self._queue(principal, destination)
        if after is None:
            position = QueuePosition(self._cursors.of([queue])[queue])
        else:
            position = QueuePosition.parsed(str(after))
        return self.page_of(queue, position, limit)

    def page_of(self, queue: Queue, after: QueuePosition, limit: int) -> ItemPage:
        """The same of a queue and a position in it."""
        read = self._read_of(queue.principal)
        page = self._items.page(queue, after, limit, None if read is None else ReadFilter.of(read))
        return page._replace(read=read)

    def pages_of(
        self, wanted: Sequence[tuple[Queue, QueuePosition]], limit: int, most: int = PAGE
    ) -> list[EncodedPage]:
        """The same of many queues at once, with items as JSON and up to so many bytes of them; perhaps of the first
        queues only: see ``EncodedItems``.
        """
        if len(wanted) == 1:
            reads = [self._read_of(wanted[0][0].principal)]
        else:
            known = {} if self._principals is None else self._principals.reads()
            reads = [known.get(queue.principal) for queue, _ in wanted]
        filters = [None if read is None else ReadFilter.of(read) for read in reads]
        pages = self._encoded.pages(wanted, limit, filters, most)
        return [page if read is None else page._replace(read=read) for page, read in zip(pages, reads, strict=False)]

    def _read_of(self, principal: str) -> str | None:
        """What a principal may read now, as it is stored; None for everything."""
        return None if self._principals is None else self._principals.read_of(principal)

    def principals_among(self, names: Set[str]) -> Set[str]:
        """Those of the names that are principals now; all of them where there is no registry."""
        return names if self._principals is None else self._principals.among(names)

    @cached_property
    def _principals(self) -> Principals | None:
        """The principals of the registry; None where there is no registry."""
        here = file(self._registry)
        if here is not None and not Path(here).exists():
            return None
        return self._opened.enter_context(Principals(self._registry.render_as_string(hide_password=False)))

    def refresh(self) -> bool:
        """Take notice of what the run has committed since; whether there was anything."""
        self._withdrawn.refresh()
        if self._principals is not None:
            self._reader.sizes = self._principals.queue_sizes()
        return self._reader.refresh()

    def wait(self, seconds: float) -> bool:
        """Wait until the run commits something, or so long, a day at most; whether there was anything."""
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise SettingError("seconds to wait, from 0 up", shown(seconds))
        if self.refresh():
            return True
        self.await_commit(min(seconds, _DAY))
        return self.refresh()

    def await_commit(self, seconds: float) -> None:
        """Wait until the run may have committed something that ``refresh`` has not seen, or so long."""
        self._wakeup.wait(seconds)

    def interrupt(self) -> None:
        """End the ``wait`` of another thread."""
        self._wakeup.interrupt()

    def acknowledge(self, principal: str, number: int, *, destination: str = "stream") -> None:
        """Acknowledge the deliveries of a queue up to a number, durably. Going back has no effect."""
        self.acknowledge_all({(principal, destination): number})

    def acknowledge_all(self, numbers: Mapping[tuple[str, str], int]) -> None:
        """Acknowledge deliveries of several queues, named by principal and destination, in one commit, all or none."""
        if not isinstance(numbers, Mapping):
            raise SettingError("numbers by principal and destination", shown(numbers))
        for name in numbers:
            if not isinstance(name, tuple) or len(name) != 2:
                raise SettingError("a principal and a destination", shown(name))
        queues = {self._queue(*name): number for name, number in numbers.items()}
        principals = {queue.principal for queue in queues}
        self.write(queues, lambda connection: self.records.note_seen(connection, principals, now()))

    def write(self, numbers: Mapping[Queue, int], along: Callable[[Connection], None] | None = None) -> None:
        """Acknowledge deliveries of queues in one commit, and have ``along`` write to the same file in it."""
        self._cursors.acknowledge(
            {queue: (number, self._reader.last(queue)) for queue, number in numbers.items()}, along
        )

    def check(self, queue: Queue, number: int) -> None:
        """Refuse to acknowledge a number that no delivery of the queue has."""
        if type(number) is int and number > self._reader.last(queue):
            self.refresh()
        check_number_of(queue, number, self._reader.last(queue))

    def delivery(self, queue: Queue, number: int) -> Delivery | None:
        """One delivery of a queue, as the run wrote it; None if it is not kept."""
        found = self._reader.read(queue, number - 1, 1).deliveries
        return found[0] if found and found[0].number == number else None

    # --- queues by themselves ---------------------------------------------------------------------------------------

    def find(self, principal: str, destination: str) -> Queue | None:
        """The queue of a principal to a destination, if there is one."""
        return self._reader.find(principal, destination)

    def __contains__(self, queue: Queue) -> bool:
        """Whether a queue is there and has not ended."""
        return queue in self._reader

    def of(self, principal: str) -> list[Queue]:
        """The queues of a principal."""
        return self._reader.of(principal)

    def to(self, destination: str) -> list[Queue]:
        """The queues of all principals to a destination."""
        return [queue for queue in self._reader if queue.destination == destination]

    def last(self, queue: Queue) -> int:
        """The number of the last delivery of a queue."""
        return self._reader.last(queue)

    def oldest(self, queue: Queue) -> int:
        """The number of the oldest delivery that is kept."""
        return self._reader.oldest(queue)

    def acknowledged(self, queue: Queue) -> int:
        """The number up to which a queue is durably acknowledged."""
        return self._cursors.of([queue])[queue]

    def grown(self) -> NDArray[np.int32] | None:
        """The numbers of the queues that have grown since this was asked last; None if any may have."""
        return self._reader.grown()

    @property
    def changes(self) -> int:
        """Moves whenever a queue was made or has ended."""
        return self._reader.changes

    @property
    def version(self) -> int:
        """The version of the registry up to which queues were made and ended."""
        return self._reader.last_cut[1]

    def forget_ended(self) -> None:
        """Remove the cursors of queues that have ended."""
        known = self._cursors.epochs()
        self.refresh()  # after what is known was read: nobody acknowledges what was not committed
        self._cursors.forget(known - {queue.epoch for queue in self._reader})

    # --- how queues stand -------------------------------------------------------------------------------------------

    def states(self, principal: str) -> list[QueueState]:
        """How the queues of a principal stand; an error if there is none."""
        found = self.states_of(principal)
        if not found:
            raise self._nobody(principal)
        return found

    def states_of(self, principal: str) -> list[QueueState]:
        """The same; none if there is none."""
        queues = self.of(principal)
        acknowledged = self._cursors.of(queues)
        return [self._state(queue, acknowledged[queue]) for queue in queues]

    def furthest_behind(self, most: int) -> tuple[int, list[QueueState]]:
        """How many deliveries wait in all queues together, and the queues with most of them, first the longest."""
        queues, most_of = list(self._reader), self._reader.most_of
        acknowledged = self._cursors.of(queues)
        waiting = {queue: min(self._reader.last(queue) - acknowledged[queue], most_of(queue)) for queue in queues}
        longest = sorted(queues, key=lambda queue: -waiting[queue])[:most]
        states = [self._state(queue, acknowledged[queue]) for queue in longest if waiting[queue]]
        return sum(waiting.values()), states

    def _state(self, queue: Queue, acknowledged: int) -> QueueState:
        oldest, last = self._reader.oldest(queue), self._reader.last(queue)
        first = max(acknowledged + 1, oldest)
        since = self._reader.read(queue, first - 1, 1).deliveries[0].matched_at if first <= last else None
        names = queue.principal, queue.destination, queue.epoch
        return QueueState(*names, oldest, last, acknowledged, last - first + 1, since)

    def _queue(self, principal: str, destination: str) -> Queue:
        try:
            return self._reader.queue(principal, destination)
        except StoreError:
            known = [queue.destination for queue in self._reader if queue.principal == principal]
            if not known:
                raise self._nobody(principal) from None
        raise StoreError(f"one of the destinations of {principal}: {', '.join(known)}", shown(destination))

    def _nobody(self, principal: str) -> StoreError:
        return StoreError("a principal with a queue", shown(principal), str(self._reader.directory))

    def close(self) -> None:
        self._opened.close()


def has_queues(config: Config) -> bool:
    """Whether a run has made the queues that a file describes."""
    sink = _sink(config)
    return sink is not None and are_there(Path(sink.path))


def _sink(config: Config) -> QueuesOutput | None:
    return next((sink for sink in config.sinks if isinstance(sink, QueuesOutput)), None)
