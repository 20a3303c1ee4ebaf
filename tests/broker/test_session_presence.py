"""Who is there: gateways that are killed, clocks that are set, sessions that nobody has seen for long."""

from __future__ import annotations

import sqlite3

import pytest

import tidegate as tg
from tests.broker.session_world import KEEP, SECOND, World
from tidegate.broker.session_states import SessionState
from tidegate.errors import SessionError, StoreError

HOUR = 3600 * SECOND


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    made.registry.register("ann")
    made.run()
    made.run(ann=3)
    yield made
    made.close()


def there(gateway):
    """How many connections each principal has."""
    return {one.session.principal: len(one.connections) for one in gateway.presence()}


def test_it_says_who_is_connected_since_when_and_how_far_behind(world):
    gateway, other = world.gateway(), world.gateway()
    began = world.now
    connection = gateway.connect("ann")
    connection.take(2)
    connection.acknowledge(1)
    gateway.flush()
    world.now += 5 * SECOND
    second = other.connect("ann")
    gateway.register("bob")
    ann, bob = other.presence()
    assert (ann.session.principal, ann.connected_since, len(ann.connections)) == ("ann", began, 2)
    (queue,) = ann.queues
    assert (queue.last, queue.acknowledged, queue.waiting, ann.lag(queue)) == (3, 1, 2, 5 * SECOND)
    assert ann.as_json()["queues"] == [
        {"destination": "stream", "last": 3, "acknowledged": 1, "depth": 2, "lag": 5.0},
    ]
    assert (bob.session.principal, bob.connected_since, bob.connections, bob.queues) == ("bob", None, (), ())
    second.close()
    connection.close()
    other.flush()
    gateway.flush()
    assert there(other) == {"ann": 0, "bob": 0}
    assert other.present("ann").session.seen_at == world.now
    with pytest.raises(SessionError, match="a principal with a session"):
        other.present("cid")


def test_sessions_come_in_pages(world):
    for name in ("dan", "bob", "cid"):
        world.registry.register(name)
    gateway = world.gateway()
    page = gateway.presence(limit=2)
    assert [one.session.principal for one in page] == ["ann", "bob"]
    assert [one.session.principal for one in gateway.presence(after="bob")] == ["cid", "dan"]


def test_connections_of_a_gateway_that_is_killed_vanish(world):
    killed, other = world.gateway(), world.gateway()
    killed.connect("ann")
    killed.tick()
    for _ in range(10):
        world.now += SECOND
        other.tick()
    assert there(other) == {"ann": 1}
    world.now += SECOND
    other.tick()
    assert there(other) == {"ann": 0}
    assert other.state("ann") is SessionState.REGISTERED


def test_who_only_looks_sees_nothing_of_a_gateway_that_is_killed(world):
    """As the command line does: nobody beats who would remove what is left."""
    killed, other = world.gateway(), world.gateway()
    killed.connect("ann")
    killed.tick()
    for step, expected in ((10 * SECOND, 1), (1, 0), (-10 * SECOND - 1, 1), (-10 * SECOND - 1, 0)):
        world.now += step
        assert there(other) == {"ann": expected}


def test_a_gateway_that_was_taken_for_lost_is_back_with_its_next_beat(world):
    halted, other = world.gateway(), world.gateway()
    connection = halted.connect("ann")
    halted.tick()
    world.pass_time(60, other)
    assert there(other) == {"ann": 0}
    halted.tick()
    assert there(other) == {"ann": 1}
    assert connection.state == "open"


@pytest.mark.parametrize("step", [-HOUR, HOUR, -1000 * 24 * HOUR, 1000 * 24 * HOUR])
def test_a_clock_that_is_set_loses_nothing(world, step):
    killed, gateway, other = world.gateway(), world.gateway(), world.gateway()
    killed.connect("ann")
    connection = gateway.connect("ann")
    connection.acknowledge(1)
    for one in (killed, gateway, other):
        one.tick()
    world.now += step
    connection.acknowledge(2)
    for one in (gateway, other, gateway):
        one.tick()
    assert there(other) == {"ann": 1}  # and the one that was killed is gone, whatever its last beat was
    assert world.gateway().connect("ann").hello().acked == 2
    assert other.state("ann") is SessionState.CONNECTED
    connection.close()
    gateway.tick()
    world.pass_time(100, gateway, other)
    assert other.state("ann") is SessionState.REGISTERED
    world.pass_time(160, gateway, other)
    assert other.state("ann") is SessionState.UNKNOWN


