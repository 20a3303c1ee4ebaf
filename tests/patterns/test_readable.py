"""What may be read: told of all publications with ``read`` is what is told of those alone that may be read.

The two engines know the same time: whoever reads only some is given, by ``advance``, the time of those that it may not
see, since in a run there is one clock for all (docs/OPERATIONS.md).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.patterns.following_oracle import act, latenesses, sharded
from tests.patterns.strategies import FILTERS, START, Action, at, looking_back_scripts, scripts
from tidegate.language import DEFAULT_LIMITS, parse, to_json
from tidegate.language.limits import NO_LIMITS
from tidegate.predicates import compile_filter
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.readable import readable

READS = [*FILTERS, "m = 1 OR m = 2 OR t = 'a'", "source <> 'y' AND (n > 0 OR t = 'b')", "FALSE"]
#: Such as hold for all publications of an event alike.
READS_OF_EVENTS = ["source <> 'z'", "source = 'x'", "id > 'm' OR source = 'y'", "TRUE", "FALSE"]


def bound(subscription: tg.Subscription, read: str) -> tg.Subscription:
    """The subscription with what may be read in it, as it is compiled for a registry."""
    node = readable(parse(subscription.where, NO_LIMITS), parse(read, NO_LIMITS))
    return replace(subscription, where=to_json(node))


def told_the_same(script: list[Action], read: str, everybody: tg.Engine, reader: tg.Engine) -> None:
    may_be_read, newest = compile_filter(parse(read, NO_LIMITS)), START
    for engine in (everybody, reader):
        engine.advance(START)
    for action in script:
        if action.what == "publish":
            newest = max(newest, *(p.time for p in action.operand))
            found = act(everybody, action)
            wanted = act(reader, Action("publish", [p for p in action.operand if may_be_read.holds(p)]))
            wanted += act(reader, Action("advance", newest))
        elif action.what == "subscribe":
            found = act(everybody, Action("subscribe", bound(action.operand, read)))
            wanted = act(reader, action)
        else:
            newest = max(newest, action.operand) if action.what == "advance" else newest
            found, wanted = act(everybody, action), act(reader, action)
        assert sorted(found, key=repr) == sorted(wanted, key=repr), (action, read)


@examples(120)
@given(script=scripts(), lateness=latenesses, read=st.sampled_from(READS))
def test_every_family_sees_what_may_be_read(script, lateness, read):
    told_the_same(script, read, tg.Engine(lateness=lateness), sharded(lateness, 2))


@examples(80)
@given(script=looking_back_scripts(), lateness=latenesses, read=st.sampled_from(READS_OF_EVENTS))
def test_the_past_is_that_of_events_that_may_be_read(script, lateness, read):
    told_the_same(script, read, tg.Engine(lateness=lateness), tg.Engine(lateness=lateness))


@examples(80)
@given(script=looking_back_scripts(), lateness=latenesses, read=st.sampled_from(READS))
def test_the_past_is_that_of_publications_that_may_be_read(script, lateness, read):
    """Without events that begin and end in publications of their own: see LANGUAGE.md for these."""
    whole = [
        action._replace(operand=[replace(p, phase=None) if p.phase == "INSTANT" else p for p in some])
        if action.what == "publish"
        else action
        for action in script
        if action.what != "publish" or (some := [p for p in action.operand if p.phase not in ("START", "END")])
    ]
    told_the_same(whole, read, tg.Engine(lateness=lateness), tg.Engine(lateness=lateness))


def test_of_an_event_that_may_be_read_only_in_part_its_end_is_known():
    """The exception of the law, as the page has it."""
    asks = tg.Subscription("s", "ann", "T_AFTER(start, past(TRUE))")
    with tg.Engine([bound(asks, "secret IS NULL")]) as engine:
        engine.publish([tg.Publication("e", "z", at(0), phase="START")])
        assert engine.publish([tg.Publication("a", "z", at(1))]) == []
        engine.publish([tg.Publication("e", "z", at(2), {"secret": True}, phase="END")])
        (told,) = engine.publish([tg.Publication("b", "y", at(3))])
        assert told.publications == ("b",)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("n > 1", "n > 1 AND r = 1"),
        ("topk(1, 'PT1S', n)", "topk(1, 'PT1S', n) AND r = 1"),
        ("T_AFTER(start, past(n > 1, 'PT1S'))", "T_AFTER(start, past(n > 1 AND r = 1, 'PT1S')) AND r = 1"),
        ("n < past(n, m, 7) OR n IS NULL", "(n < past(n, m AND r = 1, 7) OR n IS NULL) AND r = 1"),
        ("past(n, m) > n + 1", "past(n, m AND r = 1) > n + 1 AND r = 1"),
        ("NOT T_AFTER(time, past(past))", "(NOT T_AFTER(time, past(past AND r = 1))) AND r = 1"),
        (
            "T_AFTER(start, past(t = past(t, n = past(n, m))))",
            "T_AFTER(start, past(t = past(t, n = past(n, m AND r = 1) AND r = 1) AND r = 1)) AND r = 1",
        ),
    ],
)
def test_where_it_is_joined(where, wanted):
    assert readable(parse(where, NO_LIMITS), parse("r = 1", NO_LIMITS)) == parse(wanted, NO_LIMITS)


def test_no_limit_that_a_subscription_keeps_is_passed_because_of_a_read():
    """It is bounded by itself: what an administrator adds is not the subscriber's."""
    where = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(10))  # 1,024 clauses
    asks = tg.Subscription("s", "ann", where)
    compile_subscription(asks, DEFAULT_LIMITS)
    read = parse("r = 1 OR s = 1", NO_LIMITS)
    with pytest.raises(tg.LimitError):
        compile_subscription(asks, DEFAULT_LIMITS, read)
    assert len(compile_subscription(asks, NO_LIMITS, read).clauses) == 2048
