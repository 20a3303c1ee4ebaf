"""What a mistake reads like: exact words, exact spot."""

from __future__ import annotations

import pytest

from tidegate.errors import LimitError, ParseError, TypeMismatch
from tidegate.language import Limits, from_json, located, parse, walk

VALUE = "an attribute, a value or '('"
MATH = "an arithmetic operator (+, *, …), AND, OR"
NEXT = f"a comparison (=, <, LIKE, IN, …), {MATH}"

#: The text, what was expected, what was there, and the column of the caret.
MISTAKES = [
    ("no2 >", VALUE, "the end of the text", 6),
    ("no2 > AND lat < 1", VALUE, "'AND'", 7),
    ("no2 40", f"{NEXT} or the end", "the number 40", 5),
    ("(no2 > 40", f"{MATH}, ',' or ')'", "the end of the text", 10),
    ("no2 > 40)", f"{MATH} or the end", "')'", 9),
    ("no2 == 40", "a single '='", "'=='", 5),
    ("no2 != 40", "'<>' for not equal", "'!='", 5),
    ("no2 = NULL", "a value (IS NULL and IS NOT NULL test for a missing one)", "NULL", 7),
    ("a = 1 && b = 2", "AND", "'&&'", 7),
    ("a = 'cat", "a single quote at the end of this text", "none", 5),
    ('"a b = 1', "a double quote at the end of this name", "none", 1),
    ("a = ‘cat’", "a straight single quote (')", "'‘'", 5),
    ("a BETWEEN 1 OR 2", "an arithmetic operator (+, *, …) or AND", "'OR'", 13),
    ("a IN 1, 2", "'('", "the number 1", 6),
    ("a NOT = 1", "LIKE, BETWEEN or IN", "'='", 7),
    ("a IS 5", "NULL or NOT", "the number 5", 6),
    ("f(a,)", VALUE, "')'", 5),
    ("f(a b)", f"{NEXT}, ',' or ')'", "'b'", 5),
    ("a LIKE", VALUE, "the end of the text", 7),
    ("S_WITHIN(location, BBOX(1, 2, 3))", "four numbers (west, south, east, north) or six, with heights", "3", 25),
    (
        "S_WITHIN(location, POLYGON((0 0, 1 0, 1 1, 0 1)))",
        "a closed ring, its last point equal to its first",
        "0 0 first and 0 1 last",
        20,
    ),
    (
        "S_WITHIN(location, POLYGON((0 0, 1 0, 0 0)))",
        "a ring of four points or more, the last equal to the first",
        "3 points",
        20,
    ),
    ("S_INTERSECTS(g, POINT(1, 2))", "one point, such as POINT(15.97 45.81)", "numbers separated by commas", 23),
    ("S_INTERSECTS(g, POINT 1 2)", f"{NEXT}, ',' or ')'", "the number 1", 23),
    (
        "S_INTERSECTS(g, POINT(1))",
        "points of two or three numbers, longitude and latitude first",
        "a point of one number",
        17,
    ),
    ("t = TIMESTAMP('2026-11-15')", "a timestamp in TIMESTAMP", "a date", 15),
    (
        "t = TIMESTAMP('2026-11-15T08:00:00')",
        "a timestamp with its offset from UTC, 'Z' or such as '+01:00'",
        "'2026-11-15T08:00:00'",
        15,
    ),
    ("t = DATE('2026-02-30')", "a day that exists, of the years 0001 to 9999", "'2026-02-30'", 10),
    ("T_DURING(t, INTERVAL('2026-11-15'))", "','", "')'", 34),
    ("T_DURING(t, INTERVAL(now(), '..'))", "','", "'('", 25),
    ("CASEI(a, b) = 'x'", "1 argument of casei", "2", 1),
    ("T_AFTER(a)", "2 arguments of t_after", "1", 1),
    ("a = 1e999", "a number that a 64-bit float can hold", "one above 1.8e308", 5),
    ("a = $1", VALUE, "'$'", 5),
    ("a = +b", "a number after the sign '+'", "an expression", 5),
    ("a AND", VALUE, "the end of the text", 6),
    ("NOT", VALUE, "the end of the text", 4),
    ("a = b = c", f"{MATH} or the end", "'='", 7),
    ("[1", f"{NEXT}, ',' or ']'", "the end of the text", 3),
    ("a IN (1, 2", f"{NEXT}, ',' or ')'", "the end of the text", 11),
    ("S_INTERSECTS(g, LINESTRING(0 0))", "a line of two points or more", "one point", 17),
    (
        "S_INTERSECTS(g, LINESTRING(0 0, 1 1 1))",
        "points that all have two or all have three numbers",
        "both in one geometry",
        17,
    ),
    ("INTERVAL(5, 6)", "an attribute or a date, a timestamp or '..' in single quotes", "the number 5", 10),
    ("GEOMETRYCOLLECTION(BBOX(1,2,3,4))", "a geometry (POINT, POLYGON, …)", "'BBOX'", 20),
    ('"" = 1', "a name between the double quotes", "none", 1),
]


