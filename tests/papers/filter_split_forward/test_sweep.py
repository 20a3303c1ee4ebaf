"""A sweep: each cell once, whatever stops it; what fails is named; what is there of another sweep stays as it is."""

from __future__ import annotations

import os
import random
import shutil
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext

from bench.papers.filter_split_forward.results_folder import PLAN, RESULTS, ResultsFolder
from bench.papers.filter_split_forward.sweep import sweep
from tidegate.errors import PipelineError, SettingError, SubscriptionError

pytestmark = pytest.mark.thorough  # on Spark, which takes seconds to start

LINK = pa.struct([("a", pa.string()), ("readings", pa.int64())])
SCHEMA = pa.schema(
    [
        ("setup", pa.string()),
        ("count", pa.int64()),
        ("rounds", pa.int64()),
        ("data", pa.string()),
        ("load", pa.float64()),
        ("links", pa.list_(LINK)),
    ]
)
ABOUT = {"data": "made", "version": 1}


@dataclass(frozen=True)
class Cell:
    setup: str
    count: int
    rounds: int = 4

    @property
    def key(self) -> str:
        return f"{self.setup}-{self.count}"


def measure(cell: Cell, diary: Path) -> dict[str, object]:
    """Writes down that it was asked; what else happens is the set-up's name."""
    with (diary / cell.key).open("a") as asked:
        asked.write("x")
    if cell.setup == "refuses":
        raise SubscriptionError("a range", "none", "here")
    if cell.setup == "breaks":
        raise RuntimeError("first line\nsecond line")
    if cell.setup == "says-nothing":
        raise RuntimeError
    if cell.setup == "odd":
        return {"setup": "odd"}
    if cell.setup == "dies":
        os._exit(1)
    until = monotonic() + 60
    while cell.setup == "waits" and not (diary / "go").exists():
        assert monotonic() < until
        sleep(0.01)
    links = [{"a": f"n{i}", "readings": i} for i in range(cell.count)]
    row = {"setup": cell.setup, "count": cell.count, "rounds": cell.rounds, "data": "made"}
    return row | {"load": cell.count / 2, "links": links}


@pytest.fixture
def diary(tmp_path):
    (tmp_path / "diary").mkdir()
    return tmp_path / "diary"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def asked(diary: Path) -> dict[str, int]:
    return {file.name: len(file.read_text()) for file in sorted(diary.iterdir())}


def swept(spark, cells, diary, out, about=ABOUT, told=None):
    report = (lambda *told: None) if told is None else (lambda *one: told.append(one))
    return sweep(spark, cells, partial(measure, diary=diary), SCHEMA, out, report, about)


def cells(*counts: int, setup: str = "plain") -> list[Cell]:
    return [Cell(setup, count) for count in counts]


def rows(table: pa.Table) -> list[tuple[str, int]]:
    return list(zip(table.column("setup").to_pylist(), table.column("count").to_pylist(), strict=True))


def left_over(out: Path) -> list[str]:
    return [path.name for path in out.rglob(".*")]


# --- what it does ---------------------------------------------------------------------------------------------------


def test_each_cell_is_a_task_of_one_job_and_a_file(spark, diary, out):
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("sweep", "a sweep")
    planned, told = cells(3, 10, 2, 7, 1), []
    found = swept(spark, planned, diary, out, told=told)
    (job,) = tracker.getJobIdsForGroup("sweep")
    (stage,) = tracker.getJobInfo(job).stageIds
    assert tracker.getStageInfo(stage).numTasks == 5
    assert rows(found) == [("plain", n) for n in (1, 2, 3, 7, 10)], "sorted by numbers, not by names of files"
    assert found.schema.equals(SCHEMA)
    assert found.column("links")[1].as_py() == [{"a": "n0", "readings": 0}, {"a": "n1", "readings": 1}]
    assert pq.read_table(out / RESULTS).equals(found)
    assert sorted(path.stem for path in (out / "cells").iterdir()) == sorted(cell.key for cell in planned)
    assert asked(diary) == {f"plain-{n}": 1 for n in (1, 10, 2, 3, 7)}
    assert told[0] == (0, 5, "")
    assert told[-1] == (5, 5, "")
    assert left_over(out) == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def placed(cell: Cell, diary: Path) -> dict[str, object]:
    """Writes down the number of the task that the cell is measured in."""
    (diary / f"{cell.key}.task").write_text(str(TaskContext.get().partitionId()))
    return measure(cell, diary)


