"""Turns of a sender, without a broker: who is given one, and who is not."""

from __future__ import annotations

import asyncio

from tests.webhooks.one_endpoint import NOW, Pages, Posts, Records, parts_of, webhook
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.webhook_tables import Progress
from tidegate.webhooks.endpoint_delivery import EndpointDelivery
from tidegate.webhooks.endpoint_states import State
from tidegate.webhooks.sender import Sender, _behind

KEY = "ann", "hook"


def with_sender(work, pages, posts, first):
    """Do something with a sender of one endpoint that nothing has woken yet."""

    async def once():
        sender = Sender(WebhooksSection(), None, None)
        sender._loop = asyncio.get_running_loop()
        sender._deliveries[KEY] = EndpointDelivery(first, posts, parts_of(pages, Records()))
        await work(sender)
        for turns in sender._turns.values():
            turns.cancel()

    asyncio.run(once())


def test_an_endpoint_that_failed_and_has_nothing_left_is_asked_for_once():
    pages, posts = Pages(0), Posts()

    async def work(sender):
        sender.wake(KEY)
        for _ in range(100):
            await asyncio.sleep(0)

    failed = Progress(State.FAILING, 9, NOW - 9, NOW - 1, "status 500")
    with_sender(work, pages, posts, webhook(progress=failed))
    assert (pages.reads, posts.made) == (1, [])


def test_an_endpoint_that_was_removed_before_its_turn_began_is_served_again_under_its_name():
    pages, posts = Pages(2), Posts()

    async def work(sender):
        sender.wake(KEY)
        again = EndpointDelivery(webhook(revision=2), posts, parts_of(pages, Records()))
        await sender._remove(KEY)
        sender._deliveries[KEY] = again
        sender.wake(KEY)
        for _ in range(100):
            await asyncio.sleep(0)
        assert sender._turns == {}

    with_sender(work, pages, posts, webhook())
    assert posts.made == [("/a", 1), ("/a", 2)]


def test_the_turns_of_an_endpoint_that_was_removed_end_without_those_of_the_one_that_was_made_again():
    pages, posts = Pages(2), Posts()

    async def never(wanted):
        await asyncio.Event().wait()

    async def work(sender):
        pages.read, read = never, pages.read
        sender.wake(KEY)
        await asyncio.sleep(0)
        before, again = sender._turns[KEY], EndpointDelivery(webhook(revision=2), posts, parts_of(pages, Records()))
        await sender._remove(KEY)
        sender._deliveries[KEY] = again
        sender.wake(KEY)
        await asyncio.wait([before])
        assert sender._turns[KEY] is not before
        assert before.cancelled()
        pages.read = read

    with_sender(work, pages, posts, webhook())


def test_only_those_are_woken_whose_queues_are_new_or_have_grown():
    ann, bob, cy = ("ann", "a"), ("bob", "b"), ("cy", "c")
    before, now = {1: ann, 2: bob}, {1: ann, 2: bob, 3: cy}
    assert sorted(_behind(now, before, [2, 9])) == [bob, cy]
    assert _behind(before, before, [1]) == [ann]
    assert _behind(before, now, []) == []
    assert _behind({1: bob}, before, []) == [bob]  # the number of a queue that has ended
    assert _behind(now, now, None) == [ann, bob, cy]
