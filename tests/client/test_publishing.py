"""Publishing to a broker that loses requests and answers: each publication is in its log once, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.client.fake_broker import FakeBroker, Fault
from tests.client.in_thread import broker_in_thread
from tests.parts.profiles import examples
from tidegate.client.publication_batches import batches

TOKEN = "a-token-of-a-test"
WHEN = datetime(2026, 11, 15, 8, tzinfo=UTC)
faults = st.builds(
    Fault,
    status=st.sampled_from([0, 0, 0, 429, 502, 503, 504, 507]),
    retry_after=st.sampled_from([None, "0", "nonsense", "Sun, 15 Nov 2015 08:00:00 GMT"]),
    before=st.sampled_from([False, False, True]),
    cut=st.none() | st.integers(0, 220),
)


def connected(broker: FakeBroker, **settings):
    return tg.connect(broker.url, token=TOKEN, **settings)


def some(count: int) -> list[dict]:
    return [{"source": "z", "time": "2026-11-15T08:00:00Z", "n": n} for n in range(count)]


@examples(30)
@given(script=st.lists(faults, max_size=8), count=st.integers(1, 30), in_flight=st.integers(1, 3))
def test_each_publication_is_taken_once_whatever_is_lost(script, count, in_flight):
    async def run():
        async with FakeBroker(faults=deque(script)) as broker, connected(broker) as client:
            return broker, await client.publish((one for one in some(count)), in_flight=in_flight)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.client.publication_batches._ROWS", 7)
        broker, answer = asyncio.run(run())
    assert answer.accepted + answer.duplicates == answer.count == count
    assert sorted(one["n"] for one in broker.log.values()) == list(range(count))
    if in_flight == 1:
        assert [one["n"] for one in broker.log.values()] == list(range(count))
    assert {id: n for n, id in answer.ids.items()} == {id: one["n"] for (_, id), one in broker.log.items()}
    assert broker.most_in_flight <= in_flight


def test_a_generator_is_taken_no_faster_than_the_broker_accepts(monkeypatch):
    monkeypatch.setattr("tidegate.client.publication_batches._ROWS", 10)
    taken = []

    def given():
        for one in some(1_000):
            taken.append(one)
            yield one

    async def run():
        async with FakeBroker() as broker, connected(broker) as client:
            async for answer in client.publish_in_batches(given(), in_flight=2):
                assert len(taken) <= answer.first + answer.count + 10 * 2 + 1
            return broker

    assert len(asyncio.run(run()).log) == len(taken) == 1_000


def test_what_comes_asynchronously_is_published():
    async def given():
        for one in some(5):
            await asyncio.sleep(0)
            yield one

    async def run():
        async with FakeBroker() as broker, connected(broker) as client:
            return await client.publish(given())

    assert asyncio.run(run()).accepted == 5


def test_without_asyncio_and_in_the_thread_of_the_caller():
    import threading

    threads = set()

    def given():
        for one in some(3):
            threads.add(threading.current_thread())
            yield one

    with broker_in_thread() as (broker, _), connected(broker) as client:
        assert client.publish(given()).accepted == 3
        assert client.publish(tg.Publication("p", "z", WHEN, {"n": 9})).accepted == 1
    assert threads == {threading.current_thread()}
    with pytest.raises(tg.BrokerError, match="one that was closed"):
        client.publish(some(1))


def published(given) -> list[dict]:
    """What a broker gets."""
    with broker_in_thread() as (broker, _), connected(broker) as client:
        client.publish(given)
    return list(broker.log.values())


def test_values_are_what_json_has_for_them():
    eastern = timezone(timedelta(hours=1))
    given = tg.Publication(
        "p",
        "z",
        WHEN.astimezone(eastern),
        {
            "i": 2**62,
            "f": 1.5,
            "t": "ä",
            "b": True,
            "at": WHEN,
            "day": date(2026, 11, 15),
            "xy": (7.0, 46.0),
            "s": [1, 2.5],
        },
        location=(7.5, 47.0),
        valid_until=WHEN,
    )
    attributes = {"i": 2**62, "f": 1.5, "t": "ä", "b": True, "at": {"timestamp": "2026-11-15T08:00:00.000000Z"}}
    attributes |= {"day": {"date": "2026-11-15"}, "xy": {"lon": 7.0, "lat": 46.0}, "s": [1, 2.5]}
    stamp = "2026-11-15T08:00:00.000000Z"
    fields = {"id": "p", "source": "z", "time": stamp, "location": {"lon": 7.5, "lat": 47.0}, "valid_until": stamp}
    assert published(given) == [fields | {"attributes": attributes}]
    flat = {
        "id": "p",
        "source": "z",
        "time": WHEN,
        "n": np.float32(1.5),
        "k": np.int64(3),
        "m": {"inner": WHEN},
        "no": None,
    }
    assert published([flat]) == [
        {"id": "p", "source": "z", "time": stamp, "n": 1.5, "k": 3, "m": {"inner": {"timestamp": stamp}}}
    ]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ({"source": "z", "n": float("nan")}, "a finite number"),
        ({"source": "z", "s": [1.0, float("inf")]}, "a finite number"),
        ({"source": "z", "time": datetime(2026, 11, 15)}, "a time with a time zone"),
        ({"source": "z", "n": object()}, "a number, string"),
        ({1: 2}, "names that are texts"),
        (7, "a publication or a dict"),
    ],
)
def test_what_json_would_change_is_refused_before_it_is_sent(one, told):
    with broker_in_thread() as (broker, _), connected(broker) as client, pytest.raises(tg.PublicationError, match=told):
        client.publish([one])
    assert not broker.requests


@pytest.mark.parametrize("kind", ["arrow", "batches", "pandas", "polars"])
def test_tables_go_as_arrow(kind):
    table = pa.table({"source": ["z", "z", "z"], "n": [1, 2, 3], "id": ["a", None, "c"]})
    if kind == "pandas":
        given = pytest.importorskip("pandas").DataFrame(table.to_pydict())
    elif kind == "polars":
        given = pytest.importorskip("polars").DataFrame(table.to_pydict())
    else:
        given = table if kind == "arrow" else pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    for one in batches(given) if kind != "batches" else ():
        assert not any(map(pa.types.is_string_view, pa.ipc.open_stream(one.body).schema.types))
    found = published(given)
    assert [(one["source"], one["n"]) for one in found] == [("z", 1), ("z", 2), ("z", 3)]
    assert (found[0]["id"], found[2]["id"]) == ("a", "c")
    assert len(found[1]["id"]) == 32


def test_bodies_are_bounded(monkeypatch):
    monkeypatch.setattr("tidegate.client.publication_batches._BYTES", 1_000)
    monkeypatch.setattr("tidegate.client.publication_batches._ROWS", 20)
    found = list(batches({"source": "z", "t": "x" * (n % 400)} for n in range(500)))
    assert [one.first for one in found] == list(np.cumsum([0, *(one.count for one in found)])[:-1])
    assert sum(one.count for one in found) == 500
    assert all(len(one.body) <= 1_000 and one.count <= 20 for one in found)
    tables = list(batches(pa.table({"t": ["x" * 100] * 100})))
    assert [one.first for one in tables] == list(np.cumsum([0, *(one.count for one in tables)])[:-1])
    assert all(pa.ipc.open_stream(one.body).read_all().num_rows == one.count < 20 for one in tables)
    assert [one.count for one in batches([{"t": "x" * 5_000}] * 2)] == [1, 1]


def test_one_that_is_refused_is_an_error_and_some_of_many_are_told():
    bad = {"source": "z", "bad": 1}
    with broker_in_thread() as (broker, _), connected(broker) as client:
        answer = client.publish([*some(2), bad, *some(1)])
        assert (answer.accepted, [(one.index, one.code) for one in answer.refused]) == (3, [(2, "ahead")])
        assert client.publish([bad]).refused
        with pytest.raises(tg.RefusedError, match="expected a time; got one ahead") as caught:
            client.publish(bad)
        assert caught.value.code == "ahead"
        client.publish({"source": "z", "id": "a", "n": 1})
        with pytest.raises(tg.ConflictError):
            client.publish({"source": "z", "id": "a", "n": 2})


def test_patience_ends_and_what_must_not_be_made_twice_is_not():
    told = {"id": "t1", "token": "secret-of-a-token"}
    with broker_in_thread() as (broker, _), connected(broker, deadline=0.05) as client:
        broker.answers["POST", "/v1/tokens"] = 201, told
        broker.faults.extend([Fault(status=503)] * 1_000)
        with pytest.raises(tg.BrokerError, match="expected less; got more") as caught:
            client.publish(some(1))
        assert caught.value.status == 503
        broker.faults = deque([Fault(status=429, retry_after="3600")])
        with pytest.raises(tg.BrokerError):
            client.status()
        assert not broker.faults
        broker.faults = deque([Fault(status=507), Fault(cut=30)])
        with pytest.raises(tg.BrokerError, match="a whole answer"):
            client.make_token("ann", ["subscriber"])
        assert not broker.faults
        made = client.make_token("ann", ["subscriber"])
        assert (made.id, made.secret) == ("t1", "secret-of-a-token")
        assert "secret-of" not in repr(made)
        assert orjson.loads(broker.requests[-1].body) == {"principal": "ann", "roles": ["subscriber"]}


@pytest.mark.parametrize(
    ("status", "problem", "kind"),
    [
        (401, {"code": "unauthorized", "expected": "a token", "got": "none"}, tg.AccessError),
        (403, {"code": "forbidden", "expected": "a role", "got": "another"}, tg.AccessError),
        (
            422,
            {"code": "parse", "expected": "a value", "got": "'>'", "at": "line 1, column 7", "caret": "^"},
            tg.ParseError,
        ),
        (422, {"code": "type", "expected": "a number", "got": "a text"}, tg.TypeMismatch),
        (404, {"code": "unknown", "expected": "an id", "got": "'x'"}, tg.UnknownSubscription),
        (409, {"code": "conflict", "expected": "the same", "got": "another"}, tg.ConflictError),
        (413, {"code": "too_large", "expected": "less", "got": "more"}, tg.RefusedError),
        (500, {"code": "internal", "expected": "an answer", "got": "an error"}, tg.BrokerError),
        (418, {}, tg.RefusedError),
    ],
)
def test_problems_are_the_errors_that_they_would_be_here(status, problem, kind):
    with broker_in_thread() as (broker, _), connected(broker, deadline=0.05) as client:
        broker.answers["POST", "/v1/check"] = status, problem
        with pytest.raises(kind) as caught:
            client.check("no2 > > 40")
    assert type(caught.value) is kind
    if problem:
        assert caught.value.code == problem["code"]
        assert (caught.value.expected, caught.value.got) == (problem["expected"], problem["got"])
        assert caught.value.at == ", ".join(filter(None, (problem.get("at"), "POST /v1/check")))


def test_no_broker_there():
    with tg.connect("http://127.0.0.1:9", token=TOKEN, deadline=0.05) as client:
        with pytest.raises(tg.BrokerError, match="a broker at http"):
            client.status()
        with pytest.raises(tg.BrokerError, match="a broker at http"):
            next(client.notifications())
