"""The law of access: nobody learns of a publication that it may not read, by any way out, not even that there is one.

Worlds are drawn (``access_world``), published through the API to a broker with a runner, and read back by every way out
by principals who may read different things; the oracle says what each may see. Whatever is not hidden must be there, so
the law cannot be kept by saying nothing. Every other reader has no token of the broker's own but JWTs of an issuer,
whose claim says what it may read.
"""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from websockets.sync.client import connect

from tests.gateway.access_world import World, marks_in
from tests.gateway.clients import events
from tests.gateway.issuing import TestIssuer
from tests.gateway.live_broker import live
from tests.gateway.served import until
from tests.webhooks.receiver import receiving
from tests.webhooks.sending import SETTINGS, sending

PATTERNS = {
    "topk": "topk(3, 'PT1H', n)",
    "together": "together('PT10M', n > 3, m > 3)",
    "past": "n >= 0 AND n < past(n, m > 1, 5)",
}


class Reader:
    """A principal, what it may read, and its way to the broker."""

    def __init__(self, broker, world, name):
        self.name, self.world, self.read, self.broker = name, world, "TRUE", broker
        self.client = broker.client(name, "subscriber")
        self.triples = 0
        """How many publications were looked at whether it is told of them, over all that it might read."""

    def may_read(self, read):
        self.read = read
        self.broker.broker.principals.put(self.name, read=read)

    def sees(self, data, within=None):
        """The marks in some bytes, none of which may be of a publication that it may not read."""
        found, allowed = marks_in(data), self.world.may_read(self.read)
        assert found <= allowed, (self.name, self.read, found - allowed)
        return found

    def get(self, path, **query):
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        self.sees(answer.content)
        return answer.json()

    def post(self, path, **body):
        return self.client.post(path, json=body)

    # --- the ways out of a queue --------------------------------------------------------------------------------------

    def polled(self):
        found, after = [], "0"
        while (page := self.get("/v1/notifications", after=after, limit=200))["notifications"]:
            found += page["notifications"]
            after = page["next"]
        return whole(found)

    def streamed(self, last):
        with events(self.client, params={"after": "0"}) as stream:
            return self._upto(last, (one[2] for one in stream if one))

    def over_websocket(self, last):
        address = self.broker.url.replace("http", "ws") + "/v1/ws?after=0"
        headers = {"Authorization": self.client.headers["authorization"]}
        with connect(address, additional_headers=headers, compression=None) as socket:
            assert json.loads(socket.recv(timeout=30))["type"] == "hello"
            return self._upto(last, (json.loads(socket.recv(timeout=30)) for _ in itertools.count()))

    # --- the way to a webhook -----------------------------------------------------------------------------------------

    def has_all_posted(self):
        queues = self.get(f"/v1/sessions/{self.name}")["queues"]
        return any(one["destination"] == "webhook:hook" and one["depth"] == 0 for one in queues)

    def posted(self, requests):
        """The items of requests to its webhook, all of which it may read now."""
        for one in requests:
            self.sees(one.body + repr(one.headers).encode())
        return whole([one.json for one in requests if not one.is_challenge])

    def _upto(self, last, items):
        """The items up to a number."""
        found = []
        for item in items:
            self.sees(json.dumps(item).encode())
            found.append(item)
            if item["number"] >= last:
                return whole(found)
        raise AssertionError("an end before the last")


class ReaderByJwt(Reader):
    """The same with a token of an issuer, another one for each ``read``."""

    def __init__(self, broker, world, name, issuer):
        super().__init__(broker, world, name)
        self.client.close()
        broker.broker.principals.remove(name)
        self.issuer, self.client = issuer, httpx.Client(base_url=broker.url, timeout=30)

    def may_read(self, read):
        before = self.client.headers.get("authorization")
        self.read = read
        self.client.headers["authorization"] = f"Bearer {self.issuer.token(self.name, may_read=read)}"
        assert self.client.get(f"/v1/principals/{self.name}").json()["read"] == read  # which may name a mark
        if before is not None:  # the token before has said something else
            with httpx.Client(base_url=self.broker.url, headers={"authorization": before}, timeout=30) as older:
                assert older.get("/v1/notifications?after=0").status_code == 401
                assert older.get("/v1/publications").status_code == 401


def whole(items):
    """Items, with what is left out for one reason as one, wherever pages have cut it."""
    found = []
    for item in items:
        before = found[-1] if found else {}
        if item["type"] == before.get("type") == "skipped" and item["reason"] == before["reason"]:
            found[-1] = item | {"from": before["from"]}
        else:
            found.append(item)
    return found


