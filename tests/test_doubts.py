"""Subscriptions that are taken with a warning, those that are refused, and what is said of them."""

from __future__ import annotations

import warnings

import pytest

import tidegate as tg
from tests.cli.commands import run
from tests.parts.refusal import assert_refused


def doubts(where):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tg.Engine([tg.Subscription("s", "ann", where)])
    assert all(w.category is tg.SubscriptionWarning and w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ('kind = "rain"', 'kind = "rain" compares two attributes; a text has single quotes'),
        ('a > 1 AND NOT kind <> "heavy rain"', 'kind <> "heavy rain" compares two attributes'),
        ('"kind" = "rain"', "compares two attributes"),
        ("o3 > 99 AND o3 < 38", "can never match, as its conditions contradict each other"),
        ("o3 = 1 AND o3 = 'a'", "can never match"),
        ("(a = 1 AND a = 2) OR (b > 1 AND b < 0)", "can never match"),
        ("topk(3, 'PT1H', no2) AND no2 > 5 AND no2 < 4", "can never match"),
    ],
)
def test_what_can_hardly_be_meant_is_warned_of_once(where, said):
    (found,) = doubts(where)
    assert found.startswith("subscription 's'")
    assert said in found


@pytest.mark.parametrize(
    "where",
    [
        '"wind speed" = gust', '"wind speed" = "gust speed"', 'temperature <= "dew point"', '"kind" = \'rain\'',
        "a = b", "FALSE", "a > 1 AND a < 2", "(a > 1 AND a < 0) OR b = 1", "kind = 'say \"rain\"'",
        "absent('PT1H', a > 1 AND a < 0)", "a = 1 AND a IS NOT NULL", {"op": "=", "args": [{"property": "a"}, "b"]},
    ],
)  # fmt: skip
def test_what_may_be_meant_is_not(where):
    assert doubts(where) == []


def test_a_warning_that_is_an_error_refuses_the_subscription(tmp_path):
    engine = tg.Engine()
    with warnings.catch_warnings(), tg.Registry(tmp_path / "registry.db") as registry:
        warnings.simplefilter("error", tg.SubscriptionWarning)
        for target in (engine, registry):
            with pytest.raises(tg.SubscriptionWarning):
                target.subscribe(tg.Subscription("s", "ann", "a > 1 AND a < 0"))
            assert len(target) == 0


def test_a_registry_warns_when_a_subscription_is_made_and_not_when_it_is_read(tmp_path):
    with tg.Registry(tmp_path / "registry.db") as registry:
        with pytest.warns(tg.SubscriptionWarning, match="'s'"):
            registry.subscribe(tg.Subscription("s", "ann", "a > 1 AND a < 0"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", tg.SubscriptionWarning)
            assert [s.id for s in registry] == ["s"]
            registry.prepare(1, 1)


def test_commands_print_each_warning_once(tmp_path):
    (tmp_path / "s.txt").write_text('kind = "rain"\na > 1 AND a < 0\nb = 1 AND b > past(b, b < 0)\n')
    (tmp_path / "p.jsonl").write_text('{"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z"}\n')
    checked = run("check", tmp_path / "s.txt")
    assert checked.stderr.splitlines() == [
        f"{tmp_path}/s.txt, line 1: warning: subscription '1': kind = \"rain\" compares two attributes; "
        "a text has single quotes",
        f"{tmp_path}/s.txt, line 2: warning: subscription '2' can never match, as its conditions contradict each other",
    ]
    for found in (
        run("match", tmp_path / "s.txt", tmp_path / "p.jsonl"),
        run("subscribe", tmp_path / "registry.db", tmp_path / "s.txt"),
    ):
        assert found.stderr.count("tidegate: warning: subscription '1': kind =") == 1
        assert found.stderr.count("tidegate: warning: subscription '2' can never match") == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("time = past(source, TRUE)", "two values of one type"),
        ("topk(3, 'PT1H', source)", "numbers in a score"),
        ("no2 > past(location, TRUE)", "a number, text or instant"),
        ("T_AFTER(source, past(TRUE))", "an attribute with an instant"),
        ('kind IN ("rain", "snow")', "rain, an attribute (a text has single quotes)"),
    ],
)
def test_what_no_type_could_make_true_is_refused(where, said):
    assert_refused(lambda: tg.Engine([tg.Subscription("s", "ann", where)]), tg.TypeMismatch, said)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("distance(location, POINT(1 2)) < 1000", "S_DWITHIN(location, POINT(…), 1000)"),
        ("1000 > distance(location, POINT(1 2))", "S_DWITHIN(location, POINT(…), 1000)"),
        ("abs(no2) > 5", "x NOT BETWEEN -5 AND 5"),
        ("avg(no2) > 40", "a pattern over several"),
        ("MAX(no2) > 40", "a pattern over several"),
        ("time > now()", "expressions have no clock"),
    ],
)
def test_functions_of_other_languages_have_hints(where, said):
    assert_refused(lambda: tg.Engine([tg.Subscription("s", "ann", where)]), tg.UnknownFunction, said)


def test_a_registry_takes_many(tmp_path):
    def some(first, last):
        return [tg.Subscription(f"s{i}", "ann", "a = 1") for i in range(first, last)]

    with tg.Registry(tmp_path / "registry.db") as registry:
        assert registry.subscribe(*some(0, 2)) == 2
        assert registry.subscribe(some(2, 4), *some(4, 5)) == 5
        assert registry.subscribe(iter(some(5, 7))) == 7
        assert registry.subscribe([]) == registry.subscribe() == 7
        assert [s.id for s in registry] == [f"s{i}" for i in range(7)]
        for wrong in ("s8", [5], {"id": "s8"}, None):
            assert_refused(lambda wrong=wrong: registry.subscribe(wrong), tg.SubscriptionError, "a Subscription")
        assert len(registry) == 7
