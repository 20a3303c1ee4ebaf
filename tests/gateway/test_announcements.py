"""Announcements over HTTP: what is kept and refused, and who sees what."""

from __future__ import annotations

import anyio
import pytest

from tests.gateway.broker import client_of, opened, token
from tests.gateway.test_application import problem_of

AREA = {"type": "Polygon", "coordinates": [[[16, 46], [17, 46], [17, 47], [16, 46]]]}
WHOLE = {
    "source": "z/7",
    "attributes": {"no2": {"min": 0, "max": 400}, "state": {"values": ["ok", 1, True]}, "o3": {}},
    "location": {"lon": 16, "lat": 46},
    "rate": 0.1,
    "quality": {"battery": 0.5},
}


@pytest.fixture
def ask(tmp_path):
    """Call a function with a client that may publish, and the broker."""

    def asked(work, **more):
        async def once():
            with opened(tmp_path) as broker:
                async with client_of(broker, headers=token(broker, "ann", ["publisher"], **more)) as client:
                    return await work(client, broker)

        return anyio.run(once)

    return asked


def test_announced_shown_and_revoked(ask):
    async def work(client, broker):
        made = await client.post("/v1/announcements", json=WHOLE)
        assert made.status_code == 201
        found = made.json()
        assert found == {**WHOLE, "id": found["id"], "principal": "ann", "announced_at": found["announced_at"]}
        assert made.headers["location"] == f"/v1/announcements/{found['id']}"
        other = {"source": "z/7", "attributes": {"no2": {"min": 0}}, "area": AREA}
        again = await client.post("/v1/announcements", json=other)
        assert (again.status_code, again.json()["id"], again.json()["area"]) == (200, found["id"], AREA)
        assert (await client.get(made.headers["location"])).json() == again.json()

        bob, root = (token(broker, *who) for who in (("bob", ["publisher"]), ("root", ["administrator"])))
        problem_of(await client.get(made.headers["location"], headers=bob), 404, "not_found")
        problem_of(await client.delete(made.headers["location"], headers=bob), 404, "not_found")
        assert (await client.get("/v1/announcements", headers=bob)).json() == {"announcements": [], "next": None}
        await client.post("/v1/announcements", json=WHOLE, headers=bob)
        seen = (await client.get("/v1/announcements", headers=root)).json()["announcements"]
        assert sorted(one["principal"] for one in seen) == ["ann", "bob"]
        page = (await client.get("/v1/announcements?limit=1", headers=root)).json()
        rest = (await client.get("/v1/announcements", params={"after": page["next"]}, headers=root)).json()
        assert (page["announcements"] + rest["announcements"], rest["next"]) == (seen, None)
        problem_of(await client.get("/v1/announcements", headers=token(broker, "cy", ["subscriber"])), 403, "forbidden")

        assert (await client.delete(made.headers["location"])).status_code == 204
        problem_of(await client.delete(made.headers["location"]), 404, "not_found")
        bobs = (await client.get("/v1/announcements", headers=bob)).json()["announcements"][0]["id"]
        assert (await client.delete("/v1/announcements", params={"id": bobs}, headers=root)).status_code == 204

    ask(work)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"source": ""}, "body"),
        ({"source": "z\0"}, "message"),
        ({"attributes": {}}, "body"),
        ({"attributes": {"": {}}}, "message"),
        ({"attributes": {"x" * 1025: {}}}, "message"),
        ({"attributes": {"no2": {"min": 2, "max": 1}}}, "message"),
        ({"attributes": {"no2": {"min": 2, "values": [1]}}}, "message"),
        ({"attributes": {"no2": {"min": 2**70}}}, "message"),
        ({"attributes": {"no2": {"min": 10**400, "max": 1.5}}}, "message"),
        ({"attributes": {"no2": {"values": [1, -(2**70)]}}}, "message"),
        ({"attributes": {"no2": {"values": []}}}, "body"),
        ({"attributes": {"no2": {"below": 2}}}, "body"),
        ({"attributes": {"no2": {"values": ["x" * 1024] * 100}}}, "message"),
        ({"location": {"lon": 181, "lat": 0}}, "body"),
        ({"area": AREA}, "message"),
        ({"location": None, "area": {"type": "Point", "coordinates": [16, 46]}}, "message"),
        ({"location": None, "area": {"type": "Polygon", "coordinates": [[[16, 46], [999, 46], [16, 46]]]}}, "message"),
        ({"location": None, "area": {"type": "Polygon", "coordinates": "x"}}, "message"),
        ({"rate": 0}, "body"),
        ({"quality": {"battery": 1.5}}, "body"),
        ({"quality": {"price": 1}}, "body"),
    ],
)
def test_what_nobody_can_announce(ask, change, code):
    async def work(client, broker):
        found = problem_of(await client.post("/v1/announcements", json={**WHOLE, **change}), 422, code)
        assert len(found["detail"]) < 500
        assert (await client.get("/v1/announcements")).json()["announcements"] == []

    ask(work)


def test_only_sources_of_the_token(ask):
    async def work(client, broker):
        assert (await client.post("/v1/announcements", json=WHOLE)).status_code == 201
        problem_of(await client.post("/v1/announcements", json={**WHOLE, "source": "y"}), 403, "source")

    ask(work, sources=["z*"])


def test_a_bounded_number_of_them(ask, monkeypatch):
    monkeypatch.setattr("tidegate.gateway.announcing._MOST", 2)

    async def work(client, broker):
        for source in ("a", "b", "a"):
            assert (await client.post("/v1/announcements", json={**WHOLE, "source": source})).is_success
        problem_of(await client.post("/v1/announcements", json={**WHOLE, "source": "c"}), 429, "quota")
        assert broker.counts.items() == [
            ("announcements", "made", 2), ("announcements", "replaced", 1), ("announcements_refused", "quota", 1)
        ]  # fmt: skip

    ask(work)
