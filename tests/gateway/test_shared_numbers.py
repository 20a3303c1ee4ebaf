"""What gateways count is added up over all of them, and never goes back, whoever is killed and when."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

from tests.parts.tied_process import tied
from tidegate.gateway.counts import Counts
from tidegate.gateway.gateway_numbers import GatewayNumbers
from tidegate.gateway.histograms import BOUNDS, Histogram
from tidegate.gateway.metric_names import BROKER, COUNTED, GATEWAY
from tidegate.gateway.process_numbers import ProcessNumbers, key_of
from tidegate.gateway.shared_numbers import SharedNumbers

COUNT = key_of("published", cause="accepted")
LEVEL = key_of("memory")


def numbers(count, level=1.0):
    return ProcessNumbers({COUNT: count}, {key_of("took"): [count, 0.0, 2.5 * count]}, {LEVEL: level})


def test_sums_are_those_of_all_that_lived_and_levels_those_of_all_that_live(tmp_path):
    one, two = SharedNumbers(tmp_path), SharedNumbers(tmp_path)
    one.write(numbers(3))
    found = two.sums(numbers(4))
    assert (found.counts[COUNT], found.levels[LEVEL]) == (7, 2)
    assert found.histograms == {key_of("took"): [7, 0.0, 17.5]}
    one.close()
    found = two.sums(numbers(5))
    assert (found.counts[COUNT], found.levels[LEVEL]) == (8, 1)
    three = SharedNumbers(tmp_path)  # takes over what the first has left
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert three.sums(ProcessNumbers()).counts == {COUNT: 8}
    assert two.sums(numbers(5)).counts == {COUNT: 8}
    two.close()
    three.close()
    assert SharedNumbers(tmp_path).sums(ProcessNumbers()).counts == {COUNT: 8}


def test_nothing_is_counted_twice_if_the_files_stay_that_were_taken_over(tmp_path, monkeypatch):
    one = SharedNumbers(tmp_path)
    one.write(numbers(3))
    one.close()
    with monkeypatch.context() as patched:
        patched.setattr(SharedNumbers, "_remove", lambda self, ids: None)  # killed just before
        two = SharedNumbers(tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert two.sums(ProcessNumbers()).counts == {COUNT: 3}
    assert SharedNumbers(tmp_path).sums(ProcessNumbers()).counts == {COUNT: 3}


def test_a_file_that_is_damaged_is_left_out(tmp_path, caplog):
    one, two = SharedNumbers(tmp_path), SharedNumbers(tmp_path)
    one.write(numbers(3))
    [file] = [path for path in tmp_path.glob("*.json") if path.stem != "ended"]
    file.write_bytes(file.read_bytes().replace(b"3", b"4"))
    assert two.sums(numbers(1)).counts == {COUNT: 1}
    assert "left out" in caplog.text


_COUNTING = """
import sys, time
from pathlib import Path
from tidegate.gateway.process_numbers import ProcessNumbers, key_of
from tidegate.gateway.shared_numbers import SharedNumbers
shared, count = SharedNumbers(Path(sys.argv[1])), 0
while True:
    count += 1
    shared.write(ProcessNumbers({key_of("published", cause="accepted"): count}))
    print(count, flush=True)
    time.sleep(0.001)
"""


def test_counts_never_go_back_while_processes_are_killed(tmp_path):
    seen = SharedNumbers(tmp_path)
    before, of_all = 0.0, 0
    for _ in range(4):
        command = tied([sys.executable, "-c", _COUNTING, str(tmp_path)])
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            until = time.monotonic() + random.uniform(0.02, 0.2)
            last = 0
            while time.monotonic() < until or not last:
                last = int(child.stdout.readline())
                found = seen.sums(ProcessNumbers()).counts.get(COUNT, 0.0)
                assert found >= before
                before = found
            os.kill(child.pid, signal.SIGKILL)
            rest = child.stdout.read().splitlines()
            of_all += int(rest[-1]) if rest and rest[-1].isdigit() else last
        found = seen.sums(ProcessNumbers()).counts[COUNT]
        assert before <= found
        assert 0 <= found - of_all <= 1  # one that was written and not told
        before, of_all = found, int(found)


def test_buckets_have_what_is_not_above_their_bound():
    found = Histogram()
    for seconds in (0.0005, 0.00051, 59.0, 61.0):
        found.add(seconds, 2)
    cumulated = dict(Histogram.cumulated(found.numbers))
    assert list(cumulated) == [f"{bound:g}" for bound in BOUNDS] + ["+Inf"]
    assert (cumulated["0.0005"], cumulated["0.001"], cumulated["30"], cumulated["60"], cumulated["+Inf"]) == (
        *(2, 4, 4),
        *(6, 8),
    )
    assert found.numbers[-1] == 2 * (0.0005 + 0.00051 + 59 + 61)


def test_counting_a_request_costs_less_than_two_microseconds(tmp_path):
    found = GatewayNumbers(tmp_path, Counts()).requests
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(10_000):
            found.add(None, "GET", 200, 0.003)
        best = min(best, (time.perf_counter() - began) / 10_000)
    assert best < 20e-6  # ten times what it takes on a machine that does nothing else
    assert sum(found.items()[0][3].numbers[:-1]) == 50_000


def test_names_are_those_of_prometheus():
    for names in (GATEWAY, BROKER):
        for name, (kind, _, _) in names.items():
            assert name.startswith("tidegate_")
            assert name.endswith("_total") == (kind == "counter"), name
    assert all(name.isidentifier() for name in COUNTED)
