"""The processor time and the memory of processes, as Linux tells them; elsewhere only of this one."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import NamedTuple

__all__ = ["ProcessUsage", "own_usage", "usage_of"]

_KIB = 1024


class ProcessUsage(NamedTuple):
    """Seconds of processor time since the start, and bytes of memory now."""

    cpu_seconds: float
    memory_bytes: int


def own_usage() -> ProcessUsage:
    """That of this process."""
    found = usage_of(os.getpid())
    if found is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = ProcessUsage(0.0, peak if sys.platform == "darwin" else peak * _KIB)
    return found._replace(cpu_seconds=time.process_time())


def usage_of(process: int) -> ProcessUsage | None:
    """That of a process; None if there is none, or if it cannot be known here."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a name may have anything, also brackets
        ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    except (OSError, ValueError, IndexError):
        return None
    return ProcessUsage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))