def test_tasks_are_in_the_order_of_the_cells(spark, diary, out):
    """Spark starts the tasks of a stage in the order of their numbers."""
    planned = cells(*range(12))
    random.Random(7).shuffle(planned)
    sweep(spark, planned, partial(placed, diary=diary), SCHEMA, out, lambda *told: None, ABOUT)
    assert [int((diary / f"{cell.key}.task").read_text()) for cell in planned] == list(range(12))


def test_progress_is_told_while_it_runs(spark, diary, out):
    (diary / "go").touch()
    swept(spark, cells(1, 2), diary, out)
    (diary / "go").unlink()
    told: list[tuple[int, int, str]] = []
    work = threading.Thread(
        target=swept, args=(spark, [*cells(1, 2, 3), Cell("waits", 1)], diary, out), kwargs={"told": told}
    )
    work.start()
    until = monotonic() + 60
    while (3, 4, "") not in told:
        assert monotonic() < until, told
        sleep(0.02)
    assert told[0] == (2, 4, "")
    (diary / "go").touch()
    work.join()
    assert told[-1] == (4, 4, "")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)


# --- what was stopped goes on ---------------------------------------------------------------------------------------


def test_what_is_there_is_not_measured_again(spark, diary, out):
    first = swept(spark, cells(1, 2), diary, out)
    assert swept(None, cells(2, 1), diary, out).equals(first), "needs no Spark, and no order"
    (out / RESULTS).unlink()
    assert swept(None, cells(1, 2), diary, out).equals(first), "put together anew from the cells"
    assert pq.read_table(out / RESULTS).equals(first)
    (out / "cells" / "plain-1.parquet").unlink()
    assert swept(None, cells(1, 2), diary, out).equals(first), "results are enough"
    (out / RESULTS).unlink()
    assert rows(swept(spark, cells(1, 2), diary, out)) == [("plain", 1), ("plain", 2)]
    assert asked(diary) == {"plain-1": 2, "plain-2": 1}


def test_more_cells_go_on_with_those_that_are_there(spark, diary, out):
    swept(spark, cells(1, 2), diary, out)
    told = []
    assert len(swept(spark, cells(3, 2, 1), diary, out, told=told)) == 3
    assert told[0] == (2, 3, "")
    assert asked(diary) == {"plain-1": 1, "plain-2": 1, "plain-3": 1}


def test_results_of_fewer_cells_do_not_stay_when_a_cell_fails(spark, diary, out):
    swept(spark, cells(1), diary, out)
    with pytest.raises(PipelineError):
        swept(spark, [*cells(1), Cell("breaks", 1)], diary, out)
    assert not (out / RESULTS).exists()
    assert ResultsFolder(out, SCHEMA).gathered().cells == 2


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _columns(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["load"]), path)


def _changed(column: str, value: object):
    def change(path: Path) -> None:
        table = pq.read_table(path)
        at = table.column_names.index(column)
        pq.write_table(table.set_column(at, SCHEMA.field(at), pa.array([value], SCHEMA.field(at).type)), path)

    return change


def _twice(path: Path) -> None:
    pq.write_table(pa.concat_tables([pq.read_table(path)] * 2), path)


DAMAGE = {
    "cut": (_cut, "damaged"),
    "empty": (_empty, "damaged"),
    "columns": (_columns, "other columns"),
    "rows": (_twice, "2 rows"),
    "rounds": (_changed("rounds", 5), "rounds 5, not 4"),
    "data": (_changed("data", "found"), "data 'found', not 'made'"),
    "cell": (_changed("count", 3), "count 3, not 2"),
}


def test_what_is_damaged_or_of_something_else_is_measured_again_with_a_word(spark, diary, out):
    planned = cells(2)
    good = swept(spark, planned, diary, out)
    for number, (damage, words) in enumerate(DAMAGE.values(), 2):
        damage(out / "cells" / "plain-2.parquet")
        (out / RESULTS).unlink()
        told = []
        assert swept(spark, planned, diary, out, told=told).equals(good)
        (word,) = {word for _, _, word in told if word}
        assert word.startswith("cell plain-2 is measured again: its file ")
        assert words in word
        assert asked(diary) == {"plain-2": number}


