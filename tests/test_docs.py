"""The documentation is executed: code blocks, console blocks, tables of examples; and it names everything there is."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

import tidegate as tg
from bench.page import PAGE, page
from tidegate.cli.app import app
from tidegate.cli.publications import publication, table
from tidegate.errors import CATALOGUE
from tidegate.model import RESERVED
from tidegate.predicates import FUNCTIONS

ROOT = Path(__file__).parents[1]
README, LANGUAGE, ERRORS, ARCHITECTURE, CONTRIBUTING = (
    (ROOT / name).read_text("utf-8")
    for name in ("README.md", "docs/LANGUAGE.md", "docs/ERRORS.md", "docs/ARCHITECTURE.md", "CONTRIBUTING.md")
)

_EXAMPLE = re.compile(r"^\| `(.+?)` \| `(\{.*\})` \| (yes|no) \|$", re.MULTILINE)
_FAULT = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| .+ \| `(.+)` \|$", re.MULTILINE)
EXAMPLES = _EXAMPLE.findall(LANGUAGE)
FAULTS = _FAULT.findall(ERRORS)
COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands)


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def subscribed(where: str) -> tg.Engine:
    return tg.Engine([tg.Subscription("s", "ann", where)])


# --- executed -------------------------------------------------------------------------------------------------------


def example_publication(record: str) -> tg.Publication:
    return publication({"id": "p", "source": "s", "time": "2026-11-15T08:00:00Z"} | orjson.loads(record), "the example")


@pytest.mark.parametrize(("where", "record", "matches"), EXAMPLES)
def test_language_examples_hold(where, record, matches):
    engine, example = subscribed(where), example_publication(record)
    assert engine.explain("s", example).held is (matches == "yes")


def test_language_examples_hold_in_the_index():
    engine = tg.Engine(tg.Subscription(str(i), "ann", where) for i, (where, _, _) in enumerate(EXAMPLES))
    for i, (where, record, matches) in enumerate(EXAMPLES):
        example = example_publication(record)
        as_object = {n.subscription for n in engine.publish([example])}
        as_row = set(engine.publish(table([example])).column("subscription_id").to_pylist())
        assert (str(i) in as_object) is (str(i) in as_row) is (matches == "yes"), (where, record)


def test_every_example_row_is_recognised():
    rows = [line for line in LANGUAGE.splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(rows) == len(EXAMPLES) > 100


@pytest.mark.parametrize("code_block", blocks(README, "python") + blocks(CONTRIBUTING, "python"))
def test_python_blocks_run(code_block, capsys):
    registered = dict(FUNCTIONS)
    try:
        exec(compile(code_block, "a code block", "exec", dont_inherit=True), {"__name__": "__main__"})
    finally:
        FUNCTIONS.clear()
        FUNCTIONS.update(registered)
    promised = [line.split("# prints ", 1)[1] for line in code_block.splitlines() if "# prints " in line]
    assert capsys.readouterr().out.splitlines() == promised or not promised


def test_console_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = set()
    for session in "".join(blocks(README, "console")).split("$ ")[1:]:
        command, *promised = session.splitlines()
        program, *arguments = shlex.split(command)
        if program == "make":
            assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            continue
        assert program == "tidegate"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (command, result.output)
        assert not promised or result.stdout.splitlines() == promised
        ran.add(arguments[0])
    assert {"check", "match", "explain", "functions", "demo"} <= ran


@pytest.mark.parametrize(("code", "name", "builtin", "example"), FAULTS)
def test_error_examples_fail_as_they_say(code, name, builtin, example):
    import builtins

    with pytest.raises(tg.TidegateError) as caught:
        eval(example, {"tg": tg, "datetime": datetime, "UTC": UTC, "subscribed": subscribed})
    assert (caught.value.code, type(caught.value).__name__) == (code, name)
    assert isinstance(caught.value, getattr(builtins, builtin))
    assert str(caught.value).startswith("expected ")


# --- complete -------------------------------------------------------------------------------------------------------


def test_every_error_code_is_documented():
    assert [code for code, *_ in FAULTS] == list(CATALOGUE)


@pytest.mark.parametrize("family", sorted({known.family for known in FUNCTIONS.values()}))
def test_every_family_has_a_section(family):
    assert f"\n## Family {family}\n" in LANGUAGE


@pytest.mark.parametrize("op", list(FUNCTIONS))
def test_every_function_is_documented(op):
    assert re.search(rf"`{re.escape(op)}(\(|`)", LANGUAGE, re.IGNORECASE), op


@pytest.mark.parametrize("setting", [field.name for field in fields(tg.Limits)])
def test_every_setting_is_documented_with_its_default(setting):
    assert f"| `{setting}` | {getattr(tg.Limits(), setting)} |" in LANGUAGE


@pytest.mark.parametrize("name", list(RESERVED))
def test_every_reserved_name_is_documented(name):
    assert f"`{name}`" in LANGUAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_and_has_an_example(command):
    assert f"`tidegate {command}" in README
    text = CliRunner().invoke(app, [command, "--help"]).output
    assert f"Example:\n    tidegate {command}" in text


def test_the_registry_examples_compile():
    for known in FUNCTIONS.values():
        assert len(subscribed(known.example)) == 1


def test_the_functions_not_there_yet_are_not_there():
    section = LANGUAGE.split("## Not there yet", 1)[1].split("\n\n")[1]
    names = re.findall(r"`(\w+)`[,.]", section.split("Today")[0])
    assert len(names) == 10
    for name in names:
        assert name not in FUNCTIONS
        with pytest.raises(tg.UnknownFunction):
            subscribed(f"{name}(a, 'b') = 1")


def test_the_module_map_is_the_modules():
    mapped = set(re.findall(r"^    ([a-z_]+(?:/|\.py)) ", ARCHITECTURE, re.MULTILINE))
    there = {p.name + "/" for p in (ROOT / "tidegate").iterdir() if (p / "__init__.py").exists()}
    there |= {p.name for p in (ROOT / "tidegate").glob("*.py")} - {"__init__.py"}
    assert mapped == there


def test_links_lead_somewhere():
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), (path.name, target)


def test_figures_come_from_the_raw_results():
    assert PAGE.read_text("utf-8") == page(), "run python -m bench.page"
