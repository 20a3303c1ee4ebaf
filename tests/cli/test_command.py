"""The command itself, ``explain``, ``functions`` and ``demo``: one clear message, an exit code, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import tidegate as tg
from tests.cli.commands import lines, run
from tests.cli.matched_files import PUBLICATIONS, refused
from tidegate.cli.commands import SUMMARIES
from tidegate.patterns import FAMILIES
from tidegate.predicates import FUNCTIONS, MEASURES

ROOT = Path(__file__).parents[2]
#: The commands that cannot do without the engine.
WITH_AN_ENGINE = {"check", "demo", "explain", "functions", "match", "rehearse", "shapes"}
_IMPORTED = """
import sys
from tidegate.cli.app import main
from tidegate.cli.commands import Commands
for name in sys.argv[2].split():
    Commands()[name]
del sys.argv[2]
try:
    main()
finally:
    print("imported", *{name.partition(".")[0] for name in sys.modules})
"""


# --- the command itself -----------------------------------------------------------------------------------------------


def test_version_and_help():
    assert run("--version").stdout == f"tidegate {tg.__version__}\n"
    assert "Commands:" in run("--help").stdout
    assert "No such command" in run("chekc", code=2).stderr


def imported(option, *commands):
    """The packages that are imported by ``tidegate`` with an option, once the modules of these commands are."""
    asked = [sys.executable, "-c", _IMPORTED, option, " ".join(commands)]
    told = subprocess.run(
        asked, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    return set(told.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_wait_for_no_large_package(option):
    found = imported(option)
    assert "typer" in found
    assert not found & {"llvmlite", "numba", "numpy", "pandas", "pyarrow", "pyspark", "shapely", "sqlalchemy"}


def test_commands_without_an_engine_do_not_wait_for_the_compiler():
    found = imported("--version", *(name for name in SUMMARIES if name not in WITH_AN_ENGINE))
    assert "orjson" in found
    assert not found & {"lark", "llvmlite", "numba", "pyspark", "shapely", "sqlalchemy"}


@pytest.mark.parametrize("command", SUMMARIES)
def test_what_is_said_of_a_command_is_how_its_own_help_begins(command):
    own = " ".join(run(command, "--help").stdout.partition("\n\n")[2].split())
    assert own.startswith(SUMMARIES[command])
    assert f"{command} {SUMMARIES[command]}" in " ".join(run("--help").stdout.split())


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
    assert run("explain", path, "1", reading % 45).stdout.startswith("1 would be told when a comes\n✓ AND\n")
    assert run("explain", path, "1", reading % 4).stdout.startswith("1 would not be told when a comes\n✗ AND\n")
    before = lines(tmp_path / "before.jsonl", [orjson.loads(reading % 44)])
    told = run("explain", path, "1", reading % 45, "--after", before).stdout
    assert told.startswith("1 would not be told when a comes\n✗ AND")
    assert "score 45 is rank 2, beyond the best; 44 is the score to beat" in told
    as_json = orjson.loads(run("explain", path, "1", reading % 43, "--after", before, "--json").stdout)
    assert (as_json["parts"][1]["facts"]["rank"], as_json["told"][0]["publications"]) == (1, ["a"])
    broken = lines(tmp_path / "broken.jsonl", [{"id": "b"}])
    assert f"{broken}, line 1" in refused("explain", path, "1", reading % 45, "--after", broken)


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
