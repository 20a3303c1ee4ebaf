"""Events that engines with a past are told, and such an engine beside the oracle."""

from __future__ import annotations

from datetime import timedelta

import tidegate as tg
from tests.patterns.following_oracle import act, assert_same, wheres_of
from tests.patterns.oracle import World
from tests.patterns.strategies import at

NONE = timedelta(0)


def counted(refused) -> dict[str, int]:
    return {reason: count for reason, count in refused.items() if count}


def follows(
    script, lateness: timedelta = NONE, as_tables: bool = False, keep: timedelta | None = None, engine=None
) -> None:
    """Engine and oracle do the same things and say the same at each, and refuse the same."""
    if engine is None:
        engine = tg.Engine(lateness=lateness) if keep is None else tg.Engine(lateness=lateness, keep=keep)
    world, wheres = World(lateness, keep=keep), wheres_of(script)
    for i, action in enumerate(script):
        wanted = getattr(world, action.what)(action.operand) or []
        assert_same(act(engine, action, as_tables), wanted, wheres, f"action {i}: {action}")
        assert counted(engine.refused) == world.refused, f"action {i}: {action}"
    assert engine.late == world.late


# --- relations, one by one ----------------------------------------------------------------------------------------


def event(id, start, stop=None, time=20, **attributes):
    return tg.Publication(id, "x", at(time), attributes, start=at(start), end=at(start if stop is None else stop))


def part(phase, id, time, when=None, **attributes):
    where = {} if when is None else {"start" if phase == "START" else "end": at(when)}
    return tg.Publication(id, "x", at(time), attributes, phase=phase, **where)


def ids(where, *publications, **settings) -> str:
    """Those that are told of, one publication a call."""
    engine = tg.Engine([tg.Subscription("s", "ann", where)], **settings)
    return " ".join(n.publications[0] for p in publications for n in engine.publish([p]))
