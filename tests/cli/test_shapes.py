"""shapes: the list, one shape, and tolerances from a history; wrong inputs end in one message, as everywhere."""

from __future__ import annotations

import io
import tarfile
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tests.cli.commands import lines, refused, run
from tidegate.cli import shapes as command
from tidegate.shapes.named_shapes import everything, find
from tidegate.shapes.normal_form import distance, normal, rendered

STOCKS = Path(__file__).parents[3] / "shared/data/stocks/djia31_daily_2006-2018.tar.gz"
BEGIN = datetime(2026, 11, 15, tzinfo=UTC)
HEAD = "source,time,value\n"
MINE = '[shapes.my-shape]\npoints = [0, 5, 1]\nmeaning = "mine alone"\n'


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


@pytest.fixture(autouse=True)
def no_trace():
    before = everything()
    yield
    assert everything() == before


def readings(bumps: int = 6, days: int = 3, nothing: float | None = None) -> pa.Table:
    """Two sources, a reading each half hour; so many spikes in the first one, noise elsewhere."""
    rng = np.random.default_rng(3)
    size = days * 48 + 1
    values = rng.normal(size=(2, size)) * 0.01
    for at in np.linspace(8, size - 30, bumps).astype(int):
        values[0, at : at + 21] += rendered(find("spike").points, 21)
    flat = [None if nothing is not None and i % 50 == 49 else float(v) for i, v in enumerate(values.ravel())]
    times = [BEGIN + timedelta(minutes=30 * i) for i in range(size)] * 2
    return pa.table(
        {
            "id": [f"p{i}" for i in range(2 * size)],
            "source": ["a"] * size + ["b"] * size,
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "value": pa.array(flat, pa.float64()),
        }
    )


def written(path: Path, table: pa.Table) -> Path:
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path)
        case ".csv":
            times = [time.isoformat() for time in table.column("time").to_pylist()]
            pyarrow.csv.write_csv(table.set_column(2, "time", pa.array(times)), path)
        case ".jsonl":
            lines(path, [row | {"time": row["time"].isoformat()} for row in table.to_pylist()])
        case _:
            kind = pa.ipc.new_stream if "stream" in path.name else pa.ipc.new_file
            with kind(str(path), table.schema) as file:
                file.write_table(table, 1000)
    return path


def told(*arguments: object) -> dict:
    return orjson.loads(run("shapes", "tolerance", *arguments, "--json").stdout)


# --- the list -------------------------------------------------------------------------------------------------------


def test_every_shape_is_listed_with_a_picture_within_80_columns():
    output = run("shapes").stdout
    for shape in everything():
        assert f"  {shape.name}\n" in output
    assert "three peaks, the middle one highest" in output
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b" not in output  # nobody looks at it: plain
    first = output.splitlines()[:3]
    assert all(0x2800 <= ord(sign) < 0x2900 for line in first for sign in line[:24])
    assert first[0].endswith("  head-and-shoulders")


def test_pictures_rise_and_fall():
    lines = run("shapes", "show", "ramp-up").stdout.splitlines()
    drawn = [line for line in lines if line and 0x2800 <= ord(line[0]) < 0x2900]
    filled = [[i for i, sign in enumerate(line) if sign != "\u2800"] for line in drawn]
    assert len(drawn) == 8
    assert filled[0][-1] == 63
    assert filled[-1][0] == 0
    assert all(upper[0] > lower[0] for upper, lower in pairwise(filled))


def test_a_terminal_without_braille_gets_words(monkeypatch):
    monkeypatch.setattr(command, "_console", lambda: command.Console(file=Latin(), highlight=False, soft_wrap=True))
    run("shapes")
    assert Latin.written.startswith(b"head-and-shoulders\nthree peaks")
    run("shapes", "show", "spike")
    assert b"11 control points:\n(0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0)" in Latin.written


class Latin(io.StringIO):
    encoding = "latin-1"
    written = b""

    def write(self, text: str) -> int:
        Latin.written += text.encode("latin-1")
        return len(text)


