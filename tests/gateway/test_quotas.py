"""What a principal may use of everything: each quota is kept to, and binds nobody else."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from websockets.exceptions import InvalidStatus

from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import numbers, publications


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("quotas")) as found:
        yield found


def limit(broker, principal, **quotas):
    broker.broker.principals.put(principal, quotas=quotas)


def test_subscriptions(broker):
    limit(broker, "ann", subscriptions=2)
    with broker.client("ann") as ann:
        found = [ann.put(f"/v1/subscriptions/s{n}", json={"where": "n > 1"}).status_code for n in (0, 1, 2, 0)]
    assert found == [201, 201, 429, 200]


def test_publications_a_second(broker):
    limit(broker, "bob", publications_per_second=5)
    with broker.client("bob") as bob, broker.client("cy") as cy:
        assert bob.post("/v1/publications", json=publications(1000, 20)).status_code == 202  # it owes them
        answer = bob.post("/v1/publications", json=publications(1020, 1))
        assert (answer.status_code, answer.json()["code"]) == (429, "rate")
        assert int(answer.headers["retry-after"]) >= 2
        assert cy.post("/v1/publications", json=publications(1020, 1)).status_code == 202


def test_connections(broker):
    limit(broker, "dora", connections=1)
    broker.register("dora")
    with Client(broker, "dora") as first:
        assert first.receive()["type"] == "hello"
        with pytest.raises(InvalidStatus) as refused, Client(broker, "dora"):
            pass
        assert refused.value.response.status_code == 429
        with Client(broker, "cy") as other:
            other.ask("ping")


def test_the_size_of_queues(broker):
    with broker.client("eve") as eve, broker.client("fay") as fay:
        for client in (eve, fay):
            client.put("/v1/subscriptions/s", json={"where": "n >= 2000"})
        eve.post("/v1/publications", json=publications(2000, 10))
        broker.run()
        assert numbers(eve.get("/v1/notifications").json()) == list(range(1, 11))
        limit(broker, "eve", queue_size=3)
        until = time.monotonic() + 5
        while len(found := eve.get("/v1/notifications", params={"after": "0"}).json()["notifications"]) != 4:
            assert time.monotonic() < until, found
        assert found[0] == {"type": "gap", "from": 1, "to": 7, "oldest": 8, "reason": "retention"}
        assert [item["number"] for item in found[1:]] == [8, 9, 10]
        assert eve.get("/v1/sessions/eve").json()["queues"][0]["depth"] == 3
        assert len(fay.get("/v1/notifications").json()["notifications"]) == 10
        limit(broker, "eve")
        while len(eve.get("/v1/notifications", params={"after": "0"}).json()["notifications"]) != 10:
            assert time.monotonic() < until


def test_what_is_valid_at_once(broker):
    limit(broker, "gil", valid_set=3)
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with broker.client("gil") as gil, broker.client("cy") as cy:

        def publish(client, some):
            answer = client.post("/v1/publications", json=some).json()
            return answer["accepted"], answer["duplicates"], [(one["index"], one["code"]) for one in answer["refused"]]

        first = publications(3000, 2, valid_until=later) + publications(3002, 1, valid_until=soon)
        assert publish(gil, first) == (3, 0, [])
        assert publish(gil, publications(3010, 1, valid_until=later)) == (0, 0, [(0, "validity")])
        assert publish(gil, publications(3011, 1)) == (1, 0, [])
        assert publish(cy, publications(3012, 5, valid_until=later)) == (5, 0, [])
        time.sleep(1.1)  # the validity of one has ended
        more = publications(3020, 3, valid_until=later)
        assert publish(gil, more) == (1, 0, [(1, "validity"), (2, "validity")])


def test_requests_at_the_same_time_share_what_may_be_valid(broker):
    limit(broker, "ida", valid_set=3)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with broker.client("ida") as ida, ThreadPoolExecutor(8) as pool:
        found = [
            pool.submit(ida.post, "/v1/publications", json=publications(5000 + 10 * n, 3, valid_until=later))
            for n in range(8)
        ]
        assert sum(answer.result().json()["accepted"] for answer in found) == 3
    assert not broker.broker.valid_quotas._under_way


def test_a_retry_uses_up_nothing(broker):
    limit(broker, "hal", valid_set=4)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with broker.client("hal") as hal:
        for accepted, duplicates in ((2, 0), (0, 2)):
            found = hal.post("/v1/publications", json=publications(4000, 2, valid_until=later)).json()
            assert (found["accepted"], found["duplicates"]) == (accepted, duplicates)
        found = hal.post("/v1/publications", json=publications(4002, 2, valid_until=later)).json()
        assert (found["accepted"], found["refused"]) == (2, [])


def test_a_retry_at_a_full_quota_is_a_duplicate(broker):
    limit(broker, "jan", valid_set=3)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with broker.client("jan") as jan:
        known = publications(6000, 3, valid_until=later)
        assert jan.post("/v1/publications", json=known).json()["accepted"] == 3
        other = {**known[1], "n": -1}
        new, without_id = publications(6003, 2, valid_until=later)
        del without_id["id"]
        answer = jan.post("/v1/publications", json=[new, *known, other, without_id])
        found = answer.json()
        assert (answer.status_code, found["accepted"], found["duplicates"]) == (202, 0, 3)
        assert [(one["index"], one["code"]) for one in found["refused"]] == [
            (0, "validity"),
            (4, "conflict"),
            (5, "validity"),
        ]
        assert found["ids"] == {}
