"""The commands of the bench: sweep, figures, picture of a network; mistakes are told before anything takes long.

Most tests have a stand-in for what is measured, and one runs the quick sweep as it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple
from xml.etree import ElementTree

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bench.__main__ import main
from bench.papers.filter_split_forward import commands, simulate
from bench.papers.filter_split_forward.load_table import percent, summary_of, tell
from bench.papers.filter_split_forward.simulate import SCHEMA, Cell, plan
from bench.sensorscope import FOLDER
from tests.parts.tied_process import tied
from tidegate.errors import SubscriptionError

ROOT = Path(__file__).parents[3]
#: Small, naive and multi-join: two numbers of subscriptions, and two seeds unless more is said.
SMALL = ("--quick", "--setup", "small", "--strategy", "naive", "--strategy", "multi-join", "--rounds", 3)
FEW, MANY = sorted({cell.subscriptions for cell in plan(["small"], 1, quick=True)})
KEY = Cell("small", "naive", "none", MANY, 1, 3).key
_PATIENCE = 120


def counted(cell: Cell, folder: Path | None) -> dict[str, object]:
    """A row at once; that it was asked for is written down in the folder of the environment, if there is one."""
    diary = Path(os.environ.get("TIDEGATE_TEST_DIARY", "/nonexistent"))
    if diary.is_dir():
        with (diary / cell.key).open("a") as asked:
            asked.write("x")
    row: dict[str, object] = {
        name: [] if pa.types.is_nested(kind) else "" if pa.types.is_string(kind) else 1
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
    }
    known = {name: getattr(cell, name) for name in cell.__dataclass_fields__}
    data = "generated" if folder is None else "sensorscope"
    load = cell.subscriptions * (3 if cell.strategy == "naive" else 1) + cell.seed
    return row | known | {"data": data, "subscription_load": load, "publication_load": 10 * load, "recall": 1.0}


def failing(cell: Cell, folder: Path | None) -> dict[str, object]:
    if cell.strategy == "naive" and cell.subscriptions == MANY:
        raise SubscriptionError("a range with something in it", "none")
    return counted(cell, folder)


def waiting(cell: Cell, folder: Path | None) -> dict[str, object]:
    """Those with few subscriptions come last, and not before the file ``go`` is there."""
    until = monotonic() + _PATIENCE
    while cell.subscriptions == FEW and not Path(os.environ["TIDEGATE_TEST_DIARY"], "go").exists():
        assert monotonic() < until
        sleep(0.02)
    return counted(cell, folder)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """In an empty folder, where the usual folder of data is not there."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(commands, "FOLDER", Path("no-sensorscope"))


class Printed(NamedTuple):
    stdout: str
    stderr: str


