"""Shape subscriptions that are refused, and publications without a shape, which are counted."""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tests.shapes.asked_shapes import NOON, asking, near_to, published, told
from tidegate.errors import LimitError, ParseError, SettingError, TidegateError, TypeMismatch
from tidegate.index.shapes import look_up_with
from tidegate.shapes.sphere_group import ShapeLookup

LIST = "a series of 3 to 65536 numbers"


@pytest.mark.parametrize(
    ("where", "error", "expected"),
    [
        ("shape(close, ()) <= 1", TypeMismatch, LIST),
        ("shape(close, [1]) <= 1", TypeMismatch, LIST),
        ("shape(close, (1, 2)) <= 1", TypeMismatch, LIST),
        ("shape(close, (2, 2, 2)) <= 1", TypeMismatch, "a series that is not constant, which has no shape"),
        ("shape(close, (1, 'a', 2)) <= 1", TypeMismatch, "numbers in the series of a shape"),
        ("shape(close, (1, TRUE, 2)) <= 1", TypeMismatch, "numbers in the series of a shape"),
        ("shape(close, 3) <= 1", TypeMismatch, "a list of numbers, or the name of a shape"),
        ("shape(close, 'head-and-shoulder') <= 1", TypeMismatch, "the name of a shape (head-and-shoulders"),
        ("shape(close, 'zzz') <= 1", TypeMismatch, "the name of a shape (see tidegate shapes)"),
        ("shape(time, (1, 2, 4)) <= 1", TypeMismatch, "an attribute that is not a reserved name"),
        ("shape(1, (1, 2, 4)) <= 1", TypeMismatch, "an attribute that is not a reserved name"),
        ("shape(close, (1, 2, 4), 'wide') <= 1", TypeMismatch, "'stretched' or 'stream' as third argument of shape"),
        ("shape(close, (1, 2, 4), 'stretched', 5) <= 1", TypeMismatch, "a number of readings only after 'stream'"),
        ("shape(close, (3, 3), 'stretched') <= 1", TypeMismatch, "a series that is not constant"),
        ("shape(close, 'spike', 'stream') <= 1", TypeMismatch, "how many readings, as fourth argument of shape"),
        ("shape(close, (1, 2, 4)) <= -1", TypeMismatch, "a tolerance of 0 or more"),
        ("shape(close, (1, 2, 4)) = 1", TypeMismatch, "<, <=, > or >= between a shape and its tolerance"),
        ("shape(close, (1, 2, 4)) <= no2", TypeMismatch, "a number to compare shape with"),
        ("shape(close, (1, 2, 4)) <= 'a'", TypeMismatch, "a number to compare shape with"),
        ("shape(close, (1, 2, 4)) BETWEEN 2 AND 1", TypeMismatch, "BETWEEN with the lower bound first"),
        ("shape(close, (1, 2, 4)) BETWEEN 'a' AND 3", TypeMismatch, "a text to compare with a text 'a'"),
        ("shape(close, (1, 2, 4)) BETWEEN 'a' AND 'b'", TypeMismatch, "a number to compare shape with"),
        ("shape(close, (1, 2, 4))", TypeMismatch, "a condition"),
        ("shape(close) <= 1", TypeMismatch, "2 to 4 arguments of shape"),
        ("2 * shape(close, (1, 2, 4)) <= 1", TypeMismatch, "a number, text, instant or truth value"),
        (near_to([1.0, nan, 2.0], 1), ParseError, "a finite number"),
        (near_to([1.0, inf, 2.0], 1), ParseError, "a finite number"),
        (near_to(np.array([1.0, nan, *range(40)]), 1), ParseError, "a finite number"),
        (near_to([1.0] * 1_000_000, 1), LimitError, "at most 65536 numbers in a list (limit series)"),
        (near_to(np.arange(1e6), 1), LimitError, "at most 65536 numbers in a list (limit series)"),
        (near_to([[1.0, 2.0], [3.0, 4.0]], 1), TypeMismatch, "numbers in the series of a shape"),
        (near_to([1, 2, 4], nan), ParseError, "a finite number"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, str) else None,
)
def test_a_subscription_is_refused_with_a_reason(where, error, expected):
    engine = tg.Engine([asking("shape(close, (1, 2, 4)) <= 0.1", "there")])
    with pytest.raises(error) as caught:
        engine.subscribe(asking(where))
    assert caught.value.expected.startswith(expected)
    assert len(str(caught.value)) < 1000
    assert len(engine) == 1
    assert told(engine, [1, 2, 4]) == ["p0"]


WITHOUT = [
    [],
    [1.0],
    [1.0, 2.0],
    [3.0, 3.0, 3.0],
    [1.0, nan, 4.0],
    [1.0, inf, 4.0],
    [1.0, -inf, 4.0],
    [float(i % 7) for i in range(1_000_000)],
    ["a", "b", "c"],
    [True, False, True],
    [1, "a", 3],
    "1, 2, 4",
    7.5,
    True,
    NOON,
    (7.1, 45.8),
]


def test_a_publication_without_a_shape_is_counted_and_matches_nothing(way_to_match):
    engine = tg.Engine(
        [asking("shape(close, (1, 2, 4)) <= 9"), asking("NOT shape(close, (1, 2, 4)) <= 0.1", "not"),
         asking("shape(close, 'spike') <= 99", "named"), asking("NOT shape(close, 'spike') <= 0.1", "not-named")]
    )  # fmt: skip
    assert engine.publish(published(*WITHOUT)) == []
    assert engine.shapeless == len(WITHOUT)
    assert engine.publish(published(None)) == []
    assert engine.shapeless == len(WITHOUT)
    assert [n.subscription for n in engine.publish(published([1, 2, 4]))] == ["named", "not-named", "s"]
    assert engine.shapeless == len(WITHOUT)


@pytest.mark.parametrize(
    ("values", "kind", "without"),
    [
        ([[1.0, 2.0, 4.0], [1.0, nan, 4.0], None, [], [5.0, 5.0, 5.0]], pa.list_(pa.float64()), 3),
        ([[1, 2, 4], [2, 2, 2]], pa.large_list(pa.int32()), 1),
        ([[1.0, 2.0, 4.0], [3.0, 3.0, 3.0]], pa.list_(pa.float32(), 3), 1),
        (["a", None], pa.string(), 1),
        ([1.5, 2.5, None], pa.float64(), 2),
        ([["a", "b", "c"]], pa.list_(pa.string()), 1),
    ],
)
def test_so_it_is_in_a_table(values, kind, without):
    engine = tg.Engine([asking("shape(close, (1, 2, 4)) <= 0.1")])
    n = len(values)
    table = pa.table({"id": [f"p{i}" for i in range(n)], "source": ["z"] * n, "time": pa.array([NOON] * n),
                      "close": pa.array(values, kind)})  # fmt: skip
    found = engine.publish(table)
    wanted = [f"p{i}" for i, value in enumerate(values) if value in ([1.0, 2.0, 4.0], [1, 2, 4])]
    assert [ids[0] for ids in found.column("publication_ids").to_pylist()] == wanted
    assert engine.shapeless == without


def test_a_shape_that_cannot_be_drawn_is_neither_near_nor_far():
    engine = tg.Engine(
        [asking("shape(close, (0, 1, 0, 1, 0), 'stretched') <= 99"),
         asking("shape(close, (0, 1, 0, 1, 0), 'stretched') > 0.01", "far")]
    )  # fmt: skip
    assert told(engine, [1, 2, 4]) == []  # at three numbers nothing of it is left
    assert told(engine, [1, 2, 4, 3, 1]) == ["p0", "p0"]
    assert engine.shapeless == 0


def test_tolerances_beyond_all_shapes_are_near_everything():
    engine = tg.Engine([asking(f"shape(close, (1, 2, 4)) <= {bound}", str(bound)) for bound in (2 * sqrt(3), 1e300)])
    assert told(engine, [4, 2, 1]) == ["p0", "p0"]


def test_an_unknown_way_to_look_up_is_refused():
    with pytest.raises(SettingError, match="one of fft, haar, paa as transform; got 'dct'"):
        look_up_with(ShapeLookup("dct"))
    assert issubclass(SettingError, TidegateError)
