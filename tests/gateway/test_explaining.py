"""Explanations: they agree with what matches, of patterns too, and nobody learns of what it may not read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest

import tidegate as tg
from tests.gateway.broker import client_of, opened, token
from tests.gateway.test_application import problem_of
from tidegate.gateway.rehearsal import rehearsed

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return round(self.now.timestamp() * 1e6)


@pytest.fixture
def ask(tmp_path):
    """Call a function with a client of ann, who may read n below 5 only, the broker, and its clock."""

    def asked(work):
        async def once():
            clock = Clock()
            with opened(tmp_path, clock=clock) as broker:
                headers = token(broker, "ann", ["subscriber"], read="n < 5")
                async with client_of(broker, headers=headers) as client:
                    return await work(client, broker, clock)

        return anyio.run(once)

    return asked


def reading(id, n, ago=0, **more):
    return tg.Publication(id, "z/7", NOW - timedelta(seconds=ago), {"n": n, "gap": [1.0, float("nan")]}, **more)


def test_of_a_publication_that_is_given(ask):
    async def work(client, broker, clock):
        await client.put("/v1/subscriptions/s", json={"where": "n > 2 AND NOT n = 3"})

        async def explained(**given):
            body = {"subscription": "s", "publication": {"source": "z", **given}}
            return (await client.post("/v1/explain", json=body)).json()

        found = await explained(n=4)
        assert (found["matches"], found["readable"], found["reasons"]) == (True, True, [])
        assert [(part["text"], part["held"]) for part in found["explanation"]["parts"]] == [
            ("n > 2", True), ("NOT n = 3", True)
        ]  # fmt: skip
        found = await explained(attributes={"n": 3})
        assert (found["matches"], found["explanation"]["parts"][1]["held"]) == (False, False)
        found = await explained(n=7)
        assert (found["matches"], found["explanation"]["held"], found["readable"]) == (False, True, False)
        found = await explained(n=4, valid_until="2026-11-15T11:00:00Z", time="2026-11-15T12:30:00Z")
        assert (found["matches"], len(found["reasons"])) == (False, 2)
        problem_of(await client.post("/v1/explain", json={"subscription": "s"}), 422, "body")
        body = {"subscription": "s", "publication": {"n": 1}}
        problem_of(await client.post("/v1/explain", json=body), 422, "publication")
        over = {"where": "n > 1", "active_until": "2026-11-01T00:00:00Z"}
        body = {"subscription": over, "publication": {"source": "z", "n": 2}}
        assert not (await client.post("/v1/explain", json=body)).json()["matches"]

    ask(work)


def test_of_one_of_the_log_that_may_be_read(ask):
    async def work(client, broker, clock):
        broker.log.append(
            [reading("p/1", 4), reading("p2", 7), reading("p3", 1, phase="START"), reading("p3", 9, phase="END")]
        )
        await client.put("/v1/subscriptions/s", json={"where": "n > 2"})
        broker.log.append([reading("p5", 4)])

        async def explained(id, **more):
            body = {"subscription": "s", "named": {"source": "z/7", "id": id, **more}}
            return await client.post("/v1/explain", json=body)

        found = (await explained("p/1")).json()
        assert (found["matches"], found["explanation"]["held"]) == (False, True)
        assert found["reasons"] == ["the publication came before the subscription was made"]
        assert (await explained("p5")).json()["matches"]
        found = (await explained("p3")).json()
        assert found["explanation"]["values"] == {"n": 1}
        hidden = problem_of(await explained("p2"), 404, "not_found")
        absent = problem_of(await explained("p9"), 404, "not_found")
        assert {**hidden, "detail": "", "got": ""} == {**absent, "detail": "", "got": ""}
        assert hidden["got"] == absent["got"].replace("p9", "p2")
        problem_of(await explained("p3", phase="END"), 404, "not_found")
        assert broker.log.unpublish([("z/7", "p5")]) == [True]
        problem_of(await explained("p5"), 404, "not_found")
        bob = token(broker, "bob", ["subscriber"])
        body = {"subscription": "s", "named": {"source": "z/7", "id": "p2"}}
        problem_of(await client.post("/v1/explain", json=body, headers=bob), 404, "unknown")

    ask(work)


def test_of_a_pattern_by_what_came_before_and_may_be_read(ask, monkeypatch):
    async def here(broker, caller, task):
        *_, last = rehearsed(task)
        return last

    monkeypatch.setattr("tidegate.gateway.explaining.computed", here)

    async def work(client, broker, clock):
        for number, n in enumerate([4, 9, 1, 3]):
            clock.now = NOW - timedelta(minutes=20 - number)
            broker.log.append([reading(f"p{number}", n, 60 * (20 - number))])
        clock.now = NOW
        subscription = {"where": "topk(2, 'PT1H', n)"}
        body = {"subscription": subscription, "publication": {"source": "z", "id": "new", "n": 4.5}}
        found = (await client.post("/v1/explain", json=body)).json()
        assert (found["matches"], found["explanation"]["parts"][0]["facts"]["rank"]) == (False, 4)
        assert "p1" not in str(found)
        body = {"subscription": subscription, "named": {"source": "z/7", "id": "p3"}}
        found = (await client.post("/v1/explain", json=body)).json()
        assert (found["matches"], found["explanation"]["parts"][0]["facts"]["rank"]) == (True, 2)

    ask(work)
