"""Attributes as JSON beside columns match as whole records do; what is none is a fault."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.records.drawn_records import plain, records, slowly, table_matches
from tests.strategies import expressions
from tests.test_laws import ALL
from tidegate.errors import PublicationError
from tidegate.model import RESERVED
from tidegate.records import expand, expand_attributes
from tidegate.testing import subscriptions


@given(given=records(), nodes=st.lists(expressions(ALL), min_size=1, max_size=3))
def test_attributes_beside_columns_match_as_whole_records_do(cut, given, nodes):
    """The columns from whole records, taken apart into columns and JSON, and put together again."""
    texts = [json.dumps(record) for record in given]
    engine = tg.Engine(subscriptions(nodes))
    for _, table in expand(texts, None)[0]:
        fields = table.select([name for name in table.column_names if name in RESERVED])
        good = {p.id: p for p in slowly(texts).values() if isinstance(p, tg.Publication)}
        ids = table.column("id").to_pylist()
        if len(set(ids)) < len(ids):
            continue
        attributes = [json.dumps({k: plain(v, 0) for k, v in good[id].attributes.items()}) for id in ids]
        parts, faults = expand_attributes(fields.append_column("more", pa.array(attributes)), "more", None)
        assert faults == []
        assert table_matches(engine, parts) == table_matches(engine, [(None, table)])


def table_of(*texts, **more):
    ids = pa.array([f"p{i}" for i in range(len(texts))])
    attributes = texts[0] if isinstance(texts[0], pa.Array) else pa.array(texts, pa.string())
    if isinstance(texts[0], pa.Array):
        ids = pa.array([f"p{i}" for i in range(len(attributes))])
    return pa.table({"id": ids, "attributes": attributes, **more})


def test_attributes_become_columns_and_null_is_none():
    given = table_of('{"n": 1, "t": "a"}', None, '{"n": null}', "{}", level=[1, 2, 3, 4])
    (((rows, table),), faults) = expand_attributes(given, "attributes", ["n"])
    assert faults == []
    assert rows.tolist() == [0, 1, 2, 3]
    assert table.to_pydict() == {"id": ["p0", "p1", "p2", "p3"], "level": [1, 2, 3, 4], "n": [1.0, None, None, None]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"id": "p1"}', "attribute names that are not reserved; got 'id'; at publication 'p1', row 1"),
        ('{"event": null}', "attribute names that are not reserved"),
        ('{"level": 2}', "an attribute that no other column has; got 'level'; at row 1"),
        ('{"": 1}', "a non-empty string as attribute name"),
        ('{"n": [1, null]}', "got None; at publication 'p1', attribute 'n'[1], row 1"),
        ('{"m": {"a": 1}}', "a value, a list or an object"),
        ("[]", "a JSON object; got []; at row 1"),
        ("", "a JSON object"),
    ],
)
def test_attributes_at_fault(text, reason):
    given = table_of('{"n": 1}', text, '{"n": "a"}', '{"n": 2}', level=[1, 2, 3, 4])
    parts, (fault,) = expand_attributes(given, "attributes", ["n"])
    assert fault.row == 1
    assert reason in fault.reason
    assert {tuple(rows.tolist()): table.column("n").to_pylist() for rows, table in parts} == {
        (0, 3): [1.0, 2.0],
        (2,): ["a"],
    }
    assert [table.column("level").to_pylist() for _, table in parts] == [[1, 4], [3]]


def test_the_row_without_a_usable_id_is_looked_at_too():
    given = pa.table(
        {
            "id": pa.array([None, "x" * 2000, "p"]),
            "more": ['{"n": [null]}', '{"n": [1, "a"]}', '{"n": [{"date": "2026-11-15"}]}'],
        }
    )
    parts, faults = expand_attributes(given, "more", None)
    assert ["publication '?'" in fault.reason for fault in faults] == [True, True]
    assert [(rows.tolist(), table.column("n").to_pylist()) for rows, table in parts] == [([2], [[date(2026, 11, 15)]])]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_kinds_of_text(kind):
    texts = pa.array(['{"n": 1}', None, '{"n": 1}'])
    texts = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    (((_, table),), faults) = expand_attributes(table_of(texts), "attributes", None)
    assert faults == []
    assert table.column("n").to_pylist() == [1.0, None, 1.0]


def test_bytes_that_are_no_text_are_a_fault():
    offsets, letters = pa.py_buffer(np.array([0, 2, 4], np.int32)), pa.py_buffer(b"{}{\xff")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, letters])
    parts, faults = expand_attributes(table_of(texts), "attributes", None)
    assert [rows.tolist() for rows, _ in parts] == [[0]]
    assert [fault.row for fault in faults] == [1]


@pytest.mark.parametrize(("column", "reason"), [("level", "JSON objects as strings"), ("none", "one column none")])
def test_a_column_that_is_no_json(column, reason):
    with pytest.raises(PublicationError, match=reason):
        expand_attributes(table_of("{}", level=[1]), column, None)
