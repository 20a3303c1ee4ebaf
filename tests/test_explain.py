"""``explain`` says what happened, per node, with the values that decided; and agrees with the engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given

import tidegate as tg
from tests import oracle
from tests.drawn_publications import publications
from tests.strategies import CONDITIONS, expressions
from tidegate import testing as laws
from tidegate.predicates.family import FUNCTIONS, MEASURES

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


def explained(where, **attributes):
    engine = tg.Engine([tg.Subscription("s", "ann", where)])
    return engine.explain("s", tg.Publication("p", "z7", NOW, attributes))


def test_every_node_has_its_verdict():
    found = explained("no2 > 40 AND (NOT kind = 'rain' OR lat IS NULL)", no2=45.0, kind="rain")
    assert (found.held, found.text) == (True, "AND")
    above, either = found.parts
    assert (above.text, above.held, above.values) == ("no2 > 40", True, {"no2": 45.0})
    assert (either.text, either.held) == ("OR", True)
    negated, null = either.parts
    assert not negated.held
    assert negated.parts[0].held
    assert (null.held, null.values) == (True, {"lat": None})


def test_it_reads_well():
    text = str(explained("no2 > 40 AND kind = 'rain'", no2=45.0))
    assert text.splitlines() == ["✗ AND", "  ✓ no2 > 40   — no2 is 45.0", "  ✗ kind = 'rain'   — kind is missing"]


def test_a_missing_attribute_decides_neither_way():
    found = explained("NOT no2 > 40")
    assert not found.held
    assert not found.parts[0].held
    assert found.parts[0].values == {"no2": None}


def test_all_attributes_of_a_condition_are_shown():
    assert explained("no2 + co > lat", no2=1).values == {"no2": 1, "co": None, "lat": None}
    engine = tg.Engine([tg.Subscription("s", "ann", "T_DURING(event, INTERVAL('2026-11-15', '..'))")])
    values = engine.explain("s", tg.Publication("p", "z7", NOW, start=NOW)).values
    assert values == {"start": NOW, "end": None}


def test_the_time_of_activity_is_part_of_the_answer():
    engine = tg.Engine([tg.Subscription("s", "ann", "TRUE", active_from=NOW, active_until=NOW + timedelta(hours=1))])
    late = tg.Publication("p", "z7", NOW + timedelta(hours=1))
    found = engine.explain("s", late)
    assert [part.held for part in found.parts] == [True, True, False]
    assert "time < TIMESTAMP('2026-11-15T09:00:00Z')" in str(found)
    assert engine.publish([late]) == []


def test_what_cannot_be_explained():
    engine = tg.Engine([tg.Subscription("s", "ann", "TRUE")])
    with pytest.raises(tg.UnknownSubscription, match="expected the id of a subscription; got 'nobody'"):
        engine.explain("nobody", tg.Publication("p", "z7", NOW))
    with pytest.raises(tg.PublicationError, match="expected a Publication"):
        engine.explain("s", {"id": "p"})


def test_limits_of_the_engine_do_not_matter():
    engine = tg.Engine(
        [tg.Subscription("s", "ann", "topk(2000, 'P999D', no2)")], limits=tg.Limits(k=3000, window=10**9)
    )
    assert engine.explain("s", tg.Publication("p", "z7", NOW, {"no2": 1})).held


def test_what_is_dated_ahead_is_refused():
    settings = {"ahead": timedelta(minutes=1), "clock": lambda: NOW}
    wheres = {"f": "TRUE", "s": "topk(1, 'PT10M', no2)"}
    engine = tg.Engine([tg.Subscription(id, "ann", where) for id, where in wheres.items()], **settings)
    for id in wheres:
        assert engine.explain(id, tg.Publication("p", "z7", NOW + timedelta(minutes=1), {"no2": 1})).held
        found = engine.explain(id, tg.Publication("p", "z7", NOW + timedelta(minutes=2), {"no2": 1}))
        assert (found.held, found.told, found.reason) == (False, (), "it is dated too far ahead, and so refused")
    assert engine.ahead == 0


def test_as_json():
    engine = tg.Engine([tg.Subscription("s", "ann", "together('PT5M', TRUE, 1 < n)")])
    seen = tg.Publication("b", "z7", NOW, {"n": 10**300, "gaps": [1.0, float("nan")]}, location=(1, 2))
    found = engine.explain("s", seen).to_json()
    assert orjson.loads(orjson.dumps(found)) == found
    assert list(found) == ["text", "held", "values", "is_pattern", "reason", "facts", "parts", "told"]
    assert found["parts"][1]["values"] == {"n": 1e300}
    assert found["told"][0]["time"] == "2026-11-15T08:00:00Z"
    plain = tg.Engine([tg.Subscription("s", "ann", "location IS NULL OR gaps IS NULL OR time IS NULL")])
    values = [part["values"] for part in plain.explain("s", seen).to_json()["parts"]]
    assert values == [{"location": {"lon": 1.0, "lat": 2.0}}, {"gaps": [1.0, None]}, {"time": "2026-11-15T08:00:00Z"}]


def all_nodes(explanation):
    yield explanation
    for part in explanation.parts:
        yield from all_nodes(part)


@given(
    node=expressions([op for op in (*FUNCTIONS, *MEASURES) if op in CONDITIONS]), batch=publications(mixed=True, most=2)
)
def test_it_agrees_with_the_engine(node, batch):
    engine = tg.Engine(laws.subscriptions([node]))
    for publication in batch:
        found = engine.explain("s0", publication)
        assert found.held is bool(engine.publish([publication])) is oracle.holds(node, publication)
        assert str(found)
        for part in all_nodes(found):
            assert all(publication.value(name) == value for name, value in part.values.items())
            if part.text in ("AND", "OR"):
                assert part.held is (all if part.text == "AND" else any)(p.held for p in part.parts)
