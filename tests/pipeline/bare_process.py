"""Scripts in processes that find no Java on the machine, and a Java that is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

BARE = {"PATH": "/nowhere", "HOME": "/nowhere"}  # no Java to be found, and no JAVA_HOME


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, with no terminal noise allowed on its standard error."""
    kept = {name: os.environ[name] for name in ("TMPDIR", "XDG_CACHE_HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=BARE | kept | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def gone(pid: int, seconds: float = 60) -> bool:
    """Whether a process ends; one that is dead and that nobody waits for has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


# --- which Java -----------------------------------------------------------------------------------------------------


def fake_java(place: Path, release: str) -> Path:
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "java").write_text("#!/bin/sh\n")
    (place / "bin" / "java").chmod(0o755)
    (place / "release").write_text(release)
    return place
