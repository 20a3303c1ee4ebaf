"""What happens on a disk with so many pages left: ``unshare -rm python -m tests.store.full_disk DIRECTORY STEP KIND…``.

The disk is a small tmpfs in a mount namespace of this process, so that it is gone with the process. With more and more
free pages, from none up, something is written until it succeeds: each attempt before that ends with an error of ours,
and after each all that was acknowledged is there. Prints how many attempts were refused, by kind.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

import tidegate as tg
from tests.store.log_contents import ids
from tests.store.writing import rows
from tests.store.written_queues import NOTHING, NOTIFICATION, few_frames_are_merged, meanings, told
from tidegate.broker import batch_record
from tidegate.broker.batch_record import BatchRecord
from tidegate.broker.process_run import ProcessRun
from tidegate.errors import TidegateError
from tidegate.runs.queue_sink import QueueSink
from tidegate.runs.sources import LogSource
from tidegate.stages.shard_state import ShardState
from tidegate.store.cursors import Cursors
from tidegate.store.data_directory import DataDirectory
from tidegate.store.delivery_records import DeliveryKind
from tidegate.store.index_layers import IndexLayers
from tidegate.store.log_rows import LogRows
from tidegate.store.queue_directory import Queue
from tidegate.store.queue_reader import QueuePage, QueueReader
from tidegate.store.queues import Queues

__all__ = ["KINDS"]

PAGE = 4096
#: Pages of the disk, and the most that any of the writes may want.
PAGES, MOST = 4096, 700


class Disk:
    """A small disk, of which a file takes all but some pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={PAGES * PAGE}", "none", str(root)], check=True)

    @contextmanager
    def almost_full(self, pages: int) -> Iterator[None]:
        """With only so many pages left."""
        filler = self.root / "filler"
        free = int(subprocess.run(["stat", "-f", "-c", "%f", str(self.root)], capture_output=True, check=True).stdout)
        filler.write_bytes(bytes(max(0, free - pages) * PAGE))
        try:
            yield
        finally:
            filler.unlink()


class Writing(ABC):
    """Something that is written, again and again."""

    @abstractmethod
    def write(self, root: Path, number: int) -> Any:
        """Write something; what was acknowledged."""

    @abstractmethod
    def acknowledged(self, root: Path) -> list[Any]:
        """All that is there, opened anew."""


class TheLog(Writing):
    def write(self, root: Path, number: int) -> Any:
        with tg.Log(root / "log", segment_bytes=1) as log:
            log.append(rows([f"{number}-{i}" for i in range(500)], n=pa.array(range(500))))
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        with tg.Log(root / "log") as log:
            found = ids(log)
        assert len(found) % 500 == 0
        return sorted({int(id.split("-")[0]) for id in found})


class GoneRows(Writing):
    """A log whose segments are dropped at once, while somebody still names all of their rows."""

    def write(self, root: Path, number: int) -> Any:
        with tg.Log(root / "gone", segment_bytes=1) as log:
            log.append(rows([f"{number}-{i}" for i in range(500)]))
            log.retain(size=0, named=lambda begin, end: np.arange(begin, end))
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        with tg.Log(root / "gone") as log, LogRows(root / "gone") as reader:
            return sorted({int(row["id"].split("-")[0]) for row in reader.publications(range(log.end))})


class TheRegistry(Writing):
    def write(self, root: Path, number: int) -> Any:
        with tg.Registry(root / "registry.db") as registry:
            registry.subscribe(*(tg.Subscription(f"{number}-{i}", "ann", f"x > {i}") for i in range(200)))
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        with tg.Registry(root / "registry.db") as registry:
            return sorted({int(s.id.split("-")[0]) for s in registry})


class Layers(Writing):
    """The index snapshots of a registry, which are made again and again."""

    def write(self, root: Path, number: int) -> Any:
        with tg.Registry(root / "registry.db") as registry:
            if not number:
                registry.subscribe(*(tg.Subscription(f"{i}", "ann", f"x > {i}") for i in range(200)))
            registry.prepare(0, registry.version)
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        with tg.Registry(root / "registry.db") as registry:
            registry.prepare(0, registry.version)
            view = IndexLayers(registry.index_storage).view(0, registry.version)
            assert len(registry) == len(view) == 200
            shutil.rmtree(registry.index_storage)
        return []


