"""Servers that tests start end with the test process, also when that is killed, and take their directories along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.parts.tied_process import tied

_PATIENCE = 60.0

_STARTER = """
import subprocess, sys
from pathlib import Path
from tests.parts.tied_process import tied
program = "import time; print('up', flush=True); time.sleep(600)"
directory = Path(sys.argv[1])
directory.mkdir()
started = subprocess.Popen(tied([sys.executable, "-c", program], directory=directory), stdout=subprocess.PIPE)
started.stdout.readline()
print(started.pid, flush=True)
sys.stdin.read()
"""

_VICTIM = """
import json, os, re, signal, sys
from pathlib import Path
import psutil

def test_that_is_killed({fixture}):
    made = {fixture}() if callable({fixture}) else ""
    found = re.search("[^=]*tidegate-[^/&]+", made)
    told = {{"pids": [child.pid for child in psutil.Process().children(recursive=True)]}}
    told["directory"] = found and found[0]
    Path({report!r}).write_text(json.dumps(told))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _gone(pid: int) -> bool:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:  # nobody waits for it
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def _removed(directory: Path) -> bool:
    until = time.monotonic() + _PATIENCE
    while directory.exists() and time.monotonic() < until:
        time.sleep(0.05)
    return not directory.exists()


def test_a_program_ends_with_the_process_that_started_it(tmp_path):
    directory = tmp_path / "server"
    command = [sys.executable, "-W", "ignore", "-c", _STARTER, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        program = int(starter.stdout.readline())
        assert psutil.pid_exists(program)
        starter.kill()
    assert _gone(program)
    assert _removed(directory)


def test_a_program_that_ends_by_itself_gives_its_output_and_its_code(tmp_path):
    program = "import os, sys; print(os.getpid()); sys.exit(7)"
    line = tied([sys.executable, "-c", program], directory=tmp_path)
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as started:
        told, _ = started.communicate(timeout=_PATIENCE)
    assert (int(told), started.returncode) == (started.pid, 7)
    assert tmp_path.exists()


def test_a_starter_that_has_ended_starts_nothing():
    line = tied([sys.executable, "-c", "print('up')"])
    line[line.index(str(os.getpid()))] = str(os.getppid())  # as if our starter had started it
    ran = subprocess.run(line, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert (ran.stdout, ran.returncode) == ("", 1)


@pytest.mark.services
@pytest.mark.parametrize(
    "fixture", ["postgres", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("mariadb", "kafka", "spark"))]
)
def test_the_servers_of_a_test_process_that_is_killed_end(fixture, tmp_path):
    report, victim = tmp_path / "report.json", tmp_path / "test_victim.py"
    victim.write_text(_VICTIM.format(fixture=fixture, report=str(report)))
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-c", os.devnull, f"--rootdir={tmp_path}"]
    command += ["-p", f"tests.parts.{fixture}", "-p", "no:cacheprovider", str(victim)]
    root = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if "skipped" in ran.stdout:
        pytest.skip(ran.stdout)
    assert ran.returncode == -signal.SIGKILL, ran.stdout
    told = json.loads(report.read_text())
    assert told["pids"]
    assert [pid for pid in told["pids"] if not _gone(pid)] == []
    if told["directory"]:
        assert _removed(Path(told["directory"]))
