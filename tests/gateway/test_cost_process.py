"""The process that measures costs, beside a broker as people start it: it measures, goes on after a kill, ends with the
broker, and uses no more than its share of a processor.
"""

from __future__ import annotations

import signal
import time

import httpx
import orjson
import psutil
import pytest

import tidegate as tg
from tests.gateway.served import Broker, served, until
from tests.parts.cost_world import costly
from tidegate.errors import SettingError
from tidegate.runs.config import load

pytestmark = pytest.mark.xdist_group("serve")

#: So that tests need not wait for it.
_ALL = "[costs]\nshare = 1.0\n"


def publish(found, count, first=0):
    body = b"\n".join(
        orjson.dumps({"source": "z", **{f"a{k}": (n * (k + 3) * 7919) % 101 for k in range(9)}, "b": n % 11})
        for n in range(first, first + count)
    )
    headers = {**found.headers, "Content-Type": "application/x-ndjson"}
    assert httpx.post(f"{found.url}/v1/publications", content=body, headers=headers, timeout=60).status_code == 202


def subscribe(found, id, where):
    answer = httpx.put(f"{found.url}/v1/subscriptions/{id}", json={"where": where}, headers=found.headers, timeout=60)
    assert answer.status_code == 201


def cost(found, id):
    return httpx.get(f"{found.url}/v1/subscriptions/{id}", headers=found.headers, timeout=60).json()["cost"]


def test_it_measures_and_goes_on_after_a_kill_and_is_shown(tmp_path):
    with served(tmp_path, text=_ALL) as found:
        first = psutil.Process(found.processes["costs"])
        subscribe(found, "cheap", "a1 > 50")
        subscribe(found, "dear", costly("dear").where)
        publish(found, 500)
        dear = until(lambda: cost(found, "dear"))
        assert dear["microseconds"] > until(lambda: cost(found, "cheap"))["microseconds"]
        with tg.connect(found.url, token=found.token) as broker:
            there = broker.subscription("dear").cost
            assert there.microseconds == dear["microseconds"]
            assert there.measured_at.tzinfo is not None
        assert first.nice() >= 10
        first.kill()
        assert cost(found, "dear") == dear
        subscribe(found, "later", "a2 > 50")
        until(lambda: cost(found, "later"))
        assert found.processes["costs"] != first.pid

        def status():
            time.sleep(1.0)  # the answer is kept so long
            return httpx.get(f"{found.url}/v1/status", headers=found.headers, timeout=60).json()["costs"]

        shown = until(lambda: len((costs := status())["subscriptions"]) == 3 and costs)
        assert (shown["subscriptions"][0]["principal"], shown["subscriptions"][0]["id"]) == ("admin", "dear")
        assert [(one["principal"], one["subscriptions"]) for one in shown["principals"]] == [("admin", 3)]
        plain = {**found.headers, "Accept": "text/plain"}
        text = httpx.get(f"{found.url}/v1/status", headers=plain, timeout=60).text
        assert "cost       " in text
        assert "admin/dear" in text
        metrics = httpx.get(f"{found.url}/metrics", headers=found.headers, timeout=60).text
        assert 'tidegate_cost_microseconds{principal="admin",subscription="dear"}' in metrics
        httpx.delete(f"{found.url}/v1/subscriptions/dear", headers=found.headers, timeout=60)
        until(lambda: [one["id"] for one in status()["subscriptions"] if one["id"] == "dear"] == [])


@pytest.mark.thorough
def test_without_a_share_there_is_no_process(tmp_path):
    with served(tmp_path, text="[costs]\nshare = 0\n") as found:
        assert [one.name for one in found.processes.record().processes] == ["runner", "gateway 1", "webhooks"]


@pytest.mark.thorough
def test_it_ends_with_the_broker(tmp_path):
    broker = Broker(tmp_path, "--runner", "process", text=_ALL)
    try:
        broker.wait()
        process = psutil.Process(broker.processes["costs"])
        process.suspend()  # whatever it does
        broker.started.send_signal(signal.SIGKILL)
        process.resume()
        process.wait(20)
    finally:
        broker.end()


@pytest.mark.thorough
def test_it_uses_no_more_than_its_share(tmp_path):
    """Of two cores, and beside whatever else the machine does: processor time, not how long something takes."""
    with served(tmp_path, text="[costs]\nshare = 0.05\ninterval = 0\n") as found:
        publish(found, 2_000)
        lines = [{"id": f"s{n}", "where": f"a{n % 9} > {n % 100} AND b < 5"} for n in range(9_000)]
        body = b"\n".join(map(orjson.dumps, lines))
        headers = {**found.headers, "Content-Type": "application/x-ndjson"}
        answer = httpx.post(f"{found.url}/v1/subscriptions", content=body, headers=headers, timeout=120)
        assert answer.json()["made"] == 9_000
        process = psutil.Process(found.processes["costs"])
        until(lambda: cost(found, "s8999"))

        def used():
            times = process.cpu_times()
            return times.user + times.system

        before, began = used(), time.monotonic()
        time.sleep(30)
        assert used() - before <= 2 * 0.05 * (time.monotonic() - began) + 3.5
        assert used() - before > 0


def test_the_section_is_checked(tmp_path):
    file = tmp_path / "service.toml"
    for wrong, expected in (
        ("share = 2", "a number from 0 to 1"),
        ("publications = 50", "a whole number from 100 to 100000"),
        ("speed = 1", "a key of interval, publications, share, threshold"),
    ):
        file.write_text(f'[run]\ndata = "data"\nrunner = "process"\n[costs]\n{wrong}\n')
        with pytest.raises(SettingError, match=expected):
            load(file)
