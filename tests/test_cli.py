"""Every command as a user meets it, wrong inputs first of all: one clear message, an exit code, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tidegate.cli.app import app
from tidegate.cli.publication_files import batches, publication, table
from tidegate.patterns import FAMILIES
from tidegate.predicates import FUNCTIONS, MEASURES

ROOT = Path(__file__).parents[1]
SUBSCRIPTIONS = [
    {"id": "s1", "subscriber": "ann", "where": "no2 > 40"},
    {"id": "s2", "subscriber": "bob", "where": {"op": "=", "args": [{"property": "station"}, "z7"]}},
    {
        "id": "s3",
        "subscriber": "cy",
        "where": "S_DWITHIN(location, POINT(7 46), 900)",
        "active_from": "2026-11-15T08:30:00Z",
    },
]
PUBLICATIONS = [
    {"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45, "station": "z7"},
    {"id": "p2", "source": "z8", "time": "2026-11-15T10:00:00+01:00", "no2": 12, "location": {"lon": 7, "lat": 46}},
    {"id": "p3", "source": "z9", "time": "2026-11-15T09:30:00Z", "no2": 41.5},
]
EXPECTED = [("s1", "p1"), ("s2", "p1"), ("s3", "p2"), ("s1", "p3")]


def run(*arguments: object, code: int = 0, input: str | bytes | None = None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def refused(*arguments: object, input: str | bytes | None = None) -> str:
    message = run(*arguments, code=2, input=input).stderr
    assert message.startswith("tidegate: expected ")
    assert "; got " in message
    return message


def lines(path: Path, records: list[dict]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


@pytest.fixture
def subscriptions(tmp_path):
    return lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)


@pytest.fixture
def publications(tmp_path):
    return lines(tmp_path / "publications.jsonl", PUBLICATIONS)


def pairs(text: str) -> list[tuple[str, str]]:
    rows = [orjson.loads(line) for line in text.splitlines()]
    return [(row["subscription_id"], *row["publication_ids"]) for row in rows]


# --- the command itself -----------------------------------------------------------------------------------------------


def test_version_and_help():
    assert run("--version").stdout == f"tidegate {tg.__version__}\n"
    assert "Commands:" in run("--help").stdout
    assert "No such command" in run("chekc", code=2).stderr


def test_interruption_ends_with_130(monkeypatch, subscriptions):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegate.cli.check.subscriptions", interrupted)
    assert run("check", subscriptions, code=130).stderr == "\ntidegate: interrupted\n"


def test_a_file_that_cannot_be_used(tmp_path, subscriptions, publications):
    message = refused("match", subscriptions, publications, "--output", tmp_path / "nowhere" / "out.jsonl")
    assert "No such file or directory" in message
    assert "nowhere" in message


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no pipes of that kind")
def test_a_reader_that_goes_away_is_no_error(tmp_path, subscriptions):
    many = [{"id": f"p{i}", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45} for i in range(4_000)]
    path = lines(tmp_path / "many.jsonl", many)
    code = "import sys; from tidegate.cli import main; sys.argv[0] = 'tidegate'; main()"
    command = [sys.executable, "-c", code, "match", str(subscriptions), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b'{"notification_id"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


# --- check ------------------------------------------------------------------------------------------------------------


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
        (4, "the fields id, subscriber, where, active_from, active_until; got 'colour'"),
        (5, "offset from UTC"),
        (6, "a timestamp such as"),
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


# --- match ------------------------------------------------------------------------------------------------------------


def test_match_writes_notifications(subscriptions, publications):
    result = run("match", subscriptions, publications)
    assert pairs(result.stdout) == EXPECTED
    first = orjson.loads(result.stdout.splitlines()[0])
    assert list(first) == [
        "notification_id",
        "subscription_id",
        "subscriber",
        "time",
        "publication_ids",
        "score",
        "distance",
    ]
    assert (first["subscriber"], first["time"]) == ("ann", "2026-11-15T08:00:00Z")
    assert result.stderr.startswith("3 publications, 4 notifications, ")


def test_match_grouped_to_a_file(tmp_path, subscriptions, publications):
    output = tmp_path / "out.jsonl"
    result = run("match", subscriptions, publications, "--grouped", "--output", output)
    assert result.stdout == ""
    assert "3 publications, 4 notifications" in result.stderr
    rows = [orjson.loads(line) for line in output.read_text().splitlines()]
    assert [(row["publication_id"], sorted(row["subscription_ids"])) for row in rows] == [
        ("p1", ["s1", "s2"]),
        ("p2", ["s3"]),
        ("p3", ["s1"]),
    ]
    assert "an output that is not an input" in refused("match", subscriptions, publications, "-o", publications)


def test_match_reads_all_formats_alike(tmp_path, subscriptions, publications):
    wanted = run("match", subscriptions, publications).stdout
    array = tmp_path / "publications.json"
    array.write_bytes(orjson.dumps(PUBLICATIONS))
    rows = tmp_path / "publications.csv"
    rows.write_text(
        "id,source,time,no2,station,location.lon,location.lat\n"
        "p1,z7,2026-11-15T08:00:00Z,45,z7,,\n"
        "p2,z8,2026-11-15T10:00:00+01:00,12,,7,46\n\n"
        "p3,z9,2026-11-15T09:30:00Z,41.5,,,\n"
    )
    columns = tmp_path / "publications.parquet"
    pq.write_table(table([publication(record, "") for record in PUBLICATIONS]), columns)
    nested = [
        {**dict(list(r.items())[:3]), "attributes": {k: r[k] for k in ("no2", "station") if k in r}}
        for r in PUBLICATIONS
    ]
    nested[1]["location"] = PUBLICATIONS[1]["location"]
    for path in (array, rows, columns, lines(tmp_path / "nested.ndjson", nested)):
        assert run("match", subscriptions, path).stdout == wanted, path


def test_match_groups_alike_whatever_the_kinds_of_values(tmp_path):
    watching = [
        {"id": id, "subscriber": "ann", "where": where}
        for id, where in (("s3", "level > 1"), ("s1", "level > 1"), ("s2", "phase = 'END'"))
    ]
    event = {"id": "e1", "source": "z7", "time": "2026-11-15T09:00:00Z", "level": 2}
    records = [
        {**event, "phase": "START"},
        {**event, "phase": "END"},
        {**event, "id": "e0", "time": "2026-11-15T08:00:00Z"},
        {**event, "id": "e2", "level": 0},
    ]
    files = (
        lines(tmp_path / "subscriptions.jsonl", watching),
        lines(tmp_path / "plain.jsonl", records),
        lines(
            tmp_path / "mixed.jsonl", [{**r, "note": note} for r, note in zip(records, ("a", 1, "b", 2), strict=True)]
        ),
    )
    plain, mixed = (run("match", files[0], file, "--grouped").stdout for file in files[1:])
    assert mixed == plain
    rows = [orjson.loads(line) for line in mixed.splitlines()]
    assert [(row["publication_id"], row["subscription_ids"]) for row in rows] == [
        ("e1", ["s1", "s3"]),
        ("e1", ["s1", "s2", "s3"]),
        ("e0", ["s1", "s3"]),
    ]
    twice = lines(tmp_path / "twice.jsonl", [{**records[0], "note": note} for note in ("a", 1)])
    assert "the id 'e1' twice" in refused("match", files[0], twice, "--grouped")


def test_match_takes_attributes_of_several_types(tmp_path, subscriptions):
    path = lines(tmp_path / "mixed.jsonl", [*PUBLICATIONS, {**PUBLICATIONS[0], "id": "p4", "no2": "high"}])
    assert sorted(pairs(run("match", subscriptions, path).stdout)) == sorted([*EXPECTED, ("s2", "p4")])
    grouped = run("match", subscriptions, path, "--grouped")
    assert "4 publications, 5 notifications" in grouped.stderr
    assert len(grouped.stdout.splitlines()) == 4
    nothing = lines(
        tmp_path / "none.jsonl",
        [{**PUBLICATIONS[0], "no2": value, "id": f"p{i}", "station": "x"} for i, value in enumerate("a1")],
    )
    assert run("match", subscriptions, nothing).stdout == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time": "2026-11-15T08:00:00"}, "offset from UTC"),
        ({"time": "2026-11-15"}, "a timestamp such as"),
        ({"time": 1700000000}, "a timestamp such as"),
        ({"time": None}, "a field time"),
        ({"id": ""}, "a non-empty string as the id"),
        ({"source": 3}, "a non-empty string as the source"),
        ({"location": {"lon": 7, "lat": 91}}, "lat in [-90, 90]"),
        ({"location": "here"}, "a point (lon, lat)"),
        ({"phase": "MIDDLE"}, "START, END, INSTANT"),
        ({"attributes": [1]}, "an object of attributes"),
        ({"attributes": {"time": 5}}, "not reserved"),
        ({"event": 5}, "not reserved"),
        ({"a": {"b": 1}}, "an object {"),
        ({"a": [[1]]}, "a number, string, truth value or timestamp"),
        ({"a": {"date": "2026-02-30"}}, "a date such as"),
        ({"a": {"timestamp": "soon"}}, "a timestamp such as"),
    ],
)
def test_match_names_the_line_of_a_bad_record(tmp_path, subscriptions, change, words):
    path = lines(tmp_path / "publications.jsonl", [PUBLICATIONS[0], {**PUBLICATIONS[1], **change}])
    message = refused("match", subscriptions, path)
    assert words in message
    assert f"{path}, line 2" in message


def test_lists_nested_deep_are_refused_with_their_line(tmp_path, subscriptions):
    path = lines(tmp_path / "publications.jsonl", [PUBLICATIONS[0], {**PUBLICATIONS[1], "a": "deep"}])
    path.write_text(path.read_text().replace('"deep"', "[" * 1000 + "]" * 1000))
    message = refused("match", subscriptions, path)
    assert "a number, string, truth value or timestamp" in message
    assert f"{path}, line 2" in message


def test_match_names_the_place_of_broken_input(tmp_path, subscriptions, publications):
    path = tmp_path / "publications.jsonl"
    path.write_text('{"id": "p1"\n')
    assert f"{path}, line 1, column " in refused("match", subscriptions, path)
    twice = lines(tmp_path / "twice.jsonl", [PUBLICATIONS[0], PUBLICATIONS[0]])
    assert f"the id 'p1' twice; at one batch of {twice}, lines 1 to 2" in refused("match", subscriptions, twice)
    bad = lines(tmp_path / "bad.jsonl", [SUBSCRIPTIONS[0], {**SUBSCRIPTIONS[1], "where": "no2 >"}])
    message = refused("match", bad, publications)
    assert f"subscription 's2', {bad}, line 2\n" in message
    assert message.endswith("\n  no2 >\n       ^\n")
    text = tmp_path / "publications.txt"
    text.write_text("p1")
    assert "a file that ends in .jsonl, .ndjson, .json, .csv, .parquet" in refused("match", subscriptions, text)
    first = lines(tmp_path / "first.jsonl", [{"id": "s1"}])
    assert f"a field subscriber; got id; at {first}, line 1" in refused("match", first, publications)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("p2,z8,yesterday,1,7,46", "as time; got 'yesterday'; at line 4 of "),
        ("p2,z8,2026-11-15T08:00:00,1,7,46", "offset from UTC"),
        ("p2,z8,2026-11-15T08:00:00Z,1,east,46", "a number as location.lon; got 'east'; at line 4"),
        ("p2,z8,2026-11-15T08:00:00Z,1,200,46", "line 4"),
        ("p2,z8,2026-11-15T08:00:00Z,nan,7,46", "line 4"),
        ("p2,z8,,1,7,46", "a value of time in every row; got null; at line 4"),
        ("p2,z8,2026-11-15T08:00:00Z", "6 cells as in the header; got 3"),
    ],
)
def test_match_names_the_line_of_a_bad_row(tmp_path, subscriptions, row, words):
    path = tmp_path / "publications.csv"
    path.write_text(f"id,source,time,no2,location.lon,location.lat\n\np1,z7,2026-11-15T08:00:00Z,45,,\n{row}\n")
    message = refused("match", subscriptions, path)
    assert words in message
    assert str(path) in message


def test_lines_are_counted_across_cells_with_line_breaks(tmp_path, subscriptions):
    path = tmp_path / "publications.csv"
    path.write_text('id,source,time,note\np1,z7,2026-11-15T08:00:00Z,"two\nlines"\np2,z8,yesterday,one\n')
    assert "got 'yesterday'; at line 4 of " in refused("match", subscriptions, path)


def test_csv_columns_have_the_kind_of_all_their_cells(tmp_path):
    path = tmp_path / "publications.csv"
    path.write_text(
        "id,source,time,count,code,open,seen,plain.lon\n"
        "7,1,2026-11-15T08:00:00Z,1,1,true,2026-11-15T08:00:00Z,3\n8,1,2026-11-15T08:00:00Z,,x,false,,4\n"
    )
    (both,) = batches(path)
    (first, second) = batches(path, size=1)
    kinds = [pa.string(), pa.string(), pa.timestamp("us", "UTC"), pa.float64(), pa.string(), pa.bool_()]
    assert both.rows.schema.types == [*kinds, pa.timestamp("us", "UTC"), pa.float64()] == first.rows.schema.types
    assert second.rows.column("count").to_pylist() == [None]
    assert second.numbers == [3]
    path.write_text("")
    with pytest.raises(tg.PublicationError, match="a header"):
        list(batches(path))


def test_parquet_that_is_none_or_has_wrong_columns(tmp_path, subscriptions):
    path = tmp_path / "publications.parquet"
    path.write_bytes(b"no parquet")
    assert "a Parquet file" in refused("match", subscriptions, path)
    time = pa.array([datetime(2026, 11, 15, 8)], pa.timestamp("us"))
    pq.write_table(pa.table({"id": ["p1"], "source": ["z7"], "time": time}), path)
    assert "timestamps with a time zone" in refused("match", subscriptions, path)
    pq.write_table(pa.table({"id": ["p1"]}), path)
    assert "a column source" in refused("match", subscriptions, path)


def readings(**columns: object) -> pa.Table:
    time = pa.array([datetime(2026, 11, 15, 8, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    return pa.table({"id": ["p1", "p2"], "source": ["z7", "z7"], "time": time, **columns})


def test_a_column_may_be_named_like_a_row(tmp_path, subscriptions):
    path = tmp_path / "publications.parquet"
    pq.write_table(readings(**{"row 999": [1.0, float("inf")]}), path)
    assert f"got inf; at column 'row 999', row 2 of {path}\n" in refused("match", subscriptions, path)


def test_parquet_coordinates_are_numbers(tmp_path, subscriptions):
    path = tmp_path / "publications.parquet"
    pq.write_table(readings(**{"location.lon": ["east", "7"], "location.lat": [46.0, 46.0]}), path)
    assert f"numbers as location.lon; got string; at {path}\n" in refused("match", subscriptions, path)
    pq.write_table(readings(**{"location.lon": [7, 2**60], "location.lat": [46, 46]}), path)
    assert f"row 2 of {path}\n" in refused("match", subscriptions, path)
    pq.write_table(readings(**{"location.lon": [7, None], "location.lat": pa.nulls(2)}), path)
    assert f"row 1 of {path}\n" in refused("match", subscriptions, path)
    twice = readings(**{"location.lon": [7, 7], "location.lat": [46, 46]})
    pq.write_table(twice.append_column("location.lon", [[7, 7]]), path)
    assert "each column once; got 'location.lon' twice" in refused("match", subscriptions, path)


def test_parquet_with_damaged_pages(tmp_path, subscriptions):
    path = tmp_path / "publications.parquet"
    pq.write_table(readings(), path)
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    message = refused("match", subscriptions, path)
    assert "a whole Parquet file; got a damaged one: " in message
    assert message.endswith(f"; at {path}\n")


def test_publications_as_columns():
    record = {
        "id": "p1",
        "source": "z7",
        "time": "2026-11-15T08:00:00Z",
        "big": 10**30,
        "day": {"date": "2026-11-15"},
        "seen": {"timestamp": "2026-11-15T08:00:00Z"},
        "spot": {"type": "Point", "coordinates": [7, 46, 1200]},
        "bag": [1, 2.5],
        "none": [],
        "gone": None,
    }
    found = publication(record, "here")
    assert found.value("seen") == datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert found.value("spot") == (7, 46)
    columns = table([found])
    assert columns.column("big").to_pylist() == [1e30]
    assert columns.column("bag").to_pylist() == [[1.0, 2.5]]
    assert columns.column("none").to_pylist() == [[]]
    assert "gone" not in columns.column_names
    assert table([found, publication({**record, "bag": [1, "a"]}, "here")]) is None


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain(tmp_path, subscriptions):
    given = orjson.dumps(PUBLICATIONS[0]).decode()
    result = run("explain", subscriptions, "s1", given)
    assert result.stdout == "s1 matches p1\n✓ no2 > 40   — no2 is 45\n"
    assert run("explain", subscriptions, "s1", "-", input=given).stdout == result.stdout
    file = tmp_path / "p1.json"
    file.write_text(given)
    assert run("explain", subscriptions, "s1", f"@{file}").stdout == result.stdout
    assert run("explain", subscriptions, "s3", given).stdout.startswith("s3 does not match p1\n✗ AND\n")


def test_explain_refuses_what_it_cannot_use(tmp_path, subscriptions):
    given = orjson.dumps(PUBLICATIONS[0]).decode()
    assert "the id of a subscription; got 's9'" in refused("explain", subscriptions, "s9", given)
    assert "a publication as a JSON object" in refused("explain", subscriptions, "s1", "no2=45")
    assert "a publication as a JSON object; got 45" in refused("explain", subscriptions, "s1", "45")
    assert "a field source; got id; at the argument PUBLICATION" in refused(
        "explain", subscriptions, "s1", '{"id": "p"}'
    )
    assert "No such file" in refused("explain", subscriptions, "s1", f"@{tmp_path / 'none.json'}")
    latin = tmp_path / "latin.json"
    latin.write_bytes('{"id": "é"}'.encode("latin-1"))
    wanted = "text in UTF-8; got the byte 0xe9; at "
    assert f"{wanted}{latin}\n" in refused("explain", subscriptions, "s1", f"@{latin}")
    assert f"{wanted}standard input\n" in refused("explain", subscriptions, "s1", "-", input=latin.read_bytes())
    path = tmp_path / "watch.txt"
    path.write_text("no2 > 40\nno2 >\n")
    assert f"{path}, line 2" in refused("explain", path, "2", given)


def test_explain_says_what_a_pattern_sees(tmp_path):
    path = tmp_path / "watch.txt"
    path.write_text("no2 > 40 AND topk(1, 'PT5M', no2)\n")
    reading = '{"id": "a", "source": "z", "time": "2026-11-15T08:00:00Z", "no2": %s}'
    assert run("explain", path, "1", reading % 45).stdout.startswith("1 sees a\n✓ AND\n")
    assert run("explain", path, "1", reading % 4).stdout.startswith("1 does not see a\n✗ AND\n")


# --- functions, demo -------------------------------------------------------------------------------------------------


def test_functions_lists_the_registry():
    rows = run("functions").stdout.splitlines()
    assert len(rows) == len(FUNCTIONS) + len(MEASURES) + len(FAMILIES)
    assert any(row.split()[:2] == ["place", "s_within"] for row in rows)
    assert {row.split()[0] for row in rows} == {
        "bag", "comparison", "ontology", "pattern", "place", "shape", "temporal", "text",
    }  # fmt: skip


def test_demo_uses_every_family_and_leaves_no_subscription_wrong(tmp_path):
    run("demo", "--write", tmp_path / "valley", "--readings", 100)
    assert run("check", tmp_path / "valley" / "subscriptions.jsonl").stdout == "104 subscriptions: 104 good, 0 wrong\n"
    assert len((tmp_path / "valley" / "publications.jsonl").read_text().splitlines()) == 100
    text = (tmp_path / "valley" / "subscriptions.jsonl").read_text()
    for words in (
        " > ",
        " LIKE ",
        "a_contains(",
        "S_DWITHIN(",
        "T_DURING(",
        "CASEI(",
        "ACCENTI(",
        "IS NULL",
        "BETWEEN",
        "topk(",
        "together(",
        "absent(",
    ):
        assert words in text


@pytest.mark.parametrize(
    "arguments",
    [("--readings", 0), ("--seconds", 0), ("--seconds", "nan"), ("--seconds", 1, "--readings", 1), ("--seed", -1)],
)
def test_demo_refuses_settings_out_of_range(arguments):
    refused("demo", *arguments)


def test_check_warns_of_one_attribute_as_number_and_text(tmp_path):
    path = tmp_path / "s.cql2"
    path.write_text("no2 > 'a' AND no2 > 3\n")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0
    assert "can never match" in result.stderr
