"""What ``explain`` says of patterns, example by example; that it is exact is a law of ``test_explain_laws.py``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import tidegate as tg
from tidegate.patterns import past_storage
from tidegate.patterns.reason import lasting

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
SCORES = {"a": 5, "b": 3, "c": 9, "d": 1}
RANKED = "no2 > 40 AND topk(1, 'PT10M', no2)"


def pub(id, minute, source="z7", **fields):
    own = {name: fields.pop(name) for name in ("phase", "location", "start", "end") if name in fields}
    return tg.Publication(id, source, NOW + timedelta(minutes=minute), fields, **own)


def after(where, *publications, **settings):
    engine = tg.Engine([tg.Subscription("s", "ann", where)], **settings)
    for publication in publications:
        engine.publish([publication])
    return engine


def lines(engine, publication):
    return str(engine.explain("s", publication)).splitlines()


def said(engine, publication):
    return str(engine.explain("s", publication))


def nodes(explanation):
    yield explanation
    for part in explanation.parts:
        yield from nodes(part)


def pattern(engine, publication):
    return next(node for node in nodes(engine.explain("s", publication)) if node.is_pattern)


def test_rank_and_score_to_beat():
    engine = after(RANKED, pub("a", 0, no2=50))
    assert lines(engine, pub("b", 1, no2=45)) == [
        "✓ AND",
        "  ✓ no2 > 40   — no2 is 45",
        "  ✓ topk(1, 'PT10M', no2)   — no2 is 45; score 45 is rank 1; 50 is the score to beat",
        "→ 2026-11-15T08:01:00Z (b) score 45",
    ]
    assert lines(engine, pub("b", 1, no2=60))[2:] == [
        "  ✗ topk(1, 'PT10M', no2)   — no2 is 60; score 60 is rank 2, beyond the best; 50 is the score to beat; "
        "told later if better ones expire before 2026-11-15T08:11:00Z, when it does itself"
    ]
    assert pattern(engine, pub("b", 1, no2=60)).facts == {
        "score": 60.0, "rank": 2, "k": 1, "ranked": 1, "to_beat": 50.0, "until": "2026-11-15T08:11:00Z"
    }  # fmt: skip
    assert lines(engine, pub("b", 1, no2=4))[2:] == ["  ✗ topk(1, 'PT10M', no2)   — no2 is 4; does not see it"]
    assert lines(engine, pub("b", 10, no2=60))[2].endswith("score 60 is rank 1; the window has no other")


def test_no_score_no_rank():
    found = after("topk(1, 'PT10M', no2)").explain("s", pub("a", 0))
    assert (found.held, found.values, found.facts["rank"]) == (False, {"no2": None}, None)
    assert str(found) == "✗ topk(1, 'PT10M', no2)   — no2 is missing; it has no score, so it is not ranked"


def test_what_comes_may_tell_of_others():
    engine = after("topk(1, 2, no2)", pub("a", 0, no2=1), pub("b", 1, no2=2))
    found = engine.explain("s", pub("c", 2, no2=3))
    assert not found.held
    assert [n.publications for n in found.told] == [("b",)]


def test_one_that_patterns_have_seen():
    engine = after("topk(2, 'PT10M', no2)", *(pub(id, i, no2=no2) for i, (id, no2) in enumerate(SCORES.items())))
    assert lines(engine, pub("a", 0, no2=5)) == [
        "✗ topk(2, 'PT10M', no2)   — no2 is 5; patterns have seen it already; if it came again it would be late, "
        "as the clock is at 2026-11-15T08:03:00Z; score 5 is rank 3 now, and it was told; told of are the 2 best"
    ]
    assert "score 9 is rank 4 now, and it was not told yet" in said(engine, pub("c", 2, no2=9))
    again = lines(engine, pub("d", 3, no2=1))[0]
    assert "patterns have seen it already, and this is as if it came again; score 1 is rank 1;" in again
    assert again.endswith("3 is the score to beat; it was told when it came before")
    assert "it comes too late, as the clock is at 2026-11-15T08:03:00Z: patterns do not see it" in said(
        engine, pub("x", 0, no2=5)
    )
    engine.publish([pub("z", 11, no2=100)])
    assert "it left the window 1 min ago" in said(engine, pub("a", 0, no2=5))


def test_readings_that_miss():
    where = "together('PT5M', kind = 'rain', kind = 'wind', 'all')"
    engine = after(where)
    assert lines(engine, pub("a", 0, kind="rain")) == [
        f"✗ {where}   — filter 2 of 2 misses a reading",
        "  ✓ kind = 'rain'   — kind is 'rain'; it stands for this one itself",
        "  ✗ kind = 'wind'   — kind is 'rain'; no reading is remembered",
    ]
    engine.publish([pub("a", 0, kind="wind")])
    assert lines(engine, pub("b", 1, kind="rain"))[2:] == [
        "  ✗ kind = 'wind'   — kind is 'rain'; a of 2026-11-15T08:00:00Z stands for this one",
        "→ 2026-11-15T08:01:00Z (b, a)",
    ]
    assert lines(engine, pub("b", 5, kind="rain"))[2:] == [
        "  ✗ kind = 'wind'   — kind is 'rain'; the last reading, a of 2026-11-15T08:00:00Z, is 5 min old; "
        "the window is 5 min"
    ]
    assert pattern(engine, pub("b", 5, kind="rain")).facts == {"missing": [2], "readings": [None, None]}
    assert lines(engine, pub("b", 1, kind="snow"))[0] == f"✗ {where}   — does not see it"
    engine.publish([pub("b", 1, kind="rain")])
    engine.publish([pub("x", 3)])
    assert lines(engine, pub("b", 1, kind="rain"))[0].endswith("each filter had a reading")


def test_readings_that_are_too_far():
    here, there, between = (7.17, 45.87), (7.25, 45.87), (7.19, 45.87)
    engine = after("together('PT5M', 2000, kind = 'rain', kind = 'wind')", pub("a", 0, kind="wind", location=there))
    assert "1 in the last 5 min, none nearer than 2000 m" in str(
        engine.explain("s", pub("b", 1, kind="rain", location=here))
    )
    assert "it has no location, so it takes no part" in said(engine, pub("b", 1, kind="rain"))
    engine = after(
        "together('PT5M', 2000, kind = 'rain', kind = 'wind', kind = 'fog')",
        pub("a", 0, kind="wind", location=(7.15, 45.87)), pub("b", 0, kind="fog", location=between),
    )  # fmt: skip
    found = engine.explain("s", pub("c", 1, kind="rain", location=here))
    assert (found.held, found.facts["readings"]) == (False, [None, "a", "b"])
    assert found.reason == "no readings are all nearer than 2000 m to each other"


def test_silences():
    where = "absent('PT10M', no2 > 0)"
    engine = after(where)
    begins = pattern(engine, pub("a", 0))
    assert begins.reason == "silent since 2026-11-15T08:00:00Z, told in 10 min, at 2026-11-15T08:10:00Z"
    engine.publish([pub("a", 0, no2=1)])
    assert pattern(engine, pub("x", 4)).facts == {
        "silent_since": "2026-11-15T08:00:00Z", "last": "a", "due": "2026-11-15T08:10:00Z", "told": False,
    }  # fmt: skip
    assert "silent since 2026-11-15T08:00:00Z (a), told in 6 min, at 2026-11-15T08:10:00Z" in str(
        engine.explain("s", pub("x", 4))
    )
    assert (
        said(engine, pub("b", 4, no2=1))
        .splitlines()[0]
        .endswith("from it silence counts anew, and is told at 2026-11-15T08:14:00Z unless another comes")
    )
    found = engine.explain("s", pub("x", 12))
    assert (found.held, found.facts["told"], [n.publications for n in found.told]) == (False, True, [("a",)])
    engine.advance(NOW + timedelta(minutes=11))
    assert "silent since 2026-11-15T08:00:00Z (a), told at 2026-11-15T08:10:00Z" in str(
        engine.explain("s", pub("x", 12))
    )
    engine.publish([pub("b", 12, no2=1)])
    assert (
        said(engine, pub("x", 2, no2=1))
        .splitlines()[0]
        .endswith("silent since 2026-11-15T08:12:00Z (b), told in 10 min, at 2026-11-15T08:22:00Z")
    )
    engine = after(f"{where[:-1]}, source)", pub("a", 0, no2=1))
    assert "nothing is watched yet" in said(engine, pub("x", 4, source="z8"))
    assert "silent since 2026-11-15T08:00:00Z (a)" in said(engine, pub("x", 4))


def test_a_silence_that_is_never_told():
    engine = tg.Engine([tg.Subscription("s", "ann", "absent('PT10M', TRUE)", active_until=NOW + timedelta(minutes=5))])
    assert "which is after the subscription's end" in said(engine, pub("a", 1))
    engine.publish([pub("a", 1)])
    assert "never told, as the subscription ends before 2026-11-15T08:11:00Z" in said(engine, pub("b", 20))


LEVELS = [2, 2, 3, 6, 9, 5]


def test_distance_of_a_window():
    where = "shape(level, (1, 3, 5, 3, 1), 'stream') <= 2.5"
    engine = after(where, *(pub(id, i, level=level) for i, (id, level) in enumerate(zip("abcd", LEVELS, strict=False))))
    found = engine.explain("s", pub("e", 4, level=9))
    assert str(found) == (
        f"✗ {where}   — level is 9; distance 3.67796, tolerance 2.5: far; there is no excursion to end"
    )
    assert "a window has 5 readings, and its source 1 with it" in said(engine, pub("e", 4, "z8", level=9))
    for i, id in enumerate("ef", 4):
        engine.publish([pub(id, i, level=LEVELS[i])])
    near = engine.explain("s", pub("g", 6, level=3))
    assert near.reason == (
        "distance 0.399606, tolerance 2.5: near; the excursion goes on, its best so far 2.37395 at f, "
        "and is told when a window is far"
    )
    assert (near.held, near.facts["best_reading"]) == (False, "f")
    engine.publish([pub("g", 6, level=3)])
    assert engine.explain("s", pub("h", 7, level=2)).reason == (
        "distance 2.79604, tolerance 2.5: far; it ends the excursion, whose best is 0.399606 at g"
    )
    flat = after(where, *(pub(str(i), i, level=1) for i in range(4)))
    assert "the window is constant, and so far from every shape" in said(flat, pub("e", 4, level=1))


def test_the_event_that_decides():
    where = "kind = 'alarm' AND NOT T_AFTER(start, past(kind = 'storm', 'PT2M'))"
    engine = after(where)
    assert lines(engine, pub("a", 0, kind="alarm"))[2:] == [
        "  ✓ NOT T_AFTER(start, past(kind = 'storm', 'PT2M'))",
        "    ✗ T_AFTER(start, past(kind = 'storm', 'PT2M'))   — start is 2026-11-15T08:00:00Z; no event is remembered",
        "→ 2026-11-15T08:00:00Z (a)",
    ]
    engine.publish([pub("w", 1, kind="storm", phase="START")])
    assert lines(engine, pub("a", 2, kind="alarm"))[3].endswith(
        "1 remembered, none so related; the last is w (2026-11-15T08:01:00Z and running)"
    )
    engine.publish([pub("w", 3, phase="END")])
    assert lines(engine, pub("a", 4, kind="alarm"))[3].endswith(
        "w (2026-11-15T08:01:00Z to 2026-11-15T08:03:00Z) decides"
    )
    assert pattern(engine, pub("a", 4, kind="alarm")).facts["event"] == {
        "id": "w", "source": None, "time": "2026-11-15T08:03:00Z",
        "start": "2026-11-15T08:01:00Z", "end": "2026-11-15T08:03:00Z",
    }  # fmt: skip
    assert lines(engine, pub("a", 9, kind="alarm"))[3].endswith(
        "no event within the limit of 2 min; w (2026-11-15T08:01:00Z to 2026-11-15T08:03:00Z) ended before"
    )
    refused = engine.explain("s", pub("w", 9, phase="END"))
    assert (refused.held, refused.reason) == (
        False, "it is refused: end without start",
    )  # fmt: skip


def test_the_value_that_decides():
    engine = after(
        "price < past(price, kind = 'trade', 2)", pub("a", 0, kind="trade", price=9), pub("b", 1, kind="trade", price=5)
    )
    found = engine.explain("s", pub("c", 2, price=7))
    assert str(found).splitlines()[0].endswith("price is 7; a (9, remembered at 2026-11-15T08:00:00Z) decides")
    assert engine.explain("s", pub("c", 2, price=10)).reason == "none of the last 2 events has such a value"
    missing = engine.explain("s", pub("c", 2))
    assert (missing.values, missing.reason) == ({"price": None}, "so neither this nor its negation holds")


def test_events_that_are_not_the_subscription_s():
    """From before it was made, forgotten, or the publication's own."""
    where = "T_AFTER(start, past(kind = 'storm'))"
    engine = after(where, pub("v", 0, kind="storm"), keep=timedelta(minutes=5))
    engine.subscribe(tg.Subscription("late", "ann", where))
    assert engine.explain("s", pub("a", 1)).held
    assert engine.explain("late", pub("a", 1)).reason == "start is 2026-11-15T08:01:00Z; no event is remembered"
    assert engine.explain("s", pub("a", 5)).held
    assert engine.explain("s", pub("a", 6)).reason == "start is 2026-11-15T08:06:00Z; no event is remembered"
    own = after("price < past(price, TRUE) OR T_DURING(end, past(TRUE))", pub("w", 0, price=5, phase="START"))
    assert [n.facts["event"] for n in nodes(own.explain("s", pub("w", 1, price=4, phase="END"))) if n.is_pattern] == [
        None, None,
    ]  # fmt: skip
    assert own.explain("s", pub("x", 1, price=4)).parts[0].facts["event"]["value"] == 5.0


