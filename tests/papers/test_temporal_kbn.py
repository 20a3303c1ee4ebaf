"""The experiments on a temporal knowledge-based network: a quick run, their page, and that rivals do what they say."""

from __future__ import annotations

import re

import numpy as np
import pytest

import bench.papers.temporal_kbn as temporal_kbn
from bench.harness import RESULTS
from bench.papers.measuring import stored
from bench.papers.temporal_kbn import events, findings, page
from bench.papers.temporal_kbn.databases import Missing, opened
from bench.papers.temporal_kbn.events import BEGIN, WINES, Events, Operator, Part, Wanted, drawn, table_61, table_62
from bench.papers.temporal_kbn.figures import draw
from bench.papers.temporal_kbn.plain_loops import Obvious
from bench.papers.temporal_kbn.plan import QUICK
from bench.papers.temporal_kbn.scanning import Scanning
from bench.papers.temporal_kbn.spread import spread, typical
from bench.papers.temporal_kbn.stopwatch import Stopwatch
from tests.papers.quick_run import facts_of, quick_rows

pytestmark = pytest.mark.xdist_group("temporal-kbn")  # one quick run for all


@pytest.fixture(scope="module")
def rows():
    return quick_rows(temporal_kbn)


@pytest.fixture(scope="module")
def facts(rows):
    return facts_of(temporal_kbn, "temporal-kbn", rows)


def of(rows, test):
    return [row for row in rows if row.get("test") == test]


# --- the run --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_every_row_is_exact(rows):
    assert all(row["exact"] is True for row in rows)


@pytest.mark.thorough
def test_both_tests_of_the_thesis_are_there(rows):
    [first] = of(rows, "test 1")
    assert [point["stored"] for point in first["points"]] == list(range(QUICK.events + 1))
    assert first["publications"] == 2 * QUICK.events * QUICK.runs
    sizes = [(row["stored"], row["limit"]) for row in of(rows, "test 2")]
    assert sizes == [(stored, limit) for stored in QUICK.stored for limit in QUICK.limits]
    assert len(of(rows, "test 2, batches")) == len(QUICK.stored)
    assert {row["limit"] for row in of(rows, "operators")} == set(QUICK.limits)


@pytest.mark.thorough
def test_all_that_is_stored_is_in_the_history(rows):
    for row in of(rows, "test 2"):
        assert row["stored"] <= row["stored_by_us"] <= row["stored_before"] <= row["stored"] + 3 * QUICK.events
    for size in QUICK.stored:
        first = next(row for row in of(rows, "test 2") if row["stored"] == size)
        assert first["stored_by_us"] == first["stored_before"] == size


@pytest.mark.thorough
def test_ratios_are_those_of_the_times(rows):
    for row in of(rows, "test 2"):
        assert row["paged_ratio"] == pytest.approx(row["paged_us"] / row["ours_us"])
        assert row["rows_matching_ratio"] == pytest.approx(row["rows_us"] / row["matching_us"])
        assert 0 < row["write_us"] < row["ours_us"]
        assert row["matching_us"] < row["ours_us"]


@pytest.mark.thorough
def test_operators_match_and_do_not(rows):
    for row in of(rows, "test 2"):
        counts = [row["operators"]["paged"][kind]["count"] for kind in ("matching", "non-matching", "combined")]
        assert counts[0] + counts[1] == counts[2] == 2 * row["spread"]["paged"]["count"]
    [dense] = of(rows, "test 1, overlapping")
    assert {"A", "B", "C", "D", "E", "F"} == set(dense["told"])
    [first] = of(rows, "test 1")
    assert {"A", "B", "C"} == set(first["told"])


# --- the workload ---------------------------------------------------------------------------------------------------


def test_events_are_as_the_thesis_has_them():
    some = Events.drawn(np.random.default_rng(1), 2_000, 10_000_000)
    lasts = some.end - some.start
    assert (some.start[1:] - some.start[:-1] == 10_000_000).all()
    assert 3_000_000 <= lasts.min() < 3_100_000 < 7_900_000 < lasts.max() <= 8_000_000
    assert set(some.a.tolist()) == set(range(1, 11))
    assert set(some.wine.tolist()) == set(range(10))
    parts = some.parts()
    assert len(parts) == 4_000
    assert [part.time for part in parts] == sorted(part.time for part in parts)
    assert parts[0].publication().start is not None
    assert parts[1].publication().start is None


def test_whole_events_come_in_the_order_of_time():
    some = Events.drawn(np.random.default_rng(1), 1_000, 3_000_000)
    tables = list(some.whole(300))
    assert [table.num_rows for table in tables] == [300, 300, 300, 100]
    times = [time for table in tables for time in table.column("time").cast("int64").to_pylist()]
    assert times == sorted(times) == some.start.tolist()


