"""Wake-ups between processes: a datagram when a directory has something new, so that nobody has to poll.

Who waits has a socket in the directory (``Wakeup``); who has something new sends a byte to every socket there
(``Waker``). A wake-up may be lost and may come for nothing: who waits looks again after a while anyway.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from tidegate.closing import Closing

__all__ = ["PREFIX", "Waker", "Wakeup"]

#: How the names of the sockets begin.
PREFIX = "wake-"


class Wakeup(Closing):
    """A socket in a directory, on which this process waits. Where there are no such sockets it is never woken."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._socket: socket.socket | None = None
        self._path = Path(directory, f"{PREFIX}{uuid4().hex}")
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._here, selectors.EVENT_READ)
        with suppress(OSError):
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                with _Directory(directory) as short:
                    made.bind(f"{short}/{self._path.name}")
            except OSError:
                made.close()
                raise
            made.setblocking(False)
            self._selector.register(made, selectors.EVENT_READ)
            self._socket = made

    def wait(self, seconds: float) -> None:
        """Wait until somebody wakes us, or so long; takes all wake-ups that have come."""
        for key, _ in self._selector.select(seconds):
            ready: Any = key.fileobj
            with suppress(OSError):
                while ready.recv(64):
                    pass

    def interrupt(self) -> None:
        """Wake whoever waits in this process. Any thread may call it."""
        with suppress(OSError):
            self._there.send(b"!")

    @property
    def works(self) -> bool:
        """Whether it can be woken."""
        return self._socket is not None

    def close(self) -> None:
        self._selector.close()
        self._here.close()
        self._there.close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with suppress(OSError):
                self._path.unlink()


class Waker(Closing):
    """Wakes all who wait at a directory. Looks for them only when the directory has changed."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.fspath(directory)
        self._changed = -1
        self._names: list[str] = []
        self._lock = threading.Lock()
        self._sender: socket.socket | None = None
        self._opened = ExitStack()

    def wake(self) -> None:
        """Wake them. Who has ended without removing its socket is forgotten."""
        with self._lock, suppress(OSError):
            changed = os.stat(self._directory).st_mtime_ns
            if changed != self._changed:
                self._look(changed)
            if self._sender is not None:
                for name in self._names:
                    self._send(self._sender, name)

    def _look(self, changed: int) -> None:
        """Find out who waits now."""
        self._forget()
        self._names = [name for name in os.listdir(self._directory) if name.startswith(PREFIX)]
        if self._names:
            self._short = self._opened.enter_context(_Directory(self._directory))
            self._sender = self._opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            self._sender.setblocking(False)
        self._changed = changed

    def _send(self, sender: socket.socket, name: str) -> None:
        try:
            sender.sendto(b"!", f"{self._short}/{name}")
        except ConnectionRefusedError:  # its process was killed
            with suppress(OSError):
                os.unlink(f"{self._directory}/{name}")
        except OSError:
            pass  # it has wake-ups that it has not read, or is gone

    def close(self) -> None:
        """Close its files. They are opened again when somebody is to be woken."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._opened.close()
        self._sender, self._changed = None, -1


class _Directory:
    """A short name of a directory: the address of a socket has room for about a hundred bytes."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._path, self._descriptor = os.fspath(directory), -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) < 60:
            return self._path
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
