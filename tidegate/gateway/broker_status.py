"""How a broker stands: what its stores hold, how far its runner and its queues are behind, and its processes.

``status_of`` looks at everything; ``StatusReader`` has it looked at once a second at most, whoever asks. Works in
threads. The numbers that gateways count are elsewhere: ``gateway_numbers``.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from tidegate import __version__
from tidegate.broker.bridge_record import BRIDGE, BridgeRecord
from tidegate.broker.broker_record import BrokerRecord
from tidegate.broker.shown_costs import costs_shown
from tidegate.gateway.process_usage import usage_of
from tidegate.model import micros
from tidegate.runs.status_file import posted
from tidegate.store.valid_usage import ValidUsage

if TYPE_CHECKING:
    from tidegate.gateway.open_broker import OpenBroker
    from tidegate.store.log import Log

__all__ = ["BrokerStatus", "StatusReader", "status_of"]

#: Queues that are shown, those furthest behind first.
_LONGEST = 10
#: Microseconds within which a run that lives posts its numbers again.
_POSTED = 2_500_000
#: Seconds for which what was found is shown again.
_KEPT = 1.0


@dataclass(frozen=True)
class BrokerStatus:
    """How a broker stands; times are texts of RFC 3339, sizes bytes, durations seconds."""

    version: str
    at: str
    uptime: float | None
    runner: dict[str, Any]
    log: dict[str, Any]
    disk: dict[str, Any]
    valid_set: dict[str, Any]
    identities: dict[str, Any]
    registry: dict[str, Any]
    queues: dict[str, Any]
    connections: dict[str, int]
    sessions: int
    processes: list[dict[str, Any]]
    mqtt: dict[str, Any] | None
    webhooks: dict[str, Any]
    costs: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class StatusReader:
    """How a broker stands, looked at when somebody asks and the last look is a second ago. Threads may share it."""

    def __init__(self, broker: OpenBroker) -> None:
        self._broker, self._lock = broker, threading.Lock()
        self._found: BrokerStatus | None = None
        self._until = float("-inf")

    def read(self) -> BrokerStatus:
        with self._lock:
            if self._found is None or monotonic() >= self._until:
                self._found = status_of(self._broker)
                self._until = monotonic() + _KEPT
            return self._found


def status_of(broker: OpenBroker) -> BrokerStatus:
    """How a broker stands now."""
    now, record = broker.clock(), BrokerRecord.read(broker.data)
    disk = shutil.disk_usage(broker.data.path)
    begin, end = broker.log.begin, broker.log.end
    valid, most = _valid(broker)
    sessions, connections = _sessions(broker, now)
    return BrokerStatus(
        version=__version__,
        at=_text(now),
        uptime=None if record is None else max(0.0, (now - record.began_at) / 1e6),
        runner=_runner(broker, now, end),
        log={"first_row": begin, "end_row": end, "rows": end - begin, "bytes": broker.log.nbytes},
        disk={"bytes": disk.total, "free": disk.free},
        valid_set={"bytes": valid, "most": most},
        identities=_identities(broker),
        registry={"version": broker.registry.version, "subscriptions": len(broker.registry)},
        queues=_queues(broker, now),
        connections=connections,
        sessions=sessions,
        processes=_processes(record),
        mqtt=_mqtt(broker, record),
        webhooks=_webhooks(broker),
        costs=costs_shown(broker.costs),
    )


def _runner(broker: OpenBroker, now: int, end: int) -> dict[str, Any]:
    """The numbers that the runner wrote last, and how far it is behind the end of the log."""
    found = posted(broker.config.run.checkpoint)
    facts: dict[str, Any] = {"kind": broker.data.runner, "state": "none", "stale": False, "numbers": {}}
    if found is None:
        return facts | {"lag": _lag(broker.log, 0, end, now)}
    row = found.numbers.get("row", -1)
    facts |= {"state": found.numbers["state"], "stale": found.is_stale, "numbers": found.numbers}
    if found.numbers["state"] == "running" and now - micros(found.at) < _POSTED:  # what came since may be done by now
        now = micros(found.at)
        end = broker.log.end_before(now)
    return facts | {"lag": _lag(broker.log, row, end, now)}


def _lag(log: Log, row: int, end: int, now: int) -> dict[str, Any]:
    """How many rows from ``row`` on are not matched, and for how long the oldest of them has waited."""
    row = max(row, log.begin)
    since = log.appended(row) if row < end else None
    return {"rows": max(0, end - row), "seconds": 0.0 if since is None else max(0.0, (now - since) / 1e6)}


def _valid(broker: OpenBroker) -> tuple[int | None, int | None]:
    usage = ValidUsage(broker.data.valid)
    try:
        return usage.read() or (None, None)
    finally:
        usage.close()


def _identities(broker: OpenBroker) -> dict[str, Any]:
    found = broker.log.identities
    assert found is not None, "a data directory's log knows identities"
    facts = {"capacity": found.capacity, "horizon": found.horizon.total_seconds()}
    return {**facts, "bytes": found.size, "forgotten": found.forgotten}


def _queues(broker: OpenBroker, now: int) -> dict[str, Any]:
    queues = broker.delivery.queues
    if queues is None:
        return {"queues": 0, "bytes": 0, "waiting": 0, "furthest_behind": []}
    waiting, longest = queues.furthest_behind(_LONGEST)
    return {
        "queues": len(queues),
        "bytes": queues.nbytes,
        "waiting": waiting,
        "furthest_behind": [
            {
                "principal": one.principal,
                "destination": one.destination,
                "depth": one.waiting,
                "lag": 0.0 if one.waiting_since is None else max(0.0, (now - one.waiting_since) / 1e6),
            }
            for one in longest
        ],
    }


def _sessions(broker: OpenBroker, now: int) -> tuple[int, dict[str, int]]:
    queues = broker.delivery.queues
    if queues is None:
        return 0, {}
    found: dict[str, int] = {}
    for one in queues.records.connections(now):
        found[one.destination] = found.get(one.destination, 0) + 1
    return queues.records.count, found


def _mqtt(broker: OpenBroker, record: BrokerRecord | None) -> dict[str, Any] | None:
    """The bridge to an MQTT broker, as it wrote down last how it stands; None without one."""
    if not broker.has_mqtt:
        return None
    found, process = BridgeRecord.read(broker.data), None if record is None else record.process(BRIDGE)
    if found is None or (process is not None and process.process != found.process):
        return {"connected": False, "problem": "the bridge is down"}
    return {
        "connected": found.is_connected,
        "since": _text(found.since),
        "address": found.address,
        "client_id": found.client_id,
        "problem": found.problem,
        "receiving": found.receiving,
        "sending": found.sending,
        "queues": found.queues,
    }


def _webhooks(broker: OpenBroker) -> dict[str, Any]:
    """How many webhooks there are in each state, and some that are given nothing."""
    found = broker.webhooks.failing(_LONGEST)
    names = ("principal", "name")
    shown = [
        {**{name: getattr(one, name) for name in names}, "state": one.progress.state, "reason": one.progress.reason}
        for one in found
    ]
    return {"states": broker.webhooks.by_state(), "failing": shown}


def _processes(record: BrokerRecord | None) -> list[dict[str, Any]]:
    """The processes of the broker; where nobody supervises it, this one."""
    if record is None:
        return [_process("gateway", os.getpid(), None, None)]
    found = [_process("supervisor", record.supervisor, None, record.began_at)]
    return found + [_process(one.name, one.process, one.starts, one.since) for one in record.processes]


def _process(name: str, process: int | None, starts: int | None, since: int | None) -> dict[str, Any]:
    usage = None if process is None else usage_of(process)
    return {
        "name": name,
        "process": process,
        "starts": starts,
        "since": None if since is None else _text(since),
        "cpu_seconds": None if usage is None else usage.cpu_seconds,
        "memory": None if usage is None else usage.memory_bytes,
    }


def _text(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
