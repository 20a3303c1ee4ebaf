"""Schemathesis, which draws requests from the document of the API and holds the answers against it, has nothing to
say: nothing fails with 500 or is answered other than described, what the document forbids is refused, what it allows is
refused for its meaning only.

Each run has a broker of its own, of which it also deletes what it finds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.served import served

_ROOT = Path(__file__).parents[2]
_COMMAND = [sys.executable, "-m", "schemathesis.cli", "run"]
#: A stream has no end; ``test_event_stream.py`` reads it.
_WITHOUT = "^/v1/stream$"
#: Minutes after which a run is ended: many times what one takes.
_PATIENCE = 60


def run(directory, *options):
    """What a run reports."""
    report = directory / "report.json"
    with served(directory) as broker:
        done = subprocess.run(
            [
                *_COMMAND,
                f"{broker.url}/openapi.json",
                f"--header=Authorization: Bearer {broker.token}",
                f"--exclude-path-regex={_WITHOUT}",
                "--continue-on-failure",
                "--generation-database=none",
                "--request-timeout=60",
                "--no-color",
                "--report=json",
                f"--report-json-path={report}",
                *options,
            ],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "SCHEMATHESIS_HOOKS": "tests.gateway.schemathesis_hooks"},
            capture_output=True,
            text=True,
            timeout=60 * _PATIENCE,
        )
        log = broker.processes.log.read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    assert " ERROR " not in log, log
    found = json.loads(report.read_text())
    assert (found["complete"], found["failures"], found["errors"]) == (True, [], [])
    assert found["operations"]["tested"] == found["operations"]["total"] - 1
    return found


def accepted(found):
    """The operations of which a request was accepted."""
    return {name for name, of in found["valid_rates"].items() if any(rate["accepted"] for rate in of.values())}


def test_a_few_requests_of_each_operation(tmp_path):
    found = run(tmp_path, "--max-examples=2", "--phases=fuzzing,stateful")
    assert found["test_cases"]["generated"] > 80
    assert len(accepted(found)) > 10


@pytest.mark.thorough
def test_20_000_requests(tmp_path):
    found = run(tmp_path, "--max-examples=800", "--phases=coverage,fuzzing,stateful")
    assert found["test_cases"]["generated"] >= 20_000
    assert len(accepted(found)) > 35
