"""What principals may read, on all three databases: joined to what they ask, and to all of it anew when it changes."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import text

import tidegate as tg
from tests.store.at_once import at_once
from tests.store.wine_terms import GONE, NEW, OLD, RED
from tidegate.errors import ConflictError
from tidegate.index.batch import ObjectBatch
from tidegate.ontologies.current import use
from tidegate.patterns import Pattern
from tidegate.store import Registry
from tidegate.store.database import Database
from tidegate.store.database_url import address
from tidegate.store.index_layers import IndexLayers
from tidegate.store.ontology_renewal import UnrenewableSubscription
from tidegate.store.principals import Principals

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


@pytest.fixture
def registry(url, tmp_path):
    with Registry(url, storage=tmp_path / "shelf") as registry:
        yield registry


@pytest.fixture
def principals(registry):
    with Principals(registry) as principals:
        yield principals


def asked(id: str, subscriber: str = "ann", where: str = "n > 1", **more: object) -> tg.Subscription:
    return tg.Subscription(id, subscriber, where, **more)


def reading(id: str, **attributes: object) -> tg.Publication:
    return tg.Publication(id, "z", NOW, attributes)


def told(registry: Registry, version: int, *publications: tg.Publication) -> list[tuple[str, str]]:
    """Which subscriptions with filters match which publications, of those active at a version."""
    registry.prepare(version, registry.version)
    view = IndexLayers(registry.index_storage).view(version, registry.version)
    found = view.match(ObjectBatch(list(publications)), version)
    ids = view.catalogue.texts("id", found.owners).to_pylist()
    rows = np.repeat(np.arange(len(publications)), np.diff(found.start))
    return sorted(zip(ids, (publications[row].id for row in rows), strict=True))


def states(registry: Registry) -> list[tuple[str, int, int | None, str | None]]:
    return [(row.id, row.since, row.until, row.read) for row in registry.rows(0, registry.version)]


# --- what is matched ------------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_who_may_not_read_something_is_not_told_of_it(registry, principals):
    principals.put("ann", read="zone = 1")
    given = [asked("s1"), asked("s2", where="n > 1 OR n < 0"), asked("s3", "bob"), asked("p", where="topk(1, 9, n)")]
    registry.subscribe(*given)
    some = [reading("one", n=2, zone=1), reading("two", n=2, zone=2), reading("none", n=2)]
    bobs = [("bob/s3", name) for name in ("none", "one", "two")]
    assert told(registry, 4, *some) == [("ann/s1", "one"), ("ann/s2", "one"), *bobs]
    assert list(registry) == given == [registry.subscription(one.registered_id) for one in given]
    assert [entry.subscription for entry in registry.listing("ann")] == [given[0], given[1], given[3]]
    pattern = registry.stored("ann/p").compiled()
    assert isinstance(pattern, Pattern)
    assert [[inner.filter.holds(p) for p in some] for inner in pattern.filters] == [[True, False, False]]
    assert registry.readable("bob") is None
    assert [registry.readable("ann").holds(p) for p in some] == [True, False, False]


@pytest.mark.contract
def test_another_read_makes_all_anew_at_one_moment(registry, principals):
    registry.subscribe(asked("s1"), asked("s2", "bob"), asked("s3", initial=True))
    one, two = reading("one", n=2, zone=1), reading("two", n=2, zone=2)
    principals.put("ann", read="zone = 1")
    assert states(registry) == [
        ("s1", 1, 4, None), ("s2", 2, None, None), ("s3", 3, 5, None), ("s1", 4, None, "zone = 1"),
        ("s3", 5, None, "zone = 1"),
    ]  # fmt: skip
    assert told(registry, 3, one, two) == [
        (id, name) for id in ("ann/s1", "ann/s3", "bob/s2") for name in ("one", "two")
    ]
    assert told(registry, 5, one, two) == [("ann/s1", "one"), ("ann/s3", "one"), ("bob/s2", "one"), ("bob/s2", "two")]
    before = registry.listing("ann")
    principals.put("ann", read="zone=1", quotas={"cost": 2})  # the same filter
    assert (registry.version, registry.listing("ann")) == (5, before)
    assert principals.principal("ann").read == "zone=1"
    principals.put("ann", read={"op": "=", "args": [{"property": "zone"}, 1]})
    assert registry.version == 5
    principals.put("ann", quotas={"cost": 2})
    assert registry.version == 7
    assert told(registry, 7, two) == [("ann/s1", "two"), ("ann/s3", "two"), ("bob/s2", "two")]
    assert [row.read for row in registry.rows(5, 7)] == [None, None]
    assert [entry.created for entry in registry.listing("ann")] == [entry.created for entry in before]


@pytest.mark.contract
def test_initial_matches_are_not_told_again(registry, principals, know):
    registry.subscribe(asked("s1", initial=True), asked("s2", initial=True))
    principals.put("ann", read="zone = 1")
    registry.subscribe(asked("s3", initial=True))
    assert [(row.id, row.first, row.since) for row in registry.initial(0, 5)] == [
        ("s1", 1, 3),
        ("s2", 2, 4),
        ("s3", 5, 5),
    ]
    assert [row.id for row in registry.initial(2, 5)] == ["s3"]
    assert [row.id for row in registry.initial(1, 5)] == ["s2", "s3"]
    assert [(row.id, row.since) for row in registry.initial(0, 2)] == [("s1", 1), ("s2", 2)]
    assert [(row.id, row.since) for row in registry.initial(0, 3)] == [("s2", 2), ("s1", 3)]
    principals.put("ann")
    know(**OLD)
    registry.subscribe(asked("red", where=RED, initial=True))
    know(**NEW)
    assert registry.renew() == 1
    assert [(row.id, row.first, row.since) for row in registry.initial(5, 10)] == [("red", 9, 10)]
    assert list(registry.initial(9, 10)) == []


@pytest.mark.contract
def test_a_token_brings_a_read(registry, principals):
    registry.subscribe(asked("s1"))
    principals.make_token("ann", ["subscriber"])
    assert registry.version == 1
    principals.make_token("ann", ["subscriber"], read="zone = 1")
    assert states(registry) == [("s1", 1, 2, None), ("s1", 2, None, "zone = 1")]
    principals.make_token("ann", ["subscriber"], read="zone=1")
    with pytest.raises(ConflictError):
        principals.make_token("ann", ["subscriber"], read="zone = 2")
    assert registry.version == 2
    principals.make_token("bob", ["subscriber"], read="zone = 2")
    registry.subscribe(asked("s1", "bob"))
    assert registry.stored("bob/s1").read == "zone = 2"


def test_who_is_removed_and_made_again_reads_what_is_said_then(registry, principals):
    principals.put("ann", read="zone = 1")
    registry.subscribe(asked("s1"))
    principals.remove("ann")
    assert registry.stored("ann/s1").read == "zone = 1"  # nothing more becomes readable by it
    principals.put("ann", read="zone = 2")
    assert states(registry) == [("s1", 1, 2, "zone = 1"), ("s1", 2, None, "zone = 2")]


@pytest.mark.contract
def test_whoever_subscribes_while_read_changes_has_one_or_the_other_at_the_end(registry, principals, url):
    principals.put("ann", read="zone = 0")
    numbers = iter(range(100))
    lock = threading.Lock()

    def works():
        for _ in range(5):
            with lock:
                number = next(numbers)
            if number % 2:
                principals.put("ann", read=f"zone = {number}")
            else:
                registry.subscribe(asked(f"s{number}"))

    at_once(works, 4)
    read = principals.principal("ann").read
    assert {registry.stored(one.registered_id).read for one in registry} == {read}
    assert len(registry) == 10


@pytest.mark.parametrize(
    ("read", "error", "says"),
    [
        (" AND ".join(f"(a = {i} OR b = {i})" for i in range(5)), tg.LimitError, "at most 16 clauses"),
        ("T_AFTER(start, past(TRUE))", tg.SettingError, "a filter as read; got a pattern, past"),
        (f"{RED}", tg.TypeMismatch, "an ontology"),
    ],
)
def test_what_cannot_be_read_is_refused_and_changes_nothing(tmp_path, read, error, says):
    with use(None), Registry(tmp_path / "r.db") as registry, Principals(registry) as principals:
        registry.subscribe(asked("s1"))
        with pytest.raises(error) as caught:
            principals.put("ann", read=read)
        assert says in str(caught.value)
        assert (registry.version, principals.all()) == (1, [])


# --- terms of an ontology -------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_a_read_with_terms_gets_their_new_meaning(registry, principals, know):
    syrah, merlot = reading("syrah", wine="w:syrah", n=2), reading("merlot", wine="w:merlot", n=2)
    know(**OLD)
    principals.put("ann", read=RED)
    registry.subscribe(asked("s1"), asked("red", where=RED), asked("s3", "bob"))
    assert registry.renew() == 0
    assert told(registry, 3, syrah, merlot) == [
        ("ann/red", "merlot"), ("ann/s1", "merlot"), ("bob/s3", "merlot"), ("bob/s3", "syrah"),
    ]  # fmt: skip
    know(**NEW)
    assert registry.renew() == 2  # one of them because of both
    assert registry.version == 5
    assert told(registry, 5, syrah)[:2] == [("ann/red", "syrah"), ("ann/s1", "syrah")]
    assert told(registry, 3, syrah) == [("bob/s3", "syrah")]
    assert principals.principal("ann").read == RED
    registry.subscribe(asked("s4"))
    assert told(registry, 6, syrah)[0] == ("ann/red", "syrah")
    assert [registry.readable("ann").holds(p) for p in (syrah, reading("rose", wine="w:rose"))] == [True, False]


def test_a_read_whose_terms_have_gone_keeps_its_meaning_if_so_wanted(registry, principals, know):
    know(**OLD)
    principals.put("ann", read="isA(wine, 'w:White')")
    registry.subscribe(asked("s1"))
    know(**GONE)
    with pytest.raises(tg.SubscriptionError, match="the read of ann"):
        registry.renew()
    lost: list[UnrenewableSubscription] = []
    assert registry.renew(lost.append) == 0
    assert [one.id for one in lost] == ["the read of ann"]
    assert told(registry, 1, reading("r", wine="w:riesling", n=2)) == [("ann/s1", "r")]


# --- databases of before --------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_a_read_of_before_is_applied(url, know):
    with Registry(url) as registry, Principals(url) as principals:
        registry.subscribe(asked("s1"), asked("s2", "bob"), asked("s3", "cy"))
        for name in ("ann", "bob", "cy"):
            principals.put(name)
    with closing(Database(address(url), lambda database: None)) as before:
        for change in (
            "UPDATE tidegate_principals SET read_filter = 'zone = 1' WHERE name = 'ann'",
            f"UPDATE tidegate_principals SET read_filter = '{RED.replace(chr(39), 2 * chr(39))}' WHERE name = 'bob'",
            "ALTER TABLE tidegate_principals DROP COLUMN meant",
            "UPDATE tidegate_schema_version SET version = 1 WHERE part = 'principals'",
        ):
            before.write(lambda connection, change=change: connection.execute(text(change)))
    with use(None):
        at_once(lambda: Registry(url).close())
    with Registry(url) as registry, Principals(url) as principals:
        assert {row.index_id: row.read for row in registry.rows(0, 5) if row.until is None} == {
            "ann/s1": "zone = 1", "bob/s2": "false", "cy/s3": None,
        }  # fmt: skip
        assert registry.version == 5
        know(**OLD)
        assert registry.renew() == 1
        assert "merlot" in registry.stored("bob/s2").read


# --- subscriptions whose time is over -------------------------------------------------------------------------------


@pytest.mark.contract
def test_subscriptions_end_when_their_time_is_over(registry):
    hour = timedelta(hours=1)
    registry.subscribe(
        asked("s1", active_until=NOW + hour), asked("s2"), asked("s3", active_until=NOW), asked("s4", active_until=NOW)
    )
    assert registry.end_due(NOW - timedelta(microseconds=1)) == 0 == registry.version - 4
    assert registry.end_due(NOW) == 2
    assert registry.end_due(NOW) == 0
    assert registry.ended(0, 9) == [(3, 5), (4, 6)]
    assert [one.id for one in registry] == ["s1", "s2"]
    assert registry.end_due(NOW + 2 * hour) == 1
    assert [one.id for one in registry] == ["s2"]
    with pytest.raises(tg.SettingError, match="time zone"):
        registry.end_due(datetime(2026, 11, 15))


@pytest.mark.contract
def test_two_end_them_at_once(registry):
    registry.subscribe(*(asked(f"s{i}", active_until=NOW) for i in range(20)))
    found = []
    at_once(lambda: found.append(registry.end_due(NOW)))
    assert (sum(found), registry.version, len(registry)) == (20, 40, 0)
