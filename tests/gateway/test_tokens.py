"""Principals and tokens over HTTP: who may make, see and revoke what, and that nobody learns a secret twice."""

from __future__ import annotations

import itertools
import json
import logging
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.cli.commands import run as cli
from tests.gateway.broker import client_of, opened, token
from tidegate.errors import StoreError
from tidegate.gateway.access import Access
from tidegate.gateway.problems import RequestError


def run(tmp_path, ask, text=""):
    """What an async function gives that is called with a broker, a client of it, and an administrator's headers."""

    async def once():
        with opened(tmp_path, text) as broker:
            async with client_of(broker) as client:
                return await ask(broker, client, token(broker, "root", ["administrator"]))

    return anyio.run(once)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def test_a_token_is_made_seen_and_revoked(tmp_path):
    async def ask(broker, client, root):
        wanted = {"principal": "ann", "roles": ["publisher", "subscriber"], "sources": ["z*"], "read": "n > 1"}
        answer = await client.post("/v1/tokens", json=wanted, headers=root)
        made = answer.json()
        assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/tokens/{made['id']}")
        ann = bearer(made["token"])
        found = (await client.get(f"/v1/tokens/{made['id']}", headers=ann)).json()
        assert found.pop("created")
        assert found == {
            "id": made["id"],
            "principal": "ann",
            "roles": ["subscriber", "publisher"],
            "sources": ["z*"],
            "expires": None,
            "used": None,
        }
        assert (await client.get("/v1/principals/ann", headers=ann)).json()["read"] == "n > 1"
        same = wanted | {"read": "n>1"}
        assert (await client.post("/v1/tokens", json=same, headers=root)).status_code == 201
        other = await client.post("/v1/tokens", json=wanted | {"read": "n > 2"}, headers=root)
        assert (other.status_code, other.json()["code"]) == (409, "conflict")
        assert (await client.delete(f"/v1/tokens/{made['id']}", headers=root)).status_code == 204
        assert (await client.get("/v1/principals/ann", headers=ann)).status_code == 401
        assert (await client.delete(f"/v1/tokens/{made['id']}", headers=root)).status_code == 404

    run(tmp_path, ask)


def test_others_are_as_if_they_were_not_there(tmp_path):
    async def ask(broker, client, root):
        ann, bob = (token(broker, name, ["subscriber"]) for name in ("ann", "bob"))
        [its] = broker.principals.tokens("bob")
        for path in (f"/v1/tokens/{its.id}", "/v1/principals/bob"):
            there, gone = await client.get(path, headers=ann), await client.get(f"{path}x", headers=ann)
            assert there.status_code == gone.status_code == 404
            assert there.text.replace("bob", "bobx") == gone.text
            assert (await client.get(path, headers=bob)).status_code == 200
            assert (await client.delete(path, headers=ann)).status_code == 403
        mine = (await client.get("/v1/tokens", headers=ann)).json()["tokens"]
        assert [one["principal"] for one in mine] == ["ann"]
        assert (await client.get("/v1/tokens?principal=bob", headers=ann)).json()["tokens"] == mine
        assert (await client.get("/v1/principals", headers=ann)).status_code == 403
        for method, path in (("PUT", "/v1/principals/ann"), ("POST", "/v1/tokens")):
            assert (await client.request(method, path, json={}, headers=ann)).status_code == 403

    run(tmp_path, ask)


def test_what_is_left_out_of_a_principal_stays_as_it_is(tmp_path):
    async def ask(broker, client, root):
        async def put(status, **body):
            answer = await client.put("/v1/principals/ann", json=body, headers=root)
            assert answer.status_code == status, answer.text
            return answer.json()

        found = await put(201, read="n > 1", quotas={"subscriptions": 5})
        assert (found["read"], found["quotas"], found["registered"]) == ("n > 1", {"subscriptions": 5}, None)
        assert (await put(200, quotas={"connections": 2}))["read"] == "n > 1"
        assert (await put(200, read=None)) | {"created": 0} == {
            "name": "ann",
            "read": None,
            "quotas": {"connections": 2},
            "created": 0,
            "issuer": None,
            "registered": None,
        }
        assert (await put(200, quotas=None, read={"op": "=", "args": [{"property": "n"}, 1]}))["quotas"] == {}
        for wrong in ({"quotas": {"speed": 1}}, {"quotas": {"cost": 0}}, {"quotas": {"connections": 0}}, {"reed": "a"}):
            assert (await put(422, **wrong))["status"] == 422
        assert (await put(422, read="past(n > 1) > 3"))["status"] == 422
        assert broker.principals.principal("ann").quotas == {}

    run(tmp_path, ask)


