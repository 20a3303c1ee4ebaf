"""The quota ``cost``: what is put is measured at once, and refused if it would be too much. Figures are made up where a
test says how much is too much.
"""

from __future__ import annotations

import re

import orjson
import pytest

from tests.gateway.broker import opened
from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tests.parts.cost_world import costly, publications
from tidegate.broker.cost_measure import CostMeasure
from tidegate.predicates import Filter
from tidegate.store.costs import Cost


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("costs")) as found:
        found.broker.log.append(publications(300))
        yield found


@pytest.fixture
def priced(monkeypatch):
    """Subscriptions ``n > 30`` take 30 microseconds each."""
    monkeypatch.setattr(CostMeasure, "microseconds", lambda self, some: float(sum(map(_number, some))))


def _number(found: Filter) -> float:
    return next(float(number) for number in re.findall(r"-?\d+\.?\d*", str(found.clauses)) if float(number) > 0)


def limit(broker, principal, **quotas):
    broker.broker.principals.put(principal, quotas=quotas)


def put(client, id, number, **more):
    return client.put(f"/v1/subscriptions/{id}", json={"where": f"n > {number}"}, **more)


@pytest.mark.usefixtures("priced")
def test_what_is_within_is_taken_and_what_is_beyond_refused(broker):
    limit(broker, "ann", cost=50)
    with broker.client("ann") as ann:
        assert put(ann, "s1", 30).status_code == 201
        refused = put(ann, "s2", 40)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota")
        assert refused.json()["expected"] == "subscriptions of ann that take at most 50 µs per publication together"
        assert refused.json()["got"] == "70 µs with this one, which takes 40 µs"
        assert refused.json()["at"] == "subscription 's2'"
        assert put(ann, "s2", 20).status_code == 201
        assert put(ann, "s3", 12).status_code == 201  # a quarter more passes, as measurements differ
        assert put(ann, "s4", 5).status_code == 429
        assert ann.get("/v1/subscriptions/s1").json()["cost"]["microseconds"] == 30
        assert [one["id"] for one in ann.get("/v1/subscriptions").json()["subscriptions"]] == ["s1", "s2", "s3"]


@pytest.mark.usefixtures("priced")
def test_what_is_replaced_is_taken_off(broker):
    limit(broker, "bob", cost=50)
    with broker.client("bob") as bob:
        assert put(bob, "s1", 50).status_code == 201
        assert put(bob, "s2", 20).status_code == 429
        assert put(bob, "s1", 50).status_code == 200  # as it is
        assert put(bob, "s1", 45).status_code == 409  # without If-Match that is all there is to say
        assert put(bob, "s1", 80, headers={"If-Match": '"other"'}).status_code == 412
        assert put(bob, "s1", 80, headers={"If-Match": "*"}).status_code == 429
        assert put(bob, "s1", 30, headers={"If-Match": "*"}).status_code == 200
        assert put(bob, "s1", 35, headers={"If-Match": "*"}).status_code == 200
        assert put(bob, "s1", 30, headers={"If-Match": "*"}).status_code == 200
        assert put(bob, "s2", 20).status_code == 201
        assert bob.delete("/v1/subscriptions/s2").status_code == 204
        assert [one.id for one in broker.broker.costs.of_principal("bob").values()] == ["s1"]
        assert put(bob, "s3", 20).status_code == 201


@pytest.mark.usefixtures("priced")
def test_who_has_too_much_already_may_have_less(broker):
    with broker.client("cy") as cy:
        assert put(cy, "s1", 90).status_code == 201  # nothing is measured without the quota
        assert cy.get("/v1/subscriptions/s1").json()["cost"] is None
    limit(broker, "cy", cost=10)
    with broker.client("cy") as cy:
        assert put(cy, "s2", 20).status_code == 429  # what is there is measured now
        assert cy.get("/v1/subscriptions/s1").json()["cost"]["microseconds"] == 90
        assert put(cy, "s1", 95, headers={"If-Match": "*"}).status_code == 429
        assert put(cy, "s1", 60, headers={"If-Match": "*"}).status_code == 200


