"""One process of a broker as its supervisor sees it: started, started again when it ends, and stopped.

The other end of what ``broker/supervised.py`` says: the process ends when we do, since its input does then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tidegate.broker.broker_record import ProcessRecord
from tidegate.broker.supervised import message
from tidegate.gateway import first_token, service_notices
from tidegate.store.version_readers import now

__all__ = ["Command", "SupervisedProcess"]

_LOG = logging.getLogger("tidegate.supervisor")
#: Seconds before a process is started again: twice as long each time, unless it had run for a while.
_FIRST, _LONGEST, _A_WHILE = 0.1, 5.0, 10.0
#: Variables of the environment that are for the supervisor alone: a secret, and where it tells that it is ready.
_NOT_PASSED_ON = (first_token.VARIABLE, service_notices.VARIABLE)


class Command(NamedTuple):
    """How a process is started: the arguments of Python, what it is told first, and the files that it gets."""

    arguments: Sequence[str]
    first: Callable[[], bytes] | None = None
    descriptors: Sequence[int] = ()


class SupervisedProcess:
    """A process of that name; ``changed`` is called when it was started or has ended."""

    def __init__(self, name: str, command: Command, changed: Callable[[], None]) -> None:
        self.name, self._command, self._changed = name, command, changed
        self.starts = 0
        self.last_code: int | None = None
        """How it ended last: an exit code, or a signal as a negative number."""
        self.said = asyncio.Event()
        """Set when it has written something to its standard output, if that is ours."""
        self._process: Process | None = None
        self._since, self._stopping = now(), asyncio.Event()

    @property
    def record(self) -> ProcessRecord:
        """What there is to know of it."""
        process = None if self._process is None else self._process.pid
        return ProcessRecord(self.name, process, self.starts, self._since)

    async def keep(self) -> None:
        """Run the process, again and again, until ``stop``. Returns when it has ended then."""
        wait = _FIRST
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            try:
                await self._run()
            except OSError as error:  # the machine has no room for another process
                _LOG.error("%s cannot be started: %s", self.name, error.strerror or error)
            if self._stopping.is_set():
                return
            lasted = asyncio.get_running_loop().time() - began
            wait = _FIRST if lasted > _A_WHILE else min(2 * wait, _LONGEST)
            _LOG.warning("%s has ended, %s; it is started again in %.1f s", self.name, self._how(), wait)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _run(self) -> None:
        command = self._command
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command.arguments,
            stdin=PIPE,
            stdout=PIPE if command.first is not None else None,
            pass_fds=command.descriptors,
            env={name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON},
            start_new_session=True,  # Ctrl-C is for us
        )
        self._process, self._since = process, now()
        self.starts += 1
        self._changed()
        if self._stopping.is_set():  # meanwhile
            self._send(signal.SIGTERM)
        if command.first is not None:
            self.tell(command.first())
            await self._listen(process)
        self.last_code = await process.wait()
        self._process, self._since = None, now()
        self.said.clear()
        self._changed()

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while await process.stdout.readline():
            self.said.set()

    def tell(self, content: bytes) -> None:
        """Send it a message, if it is there."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(ConnectionError):  # it is about to end
                self._process.stdin.write(message(content))

    def stop(self) -> None:
        """Ask it to end, and do not start it again."""
        self._stopping.set()
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._stopping.set()
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _how(self) -> str:
        code = self.last_code or 0
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
