"""Principals that read their queues while a run writes them.

``python -m tests.broker.queue_readers CONFIG SEED PRINCIPAL…``: they read from their last number, acknowledge, read
again what they know, and reconnect, until there is a file ``CONFIG.done``; then they read to the end. What each queue
said by number, and how far it was acknowledged, is written to ``CONFIG.seen``. Any number that is missing, comes twice
or says something else than before ends the process with an error.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from random import Random
from time import sleep

import orjson

import tidegate as tg


def opened(place):
    """The queues, once a run has made them."""
    while True:
        try:
            return tg.OpenQueues(place)
        except tg.StoreError as error:
            if "which the first run makes" not in str(error):
                raise
            sleep(0.02)


class Known:
    """What a principal knows of one of its queues."""

    def __init__(self, epoch):
        self.epoch, self.digests, self.acknowledged = epoch, [], 0

    def take(self, page):
        """Take the items of a page, new ones and known ones."""
        assert page.epoch == self.epoch, page.epoch
        for item in page.items:
            assert item["type"] == "notification", item
            number, digest = item["number"], digest_of(item)
            assert 0 < number <= len(self.digests) + 1, (number, len(self.digests))
            if number > len(self.digests):
                self.digests.append(digest)
            assert self.digests[number - 1] == digest, item


def digest_of(item):
    return zlib.crc32(orjson.dumps(item, option=orjson.OPT_SORT_KEYS))


class Readers:
    def __init__(self, place, seed, principals):
        self._place, self._random, self._principals = place, Random(seed), principals
        self._queues, self._known = opened(place), {}
        self.connections = 1

    def run(self, done):
        is_over = False
        while not is_over:
            is_over = done.exists()
            if not is_over:
                self._queues.wait(0.05)
            if self._random.random() < 0.1:
                self._queues.close()
                self._queues, self.connections = tg.OpenQueues(self._place), self.connections + 1
            self._queues.refresh()
            for principal in self._principals if is_over else self._random.sample(self._principals, 5):
                for state in self._states(principal):
                    self._read(state, is_over)
        self._queues.close()

    def _states(self, principal):
        try:
            return self._queues.states(principal)
        except tg.StoreError as error:
            if "a principal with a queue" not in str(error):
                raise
            return []

    def _read(self, state, to_the_end):
        name = state.principal, state.destination
        known = self._known.setdefault(name, Known(state.epoch))
        assert state.acknowledged == known.acknowledged, (state, known.acknowledged)
        assert state.last >= len(known.digests)
        page = self._page(name, None)  # from the acknowledged one: mostly what we know
        known.take(page)
        known.take(self._page(name, self._random.randrange(len(known.digests) + 1)))
        while True:
            page = self._page(name, f"{known.epoch}-{len(known.digests)}")
            known.take(page)
            if not page.items:
                assert len(known.digests) == page.last
                break
            if not to_the_end and self._random.random() < 0.3:
                break
        if known.digests and self._random.random() < 0.5:
            upto = self._random.randrange(len(known.digests) + 1)
            self._queues.acknowledge(state.principal, upto, destination=state.destination)
            known.acknowledged = max(known.acknowledged, upto)

    def _page(self, name, after):
        principal, destination = name
        limit = self._random.choice([1, 7, 100, 1000])
        return self._queues.page(principal, after=after, limit=limit, destination=destination)

    def seen(self):
        return [[*name, known.epoch, known.acknowledged, known.digests] for name, known in self._known.items()]


def main(place, seed, principals):
    readers = Readers(place, seed, principals)
    readers.run(Path(f"{place}.done"))
    told = {"connections": readers.connections, "queues": readers.seen()}
    Path(f"{place}.seen").write_bytes(orjson.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
