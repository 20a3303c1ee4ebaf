"""The registry on all three databases: changes and versions, names, expressions, which versions are needed."""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest

import tidegate as tg
from tidegate.store import Registry
from tidegate.store.stored_subscription import StoredSubscription


@pytest.fixture
def registry(url):
    with Registry(url) as registry:
        yield registry


def made(*ids: str, subscriber: str = "ann") -> list[tg.Subscription]:
    return [tg.Subscription(id, subscriber, "a > 1") for id in ids]


# --- changes --------------------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_every_change_is_a_version(registry, url):
    other = Registry(url)
    with closing(other):
        assert (registry.version, other.version, len(registry)) == (0, 0, 0)
        assert registry.subscribe(*made("s1")) == 1 == other.version
        assert other.subscribe(*made("s2", "s3", "s4")) == 4 == registry.version
        assert registry.unsubscribe("ann/s3", "ann/s1") == 6 == other.version
        assert registry.subscribe() == registry.unsubscribe() == 6
        assert [s.id for s in other] == ["s2", "s4"]
        assert [(r.since, r.until, r.id) for r in other.rows(0, 6)] == [
            (1, 6, "s1"),
            (2, None, "s2"),
            (3, 5, "s3"),
            (4, None, "s4"),
        ]
        assert [r.id for r in other.rows(1, 3)] == ["s2", "s3"]
        assert other.ended(0, 6) == [(3, 5), (1, 6)]
        assert other.ended(5, 6) == [(1, 6)]
        assert other.ended(4, 5) == [(3, 5)]


BAD: list[tuple[object, type[tg.TidegateError], str]] = [
    (tg.Subscription("s2", "ann", "a > > 1"), tg.ParseError, "'s2'"),
    (tg.Subscription("s2", "ann", "nonsense(a)"), tg.UnknownFunction, "'s2'"),
    (tg.Subscription("s1", "ann", "a > 1"), tg.SubscriptionError, "an id that is not in use; got 'ann/s1'"),
    (tg.Subscription("s9", "ann", "a > 1"), tg.SubscriptionError, "each id once; got 'ann/s9' twice"),
    (tg.Subscription("s" * 1021, "ann", "a > 1"), tg.SubscriptionError, "at most 1024 characters as subscriber/id"),
    (tg.Subscription("s\0", "ann", "a > 1"), tg.SubscriptionError, "without the character NUL"),
    *(
        (tg.Subscription("s2", who, "a > 1"), tg.SubscriptionError, "the name of a principal, which is 1 to 128 of the")
        for who in ("\0", "a/b", "a b", "á", "ann\n", "x" * 129, "a:b", "𝒜")
    ),
    (tg.Subscription("s2", "ann", "a = '\0'"), tg.SubscriptionError, "without the character NUL"),
    ("s2", tg.SubscriptionError, "a Subscription; got 's2'"),
]


def test_one_bad_subscription_refuses_all(registry):
    registry.subscribe(*made("s1"))
    for bad, error, says in BAD:
        with pytest.raises(error) as caught:
            registry.subscribe(*made("s8", "s9"), bad)
        assert says in str(caught.value)
        assert (registry.version, [s.id for s in registry]) == (1, ["s1"])


def test_one_unknown_id_refuses_all(registry):
    registry.subscribe(*made("s1"))
    bads = [
        "ann/s9",
        "ann/S1",
        "ann/s1 ",
        "Ann/s1",
        "bob/s1",
        "s1",
        "/s1",
        "ann/",
        "ann/s\0",
        "\ud800",
        7,
        None,
        ["s1"],
    ]
    for bad in bads:
        with pytest.raises(tg.UnknownSubscription):
            registry.unsubscribe("ann/s1", bad)
        with pytest.raises(tg.UnknownSubscription):
            registry.subscription(bad)
        assert bad not in registry
        assert (registry.version, "ann/s1" in registry) == (1, True)


