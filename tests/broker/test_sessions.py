"""What connections are told and where they go on; acknowledgements of several processes; sessions that begin anew."""

from __future__ import annotations

import threading

import pytest

import tidegate as tg
from tests.broker.session_world import SECOND, Killed, World, numbers
from tidegate.broker.session_states import ConnectionEvent, ConnectionState, SessionState
from tidegate.errors import SessionError, SettingError, StoreError


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    made.registry.register("ann")
    made.run()
    made.run(ann=5)
    yield made
    made.close()


# --- where a connection goes on -------------------------------------------------------------------------------------


def test_a_connection_goes_on_behind_what_is_acknowledged(world):
    gateway = world.gateway()
    first = gateway.connect("ann")
    assert first.hello()[1:] == (0, 5, 1)
    assert numbers(first.take(2)) == [1, 2]
    first.acknowledge(2)
    second = gateway.connect("ann")  # not durable yet, and nevertheless
    assert second.hello()[1:] == (2, 5, 1)
    assert numbers(second.take()) == [3, 4, 5]
    assert numbers(first.take()) == [3, 4, 5]
    assert gateway.tick() == [first, second]  # that they have begun
    assert gateway.tick() == []
    world.run(ann=1)
    assert gateway.tick() == [first, second]
    assert (numbers(first.take()), numbers(second.take())) == ([6], [6])


@pytest.mark.parametrize("with_epoch", [False, True])
def test_or_behind_the_number_that_it_gives(world, with_epoch):
    gateway = world.gateway()
    epoch = gateway.connect("ann").hello().epoch
    connection = gateway.connect("ann", after=f"{epoch}-3" if with_epoch else 3)
    assert connection.resume == f"{epoch}-3"
    assert numbers(connection.take()) == [4, 5]
    assert connection.resume == f"{epoch}-5"
    assert not connection.is_behind


@pytest.mark.parametrize(("after", "reason"), [("abc-3", "epoch"), ("6", "beyond"), ("abc-99", "epoch")])
def test_what_cannot_be_had_is_told_first(world, after, reason):
    connection = world.gateway().connect("ann", after=after)
    assert connection.is_behind
    gap, *rest = connection.take()
    assert (gap["type"], gap["reason"], gap["oldest"]) == ("gap", reason, 1)
    assert numbers(rest) == [1, 2, 3, 4, 5]
    assert connection.take() == []


