"""Numbers beyond 2^53 compare exactly, in whatever form publications and subscriptions come.

The oracle is Python, whose comparisons of integers with floats are exact.
"""

from __future__ import annotations

import csv
import json
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.parts.profiles import examples
from tests.store.log_contents import frames
from tidegate.cli.publication_files import batches
from tidegate.covering import covers
from tidegate.language import from_json, parse, to_json
from tidegate.predicates.column import Table, column
from tidegate.predicates.exact_numbers import number_of, successor, text_of
from tidegate.predicates.filter import compile_filter
from tidegate.records import expand, table
from tidegate.records.stored_bodies import of_publications, of_table
from tidegate.runs.publication_files import publications as publications_of_file

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EDGES = [2**53, -(2**53), 2**60, -(2**60), 2**63, -(2**63), 2**64, 2**70, 0]
wholes = st.builds(operator.add, st.sampled_from(EDGES), st.integers(-3, 3))
#: Whole numbers in groups with the same double, their doubles and the next ones, and ordinary numbers.
anything = st.one_of(
    wholes,
    wholes.map(float),
    wholes.map(lambda n: float(np.nextafter(float(n), np.inf))),
    st.sampled_from([0.5, -2.5, 1e300, 2**53 + 0.5]),
    st.integers(-(2**63), 2**64 - 1),
)


def kept(number):
    """As publications and expressions keep it: whole numbers of more than 64 bits are doubles."""
    return number if isinstance(number, float) or -(2**63) <= number < 2**64 else float(number)


class Condition(NamedTuple):
    """An expression on ``n`` as text or as JSON, what it means, and the numbers in it."""

    where: str | dict
    means: Callable[[float | int], bool]
    bounds: list[float | int]


@st.composite
def conditions(draw):
    op = draw(st.sampled_from([*COMPARE, "between", "in", "or", "and"]))
    given_bounds = sorted((draw(anything) for _ in range(3)), key=kept)
    a, b, c = bounds = [kept(number) for number in given_bounds]
    args = given_bounds[:1]
    if op in COMPARE:
        means, text = (lambda n: COMPARE[op](n, a)), f"n {op} {args[0]!r}"
    elif op == "between":
        args = given_bounds[:2]
        means, text = (lambda n: a <= n <= b), "n BETWEEN {!r} AND {!r}".format(*args)
    elif op == "in":
        args = [given_bounds * draw(st.sampled_from([1, 12]))]  # also the list that is one node
        means, text = (lambda n: n in bounds), f"n IN ({', '.join(map(repr, args[0]))})"
    elif op == "or":
        means, text = (lambda n: n < a or n == b or n >= c), "n < {!r} OR n = {!r} OR n >= {!r}".format(*given_bounds)
    else:
        means, text = (lambda n: a < n < c and n != b), "n > {!r} AND n <> {!r} AND n < {!r}".format(*given_bounds)
    negated = draw(st.booleans())
    where = f"NOT ({text})" if negated else text
    if op not in ("or", "and") and draw(st.booleans()):
        inner = {"op": op, "args": [{"property": "n"}, *args]}
        where = {"op": "not", "args": [inner]} if negated else inner
    return Condition(where, lambda n: means(n) is not negated, bounds)


def pub(i, **attributes):
    return tg.Publication(f"p{i}", "z7", NOW, attributes)


def engine_of(wheres):
    return tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(wheres)])


def wanted(conditions, numbers):
    pairs = [(i, j) for i, number in enumerate(numbers) for j, c in enumerate(conditions) if c.means(number)]
    return {(f"p{i}", f"s{j}") for i, j in pairs}


def told(engine, given):
    rows = engine.publish(given, grouped=True).to_pylist()
    return {(row["publication_id"], id) for row in rows for id in row["subscription_ids"]}


# --- the order of numbers -------------------------------------------------------------------------------------------


@given(anything, anything)
def test_texts_are_in_the_order_of_numbers(a, b):
    a, b = kept(a), kept(b)
    assert (text_of(a) < text_of(b), text_of(a) == text_of(b)) == (a < b, a == b)
    assert number_of(text_of(a)) == a
    assert a < successor(a)
    assert b <= a or successor(a) <= b


