"""Terms of an ontology on Spark: what appears is matched with the meaning of its time, and patterns begin anew."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import tidegate as tg
from tests.parts.cellar import PREFIXES, cellar
from tests.pipeline.lane import Lane, rows
from tidegate.ontologies.current import load, use
from tidegate.pipeline.flow import Flow
from tidegate.runs.sinks import Callback
from tidegate.runs.sources import LogSource

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)
OLD = {"Red": ["merlot", "malbec"], "White": ["riesling"]}
NEW = {"Red": ["merlot", "syrah"], "White": ["riesling"]}


def bottles(first: int, *wines: str) -> pa.Table:
    """Publications a second apart, numbered from ``first``."""
    numbers = range(first, first + len(wines))
    return pa.table(
        {
            "id": [f"p{i}" for i in numbers],
            "source": ["cellar"] * len(wines),
            "time": pa.array([TIME + timedelta(seconds=i) for i in numbers], pa.timestamp("us", "UTC")),
            "wine": [f"w:{wine}" for wine in wines],
        }
    )


def until(flow: Flow, publications: int) -> None:
    deadline = time.monotonic() + 120
    while flow.status.snapshot().publications < publications:
        assert not flow.wait(0.05)
        assert time.monotonic() < deadline


def test_only_what_appears_later_has_the_new_meaning(spark, tmp_path):
    told: list[tuple[str, ...]] = []

    def tell(batch: int, found: pa.Table) -> None:
        told.extend((row["subscription_id"], *row["publication_ids"]) for row in found.to_pylist())

    registry = tg.Registry(tmp_path / "registry.db")
    with registry, tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        with use(None):
            load(cellar(tmp_path / "cellar.ttl", **OLD), prefixes=PREFIXES)
            red, white = (f"isA(wine, 'w:{colour}')" for colour in ("Red", "White"))
            registry.subscribe(tg.Subscription("red", "ann", red), tg.Subscription("white", "ann", white))
        options = {"checkpoint": tmp_path / "checkpoint", "patterns": False}
        flow = Flow(spark, LogSource(tmp_path / "log"), registry, [Callback(tell)], **options)
        flow.start()  # where no ontology is known
        log.append(bottles(0, "merlot", "malbec", "syrah", "riesling"))
        until(flow, 4)
        with use(None):
            load(cellar(tmp_path / "cellar.ttl", **NEW), prefixes=PREFIXES)
            log.append(bottles(4, "malbec", "syrah"))  # before it is renewed, whenever that is matched
            assert registry.renew() == 1
        log.append(bottles(6, "riesling", "malbec", "syrah"))
        until(flow, 9)
        flow.stop()
    expected = [
        ("ann/red", "p0"),
        ("ann/red", "p1"),
        ("ann/red", "p4"),
        ("ann/red", "p8"),
        ("ann/white", "p3"),
        ("ann/white", "p6"),
    ]
    assert sorted(told) == expected


def test_a_pattern_that_is_renewed_begins_anew(tmp_path):
    lane = Lane(tmp_path)
    with use(None):
        load(cellar(tmp_path / "cellar.ttl", **OLD), prefixes=PREFIXES)
        both = tg.Subscription("both", "bob", "together('PT5M', isA(wine, 'w:Red'), isA(wine, 'w:White'))")
        same = tg.Subscription("same", "bob", "together('PT5M', wine = 'w:merlot', isA(wine, 'w:White'))")
        lane.registry.subscribe(both, same)
    lane.publish(bottles(0, "merlot", "malbec", "syrah", "riesling", "merlot"))
    with use(None):
        load(cellar(tmp_path / "cellar.ttl", **NEW), prefixes=PREFIXES)
        assert lane.registry.renew() == 1
    lane.publish(bottles(5, "riesling", "malbec", "syrah"))
    lane.publish(bottles(1000, "malbec"))  # all that waits is told
    told = [(row["subscription_id"], *row["publication_ids"]) for row in rows(lane.told)]
    assert sorted(told) == [
        ("bob/both", "p1", "p3"),
        ("bob/both", "p4", "p3"),
        ("bob/both", "p7", "p5"),  # and nothing of p5 with p4
        ("bob/same", "p0", "p3"),
        ("bob/same", "p4", "p3"),
        ("bob/same", "p4", "p5"),
    ]
