"""Programs for tests that end when the process that started them does, whatever ends that: SIGKILL too.

``tied`` gives a command line that runs this file, which starts a second process that watches and then becomes the
program: the process id, the output and the exit code are the program's own. It needs Linux, for ``pidfd_open``.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["tied"]

_PATIENCE = 20_000  # milliseconds that a program may take to end before it is killed


def tied(
    command: Sequence[str | os.PathLike[str]],
    stop: signal.Signals = signal.SIGKILL,
    *,
    identity: Mapping[str, int] | None = None,
    directory: Path | None = None,
) -> list[str]:
    """A command line that runs ``command``, and sends it ``stop`` when this process has ended before it.

    The program runs as the ``user`` and ``group`` of ``identity``. Its ``directory`` is removed when it was stopped.
    """
    user, group = (str(identity[name]) if identity else "" for name in ("user", "group"))
    ours = [str(os.getpid()), str(int(stop)), user, group, str(directory or "")]
    return [sys.executable, "-I", "-S", __file__, *ours, *map(os.fspath, command)]


def _main(starter: int, stop: int, user: str, group: str, directory: str, command: list[str]) -> None:
    theirs, ours = os.pidfd_open(starter), os.pidfd_open(os.getpid())
    if os.getppid() != starter:  # it has ended, and its number may be another's
        sys.exit(1)
    between = os.fork()
    if not between:
        if not os.fork():  # a grandchild: the program finds no child that it did not start
            _watch(theirs, ours, stop, directory)
        os._exit(0)
    os.waitpid(between, 0)
    if user:
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    os.execvp(command[0], command)


def _watch(starter: int, program: int, stop: int, directory: str) -> None:
    """Wait until one of the two processes has ended; if that is the starter, end the program."""
    os.setsid()  # Ctrl-C is for the starter
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # who reads the program's output waits for its end, not for ours
        os.dup2(nowhere, number)
    both = select.poll()
    both.register(starter, select.POLLIN)
    both.register(program, select.POLLIN)
    if any(ended == program for ended, _ in both.poll()):
        return
    last = select.poll()
    last.register(program, select.POLLIN)
    try:
        signal.pidfd_send_signal(program, stop)
        if not last.poll(_PATIENCE):
            signal.pidfd_send_signal(program, signal.SIGKILL)
            last.poll()
    except ProcessLookupError:  # it has ended in the meantime
        pass
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6], sys.argv[6:])
