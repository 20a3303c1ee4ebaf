"""Messages between brokers: bytes to a message and back."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from random import Random

import orjson

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_bytes, mutated_json
from tests.overlay import wire_examples as some
from tidegate.overlay import wire
from tidegate.overlay.messages import Announce, Deliver, Interest, Publish, Refuse, Revoke, Subscribe, Sync, Unsubscribe

MESSAGES = [
    Announce("z7", "wind", (7.25, 46.0)),
    Revoke("z7"),
    Subscribe(some.OPERATOR),
    Interest("s1", "n > 1 AND kind = 'rain'"),
    Unsubscribe("s1[a,b]"),
    some.READING,
    some.NAMED,
    Publish(some.PUBLICATION),
    Refuse("no such sensor"),
    Deliver("s1", (some.READING, Publish(some.PUBLICATION))),
    Sync((Announce("z7", "wind", (7.25, 46.0)),), (Subscribe(some.OPERATOR), Interest("s2", "n > 1"))),
]
VALUES = [
    *(None, True, 0, 1, -1, 2.5, 1e308, 10**30, 2**53 + 1, "", "x"),
    *("\0", [], {}, [1, 2], [None, None, None, None], "x" * 1100),
    *(["s1", "s2"], {"gap": "NaN"}, {"lon": 1, "lat": 2}, [[1]]),
    *("subscribe", "sync", 300_000_000, [-180, 90], [181, 0], "é"),
]


class OverlayMessages(EntryPoint):
    name = "overlay-messages"
    suffix = ".json"

    @cached_property
    def _seeds(self) -> list[bytes]:
        return [wire.encode(message) for message in MESSAGES]

    def seeds(self) -> list[bytes]:
        return self._seeds

    def draw(self, random: Random) -> bytes:
        data = random.choice(self._seeds)
        chance = random.random()
        if chance < 0.05:
            return data
        if chance < 0.75:
            return json.dumps(mutated_json(orjson.loads(data), random, VALUES), ensure_ascii=False).encode()
        return mutated_bytes(data, random, self._seeds)

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        with clock.within(0.01, "decoding"):
            message = wire.decode(data)
        again = wire.decode(wire.encode(message))
        if some.by_value(again) != some.by_value(message):
            raise WrongAnswer(f"another message when written and read again: {again}")
        return ACCEPTED
