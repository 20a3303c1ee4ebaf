"""A history of events against a model in plain lists, step by step."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.databases import SERVERS
from tests.store.remembered_events import end, first, heard, refusal, replayed
from tidegate.store import History
from tidegate.store.history import ReplayedPublication


class Model:
    """The same with a list and a counter."""

    def __init__(self):
        self.last, self.heard, self.counts, self.refused = 0, [], Counter(), []

    def remember(self, begun, ends, refused):
        highest = max([one.seq for one in (*begun, *ends)], default=0)
        if not 0 < highest <= self.last:
            self.counts.update(one.reason for one in refused)
            self.refused = [*refused[::-1], *self.refused]
        names = {one.seq: (one.id, one.source) for one in (*self.heard, *begun)}
        more = [heard(one) for one in begun] + [
            ReplayedPublication(e.seq, e.first, *names.get(e.first, ("", "")), "END", e.time, None, e.end, e.body)
            for e in ends
        ]
        self.heard = sorted(self.heard + [one for one in more if one.seq > self.last])
        self.last = max(self.last, highest)

    def forget(self, upto):
        latest = {one.first: one.seq for one in self.heard}
        ended = {one.first for one in self.heard if one.end is not None}
        gone = {event for event, seq in latest.items() if seq <= upto and event in ended}
        self.heard = [one for one in self.heard if one.first not in gone]
        return len(gone)

    @property
    def running(self):
        return sorted(
            {one.seq for one in self.heard if one.end is None}
            - {one.first for one in self.heard if one.seq != one.first}
        )


@st.composite
def steps(draw):
    """Calls of an engine: what begins and ends, forgetting, reopening, and saying the last thing again."""
    found, seq, running = [], 0, []
    for _ in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(["remember", "remember", "remember", "forget", "again", "reopen"])):
            case "remember":
                begun, ends = [], []
                for _ in range(draw(st.integers(0, 6))):
                    seq += 1
                    if running and draw(st.booleans()):
                        ends.append(end(seq, running.pop(draw(st.integers(0, len(running) - 1)))))
                    else:
                        phase = draw(st.sampled_from([None, "START", "START", "INSTANT"]))
                        begun.append(first(seq, draw(st.sampled_from(["a", "b", f"e{seq}"])), phase))
                        if phase == "START":
                            running.append(seq)
                reasons = draw(st.lists(st.sampled_from(["second start", "other start"]), max_size=3))
                found.append(("remember", begun, ends, [refusal(i, reason) for i, reason in enumerate(reasons)]))
            case "again":
                calls = [step for step in found if step[0] == "remember" and (step[1] or step[2])]
                found += calls[-1:]
            case "forget":
                found.append(("forget", draw(st.integers(0, seq + 2))))
            case "reopen":
                found.append(("reopen",))
    return found


def follow(history: History, calls) -> None:
    model = Model()
    for name, *args in calls:
        if name == "reopen":
            history.close()
        else:
            assert getattr(history, name)(*args) == getattr(model, name)(*args)
        for size in (2, 100):
            assert replayed(history, size) == model.heard
        events = {one.first for one in model.heard}
        assert (history.last, len(history)) == (model.last, len(events))
        assert history.refused_counts() == model.counts
        assert history.refused() == model.refused
        assert [one.seq for one in history.events(running=True)] == model.running[::-1]
        assert [one.seq for one in history.events()] == sorted(events, reverse=True)


@given(steps())
def test_a_history_is_what_its_model_is(calls):
    with tempfile.TemporaryDirectory() as place, History(Path(place) / "h.db") as history:
        follow(history, calls)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_history_on_a_server_is_what_its_model_is(kind, request):
    new = request.getfixturevalue(kind)

    @given(steps())
    def law(calls):
        with History(new()) as history:
            follow(history, calls)

    law()
