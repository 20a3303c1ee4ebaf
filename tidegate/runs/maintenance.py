"""``Maintenance``: a thread beside the batches that calls a function once a minute.

Runs have it look after the registry, the sinks and the log. The function may fail without harm: it is called again a
minute later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidegate.model import moment
from tidegate.store.registry import Registry
from tidegate.store.version_readers import now

__all__ = ["Maintenance", "look_after"]

_EVERY = 60.0
_log = logging.getLogger("tidegate")


class Maintenance:
    """A thread that calls a function every minute until it is stopped."""

    def __init__(self, work: Callable[[], None], every: float = _EVERY) -> None:
        self._work, self._every = work, every
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._every):
            try:
                self._work()
            except Exception as error:
                _log.warning("maintenance will be tried again: %s", error)


def look_after(registry: Registry, lateness: int) -> None:
    """End subscriptions whose time of activity is over, and drop what ended before any version that is needed.

    What may still come for them is as old as the lateness, in microseconds, at the most.
    """
    registry.end_due(moment(now() - lateness))
    registry.prune()
