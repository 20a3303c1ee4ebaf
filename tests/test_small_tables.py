"""Tables of a few rows, which are read as objects, against the same tables read column by column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.index import small_tables

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")
POINT = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])


def table(**columns):
    rows = len(next(iter(columns.values()))) if columns else 1
    fixed = {
        "id": pa.array([f"p{i}" for i in range(rows)]),
        "source": pa.array(["s"] * rows),
        "time": pa.array([NOW] * rows, INSTANT),
    }
    return pa.table({**fixed, **columns})


def column_by_column(monkeypatch, work):
    with monkeypatch.context() as patched:
        patched.setattr(small_tables, "_FEW", -1)
        return work()


COLUMNS = {
    "doubles": pa.array([1.5, None, -2.0]),
    "floats": pa.array([1.5, None, -2.0], pa.float32()),
    "integers": pa.array([2**62 + 1, None, -7]),
    "bytes": pa.array([1, None, 255], pa.uint8()),
    "decimals": pa.array([Decimal("1.5"), None, Decimal("-2")]),
    "truths": pa.array([True, None, False]),
    "texts": pa.array(["a", None, "😀"]),
    "large texts": pa.array(["a", None, "😀"], pa.large_string()),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "instants": pa.array([NOW, None, NOW], INSTANT),
    "nanoseconds": pa.array([1999, None, -1], pa.timestamp("ns", "UTC")),
    "in Zagreb": pa.array([NOW, None, NOW], pa.timestamp("us", "Europe/Zagreb")),
    "dates": pa.array([date(2026, 11, 16), None, date(1970, 1, 1)]),
    "points": pa.array([{"lon": 1.0, "lat": 2.0}, None, {"lon": 3.0, "lat": 4.0}], POINT),
    "numbers": pa.array([[1.0, float("nan")], None, []], pa.list_(pa.float64())),
    "words": pa.array([["a", "b"], None, []], pa.list_(pa.string())),
    "nothing": pa.nulls(3),
}
WHERE = (
    "x > 1", "x = 'a'", "x IS NULL", "x IS NOT NULL", "x = TRUE", "x >= TIMESTAMP('2026-11-16T00:00:00Z')",
    "x = TIMESTAMP('1970-01-01T00:00:00.000001Z')", "S_INTERSECTS(x, BBOX(0, 0, 2, 3))", "a_contains(x, ('a'))",
    "a_overlaps(x, (1))", "x = 4611686018427387905", "x LIKE '%😀%'", "source = 's'",
)  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("as_batch", [False, True], ids=["table", "record batch"])
def test_every_type_says_the_same(monkeypatch, kind, as_batch):
    given = table(x=COLUMNS[kind])
    if as_batch:
        given = given.combine_chunks().to_batches()[0]
    engine = tg.Engine(tg.Subscription(where, "u", where) for where in WHERE)
    assert engine.publish(given) == column_by_column(monkeypatch, lambda: engine.publish(given))
    assert len(engine.publish(given)) >= 3, "source = 's' at least"


def test_some_types_are_read_as_objects_and_some_are_not():
    assert small_tables.publications_of(table(x=COLUMNS["doubles"])) is not None
    assert small_tables.publications_of(table(x=COLUMNS["nanoseconds"])) is None
    assert small_tables.publications_of(table(x=pa.array(np.arange(9.0)))) is None


WRONG = {
    "infinity": table(x=pa.array([1.0, float("inf")])),
    "an empty id": table().set_column(0, "id", pa.array([""])),
    "a long id": table().set_column(0, "id", pa.array(["x" * 1025])),
    "no source": table().set_column(1, "source", pa.array([None], pa.string())),
    "no time": table().drop_columns(["time"]),
    "a number as time": table().set_column(2, "time", pa.array([1.0])),
    "a column event": table(event=pa.array([1.0])),
    "an unknown phase": table(phase=pa.array(["BEGIN"])),
    "an end before the start": table(
        start=pa.array([NOW], INSTANT), end=pa.array([datetime(2020, 1, 1, tzinfo=UTC)], INSTANT)
    ),
    "nowhere on Earth": table(location=pa.array([{"lon": 999.0, "lat": 0.0}], POINT)),
    "a null in a list": table(x=pa.array([[1.0, None]], pa.list_(pa.float64()))),
    "half a point": table(x=pa.array([{"lon": 1.0, "lat": None}], POINT)),
    "after the last year": table(x=pa.array([2**62], INSTANT)),
    "bytes that are no text": table(
        x=pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    ),
    "a map": table(x=pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))),
    "a column twice": pa.table([*table().columns, table().column(0)], [*table().column_names, "id"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_every_mistake_is_told_the_same(monkeypatch, what):
    engine = tg.Engine([tg.Subscription("s", "u", "x > 1")])
    with pytest.raises(tg.PublicationError) as few:
        engine.publish(WRONG[what])
    with pytest.raises(tg.PublicationError) as many:
        column_by_column(monkeypatch, lambda: engine.publish(WRONG[what]))
    assert str(few.value) == str(many.value)


def ids_of(grouped):
    return sorted(id for row in grouped.to_pylist() for id in row["subscription_ids"])


def test_ids_as_a_dictionary_while_subscriptions_come_and_go():
    engine = tg.Engine()
    one = table(x=pa.array([5.0]))
    for i in range(300):
        engine.subscribe(tg.Subscription(f"s{i}", "u", f"x > {i % 7}"))
        if i % 11 == 3:
            engine.unsubscribe(f"s{i - 1}")
        found = engine.publish(one, grouped=True, as_dictionary=True)
        assert pa.types.is_dictionary(found.schema.field("subscription_ids").type.value_type)
        assert ids_of(found) == ids_of(engine.publish(one, grouped=True))
    again = table(x=pa.array(np.full(20, 5.0)))
    assert ids_of(engine.publish(again, grouped=True, as_dictionary=True)) == ids_of(
        engine.publish(again, grouped=True)
    )


def test_ids_of_patterns_as_a_dictionary():
    wheres = ("topk(3, 'PT1H', x)", "x > 0", "absent('PT1S', x > 100)")
    one, other = (tg.Engine(tg.Subscription(where, "u", where) for where in wheres) for _ in range(2))
    for i in range(5):
        given = table(x=pa.array([5.0 - i])).set_column(0, "id", pa.array([f"p{i}"]))
        assert ids_of(one.publish(given, grouped=True, as_dictionary=True)) == ids_of(
            other.publish(given, grouped=True)
        )
