"""``tg.match`` on a real Spark: the same answers as in process, from every form of input, and clear errors."""

import os
from datetime import UTC, datetime, timedelta

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

import tidegate as tg
import tidegate.patterns
from tests.drawn_publications import publications
from tests.parts.profiles import examples
from tests.patterns import strategies as patterned
from tests.registered import registered
from tests.strategies import CONDITIONS, expressions
from tidegate import testing as laws
from tidegate.runs.quarantine import Quarantine
from tidegate.store.registry import Registry

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)
FAMILIES = laws.families()
PATTERNS = tidegate.patterns.FAMILIES

SUBSCRIPTIONS = [
    tg.Subscription("warm", "ann", "temperature > 20"),
    tg.Subscription("red", "bob", "kind = 'red' AND temperature > 0"),
    tg.Subscription("tagged", "cid", "a_contains(tags, ('x'))"),
    tg.Subscription("near", "dan", "S_DWITHIN(location, POINT(16 45.8), 1000)"),
]
EXPECTED = {("p0", "warm"), ("p0", "near"), ("p1", "red"), ("p2", "warm"), ("p2", "red"), ("p2", "tagged")}


def readings():
    point = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
    return pa.table(
        {
            "id": ["p0", "p1", "p2", "p3"],
            "source": ["z1", "z1", "z2", "z2"],
            "time": pa.array([TIME + timedelta(seconds=i) for i in range(4)], pa.timestamp("us", "UTC")),
            "location": pa.array([{"lon": 16.001, "lat": 45.8}, None, None, None], point),
            "temperature": pa.array([21.0, 3.0, 25.0, None]),
            "kind": ["blue", "red", "red", "red"],
            "tags": [[], ["y"], ["x", "y"], None],
        }
    )


def pairs(found):
    rows = found.toArrow().to_pylist()
    if rows and "subscription_ids" in rows[0]:
        return {(row["publication_id"], id) for row in rows for id in row["subscription_ids"]}
    return {(row["publication_ids"][0], row["subscription_id"]) for row in rows}


@pytest.mark.parametrize("family", sorted(FAMILIES))
@examples(1)
@given(data=st.data())
def test_spark_and_in_process_agree(spark, family, data):
    ops = [op for op in FAMILIES[family] if op in CONDITIONS]
    nodes = data.draw(st.lists(expressions(ops), min_size=10, max_size=20))
    laws.spark_agrees(spark, nodes, data.draw(publications(most=40)))


@pytest.mark.parametrize("family", sorted(PATTERNS))
@examples(1)
@given(data=st.data())
def test_spark_and_in_process_agree_on_patterns(spark, family, data):
    """And on conditions beside them: subscriptions of one family and some plain ones, publications out of order."""
    wheres = data.draw(st.lists(getattr(patterned, family)(), min_size=8, max_size=16))
    guards = data.draw(st.lists(st.sampled_from(["", "n > 0 AND "]), min_size=16, max_size=16))
    every = [guard + where for guard, where in zip(guards, wheres, strict=False)] + patterned.FILTERS[:2]
    found = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(every)]
    found.append(tg.Subscription("bounded", "bob", wheres[0], patterned.at(4), patterned.at(12)))
    laws.patterns_agree_on_spark(spark, found, data.draw(patterned.streams(30, 40)))


def test_patterns_alone_and_many_publications(spark):
    """Several partitions have publications of every shard, and no subscription is plain."""
    found = [
        *(tg.Subscription(f"best{k}", "ann", f"topk({k}, 'PT{k}M', n)") for k in range(1, 9)),
        *(tg.Subscription(f"gone{m}", "bob", f"absent('PT1M', n < {m}, source)") for m in range(5, 10)),
        *(tg.Subscription(f"both{m}", "cid", f"together('PT2M', n < {m}, n > {99 - m})") for m in range(5)),
    ]
    publications = [
        tg.Publication(f"p{i:04d}", f"z{i % 7}", TIME + timedelta(seconds=i * 7919 % 3000), {"n": i * 31 % 100})
        for i in range(3000)
    ]
    laws.patterns_agree_on_spark(spark, found, publications)


