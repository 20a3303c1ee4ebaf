"""Servers of other programs for tests: found on this machine or installed, run by an unprivileged user, and stopped."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import pytest

from tests.parts.tied_process import tied

_QUIET = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL, "text": True}


def program(name: str, package: str, places: Sequence[str] = ()) -> str:
    """The path of a program, installed with its package if we may; the test is skipped if there is none."""
    if found := _found(name, places):
        return found
    if os.geteuid() or not shutil.which("apt-get"):
        pytest.skip(f"{name} is not installed")
    with alone("apt"):
        problem = "" if _found(name, places) else _installed(package)
    if problem:
        pytest.skip(f"{name} is not installed, and cannot be: {problem}")
    return _found(name, places) or pytest.skip(f"the package {package} has no {name}")


@contextmanager
def alone(name: str) -> Iterator[None]:
    """What only one test process of the machine does at a time."""
    with (Path(tempfile.gettempdir()) / f"tidegate-tests-{name}-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _found(name: str, places: Sequence[str]) -> str | None:
    if found := shutil.which(name):
        return found
    candidates = [path for place in places for path in sorted(glob(f"{place}/{name}"))]
    return candidates[-1] if candidates else None


def _installed(package: str) -> str:
    """Install a package; what went wrong. The service that it may start is stopped: we run our own."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        try:
            done = subprocess.run(command, env=environment, timeout=900, check=False, **_QUIET)
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)} takes too long"
        if done.returncode:
            return f"{' '.join(command)}: {(done.stdout.strip().splitlines() or ['no reason given'])[-1]}"
    if shutil.which("service"):
        subprocess.run(["service", package.removesuffix("-server"), "stop"], check=False, **_QUIET)
    return ""


def unprivileged(*names: str) -> dict[str, object]:
    """Arguments of ``Popen`` that give up root, which database servers refuse to run as."""
    if os.geteuid():
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = next((known[name] for name in (*names, "nobody") if name in known), None)
    if user is None:
        pytest.skip("there is no unprivileged user to run a server")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def directory(identity: dict[str, object]) -> Iterator[Path]:
    """A directory that belongs to the unprivileged user."""
    path = Path(tempfile.mkdtemp(prefix="tidegate-"))
    if identity:
        os.chown(path, identity["user"], identity["group"])
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run(command: Sequence[str], identity: dict[str, object]) -> str:
    """Run a program to its end; what it says if it fails."""
    done = subprocess.run(command, check=False, cwd="/", **_QUIET, **identity)
    return f"{command[0]} fails: {_reason(done.stdout)}" if done.returncode else ""


def _reason(said: str) -> str:
    """What a program that failed has to say: its lines about errors, else its last one."""
    lines = said.strip().splitlines() or ["no reason given"]
    return " / ".join([line for line in lines if "error" in line.lower()][:3] or lines[-1:])


@contextmanager
def server(
    command: Sequence[str],
    identity: dict[str, object],
    log: Path,
    is_ready: Callable[[], bool],
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running server that answers; stopped by its process id at the end, at once: nobody needs its data again.

    If this process is killed, the server is stopped all the same, and the directory that its log is in is removed.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            tied(command, stop, identity=identity, directory=log.parent),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"{command[0]} does not start: {_reason(log.read_text())}")
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