def test_damaged_results_are_put_together_again(diary, out, spark):
    good = swept(spark, cells(1, 2), diary, out)
    for damage in (_cut, _columns, _twice):
        damage(out / RESULTS)
        assert swept(None, cells(1, 2), diary, out).equals(good)
    assert asked(diary) == {"plain-1": 1, "plain-2": 1}


def test_what_a_killed_worker_left_goes(spark, diary, out):
    swept(spark, cells(1), diary, out)
    for name in ("cells/.plain-2.parquet-0.tmp", ".results.parquet-0.tmp"):
        (out / name).write_text("half")
    swept(spark, cells(1, 2), diary, out)
    assert left_over(out) == []


def test_a_cancelled_job_leaves_what_is_done(spark, diary, out):
    """As after Ctrl-C; the cell that was under way has no file."""
    planned = [*cells(1, 2), *cells(1, setup="waits"), *cells(3, 4)]
    raised: list[BaseException] = []

    def work() -> None:
        try:
            swept(spark, planned, diary, out)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until = monotonic() + 60
    while len(list((out / "cells").glob("*.parquet"))) < 4 or not (diary / "waits-1").exists():
        assert monotonic() < until
        sleep(0.02)
    spark.sparkContext.cancelAllJobs()
    thread.join(30)
    (error,) = raised
    assert isinstance(error, PipelineError)
    assert "cancel" in str(error)
    assert "\n" not in str(error)
    assert not (out / "cells" / "waits-1.parquet").exists()
    assert ResultsFolder(out, SCHEMA).gathered()._replace(rows=None) == (None, 5)
    (diary / "go").touch()
    assert len(swept(spark, planned, diary, out)) == 5
    again = {name for name, n in asked(diary).items() if n > 1}
    assert again <= {"waits-1"}, "a worker that Spark has given up may still finish, which harms nobody"


# --- what fails -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        ("refuses", "expected a range; got none; at here"),
        ("breaks", "RuntimeError: first line; "),
        ("says-nothing", "RuntimeError: no reason given; "),
        ("odd", "a row with the columns of the results; got too many or too few: count, data, links, load, rounds"),
    ],
)
def test_a_cell_that_fails_is_named_and_the_others_go_on(spark, diary, out, setup, reason):
    planned = [Cell(setup, 9), *cells(1, 2)]
    with pytest.raises(PipelineError) as caught:
        swept(spark, planned, diary, out)
    message = str(caught.value)
    assert reason in message
    assert message.endswith(f"; the other 2 of 3 are kept; at cell {setup}-9")
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(ResultsFolder(out, SCHEMA).gathered().rows) == 2
    with pytest.raises(PipelineError):
        swept(spark, planned, diary, out)
    assert asked(diary) == {f"{setup}-9": 2, "plain-1": 1, "plain-2": 1}, "tried again, once"


def test_many_that_fail_are_one_sentence(spark, diary, out):
    with pytest.raises(PipelineError) as caught:
        swept(spark, cells(*range(9), setup="breaks"), diary, out)
    message = str(caught.value)
    assert "(8 more failed: " in message
    assert ", …)" in message
    assert "the other 0 of 9 are kept" in message
    with pytest.raises(SettingError, match="a cell that is done; got none of 9"):
        ResultsFolder(out, SCHEMA).gathered()


def test_a_cell_that_takes_its_worker_with_it(spark, diary, out):
    """Spark tries it several times; the others are measured all the same."""
    planned = [*cells(1), Cell("dies", 1), Cell("breaks", 1), *cells(*range(2, 8))]
    ResultsFolder(out, SCHEMA).make()
    ResultsFolder(out, SCHEMA).begin(planned, ABOUT)
    for key in ("plain-1", "plain-7"):
        (out / "cells" / f"{key}.parquet").write_text("damaged, which is not the same as done")
    with pytest.raises(PipelineError) as caught:
        swept(spark, planned, diary, out)
    message = str(caught.value)
    assert message.endswith("the other 7 of 9 are kept; at cell dies-1")
    assert "got a Python worker that ended" in message
    assert "breaks-1" in message
    assert "\n" not in message
    assert len(ResultsFolder(out, SCHEMA).gathered().rows) == 7
    assert asked(diary)["plain-1"] == 1, "what was done before is not done again"