def test_five_wines_are_red(tmp_path):
    from bench.papers.temporal_kbn import wines
    from tidegate.ontologies import current
    from tidegate.ontologies.ontology import Ontology
    from tidegate.predicates.ontology import Question, answer

    path = tmp_path / "ten.ttl"
    path.write_text(wines._ten())
    for source in (path, wines.WINE) if wines.WINE.exists() else (path,):
        with current.use(Ontology((source,), {"vin": events.PREFIX})):
            red = answer(Question("related", ("vin:hasColor", "vin:Red")))
            assert [wine in red for wine in WINES] == [True] * 5 + [False] * 5


def test_every_row_of_a_table_has_a_subscriber():
    subscribers = drawn(np.random.default_rng(1), table_61(), 50)
    assert len(subscribers) == 50
    assert {each.name for each in subscribers.values()} == set("ABCDEFG")
    assert {each.where for each in table_62(500)} == {
        "A < past(A, related(B, 'vin:hasColor', 'vin:Red'), 500)",
        "A < past(A, C > 10, 500)",
    }
    where = {each.name: each.where for each in table_61()}
    assert where["D"] == "T_DURING(end, past(A < 8))"
    assert where["E"] == "T_AFTER(start, past(A < 8, 'PT0.5S'))"


# --- the thesis's method ---------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    def made(wanted, row_by_row=False):
        scanning = Scanning(f"sqlite:///{tmp_path}/{row_by_row}.db", wanted, row_by_row)
        scanning.create()
        opened_stores.append(scanning)
        return scanning

    opened_stores = []
    yield made
    for scanning in opened_stores:
        scanning.close()


def part(id, phase, second, a=5, wine=0):
    return Part(id, phase, BEGIN + int(second * 1e6), {"A": a, "B": WINES[wine]})


@pytest.mark.parametrize("row_by_row", [False, True])
def test_bounds_of_the_temporal_operators(store, row_by_row):
    less = table_61()[0].condition
    wanted = [Wanted("D", Operator("DURING", less)), Wanted("E", Operator("AFTER", less, 500_000))]
    scanning, loop = store(wanted, row_by_row), Obvious(wanted, by_rows=True)
    told = []
    for each in (
        part("a", "START", 0), part("b", "START", 1, a=9), part("a", "END", 2),  # b is running, but has A = 9
        part("c", "START", 2.5), part("d", "START", 2.5 + 1e-6), part("b", "END", 2.5 + 2e-6), part("c", "END", 3),
        part("d", "END", 3), part("e", "START", 3),
    ):  # fmt: skip
        found = scanning.take(each)
        assert found == loop.take(each)
        told.append((each.id, each.phase, found))
    # An end half a second before counts for AFTER, one at the same time does not; for DURING it does.
    assert [each[2] for each in told if each[1] == "START"] == [set(), set(), {"E"}, set(), set()]
    assert [each[2] for each in told if each[1] == "END"] == [set(), {"D"}, {"D"}, {"D"}]


@pytest.mark.parametrize("row_by_row", [False, True])
def test_limits_count_rows_and_never_the_event_itself(store, row_by_row):
    wanted = table_62(3)[:1]
    scanning, loop = store(wanted, row_by_row), Obvious(wanted, by_rows=True)
    other = Obvious(wanted, by_rows=False)
    found = []
    for each in (
        part("a", "START", 0, a=10), part("b", "START", 1, a=1), part("b", "END", 1.5, a=1),
        part("c", "START", 2, a=1, wine=7), part("d", "START", 3, a=1, wine=7), part("e", "START", 4, a=9),
        part("f", "START", 5, a=8), part("e", "END", 6, a=8),
    ):  # fmt: skip
        told = bool(scanning.take(each))
        assert told == bool(loop.take(each))
        found.append((told, bool(other.take(each))))
    # By rows, a is out of reach for e; by what passed it is among the last three. At its end e finds only itself.
    assert found == [
        (False, False), (True, True), (True, True), (True, True), (True, True), (False, True), (True, True),
        (False, False),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [7, 50, 51, 549, 550, 551])
def test_pages_reach_as_far_as_the_limit(store, size):
    """The only event with a larger A is the oldest within the limit, then the first beyond it."""
    some = Events.drawn(np.random.default_rng(1), 600, 3_000_000)
    some.a[:] = 1
    some.wine[:] = 0
    some.a[600 - size] = 2
    event = part("x", "START", 99_999, a=1)
    for row_by_row in (False, True):
        scanning = store((), row_by_row)
        scanning.load(some)
        for limit, expected in ((size, True), (size - 1, False)):
            assert scanning.applies(table_62(limit)[0].condition, event) is expected


@pytest.mark.thorough
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.services),
                                      pytest.param("mariadb", marks=pytest.mark.services)])  # fmt: skip
