"""Confidence intervals, and what the report makes of the rows of a sweep."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from bench.papers.filter_split_forward.confidence import Estimate, estimate, student
from bench.papers.filter_split_forward.rows import EXACT, NAIVE, RING, Cells
from tests.papers.filter_split_forward.sweep_rows import row, sweep
from tidegate.errors import SettingError

# --- intervals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.706205), (2, 4.302653), (3, 3.182446), (4, 2.776445), (9, 2.262157), (30, 2.042272)]
)
def test_students_t_is_that_of_the_tables(degrees, t):
    assert student(degrees) == pytest.approx(t, abs=1e-6)


def test_many_degrees_come_near_the_normal_distribution():
    assert student(2000) == pytest.approx(1.9612, abs=1e-3)


def test_an_interval_by_hand():
    # 2, 4, 4, 6, 9: mean 5, squares 9 + 1 + 1 + 1 + 16 = 28, variance 7, standard error √(7/5), times 2.776445.
    found = estimate([2, 4, 4, 6, 9])
    assert found.mean == 5
    assert found.half == pytest.approx(2.776445 * math.sqrt(7 / 5), abs=1e-5)
    assert (found.low, found.high) == (pytest.approx(5 - 3.285142, abs=1e-5), pytest.approx(5 + 3.285142, abs=1e-5))


def test_one_value_has_no_interval():
    assert estimate([3.0]) == Estimate(3.0, None, 1)
    assert estimate([3.0]).low == estimate([3.0]).high == 3.0


def test_equal_values_have_an_interval_of_nothing():
    assert estimate([2, 2, 2]).half == 0


# --- rows -----------------------------------------------------------------------------------------------------------


def test_a_cell_that_is_there_twice_is_refused():
    rows = sweep(setups=("small",))
    with pytest.raises(SettingError, match="expected one row of results for each cell; got two; at small, naive, 100"):
        Cells([*rows, row("small", NAIVE, 100, 1)])


def test_rows_of_strategies_without_a_figure_are_left_aside():
    extra = [row("small", NAIVE, 100, 1, strategy="covering"), row("small", EXACT, 100, 1, subsumption="pairwise")]
    assert len(Cells([*extra, row("small", NAIVE, 100, 1)]).rows) == 1


def test_a_table_keeps_links_and_work_only_at_the_most_subscriptions():
    cells = Cells(pa.Table.from_pylist(sweep()))
    for each in cells.rows:
        assert ("links" in each) == ("work" in each) == (each["subscriptions"] == 300)
    assert cells.of("medium", RING)[-1]["links"] == row("medium", RING, 300, 5)["links"]


def test_reductions_are_paired_by_seed_and_count():
    rows = [
        row("small", EXACT, 100, 1, publication_load=50),
        row("small", EXACT, 100, 2, publication_load=300),
        row("small", EXACT, 200, 1, publication_load=10),
        row("small", RING, 100, 1, publication_load=100),
        row("small", RING, 100, 2, publication_load=400),
        row("small", RING, 100, 3, publication_load=1),
        row("small", RING, 200, 1, publication_load=0),  # nothing to be below
    ]
    assert Cells(rows).reductions("small", EXACT, RING, "publication_load") == {100: {1: 50.0, 2: 25.0}}
