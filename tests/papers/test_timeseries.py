"""The experiments on time series: a quick run of all of them, their page, and that they measure what they say."""

from __future__ import annotations

import re
from math import nextafter, sqrt

import numpy as np
import pytest

import bench.papers.timeseries as timeseries
from bench.harness import RESULTS
from bench.papers.measuring import stored
from bench.papers.timeseries import archive, faiss_flat, page, real
from bench.papers.timeseries.brute import dismissed, in_feature_space, matching, same
from bench.papers.timeseries.faiss_flat import Faiss, FaissOfOneRadius, Product, Setting
from bench.papers.timeseries.figures import draw
from bench.papers.timeseries.findings import crossing, growth_of
from bench.papers.timeseries.plan import QUICK
from bench.papers.timeseries.walks import STEP, features, scale, walks
from tests.papers.quick_run import facts_of, quick_rows
from tidegate.shapes.sphere_group import SphereGroup

NAMES = {"cascade", "scan", "interval", "rstar"}
pytestmark = pytest.mark.xdist_group("timeseries")  # one quick run for all


@pytest.fixture(scope="module")
def rows():
    return {row["what"]: row for row in quick_rows(timeseries)}


@pytest.fixture(scope="module")
def facts(rows):
    return facts_of(timeseries, "timeseries", list(rows.values()))


# --- the run --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_every_row_and_every_point_is_exact(rows):
    assert all(row["exact"] is True for row in rows.values())
    assert all(point["exact"] is True for row in rows.values() for point in row.get("points", ()))


@pytest.mark.thorough
def test_every_experiment_of_the_paper_is_there(rows):
    assert [len(rows[what]["points"]) for what in ("figures 5 and 6", "figure 7", "figure 8")] == [
        len(QUICK.shares),
        len(QUICK.counts),
        len(QUICK.counts),
    ]
    assert {"walks, about 1 % candidates", "walks, about 8 % candidates", "coefficients", "doubling"} <= set(rows)


@pytest.mark.thorough
def test_sizes_come_out_as_calibrated(rows):
    found = [point["share"] for point in rows["figures 5 and 6"]["points"]]
    assert found == pytest.approx(QUICK.shares, rel=0.05, abs=1e-3)
    assert rows["walks, about 8 % candidates"]["candidates"] == pytest.approx(8, abs=3)


@pytest.mark.thorough
def test_all_structures_are_measured(rows):
    for what in ("figures 5 and 6", "figure 7", "coefficients"):
        for point in rows[what]["points"]:
            assert set(point["microseconds"]) - {"features", "rstar_inserted"} == NAMES
            assert set(point["tested"]) - {"rstar_inserted"} == NAMES
            assert point["tested"]["scan"] == point["subscriptions"]
            assert min(point["listed"][name] for name in NAMES - {"cascade"}) >= point["share"]
    for what in ("walks, about 1 % candidates", "walks, about 8 % candidates"):
        assert {f"{name}_us" for name in NAMES | {"faiss", "faiss_l2", "rstar_library"}} <= set(rows[what])
        assert rows[what]["scan_ratio"] == pytest.approx(rows[what]["scan_us"] / rows[what]["cascade_us"])


@pytest.mark.thorough
def test_more_coefficients_leave_fewer_candidates(rows):
    shares = [point["share"] for point in rows["coefficients"]["points"]]
    assert shares == sorted(shares, reverse=True)


# --- the workload ---------------------------------------------------------------------------------------------------


def test_walks_are_the_same_however_many_are_drawn():
    few, many = walks(7, 30, 3, 50), walks(7, 5_000, 8, 50)
    assert np.array_equal(few.subscriptions, many.subscriptions[:30])
    assert np.array_equal(few.tolerances, many.tolerances[:30])
    assert np.array_equal(few.publications, many.publications[:3])
    assert not np.array_equal(few.subscriptions, walks(8, 30, 3, 50).subscriptions)
    assert not np.array_equal(few.subscriptions[:3], few.publications)


def test_walks_are_normal_forms_of_even_steps():
    drawn = walks(7, 200, 1, 400).subscriptions
    assert drawn.mean(axis=1) == pytest.approx(0, abs=1e-12)
    assert drawn.std(axis=1) == pytest.approx(1)
    # Scaled back by their widest step, the steps of a walk are uniform.
    steps = np.diff(drawn, axis=1)
    steps *= STEP / np.abs(steps).max(axis=1, keepdims=True)
    assert np.abs(steps).mean() == pytest.approx(STEP / 2, rel=0.02)