@pytest.mark.parametrize(("text", "expected", "got", "column"), MISTAKES)
def test_message_and_caret(text, expected, got, column):
    with pytest.raises(ParseError) as caught:
        parse(text)
    message = f"expected {expected}; got {got}; at line 1, column {column}"
    assert str(caught.value) == f"{message}\n  {text}\n  {' ' * (column - 1)}^"
    assert type(caught.value) is ParseError
    assert caught.value.__cause__ is None


def refusal(text, limits=None):
    with pytest.raises(ParseError) as caught:
        parse(text, *([limits] if limits else []))
    return caught.value


def test_nothing_at_all():
    assert str(refusal("")) == f"expected {VALUE}; got the end of the text; at line 1, column 1"


def test_second_line_after_a_tab():
    assert str(refusal("a = 1 AND\n\tb = = 2\nAND c")).split("\n") == [
        f"expected {VALUE}; got '='; at line 2, column 6",
        "   b = = 2",
        "       ^",
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end):
    assert refusal(f"a{end}={end}1 2{end}").at == "line 3, column 3"


def test_long_lines_are_cut_around_the_spot():
    text = "a = 1 AND " * 30 + "b = = 2" + " AND a = 1" * 30
    line, mark = refusal(text).caret.split("\n")
    assert len(line) == 102
    assert line[2] == line[-1] == "…"
    assert line[mark.index("^") - 4 :].startswith("b = = 2 AND")


def test_wide_characters_shift_the_caret_by_their_width():
    assert refusal("日本 = = 2").caret == "  日本 = = 2\n         ^"


def test_unprintable_characters_do_not_reach_the_terminal():
    error = refusal("a = \x1b1")
    assert (error.got, error.caret) == ("'\\x1b'", "  a = �1\n      ^")


@pytest.mark.parametrize("value", [None, 5, b"a = 1", ["a"], {"op": "not"}])
def test_only_text_is_parsed(value):
    with pytest.raises(ParseError, match="expected CQL2 as text; got "):
        parse(value)


def test_lone_surrogates_are_refused():
    error = refusal("a = '\ud800'")
    assert (error.expected, error.got, error.at) == ("Unicode text", r"the lone surrogate '\ud800'", "line 1, column 6")


def test_a_type_checker_can_point_as_well():
    text = "no2 > 'x'"
    error = located(TypeMismatch, "a number", "a text", list(walk(parse(text)))[2].at, text)
    assert str(error) == "expected a number; got a text; at line 1, column 7\n  no2 > 'x'\n        ^"
    assert str(located(TypeMismatch, "a", "b", "$.args[1]", {"op": "x"})) == "expected a; got b; at $.args[1]"
    assert str(located(TypeMismatch, "a", "b", None, None)) == "expected a; got b"


A = {"property": "a"}
OBJECT = "an object with op, property, timestamp, date, interval, bbox or type"
ANY = "a number, text, truth value, list or object"
NAN, INFINITE = float("nan"), float("inf")
RING = [[0, 0], [1, 0], [1, 1], [0, 1]]

