"""Covering never claims too much, for any family; among comparisons it misses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.covering.strategies import EVERY, SOME, conditions, conjunctions, disjunctions, filter_of, predicates
from tests.parts.profiles import examples
from tidegate.covering import covers

_POLYGON = "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))"
COVERED = [
    ("no2 > 40", "no2 > 50"),
    ("no2 > 40", "no2 > 50 AND station = 'z7'"),
    ("no2 IS NOT NULL", "no2 > 5"),
    ("TRUE", "x = 1"),
    ("x = 1", "FALSE"),
    ("FALSE", "x IS NULL AND x > 5"),
    ("FALSE", "x > 5 AND x = 'a'"),
    ("FALSE", "flag > TRUE"),
    ("FALSE", "x > 1.7976931348623157e308"),
    ("FALSE", "id IS NULL"),
    ("FALSE", "start > TIMESTAMP('2026-11-15T09:00:00Z') AND end < TIMESTAMP('2026-11-15T08:00:00Z')"),
    ("FALSE", "name = 'cat' AND name LIKE '%dog'"),
    ("FALSE", "x < x"),
    ("source IS NOT NULL", "TRUE"),
    ("x IS NULL OR x IS NOT NULL", "y = 1"),
    ("flag", "flag > FALSE"),
    ("phase IN ('END', 'INSTANT')", "phase <> 'START'"),
    ("x <= y", "y > x"),
    ("x <> 5", "x > 6"),
    # several clauses together
    ("(x < 5 AND y = 1) OR (x >= 5 AND y = 1)", "x BETWEEN 1 AND 9 AND y = 1"),
    ("(x = 1 AND y IS NULL) OR (x = 1 AND y IS NOT NULL)", "x = 1"),
    ("(x < 5 AND y < 5) OR (x >= 5 AND y < 5) OR (y >= 5 AND y < 9)", "x > 0 AND y < 9 AND y <> 5.5"),
    # text
    ("name LIKE 'c%'", "name IN ('cat', 'cow')"),
    ("name LIKE '%a%'", "name IN ('cat', 'bat')"),
    ("name LIKE '%at'", "name IN ('cat', 'bat')"),
    ("name LIKE '%a%'", "name LIKE 'cat%'"),
    ("name LIKE '%a%'", "name LIKE '%cat'"),
    ("name LIKE '%c%t_%'", "name LIKE '%cats%'"),
    ("name LIKE '%_a%'", "name LIKE '_%a%'"),
    ("name NOT LIKE '%cat%'", "name NOT LIKE '%a%'"),
    ("name NOT LIKE 'c%at%'", "name LIKE 'b%at%'"),
    ("CASEI(name) = CASEI('CAT')", "name = 'Cat'"),
    ("CASEI(name) LIKE 'c%t%'", "name IN ('Cats', 'COTS')"),
    # place
    (f"S_INTERSECTS(location, {_POLYGON})", "S_INTERSECTS(location, BBOX(0, 0, 10, 10))"),
    (f"S_WITHIN(location, {_POLYGON})", "S_WITHIN(location, BBOX(0, 0, 10, 10))"),
    (f"S_INTERSECTS(location, {_POLYGON})", "S_DWITHIN(location, POINT(5 5), 100000)"),
    (f"S_INTERSECTS(location, {_POLYGON})", "S_INTERSECTS(location, POLYGON((0 0, 10 0, 10 10, 0 0)))"),
    (f"S_WITHIN(location, {_POLYGON})", "S_EQUALS(location, POINT(5 5))"),
    (f"S_DISJOINT(location, {_POLYGON})", "S_DWITHIN(location, POINT(20 20), 100000)"),
    ("S_INTERSECTS(location, BBOX(0, 0, 2, 2))", "S_DWITHIN(location, POINT(1 1), 100000)"),
    ("S_DWITHIN(location, POINT(1 1), 200000)", "S_INTERSECTS(location, BBOX(0, 0, 2, 2))"),
    ("S_DWITHIN(location, POINT(1 1), 200000)", "S_DWITHIN(location, POINT(1.1 1), 100000)"),
    ("S_DWITHIN(location, POINT(1 1), 20100000)", "location IS NOT NULL AND NOT S_EQUALS(location, POINT(1 1))"),
    ("NOT S_DWITHIN(location, POINT(20 20), 100000)", "S_DWITHIN(location, POINT(1 1), 100000)"),
    ("NOT S_DWITHIN(location, POINT(1 1), 1000)", "NOT S_DWITHIN(location, POINT(1 1), 2000)"),
    # bags
    ("a_contains(b, (1))", "a_equals(b, (1, 2))"),
    ("NOT a_contains(b, (1))", "a_equals(b, (3, 2))"),
    ("NOT a_contains(b, (1, 2, 3))", "a_containedBy(b, (4, 5))"),
    ("a_containedBy(b, (1, 3, 5), '<')", "a_equals(b, (0, 2))"),
    ("a_overlaps(b, (5), '<')", "a_contains(b, (1, 2))"),
    ("b IS NOT NULL", "a_overlaps(b, ('x'))"),
]
NOT_COVERED = [
    ("x > 5", "TRUE"),
    ("x > 5", "x >= 5"),
    ("x IS NULL", "x > 5"),
    ("x < 5 OR x > 5", "x IS NOT NULL"),
    ("(x < 5 AND y = 1) OR (x > 5 AND y = 1)", "x BETWEEN 1 AND 9 AND y = 1"),
    ("name LIKE '%a%'", "name IN ('cat', 'cow')"),
    ("name = 'Cat'", "CASEI(name) = 'cat'"),
    ("name LIKE '%_a%'", "name LIKE '%a%'"),
    (f"S_WITHIN(location, {_POLYGON})", "S_INTERSECTS(location, BBOX(0, 0, 10, 10))"),
    ("a_containedBy(b, (1, 3, 5), '<')", "a_equals(b, (0, 7))"),
]


@pytest.mark.parametrize(("a", "b"), COVERED)
def test_covered(a, b):
    assert covers(filter_of(a), filter_of(b))


@pytest.mark.parametrize(("a", "b"), NOT_COVERED)
def test_not_covered(a, b):
    assert not covers(filter_of(a), filter_of(b))


def _check_sound(a, b):
    a, b = filter_of(a), filter_of(b)
    if covers(a, b):
        for publication in SOME:
            assert a.holds(publication) or not b.holds(publication)


@examples(200)
@given(predicates, predicates)
def test_a_true_is_right_for_single_predicates(a, b):
    _check_sound(a, b)
    _check_sound(f"NOT {a}", b)


@examples(80)
@given(conditions, conditions)
def test_a_true_is_right_for_conditions_of_all_families(a, b):
    _check_sound(a, b)
    _check_sound(a, f"({a}) AND ({b})")


@given(conditions)
@examples(200)
def test_a_filter_covers_itself_and_what_it_is_part_of(a):
    assert covers(filter_of(a), filter_of(a))
    assert covers(filter_of(f"{a} OR x = 1"), filter_of(a))
    assert covers(filter_of(a), filter_of(f"({a}) AND z = 1"))


def _really_covers(a, b):
    return all(a.holds(publication) for publication in EVERY if b.holds(publication))


@examples(250)
@given(conjunctions, conjunctions)
def test_complete_for_conjunctions_of_comparisons(a, b):
    a, b = filter_of(a), filter_of(b)
    assert covers(a, b) is _really_covers(a, b)


@examples(150)
@given(disjunctions, disjunctions)
def test_complete_for_disjunctions_of_comparisons(a, b):
    a, b = filter_of(a), filter_of(b)
    assert covers(a, b) is _really_covers(a, b)


def test_too_many_pieces_is_a_no():
    cells = [f"(a{i} < 5 AND a{i + 1} < 5)" for i in range(0, 30, 2)]
    everything = " OR ".join([*cells, "TRUE"])
    assert covers(filter_of(everything), filter_of("x = 1"))  # one clause is enough
    bounds = " AND ".join(f"a{i} IS NOT NULL" for i in range(31))
    assert not covers(filter_of(" OR ".join(cells)), filter_of(bounds))