def test_shapes_of_a_file(mine):
    output = run("shapes", "--file", mine).stdout
    assert "my-shape\n" in output
    assert "mine alone" in output
    for arguments in (("--file", mine, "show", "my-shape"), ("show", "my-shape", "--file", mine)):
        assert "3 control points:\n(0, 5, 1)" in run("shapes", *arguments).stdout
    assert "expected the name of a shape" in refused("shapes", "show", "my-shape")


def test_one_shape_at_a_length():
    output = run("shapes", "show", "ramp-up", "--length", 5).stdout
    assert output.startswith("ramp-up  a steady rise\n")
    assert output.endswith("5 numbers:\n(0, 0.5, 1, 1.5, 2)\n")


def test_mistakes_in_the_list(mine):
    assert "got 'heads' (did you mean head-and-shoulders or inverse-head-and-shoulders?)" in refused(
        "shapes", "show", "heads"
    )
    mine.write_text("[shapes.spike]\npoints = [1, 2, 3]\n")
    assert f"got 'spike'; at {mine}, shapes.spike" in refused("shapes", "--file", mine)
    assert "No such file" in refused("shapes", "--file", mine.with_name("nix.csv"))
    assert run("shapes", "show", "spike", "--length", 2, code=2)


# --- tolerances -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["h.parquet", "h.csv", "h.jsonl", "h.arrow", "stream.arrow"])
def test_planted_spikes_are_found_in_any_kind_of_file(tmp_path, name):
    path = written(tmp_path / name, readings())
    found = told("--pattern", "spike", "--length", 21, "--history", path, "--tolerance", 2)
    assert (found["sources"], found["days"], found["read"], found["left_out"]) == (2, 3, 290, 0)
    assert found["windows"] == 290 - 2 * 20
    own = next(one for one in found["tolerances"] if one["tolerance"] == 2)
    assert (own["notifications"], own["per_day"], own["per_source"], own["sources"]) == (6, 2, 1, 1)
    assert own["correlation"] == pytest.approx(1 - 2**2 / 42)
    day = next(one for one in found["suggested"] if one["about"] == "1 a day")
    assert day["outcome"]["notifications"] == 3
    assert day["where"] == f"shape(value, 'spike', 'stream', 21) <= {day['outcome']['tolerance']}"
    assert found["suggested"][-1] == {"about": "100 a day", "outcome": None, "where": None}


@pytest.mark.parametrize("bound", [1.0, 2.0, 4.0, 5.5])
def test_the_engine_tells_as_many_times(tmp_path, bound):
    table = readings(days=9)
    path = written(tmp_path / "h.parquet", table)
    found = told("--pattern", "spike", "-n", 21, "--history", path, "--tolerance", bound)
    engine = tg.Engine([tg.Subscription("s", "ann", f"shape(value, 'spike', 'stream', 21) <= {bound}")])
    told_of = len(engine.publish(table.sort_by("time")))
    expected = next(one["notifications"] for one in found["tolerances"] if one["tolerance"] == bound)
    assert expected - 2 <= told_of <= expected  # an excursion that has not ended yet, of each source


def test_the_report(tmp_path):
    path = written(tmp_path / "h.parquet", readings(nothing=1.0))
    result = run("shapes", "tolerance", "--pattern", "spike", "-n", 21, "--history", path, "--tolerance", 2)
    title, read, windows, _, heads, *_ = result.stdout.splitlines()
    assert title == "spike over 21 readings of value"
    assert read == "290 publications (5 without a value), 2 sources, 3 days"
    assert windows.startswith("245 windows, the closest at ")
    assert heads.split() == ["tolerance", "correlation", "notifications", "per", "day", "per", "source", "windows"]
    assert [line.split()[-1] for line in result.stdout.splitlines() if line.endswith(("yours", "1/day"))] == [
        "1/day",
        "yours",
    ]
    assert "about 1 a day    shape(value, 'spike', 'stream', 21) <= " in result.stdout
    assert "No tolerance brings more than " in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_one_source_and_numbers_of_their_own_length(tmp_path):
    path = written(tmp_path / "h.parquet", readings())
    numbers = ", ".join(map(str, rendered(find("spike").points, 21).tolist()))
    whole, one = (
        told("--pattern", numbers, "--history", path, "--tolerance", 2, *more) for more in ((), ("--source", "a"))
    )
    assert (whole["length"], whole["sources"], one["sources"], one["read"]) == (21, 2, 1, 145)
    counts = [next(t for t in part["tolerances"] if t["tolerance"] == 2)["notifications"] for part in (whole, one)]
    assert counts == [6, 6]
    report = run("shapes", "tolerance", "--pattern", numbers, "--history", path).stdout
    assert "21 numbers over 21 readings of value" in report
    assert "shape(value, (0, 0, 0, …, 0), 'stream') <= " in report
    assert numbers.replace("0.0,", "0,")[:20] in whole["suggested"][0]["where"]
    few = run("shapes", "tolerance", "--pattern", "(0, 1, 0)", "-n", 21, "--history", path).stdout
    assert "shape(value, (0, 1, 0), 'stream', 21) <= " in few


