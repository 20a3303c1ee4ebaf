"""How long publications took from accepted to matched, and from matched to delivered, is measured of what goes live."""

from __future__ import annotations

import time

from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications


def test_what_is_delivered_live_is_measured_and_backlog_is_not(tmp_path):
    with live(tmp_path) as broker, broker.client("ann") as ann:
        numbers = broker.broker.numbers
        ann.put("/v1/subscriptions/s1", json={"where": "n >= 0"})
        ann.post("/v1/publications", json=publications(0, 3))
        broker.run()
        with Client(broker, "ann") as socket:
            assert [socket.receive()["type"] for _ in range(4)] == ["hello", *3 * ["notification"]]
            assert sum(numbers.delivered.numbers[:-1]) == 0
            time.sleep(0.05)
            began = time.monotonic()
            ann.post("/v1/publications", json=publications(3, 2))
            broker.run()
            assert [socket.receive()["number"] for _ in range(2)] == [4, 5]
            took = time.monotonic() - began
    matched, delivered = numbers.matched.numbers, numbers.delivered.numbers
    assert sum(matched[:-1]) == sum(delivered[:-1]) >= 1
    assert 0 < matched[-1] + delivered[-1] <= took * sum(matched[:-1])
