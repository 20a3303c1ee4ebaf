"""Webhooks over HTTP: who may make which, what is refused, what is shown, and that secrets are told once."""

from __future__ import annotations

import json
import logging

import pytest

from tests.gateway.live_broker import live
from tests.webhooks.hostile_urls import REFUSED
from tidegate.store.webhook_secrets import made
from tidegate.store.webhook_tables import DeadLetters, Progress

URL = "https://example.com/hook"


@pytest.fixture
def broker(tmp_path):
    with live(tmp_path, "[webhooks]\nendpoints = 3\n") as broker:
        broker.run()
        yield broker


@pytest.fixture
def ann(broker):
    with broker.client("ann", "subscriber") as client:
        yield client


def test_an_endpoint_is_made_shown_changed_and_removed(broker, ann):
    first = ann.put("/v1/webhooks/hook", json={"url": URL})
    assert first.status_code == 201
    secret = first.json().pop("secret")
    assert secret.startswith("whsec_")
    shown = {name: value for name, value in first.json().items() if name != "secret"}
    assert ann.get("/v1/webhooks/hook").json() == shown
    assert (shown["state"], shown["failures"], shown["batch"]) == ("unverified", 0, None)
    again = ann.put("/v1/webhooks/hook", json={"url": URL})
    assert (again.status_code, again.json()) == (200, shown)
    batched = ann.put("/v1/webhooks/hook", json={"url": URL, "batch": {"items": 9}})
    assert batched.json()["batch"] == {"items": 9, "bytes": 262_144}
    assert ann.get("/v1/webhooks").json() == {"webhooks": [batched.json()], "next": None}
    assert ann.delete("/v1/webhooks/hook").status_code == 204
    assert ann.delete("/v1/webhooks/hook").status_code == ann.get("/v1/webhooks/hook").status_code == 404
    assert {cause: count for name, cause, count in broker.broker.counts.items() if name == "webhooks"} == {
        "made": 1,
        "changed": 2,
        "removed": 1,
    }


def test_addresses_that_nobody_may_post_to_are_refused(ann):
    for url in REFUSED[::4]:
        answer = ann.put("/v1/webhooks/hook", json={"url": url})
        assert answer.status_code == 422, (url, answer.text)
        assert answer.json()["code"] in ("webhook", "body")
    assert ann.get("/v1/webhooks").json()["webhooks"] == []


def test_names_that_cannot_be_are_refused(ann):
    for name in ("a b", "ä", 65 * "x", "a%2Fb", "a~"):
        answer = ann.put(f"/v1/webhooks/{name}", json={"url": URL})
        assert (answer.status_code, answer.json()["at"]) == (422, "name")


def test_bodies_that_are_wrong_are_refused(ann):
    wrong = [
        *({}, {"url": 7}, {"url": ""}, {"url": URL, "other": 1}, {"url": URL, "batch": {"items": 0}}),
        *({"url": URL, "batch": {"items": 1001}}, {"url": URL, "batch": {"bytes": 2**21}}, {"url": URL, "batch": 7}),
        *({"url": URL, "batch": {"items": 1.5}}, {"url": URL, "secret": "short"}, {"url": URL, "secret": "whsec_####"}),
        {"url": URL, "secret": 7},
    ]
    for body in wrong:
        answer = ann.put("/v1/webhooks/hook", json=body)
        assert answer.status_code == 422, body
        assert "####" not in answer.text
    whole = ann.put("/v1/webhooks/hook", json={"url": URL, "batch": {"items": 7.0}})
    assert whole.json()["batch"] == {"items": 7, "bytes": 262_144}


def test_each_sees_its_own_only(broker, ann):
    ann.put("/v1/webhooks/hook", json={"url": URL})
    with broker.client("bob", "subscriber") as bob, broker.client("root", "administrator", "subscriber") as root:
        for client in (bob, root):
            assert client.get("/v1/webhooks").json()["webhooks"] == []
            assert client.get("/v1/webhooks/hook").status_code == 404
            assert client.delete("/v1/webhooks/hook").status_code == 404
            for what in ("verify", "rotate", "replay"):
                body = {"from": 1, "to": 1} if what == "replay" else {}
                assert client.post(f"/v1/webhooks/hook/{what}", json=body).status_code == 404
            assert client.get("/v1/webhooks/hook/dead").status_code == 404
        found = root.get("/v1/status").json()["webhooks"]
        assert found == {"states": {"unverified": 1, "active": 0, "failing": 0, "disabled": 0}, "failing": []}
    with broker.client("pub", "publisher") as publisher:
        assert publisher.get("/v1/webhooks").status_code == 403


