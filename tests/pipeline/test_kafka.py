"""Publications from a real Kafka and notifications to it. Where Spark's connector cannot be had, that is a skip."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import orjson
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.parts.kafka import kafka, kafka_connector  # noqa: F401

pytestmark = pytest.mark.services

#: In a process of its own: the connector must be on the class path when Spark starts.
SCRIPT = """
import sys, orjson
import tidegate as tg
from pathlib import Path
from tidegate.pipeline.flow import Flow
from tidegate.runs.parquet_sink import Parquet
from tidegate.pipeline.kafka_sink import Kafka
from tidegate.runs.sources import KafkaSource

servers, jars, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
spark = tg.session(settings={"spark.jars": jars})
options = {"kafka.bootstrap.servers": servers}
time, wrong = "2020-11-15T08:00:00Z", "9999-12-31T00:00:00Z"
records = [orjson.dumps({"id": f"p{i}", "source": "z", "time": time, "a": i % 10}) for i in range(500)]
records += [b"{broken", b"\\xff", b"[]", orjson.dumps({"id": "wrong", "source": "z", "time": wrong, "a": 9})]
frame = spark.createDataFrame([(bytes(r),) for r in records], "value binary").coalesce(1)
frame.write.format("kafka").options(**options).option("topic", "readings").save()
registry = tg.Registry(folder / "registry.db")
registry.subscribe(tg.Subscription("hot", "ann", "a > 7"))

def run():
    sinks = [Kafka(spark, "told", options), Parquet(folder / "out", grouped=False)]
    source = KafkaSource(servers, "readings", options={"maxOffsetsPerTrigger": "100"})
    flow = Flow(spark, source, registry, sinks, checkpoint=folder / "checkpoint", ahead=65.0)
    flow.start(available_now=True)
    flow.wait()
    flow.close()
    return flow

status = run().status
commits = folder / "checkpoint" / "spark" / "commits"
last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
for path in [*commits.glob(f"{last}*"), *commits.glob(f".{last}*")]:
    path.unlink()  # as if the query had been killed before it wrote that its last batch is done
registry.unsubscribe("ann/hot")
run()
told = spark.read.format("kafka").options(**options).option("subscribe", "told").load()
rows = told.selectExpr("string(key)", "string(value)").collect()
counts = {"quarantined": status.quarantined, "ahead": status.ahead}
(folder / "told.json").write_bytes(orjson.dumps({**counts, "told": [list(row) for row in rows]}))
spark.stop()
"""


def test_from_a_topic_to_a_topic(tmp_path, kafka, kafka_connector):  # noqa: F811
    kafka.create("readings", 2, {"message.timestamp.type": "LogAppendTime"})
    kafka.create("told", 1)
    command = [sys.executable, "-c", SCRIPT, kafka.servers, kafka_connector, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = orjson.loads((tmp_path / "told.json").read_bytes())
    expected = sorted(f"p{i}" for i in range(500) if i % 10 > 7)
    table = pq.read_table(tmp_path / "out")
    assert sorted(ids[0] for ids in table.column("publication_ids").to_pylist()) == expected
    keys = Counter(key for key, _ in found["told"])
    by_key = {key: orjson.loads(value) for key, value in found["told"]}
    assert sorted(row["publication_ids"][0] for row in by_key.values()) == expected
    assert set(keys) == set(table.column("notification_id").to_pylist())
    assert max(keys.values()) == 2, "the last batch was written again, under the same keys"
    assert all(by_key[key]["time"] == "2020-11-15T08:00:00Z" for key in keys)
    assert (found["quarantined"], found["ahead"]) == (4, 1), "the topic stamps what it takes"
    assert tg.Registry(tmp_path / "registry.db").version == 2