def test_the_command_line_says_the_same(tmp_path):
    async def ask(broker, client, root):
        made = {"principal": "ann", "roles": ["publisher"], "sources": ["z*"], "read": "n > 1"}
        await client.post("/v1/tokens", json=made, headers=root)
        await client.put("/v1/principals/ann", json={"quotas": {"queue_size": 5}}, headers=root)
        broker.registry.register("ann")
        found = [(await client.get(f"/v1/{what}", headers=root)).json()[what] for what in ("principals", "tokens")]
        place = str(broker.data.path)
        said = [cli("principals", "list", place, "--json"), cli("principals", "tokens", "list", place, "--json")]
        return found, [[json.loads(line) for line in one.stdout.splitlines()] for one in said]

    over_http, by_command = run(tmp_path, ask)
    for one in itertools.chain.from_iterable(by_command):
        for name in {"created", "expires", "used"} & one.keys():
            one[name] = None if one[name] is None else one[name].replace("+00:00", "Z")
    assert over_http == by_command


def test_pages(tmp_path):
    async def ask(broker, client, root):
        for number in range(7):
            token(broker, f"p{number}", ["subscriber"])
        for path, what, name in (("principals", "principals", "name"), ("tokens", "tokens", "principal")):
            found, after = [], ""
            while after is not None:
                more = f"&after={after}" if after else ""
                page = (await client.get(f"/v1/{path}?limit=3{more}", headers=root)).json()
                found += [one[name] for one in page[what]]
                after = page["next"]
            assert sorted(found) == ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "root"]
        assert (await client.get("/v1/tokens?after=x", headers=root)).status_code == 422

    run(tmp_path, ask)


def test_somebody_can_always_come_in(tmp_path):
    async def ask(broker, client, root):
        [its] = broker.principals.tokens("root")
        answer = await client.delete(f"/v1/tokens/{its.id}", headers=root)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert "another token of an administrator" in answer.json()["expected"]
        assert (await client.delete("/v1/principals/root", headers=root)).status_code == 409
        token(broker, "second", ["administrator"])
        assert (await client.delete(f"/v1/tokens/{its.id}", headers=root)).status_code == 204
        assert (await client.get("/v1/tokens", headers=root)).status_code == 401

    run(tmp_path, ask)


def test_a_principal_is_removed_with_all_that_it_has(tmp_path):
    async def ask(broker, client, root):
        ann = token(broker, "ann", ["subscriber"])
        broker.registry.register("ann")
        assert (await client.delete("/v1/principals/ann", headers=root)).status_code == 204
        assert (await client.get("/v1/principals/ann", headers=ann)).status_code == 401
        assert broker.registry.registered("ann") is None
        assert (await client.delete("/v1/principals/ann", headers=root)).status_code == 404

    run(tmp_path, ask)


def test_a_number_of_any_length_in_read_keeps_nobody_from_the_secret(tmp_path):
    async def ask(broker, client, root):
        wanted = {"principal": "ann", "roles": ["subscriber"], "read": {"op": "<", "args": [{"property": "n"}, 2**70]}}
        answer = await client.post("/v1/tokens", json=wanted, headers=root)
        assert answer.status_code == 201
        assert (await client.get("/v1/principals/ann", headers=bearer(answer.json()["token"]))).status_code == 200

    run(tmp_path, ask)


def test_the_audit_says_who_did_what_and_no_secret(tmp_path, caplog):
    caplog.set_level(logging.INFO, "tidegate.audit")
    secrets = []

    async def ask(broker, client, root):
        made = (
            await client.post("/v1/tokens", json={"principal": "ann", "roles": ["subscriber"]}, headers=root)
        ).json()
        secrets.extend((made["token"], root["Authorization"].split()[1]))
        await client.put("/v1/principals/ann", json={"quotas": {"connections": 2}}, headers=root)
        await client.get("/v1/principals", headers=bearer(made["token"]))
        await client.get("/v1/principals", headers=bearer("tdg_somebody-tried-this"))
        await client.get("/v1/principals")
        await client.delete(f"/v1/tokens/{made['id']}", headers=root)
        return made["id"], broker.principals.tokens("root")[0].id

    ann, root = run(tmp_path, ask)
    lines = [json.loads(record.message) for record in caplog.records if record.name == "tidegate.audit"]
    told = [(line["what"], line["result"], line.get("principal"), line.get("token")) for line in lines]
    assert told == [
        ("make token", "done", "root", root),
        ("put principal", "done", "root", root),
        ("GET /v1/principals", "refused", "ann", ann),
        ("authenticate", "refused", None, None),
        ("authenticate", "refused", None, None),
        ("revoke token", "done", "root", root),
    ]
    assert all(line["at"].endswith("Z") and line["address"] == "127.0.0.1" for line in lines)
    assert not any(secret in caplog.text for secret in [*secrets, "somebody-tried-this"])


