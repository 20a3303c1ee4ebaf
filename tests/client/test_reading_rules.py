"""What a reader does beside reading: acknowledges, waits when its caller is slow, notices silence, and ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections import deque
from contextlib import aclosing, closing
from datetime import UTC, datetime
from time import monotonic

import pytest

import tidegate as tg
from tests.client.fake_broker import FakeBroker, Fault
from tests.client.in_thread import broker_in_thread
from tidegate.client.items import item_of

TOKEN = "a-token-of-a-test"


def connected(broker: FakeBroker, **settings):
    return tg.connect(broker.url, token=TOKEN, **settings)


async def until(holds) -> float:
    """Wait until something holds; how many seconds that took."""
    began = monotonic()
    while not holds():
        await asyncio.sleep(0.005)
        assert monotonic() - began < 10
    return monotonic() - began


def test_what_the_caller_came_back_from_is_acknowledged_within_a_second_and_the_rest_at_the_end():
    async def run():
        async with FakeBroker() as broker, connected(broker) as client:
            await broker.tell(5)
            async with aclosing(client.notifications()) as items:
                for _ in range(3):
                    await anext(items)
                assert broker.acked == 0
                assert await until(lambda: broker.acked == 2) < 1
                await anext(items)
                await anext(items)
            assert broker.acked == 4
            assert [item.number async for item in first(client.notifications(), 1)] == [5]
            return broker.acks

    acks = asyncio.run(run())
    assert acks == sorted(acks)
    assert len(acks) <= 3


async def first(items, count):
    async with aclosing(items):
        for _ in range(count):
            yield await anext(items)


def test_by_hand_only_what_is_said_is_acknowledged():
    async def run():
        async with FakeBroker() as broker, connected(broker) as client:
            await broker.tell(3)
            found = [item async for item in first(client.notifications(acknowledge="manual"), 3)]
            assert broker.acks == []
            await client.acknowledge(found[1])
            assert broker.acks == [2]
            again = [item.number async for item in first(client.notifications(after=found[0], acknowledge="manual"), 2)]
            assert again == [2, 3]
            assert [item.number async for item in first(client.notifications(after=1), 1)] == [2]

    asyncio.run(run())


def test_a_slow_caller_lets_the_broker_wait():
    async def run():
        async with FakeBroker() as broker, connected(broker, heartbeat=0.05) as client:
            await broker.tell(1)
            for item in broker.items:
                item["publication"]["attributes"]["text"] = "x" * 60_000
            broker.items *= 400
            broker.items = [item | {"number": number} for number, item in enumerate(broker.items, 1)]
            async with aclosing(client.notifications(room=5)) as items:
                assert (await anext(items)).number == 1
                await asyncio.sleep(0.4)
                told = broker.sent
                assert told < 200
                async with asyncio.timeout(20):
                    assert [(await anext(items)).number for _ in range(399)] == list(range(2, 401))
            assert sum("upgrade" in request.headers for request in broker.requests) == 1  # its silence was no death

    asyncio.run(run())


def test_a_broker_that_falls_silent_is_left():
    async def run():
        script = deque([Fault(items=1, silent=True)])
        async with FakeBroker(websocket_faults=script) as broker, connected(broker, heartbeat=0.05) as client:
            await broker.tell(2)
            async with asyncio.timeout(5), aclosing(client.notifications()) as items:
                assert [(await anext(items)).number for _ in range(2)] == [1, 2]
                assert broker.pings >= 1
                quiet = broker.pings
                await until(lambda: broker.pings > quiet + 5)  # one that answers is kept, however little it has to say
            assert sum("upgrade" in request.headers for request in broker.requests) == 2

    asyncio.run(run())


def test_a_token_that_is_taken_away_ends_reading_after_what_came():
    async def run():
        async with FakeBroker(websocket_faults=deque([Fault(items=2)])) as broker, connected(broker) as client:
            await broker.tell(2)
            async with aclosing(client.notifications()) as items:
                found = [(await anext(items)).number, (await anext(items)).number]
                broker.token = "another-token-of-a-test"
                await broker.tell(1)
                with pytest.raises(tg.AccessError):
                    await anext(items)
            return found

    assert asyncio.run(run()) == [1, 2]


def test_without_asyncio():
    with broker_in_thread(websocket_faults=deque([Fault(items=2), Fault(cut=500)])) as (broker, loop):
        asyncio.run_coroutine_threadsafe(broker.tell(4), loop).result()
        with connected(broker) as client:
            for item in client.notifications():
                if item.number == 4:
                    break
            assert item.publication.attributes == {"n": 4}
            assert broker.acked == 3
            with closing(client.notifications()) as items:
                assert next(items).number == 4
        assert broker.acked == 3


@pytest.mark.parametrize("how", ["close", "interrupt"])
def test_a_reader_that_waits_without_asyncio_can_be_ended(how):
    with broker_in_thread() as (broker, loop):
        asyncio.run_coroutine_threadsafe(broker.tell(2), loop).result()
        seen = []

        def end():
            while broker.acked < 2:
                threading.Event().wait(0.005)
            if how == "close":
                client.close()
            else:
                os.kill(os.getpid(), signal.SIGINT)

        def read():
            seen.extend(item.number for item in client.notifications())

        with connected(broker) as client:
            ending = threading.Thread(target=end)
            ending.start()
            if how == "close":
                read()
            else:
                with pytest.raises(KeyboardInterrupt):
                    read()
            ending.join()
        assert broker.acked == 2


def test_the_token_is_in_no_text(caplog):
    caplog.set_level(logging.DEBUG)

    async def run():
        async with FakeBroker(websocket_faults=deque([Fault(items=1)])) as broker, connected(broker) as client:
            await broker.tell(2)
            assert [item.number async for item in first(client.notifications(), 2)] == [1, 2]
            await client.publish({"source": "z"})
            texts = [repr(client), repr(connected(broker)), repr(connected(broker)._address)]
            return [*texts, *(request.target for request in broker.requests)]

    texts = asyncio.run(run())
    assert caplog.records
    assert TOKEN not in "".join([*texts, caplog.text])


def test_items_are_objects_with_times_and_whole_numbers():
    place = {"lon": 7.5, "lat": 46.0}
    attributes = {"n": 2**62, "at": {"timestamp": "2026-11-15T08:00:00.000001Z"}, "xy": place, "s": [1, {"gap": "NaN"}]}
    publication = {
        "id": "p",
        "source": "z",
        "time": "2026-11-15T08:00:00Z",
        "location": place,
        "attributes": attributes,
    }
    told = {
        "number": 3,
        "type": "notification",
        "subscriptions": ["s"],
        "time": "2026-11-15T08:00:00Z",
        "initial": True,
    }
    item = item_of(told | {"matched_at": "2026-11-15T08:00:01Z", "publication": publication, "new": 1}, "e1")
    assert item.position == "e1-3"
    assert item.time == datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert item.initial
    assert item.publication.attributes["n"] == 2**62
    assert item.publication.attributes["at"] == datetime(2026, 11, 15, 8, 0, 0, 1, tzinfo=UTC)
    assert (item.publication.location, item.publication.attributes["xy"]) == ((7.5, 46.0), (7.5, 46.0))
    gone = {"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "gone": True}
    pattern = item_of(told | {"publications": [gone, {"id": "q"}], "score": 1.5, "distance": None}, "e1")
    assert [(one.id, one.gone) for one in pattern.publications] == [("p", True), ("q", False)]
    assert (pattern.score, pattern.publication.time) == (1.5, None)
    retracted = item_of({"number": 4, "type": "retracted", "retracts": 3, "publication": gone}, "e1")
    assert (retracted.retracts, retracted.publication.gone) == (3, True)
    skipped = item_of({"from": 5, "number": 9, "type": "skipped", "reason": "expired"}, "e1")
    assert (skipped.first, skipped.number, skipped.reason) == (5, 9, "expired")
    for wrong in ({}, {"number": "3"}, {"number": 3, "publication": 7}, {"number": -1, "publication": publication}):
        with pytest.raises(tg.BrokerError, match="an item of a queue"):
            item_of({"type": "notification"} | wrong, "e1")
