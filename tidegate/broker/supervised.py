"""A process that another one starts and supervises: it ends when that one does, and is told things by it.

The starter holds the other end of the standard input. It may send messages there, and the input ends with the starter,
whatever ends that. ``tidegate run --supervised`` and gateways follow their input; ``gateway/supervised_process.py`` is
the starter. Knows nothing of what is sent.
"""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Callable

__all__ = ["follow_starter", "message", "next_message"]

_SIZE = struct.Struct(">I")
_INPUT = 0


def message(content: bytes) -> bytes:
    """A message as the starter writes it."""
    return _SIZE.pack(len(content)) + content


def next_message() -> bytes | None:
    """The next message of the starter; None if it has ended."""
    head = _read(_SIZE.size)
    return None if head is None else _read(_SIZE.unpack(head)[0])


def _read(count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        try:
            some = os.read(_INPUT, count - len(found))
        except ConnectionResetError:  # the starter was killed before it had read what we wrote
            some = b""
        if not some:
            return None
        found += some
    return found


def follow_starter(received: Callable[[bytes], None] | None = None) -> None:
    """Start a thread that passes on messages, and kills this process when the starter has ended.

    It kills rather than stops: a broker whose supervisor was killed was killed, and all of it can be at any moment.
    Whoever starts it again waits for us.
    """
    threading.Thread(target=_follow, args=(received,), name="tidegate-starter", daemon=True).start()


def _follow(received: Callable[[bytes], None] | None) -> None:
    while (content := next_message()) is not None:
        if received is not None:
            received(content)
    os.kill(os.getpid(), signal.SIGKILL)
