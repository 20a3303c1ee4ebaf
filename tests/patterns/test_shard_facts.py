"""What a shard remembers beside its arrays: written, read, and refused where it is of a later version."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import orjson
import pytest

from tidegate.errors import SnapshotError
from tidegate.patterns.arrays import Arrays
from tidegate.patterns.shard_facts import ShardFacts

FULL = ShardFacts(
    clock=5, late=1, newest=7, wall=8, token="t", columns=[["number", "x"]], kept_items=3, kept_pairs=4,
    counts={"cut": 2}, topk_forms=["{}"], born=0, remembers=True, refused={"second start": 1},
)  # fmt: skip


@pytest.mark.parametrize("facts", [ShardFacts(), FULL])
def test_what_is_written_is_read(facts):
    told = orjson.loads(orjson.dumps(facts.to_json()))
    assert told["version"] == 1
    assert ShardFacts.from_json(told) == facts


def test_every_fact_is_drawn_above():
    assert all(getattr(FULL, each.name) != getattr(ShardFacts(), each.name) for each in fields(ShardFacts))


def test_arrays_keep_them_with_every_snapshot():
    arrays, again = Arrays(), Arrays()
    arrays.facts = FULL
    again.restore(arrays.copied())
    assert again.facts == FULL


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"version": 2}, "expected the facts of a shard in version 1; got version 2"),
        ({"clock": 5}, "got version None"),
        ({"version": 1, "tide": 3}, "tide"),
        ([], "expected the facts of a shard as an object; got list"),
    ],
)
def test_others_are_refused(told, message):
    facts = np.frombuffer(orjson.dumps(told), np.uint8)
    with pytest.raises(SnapshotError, match=message):
        Arrays().restore({"facts.json": facts})