def test_patterns_from_files(tmp_path, mine):
    path = written(tmp_path / "h.parquet", readings())
    plain = tmp_path / "numbers.txt"
    plain.write_text("0\n1\n0\n")
    table = tmp_path / "numbers.csv"
    table.write_text("0,1,0\n")
    assert told("--pattern", plain, "--history", path)["pattern"] == "(0, 1, 0)"
    assert told("--pattern", table, "--history", path)["length"] == 3
    assert told("--pattern", mine, "-n", 9, "--history", path)["pattern"] == "my-shape"
    assert told("--file", mine, "--pattern", "my-shape", "-n", 9, "--history", path)["pattern"] == "my-shape"
    mine.write_text(MINE + MINE.replace("my-", "your-"))
    message = refused("shapes", "tolerance", "--pattern", mine, "-n", 9, "--history", path)
    assert f"got my-shape, your-shape; at {mine}" in message


def test_columns_of_other_names(tmp_path):
    path = tmp_path / "h.csv"
    rows = [f"2026-11-{day:02},x{name},{day % 3 + name}" for name in (1, 2) for day in range(1, 29)]
    path.write_text("\n".join(["Date,Name,Close", *rows]))
    arguments = ("--pattern", "0,1,0", "--history", path, "--attribute", "Close")
    assert "a column time, or another by --time-column; got Date, Name, Close" in refused(
        "shapes", "tolerance", *arguments
    )
    arguments += ("--time-column", "Date")
    assert "a column source, or another by --source-column" in refused("shapes", "tolerance", *arguments)
    assert told(*arguments, "--source-column", "Name")["sources"] == 2
    assert told(*arguments, "--source-column", "Name")["days"] == 27
    assert told(*arguments, "--source-column", "-")["sources"] == 1


def test_whole_series(tmp_path):
    rng = np.random.default_rng(1)
    series = [rng.normal(size=n).tolist() for n in (24, 24, 30, 24, 2, 24)] + [None, [1.0] * 24, [1.0, None] * 12]
    times = [BEGIN + timedelta(days=i) for i in range(len(series))]
    columns = {"id": [str(i) for i in range(9)], "source": ["a"] * 9, "time": times, "close": series}
    path = written(tmp_path / "h.parquet", pa.table(columns))
    found = told("--pattern", "hill", "--history", path, "--attribute", "close", "--tolerance", 7)
    hills = {n: normal(rendered(find("hill").points, n)) for n in (24, 30)}
    far = [distance(normal(s), hills[len(s)]) for s in series[:6] if len(s) > 2]
    assert (found["length"], found["windows"], found["read"], found["left_out"]) == (None, 7, 9, 1)
    assert found["closest"] == min(far)
    own = next(one for one in found["tolerances"] if one["tolerance"] == 7)
    assert own["notifications"] == sum(d <= 7 for d in far) > 0
    assert found["suggested"][0]["where"].startswith("shape(close, 'hill') <= ")
    numbers = ", ".join(map(str, range(24)))
    assert told("--pattern", numbers, "--history", path, "--attribute", "close")["windows"] == 6
    stretched = told("--pattern", "0, 1, 0", "--stretched", "--history", path, "--attribute", "close")
    assert stretched["windows"] == 7
    assert "shape(close, (0, 1, 0), 'stretched') <= " in stretched["suggested"][0]["where"]
    arguments = ("shapes", "tolerance", "--history", path, "--attribute", "close", "--pattern")
    assert "hill over series of close" in run(*arguments, "hill").stdout
    assert "series of 3 numbers, or --stretched, as close; got series of 2, 24, 30" in refused(*arguments, "0,1,0")
    assert "no --length, since close has series of their own; got 9" in refused(*arguments, "hill", "-n", 9)