def test_scans_are_the_obvious_loop_on_every_database(database):
    rng = np.random.default_rng(5)
    try:
        with opened(database) as new:
            for spacing in (700_000, 5_000_000):
                before = Events.drawn(rng, 150, spacing)
                after = Events.drawn(rng, 40, spacing, int(before.end.max()) + 1, 150)
                wanted = (*table_61(), *(Wanted(f"{each.name}60", each.condition) for each in table_62(60)))
                loop = Obvious(wanted, by_rows=True)
                loop.load(before)
                rivals = [Scanning(new(), wanted, row_by_row) for row_by_row in (False, True)]
                for each in rivals:
                    each.create()
                    each.load(before, 100)
                for one in after.parts():
                    expected = loop.take(one)
                    assert [each.take(one) for each in rivals] == [expected, expected]
                for each in rivals:
                    each.close()
    except Missing as why:
        pytest.skip(str(why))


# --- times ----------------------------------------------------------------------------------------------------------


def test_times_in_a_few_numbers():
    assert spread([]) is None
    assert spread([1e-6, 3e-6]) == {"mean": 2.0, "sd": 1.41, "count": 2, "sem": 1.0}
    assert typical([[1e-6, 3e-6], [2e-6], [], [9.0]]) == pytest.approx(2)


def test_a_stopwatch_counts_and_goes():
    class Slow:
        def work(self, x):
            return 2 * x

    before = Slow.work
    with Stopwatch().on(work=(Slow, "work")) as watch:
        assert Slow().work(2) == 4
        assert watch.take()["work"] > 0
        assert watch.take()["work"] == 0
    assert Slow.work is before


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
    assert linked == {f"figure{n}.png" for n in (61, 63, 64, 65)}
    assert all((written / name).stat().st_size > 1_000 for name in linked)
    assert "nan" not in text
    assert f"Seed {temporal_kbn.SEED}" in text
    assert text.count("**Agrees.**") + text.count("**Differs.**") == 5


@pytest.mark.thorough
def test_the_page_depends_on_nothing_but_the_results(facts, rows, written, tmp_path):
    assert (written / "README.md").read_text("utf-8") == page.page(facts)
    assert draw(of(rows, "test 1"), tmp_path) == ["figure61"]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (written / path.name).read_bytes()


@pytest.mark.thorough
def test_the_page_says_what_the_results_say(facts):
    changed = [dict(row) for row in facts["rows"]]
    few, most = QUICK.stored
    for row in changed:
        if row.get("test") == "test 2":
            row.update(rows_ratio=1234.0 if row["stored"] == few else 999.0, ours_us=100.0)
            if row["limit"] == QUICK.limits[-1]:
                row["ours_us"] = 149.0 if row["stored"] == few else 151.0
    text = page.page({**facts, "rows": changed})
    high, low = QUICK.limits[-1], QUICK.limits[0]
    assert f"| {few:,} events, limit {high:,}: scan row by row ÷ ours | ≥ 1,000 | 1,234 | yes |" in text
    assert f"| {most:,} events, limit {high:,}: scan row by row ÷ ours | ≥ 1,000 | 999 | no |" in text
    assert f"| {few:,} events: ours at {high:,} ÷ at {low:,} | ≤ 1.5 | 1.49 | yes |" in text
    assert f"| {most:,} events: ours at {high:,} ÷ at {low:,} | ≤ 1.5 | 1.51 | no |" in text


@pytest.mark.thorough
def test_a_database_that_is_not_here_is_said_to_be_missing(facts):
    missing = {"what": "mariadb is not here: it is not installed", "database": "mariadb", "exact": True, "seconds": {}}
    assert "mariadb is not here: it is not installed." in page.page({**facts, "rows": [*facts["rows"], missing]})


def test_a_server_that_cannot_be_had_is_missing(monkeypatch):
    def nothing(*_):
        pytest.skip("it is not installed")

    for name, part in (("postgresql", "postgres"), ("mariadb", "mariadb")):
        monkeypatch.setattr(f"tests.parts.{part}.program", nothing)
        with pytest.raises(Missing, match="it is not installed"), opened(name):
            pass


def test_verdicts_follow_the_lines():
    def row(times):
        points = [{"stored": n, **{name: {"mean": t, "sem": 0.0} for name in ("ours", "paged", "rows")}}
                  for n, t in enumerate(times)]  # fmt: skip
        r = {
            name: findings.straightness([(float(n), t) for n, t in enumerate(times)])
            for name in ("ours", "paged", "rows")
        }
        return {"database": "sqlite", "points": points, "r": r, "ours_us": 1.0, "write_us": 0.5}

    assert "**Agrees.**" in findings.on_filling([row([1.0, 2.1, 2.9, 4.0])])[0]
    assert "**Differs.**" in findings.on_filling([row([1.0, 5.0, 1.0, 4.9])])[0]


@pytest.mark.skipif(not (RESULTS / "temporal-kbn.json").exists(), reason="there was no full run yet")
def test_the_kept_page_comes_from_the_raw_results():
    kept_page = page.PAGE.read_text("utf-8")
    assert kept_page == page.page(stored("temporal-kbn")), "run python -m bench.papers.temporal_kbn.page"
    assert all((page.PAGE.parent / name).exists() for name in re.findall(r"\]\((\w+\.png)\)", kept_page))