def test_what_retention_has_passed_is_a_gap(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    assert numbers(connection.take(1)) == [1]
    world.drop(2)
    gap, *rest = connection.take()
    assert (gap["from"], gap["to"], gap["reason"], numbers(rest)) == (2, 3, "retention", [4, 5])


@pytest.mark.parametrize("after", ["x", "", "-1", -1, "1-", 1.5])
def test_a_position_that_is_none_makes_no_connection(world, after):
    gateway = world.gateway()
    with pytest.raises(SettingError, match="a number of a queue"):
        gateway.connect("ann", after=after)
    assert gateway.state("ann") is SessionState.REGISTERED


def test_one_that_lags_is_told_nothing_more_and_goes_on_where_it_was(world):
    gateway = world.gateway()
    slow = gateway.connect("ann")
    slow.take(2)
    slow.lag()
    assert not slow.is_behind
    slow.acknowledge(1)  # what had been sent
    slow.close()
    assert (slow.state, slow.reason) == (ConnectionState.CLOSED, ConnectionEvent.LAG)
    assert numbers(gateway.connect("ann", after=slow.resume).take()) == [3, 4, 5]
    assert numbers(gateway.connect("ann").take()) == [2, 3, 4, 5]


def test_a_queue_that_is_replaced_closes_its_connections_and_is_told_by_a_gap(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    connection.take(3)
    resume, before = connection.resume, connection.hello().epoch
    world.end_queue("ann")
    gateway._queues.refresh()
    assert connection.take() == []  # before anybody has noticed
    assert connection.hello() is None
    assert gateway.tick() == [connection]
    assert (connection.state, connection.reason) == (ConnectionState.CLOSED, ConnectionEvent.REPLACED)
    world.run(ann=2)
    again = gateway.connect("ann", after=resume)
    gateway.tick()
    gap, *rest = again.take()
    assert (gap["reason"], numbers(rest)) == ("epoch", [1, 2])
    assert again.hello().epoch != before


# --- acknowledging --------------------------------------------------------------------------------------------------


def test_all_connections_of_all_processes_share_one_cursor(world):
    one, other = world.gateway(), world.gateway()
    here, there = one.connect("ann"), other.connect("ann")
    here.acknowledge(3)
    there.acknowledge(2)
    other.flush()
    one.flush()
    assert [gateway.connect("ann").hello().acked for gateway in (one, other)] == [3, 3]
    there.acknowledge(1)
    other.flush()
    assert here.hello().acked == 3


def test_what_is_acknowledged_is_durable_within_a_second(world):
    gateway = world.gateway()
    gateway.tick()
    gateway.connect("ann").acknowledge(4)
    waited = 0
    while world.gateway().connect("ann").hello().acked == 0:
        world.now += SECOND // 2
        waited += SECOND // 2
        gateway.tick()
    assert waited < SECOND
    gateway.connect("ann").acknowledge(5)  # then the process is killed
    assert world.gateway().connect("ann").hello().acked == 4


def test_thousands_are_acknowledged_in_one_commit(tmp_path):
    world = World(tmp_path)
    names = [f"p{number}" for number in range(50)]
    for name in names:
        world.registry.register(name)
    world.run()
    world.run(**dict.fromkeys(names, 9))
    gateway = world.gateway()
    written = []
    write = gateway._queues.write
    gateway._queues.write = lambda some, along: (written.append(some), write(some, along))
    connections = [gateway.connect(name) for name in names]
    for number in range(1, 10):
        for connection in connections:
            connection.acknowledge(number)
    gateway.flush()
    assert [set(some.values()) for some in written] == [{9}]
    assert {gateway.acknowledged(connection.queue) for connection in connections} == {9}
    world.close()


def test_beyond_the_end_or_of_another_epoch_nothing_is_acknowledged(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    for number in (6, -1, "3", 2.0, True, None):
        with pytest.raises(SettingError, match="a number from 0 to 5, the last of the queue"):
            connection.acknowledge(number)
    for upto in ("6", 6):
        with pytest.raises(SettingError, match="a number from 0 to 5, the last of the queue"):
            gateway.acknowledge("ann", upto)
    with pytest.raises(SessionError, match="the epoch"):
        gateway.acknowledge("ann", "abc-3")
    assert connection.hello().acked == 0
    world.run(ann=1)
    connection.acknowledge(6)  # it has not been noticed yet that there is one more
    assert connection.hello().acked == 6


def test_a_principal_without_a_connection_acknowledges_what_it_has_read(world):
    gateway = world.gateway()
    epoch = gateway.connect("ann").hello().epoch
    gateway.acknowledge("ann", f"{epoch}-2")
    gateway.acknowledge("ann", 1)
    assert gateway.connect("ann").hello().acked == 2
    with pytest.raises(SessionError, match="a session with that queue"):
        gateway.acknowledge("ann", 1, destination="mqtt")


def test_what_could_not_be_written_is_written_later(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    connection.acknowledge(3)
    write = gateway._queues.write

    def fail(*_):
        raise StoreError("room to write", "none")

    gateway._queues.write = fail
    world.now += SECOND
    with pytest.raises(StoreError, match="room to write"):
        gateway.tick()
    gateway._queues.write = write
    connection.acknowledge(2)
    world.now += SECOND
    assert gateway.tick() == [connection]  # what there was to do is not lost either
    assert world.gateway().connect("ann").hello().acked == 3


def test_what_programs_acknowledge_counts_for_connections(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    with tg.OpenQueues(world.place) as queues:
        queues.acknowledge("ann", 4)
        connection.acknowledge(2)
        gateway.flush()
        assert queues.states("ann")[0].acknowledged == 4
    assert connection.hello().acked == 4


def test_threads_take_and_acknowledge_at_once(world):
    world.run(ann=195)
    gateway = world.gateway()
    found = []

    def one():
        connection, mine = gateway.connect("ann"), []
        while items := connection.take(7):
            mine += numbers(items)
            connection.acknowledge(mine[-1])
            gateway.flush()
        found.append(mine)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for mine in found:
        assert mine == list(range(mine[0], 201))
    assert min(mine[0] for mine in found) == 1
    assert gateway.connect("ann").hello().acked == 200


# --- sessions begin and end -----------------------------------------------------------------------------------------


def test_a_first_subscription_registers(world):
    world.registry.subscribe(tg.Subscription("s", "bob", "n > 1"))
    assert world.gateway().state("bob") is SessionState.REGISTERED
    with pytest.raises(SessionError, match="one that is unknown"):
        world.gateway().connect("cid")
    with pytest.raises(SettingError, match="the name of a principal"):
        world.gateway().register("cid/1")


def test_until_the_runner_has_made_the_queue_a_connection_waits(world):
    gateway = world.gateway()
    assert gateway.register("bob") == gateway.register("bob")
    connection = gateway.connect("bob", after=7)
    assert (connection.state, connection.hello(), connection.take(), connection.resume) == ("waiting", None, [], None)
    assert gateway.tick() == []
    world.run()
    assert gateway.tick() == [connection]
    assert connection.hello()[1:] == (0, 0, 1)
    assert [item["reason"] for item in connection.take()] == ["beyond"]
    assert not connection.is_behind


def test_a_session_that_begins_anew_never_reads_the_queue_of_before(world):
    """Also while the runner stands still and the old queue is there."""
    gateway, other = world.gateway(), world.gateway()
    connection = other.connect("ann")
    before = connection.hello().epoch
    gateway.unregister("ann")
    gateway.register("ann")
    again = gateway.connect("ann", after=f"{before}-2")
    assert (again.state, again.take()) == (ConnectionState.WAITING, [])
    assert other.tick() == [connection]
    assert connection.reason is ConnectionEvent.UNREGISTERED
    with pytest.raises(SessionError, match="a session with that queue"):
        other.acknowledge("ann", 1)
    world.run(ann=1)
    assert gateway.tick() == [again]
    gap, *rest = again.take()
    assert (gap["reason"], numbers(rest)) == ("epoch", [1])


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("following", ["register", "unregister", "tick", "connect"])
def test_an_unregister_that_is_killed_is_done_or_not(world, is_before, following):
    """And who connects before the runner has noticed reads nothing of before."""
    gateway = world.gateway()
    connection = gateway.connect("ann")
    with pytest.raises(Killed):
        world.dying("unregister", is_before).unregister("ann")
    if is_before:
        gateway.tick()
        assert connection.state is ConnectionState.OPEN
        assert gateway.state("ann") is SessionState.CONNECTED
        return
    if following == "tick":
        gateway.tick()
    elif following == "register":
        gateway.register("ann")
        again = gateway.connect("ann")
        assert again.state is ConnectionState.WAITING
        world.run()
        gateway.tick()
        assert again.hello()[1:] == (0, 0, 1)
    else:
        with pytest.raises(SessionError, match="one that is unknown"):
            getattr(gateway, following)("ann")
    assert (connection.state, connection.reason) == (ConnectionState.CLOSED, ConnectionEvent.UNREGISTERED)
    assert (world.registry.registered("ann") is not None) is (following == "register")


@pytest.mark.parametrize("is_before", [True, False])
def test_a_register_that_is_killed_is_done_or_not(world, is_before):
    with pytest.raises(Killed):
        world.dying("register", is_before).register("bob")
    gateway = world.gateway()
    assert gateway.state("bob") is (SessionState.UNKNOWN if is_before else SessionState.REGISTERED)
    gateway.register("bob")
    assert gateway.connect("bob").state is ConnectionState.WAITING


def test_who_is_unregistered_by_the_registry_itself_has_no_session(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    world.registry.unregister("ann")
    assert gateway.tick() == [connection]
    assert connection.reason is ConnectionEvent.UNREGISTERED
    assert gateway.state("ann") is SessionState.UNKNOWN


def test_what_the_registry_does_not_keep_any_more_is_noticed(world):
    """Ann was unregistered while no gateway ran, and the registry has forgotten it."""
    world.gateway().register("bob")
    gateway = world.gateway()
    connection = gateway.connect("ann")
    world.registry.unregister("ann")
    world.registry.unregister("bob")
    world.registry.register("bob")
    world.registry.prune()
    assert world.registry.registrations(0, 99) == [(world.registry.version, "bob", True)]
    later = world.gateway()
    assert (later.state("ann"), later.state("bob")) == (SessionState.UNKNOWN, SessionState.REGISTERED)
    assert connection in gateway.tick()
    assert connection.reason is ConnectionEvent.UNREGISTERED


def test_a_registry_that_is_an_older_copy_is_believed(tmp_path):
    world = World(tmp_path)
    gateway = world.gateway()
    for name in ("ann", "bob"):
        gateway.register(name)
    world.registry.close()
    for path in world.place.glob("registry.db*"):
        if path.is_file():
            path.unlink()
    world.registry.register("cid")
    later = world.gateway()
    assert [later.state(name) for name in ("ann", "bob", "cid")] == ["unknown", "unknown", "registered"]
    assert later.register("ann") == 2
    assert later.state("ann") is SessionState.REGISTERED
    world.close()
