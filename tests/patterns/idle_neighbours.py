"""Publications one at a time, beside subscriptions of every family that none of them concerns."""

from __future__ import annotations

from datetime import timedelta

import tidegate as tg
from tests.patterns.following_oracle import act, assert_same, counters, sharded, wheres_of
from tests.patterns.oracle import World
from tests.patterns.strategies import Action

_IDLE = (
    "absent('P300D', nobody = {i})",
    "absent('P300D', nobody = {i}, source)",
    "nobody = {i} AND topk(2, 'PT5S', nobody)",
    "nobody = {i} AND topk(2, 5, n)",
    "together('PT5S', nobody = {i}, nobody = 1{i})",
    "nobody = {i} AND T_AFTER(start, past(nobody = 1{i}))",
    "nobody = {i} AND nobody < past(nobody, nobody = 2{i})",
    "nobody = {i} AND shape(n, (1, 2, {i}, 3), 'stream') <= 0.5",
)


def idle(count: int) -> list[tg.Subscription]:
    """So many subscriptions of every family that are never told anything."""
    return [
        tg.Subscription(f"idle-{family}-{i}", "nobody", where.format(i=i))
        for i in range(count)
        for family, where in enumerate(_IDLE)
    ]


def one_at_a_time(script) -> list[Action]:
    """The same with a ``publish`` for each publication."""
    return [
        part
        for action in script
        for part in ([Action("publish", [p]) for p in action.operand] if action.what == "publish" else [action])
    ]


def follows_oracle_alone(script, lateness: timedelta, count: int = 3, shards: int = 2) -> tuple[tg.Engine, World]:
    """Engine and oracle get each publication by itself, and the engine has idle subscriptions, which go one by one.

    The oracle has those of them that ask about the past: an END without a START is refused only if somebody asks.
    """
    engine, world, wheres = sharded(lateness, shards), World(lateness), wheres_of(script)
    there = idle(count)
    for subscription in there:
        for each in (engine, world) if "past(" in subscription.where else (engine,):
            each.subscribe(subscription)
    for i, action in enumerate(one_at_a_time(script)):
        wanted = getattr(world, action.what)(action.operand) or []
        assert_same(act(engine, action), wanted, wheres, f"action {i}: {action}")
        if there and i % 3 == 0:
            gone = there.pop(7 * i % len(there))
            for each in (engine, world) if "past(" in gone.where else (engine,):
                each.unsubscribe(gone.id)
    assert counters(engine) == counters(world)
    return engine, world
