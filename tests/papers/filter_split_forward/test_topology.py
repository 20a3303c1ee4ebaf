"""The networks of the four experiments: trees in which the nodes of a station hang together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.filter_split_forward.replay import ATTRIBUTES
from bench.papers.filter_split_forward.topology import SETUPS, Setup, Topology, topology
from tidegate.errors import SettingError
from tidegate.kernels.score import metres


def network(setup, seed=1):
    return topology(setup, np.random.default_rng(seed))


def reached(nodes, edges):
    """How many of the nodes can be reached from one of them over edges between them."""
    nodes = set(nodes)
    seen = {min(nodes)}
    while True:
        more = {b for edge in edges for a, b in (edge, edge[::-1]) if a in seen and b in nodes}
        if more <= seen:
            return len(seen)
        seen |= more


def distances(found, start):
    """Breadth first, over the edges as they stand."""
    far = {start: 0}
    for _ in found.nodes:
        for a, b in found.edges:
            for here, other in ((a, b), (b, a)):
                if here in far and other not in far:
                    far[other] = far[here] + 1
    return far


setups = st.builds(
    lambda groups, relays: Setup("drawn", 5 * groups + relays, groups, 3, 5, (10,), (0, 0)),
    st.integers(1, 5),
    st.integers(1, 30),
)
seeds = st.integers(0, 2**32)


def test_the_four_setups_are_the_papers():
    assert {name: (s.nodes, s.groups, s.least, s.most, s.counts[-1], s.figures) for name, s in SETUPS.items()} == {
        "small": (60, 10, 3, 5, 1000, (4, 5)),
        "medium": (100, 10, 5, 5, 900, (6, 7)),
        "large-network": (200, 10, 5, 5, 900, (8, 9)),
        "large-sources": (200, 20, 5, 5, 900, (10, 11)),
    }
    for name, setup in SETUPS.items():
        assert setup.name == name
        assert setup.counts[0] == 100
        assert {b - a for a, b in pairwise(setup.counts)} == {100}


@pytest.mark.parametrize("setup", SETUPS.values(), ids=str)
def test_a_network_is_a_tree(setup):
    found = network(setup)
    assert len(set(found.nodes)) == len(found.nodes) == setup.nodes
    assert list(found.nodes) == sorted(found.nodes)
    assert len(found.edges) == setup.nodes - 1
    assert reached(found.nodes, found.edges) == setup.nodes


@pytest.mark.thorough
@given(setups, seeds)
def test_stations_hang_together_and_relays_too(setup, seed):
    found = network(setup, seed)
    assert len(found.edges) == len({frozenset(edge) for edge in found.edges}) == setup.nodes - 1
    assert reached(found.nodes, found.edges) == setup.nodes
    stations = {
        station: {sensor.node for sensor in found.sensors if sensor.station == station}
        for station in range(setup.groups)
    }
    for nodes in stations.values():
        assert reached(nodes, found.edges) == len(nodes) == len(ATTRIBUTES)
        # One edge leads out of a station, and to a relay.
        (out,) = [edge for edge in found.edges if len(nodes & set(edge)) == 1]
        assert not any(set(out) & other for other in stations.values() if other is not nodes)
    relays = set(found.nodes).difference(*stations.values())
    assert reached(relays, found.edges) == len(relays)


@given(setups, seeds)
def test_a_node_has_one_sensor_and_a_station_one_of_each_attribute(setup, seed):
    found = network(setup, seed)
    assert len({sensor.node for sensor in found.sensors}) == len({sensor.source for sensor in found.sensors})
    expected = [(station, attribute) for station in range(setup.groups) for attribute in ATTRIBUTES]
    assert [(sensor.station, sensor.attribute) for sensor in found.sensors] == expected
    assert len({sensor.source for sensor in found.sensors}) == len(expected)


def test_any_attribute_may_stand_at_the_way_out():
    found = network(SETUPS["large-sources"])
    at_the_way_out = set()
    for station in range(20):
        sensors = {sensor.node: sensor.attribute for sensor in found.sensors if sensor.station == station}
        (out,) = [edge for edge in found.edges if (edge[0] in sensors) != (edge[1] in sensors)]
        at_the_way_out |= {sensors[node] for node in out if node in sensors}
    assert at_the_way_out == set(ATTRIBUTES)


@pytest.mark.thorough
def test_sensors_of_a_station_are_near_and_stations_are_not():
    sensors = network(SETUPS["large-sources"]).sensors
    for a in sensors:
        for b in sensors:
            far = metres(*a.location, *b.location)
            assert (far < 290) if a.station == b.station else (far > 190)
    assert len({sensor.location for sensor in sensors}) == len(sensors)


@given(setups, seeds)
def test_the_same_seed_gives_the_same_network(setup, seed):
    assert network(setup, seed) == network(setup, seed)


def test_another_seed_gives_another_network():
    assert network(SETUPS["small"], 1).edges != network(SETUPS["small"], 2).edges


@given(setups, seeds)
def test_neighbours_are_the_edges_both_ways(setup, seed):
    found = network(setup, seed)
    both = {edge for a, b in found.edges for edge in ((a, b), (b, a))}
    assert {(node, other) for node, others in found.neighbours.items() for other in others} == both
    assert list(found.neighbours) == list(found.nodes)
    assert all(list(others) == sorted(others) for others in found.neighbours.values())


@given(setups, seeds, st.data())
def test_every_hop_comes_one_nearer(setup, seed, data):
    found = network(setup, seed)
    node = data.draw(st.sampled_from(found.nodes))
    far = distances(found, node)
    hops = found.towards(node)
    assert set(hops) == set(found.nodes) - {node}
    for here, other in hops.items():
        assert other in found.neighbours[here]
        assert far[other] == far[here] - 1
    assert [far[here] for here in hops] == sorted(far[here] for here in hops)


@given(setups, seeds)
def test_the_centre_has_the_least_sum_of_distances(setup, seed):
    found = network(setup, seed)
    sums = {node: sum(distances(found, node).values()) for node in found.nodes}
    assert found.centre == min(node for node in found.nodes if sums[node] == min(sums.values()))


def test_of_two_centres_the_smaller_name_counts():
    assert Topology(("b", "a"), (("b", "a"),), ()).centre == "a"
    assert Topology(("only",), (), ()).centre == "only"


@pytest.mark.parametrize(("nodes", "groups"), [(10, 2), (3, 1), (5, 0)])
def test_a_network_without_room_for_its_stations_is_refused(nodes, groups):
    with pytest.raises(
        SettingError, match=rf"expected .*more nodes.*; got {groups} stations and {nodes} nodes; at odd"
    ):
        network(Setup("odd", nodes, groups, 3, 5, (10,), (0, 0)))
