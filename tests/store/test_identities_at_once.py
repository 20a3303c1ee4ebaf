"""The id index shared by threads and by processes that are killed: each identity is in the log once."""

from __future__ import annotations

import os
import random
import threading
from time import monotonic, sleep

import numpy as np
import pytest

from tests.store.log_contents import frames, ids
from tests.store.test_log_killed import PROCESSES
from tests.store.writing import append_the_same, rows
from tidegate.store.identities import Identities
from tidegate.store.log import Log


def _killed_at_random(directory, count, together, kills, pause):
    chance = random.Random(count)

    def started(seed):
        process = PROCESSES.Process(target=append_the_same, args=(str(directory), seed, count, together))
        process.start()
        return process

    running = [started(seed) for seed in range(4)]
    for number in range(kills):
        sleep(chance.uniform(0, pause))
        place = chance.randrange(4)
        running[place].kill()
        running[place].join()
        running[place] = started(4 + number)
    for process in running:
        process.join()
        assert process.exitcode == 0
    with Log(directory / "log", create=False) as log:
        assert log.end == count
        found = np.concatenate([frame.batch.column("id").to_numpy(zero_copy_only=False) for frame in frames(log)])
    assert len(np.unique(found.astype(np.int64))) == count


def test_processes_append_the_same_and_are_killed(tmp_path):
    _killed_at_random(tmp_path, 30_000, 100, 8, 0.3)


@pytest.mark.thorough
def test_processes_append_the_same_million_and_are_killed(tmp_path):
    _killed_at_random(tmp_path, 1_000_000, 1000, 40, 0.5)


def test_a_conflict_of_one_thread_fails_no_other(tmp_path):
    """Threads share commits; each brings some of its own, one that all bring, and one that differs from it."""
    results = {}
    with Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as log:

        def run(thread):
            for number in range(20):
                given = [f"{thread}-{number}", f"same-{number}", f"other-{number}"]
                values = [1.5, 1.5, float(thread)]
                results[thread, number] = log.append(rows(given, n=values))

        running = [threading.Thread(target=run, args=(thread,)) for thread in range(6)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert len(frames(log)) < 120  # some shared a commit
        known = ids(log)
    assert len(known) == len(set(known)) == 6 * 20 + 20 + 20
    for number in range(20):
        each = [results[thread, number] for thread in range(6)]
        assert sum(one.accepted for one in each) == 6 + 2
        assert sum(one.duplicates for one in each) == 5
        assert [one.conflicts for one in each].count((2,)) == 5
    for (thread, number), one in results.items():
        assert f"{thread}-{number}" in known[: one.position]


def test_two_logs_of_one_process_know_what_the_other_has(tmp_path):
    with (
        Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as one,
        Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as other,
    ):
        for number in range(10_000 // 100):
            given = rows(str(100 * number + i) for i in range(100))
            assert one.append(given).accepted == 100  # the file is replaced by a larger one meanwhile
            assert other.append(given)[1:] == (0, 100, ())


def test_a_child_of_a_fork_goes_on_with_the_index(tmp_path):
    with Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as log:
        log.append(rows("ab"))
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if log.append(rows("bc"))[1:] == (1, 1, ()) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert log.append(rows("cd"))[1:] == (1, 1, ())


@pytest.mark.thorough
def test_ten_million_identities_stay_within_their_memory(tmp_path):
    """Half a gigabyte of a file; those beyond the capacity push out the oldest, which are counted."""
    began, count, share = monotonic(), 10_000_000, 100_000
    with Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as log:
        known = log._identities
        for first in range(0, count, share):
            assert log.append(rows(map(str, range(first, first + share)))).accepted == share
        assert (known.forgotten, known.size) == (0, 454_218_240)
        assert log.append(rows(["0", str(count - 1)])).duplicates == 2
        log.append(rows(map(str, range(count, count + share))))
        assert (known.forgotten, known.size) == (share, 454_218_240)
        assert log.append(rows([str(share), str(share - 1)]))[1:] == (1, 1, ())
    with Log(tmp_path / "log", identities=Identities(tmp_path / "ids")) as log:
        assert log.append(rows([str(count)])).duplicates == 1
    print(f"{monotonic() - began:.0f} s")