def test_lists_in_json_and_of_a_fixed_size(tmp_path):
    records = [
        {"id": str(i), "source": "a", "time": f"2026-11-{i + 1:02}T00:00:00Z", "value": [i, 2, 3 - i], "odd": odd}
        for i, odd in enumerate([1, "x", True])  # a batch that is no table
    ]
    assert told("--pattern", "ramp-up", "--history", lines(tmp_path / "h.jsonl", records))["windows"] == 3
    fixed = pa.array([[1, 2, 3], [1, 5, 2], None], pa.list_(pa.int32(), 3))
    times = [BEGIN + timedelta(days=i) for i in range(3)]
    path = written(tmp_path / "h.arrow", pa.table({"source": ["a"] * 3, "time": times, "value": fixed}))
    found = told("--pattern", "ramp-up", "--history", path)
    assert (found["windows"], found["left_out"], found["closest"]) == (2, 1, pytest.approx(0, abs=1e-9))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plots(tmp_path, ending):
    path, plot = written(tmp_path / "h.parquet", readings()), tmp_path / f"plot.{ending}"
    result = run("shapes", "tolerance", "--pattern", "spike", "-n", 21, "--history", path, "--plot", plot)
    assert result.stderr == f"plot written to {plot}\n"
    content = plot.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])
    assert len(content) > 5000


def test_a_plot_where_nothing_is_suggested(tmp_path):
    path, plot = written(tmp_path / "h.parquet", readings().slice(0, 30)), tmp_path / "plot.png"
    result = run("shapes", "tolerance", "--pattern", "spike", "-n", 25, "--history", path, "--plot", plot)
    assert "about" not in result.stdout
    assert plot.exists()


def test_interrupted(tmp_path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "sliding", interrupt)
    path = written(tmp_path / "h.parquet", readings())
    result = run("shapes", "tolerance", "--pattern", "0,1,0", "--history", path, code=130)
    assert result.stderr == "\ntidegate: interrupted\n"


