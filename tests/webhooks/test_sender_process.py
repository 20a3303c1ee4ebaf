"""The sender as a process of a broker: it sleeps until there is a webhook, comes back when it was killed, and leaves
nothing out.
"""

from __future__ import annotations

import os
import random
import signal

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.served import Broker, served, until
from tests.webhooks.receiver import receiving
from tests.webhooks.sending import SETTINGS
from tidegate.broker.webhook_mark import mark_of
from tidegate.cli.serve import _prepared
from tidegate.runs.config import load
from tidegate.store.webhooks import StoredWebhooks

PATIENCE = 120


def client_of(broker):
    return httpx.Client(base_url=broker.url, headers=broker.headers, timeout=60)


def endpoint(client, name, url, **more):
    assert client.put(f"/v1/webhooks/{name}", json={"url": url, **more}).status_code == 201
    answer = client.put(f"/v1/subscriptions/{name}", json={"where": "n >= 0", "deliver": {"webhook": name}})
    assert answer.status_code == 201, answer.text


def publish(client, first, count):
    some = [{"source": "hut", "id": f"p{n}", "n": n} for n in range(first, first + count)]
    answer = client.post("/v1/publications", json=some)
    assert answer.json()["accepted"] == count, answer.text


def check_told(receiver, path, count):
    """Each number came, first in order, with what belongs to it, and what came again is what came before."""
    until(lambda: len(set(receiver.numbers(path))) >= count, PATIENCE)
    found = [one.json for one in receiver.told(path)]
    first = list(dict.fromkeys(one["number"] for one in found))
    assert first == list(range(1, count + 1))
    by_number = {one["number"]: one["publication"]["id"] for one in found}
    assert {one["publication"]["id"] for one in found if by_number[one["number"]] != one["publication"]["id"]} == set()
    assert [by_number[n] for n in first] == [f"p{n}" for n in range(count)]
    return len(found) - count


def test_it_sleeps_until_there_is_a_webhook_and_stops_when_it_is_asked_to(tmp_path):
    with receiving() as receiver, served(tmp_path, text=SETTINGS) as broker, client_of(broker) as client:
        asleep = psutil.Process(broker.processes["webhooks"])
        assert asleep.memory_info().rss < 60_000_000
        assert len(asleep.open_files()) < 5
        endpoint(client, "hook", f"{receiver.url}/a")
        publish(client, 0, 20)
        assert check_told(receiver, "/a", 20) == 0
        assert broker.processes["webhooks"] == asleep.pid

        def counted():
            text = client.get("/metrics").text
            found = {
                (sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
            return found.get(("tidegate_webhook_posts_total", "answered")) == 21 and found

        found = until(counted, PATIENCE)
        assert found["tidegate_webhook_items_total", "delivered"] == 20
        assert found["tidegate_webhook_verifications_total", "answered"] == 1
        assert found["tidegate_webhook_delivery_seconds_count",] == 20
        assert found["tidegate_webhook_post_seconds_count",] == 21
        assert found["tidegate_gateways",] == 1
        status = until(lambda: (s := client.get("/v1/status").json()["webhooks"])["states"]["active"] and s, PATIENCE)
        assert status["failing"] == []
        broker.processes.started.send_signal(signal.SIGTERM)
        broker.processes.started.wait(30)
        assert not asleep.is_running()
        assert "did not stop in time" not in broker.processes.log.read_text()


def killed_while_posting(directory, kills, each, seed):
    """Publish so many between kills of the sender, at moments that are drawn; how many deliveries came again."""
    rng = random.Random(seed)
    with receiving() as receiver, served(directory, text=SETTINGS) as broker, client_of(broker) as client:
        endpoint(client, "hook", f"{receiver.url}/a")
        endpoint(client, "batches", f"{receiver.url}/b", batch={"items": 7})
        for number in range(kills):
            publish(client, number * each, each)
            low = number * each + rng.randrange(each)
            until(lambda low=low: len(receiver.numbers("/a")) > low, PATIENCE)
            os.kill(broker.processes["webhooks"], signal.SIGKILL)
        publish(client, kills * each, each)
        total = (kills + 1) * each
        doubles = check_told(receiver, "/a", total)

        def in_batches():
            return [item["number"] for one in receiver.told("/b") for item in one.json["notifications"]]

        until(lambda: len(set(in_batches())) == total, PATIENCE)
        assert list(dict.fromkeys(in_batches())) == list(range(1, total + 1))
        assert broker.processes.record().process("webhooks").starts == kills + 1
        assert sum(one.is_challenge for one in receiver.by_path["/a"]) <= kills + 1
        return doubles


def test_a_sender_that_is_killed_leaves_nothing_out(tmp_path):
    doubles = killed_while_posting(tmp_path, kills=1, each=100, seed=1)
    assert doubles < 200


@pytest.mark.thorough
def test_twenty_kills_of_the_sender(tmp_path):
    doubles = killed_while_posting(tmp_path, kills=20, each=1_000, seed=2)
    print(f"20 kills, 21,000 deliveries, {doubles:,} came again")


@pytest.mark.thorough
def test_a_broker_that_is_killed_goes_on_posting_where_it_was(tmp_path):
    with receiving() as receiver:
        broker = Broker(tmp_path, "--runner", "process", text=SETTINGS)
        try:
            headers = {"Authorization": "Bearer a-token-that-only-tests-have"}
            with httpx.Client(base_url=broker.wait(), headers=headers, timeout=60) as client:
                endpoint(client, "hook", f"{receiver.url}/a")
                publish(client, 0, 300)
                until(lambda: len(receiver.numbers("/a")) > 100, PATIENCE)
            broker.started.kill()
            broker.started.wait()
            broker = Broker(tmp_path, "--runner", "process", text=SETTINGS)
            with httpx.Client(base_url=broker.wait(), headers=headers, timeout=60) as client:
                publish(client, 300, 100)
            check_told(receiver, "/a", 400)
        finally:
            broker.end()


def waiting(client):
    return [
        one for one in client.get("/v1/sessions/admin").json()["queues"] if one["destination"].startswith("webhook:")
    ]


def test_a_broker_that_starts_with_webhooks_makes_the_mark(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text('[run]\ndata = "data"\nrunner = "process"\n')
    config = load(file)
    data = config.made()
    with StoredWebhooks(data.registry) as webhooks:
        _prepared(config, data)
        assert not mark_of(data.run).exists()
        webhooks.put("ann", "hook", "https://example.com/", batch=None, secret=None, most=1)
    _prepared(config, data)
    assert mark_of(data.run).exists()


@pytest.mark.thorough
def test_a_sender_that_was_restored_is_woken(tmp_path):
    with receiving() as receiver:
        with served(tmp_path, text=SETTINGS) as broker, client_of(broker) as client:
            endpoint(client, "hook", f"{receiver.url}/a")
            publish(client, 0, 3)
            check_told(receiver, "/a", 3)
            until(lambda: all(one["depth"] == 0 for one in waiting(client)), PATIENCE)
        (broker.processes.data.run / "webhooks").unlink()  # as in a directory that was restored
        with served(tmp_path, text=SETTINGS) as broker, client_of(broker) as client:
            publish(client, 3, 3)
            assert check_told(receiver, "/a", 6) == 0
