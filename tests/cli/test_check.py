"""``tidegate check`` as a user meets it: every mistake with its place."""

from __future__ import annotations

import orjson
from typer.testing import CliRunner

from tests.cli.commands import run
from tests.cli.matched_files import SUBSCRIPTIONS, refused
from tidegate.cli.app import app


def test_check_is_content_with_good_files(tmp_path, subscriptions):
    assert run("check", subscriptions).stdout == "3 subscriptions: 3 good, 0 wrong\n"
    array = tmp_path / "subscriptions.json"
    array.write_bytes(orjson.dumps(SUBSCRIPTIONS))
    assert run("check", array).stdout == "3 subscriptions: 3 good, 0 wrong\n"
    rows = tmp_path / "subscriptions.csv"
    rows.write_text(
        "id,subscriber,where,active_from,active_until\n"
        's1,ann,no2 > 40,,\n\ns2,bob,"{""op"": ""isNull"", ""args"": [{""property"": ""a""}]}",2026-11-15T08:00:00Z,\n'
    )
    assert run("check", rows).stdout == "2 subscriptions: 2 good, 0 wrong\n"
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert run("check", empty).stdout == "0 subscriptions: 0 good, 0 wrong\n"


def test_check_shows_every_mistake_with_a_caret(tmp_path):
    path = tmp_path / "watch.cql2"
    path.write_text(
        "# roads\nno2 > 40\nno2 >> 40\n\nS_WITHN(location, BBOX(1, 2, 3, 4))\na > 1 AND a < 1\nb BETWEEN 2 AND 1\n"
    )
    result = run("check", path, code=1)
    assert result.stdout == "5 subscriptions: 2 good, 3 wrong, 1 that can never match\n"
    assert f"{path}, line 3: parse error: expected an attribute" in result.stderr
    assert "  no2 >> 40\n       ^\n" in result.stderr
    assert f"{path}, line 5: function error: expected a registered function (s_within" in result.stderr
    assert f"{path}, line 6: warning: subscription '6' can never match" in result.stderr
    assert f"{path}, line 7: type error: expected BETWEEN with the lower bound first" in result.stderr


def test_check_goes_on_after_a_broken_record(tmp_path):
    path = tmp_path / "subscriptions.jsonl"
    records = [
        '{"id": "a", "subscriber": "ann", "where": "a = 1"',
        "[1]",
        '{"id": "a", "where": "a = 1"}',
        '{"id": "a", "subscriber": "ann", "where": "a = 1", "colour": "red"}',
        '{"id": "a", "subscriber": "ann", "where": "a = 1", "active_from": "2026-11-15T08:00:00"}',
        '{"id": "a", "subscriber": "ann", "where": "a = 1", "active_from": 5}',
        '{"id": 7, "subscriber": "ann", "where": "a = 1"}',
        '{"id": "a", "subscriber": "ann", "where": "a = 1"}',
        '{"id": "a", "subscriber": "ann", "where": "a = 1"}',
    ]
    path.write_text("\n".join(records))
    result = run("check", path, code=1)
    assert result.stdout == "9 subscriptions: 1 good, 8 wrong\n"
    for number, words in (
        (1, "a JSON object on each line"),
        (2, "a JSON object; got [1]"),
        (3, "a field subscriber; got id, where"),
        (
            4,
            "active_until, initial, fields, expired, deliver; got 'colour'",
        ),
        (5, "a time with a time zone as active_from; got "),
        (6, "a text such as"),
        (7, "a non-empty string as the id; got 7"),
        (9, "an id that is not in use; got 'a'"),
    ):
        assert any(f", line {number}: " in line and words in line for line in result.stderr.splitlines()), number


def test_check_of_broken_csv(tmp_path):
    path = tmp_path / "subscriptions.csv"
    path.write_text("id,subscriber,where\ns1,ann,{nonsense\ns2,bob,a = 1\n")
    result = run("check", path, code=1)
    assert "line 2: subscription error: expected CQL2-JSON as where" in result.stderr
    path.write_text("id,subscriber,where\ns1,ann\n")
    assert "expected 3 cells as in the header; got 2; at " in refused("check", path)
    path.write_text("id,id,where\n")
    assert "each column once" in refused("check", path)
    path.write_text('id,subscriber,where\ns1,ann,"no2 > 40\n')
    assert "a row of CSV" in refused("check", path)
    path.write_bytes(b"id,subscriber,where\ns1,\xff,a = 1\n")
    assert "text in UTF-8; got the byte 0xff" in refused("check", path)


def test_files_that_are_none(tmp_path):
    assert "a file that exists; got" in refused("check", tmp_path / "nothing.jsonl")
    assert "a file; got the directory" in refused("check", tmp_path)
    odd = tmp_path / "subscriptions.xlsx"
    odd.write_text("")
    assert "a file that ends in .jsonl, .ndjson, .json, .csv, .cql2, .txt" in refused("check", odd)
    broken = tmp_path / "subscriptions.json"
    broken.write_text('[{"id": 1}\n{"id": 2}]')
    assert "one object per line is .jsonl, not .json" in refused("check", broken)
    broken.write_text('{"id": 1}')
    assert "an array of JSON objects" in refused("check", broken)
    text = tmp_path / "subscriptions.txt"
    text.write_bytes(b"a = 1\nb = '\xe9'\n")
    assert "line 2" in refused("check", text)


def test_check_warns_of_one_attribute_as_number_and_text(tmp_path):
    path = tmp_path / "s.cql2"
    path.write_text("no2 > 'a' AND no2 > 3\n")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0
    assert "can never match" in result.stderr
