"""How many bytes rows are said to take, beside how many they take as JSON."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa
import pytest

from tidegate.records.row_objects import row_objects
from tidegate.records.row_sizes import row_sizes

TEXTS = ["", "x", None, 50_000 * "x", "é" * 3000]
TIME = pa.array([0] * 5, pa.timestamp("us", tz="UTC"))
TABLE = pa.table({
    "id": ["p", "q", "r", "s", "t" * 999],
    "source": ["z"] * 5,
    "time": TIME,
    "text": TEXTS,
    "long": pa.array(TEXTS, pa.large_string()),
    "bag": [["a"], None, [], ["b" * 20_000, None, ""] * 3, ["x", "y"]],
    "series": pa.array([None, [1.5] * 5000, [], [0.25], None], pa.list_(pa.float64())),
    "n": [1, None, 2**60, 3, 4],
    "place": [{"lon": 8.0, "lat": 46.0}, None, None, None, None],
})  # fmt: skip


@pytest.mark.parametrize("content", [TABLE, pa.concat_tables([TABLE[:2], TABLE[2:]]), TABLE.to_batches()[0]])
def test_sizes_are_about_those_of_json(content):
    actual = np.array([len(orjson.dumps(row)) for row in row_objects(TABLE)])
    for rows in ([0, 1, 2, 3, 4], [3], [4, 1], [2, 2]):
        found = row_sizes(content, np.array(rows))
        assert (actual[rows] / 3 <= found).all()
        assert (found <= 4 * actual[rows] + 300).all()
