"""Subscriptions over HTTP: put, replaced, shown, listed and ended, with ETags, under all kinds of ids."""

from __future__ import annotations

from urllib.parse import quote

import anyio
import orjson
import pytest

from tests.gateway.broker import client_of, opened, token
from tests.gateway.test_application import problem_of
from tidegate.records.record import publication

WHERE, NO2 = {"where": "no2 > 40"}, {"property": "no2"}


@pytest.fixture
def ask(tmp_path):
    """Call a function with a client that may subscribe, and the broker."""

    def asked(work, text="", principal="ann"):
        async def once():
            with opened(tmp_path, text) as broker:
                async with client_of(broker, headers=token(broker, principal, ["subscriber"])) as client:
                    return await work(client, broker)

        return anyio.run(once)

    return asked


def place(id):
    return f"/v1/subscriptions/{quote(id, safe='')}"


def test_made_same_replaced_and_ended(ask):
    async def work(client, broker):
        made = await client.put(place("s1"), json=WHERE)
        assert made.status_code == 201
        assert made.json() == {
            "id": "s1",
            "where": "no2 > 40",
            "active_from": None,
            "active_until": None,
            "initial": False,
            "fields": "all",
            "expired": False,
            "deliver": "stream",
            "etag": made.headers["etag"],
        }
        version = broker.registry.version
        same = await client.put(place("s1"), json=WHERE)
        assert (same.status_code, same.headers["etag"], same.json()) == (200, made.headers["etag"], made.json())
        assert broker.registry.version == version
        other = {"where": "no2 > 50", "active_until": "2027-01-01T00:00:00+01:00", "fields": ["no2", "no2"]}
        refused = await client.put(place("s1"), json=other)
        problem_of(refused, 409, "conflict")
        assert refused.headers["etag"] == made.headers["etag"]
        replaced = await client.put(place("s1"), json=other, headers={"If-Match": made.headers["etag"]})
        assert replaced.status_code == 200
        found = replaced.json()
        assert (found["active_until"], found["fields"]) == ("2026-12-31T23:00:00.000000Z", ["no2"])
        assert found["etag"] == replaced.headers["etag"] != made.headers["etag"]
        stale = await client.put(place("s1"), json=WHERE, headers={"If-Match": made.headers["etag"]})
        problem_of(stale, 412, "stale")
        assert stale.headers["etag"] == replaced.headers["etag"]
        shown = await client.get(place("s1"))
        assert (shown.json(), shown.headers["etag"]) == (found | {"cost": None}, replaced.headers["etag"])
        unchanged = await client.get(place("s1"), headers={"If-None-Match": f'"x", W/{found["etag"]}'})
        assert (unchanged.status_code, unchanged.headers["etag"]) == (304, found["etag"])
        problem_of(await client.delete(place("s1"), headers={"If-Match": made.headers["etag"]}), 412, "stale")
        assert (await client.delete(place("s1"))).status_code == 204
        problem_of(await client.delete(place("s1")), 404, "unknown")
        problem_of(await client.get(place("s1")), 404, "unknown")
        again = await client.put(place("s1"), json=WHERE)
        assert again.status_code == 201
        assert again.headers["etag"] != made.headers["etag"]

    ask(work)


def test_preconditions_of_what_is_not_there(ask):
    async def work(client, broker):
        problem_of(await client.put(place("s"), json=WHERE, headers={"If-Match": "*"}), 412, "stale")
        problem_of(await client.put(place("s"), json=WHERE, headers={"If-Match": "s"}), 400, "header")
        problem_of(await client.put(place("s"), json=WHERE, headers={"If-Match": ""}), 400, "header")
        assert (await client.put(place("s"), json=WHERE, headers={"If-None-Match": "*"})).status_code == 201
        problem_of(await client.put(place("s"), json=WHERE, headers={"If-None-Match": "*"}), 412, "stale")
        weak = f"W/{(await client.get(place('s'))).headers['etag']}"
        problem_of(await client.put(place("s"), json=WHERE, headers={"If-Match": weak}), 412, "stale")
        assert (await client.put(place("s"), json={"where": "true"}, headers={"If-Match": "*"})).status_code == 200

    ask(work)


