"""What administrators see of a broker that runs: metrics, status, sessions, quarantine; and what others see of it."""

from __future__ import annotations

import json
import logging
import re
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.broker import client_of, opened, token
from tests.gateway.running import runs
from tidegate.gateway import delivery
from tidegate.gateway.api import routes
from tidegate.gateway.application import Application
from tidegate.gateway.metric_names import BROKER, COUNT_PREFIX, COUNTED, GATEWAY
from tidegate.runs.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs" / "OPERATIONS.md"
SOURCES = Path(__file__).parents[2] / "tidegate"


def run(tmp_path, ask, text="", **settings):
    """Call an async function with a broker whose runner runs, a client, and an administrator's headers."""

    async def once():
        with opened(tmp_path, text) as broker, runs(broker):
            async with client_of(broker, **settings) as client:
                return await ask(broker, client, token(broker, "root", ["administrator"]))

    return anyio.run(once)


def reading(number, **more):
    return {"id": f"r{number}", "source": "hut", "n": number, **more}


async def until(ask, seconds=20):
    """What an async function gives, once that is something."""
    with anyio.fail_after(seconds):
        while not (found := await ask()):
            await anyio.sleep(0.02)
    return found


@asynccontextmanager
async def told(broker, client, root):
    """Ann, who was told ten readings."""
    ann = token(broker, "ann", ["subscriber", "publisher"])
    await client.put("/v1/subscriptions/all", json={"where": "n >= 0"}, headers=ann)
    await client.post("/v1/publications", json=[reading(n) for n in range(10)], headers=ann)

    async def waits():
        answer = await client.get("/v1/sessions/ann", headers=ann)
        queues = answer.json()["queues"] if answer.status_code == 200 else []
        return queues and queues[0]["depth"] == 10

    await until(waits)

    async def is_posted():
        broker.status._until = 0.0
        return root is None or (await client.get("/v1/status", headers=root)).json()["runner"]["numbers"]["row"] == 10

    await until(is_posted)  # the runner writes its numbers once a second
    yield ann