# --- other sweeps ---------------------------------------------------------------------------------------------------


def untouched(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize(
    ("planned", "about", "words"),
    [
        (cells(1, 2), ABOUT | {"data": "found"}, "data 'made' as in the sweep that is there; got 'found'"),
        (cells(1, 2), ABOUT | {"more": 1}, "more None as in the sweep that is there; got 1"),
        (cells(1, 2), {"data": "made"}, "version 1 as in the sweep that is there; got None"),
        (cells(1), ABOUT, "all 2 cells of the sweep that is there; got a sweep without plain-2"),
        (cells(3), ABOUT, "got a sweep without plain-1 and 1 more"),
        (cells(1, 1), ABOUT, "got two of the same"),
        ([], ABOUT, "got no cells"),
    ],
)
def test_another_sweep_is_refused_and_touches_nothing(spark, diary, out, planned, about, words):
    swept(spark, cells(1, 2), diary, out)
    before = untouched(out)
    with pytest.raises(SettingError) as caught:
        swept(None, planned, diary, out, about)
    assert words in str(caught.value)
    assert untouched(out) == before


def test_folders_that_are_none(spark, diary, out, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match="a folder for the results of a sweep; got a file"):
        swept(None, cells(1), diary, tmp_path / "file")
    with pytest.raises(SettingError, match="got a file"):
        ResultsFolder(tmp_path / "file", SCHEMA).gathered()
    with pytest.raises(SettingError, match=r"results.parquet or plan.json\); got none there"):
        ResultsFolder(tmp_path / "nowhere", SCHEMA).gathered()
    swept(spark, cells(1, 2), diary, out)
    (out / PLAN).write_text("[]")
    with pytest.raises(SettingError, match="the plan of a sweep; got what is none"):
        swept(None, cells(1, 2), diary, out)
    (out / PLAN).unlink()
    with pytest.raises(SettingError, match=r"results without plan\.json"):
        swept(None, cells(1, 2), diary, out)
    shutil.move(out / "cells", tmp_path / "cells")
    assert ResultsFolder(out, SCHEMA).gathered().cells == 2, "results alone can be looked at"
    with pytest.raises(SettingError, match=r"results without plan\.json"):
        swept(None, cells(1, 2), diary, out)
    _columns(out / RESULTS)
    with pytest.raises(SettingError, match=r"as this version writes them.*; got its file has other columns"):
        ResultsFolder(out, SCHEMA).gathered()
    (out / RESULTS).unlink()
    shutil.rmtree(out / "cells")
    shutil.move(tmp_path / "cells", out / "cells")
    with pytest.raises(SettingError, match=r"results without plan\.json"):
        swept(None, cells(1, 2), diary, out)


def test_two_sweeps_in_one_folder(diary, out):
    with ResultsFolder(out, SCHEMA).alone(), pytest.raises(SettingError, match="a folder that no other sweep works in"):
        swept(None, cells(1), diary, out)


def test_what_is_there_so_far(spark, diary, out):
    swept(spark, cells(1, 2, 3), diary, out)
    (out / RESULTS).unlink()
    (out / "cells" / "plain-2.parquet").unlink()
    _cut(out / "cells" / "plain-3.parquet")
    found = ResultsFolder(out, SCHEMA).gathered()
    assert (rows(found.rows), found.cells) == ([("plain", 1)], 3)
    plan = orjson.loads((out / PLAN).read_bytes())
    assert plan == {"about": ABOUT, "cells": ["plain-1", "plain-2", "plain-3"]}


def test_cells_of_other_rounds_are_other_measurements(spark, diary, out):
    """Even where their keys do not tell."""
    swept(spark, cells(1), diary, out)
    (out / RESULTS).unlink()
    told = []
    swept(spark, [replace(cell, rounds=9) for cell in cells(1)], diary, out, told=told)
    assert any("rounds 4, not 9" in word for _, _, word in told)