@pytest.mark.parametrize("id", ["a/b", "/", "%2F", "ö ü/✓", "a?b#c", "..a", "...", " ", "'", '"', "a" * 1000, "ann/s"])
def test_ids_hold_anything(ask, id):
    async def work(client, broker):
        made = await client.put(place(id), json=WHERE)
        assert (made.status_code, made.json()["id"]) == (201, id)
        assert (await client.get("/v1/subscriptions", params={"id": id})).json() == made.json() | {"cost": None}
        assert (await client.put("/v1/subscriptions", params={"id": id}, json=WHERE)).status_code == 200
        (listed,) = (await client.get("/v1/subscriptions")).json()["subscriptions"]
        assert listed == made.json()
        assert (await client.delete("/v1/subscriptions", params={"id": id})).status_code == 204

    ask(work)


def test_ids_that_are_none(ask):
    async def work(client, broker):
        for id in (".", "..", "", "\0", "a" * 1024):
            problem_of(await client.put("/v1/subscriptions", params={"id": id}, json=WHERE), 422, "subscription")
        problem_of(await client.put("/v1/subscriptions/%2e%2E", json=WHERE), 400, "path")

    ask(work)


@pytest.mark.parametrize(
    ("body", "status", "code", "at"),
    [
        ({"where": "no2 >"}, 422, "parse", "line 1, column 6"),
        ({"where": "nonsense(no2)"}, 422, "function", "line 1, column 1"),
        ({"where": {"op": ">", "args": [NO2, {"op": "nonsense", "args": []}]}}, 422, "function", "$.args[1]"),
        ({"where": "no2 > 1", "actve_from": "2027-01-01T00:00:00Z"}, 422, "body", ""),
        ({"where": "no2 > 1", "active_from": "2027-01-01T00:00:00"}, 422, "subscription", "subscription 's'"),
        ({"where": "no2 > 1", "deliver": "mqtt"}, 422, "undeliverable", "deliver"),
        ({"where": "no2 > 1", "deliver": {"webhook": "w"}}, 422, "undeliverable", "deliver"),
        ({"where": "topk(3, 'PT1H', no2)", "initial": True}, 422, "subscription", ""),
        ({}, 422, "body", ""),
    ],
)  # fmt: skip
def test_mistakes_with_their_places(ask, body, status, code, at):
    async def work(client, broker):
        found = problem_of(await client.put(place("s"), json=body), status, code)
        assert found.get("at", "") == at
        assert ("caret" in found) == (code in ("parse", "function") and isinstance(body["where"], str))
        assert len(broker.registry) == 0
        assert broker.counts.items() == [("subscriptions_refused", code, 1)] if code != "body" else True

    ask(work)


def test_doubts_are_answered(ask):
    async def work(client, broker):
        made = (await client.put(place("s"), json={"where": "no2 > 4 AND no2 < 3"})).json()
        assert made["warnings"] == ["can never match, as its conditions contradict each other"]
        assert "warnings" not in (await client.get(place("s"))).json()

    ask(work)


