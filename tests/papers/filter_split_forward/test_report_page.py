"""The page on the overlay's sweep: figures, tables, and what is said of gaps."""

from __future__ import annotations

import math
import re

import pyarrow as pa
import pytest
from matplotlib.text import Text

from bench.papers.filter_split_forward import RESULTS, figures
from bench.papers.filter_split_forward.claims import CLAIMS
from bench.papers.filter_split_forward.figures import draw
from bench.papers.filter_split_forward.page import page, write
from bench.papers.filter_split_forward.reasons import reasons
from bench.papers.filter_split_forward.results_folder import ResultsFolder
from bench.papers.filter_split_forward.rows import EXACT, FIGURES, Cells
from bench.papers.filter_split_forward.simulate import SCHEMA
from bench.papers.filter_split_forward.verdicts import weigh
from tests.papers.filter_split_forward.sweep_rows import changed, claim, ours, stretched, sweep
from tidegate.errors import SettingError

pytestmark = pytest.mark.xdist_group("overlay-report")  # the figures are drawn once for all


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write(pa.Table.from_pylist([*sweep(), *stretched()]), folder, "the command")
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Only the small set-up, as a quick sweep has it."""
    folder = tmp_path_factory.mktemp("few")
    rows = sweep(setups=("small",))
    write(rows, folder, "the command")
    return folder


@pytest.mark.thorough
def test_selectivity_stands_on_the_page_and_among_the_reasons(folder):
    text = (folder / "README.md").read_text("utf-8")
    assert "## How selective subscriptions are" in text
    assert "](selectivity.png)" in text
    assert "| 0.5 | 25 | 2,600,000 | 520,000 | 80.0 | 0 |" in text
    rows = changed(sweep(), lambda e: ours(e) and e["setup"] == "medium", publication_load=lambda old: old * 1.6)
    cells = Cells([*rows, *stretched()])
    why = reasons(weigh(claim("publications-medium-multi-join"), cells), cells)
    assert why[-1] == (
        "In medium, with 200 subscriptions, the reduction against multi-join, ring varies as subscriptions want more "
        "of the readings: 80.0 % where users want 25.0 %; 20.0 % where users want 100.0 %; 20.0 % where users want "
        "500.0 % of them."
    )
    falling = Cells([*sweep(), *stretched((0.5, 0.6))])
    assert "multi-join, ring falls as" in reasons(weigh(claim("publications-medium-multi-join"), falling), falling)[-1]


# --- figures and page -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_all_figures_are_drawn(folder):
    for name in (*(f"figure{number:02}" for number in (*FIGURES, 12)), "selectivity"):
        png = (folder / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert len(png) > 10_000
    assert len(list(folder.iterdir())) == 10 + 1


def words_of(rows, monkeypatch, tmp_path):
    """All that is written in each figure, by its name."""
    drawn = {}

    def caught(figure, folder, name):
        drawn[name] = " ".join(text.get_text() for text in figure.findobj(Text))
        return name

    monkeypatch.setattr(figures, "save", caught)
    figures.draw(rows, tmp_path)
    return drawn


@pytest.mark.thorough
def test_the_papers_claim_stands_in_the_figure_beside_what_was_measured(monkeypatch, tmp_path):
    words = words_of(sweep(setups=("small", "medium")), monkeypatch, tmp_path)
    for sentence in (
        "paper: 48–55.9 % below multi-join",
        "here: 50.0 % below multi-join, ring",
        "goal: at least 45 %",
        "holds",
    ):
        assert sentence in words["figure07"]
    assert "centralized" in words["figure07"]
    assert "centralized" not in words["figure05"]
    assert "probabilistic" in words["figure12"]


@pytest.mark.thorough
def test_the_same_rows_give_the_same_file(folder, few):
    for name in ("figure04.png", "figure05.png"):  # these do not depend on other set-ups
        assert (folder / name).read_bytes() == (few / name).read_bytes()


@pytest.mark.thorough
def test_figures_without_rows_are_left_out_and_the_page_says_so(few):
    assert sorted(path.name for path in few.glob("*.png")) == ["figure04.png", "figure05.png", "figure12.png"]
    text = " ".join((few / "README.md").read_text("utf-8").split())
    assert "left out:** medium, large (network), large (sources)." in text
    assert "Without rows to judge them by:" in text
    for each in CLAIMS:
        assert each.sentence in text
    assert "figure06" not in text


@pytest.mark.thorough
def test_the_page_has_every_claim_and_every_figure(folder):
    text = (folder / "README.md").read_text("utf-8")
    flat = " ".join(text.split())
    for each in CLAIMS:
        assert each.sentence in flat
    for number in (*FIGURES, 12):
        assert f"](figure{number:02}.png)" in text
    assert "Written by `the command`" in flat
    assert "5 seeds (1 to 5)" in flat
    assert "synthetic" in flat
    assert f"All {len(CLAIMS)} claims that there are rows for hold." in flat
    assert "Without rows" not in flat
    assert "Fewer than five seeds" not in flat


@pytest.mark.thorough
def test_tables_of_the_page(folder):
    text = (folder / "README.md").read_text("utf-8")
    assert "| set-up | nodes | sensors |" in text
    assert "| large (sources) | 200 | 100 | 4,000 | 40 | 100 to 300 | 5 |" in text
    # At 300 subscriptions, by hand: the busiest link has half of multi-join's readings; 600 of 1,000 bytes; 90 of 100.
    assert "| medium, 300 | multi-join, ring | 3,000 | 0.3 | 1,950,000 | 60 | 60 | 90 | 75 |" in text
    assert "| small | filter-split-forward, probabilistic | 15 | 3,000,000 | 60,000 | 0 | 98.000 | 100 | 0 |" in text
    line = next(line for line in text.splitlines() if line.startswith("| 100 | "))
    mean = 1e6 * 1.3
    half = 2.776445 * 1e5 * math.sqrt(2.5 / 5)  # 1.1 to 1.5 times 1e6
    assert f"{mean:,.0f} ± {half:,.0f}" in line


def test_where_we_differ_is_told_with_reasons():
    rows = changed(sweep(), lambda e: ours(e) and e["setup"] == "medium", publication_load=lambda old: old * 1.6)
    text = " ".join(page(Cells(rows), [], "x").split())
    differences = text[text.index("## Where we differ and why") :]
    claimed = "Publication load is 48 % to 55.9 % below that of multi-join. Against multi-join, ring."
    assert f"**Figure 7: {claimed}** Differs: 20.0" in differences
    assert "Against multi-join, ring the reduction is under the claimed range at 3 of 3 counts." in differences
    assert "Figure 9: Publication load" not in differences
    assert "**differs**" in text


def test_the_kept_page_comes_from_the_stored_results():
    kept = (RESULTS.parent / "README.md").read_text("utf-8")
    drawn = re.findall(r"\]\((\w+)\.png\)", kept)
    cells = Cells(ResultsFolder(RESULTS, SCHEMA).gathered().rows)
    module = "bench.papers.filter_split_forward.page"
    assert kept == page(cells, drawn, f"python -m {module}"), f"run python -m {module}"
    assert all((RESULTS.parent / f"{name}.png").exists() for name in drawn)
    assert len(drawn) == len(FIGURES) + 2


def test_nothing_to_write_about(tmp_path):
    with pytest.raises(SettingError, match="expected results of at least one cell; got none"):
        write([], tmp_path, "x")


def test_generated_data_and_few_seeds_are_said():
    rows = changed(sweep(setups=("small",), seeds=(3,)), lambda e: True, data="generated")
    text = page(Cells(rows), [], "x")
    assert "generator" in text
    assert "SensorScope's" not in text
    assert "**Fewer than five seeds" in text
    assert "1 seed (3)" in text


@pytest.mark.thorough
def test_a_single_count_and_seed_can_be_drawn(tmp_path):
    assert draw(sweep(setups=("small",), counts=(100,), seeds=(1,), series=(EXACT,)), tmp_path) == [
        "figure04",
        "figure05",
        "figure12",
    ]
