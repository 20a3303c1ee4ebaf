"""The supervisor of a broker: it keeps its processes running, runner, gateways and what stands beside them, until it is
asked to stop.

It answers no request and matches nothing. What ends is started again; what it knows of its processes it writes down
for the gateways (``BrokerRecord``). If it is killed, all of them end (``broker/supervised.py``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidegate.broker.bridge_record import BRIDGE
from tidegate.broker.broker_record import RUNNER, BrokerRecord
from tidegate.broker.open_queues import has_queues
from tidegate.errors import TidegateError
from tidegate.extras import require
from tidegate.gateway import service_notices
from tidegate.gateway.certificates import has_tls, tls_context
from tidegate.gateway.gateway_process import GatewayOrder
from tidegate.gateway.supervised_process import Command, SupervisedProcess
from tidegate.runs.config import Config
from tidegate.runs.status_file import posted
from tidegate.store.data_directory import DataDirectory
from tidegate.store.version_readers import now

__all__ = ["Outcome", "Settings", "Supervisor"]

_LOG = logging.getLogger("tidegate.supervisor")
#: Seconds that processes may take to stop before they are killed, and between two looks whether the runner is ready.
_PATIENCE, _LOOK = 4.7, 0.05
#: The exit code of a process that cannot use what it was given.
_UNUSABLE = 2


class Settings(NamedTuple):
    """What a broker is made of: its configuration, how that is read again, and how its runner is started."""

    config: Config
    read: Callable[[], Config]
    runner: Sequence[str]


class Outcome(NamedTuple):
    """How a broker ended: stopped as it was asked to, or interrupted while it stopped. ``failed`` is what could not be
    started.
    """

    failed: SupervisedProcess | None = None
    was_interrupted: bool = False


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("whether the broker is ready cannot be seen", exc_info=error)


class Supervisor:
    """Runs the processes of a broker on ``listening``; ``ready`` is called once it matches and delivers."""

    def __init__(
        self, settings: Settings, data: DataDirectory, listening: socket.socket, address: str, ready: Callable[[], None]
    ) -> None:
        self._config, self._read, self._data, self._ready = settings.config, settings.read, data, ready
        self._listening, self._address = listening, address
        self._began_at = now()
        self._ready_at: int | None = None
        self._asked, self._interrupted, self._is_ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._runner = SupervisedProcess(RUNNER, Command(settings.runner), self._changed)
        self._gateways = [
            self._gateway(number, listening.fileno()) for number in range(1, settings.config.serve.workers + 1)
        ]
        self._bridges = [] if settings.config.mqtt is None else [self._bridge()]
        self._costs = self._cost_process()
        self._processes = (self._runner, *self._gateways, self._sender(), *self._bridges, *self._costs)
        self._failed: SupervisedProcess | None = None

    def _cost_process(self) -> tuple[SupervisedProcess, ...]:
        """What measures subscriptions, unless nothing is to be measured."""
        if not self._config.costs.share:
            return ()

        def first() -> bytes:
            return os.fsencode(self._data.log) + b"\0" + pickle.dumps(self._config)

        command = Command(("-m", "tidegate.gateway.cost_process"), first)
        return (SupervisedProcess("costs", command, self._changed),)

    def _bridge(self) -> SupervisedProcess:
        section = self._config.mqtt

        def first() -> bytes:
            return pickle.dumps(replace(self._config, mqtt=section))  # the issuers of now, and what it bridged before

        return SupervisedProcess(BRIDGE, Command(("-m", "tidegate.mqtt.bridge_process"), first), self._changed)

    def _gateway(self, number: int, descriptor: int) -> SupervisedProcess:
        def first() -> bytes:
            return pickle.dumps(GatewayOrder(number, descriptor, self._config))

        command = Command(("-m", "tidegate.gateway.gateway_process"), first, (descriptor,))
        return SupervisedProcess(f"gateway {number}", command, self._changed)

    def _sender(self) -> SupervisedProcess:
        def first() -> bytes:
            return os.fsencode(self._data.run) + b"\0" + pickle.dumps(self._config)

        return SupervisedProcess("webhooks", Command(("-m", "tidegate.webhooks.sender_process"), first), self._changed)

    async def run(self) -> Outcome:
        """Run the broker until SIGTERM or Ctrl-C; how it ended."""
        self._follow_signals()
        processes = self._processes
        keepers = [asyncio.create_task(one.keep()) for one in processes if one not in self._costs]
        keepers += [asyncio.create_task(self._keep_once_ready(one)) for one in self._costs]
        watching = asyncio.create_task(self._become_ready())
        watching.add_done_callback(_tell_failure)
        try:
            await self._asked.wait()
            _LOG.info("stopping; a second Ctrl-C ends the broker at once")
            service_notices.send("STOPPING=1")
            self._listening.close()
            for one in processes:
                one.stop()
            self._is_ready.set()  # who waits for that has nothing to run any more
            await self._ended(keepers)
        finally:
            watching.cancel()
            for one in processes:
                one.kill()
            await asyncio.gather(*keepers, watching, return_exceptions=True)
            BrokerRecord.remove(self._data)
        return Outcome(self._failed, self._interrupted.is_set())

    async def _ended(self, keepers: Sequence[asyncio.Task[None]]) -> None:
        """Wait until all processes have ended, or for as long as they may take, or until somebody is impatient."""
        over = asyncio.ensure_future(asyncio.wait(keepers))
        impatient = asyncio.ensure_future(self._interrupted.wait())
        await asyncio.wait((over, impatient), timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        impatient.cancel()
        over.cancel()
        if not all(one.done() for one in keepers) and not self._interrupted.is_set():
            left = [one.name for one in self._processes if one.record.process is not None]
            _LOG.warning("killed, since it did not stop in time: %s", ", ".join(left))

    # --- signals ----------------------------------------------------------------------------------------------------

    def _follow_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._asked.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _interrupt(self) -> None:
        if self._asked.is_set():
            self._interrupted.set()
        self._asked.set()

    def _reload(self) -> None:
        """Read the configuration again, and tell those who let callers in; a wrong one is told, and nothing changes."""
        try:
            found = self._read()
            if found.issuers:
                require("jwt", "[[issuers]]")
            if has_tls(found.serve):
                tls_context(found.serve)
            if has_tls(found.serve) != has_tls(self._config.serve):
                _LOG.warning("TLS begins or ends with the next start of the broker")
                return
        except TidegateError as wrong:
            _LOG.error("the settings stay what they were: %s", wrong)
            return
        self._config = found
        for one in (*self._gateways, *self._bridges):
            one.tell(pickle.dumps(found))
        _LOG.info("limits, issuers and certificates are read again")

    # --- what becomes of it -----------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """A process was started or has ended. If it cannot use what it is given, a broker that was never ready ends."""
        self._write()
        for one in self._processes:
            if self._ready_at is None and one.last_code == _UNUSABLE and not self._asked.is_set():
                self._failed = one
                self._asked.set()

    def _write(self) -> None:
        processes = tuple(one.record for one in self._processes)
        BrokerRecord(os.getpid(), self._address, self._began_at, self._ready_at, processes).write(self._data)

    async def _keep_once_ready(self, process: SupervisedProcess) -> None:
        """Run what nobody waits for, as soon as it keeps nobody waiting."""
        await self._is_ready.wait()
        await process.keep()

    async def _become_ready(self) -> None:
        for one in self._gateways:
            await one.said.wait()
        while not await asyncio.to_thread(self._matches):
            await asyncio.sleep(_LOOK)
        self._ready_at = now()
        self._is_ready.set()
        self._write()
        service_notices.send("READY=1")
        _LOG.info("ready after %.1f s", (self._ready_at - self._began_at) / 1e6)
        self._ready()

    def _matches(self) -> bool:
        """Whether the runner has made a batch, and there are queues."""
        try:
            found = posted(self._config.run.checkpoint)
            mine = found is not None and found.process == self._runner.record.process
            return mine and found is not None and found.numbers.get("batches", 0) > 0 and has_queues(self._config)
        except TidegateError:
            return False  # a file that is about to be replaced