def run(*words: object, code: int = 0) -> Printed:
    """A command as ``python -m bench`` takes it, in this process."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
        try:
            found = main(["filter-split-forward", *map(str, words)])
        except SystemExit as exit:  # of argparse
            found = exit.code
    assert found == code, out.getvalue() + error.getvalue()
    return Printed(out.getvalue(), error.getvalue())


def refused(*words: object, code: int = 2) -> str:
    message = run(*words, code=code).stderr.splitlines()[-1]
    assert message.startswith("bench: expected ")
    assert "; got " in message
    return message


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(simulate, "measure", counted)


# --- run ------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_run_and_run_again(spark, stand_in, tmp_path):
    out = tmp_path / "out"
    ran = run("run", out, *SMALL)
    assert "replaying generated weather (no-sensorscope is not there" in ran.stderr
    assert f"8 cells in {out}" in ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["subscription", "publication"]
    assert lines[1].split() == ["load", "load", "recall", "precision"]
    assert lines[2].rstrip() == f"small, {MANY} subscriptions, 2 seeds"
    assert lines[3].split() == ["naive", f"{3 * MANY + 2}", f"{30 * MANY + 15:,}", "100", "%", "100", "%"]
    assert lines[4].split()[:4] == ["multi-join,", "pairwise", f"{MANY + 2}", f"{10 * MANY + 15:,}"]
    found = pq.read_table(out / "results.parquet")
    assert found.schema.equals(SCHEMA)
    assert found.num_rows == 8
    assert set(found.column("rounds").to_pylist()) == {3}

    again = run("run", out, *SMALL, "--generated")
    assert "nothing to do: all 8 cells are there" in again.stderr
    assert "is not there" not in again.stderr
    assert again.stdout == ran.stdout

    more = orjson.loads(run("run", out, *SMALL, "--seeds", 3, "--json").stdout)
    assert (more["cells"], more["data"], more["rounds"]) == (12, "generated", 3)
    assert [row["seeds"] for row in more["rows"]] == [3, 3]
    assert more["rows"][0] == {
        "setup": "small",
        "strategy": "naive",
        "subsumption": "none",
        "subscriptions": MANY,
        "seeds": 3,
        "subscription_load": 3 * MANY + 2,
        "publication_load": 30 * MANY + 20,
        "recall": 1.0,
        "precision": 1.0,
    }
    assert "all 12 cells of the sweep that is there; got a sweep without" in refused("run", out, *SMALL)
    message = refused("run", out, *SMALL, "--seeds", 3, "--rounds", 5)
    assert "a new folder, or rounds 3 as in the sweep that is there; got 5" in message


@pytest.mark.thorough
def test_a_cell_that_fails(spark, monkeypatch, tmp_path):
    monkeypatch.setattr(simulate, "measure", failing)
    message = refused("run", tmp_path / "out", *SMALL, "--seeds", 1, code=1)
    assert "got expected a range with something in it; got none; the other 3 of 4 are kept" in message
    assert message.endswith(f"at cell {KEY}")
    monkeypatch.setattr(simulate, "measure", counted)
    run("run", tmp_path / "out", *SMALL, "--seeds", 1)


@pytest.mark.thorough
def test_a_damaged_cell_is_told(spark, stand_in, tmp_path):
    out = tmp_path / "out"
    run("run", out, *SMALL, "--seeds", 1)
    (out / "results.parquet").unlink()
    (out / "cells" / f"{KEY}.parquet").write_bytes(b"PAR1")
    told = run("run", out, *SMALL, "--seeds", 1).stderr
    assert f"warning: cell {KEY} is measured again: its file is damaged" in told


def test_lines_about_progress_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(commands, "_PAUSE", 0.0)
    with commands._progress(7) as report:
        report(3, 7, "")
    assert "3 of 7 cells after 0 s" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.skipif(not FOLDER.is_dir(), reason="SensorScope's files are not there")
def test_the_usual_folder_is_found(spark, stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "FOLDER", FOLDER)
    ran = run("run", tmp_path / "out", *SMALL, "--seeds", 1, "--json")
    assert f"replaying SensorScope's readings in {FOLDER}" in ran.stderr
    facts = orjson.loads(ran.stdout)
    assert facts["data"] == "sensorscope"
    assert facts["files"].startswith("23 of ")
    message = refused("run", tmp_path / "out", *SMALL, "--seeds", 1, "--generated")
    assert "data 'sensorscope' as in the sweep that is there; got 'generated'" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--setup", "smal"],
            "a set-up (small, medium, large-network, large-sources); got 'smal' (did you mean small?)",
        ),
        (["--setup", "xyz"], "got 'xyz'"),
        (["--strategy", "multijoin"], "got 'multijoin' (did you mean multi-join?)"),
        (["--strategy", "covering"], "got covering, which is for plain conditions"),
        (["--seeds", "0"], "at least 1 seed; got 0"),
        (["--setup", "small", "--strategy", "centralized"], "measured together; got centralized in small"),
        (["--setup", "large-network", "--quick"], "in large-network with --quick"),
        (["--data", ".", "--generated"], "either --data or --generated; got both"),
        (["--data", "."], "SensorScope's 23 files stbernard-meteo-*.txt.gz; got 0 of them"),
        (["--data", "nowhere"], "got no such folder"),
    ],
)
def test_mistakes_of_run(tmp_path, arguments, words):
    assert words in refused("run", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()


def test_outputs_that_are_none(tmp_path):
    (tmp_path / "file").touch()
    assert "a folder for the results of a sweep; got a file" in refused("run", tmp_path / "file", "--quick")
    assert "got Not a directory" in refused("run", tmp_path / "file" / "out", "--quick")
    assert (
        "argument --rounds: expected a whole number of at least 1; got '0'"
        in run("run", tmp_path / "out", "--rounds", 0, code=2).stderr
    )


# --- figures --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_figures_of_what_is_there(spark, stand_in, tmp_path):
    out = tmp_path / "out"
    run("run", out, *SMALL)
    told = run("figures", out)
    assert told.stdout.startswith(f"{out}/figures/README.md")
    assert "missing" not in told.stderr
    assert {"README.md", "figure04.png", "figure05.png"} <= {path.name for path in (out / "figures").iterdir()}
    assert f"python -m bench filter-split-forward figures {out}" in " ".join(
        (out / "figures" / "README.md").read_text("utf-8").split()
    )

    (out / "results.parquet").unlink()
    (out / "cells" / f"{KEY}.parquet").unlink()
    told = run("figures", out, "--to", tmp_path / "drawn" / "here")
    assert "warning: 1 of 8 cells are missing; drawn is what is there" in told.stderr
    assert (tmp_path / "drawn" / "here" / "figure04.png").exists()


def test_mistakes_of_figures(tmp_path):
    (tmp_path / "file").touch()
    assert "got none there" in refused("figures", tmp_path / "nowhere")
    assert "got a file" in refused("figures", tmp_path / "file")
    assert "a folder for the figures; got a file" in refused("figures", tmp_path / "nowhere", "--to", tmp_path / "file")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "results.parquet")
    assert "got its file has other columns" in refused("figures", tmp_path)


# --- show -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["html", "svg", "SVG"])
@pytest.mark.parametrize("strategy", ["filter-split-forward", "centralized"])
def test_show(tmp_path, ending, strategy):
    file = tmp_path / f"n.{ending}"
    options = ("--setup", "small", "--subscriptions", 12, "--rounds", 3, "--generated", "--strategy", strategy)
    told = run("show", *options, "--out", file)
    assert told.stdout.startswith(f"{file}: subscription load ")
    assert "recall 100 %, precision 100 %" in told.stdout
    text = file.read_text("utf-8")
    title = f"small set-up, {strategy}{' (exact)' if strategy != 'centralized' else ''}, 12 subscriptions, 3 rounds"
    assert title in text
    if ending == "html":
        assert text.lower().startswith("<!doctype html>")
    else:
        assert ElementTree.fromstring(text).tag.endswith("svg")


def test_seeds_are_other_networks(tmp_path):
    def drawn(seed: int) -> str:
        options = ("--setup", "small", "--subscriptions", 5, "--rounds", 2, "--generated", "--seed", seed)
        run("show", *options, "--out", tmp_path / "n.svg")
        return (tmp_path / "n.svg").read_text("utf-8")

    first = drawn(1)
    assert drawn(1) == first
    assert drawn(2) != first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "n.png"], "a picture that ends in .html or .svg; got 'n.png'"),
        (["--out", "n"], "got 'n'"),
        (["--out", "nowhere/n.svg"], "a picture in a folder that exists; got 'nowhere/n.svg'"),
        (["--out", "n.svg", "--setup", "large"], "a set-up"),
        (["--out", "n.svg", "--strategy", "covering"], "covering, which is for plain conditions"),
        (["--out", "n.svg", "--data", "nowhere"], "no such folder"),
    ],
)
def test_mistakes_of_show(arguments, words):
    assert words in refused("show", *arguments)
    assert list(Path().iterdir()) == []


# --- what is told ---------------------------------------------------------------------------------------------------


def test_shares_are_never_rounded_up():
    assert [percent(share) for share in (1.0, 0.99999, 0.5, 0.0)] == ["100 %", "99.99 %", "50.00 %", "0.00 %"]


def test_the_table_fits_and_has_the_most_subscriptions_of_each_setup():
    cells = [Cell("medium", *who, n, s) for who in simulate.CONTENDERS for n in (100, 900) for s in (1, 2)]
    cells += [Cell("small", "naive", "none", 1000, 1)]
    rows = pa.Table.from_pylist([counted(cell, None) | {"recall": 1 - cell.seed / 1e6} for cell in cells], SCHEMA)
    summary = summary_of(rows)
    assert [(row["setup"], row["strategy"], row["subscriptions"]) for row in summary] == [
        ("small", "naive", 1000),
        *(("medium", strategy, 900) for strategy, _ in simulate.CONTENDERS),
    ]
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        console = Console(record=True, width=80, file=nothing)
        tell(summary, console)
        text = console.export_text()
    assert "filter-split-forward, probabilistic" in text
    assert "small, 1,000 subscriptions, 1 seed" in map(str.rstrip, text.splitlines())
    assert "medium, 900 subscriptions, 2 seeds" in map(str.rstrip, text.splitlines())
    assert "99.99 %" in text
    assert "…" not in text


# --- as a process of its own ----------------------------------------------------------------------------------------

_CODE = """
import sys
from bench.__main__ import main
from bench.papers.filter_split_forward import simulate
from tests.papers.filter_split_forward import test_commands
simulate.measure = getattr(test_commands, sys.argv[1])
sys.exit(main(["filter-split-forward", *sys.argv[2:]]))
"""


def started(diary: Path, measure: str, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TIDEGATE_TEST_DIARY": str(diary)}
    line = [sys.executable, "-c", _CODE, measure, "run", *map(str, arguments)]
    return subprocess.Popen(tied(line), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_stopped_goes_on(tmp_path, number):
    out, diary = tmp_path / "out", tmp_path / "diary"
    diary.mkdir()
    with started(diary, "waiting", out, *SMALL, "--generated") as process:
        until = monotonic() + _PATIENCE
        while len(list((out / "cells").glob("*.parquet"))) < 4:
            assert process.poll() is None, process.communicate()
            assert monotonic() < until
            sleep(0.05)
        process.send_signal(number)
        _, error = process.communicate(timeout=_PATIENCE)
    assert "Traceback" not in error
    if number != signal.SIGKILL:
        assert process.returncode == 130, error
        assert "4 of 8 cells are kept; the same command goes on from there" in error
        assert error.splitlines()[-1] == "bench: interrupted"
    assert not (out / "results.parquet").exists()
    assert len(list((out / "cells").glob("*.parquet"))) == 4
    (diary / "go").touch()
    with started(diary, "waiting", out, *SMALL, "--generated", "--json") as process:
        told, error = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, error
    assert orjson.loads(told)["cells"] == 8
    asked = {file.name: len(file.read_text()) for file in diary.iterdir() if file.name != "go"}
    assert {name: times for name, times in asked.items() if f"-{MANY:04}-" in name and times != 1} == {}
    assert len(asked) == 8


@pytest.mark.thorough
def test_the_quick_sweep(spark, tmp_path):
    """As it is: all of it is told to whom it should be, and drawn."""
    told = orjson.loads(run("run", tmp_path / "out", "--quick", "--generated", "--json").stdout)
    assert {row["setup"] for row in told["rows"]} == {"small", "medium"}
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert len(rows) == told["cells"] == len(plan(seeds=2, quick=True))
    certain = [row for row in rows if row["subsumption"] != "probabilistic"]
    assert {(row["recall"], row["precision"]) for row in certain} == {(1.0, 1.0)}
    loads = {(row["setup"], row["strategy"], row["subsumption"]): row["publication_load"] for row in told["rows"]}
    for setup in ("small", "medium"):
        assert loads[setup, "filter-split-forward", "exact"] < loads[setup, "naive", "none"]
    run("figures", tmp_path / "out")
    assert (tmp_path / "out" / "figures" / "figure12.png").exists()