def test_patterns_and_no_publications(spark):
    found = [tg.Subscription("best", "ann", "topk(3, 'PT1M', temperature)")]
    nothing = spark.createDataFrame(readings()).where("id = 'none'")
    assert tg.match(nothing, found).toArrow().num_rows == 0
    assert tg.match(nothing, found, grouped=True).columns == ["publication_id", "time", "subscription_ids"]


def test_flat_and_grouped(spark):
    frame = spark.createDataFrame(readings())
    assert pairs(tg.match(frame, SUBSCRIPTIONS)) == EXPECTED
    grouped = tg.match(frame, SUBSCRIPTIONS, grouped=True)
    assert pairs(grouped) == EXPECTED
    assert grouped.columns == ["publication_id", "time", "subscription_ids"]
    engine = tg.Engine(SUBSCRIPTIONS)
    told = tg.match(frame, SUBSCRIPTIONS).orderBy("time", "subscription_id").toArrow()
    assert told.to_pylist() == engine.publish(readings()).to_pylist()


def test_composes_with_spark_code(spark):
    frame = spark.createDataFrame(readings()).withColumn("temperature", F.col("temperature") - 10)
    counts = tg.match(frame, SUBSCRIPTIONS).groupBy("subscription_id").count().toArrow().to_pylist()
    assert {row["subscription_id"]: row["count"] for row in counts} == {"red": 1, "tagged": 1, "near": 1}


@pytest.mark.parametrize("form", ["string", "variant", "map", "struct"])
def test_attributes_in_one_column(spark, form):
    table = readings()
    names = ["temperature", "kind"]
    texts = [orjson.dumps({n: row[n] for n in names if row[n] is not None}).decode() for row in table.to_pylist()]
    frame = spark.createDataFrame(table.drop_columns([*names, "tags"]).append_column("attributes", pa.array(texts)))
    if form == "variant":
        frame = frame.withColumn("attributes", F.parse_json("attributes"))
    elif form == "struct":
        frame = frame.withColumn("attributes", F.from_json("attributes", "temperature double, kind string"))
    elif form == "map":
        number = F.get_json_object("attributes", "$.temperature").cast("double")
        frame = frame.withColumn("attributes", F.create_map(F.lit("temperature"), number))
    expected = {pair for pair in EXPECTED if pair[1] != "tagged"}
    if form == "map":
        expected = {pair for pair in expected if pair[1] in ("near", "warm")}
    found = tg.match(frame, SUBSCRIPTIONS)
    assert pairs(found) == expected


def test_subscriptions_from_a_frame(spark):
    rows = [(s.id, s.subscriber, s.where) for s in SUBSCRIPTIONS]
    frame = spark.createDataFrame(rows, "id string, subscriber string, where string")
    assert pairs(tg.match(spark.createDataFrame(readings()), frame)) == EXPECTED
    with pytest.raises(tg.SubscriptionError, match="columns id, subscriber and where; got columns id, subscriber"):
        tg.match(spark.createDataFrame(readings()), frame.drop("where"))


def test_a_registry_as_it_is_when_a_batch_is_planned(spark, tmp_path):
    registry = Registry(tmp_path / "registry.db")
    registry.subscribe(*SUBSCRIPTIONS)
    registry.unsubscribe("bob/red")
    found = tg.match(spark.createDataFrame(readings()), registry)
    registry.unsubscribe("ann/warm")  # later than the call
    left = {("p0", "ann/warm"), ("p0", "dan/near"), ("p2", "ann/warm"), ("p2", "cid/tagged")}
    assert pairs(found) == left
    left -= {("p0", "ann/warm"), ("p2", "ann/warm")}
    assert pairs(tg.match(spark.createDataFrame(readings()), registry)) == left


