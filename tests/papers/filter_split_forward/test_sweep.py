"""A sweep: each cell once; what fails is named, and the others go on."""

from __future__ import annotations

import random
import threading
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext

from bench.papers.filter_split_forward.results_folder import RESULTS, ResultsFolder
from bench.papers.filter_split_forward.sweep import sweep
from tests.papers.filter_split_forward.sweep_cells import (
    ABOUT,
    SCHEMA,
    Cell,
    asked,
    cells,
    left_over,
    measure,
    rows,
    swept,
)
from tidegate.errors import PipelineError, SettingError

pytestmark = pytest.mark.thorough  # on Spark, which takes seconds to start

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
