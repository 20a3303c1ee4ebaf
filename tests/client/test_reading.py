"""Reading a queue from a broker that breaks off anywhere: every item once and in order, and nothing lost in silence."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.client.fake_broker import FakeBroker, Fault
from tests.parts.profiles import examples
from tidegate.client.queue_connection import ConnectionLost
from tidegate.client.queue_reader import QueueReader
from tidegate.client.task_end import ended
from tidegate.errors import BrokerError

TOKEN = "a-token-of-a-test"
#: Bytes until the end of what a broker says of three items, about.
_BYTES = 1_000

faults = st.builds(
    Fault,
    status=st.sampled_from([0, 0, 0, 0, 429, 500, 502, 503]),
    before=st.sampled_from([False, False, False, True]),
    cut=st.none() | st.integers(0, _BYTES),
    items=st.none() | st.integers(0, 5),
    again=st.integers(0, 3),
    left_out=st.sampled_from([0, 0, 0, 1, 2]),
    lagging=st.booleans(),
    epoch=st.sampled_from([False, False, False, True]),
    tells_gap=st.booleans(),
)


def connected(broker: FakeBroker, **settings):
    return tg.connect(broker.url, token=TOKEN, **settings)


def expect_each_once(found: list, epochs: list[str], count: int) -> None:
    """Within an epoch the numbers follow each other from the first on; another begins with a gap that says so."""
    number, epoch = 0, None
    for item in found:
        if isinstance(item, tg.Gap) and item.reason == "epoch":
            assert item.epoch != epoch
            assert epoch is None or epochs.index(item.epoch) > epochs.index(epoch)
            assert item.since == 1
            epoch, number = item.epoch, item.number
            continue
        epoch = epoch or item.epoch
        assert item.epoch == epoch
        assert item.first == number + 1
        number = item.number
        if isinstance(item, tg.DeliveredNotification):
            assert item.publication.id == f"{epoch}.{number}"
            assert item.publication.attributes == {"n": number}
        else:
            assert (type(item), item.reason) == (tg.Gap, "missing")
    assert number == count


async def read(broker: FakeBroker, client, count: int, **settings) -> list:
    """What comes until so many items of the broker's epoch have come."""
    found = []
    async for item in client.notifications(**settings):
        found.append(item)
        assert item.epoch != broker.epoch or broker.acked < max(1, item.number)  # only what the caller came back from
        if item.number == count and item.epoch == broker.epoch:
            break
    return found


@examples(40)
@given(script=st.lists(faults, max_size=6), count=st.integers(1, 12), first=st.integers(0, 12))
def test_each_item_comes_once_and_in_order_whatever_breaks(script, count, first):
    async def run():
        async with FakeBroker(websocket_faults=deque(script)) as broker, connected(broker) as client:
            await broker.tell(min(first, count))
            reading = asyncio.create_task(read(broker, client, count))
            await broker.tell(count - min(first, count))
            return broker.epochs, await asyncio.wait_for(reading, 20)

    epochs, found = asyncio.run(run())
    expect_each_once(found, epochs, count)


async def cut_after(cuts) -> list[int]:
    """Read three items for each of these numbers of bytes, after which the first connection ends; those that ended."""
    ended = []
    async with FakeBroker() as broker:
        await broker.tell(3)
        for cut in cuts:
            broker.websocket_faults.append(Fault(cut=cut))
            async with connected(broker) as client:
                found = await asyncio.wait_for(read(broker, client, 3, acknowledge="manual"), 10)
            expect_each_once(found, broker.epochs, 3)
            ended += [cut] * (sum(request.headers.get("upgrade") is not None for request in broker.requests) - 1)
            broker.requests.clear()
    return ended


def test_a_connection_that_ends_after_some_bytes():
    cuts = range(7, _BYTES, 97)
    assert set(asyncio.run(cut_after(cuts))) >= {cut for cut in cuts if cut < 900}


@pytest.mark.thorough
def test_a_connection_that_ends_after_any_byte():
    assert set(asyncio.run(cut_after(range(_BYTES)))) >= set(range(900))


def test_who_is_cancelled_ends_also_where_what_it_had_begun_has_failed():
    """As a reader does that waits for room while its connection was lost: else it would connect again for good."""

    async def fail():
        raise ConnectionLost(BrokerError("an answer", "none", "the broker"))

    async def use():
        keeper = asyncio.create_task(fail())
        try:
            await asyncio.Event().wait()
        finally:
            await ended(keeper)

    async def run():
        task = asyncio.create_task(use())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


def test_closing_while_a_lost_connection_is_given_up(monkeypatch):
    """Whoever is cancelled while it waits for a task that it has cancelled must end, and not connect again."""

    async def run():
        giving_up = asyncio.Event()

        async def keep(self, connection):
            try:
                await asyncio.Event().wait()
            finally:
                giving_up.set()
                await asyncio.sleep(3600)

        monkeypatch.setattr(QueueReader, "_keep", keep)
        async with FakeBroker(websocket_faults=deque([Fault(items=1)])) as broker:
            await broker.tell(2)
            async with connected(broker) as client:
                items = client.notifications()
                assert (await anext(items)).number == 1
                await asyncio.wait_for(giving_up.wait(), 10)
                await asyncio.wait_for(items.aclose(), 10)
            return [request.headers.get("upgrade") for request in broker.requests]

    assert asyncio.run(run()).count("websocket") == 1
