"""rehearse: the same notifications as ``match``, from every kind of file, counted by day with gaps; clear mistakes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import tidegate as tg
from tests.cli.commands import lines, refused, run
from tidegate.cli.input_files import InputFiles
from tidegate.cli.rehearsal_report import RehearsalReport
from tidegate.pipeline.rehearsal import Extent, Outcome, _CountPerPeriod

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
DAY = timedelta(days=1)
#: A reading every 10 minutes for six days, out of order; day 3 has none above 40.
READINGS = [
    {
        "id": f"p{i:03d}",
        "source": f"z{i % 3}",
        "time": (BEGIN + timedelta(minutes=10 * i)).isoformat(),
        "no2": 12.5 if i // 144 == 3 else float(i * 37 % 50),
        "kind": "rain" if i % 2 else "snow",
        "location": {"lon": 16.0, "lat": 45.8},
    }
    for i in (j * 355 % 864 for j in range(864))
]
WHERES = ["no2 > 40", "topk(1, 'PT1H', no2)", "absent('PT12H', no2 > 40)", "kind = 'hail'"]


@pytest.fixture
def subscriptions(tmp_path):
    rows = [{"id": f"s{i}", "subscriber": "ann", "where": where} for i, where in enumerate(WHERES)]
    return lines(tmp_path / "subscriptions.jsonl", rows)


def expected() -> list[tg.Notification]:
    engine = tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(WHERES)])
    found = [
        tg.Publication(r["id"], r["source"], datetime.fromisoformat(r["time"]), {"no2": r["no2"], "kind": r["kind"]})
        for r in READINGS
    ]
    return engine.publish(found)


def parquet(path, records=READINGS, **options):
    table = pa.Table.from_pylist(records)
    times = pa.array([datetime.fromisoformat(r["time"]) for r in records], pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(table.column_names.index("time"), "time", times), path, **options)
    return path


def told(*arguments):
    return orjson.loads(run("rehearse", *arguments, "--json").stdout)


def counted(notifications):
    return Counter((n.subscription, n.time.date().isoformat()) for n in notifications)


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv", "mixed folder"])
def test_what_match_would_have_told(spark, tmp_path, subscriptions, form):
    place = tmp_path / "history"
    place.mkdir()
    if form == "parquet":
        parquet(place / "a.parquet", READINGS[:300])
        parquet(place / "b.parquet", READINGS[300:])
    elif form == "jsonl":
        lines(place / "a.jsonl", READINGS)
    elif form == "csv":
        rows = [",".join(str(r[name]) for name in ("id", "source", "time", "no2", "kind")) for r in READINGS]
        (place / "a.csv").write_text("\n".join(["id,source,time,no2,kind", *rows]))
    else:
        lines(place / "a.jsonl", READINGS[:100])
        parquet(place / "b.parquet", READINGS[100:])
    found = told(place, "--subscriptions", subscriptions)
    wanted = counted(expected())
    assert {(row["subscription"], row["day"]): row["notifications"] for row in found["counts"]} == wanted
    assert found["subscriptions"] == {
        s: sum(n for (id, _), n in wanted.items() if id == s) for s in ("s0", "s1", "s2", "s3")
    }
    assert found["subscriptions"]["s3"] == 0
    assert found["publications"] == 864
    first = min((n.time, n.subscription) for n in expected())
    assert (datetime.fromisoformat(found["firsts"][0]["time"]), found["firsts"][0]["subscription_id"]) == first


def test_part_of_it_by_hour_and_all_notifications_in_a_file(spark, tmp_path):
    history, out = parquet(tmp_path / "h.parquet", row_group_size=100), tmp_path / "out.parquet"
    bounds = ("--from", "2026-10-02", "--until", "2026-10-02T03:00:00+00:00")
    found = told(history, "--where", "no2 >= 0", *bounds, "--by", "hour", "--out", out, "--shards", "3")
    assert [(row["hour"], row["notifications"]) for row in found["counts"]] == [
        (f"2026-10-02 0{hour}:00", 6) for hour in range(3)
    ]
    ids = [row["publication_ids"][0] for row in pq.read_table(out).to_pylist()]
    assert sorted(ids) == [f"p{i:03d}" for i in range(144, 162)]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert "an output that does not exist yet" in refused("rehearse", history, "--where", "no2 > 1", "--out", out)


def test_for_people(spark, tmp_path):
    history = parquet(tmp_path / "h.parquet")
    text = run("rehearse", history, "--where", "no2 > 40", "--where", "kind = 'hail'").stdout
    assert "864 publications, 2026-10-01 00:00 to 2026-10-06 23:50 UTC" in text
    bars = {line[:10]: line[12:] for line in text.splitlines() if line.startswith("2026-10-0") and line[10:12] == "  "}
    assert bars["2026-10-04"] == "·"
    assert bars["2026-10-01"].startswith("████")
    assert "the first of them" in text
    assert "nothing would have been sent" in run("rehearse", history, "--where", "no2 > 400").stdout
    later = run("rehearse", history, "--where", "no2 > 4", "--from", "2027-01-01")
    assert "no publications there" in later.stdout


def test_rows_that_are_no_publications_are_told(spark, tmp_path):
    times = pa.array([BEGIN, BEGIN, BEGIN], pa.timestamp("us", "UTC"))
    table = pa.table({"id": ["p1", None, "p3"], "source": ["z"] * 3, "time": times, "no2": [1.0, 50.0, 60.0]})
    pq.write_table(table, tmp_path / "h.parquet")
    text = run("rehearse", tmp_path / "h.parquet", "--where", "no2 > 40").stdout
    assert "2 publications" in text
    assert "1 row left out as no publication, the first because: expected a value of id in every row" in text


def test_points_in_two_columns_and_attributes_of_several_kinds(spark, tmp_path):
    times = pa.array([BEGIN, BEGIN], pa.timestamp("us", "UTC"))
    columns = {"location.lon": [16.0, None], "location.lat": [45.8, None]}
    pq.write_table(
        pa.table({"id": ["p1", "p2"], "source": ["z", "z"], "time": times, **columns}), tmp_path / "h.parquet"
    )
    records = [
        {"id": "p3", "source": "z", "time": BEGIN.isoformat(), "location": {"lon": 16.0, "lat": 45.8}, "n": 1},
        {"id": "p4", "source": "z", "time": BEGIN.isoformat(), "n": "one", "seen": {"date": "2026-10-01"}},
    ]
    other = lines(tmp_path / "h.jsonl", records)
    wheres = ("S_DWITHIN(location, POINT(16 45.8), 10)", "n = 'one' OR n = 1", "seen = DATE('2026-10-01')")
    found = told(tmp_path / "h.parquet", other, *(part for where in wheres for part in ("--where", where)))
    assert found["subscriptions"] == {"1": 2, "2": 2, "3": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--where", "no2 >"], "expected"),
        ([], "either --where or --subscriptions; got neither"),
        (
            ["--where", "a > 1", "--from", "yesterday"],
            "a date, or a timestamp with its offset from UTC; got 'yesterday'",
        ),
        (["--where", "a > 1", "--from", "2026-10-02", "--until", "2026-10-01"], "--from before --until"),
        (["--where", "a > 1", "--out", "no/such/folder"], "an output in a folder that exists"),
    ],
)
def test_mistakes_are_seen_before_spark_is_started(tmp_path, monkeypatch, arguments, words):
    monkeypatch.setattr("tidegate.pipeline.session.session", lambda **_: pytest.fail("Spark was started"))
    history = lines(tmp_path / "h.jsonl", READINGS[:2])
    message = run("rehearse", history, *arguments, code=2).stderr
    assert words in message
    assert "files or folders that exist" in refused("rehearse", tmp_path / "none", "--where", "a > 1")
    (tmp_path / "empty").mkdir()
    assert ".parquet" in refused("rehearse", tmp_path / "empty", "--where", "a > 1")
    bad = lines(tmp_path / "bad.jsonl", [READINGS[0], {"id": "x"}])
    assert f"{bad}, line 2" in refused("rehearse", bad, "--where", "a > 1")


def test_a_history_that_is_none(spark, tmp_path):
    (tmp_path / "a.parquet").write_text("no Parquet at all")
    message = refused("rehearse", tmp_path / "a.parquet", "--where", "a > 1")
    assert "Parquet whose columns agree; got " in message
    assert str(tmp_path / "a.parquet") in message
    pq.write_table(pa.table({"id": ["p"], "n": [1]}), tmp_path / "b.parquet")
    assert "a column time; got columns id, n" in refused("rehearse", tmp_path / "b.parquet", "--where", "a > 1")


def test_a_long_time_has_a_column_per_day():
    """Months as lines, gaps as blanks; plain characters where the terminal has no others."""
    counts = Counter({("s", BEGIN + 7 * i * DAY): i for i in range(20)})
    extent = Extent(500, BEGIN, BEGIN + 140 * DAY)
    almanac = RehearsalReport(
        [tg.Subscription("s", "ann", "a > 1")], InputFiles([], []), extent, Outcome(counts, [], 0, ""), DAY, 1.0
    )
    with open("/dev/null", "w", encoding="ascii") as nothing:
        console = Console(record=True, width=120, file=nothing)
        almanac.report(console)
    text = console.export_text()
    assert "2026-10         1      1      2    " in text
    assert "one column per day, the highest is 19" in text
    assert len(almanac.timeline()) == 141


def test_counts_of_several_batches_add_up():
    """And the first few are the first of all, before 1970 too."""
    when = [BEGIN + timedelta(hours=9 * i) for i in (3, 0, 1, 2)] + [datetime(1969, 12, 31, 23, tzinfo=UTC)]
    row = {"notification_id": "n", "subscription_id": "s", "subscriber": "ann", "publication_ids": ["p"]}
    table = pa.Table.from_pylist([row | {"time": time} for time in when])
    (found,) = _CountPerPeriod(DAY, 2)(iter(table.to_batches(max_chunksize=2)))
    rows = found.to_pylist()
    counts = {row["begin"]: row["count"] for row in rows if row["first"] is None}
    assert counts == {datetime(1969, 12, 31, tzinfo=UTC): 1, BEGIN: 3, BEGIN + DAY: 1}
    assert [orjson.loads(row["first"])["time"][:10] for row in rows if row["first"]] == ["1969-12-31", "2026-10-01"]
