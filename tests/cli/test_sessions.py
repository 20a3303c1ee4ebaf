"""``tidegate sessions``, as a user runs it."""

from __future__ import annotations

import re

import orjson
import pytest

from tests.broker.session_world import World
from tests.cli.commands import refused, run
from tidegate.broker.sessions import open_sessions


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = World(tmp_path)
    for name in ("ann", "bob"):
        made.registry.register(name)
    made.run()
    made.run(ann=3)
    yield made
    made.close()


def test_sessions_are_listed(world):
    with world.gateway() as gateway:
        connection = gateway.connect("ann")
        gateway.connect("ann")
        connection.acknowledge(1)
        gateway.flush()
        listed = run("sessions", "list", "data", "--json").stdout.splitlines()
    ann, bob = (orjson.loads(line) for line in listed)
    assert (ann["principal"], ann["connections"]) == ("ann", [])  # of a gateway whose clock shows another year
    assert [(one["last"], one["acknowledged"], one["depth"]) for one in ann["queues"]] == [(3, 1, 2)]
    assert (bob["principal"], [one["depth"] for one in bob["queues"]]) == ("bob", [0])
    shown = run("sessions", "list", "data").stdout.splitlines()
    assert [line.split(", ")[0] for line in shown] == [
        shown[0].split(", ")[0],
        "  stream: last 3",
        shown[2].split(", ")[0],
        "  stream: last 0",
    ]
    assert shown[0].startswith("ann: registered ")
    assert "last seen" in shown[0]
    assert "1 acknowledged, 2 wait, since" in shown[1]
    assert run("sessions", "list", "data", "--principal", "bob").stdout.startswith("bob: registered")


def test_who_is_connected_is_shown(world):
    with open_sessions("data") as gateway:
        gateway.connect("bob")
        gateway.flush()
        shown = run("sessions", "list", "data", "--principal", "bob").stdout
        assert re.search(r", 1 connection, since \d+ s ago", shown)
        gateway.connect("bob")
        gateway.flush()
        assert ", 2 connections, since" in run("sessions", "list", "data", "--principal", "bob").stdout
    assert "connection" not in run("sessions", "list", "data", "--principal", "bob").stdout


def test_a_session_is_ended_once(world):
    gateway = world.gateway()
    connection = gateway.connect("ann")
    assert run("sessions", "unregister", "data", "ann").stdout == "ann is unregistered\n"
    gateway.tick()
    assert (connection.state, connection.reason) == ("closed", "unregistered")
    wanted = "expected a session that is registered or connected, to unregister; got one that is unknown"
    assert wanted in refused("sessions", "unregister", "data", "ann")
    assert "ann" not in run("sessions", "list", "data").stdout
    assert "a principal with a session; got 'ann'" in refused("sessions", "list", "data", "--principal", "ann")


def test_where_there_are_no_queues_there_are_no_sessions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.toml").write_text('[run]\ndata = "broker"\nrunner = "process"\n')
    assert "which the first run makes" in refused("sessions", "list", "broker.toml")


def test_a_run_makes_and_ends_the_queues_of_sessions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.toml").write_text('[run]\ndata = "broker"\nrunner = "process"\nlateness = 0\n')
    (tmp_path / "p.jsonl").write_text('{"id": "p", "source": "z", "time": "2026-11-15T08:00:00Z", "n": 1}\n')
    epochs = []
    for _ in range(2):
        run("subscribe", "broker.toml", "--id", "s1", "--subscriber", "ann", "--where", "n > 0")
        run("run", "broker.toml", "--available-now")
        run("publish", "broker", "p.jsonl")
        run("run", "broker.toml", "--available-now")
        with open_sessions("broker") as gateway:
            gateway.register("ann")
            connection = gateway.connect("ann")
            epochs.append(connection.hello().epoch)
            connection.take()
            connection.acknowledge(connection.hello().last)
            gateway.unregister("ann")
            assert gateway.tick() == [connection]
            gateway.register("ann")
            assert gateway.connect("ann").state == "waiting"
            gateway.unregister("ann")
        run("run", "broker.toml", "--available-now")
        assert run("sessions", "list", "broker").stdout == ""
        assert "a principal with a queue" in refused("queue", "show", "broker", "ann")
    assert epochs[0] != epochs[1]
