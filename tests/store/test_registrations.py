"""Who is registered, on all three databases: since when, what unregistering ends, and what a sink is told of it."""

from __future__ import annotations

import pytest

import tidegate as tg
from tests.store.at_once import at_once
from tidegate.store import Registry
from tidegate.store.registrations import Registration


@pytest.fixture
def registry(url):
    with Registry(url) as registry:
        yield registry


def asked(id: str, subscriber: str, **more: object) -> tg.Subscription:
    return tg.Subscription(id, subscriber, "a > 1", **more)


@pytest.mark.contract
def test_a_principal_is_registered_until_it_is_unregistered(registry):
    assert registry.registered("ann") is None
    assert registry.register("ann") == 1
    assert registry.register("ann") == 1 == registry.version
    assert registry.subscribe(asked("s1", "bob"), asked("s2", "ann"), asked("s3", "bob"), asked("s1", "Bob")) == 5
    assert [registry.registered(name) for name in ("ann", "bob", "Bob", "BOB")] == [1, 2, 5, None]
    assert registry.unregister("bob") == 6 == registry.version
    assert [s.registered_id for s in registry] == ["ann/s2", "Bob/s1"]
    assert [(r.since, r.until) for r in registry.rows(0, 6)] == [(2, 6), (3, None), (4, 6), (5, None)]
    assert registry.registered("bob") is None
    assert registry.register("bob") == 7
    assert registry.unregister("ann") == 8
    assert registry.subscribe(asked("s2", "ann")) == 9
    wanted = [
        Registration(1, "ann", True),
        Registration(2, "bob", True),
        Registration(5, "Bob", True),
        Registration(6, "bob", False),
        Registration(7, "bob", True),
        Registration(8, "ann", False),
        Registration(9, "ann", True),
    ]
    assert registry.registrations(0, 9) == wanted
    assert [one for at in range(9) for one in registry.registrations(at, at + 1)] == wanted
    assert registry.registrations(5, 8) == wanted[3:6]


@pytest.mark.contract
def test_whoever_is_not_registered_cannot_be_unregistered(registry):
    registry.subscribe(asked("s1", "ann"))
    for name in ("bob", "ANN", "", "x\0", "\ud800", None, 7):
        with pytest.raises(tg.SettingError, match="a principal that is registered"):
            registry.unregister(name)
    for name in ("a/b", "", "x\0", None, 7, "x" * 129):
        with pytest.raises(tg.SubscriptionError, match="the name of a principal"):
            registry.register(name)
    registry.unregister("ann")
    with pytest.raises(tg.SettingError, match="a principal that is registered; got 'ann'"):
        registry.unregister("ann")
    assert registry.version == 2


def test_who_cannot_subscribe_is_not_registered_for_it(registry):
    registry.subscribe(asked("s1", "ann"))
    with pytest.raises(tg.SubscriptionError):
        registry.subscribe(asked("s1", "bob"), asked("s1", "ann"))
    assert registry.registered("bob") is None
    assert registry.registrations(0, 99) == [Registration(1, "ann", True)]


def test_registrations_are_kept_as_long_as_their_versions_are_needed(registry):
    registry.needs("query", 0)
    registry.register("ann")
    registry.unregister("ann")
    registry.subscribe(asked("s1", "bob"))
    assert registry.prune() == 0
    assert len(registry.registrations(0, 9)) == 3
    registry.needs("query", 2)
    assert registry.prune() == 0
    assert registry.registrations(0, 9) == [Registration(3, "bob", True)]


@pytest.mark.contract
def test_one_registers_of_many_at_once(registry):
    found = []
    at_once(lambda: found.append(registry.register("ann")))
    assert {*found} == {1}
    assert registry.version == 1
    assert registry.registrations(0, 9) == [Registration(1, "ann", True)]


@pytest.mark.contract
def test_what_is_new_of_those_that_ask_for_initial_matches(registry):
    registry.subscribe(
        asked("s1", "ann", initial=True), asked("s2", "ann"), asked("s3", "bob", initial=True), asked("s4", "ann")
    )
    assert [row.index_id for row in registry.initial(0, 4)] == ["ann/s1", "bob/s3"]
    assert [row.index_id for row in registry.initial(0, 2)] == ["ann/s1"]
    assert [row.index_id for row in registry.initial(1, 4)] == ["bob/s3"]
    assert registry.unregister("bob") == 5
    assert [row.index_id for row in registry.initial(0, 4)] == ["ann/s1", "bob/s3"]
    assert [(row.index_id, row.first, row.since) for row in registry.initial(0, 5)] == [("ann/s1", 1, 1)]
