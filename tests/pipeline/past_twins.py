"""A lane and an engine with the same subscriptions to the past, and what a lane may suffer.

An event is an event to every shard, so streams that keep the rules tell the same however many shards there are. What is
refused each shard counts on its own, from when somebody there asked.
"""

from __future__ import annotations

import shutil

import pytest

import tidegate as tg
from tests.patterns.strategies import at
from tests.pipeline.lane import SECOND, Lane, rows
from tests.registered import registered
from tidegate import checked_json
from tidegate.kernels.boxes import COUNT, ROOM
from tidegate.patterns.past import Past
from tidegate.stages import combine, live_shard, log_planner
from tidegate.testing import as_table

#: Relations to points and to events, with limits and tolerances, values of each kind, negated, joined and nested.
WHERE = (
    "T_DURING(time, past(n > 1))",
    "T_DURING(event, past(t = 'a'))",
    "T_AFTER(start, past(phase = 'END', 'PT4S'))",
    "T_OVERLAPPEDBY(event, past(TRUE, '..', 'PT1S'))",
    "NOT T_INTERSECTS(event, past(n > 1, 'PT2S', 'PT0.5S'))",
    "n > past(n, t = 'a', 3)",
    "t = past(t, n > 1) AND source <> 'z'",
    "when <= past(when, TRUE, 5)",
    "T_AFTER(time, past(n > 1)) OR n < past(m, source = 'x') OR n IS NULL",
    "T_DURING(time, past(T_AFTER(start, past(t = 'a', 'PT3S')) AND n > 0))",
    "n + m > past(n, NOT T_DURING(time, past(source = 'x')), 4)",
    "topk(2, 'PT5S', n)",
    "n > 2",
)


def subscriptions(first=0):
    return [tg.Subscription(f"s{first + i}", "ann", where) for i, where in enumerate(WHERE)]


TROUBLES = ("none", "another process", "another machine", "a foreign token", "run again")


class Twins:
    """A lane and an engine to which the same happens."""

    def __init__(self, directory, lateness=0.0, count=1, keep=None, most_parts=2):
        self.patch = pytest.MonkeyPatch()
        self.cache = directory / "cache"
        self.patch.setenv("TIDEGATE_CACHE", str(self.cache))
        self.patch.setattr(live_shard, "_MAPPED", {})
        self.patch.setattr(combine, "_MOST_STEPS", most_parts)
        self.patch.setattr(log_planner, "_ALONE", 4)
        # Nothing has expired when it is appended: an engine does not judge that.
        self.lane = Lane(directory, lateness, count, now=tg.model.micros(at(-3600)))
        settings = {} if keep is None else {"keep": keep * SECOND}
        if keep is not None:
            self.lane.set(keep=int(keep * 1e6))
        self.engine, self.expected = tg.Engine(lateness=lateness * SECOND, **settings), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.patch.undo()

    def act(self, action):
        """Whether it may be time for a batch."""
        if action.what == "publish":
            table = as_table(action.operand)
            self.lane.log.append(table)
            self.expected.append(self.engine.publish(table))
            return True
        if action.what != "advance":  # a log has no such thing
            is_new = action.what == "subscribe"
            called = registered(action.operand) if is_new else f"ann/{action.operand}"
            getattr(self.engine, action.what)(called)
            getattr(self.lane.registry, action.what)(action.operand if is_new else called)
        return False

    def batch(self, trouble="none"):
        """A batch, and then what may happen to a machine."""
        before = self.lane.states
        self.lane.batch()
        for live in live_shard._MAPPED.values():
            lists = live.families["past"].asked.lists.used
            assert (lists[:, COUNT] <= lists[:, ROOM]).all()
        if trouble == "another process":
            live_shard._MAPPED.clear()
        elif trouble == "another machine":
            shutil.rmtree(self.cache / "patterns")
            live_shard._MAPPED.clear()
        elif trouble == "a foreign token":
            for file in (self.cache / "patterns").rglob("facts.json"):
                file.write_bytes(checked_json.packed(checked_json.unpacked(file.read_bytes()) | {"token": "x"}))
        elif trouble == "run again":  # Spark did not get as far as to commit, and has what it had
            self.lane.states, receipts = self.lane.combined(before)
            assert rows([receipts.flat]) == rows(self.lane.told[-1:])

    def follow(self, script, dice, troubles=TROUBLES):
        for action in script:
            if self.act(action) and dice([True, True, False]):
                self.batch(dice(troubles))
        self.batch()

    def assert_same(self):
        assert rows(self.lane.told) == rows(self.expected)

    @property
    def refused(self):
        """By reason, for each shard that has somebody who asks about the past."""
        found = []
        for shard, key in enumerate(self.lane.keys):
            known = self.lane.known(shard)
            if known.token:
                live = live_shard.built(combine.Combine(), known, self.lane.files)
                family = live.families["past"]
                assert isinstance(family, Past)
                assert sum(family.refused.values()) == self.lane.counts[shard]["refused"], key
                if family.owner.length:
                    found.append(family.refused)
        return found


def part(phase, id, second, **attributes):
    return tg.Publication(id, "x", at(second), attributes, phase=phase)