def test_one_has_so_many_at_most(ann):
    for number in range(3):
        assert ann.put(f"/v1/webhooks/h{number}", json={"url": URL}).status_code == 201
    answer = ann.put("/v1/webhooks/h3", json={"url": URL})
    assert (answer.status_code, answer.json()["code"]) == (429, "quota")
    page = ann.get("/v1/webhooks", params={"limit": 2}).json()
    assert [one["name"] for one in page["webhooks"]] == ["h0", "h1"]
    rest = ann.get("/v1/webhooks", params={"limit": 2, "after": page["next"]}).json()
    assert ([one["name"] for one in rest["webhooks"]], rest["next"]) == (["h2"], None)


def test_a_subscription_delivers_to_a_webhook_that_its_principal_has(broker, ann):
    body = {"where": "n > 1", "deliver": {"webhook": "hook"}}
    with broker.client("bob", "subscriber") as bob:
        bob.put("/v1/webhooks/hook", json={"url": URL})
        refused = ann.put("/v1/subscriptions/s", json=body)
        assert (refused.status_code, refused.json()["code"], refused.json()["at"]) == (422, "undeliverable", "deliver")
        lines = "\n".join(json.dumps({"id": id, **body}) for id in ("s", "t"))
        bulk = {"content": lines, "headers": {"Content-Type": "application/x-ndjson"}}
        assert [one["code"] for one in ann.post("/v1/subscriptions", **bulk).json()["refused"]] == 2 * ["undeliverable"]
        assert ann.post("/v1/check", json=body).json()["mistakes"][0]["code"] == "undeliverable"
        ann.put("/v1/webhooks/hook", json={"url": URL})
        assert ann.post("/v1/check", json=body).json()["mistakes"] == []
        assert ann.put("/v1/subscriptions/s", json=body).json()["deliver"] == {"webhook": "hook"}
        assert ann.post("/v1/subscriptions", **bulk).json()["made"] == 1
        assert ann.put("/v1/subscriptions/s", json=body).status_code == 200
        kept = ann.delete("/v1/webhooks/hook")
        assert (kept.status_code, kept.json()["code"]) == (409, "conflict")
        assert bob.delete("/v1/webhooks/hook").status_code == 204
        for id in ("s", "t"):
            ann.delete(f"/v1/subscriptions/{id}")
        assert ann.delete("/v1/webhooks/hook").status_code == 204


def test_secrets_are_told_once_and_written_to_no_log(broker, ann, caplog):
    caplog.set_level(logging.DEBUG)
    mine = made()
    told = ann.put("/v1/webhooks/hook", json={"url": URL, "secret": mine})
    assert told.json()["secret"] == mine
    assert told.headers.get("content-encoding") is None
    rotated = ann.post("/v1/webhooks/hook/rotate", json={"overlap": 60}).json()["secret"]
    other = ann.put("/v1/webhooks/hook", json={"url": URL, "secret": made()})
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    with broker.client("root", "administrator", "subscriber") as root:
        shown = [
            *(client.get(path) for client in (ann, root) for path in ("/v1/webhooks", "/v1/webhooks/hook")),
            *(root.get(path) for path in ("/v1/status", "/metrics", "/v1/sessions")),
            *(ann.post("/v1/webhooks/hook/verify"), ann.put("/v1/webhooks/hook", json={"url": URL}), other),
        ]
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    for secret in (mine, rotated):
        assert all(secret not in answer.text for answer in shown)
        assert secret not in logged


