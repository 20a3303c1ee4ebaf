"""A sweep: many measurements, each a task of one Spark job, kept one by one as they are done, put together at the end.

What was stopped goes on where it was: a measurement whose file is there is not made again. What is measured, and in
which order, is the caller's business; where it is kept is that of ``ResultsFolder``.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.papers.filter_split_forward.results_folder import Cell, ResultsFolder
from tidegate.errors import PipelineError, TidegateError
from tidegate.pipeline.rehearsal import watched
from tidegate.pipeline.spark_failure import failure

__all__ = ["sweep"]

C = TypeVar("C", bound=Cell)
Measure = Callable[[C], Mapping[str, Any]]

_FAILED = pa.schema([("cell", pa.int64()), ("reason", pa.string())])
_SPARK = "cell bigint, reason string"
#: How Spark names the task that took its worker with it as often as Spark tries.
_LOST = re.compile(r"Task (\d+) in stage [\d.]+ failed")
_CRASHED = "Python worker exited unexpectedly"
_ENDED = "a Python worker that ended in the midst of it, as one does that takes too much memory"
_NAMED = 5  # cells that failed, in a message


def sweep(
    spark: SparkSession,
    cells: Sequence[C],
    measure: Measure[C],
    schema: pa.Schema,
    out: Path,
    report: Callable[[int, int, str], None],
    about: Mapping[str, Any] | None = None,
) -> pa.Table:
    """The rows of all cells, which are then in ``out`` too.

    Tasks start in the order of the cells: the longest first, so that all cores end together. ``about`` is what all
    cells have in common; a folder that is about something else, or has cells that are not among these, is an error.
    Cells that fail are one error when the others are done. ``report`` is called with the cells that are done, of how
    many, and with a sentence where there is something to say.
    """
    folder, common, total = ResultsFolder(out, schema), dict(about or {}), len(cells)
    with folder.alone():
        found = folder.whole(cells, common)
        if found is not None:
            report(total, total, "")
            return found
        folder.begin(cells, common)
        rows: list[pa.Table] = []
        left: list[C] = []
        for cell in cells:
            row = folder.row(cell, common)
            if isinstance(row, pa.Table):
                rows.append(row)
                continue
            left.append(cell)
            if row is not None:
                report(len(rows), total, f"cell {cell.key} is measured again: {row}")
        done = len(rows)
        report(done, total, "")
        failed = _run(spark, left, measure, folder, common, lambda n: report(done + n, total, ""))
        if failed:
            raise _failure(failed, total)
        for cell in left:
            row = folder.row(cell, common)
            if not isinstance(row, pa.Table):
                got = row or "no file: the folder must be one that the driver and all workers see"
                raise PipelineError("a row of every cell", got, f"cell {cell.key} in {out}")
            rows.append(row)
        report(total, total, "")
        return folder.finish(rows)


def _run(
    spark: SparkSession,
    cells: Sequence[C],
    measure: Measure[C],
    folder: ResultsFolder,
    about: Mapping[str, Any],
    show: Callable[[int], None],
) -> dict[str, str]:
    """Measure cells; those that failed, with the reason.

    A cell that takes its worker with it, by memory for one, ends the job: a new one has those that remain.
    """
    failed: dict[str, str] = {}
    left = list(cells)
    while left:
        done = len(cells) - len(left) - len(failed)
        try:
            with watched(spark, lambda n, of, done=done: show(done + n)):  # type: ignore[misc]
                task = _Task(left, measure, folder)
                rows = spark.range(0, len(left), 1, len(left)).mapInArrow(task, _SPARK).toArrow().to_pylist()
            return failed | {left[row["cell"]].key: row["reason"] for row in rows}
        except Exception as error:  # of Spark and of Java, in whatever wrapping
            lost = _LOST.search(str(error))
            if lost is None:
                raise failure(error) from None
            failed[left[int(lost[1])].key] = _ENDED if _CRASHED in str(error) else failure(error).got
            left = folder.left((cell for cell in left if cell.key not in failed), about)
    return failed


def _failure(failed: Mapping[str, str], of: int) -> PipelineError:
    (key, reason), *others = failed.items()
    names = ", ".join(name for name, _ in others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    more = f" ({len(others):,} more failed: {names})" if others else ""
    kept = f"the other {of - len(failed):,} of {of:,} are kept"
    return PipelineError("every cell measured", f"{reason}{more}; {kept}", f"cell {key}")


@dataclass(frozen=True)
class _Task(Generic[C]):
    """Measures cells in a worker and writes their files; gives back those that failed, and why.

    A worker has one thread: none of our kernels is compiled for more, and Spark counts it as one core.
    """

    cells: Sequence[C]
    measure: Measure[C]
    folder: ResultsFolder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failed = []
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            cell = self.cells[number]
            try:
                self.folder.keep(cell, self.measure(cell))
            except Exception as error:  # the others go on
                traceback.print_exc()  # into Spark's log
                failed.append({"cell": number, "reason": _said(error)})
        yield pa.RecordBatch.from_pylist(failed, _FAILED)


def _said(error: Exception) -> str:
    if isinstance(error, TidegateError):
        return str(error)
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no reason given')}"
