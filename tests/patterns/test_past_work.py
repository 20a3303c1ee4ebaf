"""How much is done for subscriptions to the past with as many clauses as there may be: when they are made, and after.

Work is counted, as calls of functions, because times say too little on a machine with others.
"""

from __future__ import annotations

import sys

import pytest

import tidegate as tg
from tests.patterns.past_events import event
from tidegate.engine import pattern_shards
from tidegate.patterns import past_questions

TEN = range(10)
#: Each has 1,024 clauses, of the subscription or of an inner filter that looks back itself.
WHERE = {
    "atoms and filters": " AND ".join(f"(T_DURING(time, past(n > {i})) OR m > {i})" for i in TEN),
    "atoms alone": " AND ".join(f"(T_DURING(time, past(n > {i})) OR T_AFTER(time, past(n > {i})))" for i in TEN),
    "negated": "NOT (" + " OR ".join(f"(T_DURING(time, past(n > {i})) AND m > {i})" for i in TEN) + ")",
}
WHERE["inside another"] = f"T_AFTER(time, past({WHERE['atoms and filters']}))"


def calls(work):
    """How many functions are called for it in this thread, in Python and in C."""
    count = 0

    def counted(_frame, what, _arg):
        nonlocal count
        count += what in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def published(engine, second):
    return calls(lambda: engine.publish([event(f"e{second}", second, time=second, n=2.5, m=2)]))


def many_clauses(where):
    """What the first publications after such a subscription cost, where another was there before."""
    with tg.Engine([tg.Subscription("some", "ann", "T_DURING(time, past(n > 1))")]) as engine:
        engine.publish([event("e0", 0, time=0, n=2.5, m=2)])
        engine.subscribe(tg.Subscription("many", "ann", where))
        return [published(engine, second) for second in range(1, 5)]


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_the_first_publication_does_little_more_than_the_next(where, monkeypatch):
    """What a subscription takes is done when it is made."""
    many_clauses(where)  # kernels are loaded
    first, *others = many_clauses(where)
    assert first < 2 * max(others) + 300
    monkeypatch.setattr(pattern_shards, "_LONG_FORM", 10**9)
    assert many_clauses(where)[0] > 10 * max(others)


def test_the_first_publication_of_an_engine_does_little_more_than_the_next():
    many_clauses(WHERE["negated"])  # kernels are loaded
    with tg.Engine([tg.Subscription(f"s{i}", "ann", f"n > past(n, n > {i})") for i in range(300)]) as engine:
        first, *others = [published(engine, second) for second in range(4)]
    assert first < 2 * max(others) + 300


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_what_is_asked_is_named_once(where, monkeypatch):
    """However many clauses have an atom, and however often it has to be found again."""
    named = []
    digest = past_questions._digest
    monkeypatch.setattr(past_questions, "_digest", lambda name: named.append(1) or digest(name))
    tg.Engine().subscribe(tg.Subscription("many", "ann", where))
    assert 20 <= len(named) <= 50
