"""A broker as people start it: ``tidegate serve`` in a process of its own, which ends with the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from tests.parts.tied_process import tied
from tidegate.broker.broker_record import BrokerRecord
from tidegate.store.data_directory import DataDirectory

__all__ = ["TOKEN", "Broker", "Served", "served"]

#: What the administrator's token is, if a test says nothing else.
TOKEN = "a-token-that-only-tests-have"
_PATIENCE = 120.0
_LOOK = 0.05


class Processes:
    """The processes of a broker that runs: of ``tidegate serve`` itself and, by name, of those that it started."""

    def __init__(self, started: subprocess.Popen[bytes], data: DataDirectory, log: Path) -> None:
        self.started, self.data, self.log = started, data, log

    @property
    def supervisor(self) -> int:
        return self.started.pid

    def record(self) -> BrokerRecord:
        """What the supervisor knows of them."""
        found = BrokerRecord.read(self.data)
        assert found is not None, self.log.read_text()
        return found

    def __getitem__(self, name: str) -> int:
        """The id of "runner", "gateway 1" …; waits until it is up."""
        until(lambda: BrokerRecord.read(self.data))
        return until(lambda: (found := self.record().process(name)) and found.process)

    def family(self) -> list[psutil.Process]:
        """All of them, the supervisor first."""
        first = psutil.Process(self.supervisor)
        return [first, *first.children(recursive=True)]


class Served(NamedTuple):
    """A broker that is ready: its address, the token of its administrator, and its processes."""

    url: str
    token: str
    processes: Processes

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


class Broker:
    """``tidegate serve`` with some options. ``wait`` waits until it is ready, ``end`` ends all its processes."""

    def __init__(self, directory: Path, *options: object, text: str | None = None, **environment: str) -> None:
        self.data = DataDirectory(directory / "data", "")
        self.log, self.output = directory / "serve.log", directory / "serve.out"
        place: list[object] = ["--data", self.data.path]
        if text is not None:
            file = directory / "service.toml"
            file.write_text(text)
            place.insert(0, file)
        command = [sys.executable, "-m", "tidegate", "serve", *map(str, (*place, "--listen", "127.0.0.1:0", *options))]
        inside = {"PYTHONPATH": str(Path(__file__).parents[2]), "TIDEGATE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        whole = {name: value for name, value in {**os.environ, **inside, **environment}.items() if value}
        with self.log.open("ab") as log, self.output.open("ab") as output:
            self.started = subprocess.Popen(tied(command), env=whole, stdout=output, stderr=log)
        self.processes = Processes(self.started, self.data, self.log)

    @property
    def url(self) -> str:
        """The address, once it is known."""
        return until(lambda: (found := BrokerRecord.read(self.data)) and self._is_mine(found) and found.address)

    def _is_mine(self, found: BrokerRecord) -> bool:
        assert self.started.poll() is None, self.log.read_text()
        return found.supervisor == self.started.pid

    def wait(self, verify: object = True) -> str:
        """The address, once it is ready."""
        url = self.url

        def is_ready() -> bool:
            assert self.started.poll() is None, self.log.read_text()
            try:
                return httpx.get(f"{url}/readyz", timeout=_PATIENCE, verify=verify).status_code == 200
            except httpx.TransportError:
                return False

        until(is_ready)
        return url

    def end(self) -> None:
        """End it: as SIGTERM does, or, if that takes too long, at once and by id."""
        family = self.processes.family() if self.started.poll() is None else []
        self.started.terminate()
        try:
            self.started.wait(20)
        finally:
            for one in family:
                try:
                    one.kill()
                except psutil.NoSuchProcess:
                    continue
            self.started.wait()


@contextmanager
def served(
    directory: Path, *, runner: str = "process", text: str = "", workers: int = 1, token: str = TOKEN
) -> Iterator[Served]:
    """A broker in a directory, once it is ready. ``text`` has lines of a TOML file; those of ``[serve]`` come first in
    it, unless they stand under a name of their own.
    """
    lines = text if text.lstrip().startswith("[") else f"[serve]\n{text}"
    if workers != 1:
        head, _, tail = lines.partition("[serve]\n")
        lines = f"{head}[serve]\nworkers = {workers}\n{tail}"
    broker = Broker(directory, "--runner", runner, text=lines, TIDEGATE_TOKEN=token)
    try:
        yield Served(broker.wait(), token, broker.processes)
    finally:
        broker.end()


def until(holds, seconds: float = _PATIENCE):
    """What ``holds`` gives as soon as it is anything."""
    due = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < due, f"not within {seconds:g} seconds"
        time.sleep(_LOOK)
    return found