def test_an_event_from_before_the_subscription():
    engine = after("T_DURING(start, past(TRUE))", pub("w", 0, phase="START"))
    engine.subscribe(tg.Subscription("late", "ann", "T_DURING(end, past(TRUE))"))
    found = engine.explain("late", pub("w", 1, phase="END"))
    assert (found.held, found.reason.split(";")[0]) == (False, "its event began before the subscription was made")


@pytest.mark.parametrize(("bound", "is_near"), [("<= 0", True), ("< 0.5", True), ("< 0", False)])
def test_a_window_at_exactly_the_tolerance(bound, is_near):
    engine = after(f"shape(level, (0, 1, 0), 'stream') {bound}", pub("a", 0, level=0), pub("b", 1, level=1))
    assert ("near; an excursion begins" in said(engine, pub("c", 2, level=0))) is is_near


def test_with_a_history_events_have_their_names(tmp_path):
    with (
        tg.History(tmp_path / "events.db") as history,
        after("T_AFTER(start, past(kind = 'storm'))", history=history) as engine,
    ):
        engine.publish([pub("w", 0, "north", kind="storm", phase="START"), pub("v", 0, "north", kind="storm")])
        engine.publish([pub("w", 1, "north", phase="END")])
        found = pattern(engine, pub("a", 2)).facts["event"]
        assert (found["id"], found["source"]) == ("w", "north")