def test_radii_are_uniform_up_to_c():
    series = walks(7, 5_000, 1, 10)
    radii = series.radii(0.03)
    assert 0 < radii.min() < radii.max() < 0.03 * np.sqrt(1000 * 10)
    assert radii.mean() == pytest.approx(0.015 * np.sqrt(1000 * 10), rel=0.05)


def test_c_is_the_quantile():
    series = walks(7, 400, 20, 64)
    centres, points = features(series.subscriptions, 3), features(series.publications, 3)
    c = scale(series, centres, points, 0.1)
    start, _ = in_feature_space(centres, series.radii(c), points)
    assert start[-1] == pytest.approx(0.1 * 400 * 20, abs=2)


# --- what rivals are held against -----------------------------------------------------------------------------------


def euclidean(a, b):
    """As the language says: in doubles, from the first number to the last."""
    total = 0.0
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        total += (x - y) * (x - y)
    return sqrt(total)


@pytest.fixture(scope="module")
def on_the_edge():
    """A third of the tolerances are exactly the distance to the first publication, a third the next double below."""
    series = walks(3, 300, 6, 200)
    radii = series.radii(0.05)
    apart = [euclidean(row, series.publications[0]) for row in series.subscriptions]
    radii[0::3] = apart[0::3]
    radii[1::3] = [nextafter(each, 0) for each in apart[1::3]]
    naive = [
        [s for s, row in enumerate(series.subscriptions) if euclidean(row, publication) <= radii[s]]
        for publication in series.publications
    ]
    assert set(range(0, 300, 3)) <= set(naive[0])
    assert not set(range(1, 300, 3)) & set(naive[0])
    start = np.cumsum([0, *map(len, naive)])
    return series, radii, (start, np.concatenate(naive).astype(np.int32))


def test_brute_force_is_right_on_the_edge(on_the_edge):
    series, radii, (start, rows) = on_the_edge
    for p, publication in enumerate(series.publications):
        assert np.array_equal(matching(series.subscriptions, radii, publication), rows[start[p] : start[p + 1]])


@pytest.mark.parametrize("name", sorted(NAMES))
def test_structures_are_right_on_the_edge(on_the_edge, name):
    series, radii, naive = on_the_edge
    assert same(SphereGroup(series.subscriptions, radii, structure=name).match(series.publications), naive)


@pytest.mark.parametrize("kind", [Faiss, FaissOfOneRadius])
@pytest.mark.parametrize("setting", [Setting(1, 128_000), Setting(4, 128_000), Setting(4, 1), Setting(32, 1)])
def test_faiss_is_right_on_the_edge(on_the_edge, kind, setting):
    series, radii, naive = on_the_edge
    assert same(kind(series.subscriptions, radii).match(series.publications, setting), naive)


def test_the_matrix_product_is_right_on_the_edge(on_the_edge, monkeypatch):
    series, radii, naive = on_the_edge
    monkeypatch.setattr(faiss_flat, "_CHUNK", 70)
    assert same(Product(Faiss(series.subscriptions, radii)).match(series.publications), naive)