def samples_of(text):
    """The values of samples by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_served_and_parse_and_are_all_documented(tmp_path):
    async def ask(broker, client, root):
        async with told(broker, client, root):
            await client.get("/v1/nowhere")
            broker.status._until = 0.0
            answer = await client.get("/metrics", headers=root)
            assert answer.status_code == 200
            return answer.text, await broker.numbers.sums()

    text, _ = run(tmp_path, ask)
    found = samples_of(text)
    assert found[("tidegate_http_requests_total", "/v1/publications", "202", "POST")] == 1
    assert found[("tidegate_http_request_seconds_count", "/v1/publications", "POST")] == 1
    assert found[("tidegate_http_requests_total", "404", "none", "none")] == 1
    assert found[("tidegate_gateway_published_total", "accepted")] == 10
    assert found[("tidegate_queue_depth", "ann", "stream")] == 10
    assert found[("tidegate_log_rows",)] == 10
    assert found[("tidegate_lag_rows",)] == found[("tidegate_lag_seconds",)] == 0
    assert found[("tidegate_sessions",)] == found[("tidegate_queues",)] == found[("tidegate_gateways",)] == 1
    assert found[("tidegate_registry_version",)] >= 1
    assert found[("tidegate_gateway_memory_bytes",)] > 1e7
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    names = {*(f"{COUNT_PREFIX}{name}_total" for name in COUNTED), *GATEWAY, *BROKER, *(one.name for one in METRICS)}
    assert served == names
    section = DOCS.read_text().split("\n## Metrics\n")[1].split("\n## ")[0]
    documented = set(re.findall(r"^\| `(tidegate_\w+)`", section, re.MULTILINE))
    assert served == documented


def test_everything_that_is_counted_is_served():
    text = "".join(path.read_text() for path in (SOURCES / "gateway").glob("*.py"))
    constants = dict(re.findall(r"^(_[A-Z_]+) = \"(\w+)\"$", text, re.MULTILINE))
    used = {
        name or constants[constant] for name, constant in re.findall(r"\bcounts\.add\(\s*(?:\"(\w+)\"|(\w+))", text)
    }
    assert used <= set(COUNTED)


def test_metrics_want_a_token(tmp_path):
    async def ask(broker, client, root):
        ann = token(broker, "ann", ["subscriber"])
        return [(await client.get("/metrics", headers=headers)).status_code for headers in ({}, ann, root)]

    assert run(tmp_path, ask) == [401, 403, 200]


def test_metrics_without_a_token_are_only_for_programs_of_this_machine(tmp_path):
    async def ask(broker, client, root):
        passed_on = {"X-Forwarded-For": "192.0.2.1"}
        found = [(await client.get("/metrics", headers=headers)).status_code for headers in ({}, passed_on)]
        transport = httpx.ASGITransport(Application(broker, routes()), client=("192.0.2.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://broker") as other:
            return [*found, (await other.get("/metrics")).status_code]

    assert run(tmp_path, ask, "[serve]\nopen_metrics = true\n") == [200, 401, 401]


def test_any_gateway_gives_the_sums_of_all(tmp_path):
    async def ask(broker, client, root):
        with opened(tmp_path) as other:
            async with client_of(other) as its:
                for _ in range(3):
                    assert (await its.get("/healthz")).status_code == 200
                assert (await client.get("/healthz")).status_code == 200
                key = ("tidegate_http_requests_total", "/healthz", "200", "GET")
                for one in (client, its):

                    async def are_added(one=one):
                        found = samples_of((await one.get("/metrics", headers=root)).text)
                        return (found[key], found[("tidegate_gateways",)]) == (4, 2)

                    await until(are_added)  # the other writes once a second
        found = samples_of((await client.get("/metrics", headers=root)).text)
        assert (found[key], found[("tidegate_gateways",)]) == (4, 1)

    run(tmp_path, ask)


def test_status_for_programs_and_for_people(tmp_path):
    async def ask(broker, client, root):
        async with told(broker, client, root) as ann:
            assert (await client.get("/v1/status", headers=ann)).status_code == 403
            broker.status._until = 0.0
            found = (await client.get("/v1/status", headers=root)).json()
            text = (await client.get("/v1/status", headers=root | {"Accept": "text/plain"})).text
            return found, text

    found, text = run(tmp_path, ask)
    assert found["runner"]["kind"] == "process"
    assert found["runner"]["lag"] == {"rows": 0, "seconds": 0.0}
    assert found["log"]["rows"] == 10
    assert found["registry"]["subscriptions"] == 1
    assert found["queues"]["furthest_behind"][0] | {"lag": 0} == {
        "principal": "ann",
        "destination": "stream",
        "depth": 10,
        "lag": 0,
    }
    assert found["counts"]["published"] == {"accepted": 10}
    assert found["sessions"] == 1
    assert found["disk"]["free"] > 0
    assert "ann to stream: 10 wait" in text
    assert "log        10 publications" in text


def test_the_lag_says_how_long_the_oldest_has_waited(tmp_path):
    async def ask():
        with opened(tmp_path) as broker:
            async with client_of(broker) as client:
                with runs(broker):
                    async with told(broker, client, None) as ann:
                        pass
                await client.post("/v1/publications", json=[reading(n) for n in range(10, 13)], headers=ann)
                stamp = broker.log.appended(10)
                broker.clock = lambda: stamp + 7_500_000
                root = token(broker, "root", ["administrator"])
                broker.status._until = 0.0
                return (await client.get("/v1/status", headers=root)).json()["runner"]

    found = anyio.run(ask)
    assert found["lag"] == {"rows": 3, "seconds": 7.5}


def test_sessions_are_seen_and_ended_by_their_own_and_by_administrators(tmp_path):
    async def ask(broker, client, root):
        async with told(broker, client, root) as ann:
            bob = token(broker, "bob", ["subscriber"])
            every = (await client.get("/v1/sessions", headers=root)).json()
            assert [one["principal"] for one in every["sessions"]] == ["ann"]
            assert every["next"] is None
            mine = (await client.get("/v1/sessions", headers=ann)).json()["sessions"]
            assert mine[0]["queues"][0] | {"lag": 0} == {
                "destination": "stream",
                "last": 10,
                "acknowledged": 0,
                "depth": 10,
                "lag": 0,
            }
            assert (await client.get("/v1/sessions", headers=bob)).json() == {"sessions": [], "next": None}
            for method in ("GET", "DELETE"):
                there = await client.request(method, "/v1/sessions/ann", headers=bob)
                gone = await client.request(method, "/v1/sessions/cy", headers=bob)
                assert there.status_code == gone.status_code == 404
                assert there.text.replace("ann", "cy") == gone.text
            assert (await client.delete("/v1/sessions/ann", headers=ann)).status_code == 204
            assert (await client.get("/v1/subscriptions", headers=ann)).json()["subscriptions"] == []
            assert (await client.delete("/v1/sessions/ann", headers=root)).status_code == 404
            assert (await client.get("/v1/sessions/ann", headers=root)).status_code == 404

    run(tmp_path, ask)


def test_sessions_before_the_runner_has_started(tmp_path, monkeypatch):
    async def ask():
        with opened(tmp_path) as broker:
            async with client_of(broker) as client:
                root = token(broker, "root", ["administrator"])
                assert (await client.get("/v1/sessions", headers=root)).json()["code"] == "not_ready"
                found = (await client.get("/v1/status", headers=root)).json()
                assert (found["runner"]["state"], found["queues"]["queues"]) == ("none", 0)
                assert (await client.get("/metrics", headers=root)).status_code == 200

    monkeypatch.setattr(delivery, "_PATIENCE", 0.01)
    anyio.run(ask)


def test_the_quarantine_in_pages(tmp_path):
    async def ask(broker, client, root):
        broker.log.append([reading(5, time="2999-01-01T00:00:00Z"), reading(4, time="2026-01-01T00:00:00Z")])
        broker.log.append([reading(n, time=f"2999-01-0{n}T00:00:00Z") for n in range(6, 9)])
        ann = token(broker, "ann", ["subscriber", "publisher"])
        assert (await client.get("/v1/quarantine", headers=ann)).status_code == 403

        async def rows():
            found, after = [], ""
            while after is not None:
                more = f"&after={after}" if after else ""
                page = (await client.get(f"/v1/quarantine?limit=3{more}", headers=root)).json()
                found, after = found + page["quarantined"], page["next"]
            return found if len(found) == 4 else None

        found = await until(rows)
        assert len({one["place"] for one in found}) == 4
        assert all("a time at most 65 seconds after" in one["reason"] for one in found)
        assert (await client.get("/v1/quarantine?after=x:9", headers=root)).status_code == 200

    run(tmp_path, ask)


def test_the_request_log_has_no_query(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    secret = "tdg_" + 43 * "s"

    async def ask(broker, client, root):
        await client.get("/healthz", headers=root)
        await client.get(f"/v1/stream?access_token={secret}")
        await client.get(f"/v1/tokens?access_token={secret}", headers=root)

    run(tmp_path, ask, "[serve]\nrequest_log = true\n")
    lines = [json.loads(record.message) for record in caplog.records if record.name == "tidegate.requests"]
    assert [(line["method"], line["path"]) for line in lines] == [
        *(("GET", "/healthz"), ("GET", "/v1/stream"), ("GET", "/v1/tokens")),
    ]
    assert (lines[2]["principal"], lines[2]["address"]) == ("root", "127.0.0.1")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("tidegate", "uvicorn"))]
    assert not any(secret in message for message in ours)


@pytest.mark.parametrize("text", ["", "[serve]\nrequest_log = false\n"])
def test_requests_are_logged_only_if_wanted(tmp_path, caplog, text):
    async def ask(broker, client, root):
        await client.get("/healthz")

    caplog.set_level(logging.INFO)
    run(tmp_path, ask, text)
    assert not [record for record in caplog.records if record.name == "tidegate.requests"]
