"""Every transition of sessions and connections, and every one that there is not: each is a test."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.broker.session_world import World
from tidegate.broker.session_states import (
    CONNECTIONS,
    SESSIONS,
    ConnectionEvent,
    ConnectionState,
    SessionEvent,
    SessionState,
    after,
)
from tidegate.errors import SessionError


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


# --- sessions -------------------------------------------------------------------------------------------------------


def session_in(world, gateway, state):
    """Bring the session of ann to a state, with three deliveries if it is registered; its connections."""
    if state is SessionState.UNKNOWN:
        return []
    gateway.register("ann")
    world.run()
    world.run(ann=3)
    gateway.tick()
    if state is SessionState.CONNECTED:
        return [gateway.connect("ann")]
    return []


EVENTS = {
    SessionEvent.REGISTER: lambda gateway: gateway.register("ann"),
    SessionEvent.CONNECT: lambda gateway: gateway.connect("ann"),
    SessionEvent.ACKNOWLEDGE: lambda gateway: gateway.acknowledge("ann", 2),
    SessionEvent.UNREGISTER: lambda gateway: gateway.unregister("ann"),
}


@pytest.mark.parametrize(("state", "event"), list(product(SessionState, EVENTS)))
def test_what_a_session_is_asked(world, state, event):
    gateway = world.gateway()
    session_in(world, gateway, state)
    gateway.flush()
    assert gateway.state("ann") is state
    following = SESSIONS.get((state, event))
    if following is None:
        with pytest.raises(SessionError, match=f"to {event}; got one that is {state}; at principal 'ann'"):
            EVENTS[event](gateway)
        assert gateway.state("ann") is state
    else:
        EVENTS[event](gateway)
        assert gateway.state("ann") is following
        gateway.flush()
        assert world.gateway().state("ann") is following


@pytest.mark.parametrize("state", SessionState)
def test_a_session_expires_only_if_nobody_is_connected(world, state):
    gateway = world.gateway()
    session_in(world, gateway, state)
    world.now += 1  # nothing passes
    assert gateway.expire() == []
    other = world.gateway()
    world.pass_time(190, gateway, other)
    following = SESSIONS.get((state, SessionEvent.EXPIRE), state)
    assert [one.state("ann") for one in (gateway, other)] == [following, following]


@pytest.mark.parametrize("state", SessionState)
def test_the_last_connection_that_closes_ends_no_session(world, state):
    gateway = world.gateway()
    connections = session_in(world, gateway, state)
    if (state, SessionEvent.DISCONNECT) not in SESSIONS:
        assert not connections
        return
    second = gateway.connect("ann")
    second.close()
    assert gateway.state("ann") is state
    connections[0].close()
    assert gateway.state("ann") is SESSIONS[state, SessionEvent.DISCONNECT]


# --- connections ----------------------------------------------------------------------------------------------------


def connection_in(world, gateway, state):
    """A connection of ann in a state."""
    gateway.register("ann")
    connection = gateway.connect("ann")
    if state is ConnectionState.WAITING:
        return connection
    world.run()
    world.run(ann=3)
    gateway.tick()
    if state is ConnectionState.LAGGING:
        connection.lag()
    if state is ConnectionState.CLOSED:
        connection.close()
    return connection


def queue_comes(world, gateway, connection):
    world.run()
    gateway.tick()


def is_unregistered(world, gateway, connection):
    world.gateway().unregister("ann")
    gateway.tick()


def is_replaced(world, gateway, connection):
    world.end_queue("ann")
    gateway.tick()


HAPPENS = {
    ConnectionEvent.QUEUE: queue_comes,
    ConnectionEvent.TAKE: lambda world, gateway, connection: connection.take(),
    ConnectionEvent.ACKNOWLEDGE: lambda world, gateway, connection: connection.acknowledge(2),
    ConnectionEvent.LAG: lambda world, gateway, connection: connection.lag(),
    ConnectionEvent.LEAVE: lambda world, gateway, connection: connection.close(),
    ConnectionEvent.UNREGISTERED: is_unregistered,
    ConnectionEvent.REPLACED: is_replaced,
}
#: What the world does, of which no connection can be asked in vain.
OF_THE_WORLD = (ConnectionEvent.QUEUE, ConnectionEvent.UNREGISTERED, ConnectionEvent.REPLACED)


@pytest.mark.parametrize(("state", "event"), list(product(ConnectionState, ConnectionEvent)))
def test_what_happens_to_a_connection(world, state, event):
    gateway = world.gateway()
    connection = connection_in(world, gateway, state)
    assert connection.state is state
    following = CONNECTIONS.get((state, event))
    if following is None and event in OF_THE_WORLD:
        if not (state is ConnectionState.WAITING and event is ConnectionEvent.REPLACED):  # it has no queue to lose
            HAPPENS[event](world, gateway, connection)
        assert connection.state is state
        with pytest.raises(SessionError):
            after(CONNECTIONS, state, event, "somebody")
    elif following is None:
        wanted = f"to {event}; got one that is {state}; at connection of ann to stream"
        with pytest.raises(SessionError, match=wanted):
            HAPPENS[event](world, gateway, connection)
        assert connection.state is state
    else:
        HAPPENS[event](world, gateway, connection)
        assert connection.state is following


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (ConnectionEvent.LEAVE, ConnectionEvent.LEAVE),
        (ConnectionEvent.UNREGISTERED, ConnectionEvent.UNREGISTERED),
        (ConnectionEvent.REPLACED, ConnectionEvent.REPLACED),
    ],
)
def test_a_connection_that_is_closed_says_why_and_is_closed_once(world, event, reason):
    gateway = world.gateway()
    connection = connection_in(world, gateway, ConnectionState.OPEN)
    gateway.tick()
    HAPPENS[event](world, gateway, connection)
    connection.close()
    assert connection.reason is reason
    assert connection not in gateway.tick() or event is ConnectionEvent.LEAVE  # told once
    assert connection not in gateway.tick()


@pytest.mark.parametrize(("word", "table"), [("session", SESSIONS), ("connection", CONNECTIONS)])
def test_the_page_has_the_whole_table(word, table):
    page = (Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    lines = page.split(f"\n\n| {word} | ", 1)[1].split("\n\n", 1)[0].splitlines()
    events = lines[0].rstrip(" |").split(" | ")
    found = {}
    for line in lines[2:]:
        state, *following = line.strip("| ").split(" | ")
        found |= {(state, event): after for event, after in zip(events, following, strict=True) if after != "–"}
    assert found == table


def test_each_table_has_every_state_that_it_leads_to():
    for table in (SESSIONS, CONNECTIONS):
        for (state, _), following in table.items():
            assert type(state) is type(following)
        assert {state for state, _ in table} >= set(table.values())
