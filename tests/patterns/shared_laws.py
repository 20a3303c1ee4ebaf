"""Laws that patterns of every family obey, also those that look at the past; the tests draw the scripts."""

from __future__ import annotations

from dataclasses import replace
from tempfile import TemporaryDirectory

import tidegate as tg
from tests.patterns.following_oracle import act, assert_same, wheres_of
from tests.patterns.oracle import World
from tidegate.language import parse, to_json


def restarted(script, lateness, restart):
    """Saved and loaded before one of the actions, and the engine that was saved goes on as well: both, after each."""
    engine, again = tg.Engine(lateness=lateness), None
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            if i == restart:
                engine.save(directory)
                again = tg.Engine.load(directory)
                assert sorted(again, key=lambda s: s.id) == sorted(engine, key=lambda s: s.id)
            wanted = act(engine, action)
            if again is not None:
                assert act(again, action) == wanted, f"action {i}: {action}"
                yield engine, again


def restarted_at_every_action(script, lateness) -> tuple[tg.Engine, World]:
    engine, world, wheres = tg.Engine(lateness=lateness), World(lateness), wheres_of(script)
    with TemporaryDirectory() as directory:
        for i, action in enumerate(script):
            engine.save(f"{directory}/{i}")
            engine = tg.Engine.load(f"{directory}/{i}")
            wanted = getattr(world, action.what)(action.operand) or []
            assert_same(act(engine, action), wanted, wheres, f"action {i}: {action}")
    return engine, world


def each_alone_is_told_the_same(script, lateness) -> None:
    """Each subscription alone is told what it is told among the others."""
    together = tg.Engine(lateness=lateness)
    found = [act(together, action) for action in script]
    for id in wheres_of(script):
        alone = tg.Engine(lateness=lateness)
        for action, wanted in zip(script, found, strict=True):
            owner = action.operand.id if action.what == "subscribe" else action.operand
            if action.what in ("publish", "advance") or owner == id:
                assert act(alone, action) == [t for t in wanted if t.subscription == id], (id, action)


def json_is_told_the_same(script, lateness) -> None:
    """Subscriptions as text and as CQL2-JSON are told the same."""
    text, json = tg.Engine(lateness=lateness), tg.Engine(lateness=lateness)
    for action in script:
        same = action
        if action.what == "subscribe":
            same = action._replace(operand=replace(action.operand, where=to_json(parse(action.operand.where))))
        assert act(text, action) == act(json, same)