JSON_MISTAKES = [
    (None, ANY, "null", "$"),
    ({}, OBJECT, "an empty one", "$"),
    ({"x": 1}, OBJECT, "one with x", "$"),
    ({"op": "=", "args": [A, None]}, ANY, "null", "$.args[1]"),
    ({"op": "=", "args": [A, b"x"]}, ANY, "bytes", "$.args[1]"),
    ({"op": "=", "args": [A, NAN]}, "a finite number", "nan", "$.args[1]"),
    ({"op": "=", "args": [A, -INFINITE]}, "a finite number", "-inf", "$.args[1]"),
    ({"op": "=", "args": [A, 10**400]}, "a finite number", "an integer of more than 77 digits", "$.args[1]"),
    ({"op": "=", "args": [A, "\ud800"]}, "Unicode text", "a lone surrogate", "$.args[1]"),
    ({"op": "=", "args": [A]}, "2 arguments of =", "1", "$.args"),
    ({"op": "between", "args": [A, 1]}, "3 arguments of between", "2", "$.args"),
    ({"op": "and", "args": [A]}, "2 or more arguments of and", "1", "$.args"),
    ({"op": "A_EQUALS", "args": [A]}, "2 or 3 arguments of a_equals", "1", "$.args"),
    ({"op": "in", "args": [A, 1]}, "a list as the second argument of in", "1", "$.args[1]"),
    ({"op": "f"}, "op and args alone", "one with op", "$"),
    ({"op": "f", "args": [], "x": 1}, "op and args alone", "one with op, args, x", "$"),
    ({"op": "f", "arg": []}, "a list of arguments", "null", "$"),
    ({"op": "f", "args": {}}, "a list of arguments", "an object of 0", "$.args"),
    ({"op": 5, "args": []}, "the name of an operator or function", "5", "$.op"),
    ({"op": "not a name", "args": []}, "the name of an operator or function", "'not a name'", "$.op"),
    ({"op": "point", "args": []}, "the name of an operator or function", "'point'", "$.op"),
    ({"property": 5}, "the name of an attribute", "5", "$.property"),
    ({"property": ""}, "the name of an attribute", "''", "$.property"),
    ({"property": "a", "x": 1}, OBJECT, "one with property, x", "$"),
    (
        {"op": "f", "args": [[1, [A, {"property": []}]]]},
        *("the name of an attribute", "a list of 0", "$.args[0][1][1].property"),
    ),
    ({"date": "2026-13-01"}, "a day that exists, of the years 0001 to 9999", "'2026-13-01'", "$.date"),
    ({"date": "2026-11-15T08:00:00Z"}, "a date", "'2026-11-15T08:00:00Z'", "$.date"),
    ({"timestamp": "2026-11-15"}, "a timestamp", "'2026-11-15'", "$.timestamp"),
    ({"timestamp": 5}, "a date or timestamp as text", "5", "$.timestamp"),
    ({"interval": [".."]}, "a list of two bounds", "a list of 1", "$.interval"),
    ({"interval": ["..", 5]}, "a date, a timestamp, '..' or a property", "5", "$.interval[1]"),
    ({"bbox": [1, 2, 3]}, "four numbers (west, south, east, north) or six, with heights", "3", "$.bbox"),
    ({"bbox": [1, 2, 3, True]}, "a number", "True", "$.bbox[3]"),
    ({"bbox": 5}, "a list of numbers", "5", "$.bbox"),
    ({"type": "Circle", "coordinates": []}, "a GeoJSON geometry type", "'Circle'", "$.type"),
    ({"type": "Point"}, "type and coordinates alone", "one with type", "$"),
    ({"type": "Point", "coordinates": [1, "2"]}, "a number", "'2'", "$.coordinates[1]"),
    ({"type": "LineString", "coordinates": [[1, 2], 3]}, "a list of numbers", "3", "$.coordinates[1]"),
    (
        {"type": "Polygon", "coordinates": [RING]},
        "a closed ring, its last point equal to its first",
        "0 0 first and 0 1 last",
        "$.coordinates",
    ),
    (
        {"type": "Polygon", "coordinates": []},
        "at least one point in each part of a Polygon",
        "an empty part",
        "$.coordinates",
    ),
    ({"type": "GeometryCollection", "geometries": []}, "a list of geometries", "a list of 0", "$.geometries"),
    (
        {"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection", "geometries": []}]},
        "a geometry that is no collection",
        "an object of 2",
        "$.geometries[0]",
    ),
]


