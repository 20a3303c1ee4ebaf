"""Registries of earlier versions of the tables: before ontologies, and before subscriptions said how they are told."""

from __future__ import annotations

from contextlib import closing

import pytest
from sqlalchemy import Column, Index, MetaData, Table, inspect, text

import tidegate as tg
from tests.store.at_once import at_once
from tests.store.wine_terms import NEW, OLD, RED
from tidegate.model import NAME_LENGTH
from tidegate.store import Registry
from tidegate.store.database import NUMBER, OPTIONS, Database, key, words
from tidegate.store.database_url import address
from tidegate.store.registrations import Registration
from tidegate.store.registry_tables import PART
from tidegate.store.schema import SchemaPart
from tidegate.store.version_readers import Readers

_BEFORE = MetaData()
_CLOCK = Table(
    "tidegate_clock",
    _BEFORE,
    Column("one", NUMBER, primary_key=True, autoincrement=False),
    Column("version", NUMBER, nullable=False),
    **OPTIONS,
)
_ROWS = Table(
    "tidegate_subscriptions",
    _BEFORE,
    Column("since", NUMBER, primary_key=True, autoincrement=False),
    Column("until", NUMBER),
    Column("id_key", NUMBER, nullable=False),
    Column("id", words(NAME_LENGTH), nullable=False),
    Column("subscriber_key", NUMBER, nullable=False),
    Column("subscriber", words(NAME_LENGTH), nullable=False),
    Column("expression", words(), nullable=False),
    Column("active_from", NUMBER),
    Column("active_until", NUMBER),
    Column("created", NUMBER, nullable=False),
    Index("tidegate_subscriptions_id", "id_key"),
    Index("tidegate_subscriptions_until", "until"),
    Index("tidegate_subscriptions_subscriber", "subscriber_key"),
    **OPTIONS,
)


def create(connection) -> None:
    _BEFORE.create_all(connection)
    Readers.create(connection)
    connection.execute(_CLOCK.insert(), {"one": 1, "version": 3})
    names = {"id_key": key("s1"), "id": "s1", "subscriber_key": key("ann"), "subscriber": "ann", "created": 10**15}
    row = {"since": 1, "until": 3, "expression": "price > 1", "active_from": None, "active_until": None}
    again = {"since": 2, "until": None, "id_key": key("s2"), "id": "s2", "active_until": 10**16}
    connection.execute(_ROWS.insert(), [row | names, row | names | again])


def keep_what_was_asked(connection) -> None:
    connection.execute(text("ALTER TABLE tidegate_subscriptions ADD COLUMN asked TEXT"))


def keep_what_is_delivered(connection) -> None:
    for column in ("initial BIGINT", "fields TEXT", "expired BIGINT", "destination TEXT"):
        connection.execute(text(f"ALTER TABLE tidegate_subscriptions ADD COLUMN {column}"))


def know_ids_by_subscriber(connection) -> None:
    for since, id in ((1, "ann/s1"), (2, "ann/s2")):
        connection.execute(_ROWS.update().where(_ROWS.c.since == since).values(id_key=key(id)))


STEPS = (create, keep_what_was_asked, keep_what_is_delivered, know_ids_by_subscriber)


@pytest.fixture(params=range(1, len(STEPS) + 1))
def old(url, request):
    """The address of a registry that was made by an earlier version of the tables."""
    with closing(Database(address(url), SchemaPart("registry", STEPS[: request.param]).prepare)) as database:
        database.open()
        with database.read() as connection:
            assert (
                connection.scalar(text("SELECT version FROM tidegate_schema_version WHERE part = 'registry'"))
                == request.param
            )
    return url


def test_a_registry_of_before_is_opened_and_has_it_all(old, know):
    with Registry(old) as registry:
        two = tg.Subscription("s2", "ann", "price > 1", active_until=tg.model.moment(10**16))
        assert (registry.version, list(registry)) == (3, [two])
        assert [(row.since, row.until, row.asked) for row in registry.rows(0, 3)] == [(1, 3, None), (2, None, None)]
        know(**OLD)
        assert registry.subscribe(tg.Subscription("red", "ann", RED)) == 4
        know(**NEW)
        assert registry.renew() == 1
        assert [s.where for s in registry] == ["price > 1", RED]
        told = tg.Subscription("told", "bob", "a > 1", initial=True, fields=["a"], deliver={"webhook": "w"})
        assert registry.subscribe(told) == 6
        assert [*registry][1:] == [registry.subscription("ann/red"), told]
        assert registry.recipients([1, 6]) == {
            1: ("s1", "ann", "stream", "all", False),
            6: ("told", "bob", "webhook:w", ("a",), False),
        }
    with Registry(old) as registry:
        assert len(registry) == 3
        with registry._database.read() as connection:
            assert connection.scalar(
                text("SELECT version FROM tidegate_schema_version WHERE part = 'registry'")
            ) == len(PART.steps)
            columns = [c["name"] for c in inspect(connection).get_columns("tidegate_subscriptions")]
            assert columns[-7:] == ["asked", "initial", "fields", "expired", "destination", "origin", "read_filter"]


