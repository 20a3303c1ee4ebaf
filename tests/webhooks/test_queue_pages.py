"""Pages of queues in memory: of whom none is read, and who is noted as seen."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.webhooks.one_endpoint import NOW, item
from tidegate.broker.encoded_items import EncodedPage
from tidegate.store.queue_directory import Queue
from tidegate.webhooks.queue_pages import PageWanted, QueuePages

ANN, BOB = Queue(1, "ann", "webhook:hook", "e"), Queue(2, "bob", "webhook:hook", "f")


class Queues:
    """Two queues with three deliveries each. ``registered`` have a session, ``principals`` are there."""

    def __init__(self):
        self.registered, self.principals, self.seen, self.version = {"ann": 1, "bob": 1}, {"ann", "bob"}, [], 1
        self.records = SimpleNamespace(
            sessions=lambda names: [
                SimpleNamespace(principal=name, registration=self.registered[name])
                for name in names
                if name in self.registered
            ],
            note_seen=lambda connection, principals, moment: self.seen.append(sorted(principals)),
        )
        self.then = lambda: None

    def refresh(self):
        pass

    def find(self, principal, destination):
        return {"ann": ANN, "bob": BOB}.get(principal)

    def last(self, queue):
        return 3

    def acknowledged(self, queue):
        return 0

    def pages_of(self, wanted, items, size):
        self.then()
        return [EncodedPage(queue.epoch, [item(n) for n in (1, 2, 3)], 3) for queue, _ in wanted]

    def principals_among(self, names):
        return names & self.principals

    def write(self, numbers, along):
        along(None)

    def __contains__(self, queue):
        return True


def read(queues):
    """What there is for both, and who asked before there was a session."""

    async def once():
        pages = QueuePages(queues, lambda: NOW)
        await pages.start()
        found = await asyncio.gather(*(pages.read(PageWanted(name, "hook", 9, 1000)) for name in ("ann", "bob")))
        await pages.stop()
        return [None if one is None else len(one.items) for one in found], pages.take_early()

    return asyncio.run(once())


def test_nothing_is_read_for_a_principal_that_is_removed_even_at_that_moment():
    queues = Queues()
    assert read(queues) == ([3, 3], set())
    queues.then = lambda: queues.principals.discard("ann")  # after it was asked what it may read, which is no more said
    assert read(queues) == ([None, 3], set())


def test_who_asks_before_its_session_is_noted_is_known_for_another_time():
    queues = Queues()
    queues.registered = {"bob": 2}
    assert read(queues) == ([None, None], {("ann", "hook"), ("bob", "hook")})


def test_who_takes_something_is_seen_and_not_of_whom_something_is_given_up():
    queues = Queues()

    async def once():
        pages = QueuePages(queues, lambda: NOW)
        for queue, is_taken in ((ANN, False), (BOB, True), (ANN, False)):
            pages.acknowledge(queue, 3, is_taken=is_taken)
            await pages.flush()
        await pages.stop()

    asyncio.run(once())
    assert queues.seen == [[], ["bob"], []]


def test_endpoints_that_fail_are_read_for_a_few_at_a_time_and_in_turn_with_the_others():
    queues, groups = Queues(), []

    async def once():
        pages = QueuePages(queues, lambda: NOW)
        read_of = pages._pages
        pages._pages = lambda wanted: groups.append([one.is_failing for one in wanted]) or read_of(wanted)
        await pages.start()
        failing = [pages.read(PageWanted("ann", "hook", 9, 1000, None, True)) for _ in range(40)]
        others = [pages.read(PageWanted("bob", "hook", 9, 1000)) for _ in range(3)]
        found = await asyncio.gather(*failing, *others)
        await pages.stop()
        assert all(len(one.items) == 3 for one in found)

    asyncio.run(once())
    assert [(len(group), set(group)) for group in groups] == [(4, {True}), (3, {False}), *[(4, {True})] * 9]