@pytest.mark.usefixtures("priced")
def test_of_many_those_beyond_are_refused_and_the_others_taken(broker):
    limit(broker, "dora", cost=100, subscriptions=4)
    with broker.client("dora") as dora:
        lines = [{"id": f"s{n}", "where": f"n > {n}"} for n in (60, 50, 30, 20, 10, 2, 1)] + [
            {"id": "x", "where": "n >"}
        ]
        answer = dora.post(
            "/v1/subscriptions",
            content=b"\n".join(map(orjson.dumps, lines)),
            headers={"Content-Type": "application/x-ndjson"},
        )
        found = answer.json()
        assert (answer.status_code, found["made"]) == (200, 4)
        assert [(one["index"], one["code"]) for one in found["refused"]] == [
            (2, "quota"),
            (3, "quota"),
            (6, "quota"),
            (7, "parse"),
        ]
        assert [one["got"] for one in found["refused"][1:3]] == ["130 µs with this one, which takes 20 µs", "one more"]


@pytest.mark.usefixtures("priced")
def test_an_id_that_is_repeated_takes_nothing_off_twice(broker):
    limit(broker, "jo", cost=50)
    with broker.client("jo") as jo:
        assert put(jo, "s1", 50).status_code == 201
        lines = [{"id": "s1", "where": f"n > {n}", "if_match": "*"} for n in (30, 20, 10)]
        lines.append({"id": "s2", "where": "n > 60"})
        body = b"\n".join(map(orjson.dumps, lines))
        found = jo.post("/v1/subscriptions", content=body, headers={"Content-Type": "application/x-ndjson"}).json()
        assert [one["code"] for one in found["refused"]] == ["conflict", "conflict", "quota"]
        assert found["refused"][2]["got"] == "90 µs with this one, which takes 60 µs"


@pytest.mark.usefixtures("priced")
def test_over_a_websocket(broker):
    limit(broker, "eve", cost=50)
    broker.register("eve")
    with Client(broker, "eve") as eve:
        assert eve.receive()["type"] == "hello"
        assert eve.ask("subscribe", id="s1", where="n > 30")["type"] == "accepted"
        refused = eve.ask("subscribe", id="s2", where="n > 40")
        assert (refused["type"], refused["status"], refused["code"]) == ("error", 429, "quota")


@pytest.mark.usefixtures("priced")
def test_better_figures_count_and_those_of_what_has_ended_do_not(broker):
    limit(broker, "fay", cost=50)
    with broker.client("fay") as fay:
        assert put(fay, "s1", 50).status_code == 201
        since = broker.broker.registry.stored("fay/s1").since
        broker.broker.costs.note([Cost(since, "fay", "s1", 10.0, 1), Cost(1 << 40, "fay", "gone", 1e6, 1)])
        assert put(fay, "s2", 40).status_code == 201


@pytest.mark.usefixtures("priced")
def test_what_takes_little_counts_as_among_a_thousand(broker):
    limit(broker, "hal", cost=5)
    with broker.client("hal") as hal:
        for n in range(30):
            assert put(hal, f"s{n}", 0.9).status_code == 201
        assert put(hal, "dear", 8).status_code == 429


def test_what_cannot_be_measured_is_not_refused(broker, monkeypatch):
    limit(broker, "ida", cost=5)
    monkeypatch.setattr(CostMeasure, "microseconds", lambda *_: 1 / 0)
    with broker.client("ida") as ida:
        assert put(ida, "s1", 1).status_code == 201


def test_real_ones(broker):
    """A quota of 10 lets hundreds of comparisons pass, and a pattern that keeps many publications together not."""
    limit(broker, "gil", cost=10)
    with broker.client("gil") as gil:
        body = b"\n".join(orjson.dumps({"id": f"s{n}", "where": f"a{n % 9} > {n % 90}"}) for n in range(500))
        answer = gil.post("/v1/subscriptions", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert (answer.json()["made"], answer.json()["refused"]) == (500, [])
        for n in range(20):
            assert put(gil, f"t{n}", n).status_code == 201
        more = [costly("d").where[:-1] + f", b > {n})" for n in range(20)]
        dear = [gil.put(f"/v1/subscriptions/d{n}", json={"where": where}) for n, where in enumerate(more)]
        assert 429 in [one.status_code for one in dear]
        got = next(one.json() for one in dear if one.status_code == 429)
        assert "µs with this one" in got["got"]


@pytest.mark.usefixtures("priced")
def test_without_enough_publications_nothing_is_refused(tmp_path):
    broker = opened(tmp_path)
    with broker:
        broker.log.append(publications(99))
        broker.principals.put("ann", quotas={"cost": 1})
        assert broker.cost_quota._measured_with() is None
        broker.log.append(publications(130)[99:])
        assert broker.cost_quota._measured_with() is not None
