"""Reading a queue by requests: pages, long polls, and what is acknowledged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateway.live_broker import live


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("notifications")) as found:
        found.run()
        yield found


def publications(first, count, **more):
    return [
        {"id": f"p{n}", "source": "z1", "time": "2026-11-18T08:00:00Z", "n": n, **more}
        for n in range(first, first + count)
    ]


def numbers(page):
    return [item["number"] for item in page["notifications"]]


def test_pages_and_acknowledgements(broker):
    with broker.client("ann") as ann:
        assert ann.put("/v1/subscriptions/s1", json={"where": "n > 3"}).status_code == 201
        assert ann.post("/v1/publications", json=publications(0, 10)).json()["accepted"] == 10
        broker.run()
        page = ann.get("/v1/notifications", params={"limit": 4}).json()
        assert numbers(page) == [1, 2, 3, 4]
        assert (page["last"], page["oldest"], page["next"]) == (6, 1, f"{page['epoch']}-4")
        first = page["notifications"][0]
        assert first["subscriptions"] == ["s1"]
        assert first["publication"] == {
            "id": "p4",
            "source": "z1",
            "time": "2026-11-18T08:00:00.000000Z",
            "attributes": {"n": 4},
        }
        assert numbers(ann.get("/v1/notifications", params={"after": page["next"]}).json()) == [5, 6]
        assert ann.post("/v1/notifications/ack", json={"upto": 4.5}).status_code == 422
        assert ann.post("/v1/notifications/ack", json={"upto": 5.0}).status_code == 204
        assert numbers(ann.get("/v1/notifications").json()) == [6]
        assert ann.post("/v1/notifications/ack", json={"upto": 2}).status_code == 204
        assert numbers(ann.get("/v1/notifications").json()) == [6]
        assert ann.post("/v1/notifications/ack", json={"upto": 7}).status_code == 422
        assert ann.get("/v1/notifications", params={"after": "x"}).status_code == 422


def test_a_long_poll_waits_for_the_first(broker):
    with broker.client("bob") as bob, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bob.get, "/v1/notifications", params={"wait": 30})
        assert bob.put("/v1/subscriptions/s1", json={"where": "n >= 100"}).status_code == 201
        assert bob.post("/v1/publications", json=publications(100, 1)).status_code == 202
        broker.run()
        assert numbers(waiting.result().json()) == [1]
