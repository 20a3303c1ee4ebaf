"""The conditions of scripts mean what docs/LANGUAGE.md says, and are written as it writes them."""

import pytest

from tests.service.conditions import And, Compare, Condition, IsNull, Not, Or, holds, text
from tests.service.hand_made import ALL, HIGH


@pytest.mark.parametrize(
    ("condition", "fields", "expected", "written"),
    [
        (HIGH, {"a": 41}, True, "a > 40"),
        (HIGH, {}, False, "a > 40"),
        (Not(HIGH), {}, False, "NOT (a > 40)"),
        (Not(HIGH), {"a": "high"}, False, "NOT (a > 40)"),
        (Not(HIGH), {"a": 12}, True, "NOT (a > 40)"),
        (IsNull("a"), {}, True, "a IS NULL"),
        (Not(And((HIGH, Compare("b", ">", 1)))), {"a": 0}, True, "NOT ((a > 40 AND b > 1))"),
        (Not(Or((HIGH, Compare("b", ">", 1)))), {"a": 0}, False, "NOT ((a > 40 OR b > 1))"),
        (Or((HIGH, IsNull("b"))), {"b": 1}, False, "(a > 40 OR b IS NULL)"),
        (Compare("b", "=", True), {"b": 1}, False, "b = TRUE"),
        (Compare("b", "=", 5), {"b": 5.0}, True, "b = 5"),
        (Compare("b", "<>", "it's"), {"b": "x"}, True, "b <> 'it''s'"),
        (ALL, {}, True, "TRUE"),
    ],
)
def test_conditions_mean_what_the_language_says(condition: Condition, fields, expected, written):
    assert holds(condition, fields) is expected
    assert text(condition) == written
