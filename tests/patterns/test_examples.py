"""Mistakes in patterns, and what the engine counts: each is refused with its place before anything changes."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta

import pytest

import tidegate as tg
from tidegate.errors import TidegateError
from tidegate.sealed_directory import seal

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
FILTERS = ", ".join(f"n = {i}" for i in range(17))


def at(second):
    return NOW + timedelta(seconds=second)


def pub(id, second, source="x", location=None, **attributes):
    return tg.Publication(id, source, at(second), attributes, location=location)


def sub(where, id="s"):
    return tg.Subscription(id, "ann", where)


def told(notifications):
    return [(n.subscription, n.time, n.publications) for n in notifications]


# --- expressions --------------------------------------------------------------------------------------------------

REFUSED = {
    # k
    "k zero": ("topk(0, 'PT1S', n)", tg.TypeMismatch, "whole number"),
    "k negative": ("topk(-1, 'PT1S', n)", tg.TypeMismatch, "whole number"),
    "k broken": ("topk(1.5, 'PT1S', n)", tg.TypeMismatch, "whole number"),
    "k text": ("topk('3', 'PT1S', n)", tg.TypeMismatch, "whole number"),
    "k truth": ("topk(TRUE, 'PT1S', n)", tg.TypeMismatch, "whole number"),
    "k attribute": ("topk(n, 'PT1S', n)", tg.TypeMismatch, "whole number"),
    "k just too large": ("topk(1001, 'PT1S', n)", tg.LimitError, "1000"),
    "k large": ("topk(1000000000, 'PT1S', n)", tg.LimitError, "(setting k)"),
    # windows of time
    **{
        f"{name} window {what}": (text.format(window), tg.TypeMismatch, f"window of {name}")
        for name, text in {
            "topk": "topk(1, {}, n)",
            "together": "together({}, n = 1, m = 1)",
            "absent": "absent({}, n = 1)",
        }.items()
        for what, window in {
            "zero": "'PT0S'",
            "negative": "'-PT5S'",
            "no duration": "'5 minutes'",
            "empty": "''",
            "bare P": "'P'",
            "bare T": "'PT'",
            "truth": "TRUE",
            "attribute": "m",
        }.items()
    },
    "together window number": ("together(5, n = 1, m = 1)", tg.TypeMismatch, "duration"),
    "absent window number": ("absent(5, n = 1)", tg.TypeMismatch, "duration"),
    "topk window long": ("topk(1, 'P367D', n)", tg.LimitError, "(setting window)"),
    "topk window just too long": ("topk(1, 'P366DT0.000001S', n)", tg.LimitError, "(setting window)"),
    "together window long": ("together('P367D', n = 1, m = 1)", tg.LimitError, "(setting window)"),
    "absent window long": ("absent('P367D', n = 1)", tg.LimitError, "(setting window)"),
    "absent window beyond all": ("absent('P99999999999999999999D', n = 1)", tg.TypeMismatch, "duration"),
    # windows by count
    "count zero": ("topk(1, 0, n)", tg.TypeMismatch, "window"),
    "count negative": ("topk(1, -5, n)", tg.TypeMismatch, "window"),
    "count broken": ("topk(1, 2.5, n)", tg.TypeMismatch, "window"),
    "count just too large": ("topk(1, 1000001, n)", tg.LimitError, "(setting window_count)"),
    "count large": ("topk(1, 1000000000000000000000, n)", tg.LimitError, "(setting window_count)"),
    # scores
    "score without attribute": ("topk(1, 'PT1S', 1 + 2)", tg.TypeMismatch, "attribute"),
    "score a number": ("topk(1, 'PT1S', 5)", tg.TypeMismatch, "attribute"),
    "score a text": ("topk(1, 'PT1S', 'n')", tg.TypeMismatch, "number"),
    "score with a text": ("topk(1, 'PT1S', n + 'a')", tg.TypeMismatch, "number"),
    "score of a text field": ("topk(1, 'PT1S', source)", tg.TypeMismatch, "number"),
    "score of a time": ("topk(1, 'PT1S', time)", tg.TypeMismatch, "number"),
    "score of a point": ("topk(1, 'PT1S', location)", tg.TypeMismatch, "number"),
    "score a condition": ("topk(1, 'PT1S', n > 1)", tg.TypeMismatch, "arithmetic"),
    "score folded": ("topk(1, 'PT1S', CASEI(t))", tg.TypeMismatch, "number"),
    "score a pattern": ("topk(1, 'PT1S', topk(1, 'PT1S', n))", tg.TypeMismatch, ""),
    "distance to a line": ("topk(1, 'PT1S', distance(location, LINESTRING(0 0, 1 1)))", tg.TypeMismatch, "POINT"),
    "distance of a text field": ("topk(1, 'PT1S', distance(source, POINT(1 2)))", tg.TypeMismatch, "point"),
    "distance of unlike lengths": ("topk(1, 'PT1S', distance((n, m), (1, 2, 3)))", tg.TypeMismatch, ""),
    "distance of one thing": ("topk(1, 'PT1S', distance(location))", tg.TypeMismatch, ""),
    "distance to texts": ("topk(1, 'PT1S', distance((n, m), ('a', 'b')))", tg.TypeMismatch, "number"),
    "distance without attribute": ("topk(1, 'PT1S', distance((1, 2), (1, 2)))", tg.TypeMismatch, "attribute"),
    # how many arguments
    "topk bare": ("topk()", tg.TypeMismatch, ""),
    "topk of two": ("topk(1, 'PT1S')", tg.TypeMismatch, ""),
    "topk of four": ("topk(1, 'PT1S', n, m)", tg.TypeMismatch, ""),
    "absent of one": ("absent('PT1S')", tg.TypeMismatch, ""),
    "absent of four": ("absent('PT1S', n = 1, source, source)", tg.TypeMismatch, ""),
    "no filter": ("together('PT1S')", tg.TypeMismatch, "arguments"),
    "one filter": ("together('PT1S', n = 1)", tg.TypeMismatch, "filter"),
    "one filter and metres": ("together('PT1S', 5, n = 1)", tg.TypeMismatch, "filter"),
    "one filter and all": ("together('PT1S', n = 1, 'all')", tg.TypeMismatch, "filter"),
    "17 filters": (f"together('PT1S', {FILTERS})", tg.LimitError, "(setting filters)"),
    # together
    "metres zero": ("together('PT1S', 0, n = 1, m = 1)", tg.TypeMismatch, "metres"),
    "metres negative": ("together('PT1S', -3, n = 1, m = 1)", tg.TypeMismatch, "metres"),
    "metres text": ("together('PT1S', '3', n = 1, m = 1)", tg.TypeMismatch, ""),
    "another word than all": ("together('PT1S', n = 1, m = 1, 'some')", tg.TypeMismatch, "all"),
    "filter a number": ("together('PT1S', n = 1, 5)", tg.TypeMismatch, ""),
    "filter of wrong types": ("together('PT1S', n = 1, location > 5)", tg.TypeMismatch, ""),
    # absent
    "by another attribute": ("absent('PT1S', n = 1, m)", tg.TypeMismatch, "source"),
    "by a text": ("absent('PT1S', n = 1, 'source')", tg.TypeMismatch, "source"),
    "by a condition": ("absent('PT1S', n = 1, n = 2)", tg.TypeMismatch, "source"),
    "filter of absent a number": ("absent('PT1S', 5)", tg.TypeMismatch, ""),
    # where a pattern may stand
    "under NOT": ("NOT topk(1, 'PT1S', n)", tg.TypeMismatch, "pattern"),
    "under OR": ("n > 1 OR absent('PT1S', n = 1)", tg.TypeMismatch, "pattern"),
    "under NOT and AND": ("NOT (n > 1 AND absent('PT1S', n = 1))", tg.TypeMismatch, "pattern"),
    "under AND and OR": ("m = 1 AND (n > 1 OR topk(1, 'PT1S', n))", tg.TypeMismatch, "pattern"),
    "two": ("topk(1, 'PT1S', n) AND topk(1, 'PT1S', n)", tg.TypeMismatch, "pattern"),
    "two apart": ("topk(1, 'PT1S', n) AND n > 1 AND (m > 1 AND absent('PT1S', n = 1))", tg.TypeMismatch, "pattern"),
    "in a filter of absent": ("absent('PT1S', topk(1, 'PT1S', n))", tg.TypeMismatch, "pattern"),
    "in a filter of together": ("together('PT1S', n = 1, m = 1 AND absent('PT1S', n = 1))", tg.TypeMismatch, "pattern"),
    "compared": ("topk(1, 'PT1S', n) = TRUE", tg.TypeMismatch, ""),
}


@pytest.mark.parametrize(("where", "error", "part"), REFUSED.values(), ids=REFUSED)
def test_refused(where, error, part):
    engine = tg.Engine([sub("topk(1, 'PT10S', n)", "best"), sub("n > 0", "plain")])
    engine.publish([pub("a", 0, n=1), pub("b", 1, n=2)])
    with pytest.raises(TidegateError) as caught:
        engine.subscribe(sub(where))
    message = str(caught.value)
    assert type(caught.value) is error, message
    assert re.match(r"expected .+; got .+; at line 1, column \d+ of subscription 's'", message, re.DOTALL), message
    assert part in message
    assert len(message) < 2000
    # Nothing has changed: the old ones go on where they were, and the id is free.
    assert [s.id for s in engine] == ["best", "plain"]
    engine.subscribe(sub("absent('PT20S', n = 1)"))
    assert told(engine.advance(at(60))) == [("best", at(10), ("b",)), ("s", at(21), ())]


ACCEPTED = [
    "topk(1000, 'P366D', n)",
    "topk(1, 1000000, n)",
    "topk(1, 'PT0.000001S', n)",
    "topk(1, 'P1W', n)",
    "topk(1, 'P1DT2H3M4.5S', n)",
    "topk(3, 1, n)",
    "topk(1, 'PT1S', spot)",
    "topk(1, 'PT1S', distance(spot, POINT(1 2)) / 2 + n ^ 2 % 3 div 4 - m)",
    "topk(1, 'PT1S', distance((n, m, o), (1, -2, 0.5)))",
    f"together('PT1S', {FILTERS.rpartition(', ')[0]})",
    "together('PT1S', 0.001, TRUE, TRUE, 'all')",
    "together('PT1S', a, b)",
    "absent('PT1S', TRUE, source)",
    "n > 1 AND (m > 1 AND (absent('PT1S', n = 1 OR NOT m = 1) AND t = 'a')) AND TRUE",
]


@pytest.mark.parametrize("where", ACCEPTED)
def test_accepted(where):
    engine = tg.Engine([sub(where)])
    engine.publish([pub("a", 0), pub("b", 1, n=1, m=2, t="a", location=(1, 2), spot=(1.0, 2.0))])
    engine.advance(at(5))
    assert len(engine) == 1


@pytest.mark.parametrize(
    ("limits", "fits", "where"),
    [
        ({"k": 2}, "topk(2, 'PT1S', n)", "topk(3, 'PT1S', n)"),
        ({"window": 60}, "absent('PT60S', n = 1)", "absent('PT61S', n = 1)"),
        ({"window_count": 5}, "topk(1, 5, n)", "topk(1, 6, n)"),
        ({"filters": 2}, "together('PT1S', n = 1, n = 2)", "together('PT1S', n = 1, n = 2, n = 3)"),
    ],
)
def test_limits_are_settings(limits, fits, where):
    engine = tg.Engine([sub(fits, "fits")], limits=tg.Limits(**limits))
    (name,) = limits
    with pytest.raises(tg.LimitError, match=rf"\(setting {name}\)"):
        engine.subscribe(sub(where))


def test_mistakes_in_json_have_their_path():
    where = {"op": "and", "args": [True, {"op": "topk", "args": [0, "PT1S", {"property": "n"}]}]}
    with pytest.raises(tg.TypeMismatch, match=r"at \$\.args\[1\]\.args\[0\]"):
        tg.Engine([sub(where)])


# --- clocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lateness", [timedelta(0), timedelta(seconds=3)])
def test_clocks_do_not_go_back(lateness):
    engine = tg.Engine([sub("absent('PT10S', TRUE)")], lateness=lateness)
    engine.advance(at(5))
    for bad in (at(4.999999), at(5).replace(tzinfo=None), "now", None):
        with pytest.raises(tg.SettingError, match="expected a"):
            engine.advance(bad)
    assert engine.advance(at(5)) == []
    assert told(engine.advance(at(15) + lateness)) == [("s", at(15), ())]


def test_a_clock_behind_the_publications_stands():
    engine = tg.Engine([sub("absent('PT10S', TRUE)")])
    engine.publish([pub("a", 20)])
    assert engine.advance(at(10)) == []
    engine.publish([pub("b", 19)])
    assert engine.late == 1
    assert told(engine.advance(at(30))) == [("s", at(30), ("a",))]


# --- what is counted ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "attributes"),
    [
        ("n", {}),
        ("n", {"n": None}),
        ("n", {"n": "text"}),
        ("n", {"n": True}),
        ("n", {"n": [1, 2]}),
        ("n / m", {"n": 1, "m": 0}),
        ("n / m", {"n": 0, "m": 0}),
        ("n % m", {"n": 1, "m": 0}),
        ("n div m", {"n": 1, "m": 0}),
        ("n ^ 0.5", {"n": -1}),
        ("n ^ (-1)", {"n": 0}),
        ("n ^ n", {"n": 1000}),
        ("n * n", {"n": 1e200}),
        ("n * n - n * n", {"n": 1e200}),
        ("1 / (n * n)", {"n": 1e200}),
        ("n + m", {"n": 1}),
        ("distance((n, m), (1, 2))", {"n": 1}),
        ("distance((n, m), (1, 2))", {"n": 1e200, "m": 1}),
        ("distance(location, POINT(1 2))", {}),
        ("distance(n, POINT(1 2))", {"n": 5}),
    ],
)
def test_without_a_score(score, attributes):
    engine = tg.Engine([sub(f"topk(5, 'PT10S', {score})"), sub(f"topk(5, 5, {score})", "by count"), sub("TRUE", "any")])
    assert [n.subscription for n in engine.publish([pub("a", 0, **attributes)])] == ["any"]
    assert (engine.unscored, engine.late, engine.cut) == (2, 0, 0)
    assert engine.advance(at(60)) == []
    assert engine.unscored == 2


def test_unscored_only_where_the_filter_lets_it_pass():
    engine = tg.Engine([sub("t = 'a' AND topk(5, 'PT10S', n)")])
    engine.publish([pub("a", 0), pub("b", 0, t="b"), pub("c", 0, t="a")])
    assert engine.unscored == 1


def test_late_ones_are_counted_and_matched():
    engine = tg.Engine([sub("topk(9, 'PT10S', n)", "best"), sub("TRUE", "any")])
    engine.publish([pub("a", 5, n=1)])
    assert told(engine.publish([pub("b", 4, n=1), pub("c", 5, n=1)])) == [
        ("any", at(4), ("b",)),
        ("any", at(5), ("c",)),
        ("best", at(5), ("c",)),
    ]
    assert (engine.late, engine.unscored, engine.cut) == (1, 0, 0)


def test_too_many_combinations_are_cut_and_logged(caplog):
    engine = tg.Engine([sub("together('PT1H', TRUE, TRUE, 'all')")])
    engine.publish([pub(f"p{i:03}", i) for i in range(500)])
    assert engine.cut == 0, "the last completes 999"
    with caplog.at_level(logging.ERROR, logger="tidegate"):
        found = engine.publish([pub("z", 500)])
    assert engine.cut == 1
    assert len(found) == 1000
    assert found[0].publications == ("z", "z")
    assert found[-1].publications == ("p001", "z")
    assert [(r.name.split(".")[0], r.levelname) for r in caplog.records] == [("tidegate", "ERROR")]
    assert "(setting combinations)" in caplog.text


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_the_bound_on_combinations_is_a_setting(most, caplog):
    wheres = ["together('PT1H', TRUE, TRUE, 'all')", "together('PT1H', TRUE, TRUE)"]
    engine = tg.Engine([sub(where, f"s{i}") for i, where in enumerate(wheres)], limits=tg.Limits(combinations=most))
    found = [n for i in range(3) for n in engine.publish([pub("abc"[i], i)])]
    wanted = [["aa"], ["bb", "ba", "ab"], ["cc", "cb", "ca", "bc", "ac"]]
    assert ["".join(n.publications) for n in found if n.subscription == "s0"] == [
        pair for some in wanted for pair in some[:most]
    ]
    assert ["".join(n.publications) for n in found if n.subscription == "s1"] == ["aa", "bb", "cc"]
    assert engine.cut == sum(len(some) > most for some in wanted) == len(caplog.records)


def test_a_search_without_end_is_cut_and_logged_or_clever(caplog):
    """40 to the power of 4 choices, and none of them is near the last one. Whoever sees that at once need not stop."""
    engine = tg.Engine([sub("together('PT1H', 3000, t = 'f', t = 'f', t = 'f', t = 'f', t = 'g')")])
    places = [(0.0001 * i, 0.0) for i in range(40)]
    engine.publish([pub(f"p{i:02}", i, location=place, t="f") for i, place in enumerate(places)])
    with caplog.at_level(logging.ERROR, logger="tidegate"):
        assert engine.publish([pub("z", 50, location=(10, 0), t="g")]) == []
    assert engine.cut == len(caplog.records) <= 1


# --- beyond what is usual -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [3, 70, 200])
def test_more_filters_than_a_shard_knows(number):
    """Subscriptions are spread over shards, and most filters of the others mean nothing to a shard."""
    engine = tg.Engine()
    for i in range(number):
        engine.subscribe(sub(f"n > {i} AND topk(1, 'PT1H', n)", f"s{i}"))
        assert len(engine.publish([pub(f"p{i}", i, n=number - i / 1000)])) == i + 1
    engine.subscribe(sub("together('PT1H', " + ", ".join(f"m > {i}" for i in range(16)) + ")", "all"))
    assert [n.subscription for n in engine.publish([pub("z", number, m=16)])] == ["all"]


def test_many_filters_where_the_setting_allows_them():
    filters = ", ".join(f"n > {i}" for i in range(200))
    engine = tg.Engine([sub(f"together('PT1H', {filters})")], limits=tg.Limits(filters=200))
    assert engine.publish([pub("a", 0, n=199)]) == []
    assert [n.publications for n in engine.publish([pub("b", 1, n=200)])] == [("b",) * 200]


def test_a_k_beyond_all_that_is_tracked():
    engine = tg.Engine([sub("topk(300000, 5, n)")], limits=tg.Limits(k=10**6))
    found = [n for i in range(20) for n in engine.publish([pub(f"p{i}", i, n=i)])]
    assert [n.publications for n in found] == [(f"p{i}",) for i in range(20)]


# --- snapshots ----------------------------------------------------------------------------------------------------


def test_counts_outlive_the_patterns(tmp_path):
    engine = tg.Engine([sub("topk(1, 'PT10S', n)")])
    engine.publish([pub("a", 5)])
    engine.publish([pub("b", 0)])
    engine.unsubscribe("s")
    for _ in range(2):
        engine.save(tmp_path / "here")
        engine = tg.Engine.load(tmp_path / "here")
        assert (engine.late, engine.unscored, engine.cut) == (1, 1, 0)
    engine.subscribe(sub("topk(1, 'PT10S', n)"))
    engine.publish([pub("c", 6)])
    engine.save(tmp_path / "here")
    assert tg.Engine.load(tmp_path / "here").unscored == 2


def test_several_snapshots_keep_the_longest_lateness(tmp_path):
    for i in range(3):
        tg.Engine([sub("absent('PT10S', TRUE)", f"s{i}")], lateness=timedelta(seconds=i % 2)).save(tmp_path / f"{i}")
    engine = tg.Engine.load(*(tmp_path / f"{i}" for i in range(3)))
    assert engine.publish([pub("a", 0)]) == []
    assert engine.advance(at(10.5)) == [], "a second late"
    assert [n.time for n in engine.advance(at(11))] == [at(10)] * 3


@pytest.mark.parametrize("name", ["shards.json", "shard-0.bundle", "patterns/patterns.arrow", "patterns/index.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "other"])
def test_damaged_snapshots_are_refused(tmp_path, name, damage):
    engine = tg.Engine([sub("n > 0 AND topk(1, 'PT10S', n)")])
    engine.publish([pub("a", 0, n=1)])
    engine.save(tmp_path / "here")
    file = tmp_path / "here" / name
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "other": b"[1, 2]"}[damage])
    with pytest.raises(tg.SnapshotError, match=r"expected .+; got"):
        tg.Engine.load(tmp_path / "here")


def test_snapshots_of_format_1_are_read_where_nobody_remembers_anything(tmp_path):
    """Then publications and events were known by their ids alone."""
    for name, where in (("plain", "n > 0"), ("pattern", "topk(1, 'PT10S', n)")):
        tg.Engine([sub(where)]).save(tmp_path / name)
        file = tmp_path / name / "shards.json"
        file.write_bytes(file.read_bytes().replace(b'"format":3', b'"format":1'))
        seal(tmp_path / name)
    assert told(tg.Engine.load(tmp_path / "plain").publish([pub("a", 0, n=1)])) == [("s", at(0), ("a",))]
    with pytest.raises(tg.SnapshotError, match="the patterns of a snapshot in format 3; got format 1"):
        tg.Engine.load(tmp_path / "pattern")


def test_a_silence_that_is_complete_at_the_last_moment_of_activity():
    until = at(10) + timedelta(microseconds=1)
    for end, expected in ((until, [("s", at(10), ("a",))]), (at(10), [])):
        engine = tg.Engine([tg.Subscription("s", "ann", "absent('PT10S', TRUE)", active_until=end)])
        assert told(engine.publish([pub("a", 0)])) == []
        assert told(engine.publish([pub("b", 10)])) == expected, "b ends the silence, which is complete just then"
