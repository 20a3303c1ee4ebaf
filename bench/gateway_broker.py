"""A broker for the bench, ``tidegate serve`` on a data directory of its own, and what can be read from that directory.

Principals, tokens and subscriptions are put into the directory before the broker starts. Its processes are sent SIGTERM
at the end, and end with the bench whatever ends that.
"""

from __future__ import annotations

import os
import socket
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import psutil
import pyarrow as pa

import tidegate as tg
from bench.processes import started
from tidegate.runs.status_file import posted
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log_frames import read
from tidegate.store.log_reader import LogReader
from tidegate.store.principals import Principals

__all__ = ["Address", "Broker", "free_address", "served", "started_at"]

Address = tuple[str, int]
#: Seconds that a broker may take to start, or its runner to have matched everything.
_PATIENCE = 180.0


def free_address() -> Address:
    """A port of the loopback interface that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host, port = probe.getsockname()
        return host, port


@contextmanager
def started_at(address: Address, command: Sequence[str], output: Path) -> Iterator[int]:
    """A command that listens at an address, from when it does; its process id."""
    with started([sys.executable, "-m", *command], output) as process:
        until = monotonic() + _PATIENCE
        while True:
            try:
                socket.create_connection(address).close()
                break
            except ConnectionRefusedError:
                if monotonic() > until or process.poll() is not None:
                    raise SystemExit(f"bench gateway: expected {command[0]} to listen:\n{output.read_text()}") from None
                sleep(0.02)
        yield process.pid


class Broker:
    """A broker that is not running yet; ``served`` runs it."""

    def __init__(self, folder: Path, runner: str, lines: str = "") -> None:
        folder.mkdir()
        self.runner, self.address = runner, free_address()
        self.data = DataDirectory.made(folder / "data", runner)
        self.file = folder / "service.toml"
        host, port = self.address
        self.file.write_text(
            f'[run]\ndata = "data"\nrunner = "{runner}"\n[serve]\nlisten = "{host}:{port}"\n{lines}', "utf-8"
        )
        self.process = 0

    def subscribe(self, subscriptions: Iterable[tg.Subscription]) -> None:
        """Put subscriptions into the registry."""
        with tg.Registry(self.data.registry) as registry:
            some = list(subscriptions)
            for begin in range(0, len(some), 20_000):
                registry.subscribe(*some[begin : begin + 20_000])

    def tokens(self, names: Sequence[str], *roles: str) -> list[str]:
        """New tokens of principals of these names."""
        with tg.Registry(self.data.registry) as registry, Principals(registry) as principals:
            return [principals.make_token(name, roles).secret for name in names]

    # --- while it runs ----------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether publications are matched and delivered."""
        host, port = self.address
        try:
            with urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def settle(self) -> None:
        """Wait until the runner has done all batches of the log."""
        with LogReader(self.data.log) as log:
            _wait_until(lambda: self._row() >= log.end, "a runner that keeps up")

    def _row(self) -> int:
        status = posted(os.fspath(self.data.checkpoint))
        return -1 if status is None else int(status.numbers["row"])

    def end(self) -> int:
        """The row after the last one in the log."""
        with LogReader(self.data.log) as log:
            return log.end

    def logged(self, begin: int) -> dict[str, list[str]]:
        """The ids in the log from a row on, by source, in their order."""
        found = defaultdict[str, list[str]](list)
        with LogReader(self.data.log) as log:
            for piece in log.slices(begin, log.end, 1):
                for frame in read(piece):
                    columns = (frame.batch.column(name).cast(pa.string()).to_pylist() for name in ("source", "id"))
                    for source, id in zip(*columns, strict=True):
                        found[source].append(id)
        return found

    def memory(self) -> int:
        """Bytes that the gateway's processes have in memory: those that listen at its port."""
        return sum(process.memory_info().rss for process in self._family() if _listens(process, self.address[1]))

    def cpu(self) -> dict[str, float]:
        """Processor seconds of each process so far, by its command."""
        found = defaultdict[str, float](float)
        for process in self._family():
            times = process.cpu_times()
            found[" ".join(process.cmdline()[1:4])] += times.user + times.system
        return found

    def _family(self) -> list[psutil.Process]:
        first = psutil.Process(self.process)
        return [first, *first.children(recursive=True)]


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        connections = process.net_connections("inet")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)


@contextmanager
def served(broker: Broker) -> Iterator[Broker]:
    """The broker, from when it is ready."""
    output = broker.file.with_suffix(".output")
    with ExitStack() as stack:
        command = ["tidegate", "serve", os.fspath(broker.file)]
        broker.process = stack.enter_context(started_at(broker.address, command, output))
        try:
            _wait_until(broker.is_ready, "a broker that is ready")
        except SystemExit as error:
            raise SystemExit(f"{error}:\n{output.read_text()[-3000:]}") from None
        yield broker


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    until = monotonic() + _PATIENCE
    while not holds():
        if monotonic() > until:
            raise SystemExit(f"bench gateway: expected {what} within {_PATIENCE:.0f} seconds; got none")
        sleep(0.05)