@pytest.mark.parametrize(("value", "expected", "got", "at"), JSON_MISTAKES, ids=str)
def test_json_message_and_path(value, expected, got, at):
    with pytest.raises(ParseError) as caught:
        from_json(value)
    assert str(caught.value) == f"expected {expected}; got {got}; at {at}"
    assert type(caught.value) is ParseError


def beyond(read, value, limits):
    with pytest.raises(LimitError) as caught:
        read(value, limits)
    return str(caught.value).split("\n")[0]


def nested(levels):
    value = A
    for _ in range(levels):
        value = {"op": "not", "args": [value]}
    return value


def test_limit_on_length():
    parse("a" * 10, Limits(text_length=10))
    assert (
        beyond(parse, "a" * 11, Limits(text_length=10)) == "expected at most 10 characters (limit text_length); got 11"
    )
    from_json({"op": "=", "args": [A, "x" * 10]}, Limits(text_length=10))
    message = "expected at most 10 characters in a string (limit text_length); got 11; at "
    assert beyond(from_json, {"op": "=", "args": [A, "x" * 11]}, Limits(text_length=10)) == message + "$.args[1]"
    assert beyond(from_json, {"property": "x" * 11}, Limits(text_length=10)) == message + "$.property"


def test_limit_on_tokens():
    limits = Limits(tokens=7)
    parse("a = 1 AND b = 2", limits)
    message = "expected at most 7 words, numbers and signs (limit tokens); got more; at line 1, column 17"
    assert beyond(parse, "a = 1 AND b = 2 AND c = 3", limits) == message


def test_limit_on_nodes():
    limits = Limits(nodes=5)
    parse("a IN (1, 2)", limits)
    from_json({"op": "in", "args": [A, [1, 2]]}, limits)
    message = "expected at most 5 attributes, literals and calls (limit nodes); got more; at "
    assert beyond(parse, "a IN (1, 2, 3)", limits) == message + "line 1, column 13"
    assert beyond(from_json, {"op": "in", "args": [A, [1, 2, 3]]}, limits) == message + "$.args[1]"
    line = {"type": "LineString", "coordinates": [[0, 0]] * 6}
    assert beyond(from_json, line, limits) == "expected at most 5 points (limit nodes); got more; at $.coordinates"


@pytest.mark.parametrize(
    "nest",
    [
        lambda n: "f(" * n + "a" + ")" * n,
        lambda n: "NOT " * n + "a",
        lambda n: "-" * n + "a",
        lambda n: "1" + "+ a" * n,
        lambda n: "a ^ " * n + "a",
        lambda n: "[" * n + "]" * n,
    ],
    ids=["calls", "not", "signs", "sum", "power", "arrays"],
)
def test_limit_on_depth_of_text(nest):
    parse(nest(9), Limits(depth=9))
    message = "expected at most 9 levels of nesting (limit depth); got deeper nesting; at line 1, column "
    assert beyond(parse, nest(10), Limits(depth=9)).startswith(message)
    assert beyond(parse, nest(1000), Limits(depth=9)).startswith(message)


def test_limit_on_parentheses():
    limits = Limits(depth=9)
    parse("(" * 9 + "a" + ")" * 9, limits)
    parse("f(" * 9 + "GEOMETRYCOLLECTION(MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0))))" + ")" * 9, limits)
    for inner in ("a", "POINT(1 2)", "a = POINT(1 2) AND (b)"):
        deep = 9 - inner.endswith("(b)")
        parse("(" * deep + inner + ")" * deep, limits)
        assert "(limit depth)" in beyond(parse, "(" * (deep + 1) + inner + ")" * (deep + 1), limits)


def test_limit_on_depth_of_json():
    assert parse("NOT " * 9 + "a") == from_json(nested(9), Limits(depth=9))
    message = f"expected at most 9 levels of nesting (limit depth); got deeper nesting; at ${'.args[0]' * 9}"
    assert beyond(from_json, nested(10), Limits(depth=9)) == message
    assert beyond(from_json, {"op": "f", "args": [[1]]}, Limits(depth=1)).endswith("at $.args[0]")