def test_a_stream_with_a_registry_that_changes(spark, tmp_path):
    """Each batch is matched with what is subscribed when it is first seen, and again the same when it is retried."""
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    registry = Registry(tmp_path / "registry.db")
    registry.subscribe(SUBSCRIPTIONS[0])
    schema = spark.createDataFrame(readings()).schema

    def run():
        stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
        found = tg.match(stream, registry)
        query = (
            found.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return pairs(spark.read.parquet(str(tmp_path / "out")))

    pq.write_table(readings(), tmp_path / "in" / "1.parquet")
    assert run() == {("p0", "ann/warm"), ("p2", "ann/warm")}
    commits = tmp_path / "checkpoint" / "commits"
    registry.subscribe(SUBSCRIPTIONS[1])
    later = readings().set_column(0, "id", pa.array(["q0", "q1", "q2", "q3"]))
    pq.write_table(later, tmp_path / "in" / "2.parquet")
    both = {("q0", "ann/warm"), ("q2", "ann/warm"), ("q1", "bob/red"), ("q2", "bob/red")}
    assert run() == {("p0", "ann/warm"), ("p2", "ann/warm"), *both}
    registry.unsubscribe("bob/red")
    for name in ("1", ".1.crc"):  # as if the query had been killed before it wrote that batch 1 is done
        (commits / name).unlink(missing_ok=True)
    assert registry.pin(orjson.loads((tmp_path / "checkpoint" / "metadata").read_bytes())["id"], 1) == 2
    assert run() == {("p0", "ann/warm"), ("p2", "ann/warm"), *both}


@pytest.mark.parametrize("grouped", [False, True])
def test_a_stream_with_patterns(spark, tmp_path, grouped):
    """Each micro-batch appears together; the state is in the checkpoint, and subscriptions may change between runs."""
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    registry, engine, expected = Registry(tmp_path / "registry.db"), tg.Engine(), []
    wheres = ("temperature > 20", "topk(2, 'PT30S', temperature)", "absent('PT4S', temperature > 20, source)")
    wheres += ("together('PT10S', temperature > 20, kind = 'red')", "topk(2, 3, temperature)")

    def change(*ids):
        for id in ids:
            subscription = tg.Subscription(id, "ann", wheres[int(id[1])])
            registry.subscribe(subscription)
            engine.subscribe(registered(subscription))

    def run():
        schema = spark.createDataFrame(readings()).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        writing = tg.match(stream, registry, grouped=grouped).writeStream.format("parquet")
        query = (
            writing.option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = spark.read.parquet(str(tmp_path / "out")).toArrow()
        return laws._told_of(found) if grouped else sorted(found.to_pylist(), key=str)

    def wanted():
        whole = pa.concat_tables(expected)
        return laws._told_of(whole) if grouped else sorted(whole.to_pylist(), key=str)

    change("s0", "s1", "s2", "s3")
    for round in range(2):
        table = readings()
        for number in range(2 * round, 2 * round + 2):
            times = [TIME + timedelta(seconds=6 * number + (3 * i) % 4) for i in range(4)]
            table = table.set_column(0, "id", pa.array([f"q{number}-{i}" for i in range(4)]))
            table = table.set_column(2, "time", pa.array(times, pa.timestamp("us", "UTC")))
            path = tmp_path / "in" / f"{number}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1e9 + number, 1e9 + number))  # the order in which Spark takes them
            expected.append(engine.publish(table, grouped=grouped))
        assert run() == wanted()
        if not round:
            registry.unsubscribe("ann/s1")
            engine.unsubscribe("ann/s1")
            change("s4")
    assert any("s4" in str(row) for row in wanted())


def test_a_stream_with_patterns_wants_a_registry(spark, tmp_path):
    schema = spark.createDataFrame(readings()).schema
    stream = spark.readStream.schema(schema).parquet(str(tmp_path))
    with pytest.raises(tg.SubscriptionError, match="a Registry, for a stream and subscriptions with patterns"):
        tg.match(stream, [tg.Subscription("best", "ann", "topk(2, 3, temperature)")])


def test_rows_that_are_no_publications_are_kept_with_the_reason(spark, tmp_path):
    table = readings().to_pylist()
    table[1]["id"] = None
    table[2]["temperature"] = float("nan")
    frame = spark.createDataFrame(pa.Table.from_pylist(table, readings().schema)).coalesce(1)
    found = tg.match(frame, SUBSCRIPTIONS, quarantine=tmp_path / "quarantine")
    assert pairs(found) == {("p0", "warm"), ("p0", "near")}
    faults = Quarantine.at(tmp_path / "quarantine").faults()
    assert [fault.reason.split(";")[0] for fault in faults] == [
        "expected a value of id in every row",
        "expected finite numbers, null for missing",
    ]
    assert "'kind': 'red'" in faults[0].row


def test_malformed_attributes_are_kept_with_the_reason(spark, tmp_path):
    texts = pa.array(['{"temperature": 30}', "{broken", '{"temperature": 40}', "[1]"])
    frame = spark.createDataFrame(readings().select(["id", "source", "time"]).append_column("attributes", texts))
    found = tg.match(frame.coalesce(1), SUBSCRIPTIONS, quarantine=tmp_path / "quarantine")
    assert pairs(found) == {("p0", "warm"), ("p2", "warm")}
    assert len(Quarantine.at(tmp_path / "quarantine").faults()) == 2


WRONG = [
    (lambda spark: tg.match("publications", SUBSCRIPTIONS), tg.PublicationError, "a Spark DataFrame of publications"),
    (lambda spark: tg.match(spark.range(3), SUBSCRIPTIONS), tg.PublicationError, "a column source; got columns id"),
    (lambda spark: tg.match(_typed(spark, "time", "bigint"), []), tg.PublicationError, "timestamps with a time zone"),
    (lambda spark: tg.match(_typed(spark, "time", "timestamp_ntz"), []), tg.PublicationError, "(for dicts, tables"),
    (lambda spark: tg.match(_typed(spark, "id", "bigint"), []), tg.PublicationError, "strings as id; got bigint"),
    (lambda spark: tg.match(_typed(spark, "attributes", "double"), []), tg.PublicationError, "a VARIANT, a map"),
    (lambda spark: tg.match(_typed(spark, "x", "map<string,int>"), []), tg.PublicationError, "got map<string,int>"),
    (lambda spark: tg.match(_typed(spark, "event", "string"), []), tg.PublicationError, "columns start and end"),
    (lambda spark: tg.match(_typed(spark, "x", "int"), ["a > 1"]), tg.SubscriptionError, "a Subscription; got 'a > 1'"),
    (lambda spark: tg.match(_typed(spark, "x", "int"), SUBSCRIPTIONS[0]), tg.SubscriptionError, "a list, a DataFrame"),
    (
        lambda spark: tg.match(_typed(spark, "x", "int"), [*SUBSCRIPTIONS, SUBSCRIPTIONS[0]]),
        tg.SubscriptionError,
        "an id that is not in use",
    ),
    (
        lambda spark: tg.match(_typed(spark, "x", "int"), [tg.Subscription("s", "ann", "a >")]),
        tg.ParseError,
        "expected",
    ),
]


def _typed(spark, name, kind):
    frame = spark.createDataFrame(readings().select(["id", "source", "time"]))
    return frame.withColumn(name, F.lit(None).cast(kind))


@pytest.mark.parametrize(("call", "error", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_mistakes_are_said_at_once_in_one_sentence(spark, call, error, said):
    with pytest.raises(error, match=said.replace("(", r"\(")):
        call(spark)
