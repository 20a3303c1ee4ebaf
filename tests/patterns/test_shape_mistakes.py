"""Shapes in streams that are refused, explained or too long."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tests.patterns.stream_readings import PEAK, pub, readings, run, sub
from tidegate.errors import TidegateError

REFUSED = {
    "greater": (f"{PEAK} > 2", "<= or <"),
    "at least": (f"{PEAK} >= 2", "<= or <"),
    "at least, mirrored": (f"2 <= {PEAK}", "<= or <"),
    "equal": (f"{PEAK} = 2", "<= or <"),
    "between": (f"{PEAK} BETWEEN 1 AND 2", "got BETWEEN"),
    "in": (f"{PEAK} IN (1, 2)", "got IN"),
    "not": (f"NOT {PEAK} <= 2", "one pattern"),
    "or": (f"n > 1 OR {PEAK} <= 2", "one pattern"),
    "two": (f"{PEAK} <= 2 AND {PEAK} <= 3", "one pattern"),
    "with another pattern": (f"{PEAK} <= 2 AND topk(1, 'PT1S', n)", "one pattern"),
    "in a pattern": (f"absent('PT1S', {PEAK} <= 2)", "one pattern"),
    "bare": (PEAK, "condition"),
    "in arithmetic": (f"{PEAK} + 1 <= 2", ""),
    "name without length": ("shape(n, 'spike', 'stream') <= 2", "how many readings"),
    "unknown name": ("shape(n, 'spoke', 'stream', 9) <= 2", "spike"),
    "two numbers": ("shape(n, (1, 2), 'stream') <= 2", "3 to 65536"),
    "constant": ("shape(n, (1, 1, 1), 'stream') <= 2", "not constant"),
    "length 2": ("shape(n, (1, 2, 3), 'stream', 2) <= 2", "whole number"),
    "length broken": ("shape(n, (1, 2, 3), 'stream', 4.5) <= 2", "whole number"),
    "too many arguments": ("shape(n, (1, 2, 3), 'stream', 9, 9) <= 2", "arguments of shape"),
    "texts": ("shape(n, ('a', 'b', 'c'), 'stream') <= 2", "numbers"),
    "reserved": ("shape(source, (1, 2, 3), 'stream') <= 2", "reserved"),
    "tolerance negative": (f"{PEAK} <= -1", "tolerance"),
    "tolerance infinite": (f"{PEAK} <= 1e308 * 10", "number"),
    "tolerance a text": (f"{PEAK} <= '1'", "number"),
    "tolerance an attribute": (f"{PEAK} <= m", "number"),
    "tolerance a truth value": (f"{PEAK} <= TRUE", "number"),
    "tolerance a shape": (f"{PEAK} <= {PEAK}", "number"),
}


@pytest.mark.parametrize(("where", "part"), REFUSED.values(), ids=REFUSED)
def test_refused(where, part):
    engine = tg.Engine([sub(f"{PEAK} <= 0", "old")])
    engine.publish(readings([0, 1, 0]))
    with pytest.raises(TidegateError) as caught:
        engine.subscribe(sub(where))
    message = str(caught.value)
    assert type(caught.value) is tg.TypeMismatch, message
    assert re.match(r"expected .+; got .+; at line 1, column \d+ of subscription 's'", message, re.DOTALL), message
    assert part in message
    assert run(engine, [pub("z", 9, 0)]) == [("old", 9, ("x2",))]


def test_explained():
    engine = tg.Engine([sub(f"t = 'a' AND {PEAK} <= 0")])
    assert "its source 1 with it" in str(engine.explain("s", pub("p", 0, 1, t="a")))
    assert "does not see it" in str(engine.explain("s", pub("p", 0, 1, t="b")))
    for other in (None, "text", True):
        assert not engine.explain("s", pub("p", 0, other, t="a")).held


def test_a_long_shape_is_kept(tmp_path):
    """As long as they may be; in a snapshot, too."""
    inner = {"op": "shape", "args": [{"property": "n"}, list(range(65_536)), "stream"]}
    engine = tg.Engine([sub({"op": "<=", "args": [inner, 1]})])
    engine.save(tmp_path / "here")
    engine = tg.Engine.load(tmp_path / "here")
    numbers = np.arange(65_538.0)
    numbers[-1] = 0
    table = pa.table(
        {
            "id": [f"p{i}" for i in range(len(numbers))],
            "source": ["x"] * len(numbers),
            "time": pa.array(np.arange(len(numbers)) * 1_000_000, pa.timestamp("us", "UTC")),
            "n": numbers,
        }
    )
    (found,) = engine.publish(table).to_pylist()
    assert found["publication_ids"] == ["p65535"]
    assert found["distance"] == 0
