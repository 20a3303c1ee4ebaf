"""The truth that an experiment's deliveries are held against."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.filter_split_forward.topology import Sensor, Topology
from bench.papers.filter_split_forward.workload import WINDOW, Workload, truth, workload
from tests.papers.filter_split_forward.sensorscope_files import folders
from tests.papers.filter_split_forward.setups import TINY, every_setup, module
from tests.parts.profiles import examples
from tidegate.errors import SubscriptionError
from tidegate.overlay.messages import Reading
from tidegate.overlay.operators import Operator, OperatorPart

SENSORS = tuple(
    Sensor(name, kind, 0, "n", (7.0, 45.0)) for name, kind in [("a", "t"), ("b", "t"), ("c", "h"), ("d", "w")]
)
KINDS = {sensor.source: sensor.attribute for sensor in SENSORS}

#: Reporting intervals: fewer than a sweep has.
ROUNDS = 20


def made(readings, *operators):
    """A workload on one node; a reading is its source, time and value."""
    said = [Reading(f"r{i}", source, float(value), time) for i, (source, time, value) in enumerate(readings)]
    return Workload(Topology(("n",), (), SENSORS), said, [("n", operator) for operator in operators], "generated")


def obvious(work):
    """All combinations of one reading per part."""
    found = {}
    for _, operator in work.subscriptions:
        told = set()
        choices = [
            [r for r in work.readings if r.source == part.source and part.low <= r.value <= part.high]
            for part in operator.parts
        ]
        for match in product(*choices):
            times = [reading.time for reading in match]
            if max(times) - min(times) < operator.window:
                told.update(reading.id for reading in match)
        found[operator.id] = told
    return found


readings = st.lists(st.tuples(st.sampled_from("aabbcd"), st.integers(0, 9), st.integers(0, 3)), max_size=12)
ranges = st.tuples(st.sampled_from([0, 0, 1, 2]), st.sampled_from([2, 3, 3, 3]))
part_lists = st.dictionaries(st.sampled_from("abcd"), ranges, min_size=1).map(
    lambda by: tuple(OperatorPart(KINDS[source], *range, source) for source, range in by.items())
)
operators = st.builds(lambda parts, window: Operator("q", parts, window), part_lists, st.integers(1, 6))


@examples(200)
@given(readings, operators)
def test_truth_is_what_all_combinations_say(said, operator):
    work = made(said, operator)
    assert truth(work) == obvious(work)


def test_truth_of_a_whole_workload_is_what_all_combinations_say():
    work = workload(TINY, 1, None, 6, 30)
    found = truth(work)
    assert found == obvious(work)
    assert any(found.values())


FIRST = [("a", 0, 0), ("b", 1, 1), ("c", 2, 2), ("d", 3, 3)]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.integers(0, 9)), max_size=10))
def test_the_likeliest_match_is_the_likeliest_of_all_combinations(said):
    """Each sensor has a reading at least, and a window is three times as long as the pauses between."""
    said = [(source, time * WINDOW // 3, value) for source, time, value in [*FIRST, *said]]
    work = made(said)
    odds = []
    for match in product(*([r for r in work.readings if r.source == source] for source in "abcd")):
        times = [reading.time for reading in match]
        if max(times) - min(times) < WINDOW:
            far = [abs(r.value - work.middles[r.source][0]) / work.middles[r.source][1] for r in match]
            odds.append(np.prod([1 / max(1, one) for one in far]))
    assert module._odds(work, SENSORS) == pytest.approx(max(odds, default=0))


def test_a_match_is_shorter_than_the_window():
    parts = (OperatorPart("t", 0, 9, "a"), OperatorPart("h", 0, 9, "c"))
    said = [("a", 0, 1), ("c", 5, 1)]
    assert truth(made(said, Operator("q", parts, 5))) == {"q": frozenset()}
    assert truth(made(said, Operator("q", parts, 6))) == {"q": {"r0", "r1"}}
    # The third is as far from the others as the window is long.
    assert truth(made([("a", 0, 1), ("c", 0, 1), ("a", 5, 1)], Operator("q", parts, 5))) == {"q": {"r0", "r1"}}
    assert truth(made([("a", 0, 1), ("c", 5, 1), ("a", 5, 1)], Operator("q", parts, 5))) == {"q": {"r1", "r2"}}


def test_nothing_can_be_asked_and_nothing_said():
    operator = Operator("q", (OperatorPart("t", 0, 9, "a"),), 5)
    assert truth(made([])) == {}
    assert truth(made([], operator)) == {"q": frozenset()}
    assert truth(made([("a", 3, 9), ("a", 4, 10)], operator)) == {"q": {"r0"}}


@pytest.mark.parametrize(
    "operator",
    [
        Operator("q", (OperatorPart("t", 0, 9),), 5),
        Operator("q", (OperatorPart("t", 0, 9, "z"),), 5),
        Operator("q", (OperatorPart("h", 0, 9, "a"),), 5),
        Operator("q", (OperatorPart("t", 0, 9, "a", (0.0, 0.0, 1.0, 1.0)),), 5),
        Operator("q", (OperatorPart("t", 0, 9, "a"),), 5, near=10.0),
        Operator("q", (OperatorPart("t", 0, 9, "a"), OperatorPart("h", 0, 9, "c")), 5, main=0),
    ],
    ids=["abstract", "unknown", "attribute", "region", "near", "main"],
)
def test_truth_is_only_known_of_identified_subscriptions(operator):
    with pytest.raises(SubscriptionError, match="; at q"):
        truth(made([("a", 1, 1)], operator))


@folders
@every_setup
def test_every_subscription_has_something_to_be_told(setup, folder):
    """The paper makes sure of "a minimum number of matching events"; here it is one match."""
    work = workload(setup, 1, folder, ROUNDS, 200)
    told = truth(work)
    assert list(told) == [operator.id for _, operator in work.subscriptions]
    assert min(len(readings) for readings in told.values()) > 0