def test_an_id_cannot_end_twice_and_can_be_used_again(registry):
    registry.subscribe(*made("s1"))
    with pytest.raises(tg.UnknownSubscription):
        registry.unsubscribe("ann/s1", "ann/s1")
    registry.unsubscribe("ann/s1")
    with pytest.raises(tg.UnknownSubscription):
        registry.unsubscribe("ann/s1")
    assert registry.subscribe(tg.Subscription("s1", "ann", "a > 2")) == 3
    assert registry.subscription("ann/s1").where == "a > 2"
    assert [(r.since, r.until) for r in registry.rows(0, 3)] == [(1, 2), (3, None)]


@pytest.mark.contract
def test_every_subscriber_has_ids_of_its_own(registry):
    first, second, third = made("s1", "a/b")[0], *made("s1", subscriber="bob"), *made("a/b")
    assert registry.subscribe(first, second, third) == 3
    with pytest.raises(tg.SubscriptionError, match="got 'bob/s1'"):
        registry.subscribe(*made("s1", subscriber="cy"), *made("s1", subscriber="bob"))
    assert [s.registered_id for s in registry] == ["ann/s1", "bob/s1", "ann/a/b"]
    assert [row.index_id for row in registry.rows(0, 3)] == ["ann/s1", "bob/s1", "ann/a/b"]
    assert [registry.subscription(id) for id in ("ann/a/b", "bob/s1")] == [third, second]
    assert registry.unsubscribe("ann/s1") == 4
    assert ("ann/s1" in registry, "bob/s1" in registry) == (False, True)
    assert list(registry) == [second, third]


@pytest.fixture
def chunk(monkeypatch):
    """How many rows a statement holds, so that a test needs few to have several statements."""
    for module in ("database", "registry", "registry_tables"):
        monkeypatch.setattr(f"tidegate.store.{module}.CHUNK", 50)
    return 50


def test_more_than_one_statement_holds(registry, chunk):
    ids = [f"s{i}" for i in range(2 * chunk + 3)]
    assert registry.subscribe(*made(*ids)) == len(ids) == len(registry)
    assert [r.id for r in registry.rows(0, len(ids))] == [s.id for s in registry] == ids
    with pytest.raises(tg.SubscriptionError):
        registry.subscribe(*made("new", ids[-1]))
    assert registry.unsubscribe(*(f"ann/{id}" for id in ids[::-1])) == 2 * len(ids)
    assert registry.ended(0, 2 * len(ids)) == [(len(ids) - i, len(ids) + 1 + i) for i in range(len(ids))]
    assert registry.prune() == len(ids)


# --- what is stored -------------------------------------------------------------------------------------------------


NAMES = [
    "a",
    "A",
    "á",
    "a\u0301",
    "a ",
    " a",
    "a  ",
    "a\t",
    "ß",
    "ss",
    "ﬁ",
    "fi",
    "𝒜",
    "%",
    "_",
    "'",
    '"',
    "\\",
    "null",
]
NAMES += ["x" * 1020, "x" * 1019 + "y", "𝒜" * 1020, "𝒜" * 1019]


@pytest.mark.contract
def test_names_are_compared_by_their_characters(registry):
    for number, name in enumerate(NAMES, 1):
        assert registry.subscribe(tg.Subscription(name, "ann", "a > 1")) == number
    assert [s.id for s in registry] == NAMES
    for name in NAMES:
        assert f"ann/{name}" in registry
        assert registry.subscription(f"ann/{name}").id == name
        with pytest.raises(tg.SubscriptionError, match="an id that is not in use"):
            registry.subscribe(tg.Subscription(name, "ann", "a > 1"))
    registry.unsubscribe("ann/a ")
    assert "ann/a" in registry
    assert "ann/a " not in registry


def test_names_of_principals_are_compared_by_their_characters(registry):
    names = ["a", "A", "a.", "_", "-", "@", "a@b", "0", "x" * 128, "x" * 127 + "y"]
    for number, name in enumerate(names, 1):
        assert registry.subscribe(tg.Subscription("s", name, "a > 1")) == number
    for number, name in enumerate(names, 1):
        assert [(e.since, e.subscription.subscriber) for e in registry.listing(name)] == [(number, name)]
        assert registry.subscription(f"{name}/s").subscriber == name