def test_pages_and_principals(ask):
    async def work(client, broker):
        body = b"\n".join(orjson.dumps({"id": f"s{n}", **WHERE}) for n in range(25))
        answer = await client.post("/v1/subscriptions", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert answer.json()["made"] == 25
        bob = token(broker, "bob", ["subscriber"])
        assert (await client.put(place("s1"), json={"where": "no2 > 1"}, headers=bob)).status_code == 201
        found, after = [], {}
        while True:
            answer = (await client.get("/v1/subscriptions", params={"limit": 10, **after})).json()
            found += [one["id"] for one in answer["subscriptions"]]
            if answer["next"] is None:
                break
            after = {"after": answer["next"]}
        assert found == [f"s{n}" for n in range(25)]
        assert [
            one["where"] for one in (await client.get("/v1/subscriptions", headers=bob)).json()["subscriptions"]
        ] == ["no2 > 1"]
        problem_of(await client.get("/v1/subscriptions?after=x"), 422, "parameter")
        problem_of(
            await client.put(place("s"), json=WHERE, headers=token(broker, "carl", ["publisher"])), 403, "forbidden"
        )

    ask(work)


def test_in_bulk_one_bad_line_refuses_itself_only(ask):
    async def work(client, broker):
        first = (await client.put(place("there"), json=WHERE)).headers["etag"]
        version = broker.registry.version
        lines = [
            {"id": "new", "where": "no2 > 4 AND no2 < 3"},
            {"id": "there", **WHERE},
            {"id": "bad", "where": "no2 > > 1"},
            {"id": "there", "where": "true", "if_match": first},
            {"id": "there", "where": "false", "if_match": first},
            {"id": "new", "where": "false"},
            {"id": "..", **WHERE},
            {"id": "mqtt", **WHERE, "deliver": "mqtt"},
            {"id": "unknown", **WHERE, "if_match": "*"},
            [],
        ]
        body = b"\n\n".join(map(orjson.dumps, lines)) + b"\n{\n"
        answer = await client.post("/v1/subscriptions", content=body, headers={"Content-Type": "application/x-ndjson"})
        found = answer.json()
        assert answer.status_code == 200
        refused = [(one["index"], one["code"]) for one in found.pop("refused")]
        assert refused == [
            *((2, "parse"), (4, "conflict"), (5, "conflict"), (6, "subscription"), (7, "undeliverable"), (8, "stale")),
            *((9, "body"), (10, "json")),
        ]
        doubt = "can never match, as its conditions contradict each other"
        assert found == {"made": 1, "same": 1, "replaced": 1, "warnings": {"0": [doubt]}}
        assert broker.registry.version == version + 2

        answer = await client.post("/v1/subscriptions", content=b"{}", headers={"Content-Type": "application/x-ndjson"})
        assert (answer.status_code, answer.json()["refused"][0]["code"]) == (422, "body")
        problem_of(await client.post("/v1/subscriptions", json=WHERE), 415, "content_type")

    ask(work)


def test_as_many_as_the_quota_says(ask):
    async def work(client, broker):
        broker.principals.put("ann", quotas={"subscriptions": 2})
        await broker.access.refresh()
        body = b"\n".join(orjson.dumps({"id": id, **WHERE}) for id in "abac")
        answer = await client.post("/v1/subscriptions", content=body, headers={"Content-Type": "application/x-ndjson"})
        found = answer.json()
        assert (found["made"], [(one["index"], one["code"]) for one in found["refused"]]) == (
            2,
            [(2, "conflict"), (3, "quota")],
        )
        problem_of(await client.put(place("d"), json=WHERE), 429, "quota")
        assert (await client.put(place("b"), json={"where": "true"}, headers={"If-Match": "*"})).status_code == 200
        await client.delete(place("a"))
        assert (await client.put(place("d"), json=WHERE)).status_code == 201

    ask(work)


def test_it_applies_to_what_another_gateway_publishes_after_the_answer(tmp_path):
    """The log of every process stamps with the version that the answer was given at, or a later one."""

    async def once():
        with opened(tmp_path) as here, opened(tmp_path) as there:
            there.log.append([publication({"id": "p0", "source": "z", "time": "2026-11-15T08:00:00Z"}, "")])
            async with client_of(here, headers=token(here, "ann", ["subscriber"])) as client:
                for number in range(5):
                    assert (await client.put(place(f"s{number}"), json=WHERE)).status_code == 201
                    since = here.registry.stored(f"ann/s{number}").since
                    begin = there.log.end
                    record = {"id": f"p{number + 1}", "source": "z", "time": "2026-11-15T08:00:00Z"}
                    there.log.append([publication(record, "")])
                    (piece,) = there.log.slices(begin, there.log.end, 1)
                    assert piece.oldest_version >= since
            assert there.registry.registered("ann") == 1

    anyio.run(once)