def test_same_and_dismissed_tell():
    def found(*lists):
        return np.cumsum([0, *map(len, lists)]), np.concatenate([np.array(each, np.int32) for each in lists])

    assert same(found([1, 2], [3]), found([2, 1], [3]))
    assert not same(found([1, 2], [3]), found([1], [2, 3]))
    assert dismissed(found([1, 2], [3]), found([0, 1, 2], [3, 4])) == 0
    assert dismissed(found([1, 2], [3]), found([1, 3], [2])) == 2


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(facts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    page.write(facts, folder / "README.md")
    return folder


@pytest.mark.thorough
def test_the_page_and_its_figures_are_written(written):
    text = (written / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\((\w+\.png)\)", text))
    assert {f"figure{n}.png" for n in (5, 6, 7, 8)} <= linked
    assert all((written / name).stat().st_size > 1_000 for name in linked)
    assert "nan" not in text
    assert f"Seed {timeseries.SEED}" in text
    assert text.count("**Agrees.**") + text.count("**Differs.**") == 6


@pytest.mark.thorough
def test_the_page_depends_on_nothing_but_the_results(facts, rows, written, tmp_path):
    assert (written / "README.md").read_text("utf-8") == page.page(facts)
    assert draw({"figure 7": rows["figure 7"]}, tmp_path) == ["figure7"]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (written / path.name).read_bytes()


@pytest.mark.thorough
def test_the_page_says_what_the_results_say(facts):
    slower = [dict(row) for row in facts["rows"]]
    one = next(row for row in slower if row["what"] == "walks, about 1 % candidates")
    one.update(rstar_ratio=31.25, faiss_ratio=4.5)
    text = page.page({**facts, "rows": slower})
    assert re.search(r"by our compiled code \| ≥ 30 \| 31.2 \| yes \|", text)
    assert re.search(r"as FAISS \| ≥ 5 \| 4.5 \| no \|", text)


@pytest.mark.thorough
def test_without_real_data_the_page_says_so(facts):
    ours = [row for row in facts["rows"] if not row["what"].startswith(("stocks", "ECG", "GunPoint", "Italy"))]
    assert page.page({**facts, "rows": ours}).endswith("Not there when this was run.\n")


def test_crossings_are_found():
    def points(*pairs):
        return [{"share": share, "n": {"a": a, "b": 10.0}} for share, a in pairs]

    assert crossing(points((0.01, 1.0), (0.1, 5.0)), "n", "a", "b") is None
    assert crossing(points((0.01, 11.0), (0.1, 50.0)), "n", "a", "b") == 0
    assert crossing(points((0.01, 1.0), (0.04, 100.0)), "n", "a", "b") == pytest.approx(0.02)
    assert crossing(points((0.01, 99.0), (0.02, 1.0), (0.08, 100.0)), "n", "a", 10.0) == pytest.approx(0.04)
    timed = [{"subscriptions": n, "microseconds": {"a": n**0.5}} for n in (100, 1_000, 10_000)]
    assert growth_of(timed, "a") == pytest.approx(0.5)


@pytest.mark.skipif(not (RESULTS / "timeseries.json").exists(), reason="there was no full run yet")
def test_the_kept_page_comes_from_the_raw_results():
    kept = page.PAGE.read_text("utf-8")
    assert kept == page.page(stored("timeseries")), "run python -m bench.papers.timeseries.page"
    assert all((page.PAGE.parent / name).exists() for name in re.findall(r"\]\((\w+\.png)\)", kept))


# --- real data ------------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_left_out(monkeypatch, tmp_path, capsys):
    for name in ("STOCKS", "UCR", "ECG"):
        monkeypatch.setattr(real, name, tmp_path / "nothing")
    found = [*real.stocks(QUICK, 1), *real.classified("GunPoint"), *real.beats(), *real.found_beats()]
    assert not found
    assert capsys.readouterr().out.count("is not there") == 4


needs_data = pytest.mark.skipif(not archive.DATA.exists(), reason=f"needs {archive.DATA}, which is not in the project")


@needs_data
@pytest.mark.thorough
def test_nearest_neighbours_are_as_good_as_published(rows):
    """1-NN with Euclidean distance in the UCR archive: an error of 0.0867 and of 0.0447."""
    assert rows["GunPoint, classes"]["accuracy"] == pytest.approx(1 - 0.0867, abs=1e-4)
    assert rows["ItalyPowerDemand, classes"]["accuracy"] == pytest.approx(1 - 0.0447, abs=1e-4)


@needs_data
@pytest.mark.thorough
def test_wider_tolerances_match_more(rows):
    for what in ("GunPoint, classes", "ItalyPowerDemand, classes", "ECG, where beats are"):
        recalls = [point["recall"] for point in rows[what]["points"]]
        assert recalls == sorted(recalls)
        assert all(point["precision"] is None or 0 <= point["precision"] <= 1 for point in rows[what]["points"])


@needs_data
def test_the_record_has_its_beats():
    record = archive.ecg()
    assert len(record.peaks) == 26
    assert np.diff(record.peaks).min() > 150
    assert record.marked.sum() == 352


@needs_data
@pytest.mark.thorough
def test_windows_do_not_reach_over_the_split():
    past, future = archive.windows(64, "2015-01-01")
    assert past.shape[1] == future.shape[1] == 64
    # 93,612 closes of 31 stocks; of each stock's two stretches the last 63 begin no window.
    assert len(past) + len(future) == 93_612 - 31 * 2 * 63
