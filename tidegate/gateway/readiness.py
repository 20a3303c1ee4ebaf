"""Whether a broker does its work: publications can be written, and are matched and delivered.

It is ready from its first batch on. A runner that is down later, or says nothing, makes it *degraded*: publishing goes
on, what is published is matched when the runner is back, and ``lag`` says how many publications wait for that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tidegate.broker.broker_record import RUNNER, BrokerRecord
from tidegate.gateway.open_broker import OpenBroker
from tidegate.runs.status_file import PostedStatus, posted

__all__ = ["Readiness", "readiness"]


@dataclass(frozen=True)
class Readiness:
    """``missing`` is what keeps the broker from being ready, ``degraded`` what it does without, "" if nothing; ``lag``
    how many publications of the log are not matched yet, None before the first batch.
    """

    missing: str
    degraded: str
    lag: int | None


def readiness(broker: OpenBroker) -> Readiness:
    """How a broker stands now. Reads two small files."""
    record, status = BrokerRecord.read(broker.data), posted(broker.config.run.checkpoint)
    lag = None
    if status is not None and status.numbers.get("row", -1) >= 0:
        lag = max(0, broker.log.end - status.numbers["row"])
    return Readiness(_missing(broker, record), _degraded(record, status), lag)


def _missing(broker: OpenBroker, record: BrokerRecord | None) -> str:
    if record is None or record.ready_at is None:
        return "the first batch of the runner"
    if broker.free_room.is_full():
        return "room on the disk"
    if not os.access(broker.data.log, os.W_OK):
        return "a log that can be written"
    waiting = [type(part).__name__ for part in broker.parts if not part.is_ready]
    return f"what starts: {', '.join(waiting)}" if waiting else ""


def _degraded(record: BrokerRecord | None, status: PostedStatus | None) -> str:
    runner = None if record is None else record.process(RUNNER)
    if runner is None or runner.process is None:
        return "the runner is down"
    if status is None or status.process != runner.process:
        return "the runner is starting"
    if status.is_stale:
        return "the runner says nothing"
    return ""
