"""Ctrl-C and SIGTERM for commands that run for long: the first asks to stop, a second Ctrl-C ends at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["asked_to_stop"]


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; a second Ctrl-C is an interruption."""
    asked = threading.Event()

    def stop(number: int, frame: object) -> None:
        if asked.is_set() and number == signal.SIGINT:
            typer.echo("\ntidegate: interrupted", err=True)
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (threads that are cut off now would print tracebacks)
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