def test_what_waits_says_until_when():
    engine = after("topk(1, 'PT10M', no2)", pub("a", 0, no2=5), pub("b", 0.25, no2=7), lateness=timedelta(minutes=1))
    found = engine.explain("s", pub("c", 0.5, no2=6))
    assert (found.held, found.told) == (False, ())
    assert found.reason == (
        "it waits for others that may still come before it, until the time is after 2026-11-15T08:01:30Z; "
        "score 6 is rank 2, beyond the best; 5 is the score to beat; "
        "told later if better ones expire before 2026-11-15T08:10:30Z, when it does itself"
    )
    assert engine.explain("s", pub("c", 0.5, no2=4)).held
    assert "it waits already, and this is as if it came again" in said(engine, pub("b", 0.25, no2=7))


def test_a_pattern_sees_nothing_outside_its_time_of_activity():
    engine = tg.Engine([tg.Subscription("s", "ann", "topk(1, 'PT1H', no2)", active_until=NOW)])
    assert not engine.explain("s", pub("p", 0, no2=1)).held
    assert engine.explain("s", pub("p", -1, no2=1)).held


def test_an_event_that_has_run_longer_than_anything_is_kept(monkeypatch):
    monkeypatch.setattr(past_storage, "_FEW", 0)
    engine = after("T_DURING(start, past(kind = 'storm'))", keep=timedelta(minutes=1))
    engine.publish([pub("w", 0, kind="storm", phase="START")])
    for i in range(1, 20):
        engine.publish([pub(f"v{i}", i, kind="storm")])
    found = pattern(engine, pub("a", 40)).facts["event"]
    assert found == {"id": None, "source": None, "time": None, "start": "2026-11-15T08:00:00Z", "end": None}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0 s"), (59, "59 s"), (90, "1 min 30 s"), (1.5, "1.5 s"), (61.25, "1 min 1.25 s"), (3600, "1 h")),
        *((2 * 86_400 + 3 * 3600 + 60, "2 d 3 h"), (-5, "5 s")),
    ],
)
def test_lengths_of_time(seconds, text):
    assert lasting(int(seconds * 1e6)) == text