class Snapshot(Writing):
    def write(self, root: Path, number: int) -> Any:
        where = ("x > {0}", "name = 't{0}'", "topk(1, 'PT1M', x + {0})", "shape(c, (1, 2, {0})) < 1")
        found = [tg.Subscription(f"{i}", f"{number}", where[i % 4].format(i + 3)) for i in range(200)]
        with tg.Engine(found) as engine:
            engine.publish([tg.Publication("p", "z", datetime(2026, 11, 15, tzinfo=UTC), {"x": 1.0})])
            engine.save(root / "snapshot")
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        if not (root / "snapshot").exists():
            return []
        with tg.Engine.load(root / "snapshot") as engine:
            (found,) = {int(s.subscriber) for s in engine}
            return [found]  # the last one; those before it were replaced


class Checkpoint(Writing):
    """What is ours in it: what it belongs to, parts, live arrays."""

    def write(self, root: Path, number: int) -> Any:
        from tidegate.runs.checkpoint import begun
        from tidegate.stages.shard_parts import ShardFiles
        from tidegate.store.directory_lock import DirectoryLock

        lock = DirectoryLock(f"{root}/checkpoint")
        begun(f"{root}/checkpoint", "log a", True, 3)
        ShardFiles(f"{root}/checkpoint/patterns").write(f"part-{number:012d}-0-0-x", bytes(40 * PAGE))
        lock.release()
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        from tidegate.runs.checkpoint import begun

        assert begun(f"{root}/checkpoint", "log a", True, 2).shards == 3
        parts = sorted((root / "checkpoint" / "patterns").glob("part-*"))
        assert all(part.stat().st_size == 40 * PAGE for part in parts)
        return [int(part.name.split("-")[1]) for part in parts]


class TheQueues(Writing):
    """Queues of which three frames are merged already, and what is old is dropped each time."""

    def write(self, root: Path, number: int) -> Any:
        with few_frames_are_merged(), Queues(root / "queues") as queues:
            for i in range(4):
                queue, new = queues.make("ann"), queues.make(f"p{number}-{i}")
                things = [(NOTIFICATION, 4 * number + i, b"x" * 9000, [(queue, 1), (new, 2)])]
                queues.commit(queues.last_batch + 1, number, told(things), meanings)
            queues.wait()
            queues.retain(size=20 * PAGE)
        return 4 * number + 3

    def acknowledged(self, root: Path) -> list[Any]:
        with few_frames_are_merged(), Queues(root / "queues") as queues:  # with room merging and dropping go on
            queues.make(f"with room {queues.last_batch}")
            queues.commit(queues.last_batch + 1, 0, NOTHING, meanings)
            queues.wait()
            queues.retain(size=20 * PAGE)
        with QueueReader(root / "queues") as queues:
            page = queues.read(queues.queue("ann"), 0, 10_000)
        numbers = [delivery.number for delivery in page.deliveries]
        assert numbers == list(range(page.oldest, page.last + 1))
        return [*self._dropped(page), *(delivery.row for delivery in page.deliveries)]

    def _dropped(self, page: QueuePage) -> range:
        return range(page.deliveries[0].row if page.deliveries else 1 << 20)


class TheCursors(Writing):
    queues = tuple(Queue(number, f"p{number}", "stream", f"{number:016x}") for number in range(300))

    def write(self, root: Path, number: int) -> Any:
        with Cursors(root / "cursors.db") as cursors:
            cursors.acknowledge(dict.fromkeys(self.queues, (number, number)))
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        with Cursors(root / "cursors.db") as cursors:
            (found,) = set(cursors.of(self.queues).values())
        return list(range(found + 1))


