"""Subscriptions that look at the past, through Spark itself: as a flow and over history."""

from __future__ import annotations

import urllib.request

import pyarrow.parquet as pq

import tidegate as tg
from tests.patterns.past_events import counted
from tests.patterns.strategies import at, in_order, lasting, pieces, thrown
from tests.pipeline.lane import SECOND, rows
from tests.pipeline.past_twins import WHERE, part, subscriptions
from tests.registered import registered
from tidegate.pipeline import flow as flow_module
from tidegate.pipeline.flow import Flow
from tidegate.runs.metrics import served
from tidegate.runs.parquet_sink import Parquet
from tidegate.runs.sources import LogSource
from tidegate.testing import as_table


def test_a_flow_that_is_stopped_and_started_again(spark, tmp_path, monkeypatch):
    """Log, flow and Parquet; a restart while events run, without the arrays that the first run has left."""
    dice, forgotten = thrown(7), flow_module.forget
    registry = tg.Registry(tmp_path / "registry.db")
    # Nothing has expired when it is appended: an engine does not judge that.
    log = tg.Log(tmp_path / "log", version=lambda: registry.version, clock=lambda: tg.model.micros(at(-3600)))
    engine, expected = tg.Engine(keep=12 * SECOND), []
    stream = lasting(dice, 160, 160, disorder=0)
    wrong = [part("END", f"none{i}", 10_000) for i in range(3)]  # END of what never started
    batches = pieces([*stream, *wrong], [30, 31, 60, 90, 120])
    assert {p.id for b in batches[:3] for p in b if p.phase == "START"} & {
        p.id for b in batches[3:] for p in b if p.phase == "END"
    }

    def change(*some):
        registry.subscribe(*some)
        for one in some:
            engine.subscribe(registered(one))

    def run():
        sink, source = Parquet(tmp_path / "out", grouped=False), LogSource(tmp_path / "log", rows=50)
        flow = Flow(spark, source, registry, [sink], checkpoint=tmp_path / "checkpoint", lateness=0, keep=12)
        flow.start(available_now=True)
        assert flow.wait(120)
        flow.close()
        return flow.status.snapshot()

    change(*subscriptions())
    for number, batch in enumerate(batches):
        table = as_table(batch)
        log.append(table)
        expected.append(engine.publish(table))
        if number == 2:
            change(*subscriptions(100))
            run()
            assert flow_module.forget is forgotten  # which is what a flow does when it is closed
            registry.unsubscribe("ann/s0", "ann/s5")
            engine.unsubscribe("ann/s0")
            engine.unsubscribe("ann/s5")
    status = run()
    found = pq.read_table(tmp_path / "out", columns=expected[0].column_names)
    assert rows([found]) == rows(expected)
    assert len({row["subscription_id"] for row in rows(expected)}) > 20
    assert counted(engine.refused) == {"end without start": 3}
    assert status.refused == 3
    with served(("127.0.0.1", 0), lambda: status) as port:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert "\ntidegate_refused_total 3.0\n" in answer


def test_over_history(spark):
    """All there is, in one batch: what an engine tells that has everybody from the beginning."""
    stream = lasting(thrown(9), 95, 95, disorder=0)
    table, engine = as_table(in_order(stream)), tg.Engine(subscriptions())
    expected = engine.publish(table)
    frame = spark.createDataFrame(table).repartition(3)
    assert rows([tg.match(frame, subscriptions()).toArrow()]) == rows([expected])
    assert len({row["subscription_id"] for row in rows([expected])}) == len(WHERE)
    assert counted(engine.refused) == {}
