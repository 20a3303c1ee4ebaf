"""A sweep where one was: what was stopped goes on, and what is there of another sweep stays as it is."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.papers.filter_split_forward.results_folder import PLAN, RESULTS, ResultsFolder
from tests.papers.filter_split_forward.sweep_cells import ABOUT, SCHEMA, Cell, asked, cells, left_over, rows, swept
from tidegate.errors import PipelineError, SettingError

pytestmark = pytest.mark.thorough  # on Spark, which takes seconds to start

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