@pytest.mark.contract
def test_who_subscribed_before_is_registered(old):
    with Registry(old) as registry:
        assert registry.registrations(0, 3) == [Registration(2, "ann", True)]  # of s1 nothing is left
        assert registry.subscribe(tg.Subscription("s1", "ann", "price > 1")) == 4
        assert registry.unregister("ann") == 5
        assert [(row.since, row.until) for row in registry.rows(0, 5)] == [(1, 3), (2, 5), (4, 5)]


def test_who_has_it_open_goes_on_while_it_gets_its_column(old):
    with closing(Database(address(old), lambda database: None)) as running:
        names = {"id_key": key("s3"), "id": "s3", "subscriber_key": key("ann"), "subscriber": "ann", "created": 10**15}
        row = {"since": 4, "until": None, "expression": "price > 1", "active_from": None, "active_until": None}
        with Registry(old) as registry:
            running.write(lambda connection: connection.execute(_ROWS.insert(), row | names))
            assert [s.id for s in registry] == ["s2", "s3"]


@pytest.mark.contract
def test_many_open_a_registry_of_before_at_once(old):
    def opens():
        with Registry(old) as registry:
            assert [s.id for s in registry] == ["s2"]

    at_once(opens)


@pytest.mark.parametrize("column", ["fields", "destination"])
def test_a_step_that_was_cut_short_runs_again(old, column):
    """As on MariaDB, which commits each statement: some columns are there, others not yet, and the version is old."""
    Registry(old).close()
    with closing(Database(address(old), lambda database: None)) as database:
        database.write(lambda c: c.execute(text(f"ALTER TABLE tidegate_subscriptions DROP COLUMN {column}")))
        database.write(lambda c: c.execute(text("UPDATE tidegate_schema_version SET version = 1")))
        database.write(lambda c: c.execute(text("UPDATE tidegate_subscriptions SET id_key = 7 WHERE since = 2")))
    with Registry(old) as registry:
        assert [(s.id, s.destination) for s in registry] == [("s2", "stream")]
        assert "ann/s2" in registry


#: Who subscribed before there were principals, with ids that one registry did not have twice.
STRANGERS = [("s1", "avalanche service"), ("s2", "a/b"), ("s3", ""), ("s4", "ž" * 900), ("a/b/s2", "x")]


@pytest.mark.contract
def test_subscribers_of_before_keep_what_they_have(old, tmp_path):
    """They are read, listed and ended as ever, and an id that leads to them is not given away."""
    with closing(Database(address(old), lambda database: None)) as before:
        row = {"until": None, "expression": "price > 1", "active_from": None, "active_until": None, "created": 10**15}
        with before.read() as connection:
            knows = connection.scalar(text("SELECT version FROM tidegate_schema_version WHERE part = 'registry'")) > 3
        strangers = [
            row
            | {
                "since": n,
                "id_key": key(f"{who or '-'}/{id}" if knows else id),
                "id": id,
                "subscriber_key": key(who or "-"),
                "subscriber": who or "-",
            }
            for n, (id, who) in enumerate(STRANGERS, 4)
        ]
        before.write(lambda c: c.execute(_ROWS.insert(), strangers))
        before.write(lambda c: c.execute(_CLOCK.update().values(version=8)))
    with Registry(old, storage=tmp_path / "snapshots") as registry:
        names = ["ann/s2", *(f"{who or '-'}/{id}" for id, who in STRANGERS)]
        assert [s.registered_id for s in registry] == names
        assert [registry.subscription(name).registered_id for name in names] == names
        assert [e.subscription.id for e in registry.listing("a/b")] == ["s2"]
        registry.prepare(8, 8)
        with pytest.raises(tg.SubscriptionError, match="the name of a principal"):
            registry.subscribe(tg.Subscription("new", "a/b", "price > 1"))
        with pytest.raises(tg.SubscriptionError, match="an id that is not in use; got 'a/b/s2'"):
            registry.subscribe(tg.Subscription("b/s2", "a", "price > 1"))
        registry.unsubscribe(*names[1:])
        assert [s.registered_id for s in registry] == ["ann/s2"]


@pytest.mark.parametrize("chunk", [1, 2, 5000])
def test_keys_of_many_are_made_anew(old, chunk, monkeypatch):
    monkeypatch.setattr("tidegate.store.registry_tables.CHUNK", chunk)
    with Registry(old) as registry:
        assert "ann/s2" in registry
        assert "s2" not in registry
        registry.subscribe(tg.Subscription("s1", "ann", "price > 1"))
        assert [row.index_id for row in registry.rows(0, 9)] == ["ann/s1", "ann/s2", "ann/s1"]
