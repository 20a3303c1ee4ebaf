"""What is done beside the batches, and what is said when one fails; none of it needs Spark to run."""

import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

import tidegate as tg
from tidegate.broker.process_run import ProcessRun
from tidegate.model import micros
from tidegate.pipeline.flow import Flow
from tidegate.pipeline.spark_failure import failure
from tidegate.runs import maintenance
from tidegate.runs.maintenance import Maintenance
from tidegate.runs.sources import LogSource
from tidegate.stages.shard_state import CombineSettings
from tidegate.store.log_rows import LogRows

TIME = datetime(2026, 11, 15, tzinfo=UTC)
UNREADABLE = "expected a checkpoint that Spark can read, or a new one with new sinks"


@pytest.mark.parametrize(("keep", "begin"), [({}, 0), ({"keep_bytes": 1}, 3), ({"keep_seconds": 1e9}, 0)])
def test_only_what_is_done_with_and_not_to_be_kept_is_dropped(tmp_path, keep, begin):
    with tg.Log(tmp_path / "log", segment_bytes=1) as log:  # a segment for each append
        for i in range(6):
            log.append([tg.Publication(id=f"p{i}", source="z", time=TIME, attributes={})])
        LogSource(tmp_path / "log", **keep).done({"row": 3}, lambda first, end: np.array([1]))
        assert (log.begin, log.end) == (begin, 6)
    with LogRows(tmp_path / "log") as rows:
        told = [sorted(row) for row in rows.publications([0, 1])]
    whole, noted = ["attributes", "id", "source", "time"], ["gone", "id", "source", "time"]
    assert told == ([["gone"], noted] if begin else [whole, whole])


def test_both_runners_end_subscriptions_whose_time_is_over(tmp_path, monkeypatch):
    """Later than ``active_until`` by the lateness, for what still may come for them."""
    moments = [TIME + timedelta(seconds=4), TIME + timedelta(seconds=5)]
    for run in (Flow, ProcessRun):
        with tg.Registry(tmp_path / f"{run.__name__}.db") as registry:
            ends = tg.Subscription("s1", "ann", "n > 1", active_until=TIME)
            registry.subscribe(ends, tg.Subscription("s2", "ann", "n > 1"))
            running = SimpleNamespace(
                _registry=registry, _settings=CombineSettings(5_000_000), _sinks=[], _running=None,
                _record=SimpleNamespace(offset=None),
            )  # fmt: skip
            left = []
            for now in moments:
                monkeypatch.setattr(maintenance, "now", lambda now=now: micros(now))
                run._tidy(running)
                left.append([one.id for one in registry])
            assert left == [["s1", "s2"], ["s2"]]
            assert registry.version == 3
            assert list(registry.rows(0, 3))[0].id == "s2"  # pruned: no query needs the version before


def test_upkeep_that_fails_is_tried_again():
    calls, twice = [], threading.Event()

    def work():
        calls.append(len(calls))
        if len(calls) == 1:
            raise OSError("not now")
        twice.set()

    upkeep = Maintenance(work, every=0.01)
    upkeep.start()
    assert twice.wait(10)
    upkeep.stop()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Traceback …\ntidegate.errors.StoreError: expected a; got b; at c\n\tat org.apache",
            "expected a; got b; at c",
        ),
        ("…\nValueError: no room\nmore", "expected a pipeline that runs; got ValueError: no room"),
        (
            "[STREAM_FAILED] Query [id = 81, runId = cd] terminated with exception: Failed to read log file file:/c/0. "
            "Incomplete log file SQLSTATE: XXKST",
            f"{UNREADABLE}; got Failed to read log file file:/c/0. Incomplete log file",
        ),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o2.getResult.\n: org.apache.X: awaitResult\n"
            "Caused by: org.apache.Y: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.  SQLSTATE: 58030\n",
            f"{UNREADABLE}; got [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.",
        ),
        (
            "An error occurred while calling o3.start.\n: com.x.JsonParseException: Unrecognized token\n"
            "\tat org.apache.spark.sql.StreamMetadata$.read(StreamMetadata.scala:60)",
            f"{UNREADABLE}; got Unrecognized token",
        ),
        ("[NO_SUCH_TABLE] It is not there", "expected a pipeline that runs; got It is not there (NO_SUCH_TABLE)"),
    ],
)
def test_what_went_wrong_is_one_sentence(text, said):
    found = failure(RuntimeError(text))
    assert isinstance(found, tg.PipelineError)
    assert str(found) == said
