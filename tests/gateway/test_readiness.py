"""/readyz: what keeps a broker from being ready, what it does without, and how far its runner is behind."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio
import orjson
import pytest

import tidegate as tg
from tests.gateway.broker import client_of, opened
from tidegate.broker.broker_record import BrokerRecord, ProcessRecord
from tidegate.runs.status import Status
from tidegate.runs.status_file import StatusWriter

ME = os.getpid()
RECORD = BrokerRecord(
    ME, "http://broker", 1, 2, (ProcessRecord("runner", ME, 1, 1), ProcessRecord("gateway 1", 7, 3, 1))
)


class Part:
    is_ready = True

    async def start(self):
        pass

    async def stop(self):
        pass


@pytest.fixture
def broker(tmp_path):
    """A broker whose runner has made a batch up to the first row, and whose only part is ours."""
    with opened(tmp_path) as found:
        found.data.run.mkdir()
        RECORD.write(found.data)
        status = Status(found.registry)
        status.add(0, [], 0.0, 0.0, row=1)
        with StatusWriter(found.config.run.checkpoint, "query", status.snapshot):
            pass
        found.parts[:] = [Part()]
        yield found


def asked(broker):
    async def once():
        async with client_of(broker) as client:
            answer = await client.get("/readyz")
            return answer.status_code, answer.json()

    return anyio.run(once)


def test_the_lag_is_what_is_not_matched_yet(broker):
    assert asked(broker) == (200, {"status": "ready", "lag": 0})
    time = "2026-11-19T00:00:00Z"
    broker.log.append([tg.Publication(str(n), "z", time, {}) for n in range(4)])
    assert asked(broker) == (200, {"status": "ready", "lag": 3})


def test_without_its_runner_it_is_degraded(broker):
    for process, says in ((None, "the runner is down"), (ME + 1, "the runner is starting")):
        replace(RECORD, processes=(ProcessRecord("runner", process, 2, 1),)).write(broker.data)
        assert asked(broker) == (200, {"status": "degraded", "degraded": says, "lag": 0})
    RECORD.write(broker.data)
    status = broker.data.checkpoint / "status.json"
    status.write_bytes(orjson.dumps(orjson.loads(status.read_bytes()) | {"at": "2026-11-18T00:00:00Z"}))
    assert asked(broker)[1]["degraded"] == "the runner says nothing"


def test_what_keeps_it_from_being_ready(broker, monkeypatch):
    def missing():
        code, found = asked(broker)
        assert (code, found["code"]) == (503, "not_ready")
        return found["expected"]

    for record in (None, replace(RECORD, ready_at=None)):
        BrokerRecord.remove(broker.data)
        if record is not None:
            record.write(broker.data)
        assert missing() == "the first batch of the runner"
    RECORD.write(broker.data)
    Part.is_ready = False
    try:
        assert missing() == "what starts: Part"
    finally:
        Part.is_ready = True
    with monkeypatch.context() as patched:
        patched.setattr(broker.free_room, "is_full", lambda: True)
        assert missing() == "room on the disk"
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: False)
        assert missing() == "a log that can be written"
    assert asked(broker)[0] == 200


def test_a_record_that_is_none_is_said_to_be_one(broker):
    for content, says in ((b"{", "JSONDecodeError"), (b'{"format": 2}', "format 2"), (b'{"format": 1}', "KeyError")):
        (broker.data.run / "broker.json").write_bytes(content)
        code, found = asked(broker)
        assert (code, says in found["got"]) == (503, True), found
