"""``tidegate match`` as a user meets it: all formats alike, and the place of what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.cli.commands import lines, run
from tests.cli.matched_files import EXPECTED, PUBLICATIONS, SUBSCRIPTIONS, pairs, refused
from tidegate.cli.publication_files import batches, publication, table


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
        ({"time": "2026-11-15T08:00:00"}, "timezone= says which zone"),
        ({"time": "2026-11-15"}, "a timestamp such as"),
        ({"time": 1700000000}, "a text such as"),
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
    assert f"numbers as location.lon; got string; at column 'location.lon' of {path}\n" in refused(
        "match", subscriptions, path
    )
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