def told(items, subscription, *, initial=False):
    """The marks of what a queue said that a subscription matched."""
    found = set()
    for item in items:
        if item["type"] == "notification" and subscription in item["subscriptions"] and item["initial"] == initial:
            found |= marks_in(json.dumps(item.get("publication", item.get("publications"))).encode())
    return found


def gone(answer, *names):
    """What an answer says, without what the request has named."""
    text = answer.text
    for name in names:
        text = text.replace(name, "…")
    return answer.status_code, text


def check_world(directory, number, readers, publications, rehearsals):
    """Hold a world against the law; how many triples of principal, filter and publication were looked at."""
    world, issuer = World(number), TestIssuer(directory / "keys.json")
    with live(directory, SETTINGS + issuer.section(read="may_read")) as broker, receiving() as receiver:
        publisher = broker.client("publisher", "publisher")
        everybody = [
            ReaderByJwt(broker, world, f"r{one}", issuer) if one % 2 else Reader(broker, world, f"r{one}")
            for one in range(readers)
        ]

        def publish(count):
            before = set(world.made)
            answer = publisher.post("/v1/publications", json=world.publish(count))
            assert answer.json()["accepted"] == count, answer.text
            return set(world.made) - before

        early = publish(publications // 3)
        for reader in everybody:
            reader.may_read(world.read())
            wanted = {"all": {"where": "TRUE", "initial": True}, "some": {"where": "n >= 4 OR kind IS NOT NULL"}}
            answer = reader.client.put("/v1/webhooks/hook", json={"url": f"{receiver.url}/{reader.name}"})
            assert answer.status_code == 201, answer.text
            wanted["posted"] = wanted["all"] | {"deliver": {"webhook": "hook"}}
            for id, body in {**wanted, **{name: {"where": where} for name, where in PATTERNS.items()}}.items():
                assert reader.client.put(f"/v1/subscriptions/{id}", json=body).status_code == 201
        broker.run()
        late = publish(publications - len(early))
        broker.run()
        valid = {mark for mark in early if "valid_until" in world.publications[mark]}
        first = {reader.name: reader.polled() for reader in everybody}
        for reader in everybody:
            may = world.may_read(reader.read)
            assert told(first[reader.name], "all", initial=True) == valid & may
            assert told(first[reader.name], "all") == late & may

        posted = post_all(broker, receiver, everybody)
        for reader in everybody:
            may = world.may_read(reader.read)
            assert told(posted[reader.name], "posted", initial=True) == valid & may
            assert told(posted[reader.name], "posted") == late & may

        withdrawn = set(world.some(world.made, publications // 10))
        for source, id in world.pairs(withdrawn):
            answer = publisher.delete("/v1/publications", params={"source": source, "id": id})
            assert answer.status_code == 204, answer.text
        broker.run()
        for reader in everybody:
            check_queue(reader, world, valid, late, withdrawn)
            check_reading(reader, world, set(world.made) - withdrawn)
            check_asking(reader, world, withdrawn)
        check_changed_reads(broker, receiver, world, everybody, publish, late - withdrawn)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda reader: check_rehearsal(reader, world, withdrawn), everybody[:rehearsals]))
        for reader in everybody:
            reader.client.close()
        publisher.close()
        return sum(reader.triples for reader in everybody)


def post_all(broker, receiver, everybody):
    """Have a sender post what waits, and stop it; the items that each reader's webhook got, which it may read now."""
    before = {reader.name: len(receiver.by_path[f"/{reader.name}"]) for reader in everybody}
    with sending(broker.broker):
        until(lambda: all(reader.has_all_posted() for reader in everybody))
    return {
        reader.name: reader.posted(receiver.by_path[f"/{reader.name}"][before[reader.name] :]) for reader in everybody
    }


def check_queue(reader, world, valid, late, withdrawn):
    """All that its queue says, by the three ways, which say the same."""
    may, items = world.may_read(reader.read), reader.polled()
    reader.triples += len(world.made)
    assert told(items, "all", initial=True) == (valid - withdrawn) & may
    assert told(items, "all") == (late - withdrawn) & may
    retracted = [item for item in items if item["type"] == "retracted"]
    assert marks_in(json.dumps(retracted).encode()) == withdrawn & (valid | late) & may
    assert {item["reason"] for item in items if item["type"] == "skipped"} <= {"unpublished"}
    assert not [item for item in items if item["type"] == "gap"]
    if items:
        last = items[-1]["number"]
        assert reader.streamed(last) == reader.over_websocket(last) == items


def check_reading(reader, world, there):
    """What it is told of itself: no more than its queue has."""
    session = reader.get(f"/v1/sessions/{reader.name}")
    assert len(reader.get("/v1/sessions")["sessions"]) == 1
    assert session["queues"][0]["last"] == reader.get("/v1/notifications", limit=1)["last"]
    shown = world.may_read(reader.read) & there
    for path, what, query in (
        ("/v1/publications", "id-", {"limit": 1000}),
        ("/v1/sources", "src-", {}),
        ("/v1/attributes", "attr-", {}),
    ):
        text = json.dumps(reader.get(path, **query))
        wanted = {mark for mark in shown if f"{what}{mark}" in json.dumps(world.publications[mark])}
        assert marks_in(text.encode()) == wanted, (path, reader.read)
    own = {mark for mark in set(world.made) - shown if world.publications[mark]["source"].startswith("src-")}
    for mark in world.some(own, 2):  # a source that has nothing that may be read is as one that is not there
        for path in ("/v1/publications", "/v1/attributes"):
            hidden, none = (reader.client.get(path, params={"source": f"src-{one}"}) for one in (mark, 16 * "0"))
            assert (hidden.status_code, shape_of(hidden)) == (none.status_code, shape_of(none)), reader.read


def shape_of(answer):
    """What an answer says, but for a position that nobody can read."""
    return {name: value for name, value in answer.json().items() if name != "next"}


def check_asking(reader, world, withdrawn):
    """Questions about one publication: one that may not be read is answered as one that is not there."""
    may = world.may_read(reader.read)
    hidden, shown = set(world.made) - may - withdrawn, may - withdrawn
    for mark in world.some(hidden, 3) + world.some(shown, 2):
        ((source, id),) = world.pairs([mark])
        body = {"subscription": {"where": "n > 2 AND kind = 'rain'"}}
        answer = reader.post("/v1/explain", **body, named={"source": source, "id": id})
        if mark in shown:
            assert answer.status_code == 200, answer.text
            assert answer.json()["readable"] is True
            continue
        other = reader.post("/v1/explain", **body, named={"source": source, "id": f"x{id}"})
        assert answer.status_code == 404
        assert gone(answer, source, f"x{id}", id) == gone(other, source, f"x{id}", id)
    for mark in world.some(hidden, 1):
        where = f"mark = 'mark-{mark}' OR source = '{world.publications[mark]['source']}'"
        there, not_there = (reader.post("/v1/check", where=text) for text in (where, where.replace(mark, 16 * "0")))
        assert there.text.replace(mark, 16 * "0") == not_there.text


def check_changed_reads(broker, receiver, world, everybody, publish, delivered):
    """Another read: what was told before is shown only if it may be read now, and what comes later is matched by it.
    To webhooks also what was matched before and waits.
    """
    waiting = publish(max(3, len(world.made) // 10))
    broker.run()
    delivered = delivered | waiting
    before = {reader.name: world.may_read(reader.read) for reader in everybody}
    for reader in everybody:
        reader.may_read(world.read())
    later = publish(max(3, len(world.made) // 10))
    broker.run()
    posted = post_all(broker, receiver, everybody)
    for reader in everybody:
        may = world.may_read(reader.read)
        assert told(posted[reader.name], "posted") == (waiting & before[reader.name] & may) | (later & may)
    for reader in everybody:
        may, items = world.may_read(reader.read), reader.polled()
        reader.triples += len(world.made)
        assert told(items, "all") == (delivered & before[reader.name] & may) | (later & may)
        assert {item["reason"] for item in items if item["type"] == "skipped"} <= {"unpublished", "unreadable"}
        if items:
            last = items[-1]["number"]
            assert reader.streamed(last) == reader.over_websocket(last) == items


def check_rehearsal(reader, world, withdrawn):
    """A rehearsal counts nothing that may not be read."""
    may = world.may_read(reader.read) - withdrawn
    found = reader.post("/v1/rehearse", subscription={"where": "TRUE"}, samples=100)
    assert found.status_code == 200, found.text
    reader.sees(found.content)
    assert found.json()["notifications"] == len(may)
    marks = marks_in(json.dumps(found.json()["samples"]).encode())
    assert len(marks) == min(100, len(may))


def test_nobody_learns_of_what_it_may_not_read(tmp_path):
    assert check_world(tmp_path, 1, 4, 60, 1) > 400


@pytest.mark.thorough
def test_nobody_learns_of_what_it_may_not_read_in_many_worlds(tmp_path):
    triples = 0
    for number in itertools.count(2):
        (tmp_path / str(number)).mkdir()
        triples += check_world(tmp_path / str(number), number, 16, 400, 4)
        if triples >= 100_000:
            break
