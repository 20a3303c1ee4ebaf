"""Files that outlive a process, damaged: log segments, index snapshots, queues. Nothing corrupt is believed."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import orjson
import pyarrow as pa

import tidegate as tg
from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.expressions import PUBLICATIONS
from tests.fuzz.publishing import WHERES
from tests.store.log_contents import ids
from tests.store.writing import rows
from tests.store.written_queues import few_frames_are_merged, filled
from tidegate.store.log import Log
from tidegate.store.queue_reader import QueuePage, QueueReader
from tidegate.store.queues import Queues


class DamagedFiles(EntryPoint):
    """An input says, as JSON, what is done to the files of a directory: flip a bit, cut a file off, and so on."""

    suffix = ".json"

    @abstractmethod
    def make(self, directory: Path) -> None:
        """Write the files as they should be."""

    @abstractmethod
    def use(self, directory: Path, clock: Clock) -> None:
        """Open the files and read all of them; a ``WrongAnswer`` where something was believed."""

    @cached_property
    def _whole(self) -> Path:
        directory = Path(mkdtemp(prefix=f"fuzz-{self.name}-")) / "whole"
        self.make(directory)
        return directory

    @cached_property
    def _files(self) -> list[tuple[str, int]]:
        found = [path for path in sorted(self._whole.rglob("*")) if path.is_file() and path.stat().st_size]
        return [(str(path.relative_to(self._whole)), path.stat().st_size) for path in found]

    def seeds(self) -> list[bytes]:
        return [b"[]"]

    def draw(self, random: Random) -> bytes:
        damages = []
        for _ in range(random.choice((1, 1, 1, 2))):
            name, size = random.choice(self._files)
            what = random.choice(("flip", "flip", "flip", "flip", "cut", "zero"))
            damages.append([what, name, random.randrange(size), random.randrange(8)])
        return orjson.dumps(damages)

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        directory = scratch / self.name
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self._whole, directory)
        for what, name, at, bit in orjson.loads(data):
            content = bytearray((directory / name).read_bytes())
            if what == "cut":
                del content[at:]
            elif what == "zero":
                content[at : at + 64] = bytes(len(content[at : at + 64]))
            elif at < len(content):
                content[at] ^= 1 << bit
            (directory / name).write_bytes(content)
        self.use(directory, clock)
        return ACCEPTED


class LogSegments(DamagedFiles):
    name = "log-segments"

    def make(self, directory: Path) -> None:
        with Log(directory) as log:
            for i in range(4):
                log.append(rows([f"{i}a", f"{i}b"], x=pa.array([i, i + 0.5]), kind=pa.array(["hello", f"world {i}"])))

    def use(self, directory: Path, clock: Clock) -> None:
        with clock.within(0.5, "reading the log"), Log(directory) as log:
            found = ids(log)
        whole = [f"{i}{letter}" for i in range(4) for letter in "ab"]
        if found != whole[: len(found)]:
            raise WrongAnswer(f"the log has {found}")


class Snapshots(DamagedFiles):
    name = "snapshots"

    def make(self, directory: Path) -> None:
        with tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(WHERES)]) as engine:
            engine.save(directory)

    @cached_property
    def _expected(self) -> list[tg.Notification]:
        with tg.Engine.load(self._whole) as engine:
            return engine.publish(PUBLICATIONS)

    def use(self, directory: Path, clock: Clock) -> None:
        with clock.within(0.5, "loading"), tg.Engine.load(directory) as engine:
            found = engine.publish(PUBLICATIONS)
        if found != self._expected:
            raise WrongAnswer("the snapshot tells otherwise")


class QueueFiles(DamagedFiles):
    """Merged files, a base and journals, as a reader has them and as their writer goes on with them."""

    name = "queue-files"

    def make(self, directory: Path) -> None:
        with few_frames_are_merged():
            filled(directory, 12)
            with Queues(directory) as writer:
                writer.retain(size=1)
            filled(directory, 21)

    @cached_property
    def _expected(self) -> list[QueuePage]:
        with QueueReader(self._whole) as queues:
            return _pages(queues)

    def use(self, directory: Path, clock: Clock) -> None:
        with clock.within(0.5, "reading queues"), QueueReader(directory) as queues:
            found = _pages(queues)
        with clock.within(0.5, "writing queues"), Queues(directory) as queues:
            gone_on = _pages(queues)
        if not found == gone_on == self._expected:
            raise WrongAnswer("the queues tell otherwise")


def _pages(queues: QueueReader) -> list[QueuePage]:
    return [queues.read(queue, 0, 1000) for queue in queues]
