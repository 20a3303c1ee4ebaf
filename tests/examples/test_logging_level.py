"""The logging case study: the whole script on the real log and on a generated one, held against an obvious loop.

The loop reads the lines on its own and knows neither the engine nor the example's client.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from examples.logging_level import generated
from examples.logging_level.client import SOON, STRICT, Client
from examples.logging_level.lines import publications

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "logs" / "OpenSSH_2k.log"
PAGE = ROOT / "docs" / "LOGGING_LEVEL.md"
needs_real = pytest.mark.skipif(not REAL.exists(), reason="../shared/data/logs is not here")


# --- the obvious loop -----------------------------------------------------------------------------------------------


def level_of(text):
    if text.startswith(("error:", "fatal:")):
        return 5
    if "Failed password" in text or "Failed none" in text or "BREAK-IN" in text:
        return 4
    if re.match(r"Disconnecting: Too many|PAM ", text):
        return 4
    if text.startswith(("pam_unix(sshd:auth)", "input_userauth_request")):
        return 2
    return 3


def looped(lines, strict, quiet):
    """Lines shown with their level, changes as (seconds of the day, level), lines with an alarm."""
    shown, changes, alarms = [], [], []
    failures = []  # time, and whether there was another before it in time
    level, last = 5, None
    for number, line in enumerate(lines, 1):
        time = datetime.strptime(f"2026 {line[:15]}", "%Y %b %d %H:%M:%S")
        text = line.split("]: ", 1)[1]
        if level == 3 and quiet is not None and time - last >= quiet:
            level = 5
            changes.append((last + quiet, None, 5))
        if level_of(text) >= level:
            shown.append((number, level))
        if level_of(text) == 4 and "Failed" in text:
            near = [
                second
                for then, second in failures
                if timedelta(0) <= time - then <= timedelta(seconds=2) and not (strict and then == time)
            ]
            failures.append((time, bool(near)))
            last = time
            if any(near):
                alarms.append(number)
                if level == 5:
                    level = 3
                    changes.append((time, number, 3))
    return shown, changes, alarms


def check(lines, alarm, quiet):
    client = Client(alarm, quiet)
    for line in publications(lines):
        client.take(line)
    silence = {None: None, "PT1M": timedelta(minutes=1), "PT5S": timedelta(seconds=5)}[quiet]
    shown, changes, alarms = looped(lines, alarm == STRICT, silence)
    assert client.alarms == alarms
    assert [(c.time.replace(tzinfo=None), c.line, c.level) for c in client.changes] == changes
    assert client.shown == shown
    return client


# --- tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alarm", [SOON, STRICT], ids=["soon", "strict"])
@pytest.mark.parametrize("quiet", [None, "PT1M", "PT5S"])
def test_a_generated_log(alarm, quiet):
    """Levels go down and up at the lines where the loop says so."""
    client = check(list(generated.log(np.random.default_rng(7), 400)), alarm, quiet)
    assert client.alarms
    assert len(client.changes) == 1 if quiet is None else len(client.changes) >= 3


@needs_real
@pytest.mark.parametrize(("alarm", "quiet"), [(SOON, "PT1M"), (STRICT, None)], ids=["soon", "strict"])
def test_the_real_log(alarm, quiet):
    check(REAL.read_text("utf-8").splitlines(), alarm, quiet)


def test_three_failures_in_one_second():
    """The paper's AFTER is strict and does not see them; with a tolerance it does."""
    lines = [
        f"Dec 10 07:00:00 LabSZ sshd[{i}]: Failed password for root from 10.0.0.1 port {i} ssh2" for i in (1, 2, 3)
    ]
    assert check(lines, STRICT, None).alarms == []
    assert check(lines, SOON, None).alarms == [3]


def test_the_subscription_really_changes():
    client = Client()
    assert {s.id: s.where for s in client.engine} == {"alarm": SOON, "shown": "level >= 5"}
    for line in publications(_burst()):
        client.take(line)
    assert {s.id: s.where for s in client.engine if s.id != "alarm"} == {
        "shown": "level >= 3",
        "quiet": "absent('PT1M', level = 4 AND category = 'login_failed')",
    }
    *_, later = publications([*_burst(), "Dec 10 07:01:02 LabSZ sshd[9]: Accepted password for ann from 10.0.0.2"])
    client.take(later)
    assert {s.id: s.where for s in client.engine} == {"alarm": SOON, "shown": "level >= 5"}


def _burst():
    return [f"Dec 10 07:00:0{i} LabSZ sshd[{i}]: Failed password for root from 10.0.0.1 port 1 ssh2" for i in range(3)]


def test_a_line_that_is_none():
    with pytest.raises(ValueError, match="line 2 is no line of sshd: 'nonsense'"):
        list(publications([_burst()[0], "nonsense"]))


def script(*arguments):
    command = [sys.executable, "-m", "examples.logging_level", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_script_on_a_log_of_ones_own(tmp_path):
    (tmp_path / "auth.log").write_text("\n".join(generated.log(np.random.default_rng(3), 300)))
    text = script(tmp_path / "auth.log", "--changes", "2")
    assert "300 lines of auth.log" in text
    assert "always DEBUG" in text
    assert "more\n" in text


@needs_real
def test_the_page_shows_what_the_script_prints():
    assert script().strip() in PAGE.read_text("utf-8")
