"""The log written from all sides at once, and killed while it is written."""

from __future__ import annotations

import multiprocessing
import os
import random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.log_contents import contents, frames, ids
from tests.store.writing import append_in_threads, append_until_killed, rows
from tidegate.store import log_intake, log_tail
from tidegate.store.log import Log

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tidegate.store.log", "pandas", "tidegate.records", "tidegate.index"])


# --- many writers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment_bytes", [5_000, 1 << 20])
def test_processes_and_threads_append_at_once(tmp_path, segment_bytes):
    with Log(tmp_path / "log", segment_bytes=segment_bytes) as log:
        writers = []
        for name in ("one", "two"):
            here, there = PROCESSES.Pipe(duplex=False)
            arguments = (tmp_path / "log", name, 3, 20, segment_bytes, there)
            writers.append((PROCESSES.Process(target=append_in_threads, args=arguments), here))
            writers[-1][0].start()
            there.close()
        waiting, found, seen = [here for _, here in writers], [], 0
        while waiting:
            for here in [here for here in waiting if here.poll(0.002)]:
                found += here.recv()
                waiting.remove(here)
            end = log.end
            assert sum(frame.batch.num_rows for frame in frames(log, seen, end, 3)) == end - seen
            seen = end
        for process, _ in writers:
            process.join()
        known = ids(log)
        for position, names in found:
            assert known[position - len(names) : position] == names
        assert len(known) == log.end == sum(len(names) for _, names in found)
        assert len(set(known)) == len(known)


# --- killed ---------------------------------------------------------------------------------------------------------


def kill_at_random(directory, runs, seed):
    chance, last_row, acknowledged = random.Random(seed), 0, {}
    for run in range(runs):
        here, there = PROCESSES.Pipe(duplex=False)
        process = PROCESSES.Process(target=append_until_killed, args=(directory, f"r{run}", there))
        process.start()
        there.close()
        got = [here.recv()]
        until = chance.uniform(0, 0.15)
        process.join(until)
        process.kill()
        process.join()
        try:
            while True:
                got.append(here.recv())
        except (EOFError, OSError):
            here.close()
        with Log(directory, create=False) as log:
            assert log.end >= got[-1][0]
            known = [row["id"] for row in contents(log, last_row)]
            assert all(name.startswith(f"r{run}-") for name in known)
            assert [int(name.split("-")[1]) for name in known] == list(range(len(known)))  # in order, each once
            for position, number, count in got:
                assert position == last_row + number + count
            assert len(known) >= got[-1][1] + got[-1][2]
            acknowledged[run], last_row = len(known), log.end
    with Log(directory) as log:
        assert ids(log) == [f"r{run}-{i}" for run, count in acknowledged.items() for i in range(count)]
        return len(log.slices(0, log.end, 1))


def test_killed_while_writing(tmp_path):
    kill_at_random(tmp_path / "log", 8, 1)


@pytest.mark.thorough
def test_killed_while_writing_very_often(tmp_path):
    assert kill_at_random(tmp_path / "log", 120, 2) > 5


class Killed(BaseException):
    """Stands for the end of the process: nothing that handles errors may see it."""


@given(st.integers(0, 40), st.floats(0, 1), st.sampled_from([1, 1 << 20]))
def test_killed_at_every_call_of_the_system(call, part, segment_bytes):
    """The n-th call that writes or syncs does a part of its work, then there is no process any more."""
    calls, write = 0, os.pwritev

    def dying(real):
        def run(file, *arguments):
            nonlocal calls
            calls += 1
            if calls <= call:
                return real(file, *arguments)
            if calls == call + 1 and real is write:
                data = b"".join(arguments[0])
                os.pwrite(file, data[: round(part * len(data))], arguments[1])
            raise Killed

        return run

    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_intake, "_ROWS", 3)
        log, done = Log(directory, segment_bytes=segment_bytes), 0
        patch.setattr(log_tail, "_sync", dying(log_tail._sync))
        for name in ("pwritev", "ftruncate", "fsync"):
            patch.setattr(os, name, dying(getattr(os, name)))
        try:
            for number in range(6):
                log.append(rows((f"{number}-{i}" for i in range(5)), **{"ab"[number % 2]: pa.array(range(5))}))
                done += 1
        except Killed:
            pass
        patch.undo()
        with Log(directory, segment_bytes=segment_bytes, create=False) as after:
            found = ids(after)
            whole = [f"{number}-{i}" for number in range(6) for i in range(5)]
            assert found in (whole[: 5 * done], whole[: 5 * done + 5])  # an append is there wholly or not at all
            assert after.append(rows(["after"])).position == len(found) + 1
            assert ids(after) == [*found, "after"]
