"""Long lists of numbers in subscriptions, as lists and as arrays; and lists with gaps in publications."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests import oracle
from tidegate.language import Numbers, from_json, parse, to_json, to_text
from tidegate.predicates.filter import compile_filter
from tidegate.store import Registry
from tidegate.testing import as_table

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
HALVES = np.arange(40) / 2


def pub(value, id="p"):
    return tg.Publication(id, "z7", NOW, {"x": value})


def sub(where, id="s"):
    return tg.Subscription(id, "u", where)


def asks(op, values, *more, name="x"):
    return {"op": op, "args": [{"property": name}, values, *more]}


def found(subscriptions, publications):
    return {(n.subscription, n.publications[0]) for n in tg.Engine(subscriptions).publish(publications)}


# --- subscriptions --------------------------------------------------------------------------------------------------

EXPRESSIONS = {
    "in": (asks("in", HALVES), [1.5, 1.25, -0.0, 20.0], ["p0", "p2"]),
    "bag": (asks("a_containedBy", HALVES), [[0.5, 1], [], [0.5, 0.5], [0.25], 1.5], ["p0", "p1"]),
    "composite": (asks("a_contains", HALVES, "<"), [[-1.0] * 40, [-1] * 39, [0.0] * 40], ["p0"]),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("form", ["array", "list", "text"])
def test_it_means_what_the_literals_mean(name, form):
    where, values, matched = EXPRESSIONS[name]
    tree = from_json(where)
    assert any(isinstance(arg, Numbers) for arg in tree.args)
    written = {"array": where, "list": to_json(tree), "text": to_text(tree)}[form]
    publications = [pub(value, f"p{i}") for i, value in enumerate(values)]
    assert sorted(p for _, p in found([sub(written)], publications)) == matched
    if name == "in":
        assert [p.id for p in publications if oracle.holds(tree, p)] == matched


@pytest.mark.parametrize("name", ["bag", "composite"])
def test_what_a_predicate_says_of_itself_is_what_would_be_read(name):
    ((predicate,),) = compile_filter(from_json(EXPRESSIONS[name][0])).clauses
    call, _ = predicate.call()
    assert from_json(to_json(call)) == call == parse(to_text(call))


def test_a_score_takes_it_as_the_point_to_measure_from():
    names = [f"a{i}" for i in range(40)]
    score = {"op": "distance", "args": [[{"property": name} for name in names], HALVES]}
    where = {"op": "topk", "args": [1, "PT1H", score]}
    engine = tg.Engine([sub(where)])
    near = tg.Publication("p", "z7", NOW, dict(zip(names, HALVES.tolist(), strict=True)))
    assert [n.score for n in engine.publish([near])] == [0.0]


def test_messages_call_it_a_list():
    for where, told in (
        ({"op": "and", "args": [HALVES, True]}, "expected a condition; got a list; at $.args[0]"),
        (asks("in", HALVES, name="id"), "at $.args[1][0]"),
        (asks("like", HALVES), "at $.args[1]"),
    ):
        with pytest.raises(tg.ParseError) as error:
            tg.Engine([sub(where)])
        assert told in str(error.value)


def test_subscriptions_with_arrays_are_equal_by_their_numbers():
    one = sub(asks("in", HALVES))
    assert one == sub(asks("in", HALVES.copy())) == sub(asks("in", HALVES.tolist()))
    assert sub(asks("in", HALVES.tolist())) == one
    for other in (
        sub(asks("in", HALVES + 1)),
        sub(asks("in", HALVES[:-1])),
        sub(asks("a_equals", HALVES)),
        sub(asks("in", HALVES), "t"),
        sub("x IN (1, 2)"),
        sub(True),
    ):
        assert one != other
        assert other != one
    assert sub(asks("in", np.array([1.0]))) != sub(asks("in", 1.0))
    assert sub(asks("in", np.array([]))) == sub(asks("in", []))
    assert one != "s"
    assert hash(sub("x > 1")) == hash(sub("x > 1"))
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize("values", [HALVES, np.arange(40), np.arange(3), np.repeat(HALVES, 2)[::2]], ids=len)
def test_arrays_are_kept_as_the_lists_they_stand_for(values, tmp_path):
    given_one = sub(asks("in", values))
    engine = tg.Engine([given_one])
    publications = [pub(1.0), pub(99.0, "q")]
    told = engine.publish(publications)
    assert list(engine) == [given_one]
    assert len(told) == 1
    engine.save(tmp_path / "snapshot")
    again = tg.Engine.load(tmp_path / "snapshot")
    assert list(again) == [given_one]
    assert again.publish(publications) == told
    with Registry(f"sqlite:///{tmp_path}/registry.db") as registry:
        registry.subscribe(given_one)
        assert [entry.subscription for entry in registry.listing()] == [given_one]


# --- gaps -----------------------------------------------------------------------------------------------------------

#: The expression, a list with gaps, and whether it matches.
GAPS = [
    ("a_contains(x, (1, 2))", [1, nan, 2.0], True),
    ("a_contains(x, (1, 2))", [1, nan, inf], False),
    ("a_contains(x, ())", [nan], True),
    ("a_contains(x, (1), '<>')", [nan], False),
    ("a_contains(x, (1), '<>')", [nan, 2], True),
    ("a_contains(x, (1), '>')", [inf], False),
    ("a_contains(x, (1), '<')", [-inf], False),
    ("a_overlaps(x, (1, 2))", [nan, 2], True),
    ("a_overlaps(x, (1, 2), '<>')", [nan, inf, -inf], False),
    ("a_overlaps(x, (1, 2), '>=')", [inf], False),
    ("a_overlaps(x, (1, 2), '<=')", [-inf], False),
    ("NOT a_overlaps(x, (1, 2))", [nan], True),
    ("a_equals(x, (1, 2))", [1, 2, nan], False),
    ("a_equals(x, (1, 2), '<')", [0, nan], False),
    ("a_containedBy(x, (1, 2))", [1, nan], False),
    ("a_containedBy(x, (1, 2))", [nan], False),
    ("a_containedBy(x, (1, 2), '<>')", [nan], False),
    ("NOT a_containedBy(x, (1, 2))", [nan], True),
    ("x IS NULL", [nan], False),
    ("x > 1", [inf], False),
    ("NOT x > 1", [inf], False),
]


@pytest.mark.parametrize(("where", "value", "held"), GAPS, ids=str)
def test_a_gap_is_counted_and_has_no_partner(where, value, held):
    publications = [pub([float(v) for v in value])]
    assert bool(found([sub(where)], publications)) is held
    assert oracle.holds(parse(where), publications[0]) is held
    engine = tg.Engine([sub(where)])
    for kind in (pa.float64(), pa.float32()):
        table = as_table(publications).drop_columns("x").append_column("x", pa.array([value], pa.list_(kind)))
        assert engine.publish(table).num_rows == held
        assert engine.publish(pa.concat_tables([table.slice(0, 0), table])).num_rows == held


@given(st.lists(st.sampled_from([1.0, 2.0, nan, inf, -inf]), max_size=4), st.integers(0, 5))
def test_the_size_counts_gaps(value, size):
    where = f"a_contains(x, ({', '.join(['0'] * size)}), '<>')"
    finite = sum(v in (1.0, 2.0) for v in value)
    assert bool(found([sub(where)], [pub(value)])) is (finite >= size)
    bigger = compile_filter(parse(where)).clauses[0][0].hull[0]
    assert bigger[0].point(pub(value)) == len(value)


def test_scalars_have_no_gaps():
    for value in (nan, inf, -inf):
        with pytest.raises(tg.PublicationError, match="a finite number"):
            pub(value)
    assert pub([nan, 1, np.float64("inf")]).attributes["x"][1:] == [1, inf]