EXPRESSIONS = [
    "no2 > 40 AND name = 'Žižkov 𝒜 ''quoted'' %s :x \\'",
    {"op": ">", "args": [{"property": "no2"}, 40]},
    True,
    {"op": "=", "args": [{"property": "name"}, "nul \0 in JSON"]},
    {"op": "in", "args": [{"property": "name"}, [f"member {i} 𝒜" for i in range(10_000)]]},
]


@pytest.mark.contract
def test_a_subscription_comes_back_as_it_was(registry):
    begin = datetime(2026, 11, 15, 8, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    times = [(None, None), (begin, datetime.max.replace(tzinfo=UTC)), (datetime.min.replace(tzinfo=UTC), None)]
    given = [
        tg.Subscription(f"s{i}.{j}", "ann", where, *active)
        for i, where in enumerate(EXPRESSIONS)
        for j, active in enumerate(times)
    ]
    registry.subscribe(*given)
    assert list(registry) == given
    assert [registry.subscription(s.registered_id) for s in given] == given
    assert [e.subscription for e in registry.listing()] == given
    assert list(registry.rows(0, len(given))) == [StoredSubscription.of(s, i, True) for i, s in enumerate(given, 1)]


TOLD = [
    {},
    {"initial": True, "expired": True},
    {"fields": "none", "deliver": "mqtt"},
    {"fields": ("no2", "Žižkov \0 𝒜", "all"), "deliver": {"webhook": "alarms: 𝒜/1"}},
    {"fields": ["no2"], "expired": True},
]
RECIPIENTS = [
    ("stream", "all", False),
    ("stream", "all", True),
    ("mqtt", "none", False),
    ("webhook:alarms: 𝒜/1", ("no2", "Žižkov \0 𝒜", "all"), False),
    ("stream", ("no2",), True),
]


@pytest.mark.contract
def test_how_a_subscription_is_told_comes_back(registry, monkeypatch):
    given = [tg.Subscription(f"s{i}", "ann", "a > 1", **told) for i, told in enumerate(TOLD)]
    registry.subscribe(*given)
    assert list(registry) == given == [e.subscription for e in registry.listing()]
    assert (
        [r.subscription for r in registry.rows(0, 9)]
        == given
        == [registry.stored(s.registered_id).meant for s in given]
    )
    registry.unsubscribe("ann/s2", "ann/s3")
    monkeypatch.setattr("tidegate.store.registry.CHUNK", 2)
    expected = {i: (f"s{i - 1}", "ann", *told) for i, told in enumerate(RECIPIENTS, 1)}
    assert registry.recipients([5, 3, 99, 1, 4, 2]) == expected
    assert registry.recipients([]) == registry.recipients(iter([99])) == {}


def test_recipients_are_read_without_an_expression(registry, monkeypatch):
    registry.subscribe(*made("s1"))
    monkeypatch.setattr("tidegate.store.registry.as_row", None)
    assert registry.recipients([1])[1].destination == "stream"


def test_initial_is_not_for_patterns(registry):
    with pytest.raises(tg.SubscriptionError, match="initial: true, which is not for patterns; got topk; at 's1'"):
        registry.subscribe(tg.Subscription("s1", "ann", "topk(3, 'PT1H', n)", initial=True))
    assert registry.subscribe(tg.Subscription("s1", "ann", "topk(3, 'PT1H', n)", fields="none", expired=True)) == 1


@pytest.mark.parametrize(
    "wrong", ["fields = 'x'", "fields = '[1]'", "fields = '\"some\"'", "destination = 'x'", "destination = 'webhook:'"]
)
def test_what_nobody_can_have_stored_is_refused(tmp_path, wrong):
    with Registry(tmp_path / "r.db") as registry:
        registry.subscribe(*made("s1"))
        registry._database.write(lambda c: c.exec_driver_sql(f"UPDATE tidegate_subscriptions SET {wrong}"))
        for read in (lambda: list(registry), lambda: registry.recipients([1])):
            with pytest.raises(tg.StoreError, match=r"as (it was|they were) stored"):
                read()


def test_limits_are_the_registrys(url):
    with Registry(url, limits=tg.Limits(text_length=10)) as registry, pytest.raises(tg.LimitError):
        registry.subscribe(tg.Subscription("s1", "ann", "a > 1 AND b > 1"))


def test_listing(registry):
    before = datetime.now(UTC)
    registry.subscribe(*made("s1", "s2"), *made("s3", subscriber="bob"), *made("s4"))
    registry.unsubscribe("ann/s2")
    assert [(e.subscription.id, e.since) for e in registry.listing()] == [("s1", 1), ("s3", 3), ("s4", 4)]
    assert [e.subscription.id for e in registry.listing("ann")] == ["s1", "s4"]
    assert [e.subscription.id for e in registry.listing("ann", 1)] == ["s1"]
    assert registry.listing(limit=0) == registry.listing("an") == registry.listing("\0") == []
    assert all(before <= e.created <= datetime.now(UTC) for e in registry.listing())
    for bad in (-1, 1.5, "1", True):
        with pytest.raises(tg.SettingError):
            registry.listing(limit=bad)


@pytest.mark.contract
def test_changes_while_reading(registry, chunk):
    """A reader that takes its time sees what was there when it began, and keeps nobody waiting."""
    ids = [f"s{i}" for i in range(20 * chunk)]
    registry.subscribe(*made(*ids))
    reading = iter(registry)
    first = next(reading)
    registry.unsubscribe(*(f"ann/{id}" for id in ids))
    registry.prune()
    registry.subscribe(*made("new"))
    assert [first.id, *(s.id for s in reading)] == ids
    assert [s.id for s in registry] == ["new"]


def test_reading_can_be_given_up(registry, chunk):
    registry.subscribe(*made(*(f"s{i}" for i in range(20 * chunk))))
    for _ in range(10):
        assert next(iter(registry)).id == next(registry.rows(0, 99)).id == "s0"
    registry.unsubscribe("ann/s0")
    assert next(iter(registry)).id == "s1"


# --- processes ------------------------------------------------------------------------------------------------------


def test_a_registry_can_be_pickled(url):
    registry = Registry(url, storage="/somewhere", limits=tg.Limits(depth=9))
    registry.subscribe(*made("s1"))
    copy = pickle.loads(pickle.dumps(registry))
    assert (copy.version, copy.storage, copy._limits) == (1, "/somewhere", tg.Limits(depth=9))
    copy.subscribe(*made("s2"))
    registry.close()
    assert [s.id for s in copy] == ["s1", "s2"]
    copy.close()
    assert registry.version == 2  # opened again
    registry.close()


@pytest.mark.contract
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_uses_connections_of_its_own(registry):
    registry.subscribe(*made("s1"))
    assert registry.version == 1
    child = os.fork()
    if not child:
        outcome = 1
        try:
            seen = registry.version
            registry.subscribe(*made("child"))
            outcome = 0 if (seen, registry.version, [s.id for s in registry]) == (1, 2, ["s1", "child"]) else 2
        finally:
            os._exit(outcome)
    assert os.waitpid(child, 0)[1] == 0
    assert registry.version == 2
    assert registry.subscribe(*made("parent")) == 3
    assert [s.id for s in registry] == ["s1", "child", "parent"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_parent_that_closes_leaves_the_commits_of_its_child(registry, url):
    """With SQLite, a child that thought it held its parent's locks would write into a file that is deleted."""
    registry.subscribe(*made("s1"))
    there, here = os.pipe()
    child = os.fork()
    if not child:
        try:
            registry.subscribe(*made("first"))
            os.close(here)
            signal.pause()
        finally:
            os._exit(1)
    os.close(here)
    assert os.read(there, 1) == b""
    os.close(there)
    registry.close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with Registry(url) as again:
        assert [s.id for s in again] == ["s1", "first"]