@asynccontextmanager
async def two_gateways(tmp_path):
    """Two gateways of one broker, started."""
    with opened(tmp_path) as one, opened(tmp_path) as two:
        await one.start()
        await two.start()
        try:
            yield one, two
        finally:
            await one.stop()
            await two.stop()


def test_what_is_revoked_at_one_gateway_ends_at_the_other_within_a_second(tmp_path):
    async def once():
        async with two_gateways(tmp_path) as (one, two):
            made = one.principals.make_token("ann", ["subscriber"])
            other = one.principals.make_token("bob", ["subscriber"])
            caller, bob = [await two.access.caller(secret, "here") for secret in (made.secret, other.secret)]
            assert two.access.is_valid(caller)
            one.principals.put("bob", quotas={"connections": 3})
            one.principals.revoke(made.id)
            with anyio.fail_after(1):
                while two.access.is_valid(caller) or two.access.find(made.secret) is not None:
                    await anyio.sleep(0.01)
            assert two.access.is_valid(bob)
            assert two.access.find(other.secret).quotas == {"connections": 3}
            with pytest.raises(RequestError, match="a token; got another"):
                await two.access.caller(made.secret, "here")

    anyio.run(once)


def test_while_the_database_is_away_who_is_known_goes_on_for_ten_seconds(tmp_path, monkeypatch):
    moment = 0.0

    async def once():
        nonlocal moment
        with opened(tmp_path) as broker:
            access = broker.access
            monkeypatch.setattr(access, "_clock", lambda: moment)
            ann, bob = (broker.principals.make_token(name, ["subscriber"]).secret for name in ("ann", "bob"))
            caller = await access.caller(ann, "here")

            def away(*_, **__):
                raise StoreError("a database that answers", "none")

            monkeypatch.setattr(broker.principals, "holder", away)
            monkeypatch.setattr(type(broker.principals), "changes", property(away))
            await access.refresh()
            for later in (5.0, 5.1, 9.9):
                moment = later
                assert (await access.caller(ann, "here")).name == "ann"
                assert access.is_valid(caller)
            with pytest.raises(RequestError, match="a database that says who has this token"):
                await access.caller(bob, "here")
            moment = 10.0
            assert not access.is_valid(caller)
            with pytest.raises(RequestError, match="a database that says who has this token"):
                await access.caller(ann, "here")
            monkeypatch.undo()
            access._clock = lambda: moment
            moment = 12.0
            assert (await access.caller(ann, "here")).name == "ann"

    anyio.run(once)


def test_who_brings_wrong_tokens_has_to_wait_and_nobody_else(tmp_path, monkeypatch):
    async def ask(broker, client, root):
        access, looked = Access(broker.principals, clock=lambda: 0.0), []
        assert (await access.caller(root["Authorization"].split()[1], "2001:db8:0:1::1")).name == "root"
        holder = broker.principals.holder
        monkeypatch.setattr(
            broker.principals, "holder", lambda *given, **more: looked.append(1) or holder(*given, **more)
        )
        refused = []

        async def wrong(number):
            with pytest.raises(RequestError, match=r"a token") as caught:
                await access.caller(f"tdg_{number:043}", "2001:db8::" + str(number % 7))
            refused.append(caught.value.status)

        async with anyio.create_task_group() as group:
            for number in range(300):
                group.start_soon(wrong, number)
        assert 50 <= refused.count(401) == len(looked) < 60
        assert refused.count(429) == 300 - len(looked)
        new = token(broker, "new", ["subscriber"])["Authorization"].split()[1]
        with pytest.raises(RequestError, match="that there are not"):
            await access.caller(new, "2001:db8::ffff")
        assert (await access.caller(new, "2001:db8:0:1::1")).name == "new"
        assert (await access.caller(root["Authorization"].split()[1], "2001:db8::ffff")).name == "root"

    run(tmp_path, ask)
