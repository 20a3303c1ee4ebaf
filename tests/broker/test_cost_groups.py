"""Group testing against loops that measure each by itself: what is dear has its own figure, and sums are kept."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tidegate.broker.cost_budget import CostBudget
from tidegate.broker.cost_groups import figures

THRESHOLD = 64.0
#: Whole numbers, whose sums are exact.
CHEAP, DEAR = st.integers(0, 2), st.integers(0, 500)


class Measuring:
    """What made-up subscriptions take together, and how often somebody has asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, some):
        self.asked.append(len(some))
        return float(sum(some))


@examples(200)
@given(st.lists(st.one_of(CHEAP, CHEAP, CHEAP, DEAR), max_size=300), st.integers(1, 64))
def test_what_is_dear_has_its_own_figure_and_sums_are_kept(costs, group):
    measure = Measuring()
    found = figures(costs, measure, THRESHOLD, group)
    assert len(found) == len(costs)
    for cost, figure in zip(costs, found, strict=True):
        if cost > THRESHOLD:
            assert figure == cost
        else:
            assert figure <= THRESHOLD
    assert sum(found) == pytest.approx(sum(costs))
    for at in range(0, len(costs), group):
        assert sum(found[at : at + group]) == pytest.approx(sum(costs[at : at + group]))


@examples(200)
@given(st.lists(st.one_of(CHEAP, CHEAP, CHEAP, DEAR), max_size=300), st.integers(1, 64))
def test_the_number_of_measurements_is_bounded(costs, group):
    measure = Measuring()
    figures(costs, measure, THRESHOLD, group)
    halvings = 2 * (ceil(log2(group)) + 20) * sum(costs) / THRESHOLD
    assert len(measure.asked) <= ceil(len(costs) / group) + halvings


def test_one_that_is_dear_among_a_thousand_takes_twenty_measurements():
    costs = [0.001] * 1000
    costs[617] = 1000.0
    measure = Measuring()
    found = figures(costs, measure, THRESHOLD)
    assert found[617] == 1000.0
    assert len(measure.asked) <= 21
    assert max(found[:617] + found[618:]) == pytest.approx(0.001)


def test_cheap_ones_take_a_measurement_a_group():
    measure = Measuring()
    figures([0.05] * 5500, measure, THRESHOLD)
    assert sorted(measure.asked) == [500, 1000, 1000, 1000, 1000, 1000]


def test_without_time_left_a_group_is_shared_out():
    measure = Measuring()
    assert figures([100.0, 0.0, 0.0, 0.0], measure, THRESHOLD, may_go_on=lambda: False) == [25.0] * 4
    assert measure.asked == [4]


def test_nothing_takes_nothing():
    assert figures([], Measuring(), THRESHOLD) == []


# --- the share of a processor -----------------------------------------------------------------------------------------


@examples(100)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100)), max_size=50), st.sampled_from([0.02, 0.1, 1.0]))
def test_no_more_than_the_share_is_used(work, share):
    """Whatever is done and however long nothing is, at any time no more was used than the share, what may be saved, and
    the last piece of work.
    """
    time, used = 0.0, 0.0
    budget = CostBudget(share, lambda: time, lambda: used)
    for seconds, idle in work:
        wait = budget.wait()
        time += wait
        assert budget.wait() <= 1e-6 / share
        assert used <= share * time + 3.0 + 1e-6
        used += seconds
        time += seconds + idle
        assert used <= share * time + 3.0 + seconds + 1e-6


def test_what_is_owed_is_waited_for():
    time, used = 0.0, 0.0
    budget = CostBudget(0.1, lambda: time, lambda: used)
    assert budget.wait() == 0
    used = 5.0
    assert budget.wait() == pytest.approx(20)
    time = 15.0
    assert budget.wait() == pytest.approx(5)


def test_little_is_saved_up():
    time, used = 0.0, 0.0
    budget = CostBudget(0.1, lambda: time, lambda: used)
    time = 1e6
    assert budget.wait() == 0
    used = 5.0
    assert budget.wait() == pytest.approx(20)
