"""Server-Sent Events, and how they resume: an id that is known, unknown, beyond the end, of another epoch, or none."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.gateway.clients import events
from tests.gateway.live_broker import live
from tests.gateway.test_notifications import publications


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with live(tmp_path_factory.mktemp("streams")) as found:
        found.register("ann")
        with found.client("ann") as ann:
            ann.put("/v1/subscriptions/s1", json={"where": "n >= 0"})
            ann.post("/v1/publications", json=publications(0, 5))
            found.run()
            yield found


@pytest.fixture
def epoch(broker):
    with broker.client("ann") as ann:
        return ann.get("/v1/notifications").json()["epoch"]


def resumed(broker, count, **more):
    """The first events of a stream, as type and id or from and to."""
    with broker.client("ann") as ann, events(ann, **more) as found:
        return list(islice((one for one in found if one is not None), count))


def numbers(found):
    return [data["number"] for _, _, data in found]


def test_without_an_id_everything_that_is_not_acknowledged_comes_and_then_what_is_new(broker, epoch):
    with broker.client("ann") as ann, events(ann) as found:
        backlog = list(islice(found, 5))
        assert [(type, id) for type, id, _ in backlog] == [("notification", f"{epoch}-{n}") for n in range(1, 6)]
        assert [data["publication"]["id"] for _, _, data in backlog] == [f"p{n}" for n in range(5)]
        ann.post("/v1/publications", json=publications(5, 1))
        broker.run()
        assert next(found)[1] == f"{epoch}-6"


def test_a_known_id_resumes_behind_it(broker, epoch):
    for more in ({"headers": {"Last-Event-ID": f"{epoch}-3"}}, {"params": {"after": "3"}}):
        assert numbers(resumed(broker, 2, **more)) == [4, 5]
    both = {"headers": {"Last-Event-ID": f"{epoch}-4"}, "params": {"after": f"{epoch}-1"}}
    assert numbers(resumed(broker, 1, **both)) == [5]


@pytest.mark.parametrize("id", ["unknown", "urn:uuid:0", "", "{epoch}-", "{other}-3", "{epoch}-99999", "-1", "ü"])
def test_an_id_that_is_none_of_the_queue_is_a_gap_and_then_everything(broker, epoch, id):
    given = id.format(epoch=epoch, other="0123456789abcdef").encode("latin-1")
    found = resumed(broker, 3, headers={b"Last-Event-ID": given})
    if id:
        (type, at, gap), *found = found
        assert (type, at, gap["type"], gap["oldest"]) == ("gap", f"{epoch}-0", "gap", 1)
        assert gap["reason"] == ("beyond" if id.endswith("99999") else "epoch")
    assert numbers(found)[:2] == [1, 2]


def test_a_wrong_after_is_refused(broker):
    with broker.client("ann") as ann:
        assert ann.get("/v1/stream", params={"after": "x"}).status_code == 422


def test_a_token_in_the_address(broker):
    secret = broker.token("ann")["Authorization"].removeprefix("Bearer ")
    with broker.client("ann") as ann:
        del ann.headers["Authorization"]
        with events(ann, params={"access_token": secret}) as found:
            assert next(found)[2]["number"] == 1
        refused = ann.get("/v1/stream", params={"access_token": secret}, headers={"Origin": "https://other.example"})
        assert refused.status_code == 403
