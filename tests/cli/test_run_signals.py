"""run as a process of its own: it stops cleanly when it is asked to, and at once when it is asked twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from time import monotonic, sleep

import orjson
import pytest

from tests.cli.commands import CONFIG, PUBLICATIONS, SUBSCRIPTIONS, config, lines, run
from tests.parts.tied_process import tied

pytestmark = pytest.mark.spark

_PATIENCE = 300
#: Writes down when a batch begins and ends to be told, which takes as long as the file ``pause`` says.
_LISTENER = """
import time
from pathlib import Path

here = Path(__file__).parent

def tell(batch, found):
    with (here / "told").open("a") as told:
        told.write(f"begin {batch}\\n")
    time.sleep(float((here / "pause").read_text()))
    with (here / "told").open("a") as told:
        told.write(f"end {batch} {','.join(sorted(found.column('notification_id').to_pylist()))}\\n")
"""


@pytest.fixture
def pipeline(tmp_path):
    path = config(tmp_path, CONFIG + '\n[[sinks]]\ntype = "callback"\nfunction = "listener:tell"\n')
    (tmp_path / "listener.py").write_text(_LISTENER)
    (tmp_path / "pause").write_text("3")
    (tmp_path / "told").touch()
    run("subscribe", path, lines(tmp_path / "s.jsonl", SUBSCRIPTIONS))
    run("publish", path, lines(tmp_path / "p.jsonl", PUBLICATIONS))
    return path


def started(*arguments: object) -> subprocess.Popen[str]:
    code = "import sys; from tidegate.cli import main; sys.argv[0] = 'tidegate'; main()"
    command = [sys.executable, "-c", code, "run", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(tied(command), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], path: Path, words: str) -> None:
    until = monotonic() + _PATIENCE
    while words not in path.read_text():
        assert process.poll() is None, process.communicate()
        assert monotonic() < until, f"{words!r} never came"
        sleep(0.02)


@pytest.mark.thorough  # of brokers with this runner a shorter test is in tests/gateway/test_serve.py
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_batch_that_is_running_is_finished(pipeline, tmp_path, number):
    with started(pipeline) as process:
        wait_for(process, tmp_path / "told", "begin 0")
        process.send_signal(number)
        out, error = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, error
    assert out == ""
    assert "finishing the batch that is running" in error
    assert error.splitlines()[-1].startswith("stopped: ")
    assert re.findall(r"^(\w+ \d+)", (tmp_path / "told").read_text(), re.M) == ["begin 0", "end 0"]
    assert "state            stopped" in run("status", pipeline).stdout

    (tmp_path / "pause").write_text("0")
    with started(pipeline, "--available-now") as process:
        _, error = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, error
    assert "begin 1" not in (tmp_path / "told").read_text(), "what was finished is not done again"


@pytest.mark.thorough
def test_a_stop_between_batches_that_follow_each_other(tmp_path):
    source = 'type = "generator"\npath = "valley.log"\nrate = 5000'
    path = config(tmp_path, CONFIG.replace('type = "log"\npath = "readings.log"', source))
    with started(path) as process:
        until, done = monotonic() + _PATIENCE, 0
        while done < 5:
            assert process.poll() is None, process.communicate()
            assert monotonic() < until
            sleep(0.1)
            status = tmp_path / "checkpoint" / "status.json"
            done = orjson.loads(status.read_bytes())["batches"] if status.exists() else 0
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, error
    assert error.splitlines()[-1].startswith("stopped: ")
    assert "Traceback" not in error


@pytest.mark.thorough
def test_a_second_interruption_ends_at_once_and_the_batch_is_repeated(pipeline, tmp_path):
    (tmp_path / "pause").write_text("600")
    with started(pipeline) as process:
        wait_for(process, tmp_path / "told", "begin 0")
        process.send_signal(signal.SIGINT)
        assert any("finishing the batch" in line for line in iter(process.stderr.readline, ""))
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert "Traceback" not in error
    assert "end" not in (tmp_path / "told").read_text()

    (tmp_path / "pause").write_text("0")
    with started(pipeline, "--available-now") as process:
        _, error = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, error
    assert re.findall(r"^(\w+ \d+)", (tmp_path / "told").read_text(), re.M) == ["begin 0", "begin 0", "end 0"]


@pytest.mark.thorough
def test_metrics_over_http(pipeline, tmp_path):
    (tmp_path / "pause").write_text("0")
    with started(pipeline, "--metrics", 0) as process:
        address = next(line for line in iter(process.stderr.readline, "") if line.startswith("metrics at ")).split()[-1]
        wait_for(process, tmp_path / "told", "end 0")
        until, told = monotonic() + _PATIENCE, ""
        while "tidegate_batches_total 1.0" not in told and monotonic() < until:
            with urllib.request.urlopen(address) as answer:
                told = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0
    for words in ("publications_total 3.0", "notifications_total 4.0", "subscriptions 3.0", "running 1.0"):
        assert f"\ntidegate_{words}\n" in told
    assert orjson.loads((tmp_path / "checkpoint" / "status.json").read_bytes())["publications"] == 3
