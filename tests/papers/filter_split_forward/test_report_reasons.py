"""The reasons that are given where a claim of the paper differs."""

from __future__ import annotations

import pytest

from bench.papers.filter_split_forward.reasons import reasons
from bench.papers.filter_split_forward.rows import EXACT, Cells
from bench.papers.filter_split_forward.selectivity import selectivity, wanted
from bench.papers.filter_split_forward.verdicts import HOLDS, PARTLY, findings, weigh
from tests.papers.filter_split_forward.sweep_rows import changed, claim, ours, row, stretched, sweep, verdict


def test_why_a_smaller_reduction():
    rows = changed(sweep(), lambda e: ours(e) and e["setup"] == "medium", publication_load=lambda old: old * 1.6)
    found = weigh(claim("publications-medium-multi-join"), Cells(rows))
    why = reasons(found, Cells(rows))
    assert why[0] == "Against multi-join, ring the reduction is under the claimed range at 3 of 3 counts."
    assert "a user is told 500.0 % of the readings" in why[1]  # 1,000 each, of 5 sensors with 40
    assert "what it need not have forwarded is 20.0 % of its load" in why[2]
    assert why[3].startswith("On 33 % of the directed links")


def test_why_a_larger_reduction():
    rows = changed(sweep(), lambda e: ours(e) and e["setup"] == "medium", publication_load=lambda old: old / 2)
    found = weigh(claim("publications-medium-multi-join"), Cells(rows))
    assert reasons(found, Cells(rows))[0].endswith("over the claimed range at 3 of 3 counts.")


def test_what_filtering_takes_off_and_that_the_budget_ran_out():
    rows = changed(sweep(), ours, subscription_load=lambda old: old * 2, undecided=7)
    found = weigh(claim("subscriptions-medium"), Cells(rows))
    why = " ".join(reasons(found, Cells(rows)))
    assert "operator placement 37.5 % below, multi-join, ring 37.5 % below" in why
    assert "filter-split-forward, exact 7.5 % above" in why
    assert "ran out of its budget 105 times" in why


def test_every_claim_that_differs_gets_a_reason():
    rows = changed(sweep(), lambda e: True, publication_load=100, subscription_load=100, recall=0.5)
    rows = changed(rows, lambda e: True, correct=lambda old: old // 2)
    cells = Cells(rows)
    found = [each for each in findings(cells) if each.verdict != HOLDS]
    assert len(found) > 20
    assert all(reasons(each, cells) for each in found)


def test_stretched_ranges_are_kept_apart():
    plain, more = Cells(sweep()), Cells([*sweep(), *stretched()])
    assert [(each.claim.key, each.measured) for each in findings(plain) if "cells" not in each.measured] == [
        (each.claim.key, each.measured) for each in findings(more) if "cells" not in each.measured
    ]
    assert selectivity(plain) == {}
    assert weigh(claim("exact-complete"), more).tried == weigh(claim("exact-complete"), plain).tried + 10
    lost = changed(stretched(), ours, correct=lambda old: old - 1)
    assert verdict("exact-complete", [*sweep(), *lost]) == PARTLY


def test_the_reduction_by_selectivity():
    ((setup, (count, points)),) = selectivity(Cells([*sweep(), *stretched()])).items()
    assert (setup, count) == ("medium", 200)
    # A user wants 50, 1,000 (in the sweep itself) and 200 readings of 5 sensors with 40 each.
    assert [(point.scale, point.wanted) for point in points] == [(0.5, 25.0), (1.0, 500.0), (2.0, 100.0)]
    assert [round(point.reduction.mean) for point in points] == [80, 50, 20]
    assert [point.reduction.count for point in points] == [5, 5, 5]
    assert points[0].theirs == pytest.approx(5 * points[0].ours)


def test_a_small_subscription_names_four_sensors_on_average():
    assert wanted(row("small", EXACT, 100, 1)) == pytest.approx(100 * 1000 / (4 * 40))


def test_a_scale_that_only_one_of_the_two_has_is_no_point():
    rows = [each for each in stretched() if each["scale"] == 2 or ours(each)]
    ((_, points),) = selectivity(Cells([*sweep(), *rows])).values()
    assert [point.scale for point in points] == [1.0, 2.0]