class TheDataDirectory(Writing):
    """A data directory is made again each time, under another name."""

    def write(self, root: Path, number: int) -> Any:
        DataDirectory.made(root / "data" / str(number), "process")
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        found = [int(path.name) for path in (root / "data").iterdir() if DataDirectory.found(path) is not None]
        for number in {int(path.name) for path in (root / "data").iterdir()} - set(found):
            DataDirectory.made(root / "data" / str(number), "process")  # what the full disk left does not hinder it
        return found


class TheRecord(Writing):
    """The record of batches, which is large already, so that it is written anew each time."""

    def write(self, root: Path, number: int) -> Any:
        batch_record._LARGE = 5 * PAGE
        (root / "record").mkdir(exist_ok=True)
        with BatchRecord(str(root / "record")) as record:
            record.begin(record.batch + 1, {"row": number, "x": "x" * 4 * PAGE})
            record.end(ShardState())
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        with BatchRecord(str(root / "record")) as record:
            offset = record.begun or record.offset
        assert offset is not None
        return list(range(offset["row"] + 1))


class TheRun(Writing):
    """A run of the runner process: its record, index snapshots, queues, and what patterns remember."""

    def write(self, root: Path, number: int) -> Any:
        data = DataDirectory(root / "broker", "process")
        with tg.Registry(root / "run-registry.db") as registry:
            if not number:
                wheres = ("topk(2, 'PT1H', x)", *20 * ["x >= 0"])  # a frame of queues takes several pages
                some = [tg.Subscription(f"s{i}{'s' * 500}", "ann", where) for i, where in enumerate(wheres)]
                registry.subscribe(*some)
            with tg.Log(root / "run-log", version=lambda: registry.version) as log:
                log.append(rows([f"{number}"], x=pa.array([float(number)])))
            source, sink = LogSource(root / "run-log", rows=1), QueueSink(data.queues, registry)
            run = ProcessRun(source, registry, [sink], checkpoint=data.checkpoint, lateness=0.0)
            run.start(available_now=True)
            try:
                run.wait()
            finally:
                run.close()
        return number

    def acknowledged(self, root: Path) -> list[Any]:
        """What was matched and can be read; each number, and each publication, once."""
        with QueueReader(root / "broker" / "queues") as queues, LogRows(root / "run-log") as reader:
            found = queues.read(queues.queue("ann"), 0, 10_000).deliveries
            assert [delivery.number for delivery in found] == list(range(1, len(found) + 1))
            plain = [delivery.row for delivery in found if delivery.kind == DeliveryKind.PUBLICATION]
            assert plain == list(range(len(plain)))
            return [int(row["id"]) for row in reader.publications(plain)]


KINDS: dict[str, Writing] = {
    "log": TheLog(),
    "gone": GoneRows(),
    "registry": TheRegistry(),
    "layers": Layers(),
    "snapshot": Snapshot(),
    "checkpoint": Checkpoint(),
    "queues": TheQueues(),
    "cursors": TheCursors(),
    "data": TheDataDirectory(),
    "record": TheRecord(),
    "run": TheRun(),
}


def refused(kind: str, root: Path, step: int) -> int:
    """How many attempts were refused before one succeeded."""
    writing, disk = KINDS[kind], Disk(root)
    done, count = [writing.write(root, 0)], 0
    for number, pages in enumerate(range(0, MOST, step), 1):
        try:
            with disk.almost_full(pages):
                done.append(writing.write(root, number))
            is_done = True
        except TidegateError as error:
            is_done, count = False, count + 1
            print(pages, error, file=sys.stderr)
        there = writing.acknowledged(root)
        if kind == "snapshot":
            assert there == done[-1:], (pages, there)  # the last that was saved, whole
        elif kind != "layers":
            assert set(done) <= set(there), (pages, there)
        if is_done:
            return count
    raise AssertionError("a disk that is never large enough")


if __name__ == "__main__":
    directory, step, *kinds = sys.argv[1:]
    print(orjson.dumps({kind: refused(kind, Path(directory), int(step)) for kind in kinds}).decode())
