"""The runner in process under the control of a script: one batch at a time, and killed where a script says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.service.steps import Death
from tidegate.broker.batch_record import BatchRecord
from tidegate.broker.process_run import ProcessRun
from tidegate.runs.maintenance import look_after
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sources import LogSource
from tidegate.store.data_directory import DataDirectory
from tidegate.store.queues import Queues
from tidegate.store.registry import Registry
from tidegate.store.valid_set import ValidSet

Place = tuple[type, str, bool]
"""A method, and whether a runner dies before the call of it or after."""
PLACES: dict[Death, tuple[Place, ...]] = {
    Death.BEFORE_COMMIT: ((BatchRecord, "begin", False), (QueueSink, "commit", True)),
    Death.IN_COMMIT: ((Queues, "commit", True),),
    Death.AFTER_COMMIT: ((Queues, "commit", False), (QueueSink, "commit", False), (BatchRecord, "end", True)),
}
#: The same of runners that write down in another way that a batch was begun, and that it has ended.
OF_SINKS = {death: tuple(place for place in places if place[0] is not BatchRecord) for death, places in PLACES.items()}


class Killed(BaseException):
    """What a runner meets where it is killed."""


class SteppedRun(ProcessRun):
    """A run whose thread does nothing: batches are run by ``finish`` and ``cut``, in the thread that calls them."""

    def _run(self, available_now: bool) -> None:
        pass

    def finish(self) -> dict[str, Any]:
        """Run the batch again that was begun and has not ended; where the last one ended."""
        record = self._record
        done = record.offset if record.offset is not None else self._reader.first()
        return done if record.begun is None else self._batch(record.batch, done, record.begun)

    def cut(self, done: dict[str, Any]) -> None:
        """Run a batch with all that there is since; none if that is nothing."""
        following = self._reader.next(done)
        if following is not None:
            self._record.begin(self._record.batch + 1, following)
            self._batch(self._record.batch, done, following)

    def tidy(self) -> None:
        self._tidy()

    def abandon(self) -> None:
        """End it as a kill does: what was not written is lost."""
        self._record._unwritten = b""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ValidSet, "write", lambda self: None)
            self.close()


class ProcessRunner:
    """The runner *process* of a data directory. It is started when it has something to do."""

    def __init__(self, data: DataDirectory, registry: Registry, lateness: float) -> None:
        self._data, self._registry, self._lateness = data, registry, lateness
        self._run: SteppedRun | None = None

    def start(self) -> None:
        self._started()

    def finish(self) -> None:
        self._started().finish()

    def cut(self, dies: Death | None, choose: Callable[[tuple[Place, ...]], Place]) -> None:
        run = self._started()
        done = run.finish()
        if dies is None:
            run.cut(done)
            return
        with killed_at(choose(PLACES[dies])):
            try:
                run.cut(done)
            except Killed:
                self.kill()

    def tidy(self) -> None:
        """Do what the maintenance thread does; of a runner that is down, what another one would do first."""
        if self._run is not None:
            self._run.tidy()
        else:
            look_after(self._registry, int(self._lateness * 1e6))

    def kill(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.abandon()

    def _started(self) -> SteppedRun:
        if self._run is None:
            data = self._data
            sink = QueueSink(data.queues, self._registry, keep=None, log=data.log, valid=data.valid)
            places = {"checkpoint": data.checkpoint, "quarantine": data.quarantine}
            run = SteppedRun(LogSource(data.log), self._registry, [sink], lateness=self._lateness, **places)
            run.start()
            self._run = run
        return self._run


@contextmanager
def killed_at(place: Place, error: type[BaseException] = Killed) -> Iterator[list[Place]]:
    """A runner dies at a place; the list has that place once it has died there."""
    owner, name, is_before = place
    method, died = getattr(owner, name), list[Place]()

    def deadly(*arguments: Any, **more: Any) -> Any:
        if not is_before:
            method(*arguments, **more)
        died.append(place)
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, deadly)
        yield died