# --- wrong inputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pattern", "heads", "-n", 9), "got 'heads' (did you mean head-and-shoulders or inverse-"),
        (("--pattern", "nix.toml", "-n", 9), "or a file that exists; got 'nix.toml'"),
        (("--pattern", "spike"), "--length, the number of readings that the pattern is stretched over; got none"),
        (("--pattern", "spike", "-n", 4), "a --length at which the pattern has a shape; got 4"),
        (("--pattern", "spike", "-n", 200), "a source with 200 readings of value; got 145 at most"),
        (("--pattern", "1, 2"), "3 to 65,536 numbers as points; got 2; at --pattern"),
        (("--pattern", "1, 1, 1"), "points that are not all equal"),
        (("--pattern", "1, nan, 1"), "finite numbers as points; got nan"),
        (("--pattern", " ".join(["1"] * 70_000)), "3 to 65,536 numbers as points; got 70,000"),
        (("--pattern", "0,1,0", "--attribute", "valeu"), "an attribute 'valeu'; got value (did you mean value?)"),
        (("--pattern", "0,1,0", "--attribute", "id"), "numbers, or lists of numbers, as id; got 'p0'; at row 1 of"),
        (("--pattern", "0,1,0", "--source", "A1"), "a source of the history; got 'A1'"),
        (("--pattern", "0,1,0", "--time-column", "value"), "timestamps or dates as value; got "),
        (("--pattern", "0,1,0", "--plot", "plot.jpg"), "a plot that ends in .svg, .png, .pdf; got 'plot.jpg'"),
        (("--pattern", "0,1,0", "--plot", "nowhere/plot.png"), "a plot in a directory that exists"),
        (("--pattern", "0,1,0", "--tolerance", "inf"), "finite numbers as --tolerance; got inf"),
        (("--pattern", "0,1,0", "--file", "shapes.json"), "a file of shapes that ends in .toml or .csv"),
    ],
)  # fmt: skip
def test_wrong_arguments(tmp_path, arguments, words):
    path = written(tmp_path / "h.parquet", readings())
    assert words in refused("shapes", "tolerance", "--history", path, *arguments)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("h.csv", "", "a header with the names of the columns; got an empty file"),
        ("h.csv", "source,time,value\n", "a history of readings or series; got an empty file"),
        ("h.jsonl", "", "a history of readings or series; got an empty file"),
        ("h.arrow", "", "an Arrow file; got "),
        ("h.arrow", "nonsense, and more of it", "an Arrow file; got "),
        ("h.parquet", "nonsense", "a Parquet file; got "),
        ("h.xlsx", "", "a file that ends in .jsonl, .ndjson, .json, .csv, .parquet, .arrow, .feather; got 'h.xlsx'"),
        ("h.csv", f"{HEAD}a,2026-11-15T00:00:00Z,1\na,2026-11-15T01:00:00Z,n/a\n", "got 'n/a'; at line 3 of"),
        ("h.csv", "source,time,value\na,soon,1\n", "as time; got 'soon'; at line 2 of"),
        ("h.csv", "source,time,value\na,2026-11-15T00:00:00Z,\n", "values of value; got none in the whole file"),
        ("h.csv", "source,time,value\na,2026-11-15T00:00:00Z,nan\n", "finite values of value; got none"),
        ("h.csv", HEAD + "".join(f"a,2026-11-15T0{i}:00:00Z,7\n" for i in range(5)), "not constant; got"),
        ("h.csv", HEAD + "".join(f"a,2026-11-15T00:00:00Z,{i}\n" for i in range(5)), "one moment; got"),
        ("h.jsonl", '{"id": "p", "source": "a", "time": "2026-11-15T00:00:00Z", "value": "x"}', "got 'x'; at line 1"),
        ("h.jsonl", '{"id": "p", "source": "a", "time": "2026-11-15T00:00:00Z", "v": 1}\n', "attribute 'value'; got v"),
        (
            "h.jsonl",
            '{"id": "p", "source": "a", "time": "2026-11-15T00:00:00Z", "value": 1}\n'
            '{"id": "q", "source": "a", "time": "2026-11-15T00:00:00Z", "value": "x"}\n',
            "numbers, or lists of numbers, as value; got 'x'; at line 2 of",
        ),
    ],
)  # fmt: skip
def test_wrong_histories(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_text(content)
    message = refused("shapes", "tolerance", "--pattern", "0,1,0", "--history", path)
    assert words in message
    assert name in message


# --- real data ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not STOCKS.exists(), reason="../shared/data/stocks is not here")
def test_real_stocks(tmp_path):
    """Twelve years of 31 stocks, as they come: dates, no ids, names of their own."""
    path = tmp_path / "stocks.csv"
    with tarfile.open(STOCKS) as archive, path.open("wb") as file:
        for i, member in enumerate(one for one in archive if one.name.endswith(".csv")):
            content = archive.extractfile(member).read()
            file.write(content if i == 0 else content.split(b"\n", 1)[1])
    columns = ("--attribute", "Close", "--time-column", "Date", "--source-column", "Name")
    found = told("--pattern", "head-and-shoulders", "-n", 60, "--history", path, *columns)
    assert (found["read"], found["sources"]) == (93_612, 31)
    assert found["closest"] == pytest.approx(4.376, abs=1e-3)
    rates = {one["about"]: one["outcome"] for one in found["suggested"]}
    assert rates["1 a month"]["per_day"] == pytest.approx(1 / 30, rel=0.1)
    assert rates["1 a day"] is None
