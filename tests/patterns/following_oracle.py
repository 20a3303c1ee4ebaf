"""Engine and oracle side by side: both do the same, and what they tell is compared."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from math import isclose
from unittest.mock import patch

from hypothesis import strategies as st

import tidegate as tg
from tests.patterns.oracle import World
from tests.patterns.oracle_pattern import Told
from tidegate.engine import pattern_shards
from tidegate.patterns import memory
from tidegate.patterns import topk as best
from tidegate.testing import as_table

LATENESS = [timedelta(0), timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=7)]
MINUTES = timedelta(minutes=5)
latenesses = st.sampled_from(LATENESS)


# --- telling engines and oracle apart -----------------------------------------------------------------------------


def told(notifications) -> list[Told]:
    """Notifications, as objects or as a table, in the oracle's words."""
    if isinstance(notifications, list):
        return [Told(n.subscription, n.time, n.publications, n.score, n.distance) for n in notifications]
    return [
        Told(r["subscription_id"], r["time"], tuple(r["publication_ids"]), r["score"], r["distance"])
        for r in notifications.to_pylist()
    ]


def assert_same(found: list[Told], wanted: list[Told], wheres: dict[str, str], context: object = "") -> None:
    """Equal in all and in order. Metres may differ by rounding, as sine and cosine do; nothing else may."""
    assert [t[:3] for t in found] == [t[:3] for t in wanted], context
    for one, other in zip(found, wanted, strict=True):
        on_the_ground = "distance(location" in wheres[one.subscription] or "distance(spot" in wheres[one.subscription]
        assert agree(one.score, other.score, 1e-9 if on_the_ground else 0.0), (one, other, context)
        in_metres = "shape(" not in wheres[one.subscription]
        assert agree(one.distance, other.distance, 1e-9 if in_metres else 0.0), (one, other, context)


def agree(a: float | None, b: float | None, relative: float) -> bool:
    if a is None or b is None:
        return a is b
    return a == b or isclose(a, b, rel_tol=relative)


def counters(engine) -> tuple[int, int, int]:
    return engine.late, engine.unscored, engine.cut


def act(engine, action, as_tables: bool = False) -> list[Told]:
    if action.what == "publish":
        return told(engine.publish(as_table(action.operand) if as_tables else list(action.operand)))
    found = getattr(engine, action.what)(action.operand)
    return told(found) if action.what == "advance" else []


def wheres_of(script) -> dict[str, str]:
    return {action.operand.id: action.operand.where for action in script if action.what == "subscribe"}


def sharded(lateness: timedelta, shards: int) -> tg.Engine:
    """An engine with so many shards, however many cores there are."""
    engine = tg.Engine(lateness=lateness)
    engine._stage = pattern_shards.PatternShards(lateness // timedelta(microseconds=1), 1_000, shards)
    return engine


@contextmanager
def frugal(few: int = 1, widens: bool = True):
    """Little room: what no window reaches is forgotten at once, and ``topk`` reads its window again all the time."""
    with ExitStack() as stack:
        stack.enter_context(patch.multiple(best, _TIMES=2, _MORE=1))
        stack.enter_context(patch.object(memory, "_FEW", few))
        if not widens:
            stack.enter_context(patch.object(best.TopK, "_widen", lambda self: None))
        yield


def follows_oracle(script, lateness: timedelta, as_tables: bool = False, shards: int | None = None) -> None:
    """Engine and oracle do the same things and say the same at each."""
    engine = tg.Engine(lateness=lateness) if shards is None else sharded(lateness, shards)
    world, wheres = World(lateness), wheres_of(script)
    for i, action in enumerate(script):
        wanted = getattr(world, action.what)(action.operand) or []
        assert_same(act(engine, action, as_tables), wanted, wheres, f"action {i}: {action}")
    assert counters(engine) == counters(world)


def everything(engine, batches, end) -> list[tg.Notification]:
    """All that the batches and then the clock bring, by time and subscription; otherwise as raised."""
    found = [n for batch in batches for n in engine.publish(list(batch))]
    found += engine.advance(end)
    return sorted(found, key=lambda n: (n.time, n.subscription))


def end_of(stream) -> object:
    return max(p.time for p in stream) + MINUTES
