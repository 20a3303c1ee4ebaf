"""One cell of the experiments: what it counts, and that nothing is lost in any set-up."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from bench.papers.filter_split_forward.simulate import CONTENDERS, SCHEMA, Cell, measure, plan
from bench.papers.filter_split_forward.topology import SETUPS
from bench.sensorscope import FOLDER as DATA
from tidegate.errors import SettingError

SMALL = Cell("small", "filter-split-forward", "exact", 30, 1, 10)


@pytest.mark.thorough
@pytest.mark.parametrize("setup", SETUPS)
def test_nothing_is_lost_and_nothing_wrong_is_told_in_any_set_up(setup):
    rows = {
        contender: measure(Cell(setup, *contender, 40, 1, 5), None)
        for contender in CONTENDERS
        if contender[1] != "probabilistic"
    }
    for contender, row in rows.items():
        assert row["recall"] == row["precision"] == 1.0, contender
        assert row["expected"] == row["delivered"] == row["correct"] > 0
        assert row["undecided"] == 0
    ours = rows["filter-split-forward", "exact"]
    for rival in (("naive", "none"), ("operator-placement", "pairwise"), ("multi-join", "pairwise")):
        assert ours["publication_load"] < rows[rival]["publication_load"]
        assert ours["subscription_load"] <= rows[rival]["subscription_load"]
    assert len({row["events"] for row in rows.values()}) == 1


@pytest.mark.thorough
@pytest.mark.skipif(not DATA.is_dir(), reason="SensorScope's files are not here")
def test_readings_of_the_deployment_too():
    row = measure(replace(SMALL, subscriptions=100), DATA)
    assert row["data"] == "sensorscope"
    assert row["recall"] == row["precision"] == 1.0


@pytest.mark.thorough
def test_random_points_may_lose_something_and_never_tell_what_is_wrong():
    row = measure(replace(SMALL, subsumption="probabilistic"), None)
    assert row["precision"] == 1.0
    assert 0.9 < row["recall"] <= 1.0
    assert row["subscription_load"] <= measure(SMALL, None)["subscription_load"]


@pytest.mark.thorough
def test_the_same_cell_gives_the_same_figures():
    one, two = measure(SMALL, None), measure(SMALL, None)
    assert {**one, "seconds": 0} == {**two, "seconds": 0}
    assert measure(replace(SMALL, seed=2), None)["publication_load"] != one["publication_load"]


@pytest.mark.thorough
def test_a_row_is_what_the_schema_says_and_adds_up():
    row = measure(SMALL, None)
    assert pa.Table.from_pylist([row], SCHEMA).to_pylist() == [row]
    assert list(row) == SCHEMA.names
    for total, part in (("publication_load", "readings"), ("subscription_load", "subscriptions"), ("bytes", "bytes")):
        assert row[total] == sum(link[part] for link in row["links"])
    assert len(row["work"]) == row["nodes"] == 60
    assert row["sensors"] == 50
    # Every announcement crosses every link once.
    assert row["announcement_load"] == 50 * 59
    assert sum(node["handled"] for node in row["work"]) == row["messages"] + 50 + row["subscriptions"] + row["events"]


@pytest.mark.thorough
def test_wider_ranges_match_more():
    narrow, wide = (measure(replace(SMALL, scale=scale), None) for scale in (0.5, 4.0))
    assert narrow["expected"] < wide["expected"]


def test_the_plan_has_every_point_of_the_figures():
    cells = plan()
    assert len({cell.key for cell in cells}) == len(cells)
    usual = [cell for cell in cells if cell.scale == 1]
    points = {(cell.setup, cell.strategy, cell.subsumption, cell.subscriptions, cell.seed) for cell in usual}
    for name, setup in SETUPS.items():
        for strategy, subsumption in CONTENDERS:
            if strategy == "centralized" and name != "medium":
                continue
            for count in setup.counts:
                assert {(name, strategy, subsumption, count, seed) for seed in range(1, 6)} <= points
    sizes = [cell.subscriptions * SETUPS[cell.setup].nodes for cell in cells]
    assert sizes == sorted(sizes, reverse=True)


def test_a_quick_plan_is_a_small_one():
    quick = plan(seeds=2, quick=True)
    assert 20 < len(quick) < 60
    assert {cell.subscriptions for cell in quick} == {100, 300}
    assert plan(["small"], 1, rounds=7)[0].rounds == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan(["tiny"]), "expected one of small, medium, large-network, large-sources; got 'tiny'"),
        (lambda: plan(seeds=0), "expected at least 1 seed; got 0"),
        (lambda: measure(replace(SMALL, subsumption="none"), None), "got filter-split-forward with none"),
        (lambda: measure(replace(SMALL, strategy="covering"), None), "got covering with exact"),
        (lambda: measure(SMALL, Path("absent")), "got no such folder"),
    ],
)
def test_what_cannot_be_measured_is_refused(make, message):
    with pytest.raises(SettingError, match=message):
        make()
