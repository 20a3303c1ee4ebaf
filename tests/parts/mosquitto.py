"""A Mosquitto for tests, on a port of loopback, that keeps its sessions: stopped or killed, and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.parts.machine import directory, program, unprivileged
from tests.parts.tied_process import tied

__all__ = ["Mosquitto", "mosquitto", "mosquitto_server"]

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/bin")
_PATIENCE = 30.0
_SETTINGS = """
listener {port} 127.0.0.1
persistence true
persistence_location {place}/
max_queued_messages 0
max_packet_size 2000000
log_type error
log_type warning
log_type notice
log_type information
log_type subscribe
"""


class Mosquitto:
    """A server in a directory, on a port that stays the same. ``settings`` are further lines of its file."""

    def __init__(self, binary: str, place: Path, identity: dict[str, object], settings: str) -> None:
        self._binary, self._place, self._identity = binary, place, identity
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.url = f"mqtt://127.0.0.1:{self.port}"
        lines = _SETTINGS.format(port=self.port, place=place) + settings
        (place / "mosquitto.conf").write_text(lines if "allow_anonymous" in lines else f"{lines}allow_anonymous true\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self._place / "log").open("ab")
        command = [self._binary, "-c", str(self._place / "mosquitto.conf")]
        with log:
            self.process = subprocess.Popen(
                tied(command, identity=self._identity), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/"
            )
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    pytest.skip(f"mosquitto does not start: {(self._place / 'log').read_text()[-500:]}")
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it: with SIGTERM it keeps all that it has taken, with SIGKILL what it has saved."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(_PATIENCE)
            self.process = None

    def save(self) -> None:
        """Have it save what it has taken, and wait for that."""
        assert self.process is not None
        file = self._place / "mosquitto.db"
        before = file.stat().st_mtime_ns if file.exists() else 0
        self.process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + _PATIENCE
        while not file.exists() or file.stat().st_mtime_ns == before:
            assert time.monotonic() < until, "nothing was saved"
            time.sleep(0.02)

    def log(self) -> str:
        return (self._place / "log").read_text()


@contextmanager
def mosquitto_server(settings: str = "", files: dict[str, bytes] | None = None) -> Iterator[Mosquitto]:
    """A server that has been started. ``{place}`` in the settings is its directory, which has the files."""
    binary, identity = program("mosquitto", "mosquitto", _PLACES), unprivileged("mosquitto")
    with directory(identity) as place:
        for name, content in (files or {}).items():
            (place / name).write_bytes(content)
            if identity:
                shutil.chown(place / name, identity["user"], identity["group"])
        server = Mosquitto(binary, place, identity, settings.replace("{place}", str(place)))
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGKILL)


@pytest.fixture
def mosquitto() -> Iterator[Mosquitto]:
    """A Mosquitto of its own for one test."""
    with mosquitto_server() as server:
        yield server