def test_how_endpoints_stand_is_seen_by_their_owners_and_by_administrators(broker, ann):
    ann.put("/v1/webhooks/hook", json={"url": URL})
    webhooks, now = broker.broker.webhooks, broker.broker.clock()
    failing = Progress("failing", 7, now, now + 10**6, "status 500", now, now - 10**6)
    webhooks.save([(webhooks.find("ann", "hook"), failing)])
    shown = ann.get("/v1/webhooks/hook").json()
    assert (shown["state"], shown["failures"], shown["reason"]) == ("failing", 7, "status 500")
    assert shown["answered_at"] < shown["failing_since"] == shown["tried_at"] < shown["retry_at"]
    with broker.client("root", "administrator") as root:
        broker.broker.status._until = 0.0
        found = root.get("/v1/status").json()["webhooks"]
        assert found["failing"] == [{"principal": "ann", "name": "hook", "state": "failing", "reason": "status 500"}]
        text = root.get("/v1/status", headers={"Accept": "text/plain"}).text
        assert "webhooks   1 failing\n           hook of ann: failing, status 500\n" in text
        assert 'tidegate_webhooks{state="failing"} 1.0' in root.get("/metrics").text


def test_what_was_given_up_is_listed_in_pages(broker, ann):
    ann.put("/v1/webhooks/hook", json={"url": URL})
    for begin in (1, 11, 21):
        broker.broker.webhooks.dead.add("ann", "hook", DeadLetters("e", begin, begin + 4, "status 500", 10**15))
    page = ann.get("/v1/webhooks/hook/dead", params={"limit": 2}).json()
    assert [(one["from"], one["to"], one["reason"]) for one in page["dead"]] == [
        (1, 5, "status 500"),
        (11, 15, "status 500"),
    ]
    rest = ann.get("/v1/webhooks/hook/dead", params={"after": page["next"]}).json()
    assert ([one["from"] for one in rest["dead"]], rest["next"]) == ([21], None)
    assert ann.get("/v1/webhooks/hook/dead", params={"after": "x"}).status_code == 422


def test_the_webhooks_of_a_principal_go_with_it(broker, ann):
    ann.put("/v1/webhooks/hook", json={"url": URL})
    with broker.client("root", "administrator") as root:
        assert root.delete("/v1/principals/ann").status_code == 204
    assert broker.broker.webhooks.all() == []


def test_a_removal_of_a_principal_that_was_interrupted_is_repeated(broker, ann):
    """What is left of it goes; only where nothing is left there is nothing to remove."""
    ann.put("/v1/webhooks/hook", json={"url": URL})
    body = {"where": "n > 1", "deliver": {"webhook": "hook"}}
    assert ann.put("/v1/subscriptions/s", json=body).status_code == 201
    broker.broker.principals.remove("ann")
    assert broker.broker.webhooks.all() == []  # at the same moment, however it was removed
    late = {"batch": None, "secret": None, "most": 9}
    with broker.client("root", "administrator") as root:
        assert broker.broker.registry.registered("ann") is not None
        assert root.delete("/v1/principals/ann").status_code == 204
        assert broker.broker.registry.registered("ann") is None
        broker.broker.webhooks.put("ann", "late", URL, **late)  # by a request that was under way
        assert root.delete("/v1/principals/ann").status_code == 204
        assert broker.broker.webhooks.all() == []
        assert root.delete("/v1/principals/ann").status_code == 404


def test_the_audit_says_who_posts_where_and_no_secret(ann, caplog):
    caplog.set_level(logging.INFO, "tidegate.audit")
    mine = made()
    ann.put("/v1/webhooks/hook", json={"url": f"{URL}/a-path-nobody-knows", "secret": mine})
    rotated = ann.post("/v1/webhooks/hook/rotate", json={}).json()["secret"]
    ann.post("/v1/webhooks/other/rotate", json={})
    ann.delete("/v1/webhooks/hook")
    lines = [json.loads(record.message) for record in caplog.records if record.name == "tidegate.audit"]
    assert [(line["what"], line["principal"], line["name"], line.get("host")) for line in lines] == [
        ("put webhook", "ann", "hook", "example.com"),
        ("rotate webhook", "ann", "hook", None),
        ("remove webhook", "ann", "hook", None),
    ]
    assert not any(secret in str(lines) for secret in (mine, rotated, "a-path-nobody-knows"))
