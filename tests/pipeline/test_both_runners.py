"""Spark and the runner in process give the same notifications of the same log and registry, ids and all."""

from __future__ import annotations

import pytest

import tidegate as tg
from tests.pipeline.lane import Stream, rows, subscription
from tidegate.broker.process_run import ProcessRun
from tidegate.pipeline.flow import Flow
from tidegate.runs.sinks import Sql
from tidegate.runs.sources import LogSource
from tidegate.store.notifications import NotificationStore

pytestmark = pytest.mark.spark


def test_both_runners_give_the_same_notifications(spark, tmp_path):
    with (
        tg.Registry(tmp_path / "registry.db") as registry,
        tg.Log(tmp_path / "log", version=lambda: registry.version) as log,
    ):
        stream = Stream(7, disorder=1)
        for number in range(8):
            registry.subscribe(subscription(number))
            if number == 5:
                registry.unsubscribe("ann/s1")
            log.append(stream.frame(60))
        log.append(stream.last())
        told = {}
        for name, size in (("spark", 150), ("process", 70)):
            source, sink = LogSource(tmp_path / "log", rows=size), Sql(tmp_path / f"{name}.db")
            where = {"checkpoint": tmp_path / name, "lateness": 1.0}
            run = Flow(spark, source, registry, [sink], **where) if name == "spark" else None
            run = run or ProcessRun(source, registry, [sink], **where)
            run.start(available_now=True)
            run.wait()
            run.close()
            with NotificationStore(tmp_path / f"{name}.db") as store:
                told[name] = rows([store.read()])
    assert told["process"] == told["spark"]
    assert len(told["spark"]) > 100
