"""The law of cuts: rows before one are stamped with its version or an earlier one, rows behind it with none earlier."""

from __future__ import annotations

import threading
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.broker.test_process_run import Broker, Cuts
from tests.parts.profiles import examples
from tests.pipeline.lane import Lane, Stream, rows, subscription
from tidegate.runs.cut import Cut
from tidegate.stages.log_planner import LogPlanner
from tidegate.store.log import read


class Versions:
    """A registry that has only a version."""

    def __init__(self, version):
        self.version = version

    def close(self):
        return


def planner(directory, registry, **options):
    """A planner that asks this for the version."""
    found = LogPlanner({"path": str(directory), "registry": "registry.db", **options})
    found._registry = registry
    return found


def one(number):
    return {"id": f"p{number}", "source": "z", "time": "2026-11-15T08:00:00Z", "n": number}


def stamps(log):
    """The version of each row."""
    return [
        frame.version for piece in log.slices(0, log.end, 1) for frame in read(piece) for _ in range(len(frame.batch))
    ]


class Cutting:
    """Threads that append and subscribe while another one cuts, each as if in a process of its own."""

    def __init__(self, directory, seed):
        self._random, self.registry, self.cuts = Random(seed), Versions(0), []
        self._directory, self._ended = directory, threading.Event()
        tg.Log(directory).close()

    def run(self):
        others = [threading.Thread(target=work) for work in (self._append, self._append, self._subscribe)]
        cutting = threading.Thread(target=self._cut)
        for thread in (*others, cutting):
            thread.start()
        for thread in others:
            thread.join()
        self._ended.set()
        cutting.join()

    def _pause(self):
        time.sleep(self._random.random() * 0.001)

    def _version(self):
        """What the registry said when it was asked; the append goes on some time later."""
        version = self.registry.version
        self._pause()
        return version

    def _append(self):
        with tg.Log(self._directory, version=self._version) as log:
            for number in range(20):
                log.append(one(number))
                self._pause()

    def _subscribe(self):
        for _ in range(20):
            self.registry.version += 1
            self._pause()

    def _cut(self):
        cutting, ended = planner(self._directory, self.registry), False
        cutting._version = self._version
        offset = cutting.initial_offset()
        while not ended:
            ended = self._ended.is_set()  # and once more after all is there
            self._pause()
            found = cutting.next_offset(offset, cutting.newest_offset(), self._random.choice([1, 3, 1000]))
            while found != offset:
                self.cuts.append(Cut.of_offset(found))
                offset = found
                found = cutting.next_offset(offset, cutting.newest_offset(), self._random.choice([1, 3, 1000]))
        cutting.close()


@given(seed=st.integers(0, 1 << 32))
@examples(4)
def test_no_row_behind_a_cut_is_older_and_none_before_it_newer(tmp_path_factory, seed):
    directory = tmp_path_factory.mktemp("log")
    cutting = Cutting(directory, seed)
    cutting.run()
    with tg.Log(directory) as log:
        stamped = stamps(log)
    for cut in cutting.cuts:
        assert all(stamp <= cut.version for stamp in stamped[: cut.row])
        assert all(stamp >= cut.version for stamp in stamped[cut.row :])
    for field in range(3):
        values = [cut[field] for cut in cutting.cuts]
        assert values == sorted(values)
    assert cutting.cuts[-1][:2] == (40, 20)
    moves = [cut[:2] for cut in cutting.cuts]
    assert len(set(moves)) == len(moves)  # time alone makes no cut


def test_a_version_that_moves_while_a_cut_is_made(tmp_path):
    class Moving(Versions):
        """A registry that moves on, and a row that comes, between the answer to a planner and what it does with it."""

        is_armed = False

        def asked(self):
            version = self.version
            if self.is_armed:
                self.is_armed, self.version = False, version + 1
                log.append(one(version))
            return version

    registry = Moving(1)
    with tg.Log(tmp_path, version=lambda: registry.version) as log:
        cutting = planner(tmp_path, registry)
        cutting._version = registry.asked
        for row in range(5):
            assert Cut.of_offset(cutting.newest_offset())[:2] == (row, row + 1)
            registry.is_armed = True
            assert Cut.of_offset(cutting.newest_offset())[:2] == (row + 1, row + 2)
        cutting.close()


def test_where_a_batch_ends_before_the_log_does_the_version_is_that_of_its_last_row(tmp_path):
    registry = Versions(3)
    with tg.Log(tmp_path, version=lambda: registry.version) as log:
        for registry.version in (3, 3, 5, 8):
            log.append(one(registry.version))
    registry.version = 9
    cutting = planner(tmp_path, registry, clock="1")
    start, found = cutting.initial_offset(), []
    for _ in range(5):
        start = cutting.next_offset(start, cutting.newest_offset(), 1)
        found.append((start["row"], start["version"], "clock" in start))
    assert found[:4] == [(1, 3, False), (2, 3, False), (3, 5, False), (4, 9, True)]
    cutting.close()


def test_the_time_of_a_cut_never_falls(tmp_path):
    cutting = planner(tmp_path, Versions(1), starting="latest")
    tg.Log(tmp_path).close()
    start = {**cutting.initial_offset(), "time": 1 << 62}
    assert cutting.next_offset(start, cutting.newest_offset(), None) == {"row": 0, "version": 1, "time": 1 << 62}
    cutting.close()


@given(seed=st.integers(0, 1 << 32))
@examples(2)
def test_empty_cuts_change_no_notification(tmp_path_factory, seed):
    """The runner in process cuts at every change of the registry, the lane of stages only where publications came."""
    random = Random(seed)
    lateness = random.choice([0.0, 1.0])
    broker = Broker(tmp_path_factory.mktemp("process"), lateness)
    lane = Lane(tmp_path_factory.mktemp("lane"), lateness)
    stream, cuts = Stream(seed % 1000, disorder=random.choice([0, 1])), {}
    for number in range(8):
        for registry in (broker.registry, lane.registry):
            registry.subscribe(subscription(number))
            if number > 4:
                registry.unsubscribe(f"ann/s{number - 4}")
        if random.random() < 0.7:
            assert broker.run(sinks=[*broker.sinks, Cuts(cuts)])
        frames = [stream.frame(random.randrange(1, 30)) for _ in range(random.randrange(3))]
        for frame in frames:
            broker.log.append(frame)
        if frames:
            lane.publish(*frames)
    last = stream.last()
    broker.log.append(last)
    lane.publish(last)
    assert broker.run(40, sinks=[*broker.sinks, Cuts(cuts)])
    assert broker.told() == rows(lane.told)
    assert [cuts[i].row for i in range(len(cuts))] == sorted(cut.row for cut in cuts.values())


@pytest.mark.parametrize("count", [1, 5])
def test_an_idle_run_makes_no_cuts(tmp_path, count):
    broker, cuts = Broker(tmp_path), {}
    broker.registry.subscribe(subscription(0))
    for _ in range(count):
        assert broker.run(sinks=[*broker.sinks, Cuts(cuts)])
    assert [cut[:2] for cut in cuts.values()] == [(0, 1)]
