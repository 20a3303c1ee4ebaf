"""Several gateways on one directory, in any order and killed at any time, answer as ``session_model.py`` does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.broker.session_model import REFUSED, WRONG_NUMBER, Broker
from tests.broker.session_world import SECOND, Killed, World
from tests.parts.profiles import examples
from tidegate.errors import SessionError, SettingError

NAMES = ("ann", "bob")
names = st.sampled_from(NAMES)
small = st.integers(0, 6)
COUNTS = dict.fromkeys(NAMES, 3)
counts = st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES})


class Gateways(RuleBasedStateMachine):
    """Each gateway and connection is a pair: the real one, and that of the model."""

    def __init__(self):
        super().__init__()
        self.directory = TemporaryDirectory()
        self.world, self.model = World(Path(self.directory.name)), Broker()
        self.began = self.world.now
        self.epochs = {}
        self.gateways = []
        self.connections = []
        self.start()
        self.start()

    def teardown(self):
        self.world.close()
        self.directory.cleanup()

    # --- the processes ----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.gateways) < 3)
    @rule()
    def start(self):
        self.gateways.append((self.world.gateway(keep=timedelta(days=30)), self.model.start(), [None]))

    @rule(which=small)
    def kill(self, which):
        if len(self.gateways) > 1:
            self.end(self.gateways[which % len(self.gateways)])

    def end(self, gateway):
        self.gateways.remove(gateway)
        self.connections = [one for one in self.connections if one[0] is not gateway]
        gateway[0]._queues.close()
        self.model.kill(gateway[1])

    def one(self, which):
        return self.gateways[which % len(self.gateways)]

    def connection(self, which):
        return self.connections[which % len(self.connections)]

    # --- the registry and the runner --------------------------------------------------------------------------------

    @initialize(which=small)
    def begin(self, which):
        """Two who are told something, and one of them connected; otherwise most of what is drawn is refused."""
        for name in NAMES:
            self.register(which, name, by="gateway", counts=COUNTS)
        self.connect(which, "ann", None, limits=(2,), upto=1)

    @rule(which=small, name=names, by=st.sampled_from(["gateway", "registry"]), counts=st.one_of(st.none(), counts))
    def register(self, which, name, by, counts):
        gateway, model, _ = self.one(which)
        if by == "gateway":
            gateway.register(name)
            self.model.register(model, name)
        else:
            self.world.registry.register(name)
            if self.model.registration(name) is None:
                self.model.say(name, True)
        if counts is not None:
            self.run(counts)

    @rule(
        which=small,
        name=names,
        how=st.sampled_from(["gateway", "registry", "before", "after"]),
        again=st.booleans(),
    )
    def unregister(self, which, name, how, again):
        """By a gateway, one that is killed before or after the registry has done it, or without any; and maybe come
        back at once.
        """
        is_registered = self.model.registration(name) is not None
        if how == "gateway":
            gateway, model, _ = self.one(which)
            self.same(self.model.unregister(model, name), lambda: gateway.unregister(name))
        elif is_registered and how == "registry":
            self.world.registry.unregister(name)
            self.model.say(name, False)
        elif is_registered:
            gateway, model = self.world.dying("unregister", how == "before"), self.model.start()
            with pytest.raises(Killed):
                gateway.unregister(name)
            self.model.unregister(model, name, killed=how)
            self.model.kill(model)
        if again:
            self.register(which, name, by="gateway", counts=None)
            self.connect(which, name, None, limits=(1,))

    @rule(counts=counts)
    def run(self, counts):
        self.world.run()
        self.model.run({})
        counts = {name: count for name, count in counts.items() if count and name in self.model.queues}
        if counts:
            self.world.run(**counts)
            self.model.run(counts)

    @rule(name=names)
    def replace_queue(self, name):
        self.run({})
        if name in self.model.queues:
            self.world.end_queue(name)
            del self.model.queues[name]
            self.model.make(name)

    # --- connections ------------------------------------------------------------------------------------------------

    @rule(
        which=small,
        name=names,
        after=st.one_of(st.none(), small, st.tuples(small, small)),
        limits=st.lists(st.integers(1, 4), max_size=3),
        upto=st.one_of(st.none(), small),
    )
    def connect(self, which, name, after, limits=(), upto=None):
        """Connect, and mostly do what connections are for."""
        pair = gateway, model, _ = self.one(which)
        position, given = None, None
        if isinstance(after, int):
            position, given = (after, None), after
        elif after is not None:
            generation = after[0]
            epoch = self.epochs.get(generation, "none")
            position, given = (after[1], generation if epoch != "none" else -1), f"{epoch}-{after[1]}"
        expected = self.model.connect(model, name, position)
        found = self.same(expected if expected is REFUSED else None, lambda: gateway.connect(name, after=given))
        if expected is not REFUSED:
            self.connections.append((pair, found, expected))
            for limit in limits:
                self.take(-1, limit)
                self.connections_stand_as_they_should()
            if upto is not None:
                self.acknowledge(-1, upto)

    @precondition(lambda self: self.connections)
    @rule(which=small, limit=st.integers(1, 4))
    def take(self, which, limit):
        (_, model, _), connection, one = self.connection(which)
        expected = self.model.take(model, one, limit)
        found = self.same(expected if expected is REFUSED else None, lambda: connection.take(limit))
        if expected is not REFUSED:
            assert [item.get("number", item.get("reason")) for item in found] == expected

    @precondition(lambda self: self.connections)
    @rule(which=small, number=small)
    def acknowledge(self, which, number):
        (_, model, _), connection, one = self.connection(which)
        self.same(self.model.acknowledge(model, one, number), lambda: connection.acknowledge(number))

    @rule(which=small, name=names, number=small)
    def acknowledge_without_a_connection(self, which, name, number):
        gateway, model, _ = self.one(which)
        self.same(self.model.acknowledge_of(model, name, number), lambda: gateway.acknowledge(name, number))

    @precondition(lambda self: self.connections)
    @rule(which=small)
    def lag(self, which):
        (_, model, _), connection, one = self.connection(which)
        self.same(self.model.lag(model, one), connection.lag)

    @precondition(lambda self: self.connections)
    @rule(which=small)
    def close(self, which):
        (_, model, _), connection, one = self.connection(which)
        connection.close()
        self.model.close(model, one, "leave")

    def same(self, expected, asked):
        """What is asked is refused where the model refuses it; else what it gives."""
        if expected is None:
            return asked()
        wanted = {REFUSED: SessionError, WRONG_NUMBER: SettingError}[expected]
        with pytest.raises(wanted):
            asked()
        return None

    # --- as time passes ---------------------------------------------------------------------------------------------

    @rule(which=small)
    def flush(self, which):
        gateway, model, _ = self.one(which)
        gateway.flush()
        self.model.flush(model)

    @rule(which=small, seconds=st.sampled_from([1, 1, 1, 5, 20, 70]))
    def tick(self, which, seconds):
        gateway, model, tidied = self.one(which)
        self.world.now += seconds * SECOND
        self.model.now += seconds
        is_tidy = tidied[0] is None or self.model.now - tidied[0] >= 60
        if is_tidy:
            tidied[0] = self.model.now
        found = gateway.tick()
        expected = self.model.tick(model, is_tidy)
        assert [one for _, connection, one in self.connections if connection in found] == [
            one for _, _, one in self.connections if one in expected
        ]
        assert len(found) == len(expected), (found, expected)
        self.presence(which)

    @rule(which=small)
    def presence(self, which):
        gateway, model, _ = self.one(which)
        gateway.flush()
        self.model.flush(model)
        found = {}
        for one in gateway.presence():
            waits = one.queues[0].waiting if one.queues else None
            began = [(connection.since - self.began) // SECOND for connection in one.connections]
            found[one.session.principal] = began, waits
        self.model.follow(model)
        self.model.flush(model) if any(one.state == "closed" for one in model.noted) else None
        self.model.look(model)
        assert found == self.model.presence()

    # --- always -----------------------------------------------------------------------------------------------------

    @invariant()
    def connections_stand_as_they_should(self):
        for (_, model, _), connection, one in self.connections:
            assert (connection.state, connection.reason) == (one.state, one.reason)
            hello, expected = connection.hello(), self.model.hello(model, one)
            if expected is None:
                assert hello is None
                continue
            epoch, acked, last, oldest = hello
            assert self.epochs.setdefault(expected[0], epoch) == epoch
            assert len(set(self.epochs.values())) == len(self.epochs)
            assert (acked, last, oldest) == (*expected[1:], 1)
            if one.position is not None and one.position[1] in (None, one.generation):
                assert connection.resume == f"{epoch}-{one.position[0]}"


TestGateways = Gateways.TestCase
TestGateways.settings = examples(15, stateful_step_count=40)
