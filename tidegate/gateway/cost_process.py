"""What measures the costs of subscriptions, as a process: ``python -m tidegate.gateway.cost_process``, which only the
supervisor of a broker starts. It gives way to all others, and uses no more of a processor than its share.

Its first message says where the log is, and everything else, which is read only when the log has enough to measure
with: until then the process sleeps, with next to nothing imported.
"""

from __future__ import annotations

import logging
import os
import pickle
import resource
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING

from tidegate.broker.supervised import follow_starter, next_message
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.runs.config import Config

__all__ = ["main"]

_LOG = logging.getLogger("tidegate.costs")
_NICE = 10
#: Bytes that it may take: a pattern that would remember more is not measured.
_MEMORY = 2 << 30
#: Seconds before it is tried again after something failed.
_LATER = 10.0
#: Bytes of a log that may have enough publications to measure with, and seconds between two looks.
_LEAST, _LOOK = 16 << 10, 1.0


def main() -> int:
    """Measure until the supervisor says otherwise."""
    given = next_message()
    if given is None:
        return 1
    log, _, order = given.partition(b"\0")
    follow_starter()
    os.nice(_NICE)
    while _size_of(log) < _LEAST:
        sleep(_LOOK)
    config: Config = pickle.loads(order)  # what our starter wrote, nobody else
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    from tidegate.gateway.process_log import log_to_standard_error

    log_to_standard_error("costs")
    while True:
        try:
            _measure(config)
        except TidegateError as wrong:  # perhaps a database that comes back
            _LOG.error("nothing is measured for a while: %s", wrong)
        sleep(_LATER)


def _size_of(log: bytes) -> int:
    """The bytes of a log."""
    try:
        with os.scandir(log) as files:
            return sum(one.stat().st_size for one in files if one.name.endswith(b".log"))
    except OSError:  # a segment that was dropped meanwhile
        return 0


def _measure(config: Config) -> None:
    from tidegate.broker.cost_budget import CostBudget
    from tidegate.broker.cost_meter import CostMeter
    from tidegate.gateway.broker_locks import cost_lock

    data = config.made()
    assert data is not None, "a broker has a data directory, as was checked"
    budget = CostBudget(config.costs.share, monotonic, process_time)

    def pause() -> None:
        if (seconds := budget.wait()) > 0:
            sleep(seconds)

    held = cost_lock(data)
    try:
        with CostMeter(config, data, pause=pause) as meter:
            while True:
                pause()
                sleep(meter.step())
    finally:
        held.release()


if __name__ == "__main__":
    main()