@pytest.mark.parametrize(
    ("kind", "edges"),
    [(pa.int64(), (2**53, -(2**53), 2**63 - 4, -(2**63) + 3)), (pa.uint64(), (2**53, 2**63, 2**64 - 4, 3))],
    ids=str,
)
def test_a_column_has_the_points_of_its_values(kind, edges):
    numbers = [edge + more for edge in edges for more in range(-3, 4)]
    array = pa.array([None, *numbers, None], kind)[1:]
    at = column("long", "n")
    found = at.how.points("n", Table({"n": array}, len(array))).to_pylist()
    assert found == [*(at.point(pub(0, n=number)) for number in numbers), None]
    assert found[:-1] == [text_of(number) for number in numbers]


# --- objects, tables, snapshots -------------------------------------------------------------------------------------


@examples(150)
@given(st.lists(conditions(), min_size=1, max_size=5), st.lists(anything, min_size=1, max_size=12))
def test_engines_compare_exactly(conditions, given_numbers):
    numbers = [kept(number) for number in given_numbers]
    expected = wanted(conditions, numbers)
    engine = engine_of([condition.where for condition in conditions])
    publications = [pub(i, n=number) for i, number in enumerate(given_numbers)]
    assert [p.attributes["n"] for p in publications] == numbers
    assert told(engine, publications) == expected  # twelve in a batch, a few one by one
    assert {pair for p in publications for pair in told(engine, [p])} == expected
    texts = [
        json.dumps({"id": p.id, "source": p.source, "time": NOW.isoformat(), **p.attributes}) for p in publications
    ]
    parts, faults = expand(texts, None)
    assert (sorted(row for rows, _ in parts for row in rows.tolist()), faults) == ([*range(len(texts))], [])
    assert {pair for _, part in parts for pair in told(engine, part)} == expected
    whole = table(publications)
    if whole is not None:
        assert told(engine, whole) == expected


@examples(100)
@given(conditions(), conditions())
def test_covering_is_right(a, b):
    """Both ways, because between the bounds of two conditions neither changes."""
    bounds = [*a.bounds, *b.bounds]
    edges = {n for bound in bounds for n in (bound, successor(bound), -successor(-bound))} | {-1e308, 1e308}
    one, other = (compile_filter(parse(c.where) if isinstance(c.where, str) else from_json(c.where)) for c in (a, b))
    assert covers(one, other) is all(a.means(kept(n)) or not b.means(kept(n)) for n in edges)


def test_attributes_and_arithmetic():
    engine = engine_of(["n > m", "n = m", "n < m", "n + 0 = m", "n * 1 >= 9007199254740993", "n - m = 0"])
    pairs = [(2**53, 2**53 + 1), (2**53 + 1, 2.0**53), (2**53 + 1, 2**53 + 1), (2.0**53 + 2, 2**53 + 1), (1, 1.0)]
    expected = [
        {"s2", "s5"},  # as doubles they are equal
        {"s0", "s3", "s5"},
        {"s1", "s5"},
        {"s0", "s4"},
        {"s1", "s3", "s5"},
    ]
    several = [pub(i, n=n, m=m) for i, (n, m) in enumerate(pairs)]
    found = {(f"p{i}", id) for i, ids in enumerate(expected) for id in ids}
    assert told(engine, several) == found
    assert {pair for p in several for pair in told(engine, table([p]))} == found
    whole = {
        "id": ["p0", "p2"] * 6,
        "source": ["z7"] * 12,
        "time": pa.array([NOW] * 12, pa.timestamp("us", "UTC")),
        "n": pa.array([2**53, 2**53 + 1] * 6, pa.int64()),
        "m": pa.array([2**53 + 1] * 12, pa.uint64()),
    }
    assert told(engine, pa.table(whole)) == {pair for pair in found if pair[0] in ("p0", "p2")}


def test_bags_are_of_doubles():
    engine = engine_of(["a_contains(b, (9007199254740993))"])
    assert told(engine, [pub(0, b=[2**53]), pub(1, b=[2**53 - 1])]) == {("p0", "s0")}


# --- every form -----------------------------------------------------------------------------------------------------

NUMBERS = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**53) - 1, -(2**63)]
WHERES = [
    "n = 9007199254740993",
    "n <> 9007199254740993",
    "n > 9007199254740992",
    "n <= -9007199254740993",
    "n IN (9223372036854775807, 5)",
    "n BETWEEN 9007199254740993 AND 9223372036854775806",
    "NOT n < 9007199254740993",
    "n >= -9223372036854775807 AND n < 9007199254740992",
]
MEANT = [
    lambda n: n == 2**53 + 1,
    lambda n: n != 2**53 + 1,
    lambda n: n > 2**53,
    lambda n: n <= -(2**53) - 1,
    lambda n: n in (2**63 - 1, 5),
    lambda n: 2**53 + 1 <= n <= 2**63 - 2,
    lambda n: n >= 2**53 + 1,
    lambda n: -(2**63) + 1 <= n < 2**53,
]