def test_a_process_that_ends_leaves_nothing_behind(world):
    with world.gateway() as gateway:
        connection = gateway.connect("ann")
        connection.acknowledge(2)
    assert connection.state == "closed"
    other = world.gateway()
    assert there(other) == {"ann": 0}
    assert other.connect("ann").hello().acked == 2
    with sqlite3.connect(world.place / "cursors.db") as database:
        assert database.execute("SELECT count(*) FROM tidegate_gateways").fetchone() == (0,)
    database.close()


# --- expiry ---------------------------------------------------------------------------------------------------------


def test_a_session_that_nobody_has_seen_for_long_ends(world):
    gateway = world.gateway()
    gateway.tick()
    world.pass_time(KEEP.total_seconds() - 1, gateway)
    assert gateway.state("ann") is SessionState.REGISTERED
    world.pass_time(62, gateway)
    assert gateway.state("ann") is SessionState.UNKNOWN
    assert world.registry.registered("ann") is None
    gateway.register("ann")
    assert gateway.connect("ann").state == "waiting"  # for another queue


def test_thirty_days_it_is_if_nothing_else_is_said(world):
    gateway = tg.broker.sessions.Sessions(world.gateway()._queues, world.registry, clock=lambda: world.now)
    assert gateway._keep == 30 * 24 * HOUR


@pytest.mark.parametrize("how", ["token", "connection", "acknowledged", "program"])
def test_whoever_is_seen_stays(world, how):
    gateway, other = world.gateway(), world.gateway()
    connection = other.connect("ann") if how == "connection" else None
    other.tick()
    world.pass_time(100, *([gateway, other] if connection else [gateway]))
    if how == "token":
        world.now += HOUR  # it is noted once an hour
        gateway.seen("ann")
    elif how == "acknowledged":
        world.now += HOUR
        gateway.acknowledge("ann", 1)
    elif how == "program":
        with tg.OpenQueues(world.place) as queues:
            queues.acknowledge("ann", 1)
    world.pass_time(150, *([gateway, other] if connection else [gateway]))
    assert gateway.state("ann") in (SessionState.REGISTERED, SessionState.CONNECTED)
    if connection:
        connection.close()
        other.tick()
    world.pass_time(250, gateway)
    assert gateway.state("ann") is SessionState.UNKNOWN


def test_after_a_kill_time_counts_from_when_that_was_noticed(world):
    killed = world.gateway()
    killed.connect("ann")
    killed.tick()
    world.now += 1000 * 24 * HOUR  # no gateway runs: nobody could be seen
    gateway = world.gateway()
    world.pass_time(KEEP.total_seconds() - 60, gateway)
    assert gateway.state("ann") is SessionState.REGISTERED
    world.pass_time(121, gateway)
    assert gateway.state("ann") is SessionState.UNKNOWN


def test_no_jump_of_the_clock_makes_a_session_expire(world):
    gateway = world.gateway()
    world.pass_time(60, gateway)
    world.now += 1000 * 24 * HOUR
    gateway.tick()
    assert gateway.expire() == []
    assert gateway.state("ann") is SessionState.REGISTERED


def test_those_who_only_publish_have_no_session(world):
    gateway = world.gateway()
    gateway.seen("pub")
    gateway.flush()
    assert gateway.state("pub") is SessionState.UNKNOWN
    assert there(gateway) == {"ann": 0}


# --- what is not as it was written ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tidegate_sessions SET registration = 7",
        "UPDATE tidegate_seen SET counted = counted - 1",
        "DELETE FROM tidegate_seen",
        "UPDATE tidegate_connections SET principal = 'ann', since = 1",
        "UPDATE tidegate_session_clock SET version = version + 1",
    ],
)
def test_a_session_that_was_not_written_so_is_never_believed(world, change):
    gateway = world.gateway()
    gateway.connect("ann")
    gateway.flush()
    with sqlite3.connect(world.place / "cursors.db") as database:
        database.execute(change)
    database.close()
    with pytest.raises(StoreError, match=r"a session as it was written; got another one, by its checksum; at .*db"):
        world.gateway().presence()
