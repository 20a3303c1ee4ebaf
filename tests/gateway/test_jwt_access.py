"""Callers with JWTs at a broker: known ones cost nothing, what they may read is theirs alone, all ends with them."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from contextlib import closing

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import tidegate as tg
from tests.gateway.clients import events
from tests.gateway.issuing import AUDIENCE, SigningKey, TestIssuer
from tests.gateway.jwt_world import jwt_world, section
from tests.gateway.live_broker import live
from tests.parts.cellar import PREFIXES, cellar
from tests.store.wine_terms import NEW, OLD, RED
from tidegate.errors import StoreError
from tidegate.gateway import access
from tidegate.gateway.jwt_keys import VerifyingKey
from tidegate.ontologies import current
from tidegate.store.registry import Registry


@pytest.fixture
def issuer(tmp_path):
    return TestIssuer(tmp_path / "keys.json")


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def counted(monkeypatch):
    """A list that grows with each signature that is verified."""
    found, before = [], VerifyingKey.has_signed
    monkeypatch.setattr(VerifyingKey, "has_signed", lambda self, *more: found.append(1) or before(self, *more))
    return found


def test_a_known_token_costs_no_signature_until_it_ends(tmp_path, monkeypatch):
    verified = counted(monkeypatch)

    async def run():
        with jwt_world(tmp_path) as world:
            await world.fetch()
            token = world.issuer.token()
            for _ in range(5):
                await world.access.refresh()
                assert await world.judged(token) == "accepted"
            assert len(verified) == 1
            caller = world.access.find(token)
            for later, is_good in ((629.999, True), (630.0, False)):  # the skew of clocks included
                world.now = world.issuer.clock() - (world.now - 1_800_000_000) + later
                await world.access.refresh()
                assert world.access.is_valid(caller) is is_good
                assert (world.access.find(token) is not None) is is_good
            assert await world.judged(token) == "expired"
            assert len(world.access._known) == 0

    asyncio.run(run())


def test_while_the_database_is_away_a_known_token_goes_on_for_ten_seconds(tmp_path, monkeypatch):
    async def run():
        with jwt_world(tmp_path) as world:
            await world.fetch()
            token, other = world.issuer.token(), world.issuer.token("bob")
            assert await world.judged(token) == "accepted"

            def away(*_, **__):
                raise StoreError("a database that answers", "none")

            monkeypatch.setattr(world.principals.issued, "standings", away)
            monkeypatch.setattr(type(world.principals), "changes", property(away))
            world.now += 5
            await world.access.refresh()
            assert [await world.judged(one) for one in (token, other)] == ["accepted", "503 store"]
            world.now += 5
            assert await world.judged(token) == "503 store"

    asyncio.run(run())


def test_whoever_writes_for_long_keeps_only_new_principals_waiting(tmp_path, monkeypatch):
    async def run():
        with jwt_world(tmp_path) as world:
            await world.fetch()
            known, own = world.issuer.token(), world.principals.make_token("own", ["subscriber"]).secret
            assert await world.judged(known) == "accepted"
            monkeypatch.setattr(access, "_TURN", 0.3)
            with closing(sqlite3.connect(tmp_path / "registry.db", isolation_level=None)) as writer:
                writer.execute("BEGIN IMMEDIATE")
                new = [world.judged(world.issuer.token(f"new-{number}")) for number in range(8)]
                again = world.judged(world.issuer.token(jti="another"))  # its principal is there
                assert await asyncio.gather(*new, again) == [*["503 busy"] * 8, "accepted"]
                assert (await world.access.caller(own, "192.0.2.1")).name == "own"
                writer.execute("ROLLBACK")
            assert await world.judged(world.issuer.token("new-1")) == "accepted"

    asyncio.run(run())


def test_what_its_claims_allow(tmp_path):
    wanted = section(
        principal="who.name",
        prefix="login.",
        roles="realm.roles",
        role_names={"reader": "subscriber", "sensor": "publisher"},
        sources="https://broker.example/sources",
        read="may.read",
    )

    async def run():
        with jwt_world(tmp_path, wanted) as world:
            await world.fetch()

            async def caller(**claims):
                given = {"who": {"name": "ann"}, "may": {"read": "n > 1"}, **claims}
                return await world.access.caller(world.issuer.token(**given), "192.0.2.1")

            found = await caller(realm={"roles": ["sensor", "reader", "administrator"]})
            assert (found.name, found.holder.token.roles) == ("login.ann", ("subscriber", "publisher"))
            assert not found.may_publish_as("a")  # nothing is said
            found = await caller(**{"https://broker.example/sources": ["z*", "a"]})
            assert [found.may_publish_as(one) for one in ("z1", "a", "b")] == [True, True, False]
            assert found.holder.token.roles == ()
            assert world.principals.principal("login.ann")[1:5:3] == ("n > 1", world.issuer.name)
            assert found.read == world.principals.read_of("login.ann")
            for wrong, cause in (
                ({"may": None}, "read"),
                ({"may": {}}, "read"),
                ({"may": {"read": None}}, "read"),
                ({"may": {"read": 5}}, "read"),
                ({"may": {"read": "n >"}}, "read"),
                ({"may": {"read": "topk(3, 'PT1H', n)"}}, "read"),
                ({"may": {"read": "n = '\ud800'"}}, "read"),
                ({"may": {"read": " OR ".join(f"n{n} = 1" for n in range(40))}}, "read"),
                ({"who": {"name": {"name": "x"}}}, "principal"),
                ({"who": "ann"}, "principal"),
                ({"who": {"name": "x" * 123}}, "principal"),
                ({"https://broker.example/sources": [5]}, "claims"),
                ({"https://broker.example/sources": None}, None),
                ({"realm": {"roles": {"reader": 1}}}, "claims"),
            ):
                token = world.issuer.token(**{"who": {"name": "ann"}, "may": {"read": "n > 1"}, **wrong})
                assert await world.judged(token) == (cause or "accepted"), wrong

    asyncio.run(run())


def test_administrators_are_made_only_where_the_section_says_so(tmp_path):
    async def run():
        for number, (names, roles) in enumerate(
            ((None, ("publisher",)), ({"administrator": "administrator"}, ("administrator",)))
        ):
            (place := tmp_path / str(number)).mkdir()
            with jwt_world(place, section(role_names=names)) as world:
                await world.fetch()
                token = world.issuer.token(roles=["administrator", "publisher"])
                assert (await world.access.caller(token, "192.0.2.1")).holder.token.roles == roles

    asyncio.run(run())


def test_an_issuer_speaks_of_its_own_principals_only(tmp_path):
    two = section(issuer="https://two.example", prefix="b.", max_length=500)

    async def run():
        with jwt_world(tmp_path, section(prefix="a."), two) as world:
            await world.fetch()
            other = TestIssuer(tmp_path / "keys.json", name="https://two.example", clock=world.issuer.clock)
            world.principals.put("a.local")
            assert await world.judged(world.issuer.token("local")) == "principal"
            assert await world.judged(world.issuer.token("ann")) == "accepted"
            assert await world.judged(other.token("ann")) == "accepted"
            long = {"more": "x" * 500}
            assert await world.judged(other.token("ann", **long)) == "form"
            assert await world.judged(world.issuer.token("ann", **long)) == "accepted"
            assert [one.name for one in world.principals.all()] == ["a.ann", "a.local", "b.ann"]
            await world.access.refresh()
            token = world.issuer.token("ann")
            assert await world.judged(token) == "accepted"
            caller = world.access.find(token)
            world.principals.put("a.ann", issuer=None, keep=("read", "quotas"))  # who shall not come in any more
            await world.access.refresh()
            assert not world.access.is_valid(caller)
            assert await world.judged(token) == "principal"
            world.principals.put("a.local", issuer=world.issuer.name, keep=("read", "quotas"))
            assert await world.judged(world.issuer.token("local")) == "accepted"
            world.principals.put("a.local", quotas={"connections": 3}, keep=("read", "issuer"))
            world.principals.remove("a.local")
            await world.access.refresh()
            assert await world.judged(world.issuer.token("local")) == "older"
            world.now += 31  # skew of clocks and a second
            assert await world.judged(world.issuer.token("local")) == "accepted"  # as it was
            assert world.principals.principal("a.local").quotas == {"connections": 3}

    asyncio.run(run())


def test_an_administrators_word_is_as_good_as_that_of_a_token_that_is_issued_now(tmp_path):
    async def run():
        with jwt_world(tmp_path, section(read="may_read")) as world:
            await world.fetch()
            await world.access.refresh()
            token = world.issuer.token(may_read="n > 1")
            assert await world.judged(token) == "accepted"
            caller = world.access.find(token)
            world.now += 1
            world.principals.put("ann", read="n > 5")
            await world.access.refresh()
            assert not world.access.is_valid(caller)
            assert await world.judged(token) == "older"
            assert await world.judged(world.issuer.token(iat=world.now - 1, may_read="n > 5")) == "accepted"
            world.now += 30
            ahead = world.issuer.token(iat=world.now + 5, may_read="n > 1")
            assert await world.judged(world.issuer.token(may_read="n > 1")) == "older"  # perhaps of before: skewed
            assert await world.judged(ahead) == "accepted"
            own = world.principals.make_token("ann", ["subscriber"])  # reads what its principal may
            assert (await world.access.caller(own.secret, "192.0.2.1")).read is None
            assert world.principals.principal("ann").read == "n > 1"
            world.principals.put("ann", quotas={"connections": 3}, keep=("read", "issuer"))
            await world.access.refresh()
            assert await world.judged(token) == "accepted"  # it says the same

    asyncio.run(run())


def test_a_read_with_terms_is_what_they_mean_now(tmp_path):
    def know(**classes):
        current.load(cellar(tmp_path / "cellar.ttl", **classes), prefixes=PREFIXES)

    async def run():
        with jwt_world(tmp_path, section(read="may_read")) as world, Registry(tmp_path / "registry.db") as registry:
            await world.fetch()
            await world.access.refresh()
            token = world.issuer.token(may_read=RED)
            assert await world.judged(token) == "accepted"
            before = world.access.find(token)
            assert "syrah" not in before.read
            know(**NEW)
            registry.renew()
            await world.access.refresh()
            after = world.access.find(token)  # whoever reads for this caller reads what the terms mean by now
            assert after.read == world.principals.read_of("ann")
            assert "syrah" in after.read
            assert world.access.is_valid(after)
            assert not world.access.is_valid(before)  # what is open was opened for another meaning: connect again

    with current.use(None):
        know(**OLD)
        asyncio.run(run())


def test_a_secret_that_somebody_chose_may_begin_as_a_jwt_does(tmp_path):
    async def run():
        with jwt_world(tmp_path) as world:
            await world.fetch()
            chosen = "eyJ.this-is-mine.and-no-jwt"
            world.principals.make_token("root", ["administrator"], secret=chosen)
            assert (await world.access.caller(chosen, "192.0.2.1")).name == "root"
            assert await world.judged(chosen + "x") == "form"

    asyncio.run(run())


# --- over sockets -----------------------------------------------------------------------------------------------------


def test_its_connections_end_when_it_does(tmp_path, issuer):
    with live(tmp_path, issuer.section(skew=0)) as broker, httpx.Client(base_url=broker.url, timeout=30) as client:
        first = issuer.token()
        assert client.get("/v1/principals/ann", headers=bearer(first)).status_code == 200
        broker.register("ann")
        token = issuer.token(exp=time.time() + 1.5)
        address = broker.url.replace("http", "ws") + "/v1/ws"
        polled = []

        def poll():
            polled.append(client.get("/v1/notifications?wait=30", headers=bearer(token)).status_code)

        waiting = threading.Thread(target=poll)
        waiting.start()
        with (
            connect(address, additional_headers=bearer(token)) as socket,
            client.stream("GET", "/v1/stream", params={"access_token": token}) as stream,
        ):
            assert '"hello"' in str(socket.recv(timeout=10))
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(timeout=20)
            assert closed.value.rcvd.code == 4003
            assert not [line for line in stream.iter_lines() if line.startswith("event")]
        waiting.join(20)
        assert polled == [401]
        assert client.get("/v1/notifications", headers=bearer(first)).status_code == 200


def test_a_publisher_publishes_as_the_sources_of_its_claim(tmp_path, issuer):
    text = issuer.section(sources="from", roles="scope")
    with live(tmp_path, text) as broker, httpx.Client(base_url=broker.url, timeout=30) as client:
        token = issuer.token("sensor", scope="openid publisher", **{"from": ["hut-*"]})
        body = [{"id": name, "source": name} for name in ("hut-1", "valley-1")]
        answer = client.post("/v1/publications", json=body, headers=bearer(token)).json()
        assert (answer["accepted"], [one["code"] for one in answer["refused"]]) == (1, ["source"])
        assert client.get("/v1/notifications", headers=bearer(token)).status_code == 403
        none = issuer.token("nobody", scope="openid")
        found = client.get("/v1/notifications", headers=bearer(none))
        assert (found.status_code, found.json()["got"]) == (403, "one with none")


def test_status_and_metrics_tell_of_issuers_and_no_log_has_a_token(tmp_path, issuer, caplog):
    caplog.set_level(logging.DEBUG)
    with live(
        tmp_path, "[serve]\nrequest_log = true\n" + issuer.section(role_names={"administrator": "administrator"})
    ) as broker:
        good, wrong = issuer.token(roles=["administrator"]), issuer.token(aud="another")
        with httpx.Client(base_url=broker.url, timeout=30) as client:
            for path in ("/v1/stream", "/v1/principals"):
                assert client.get(path, params={"access_token": wrong}).status_code == 401
                assert client.get(path, headers=bearer(wrong)).status_code == 401
            status = client.get("/v1/status", headers=bearer(good)).json()
            assert status["issuers"] == [
                {
                    "issuer": issuer.name,
                    "state": "known",
                    "keys": 1,
                    "key_ids": ["one"],
                    "place": str(issuer.file),
                    "fetched_at": status["issuers"][0]["fetched_at"],
                    "error": None,
                    "refused": {"audience": 3},
                }
            ]
            assert status["counts"]["jwt_refused"] == {"audience": 3}
            text = client.get("/v1/status", headers=bearer(good) | {"Accept": "text/plain"}).text
            assert f"issuer     {issuer.name}: 1 keys, known" in text
            metrics = client.get("/metrics", headers=bearer(good)).text
            assert 'tidegate_gateway_jwt_refused_total{cause="audience"} 3.0' in metrics
            assert 'tidegate_gateway_issuer_keys_total{cause="changed"} 1.0' in metrics
        lines = [json.loads(one.message) for one in caplog.records if one.name == "tidegate.audit"]
        assert {line["reason"] for line in lines if line["what"] == "authenticate"} == {
            "a JWT that is not taken: audience",
            "no token",
        }
        caller = broker.broker.access.find(good)
        assert caller.token.startswith("jwt-")
        assert caller.token in caplog.text  # the log of requests says which token, not what it is
    ours = "\n".join(one.getMessage() for one in caplog.records if one.name.startswith(("tidegate", "uvicorn")))
    for token in (good, wrong):
        assert token not in ours
        assert token.split(".")[2] not in ours


def test_a_client_goes_on_with_another_token_where_one_ends(tmp_path, issuer):
    given = []

    def token():
        given.append(issuer.token(roles=["subscriber", "publisher"], exp=time.time() + 1.2))
        return given[-1]

    with live(tmp_path, issuer.section(skew=0)) as broker, tg.connect(broker.url, token=token) as client:
        client.subscribe("all", "TRUE")
        broker.run()
        found = []
        for number in range(3):
            client.publish({"id": f"p{number}", "source": "a"})
        broker.run()
        for item in client.notifications():
            found.append(item.publication.id)
            if len(found) == 3:
                while len(given) < 3:  # the connection is made again with another token, and again
                    time.sleep(0.05)
                client.publish({"id": "p3", "source": "a"})
                broker.run()
            if len(found) == 4:
                break
        assert found == ["p0", "p1", "p2", "p3"]


@pytest.mark.thorough
def test_keys_are_rotated_while_the_broker_runs(tmp_path, issuer):
    with live(tmp_path, issuer.section(refresh=1)) as broker, httpx.Client(base_url=broker.url, timeout=30) as client:
        assert client.get("/v1/subscriptions", headers=bearer(issuer.token())).status_code == 200
        old, new = issuer.token(), SigningKey("two", number=1)
        issuer.publish([new])
        # A key that is not known is looked for, at most every five seconds.
        until = time.monotonic() + 30
        while client.get("/v1/subscriptions", headers=bearer(issuer.token())).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.5)
        assert client.get("/v1/subscriptions", headers=bearer(old)).status_code == 401


# --- what may be read, not for a moment more --------------------------------------------------------------------------


def test_nobody_reads_more_than_its_own_token_says_while_tokens_change(tmp_path, issuer):
    """Two tokens of one principal take turns, each newer than the one before, while both read by all ways; the log has
    publications of both. Neither is told of the other's.
    """
    rounds, reads = 4, {"a": "kind = 'a'", "b": "kind = 'b'"}
    with live(tmp_path, issuer.section(read="may_read")) as broker:
        publisher = broker.client("publisher", "publisher")
        wrong, told, stopped = [], {"a": 0, "b": 0}, threading.Event()
        tokens = {kind: issuer.token(may_read=read) for kind, read in reads.items()}

        def check(kind, data):
            other = "b" if kind == "a" else "a"
            told[kind] += f"mark-{kind}" in data
            if f"mark-{other}" in data:
                wrong.append((kind, data))

        def read(kind):
            with httpx.Client(base_url=broker.url, timeout=30) as client:
                while not stopped.is_set():
                    headers = bearer(tokens[kind])
                    for path in ("/v1/notifications?after=0", "/v1/publications", "/v1/attributes", "/v1/sources"):
                        answer = client.get(path, headers=headers)
                        check(kind, answer.text)
                        if answer.status_code == 401:  # who brings too many of these has to wait
                            time.sleep(0.1)

        def follow(kind):
            with httpx.Client(base_url=broker.url, timeout=30) as client:
                while not stopped.is_set():
                    client.headers.update(bearer(tokens[kind]))
                    try:
                        with events(client, params={"after": "0"}) as stream:
                            for event in stream:
                                check(kind, str(event))
                                if stopped.is_set():
                                    break
                    except (AssertionError, httpx.HTTPError):
                        time.sleep(0.1)

        with httpx.Client(base_url=broker.url, headers=bearer(tokens["b"]), timeout=30) as client:
            assert client.put("/v1/subscriptions/all", json={"where": "TRUE"}).status_code == 201
        broker.run()
        works = [threading.Thread(target=work, args=(kind,)) for kind in reads for work in (read, follow)]
        for work in works:
            work.start()
        try:
            with httpx.Client(base_url=broker.url, timeout=30) as client:
                for number in range(rounds):
                    kind = "ab"[number % 2]
                    newer = issuer.token(may_read=reads[kind])
                    assert client.get("/v1/subscriptions", headers=bearer(newer)).status_code == 200
                    tokens[kind] = newer
                    some = [
                        {"id": f"mark-{kind}-{number}", "source": f"src-mark-{kind}", "kind": kind} for kind in reads
                    ]
                    assert publisher.post("/v1/publications", json=some).json()["accepted"] == 2
                    broker.run()
                    time.sleep(0.3)
        finally:
            stopped.set()
            some = [{"id": f"end-{kind}", "source": "end", "kind": kind} for kind in reads]
            publisher.post("/v1/publications", json=some)
            broker.run()
            for work in works:
                work.join(30)
            publisher.close()
        assert wrong == []
        assert min(told.values()) > 0


def test_audiences_and_lifetimes_are_those_of_the_issuer_of_the_token(tmp_path):
    two = section(issuer="https://two.example", prefix="b.", audience=("two",), max_lifetime=10.0)

    async def run():
        with jwt_world(tmp_path, section(prefix="a."), two) as world:
            await world.fetch()
            other = TestIssuer(tmp_path / "keys.json", name="https://two.example", clock=world.issuer.clock)
            brief = {"exp": world.now + 10}
            assert await world.judged(world.issuer.token(aud="two")) == "audience"
            assert await world.judged(other.token(aud=AUDIENCE, **brief)) == "audience"
            assert await world.judged(other.token(aud="two")) == "lifetime"
            assert await world.judged(other.token(aud="two", **brief)) == "accepted"

    asyncio.run(run())


def test_a_gateway_that_hears_of_no_change_still_tells_nobody_more(tmp_path, issuer, monkeypatch):
    """Between the moment at which a newer token says something else and that at which a gateway hears of it, the older
    token is taken; what is read for it is not given to it.
    """
    with live(tmp_path, issuer.section(read="may_read")) as broker:
        access, publisher = broker.broker.access, broker.client("publisher", "publisher")

        def publish(name):
            some = [{"id": f"{name}-{kind}", "source": f"src-{kind}", "kind": kind} for kind in "ab"]
            assert publisher.post("/v1/publications", json=some).json()["accepted"] == 2
            broker.run()

        older = issuer.token(may_read="kind = 'a'")
        with httpx.Client(base_url=broker.url, headers=bearer(older), timeout=30) as client:
            assert client.put("/v1/subscriptions/all", json={"where": "TRUE"}).status_code == 201
            broker.run()
            address = broker.url.replace("http", "ws") + "/v1/ws"
            with connect(address, additional_headers=bearer(older)) as socket:
                assert '"hello"' in str(socket.recv(timeout=10))
                publish("one")
                assert '"one-a"' in str(socket.recv(timeout=10))
                monkeypatch.setattr(access, "_is_believed", lambda known, seconds: True)
                monkeypatch.setattr(access, "is_valid", lambda caller: True)
                monkeypatch.setattr(access._known, "renew", lambda *more: None)
                newer = issuer.token(may_read="kind = 'b'")
                with httpx.Client(base_url=broker.url, headers=bearer(newer), timeout=30) as other:
                    publish("two")
                    assert other.get("/v1/subscriptions").status_code == 200
                    publish("three")
                    told = other.get("/v1/notifications?after=0&wait=10").text
                    assert [f'"{name}-{kind}"' in told for name in ("one", "two", "three") for kind in "ab"] == [
                        *(False, False),
                        *(False, False),
                        *(False, True),
                    ]
                for path in ("/v1/notifications?after=0", "/v1/publications", "/v1/sources", "/v1/attributes"):
                    answer = client.get(path)
                    assert (answer.status_code, "src-b" in answer.text) == (401, False), path
                for path, body in (
                    ("/v1/explain", {"subscription": "all", "named": {"source": "src-b", "id": "three-b"}}),
                    ("/v1/explain", {"subscription": {"where": "TRUE"}, "named": {"source": "src-b", "id": "three-b"}}),
                    ("/v1/rehearse", {"subscription": "all", "samples": 10}),
                    ("/v1/rehearse", {"subscription": {"where": "TRUE"}, "samples": 10}),
                ):
                    answer = client.post(path, json=body)
                    assert answer.status_code == 401, (path, answer.text)
                    assert "three-b" not in answer.text
                came = ""
                try:
                    while True:
                        came += str(socket.recv(timeout=1.5))
                except TimeoutError:
                    pass
                assert "-b" not in came
        publisher.close()
