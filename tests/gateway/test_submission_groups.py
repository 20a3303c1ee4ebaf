"""Requests that wait together: whether they are checked as one or one by one, each is told the same."""

from __future__ import annotations

import asyncio

import anyio
import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.broker import opened
from tests.parts.profiles import examples
from tidegate.errors import StoreError
from tidegate.gateway import submission_groups
from tidegate.gateway.problems import RequestError
from tidegate.gateway.submission import Submission
from tidegate.store.log_rows import LogRows

NOW = 1_793_520_000_000_000  # 2026-11-01T08:00:00Z
TIMES = st.sampled_from(
    ["2026-11-01T08:00:00Z", "2026-11-01T07:00:00.5+01:00", "9999-12-31T23:59:59Z", "no time", None]
)
VALUES = st.sampled_from([1, 2.5, 2.0, "a", True, None, {"lon": 8, "lat": 46}, {"b": 1}, [1, 2], 2**60, ""])


@st.composite
def requests(draw):
    """Items of some requests, each with ids of its own; those of one may have the same ids."""
    names = draw(st.lists(st.sampled_from(["n", "x", "location", "s"]), unique=True, max_size=3))
    found = []
    for number in range(draw(st.integers(1, 5))):
        items = []
        for _ in range(draw(st.integers(1, 4))):
            item = {"source": draw(st.sampled_from("zzzzx")), "id": f"{number}-{draw(st.integers(0, 5))}", "n": 1}
            item |= {name: draw(VALUES if name != "location" else st.just({"lon": 8.5, "lat": 46})) for name in names}
            if draw(st.integers(0, 3)):
                item["time"] = draw(TIMES) if draw(st.integers(0, 5)) == 0 else "2026-11-01T08:00:00Z"
            items.append(item if draw(st.integers(0, 20)) else draw(st.sampled_from([5, {"source": "z", "n": 3}])))
        found.append(items)
    return found


def published(directory, requests, *, enough):
    """What is said of each request, all in one group, and what the log then has."""

    async def together():
        submissions = [
            Submission(items, now=NOW, latest=NOW + 60_000_000, covers="z".__eq__, limits=broker.log.limits)
            for items in requests
        ]
        return await asyncio.gather(*(broker.appender.append(one) for one in submissions))

    with pytest.MonkeyPatch.context() as patch, opened(directory, clock=lambda: NOW) as broker:
        patch.setattr(submission_groups, "_ENOUGH", enough)
        told = anyio.run(together)
        with LogRows(broker.data.log) as rows:
            kept = rows.publications(range(broker.log.end))
    return told, kept


def comparable(told, kept):
    """The same without what is random, and without positions, which depend on who came first."""
    made = {id for one in told for id in one.ids.values()}
    sayings = [msgspec.to_builtins(one) for one in told]
    for one in sayings:
        one |= {"ids": sorted(one["ids"]), "position": one["position"] is not None}
    rows = [{**row, "id": "made" if row["id"] in made else row["id"]} for row in kept]
    return sayings, sorted(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in rows)


@examples(15)
@given(requests())
def test_together_or_one_by_one(tmp_path_factory, drawn):
    alone = published(tmp_path_factory.mktemp("alone"), drawn, enough=1000)
    together = published(tmp_path_factory.mktemp("together"), drawn, enough=1)
    assert comparable(*together) == comparable(*alone)
    for told, items in zip(together[0], drawn, strict=True):
        assert told.accepted + told.duplicates + len(told.refused) == len(items)


def test_positions_and_order(tmp_path):
    """Each request's rows are in its order, and its position is that of its last row."""
    drawn = [[{"source": "z", "id": f"{i}-{j}", "n": j} for j in range(i % 7 + 1)] for i in range(40)]
    told, kept = published(tmp_path, drawn, enough=1)
    for one, items in zip(told, drawn, strict=True):
        last = one.position + 1
        assert [row["id"] for row in kept[last - len(items) : last]] == [item["id"] for item in items]


def test_a_log_that_cannot_be_written_fails_all_and_the_next_is_tried(tmp_path, monkeypatch):
    async def work():
        with monkeypatch.context() as patch:
            patch.setattr(broker.log, "_take", failing)
            found = await asyncio.gather(*(broker.appender.append(one()) for _ in range(3)), return_exceptions=True)
        return found, await broker.appender.append(one())

    def failing(tail, ready):
        raise OSError(28, "No space left on device")

    def one():
        return Submission([{"source": "z", "n": 1}], now=NOW)

    with opened(tmp_path) as broker:
        failed, told = anyio.run(work)
    assert [type(error) for error in failed] == [StoreError] * 3
    assert told.accepted == 1


def test_an_appender_that_was_closed(tmp_path):
    async def work():
        waiting = asyncio.ensure_future(broker.appender.append(Submission([{"source": "z"}], now=NOW)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it was handed over
        await asyncio.to_thread(broker.appender.close)
        assert (await waiting).accepted == 1
        with pytest.raises(RequestError) as refused:
            await broker.appender.append(Submission([{"source": "z"}], now=NOW))
        assert refused.value.status == 503

    with opened(tmp_path) as broker:
        anyio.run(work)
