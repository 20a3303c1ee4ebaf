"""Every law of ``tidegate.testing`` over every registered family."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.drawn_publications import publications
from tests.parts.profiles import examples
from tests.strategies import CONDITIONS, conditions, expressions
from tidegate import testing as laws
from tidegate.index import axes, segment
from tidegate.language import parse
from tidegate.predicates.family import FUNCTIONS, MEASURES
from tidegate.predicates.filter import compile_filter

FAMILIES = laws.families()
ALL = [op for op in (*FUNCTIONS, *MEASURES) if op in CONDITIONS]


@pytest.fixture(params=sorted(FAMILIES))
def ops(request):
    """The operators of one family."""
    missing = [op for op in FAMILIES[request.param] if op not in CONDITIONS]
    if missing:
        pytest.fail(f"family {request.param} has no strategy for {', '.join(missing)}: see tests/strategies.py")
    return FAMILIES[request.param]


@pytest.fixture
def small_tables(monkeypatch):
    """Columns go into buckets after a handful of bounds, and hits overflow after a few publications."""
    monkeypatch.setattr(axes, "MOST_CODES", 4)
    monkeypatch.setattr(axes, "MOST_ROWS", 3)
    monkeypatch.setattr(axes, "ROW_BITS", 1)
    monkeypatch.setattr(axes, "FEW_BUCKETS", 3)
    monkeypatch.setattr(axes, "MANY_BUCKETS", 3)
    monkeypatch.setattr(segment, "_HITS", 1)
    monkeypatch.setattr(segment, "_BATCH", 3)


@given(data=st.data())
def test_text_and_json_round_trip(ops, data):
    laws.round_trips(data.draw(expressions(ops)))


@given(data=st.data())
def test_candidates_contain_matches(ops, data):
    laws.candidates_contain_matches(data.draw(conditions(ops)), data.draw(publications(mixed=True)))


@given(data=st.data())
def test_covering_is_sound(ops, data):
    nodes = data.draw(st.lists(conditions(ops), min_size=2, max_size=5))
    laws.covering_is_sound(nodes, data.draw(publications(mixed=True)))


@given(data=st.data())
def test_missing_never_matches(way_to_match, ops, data):
    laws.missing_never_matches(data.draw(conditions(ops)), data.draw(publications(mixed=True, most=3)))


@given(data=st.data())
def test_points_agree(ops, data):
    laws.points_agree(data.draw(conditions(ops)), data.draw(publications()))


@given(data=st.data())
def test_engine_equals_oracle(way_to_match, ops, data):
    nodes = data.draw(st.lists(expressions(ops), min_size=1, max_size=6))
    laws.engine_equals_oracle(nodes, data.draw(publications(mixed=True)), oracle.holds)


@given(data=st.data())
def test_bucketed_engine_equals_oracle(way_to_match, small_tables, ops, data):
    nodes = data.draw(st.lists(expressions(ops, most=3), min_size=8, max_size=24))
    laws.engine_equals_oracle(nodes, data.draw(publications(mixed=True)), oracle.holds)


@examples(30)
@given(nodes=st.lists(expressions(ALL), min_size=1, max_size=20), batch=publications(mixed=True, most=12))
def test_families_together_equal_oracle(way_to_match, nodes, batch):
    laws.engine_equals_oracle(nodes, batch, oracle.holds)


@given(data=st.data())
def test_objects_and_tables_agree(way_to_match, ops, data):
    nodes = data.draw(st.lists(expressions(ops), min_size=1, max_size=4))
    laws.objects_and_tables_agree(nodes, data.draw(publications()))


@given(data=st.data())
def test_index_names_what_is_asked(ops, data):
    laws.index_names_what_is_asked(data.draw(conditions(ops)))


@given(
    nodes=st.lists(expressions(ALL), min_size=1, max_size=6),
    batch=publications(mixed=True),
    cuts=st.lists(st.integers(0, 8), max_size=4),
)
def test_cutting_changes_nothing(way_to_match, nodes, batch, cuts):
    laws.cutting_changes_nothing(nodes, batch, cuts)


@examples(10)
@given(data=st.data())
def test_restart_changes_nothing(way_to_match, ops, data):
    nodes = data.draw(st.lists(expressions(ops), min_size=1, max_size=6))
    batch = data.draw(publications(mixed=True))
    with TemporaryDirectory() as directory:
        laws.restart_changes_nothing(nodes, batch, directory)


_changes = st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "publish"]), st.integers(0, 9)), max_size=25)


@given(nodes=st.lists(expressions(ALL), min_size=1, max_size=10), batch=publications(mixed=True), changes=_changes)
def test_changes_leave_no_trace(way_to_match, nodes, batch, changes):
    laws.changes_leave_no_trace(nodes, batch, changes)


@pytest.mark.parametrize("op", sorted(FUNCTIONS))
def test_the_example_of_a_function_is_one(op):
    node = parse(FUNCTIONS[op].example)
    assert node.op == op
    laws.round_trips(node)
    assert compile_filter(node).clauses


@examples(20)
@given(nodes=st.lists(expressions(ALL, most=3), min_size=8, max_size=40), batch=publications(mixed=True, most=12))
def test_bucketed_families_together_equal_oracle(small_tables, nodes, batch):
    laws.engine_equals_oracle(nodes, batch, oracle.holds)
