"""Subscriptions that look at the past: what is refused, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.following_oracle import latenesses, told
from tests.patterns.past_events import counted, event, follows, ids, part
from tests.patterns.strategies import at, looking_back_scripts
from tidegate.testing import as_table

# --- refused ------------------------------------------------------------------------------------------------------


REFUSED = {
    "end without start": [part("END", "b", 5)],
    "second start": [part("START", "a", 5)],
    "end before start": [part("END", "a", 5, 1)],
    "start with an end": [tg.Publication("b", "x", at(5), {}, end=at(6), phase="START")],
    "instant that lasts": [tg.Publication("b", "x", at(5), {}, start=at(4), end=at(5), phase="INSTANT")],
    "other start": [tg.Publication("a", "x", at(5), {}, start=at(1), phase="END")],
}


@pytest.mark.parametrize("as_tables", [False, True])
@pytest.mark.parametrize("reason", REFUSED)
def test_refused_match_nothing_and_are_counted(reason, as_tables):
    engine = tg.Engine(
        [
            tg.Subscription("all", "ann", "TRUE OR T_AFTER(time, past(TRUE))"),
            tg.Subscription("seen", "ann", "T_INTERSECTS(time, past(TRUE, 'PT1S')) AND source = 'y'"),
            tg.Subscription("plain", "ann", "TRUE"),
        ]
    )
    engine.publish([part("START", "a", 2)])
    (publication,) = REFUSED[reason]
    found = told(engine.publish(as_table([publication]) if as_tables else [publication]))
    assert [t.subscription for t in found] == ["plain"], "refused by what looks at the past, and by nothing else"
    assert counted(engine.refused) == {reason: 1}
    engine.publish([part("END", "a", 6)])
    assert counted(engine.refused) == {reason: 1}, "a is still the running event that it was"
    found = engine.publish([replace(part("INSTANT", "c", 99), source="y")])
    assert [n.subscription for n in found] == ["all", "plain"], "nothing runs"


def test_instants_of_a_started_id_are_second_starts():
    engine = tg.Engine([tg.Subscription("s", "ann", "T_DURING(time, past(TRUE))")])
    engine.publish([part("START", "a", 1), part("INSTANT", "a", 2), event("a", 1, 3, time=3), part("END", "a", 4)])
    engine.publish([part("INSTANT", "a", 5), event("a", 5, 6, time=6)])
    assert counted(engine.refused) == {"second start": 2}, "ids of whole events are not compared"


@examples(40)
@given(script=looking_back_scripts(ordered=False), lateness=latenesses)
def test_refused_input_equals_oracle(script, lateness):
    follows(script, lateness)


@examples(20)
@given(script=looking_back_scripts(ordered=False, depth=1), keep=st.sampled_from([1, 2, 5]))
def test_forgotten_ids_equal_oracle(script, keep):
    follows(script, keep=timedelta(seconds=keep))


# --- forgetting ---------------------------------------------------------------------------------------------------


def test_forgetting_by_age():
    keep = timedelta(seconds=5)
    some = [event("Y", 1, 2, time=3, y=1), part("INSTANT", "a", 8), part("INSTANT", "b", 8.000001)]
    assert ids("T_AFTER(time, past(y = 1))", *some) == "a b"
    assert ids("T_AFTER(time, past(y = 1))", *some, keep=keep) == "a", "five seconds after it was told of"
    some = [part("START", "Y", 1, y=1), part("INSTANT", "a", 99), part("END", "Y", 100), part("INSTANT", "b", 105)]
    assert ids("T_DURING(start, past(y = 1))", *some, keep=keep) == "a", "running ones are kept"
    assert ids("T_AFTER(start, past(y = 1))", *some, keep=keep) == "b"


@examples(40)
@given(script=looking_back_scripts(), keep=st.sampled_from([1, 2, 4, 7.5]), lateness=latenesses)
def test_forgetting_by_age_equals_oracle(script, keep, lateness):
    follows(script, lateness, keep=timedelta(seconds=keep))