def expected_of(numbers):
    return wanted([Condition(*pair, []) for pair in zip(WHERES, MEANT, strict=True)], numbers)


def arrow(numbers, kind=None):
    count = len(numbers)
    return pa.table(
        {
            "id": [f"p{i}" for i in range(count)],
            "source": ["z7"] * count,
            "time": pa.array([NOW] * count, pa.timestamp("us", "UTC")),
            "n": pa.array(numbers, kind or pa.int64()),
        }
    )


@pytest.mark.parametrize("times", [1, 4], ids=["few", "many"])
def test_tables_of_all_libraries(times):
    numbers, engine = NUMBERS * times, engine_of(WHERES)
    whole = arrow(numbers)
    frame = whole.to_pandas()
    for given_table in (whole, frame, frame.astype({"n": "Int64"}), polars.from_arrow(whole)):
        assert told(engine, given_table) == expected_of(numbers)
    unsigned = [abs(number) for number in numbers] + [2**64 - 1]
    for given_table in (arrow(unsigned, pa.uint64()), arrow(unsigned, pa.uint64()).to_pandas()):
        assert told(engine, given_table) == expected_of(unsigned)


MIXED = [*NUMBERS, 0.5, 9007199254740994.0, 2**64 - 1, 1e300, "", 5]


@pytest.mark.parametrize("numbers", [NUMBERS, MIXED], ids=["whole", "mixed"])
def test_csv(tmp_path, numbers):
    path, engine = tmp_path / "readings.csv", engine_of(WHERES)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "source", "time", "n"])
        writer.writerows([f"p{i}", "z7", NOW.isoformat(), number] for i, number in enumerate(numbers))
    expected = {pair for pair in expected_of([0 if n == "" else n for n in numbers]) if numbers[int(pair[0][1:])] != ""}
    for size in (100, 2):
        found = [batch.rows for batch in batches(path, size=size)]
        assert {pair for rows in found for pair in told(engine, rows)} == expected
        parts = [rows for part in publications_of_file(str(path), {"n"}, size) for rows in part.tables]
        assert {pair for rows in parts for pair in told(engine, rows)} == expected
    lines = {
        row: batch.numbers[i] for batch in batches(path) for i, row in enumerate(batch.rows.column("id").to_pylist())
    }
    assert lines == {f"p{i}": i + 2 for i in range(len(numbers))}


def test_a_log_and_a_snapshot_and_a_registry(tmp_path):
    numbers = [number for number in MIXED if number != ""]
    with tg.Registry(tmp_path / "registry.db") as registry:
        for i, where in enumerate(WHERES):
            as_json = to_json(parse(where)) if i % 2 else where
            registry.subscribe(tg.Subscription(f"s{i}", "ann", as_json))
        engine = tg.Engine([registry.subscription(f"ann/s{i}") for i in range(len(WHERES))])
    log = tg.Log(tmp_path / "log")
    log.append([pub(i, n=number) for i, number in enumerate(numbers)])
    log.append(arrow(NUMBERS))
    log.append([{"id": f"p{i}", "source": "z7", "time": NOW, "n": number} for i, number in enumerate(numbers)])
    first = {pair for frame in frames(log) for pair in told(engine, pa.Table.from_batches([frame.batch]))}
    assert first == expected_of(numbers) | expected_of(NUMBERS)
    log.close()
    engine.save(tmp_path / "saved")
    again = tg.Engine.load(tmp_path / "saved")
    assert told(again, [pub(i, n=number) for i, number in enumerate(numbers)]) == expected_of(numbers)


def test_a_history_keeps_them():
    bodies = of_publications([pub(0, n=2**53 + 1), pub(1, n=2**64 - 1)])
    assert [json.loads(body)["attributes"]["n"] for body in bodies] == [2**53 + 1, 2**64 - 1]
    assert of_table(arrow(NUMBERS)) == of_publications([pub(i, n=number) for i, number in enumerate(NUMBERS)])


def test_on_spark(spark, tmp_path):
    pq.write_table(arrow(NUMBERS), tmp_path / "readings.parquet")
    frame = spark.read.parquet(str(tmp_path / "readings.parquet"))
    subscriptions = [tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(WHERES)]
    rows = tg.match(frame, subscriptions, grouped=True).toArrow().to_pylist()
    assert {(row["publication_id"], id) for row in rows for id in row["subscription_ids"]} == expected_of(NUMBERS)
