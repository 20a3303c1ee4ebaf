"""The documentation is executed: code blocks, console blocks, tables of examples; and it names everything there is."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import tidegate as tg
from bench.page import PAGE, page
from tests.broker.session_world import World
from tests.drawn_publications import ONTOLOGY
from tidegate.cli.app import app
from tidegate.cli.publication_files import publication, table
from tidegate.client.refusals import refusal
from tidegate.errors import CATALOGUE
from tidegate.model import RESERVED
from tidegate.patterns import FAMILIES
from tidegate.pipeline.session import SETTINGS
from tidegate.pipeline.spark_failure import failure
from tidegate.predicates import FUNCTIONS, MEASURES
from tidegate.runs.config import OPTIONAL_SECTIONS, SECTIONS, load
from tidegate.runs.issuer_sections import IssuerSection
from tidegate.runs.metrics import METRICS
from tidegate.runs.mqtt_section import RuleSection
from tidegate.runs.sink_sections import SINKS
from tidegate.runs.source_sections import SOURCES
from tidegate.store.principals import Principals

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING = ((ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md"))
LANGUAGE, ERRORS, ARCHITECTURE, OPERATIONS, OVERLAY, COMMAND_PAGE = (
    (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("LANGUAGE", "ERRORS", "ARCHITECTURE", "OPERATIONS", "OVERLAY", "COMMANDS")
)

_EXAMPLE = re.compile(r"^\| `(.+?)` \| `(\{.*\})` \| (yes|no) \|$", re.MULTILINE)
_FAULT = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| .+ \| `(.+)` \|$", re.MULTILINE)
EXAMPLES = _EXAMPLE.findall(LANGUAGE)
FAULTS = _FAULT.findall(ERRORS)


def commands(group: TyperGroup, before: str = "") -> Iterator[str]:
    """Every command, those of groups too; a group is a command as well."""
    for name, command in group.commands.items():
        yield before + name
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{before}{name} ")


COMMANDS = sorted(commands(typer.main.get_command(app)))


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def subscribed(where: str) -> tg.Engine:
    return tg.Engine([tg.Subscription("s", "ann", where)])


def conflicting() -> None:
    with tempfile.TemporaryDirectory() as directory, Principals(f"{directory}/registry.db") as principals:
        principals.put("ann", read="a > 1")
        principals.make_token("ann", ["subscriber"], read="a > 2")


def connecting() -> None:
    with tempfile.TemporaryDirectory() as directory, closing(World(Path(directory))) as world:
        world.gateway().connect("ann")


def answered(status: int) -> None:
    raise refusal(status, b"", "GET /v1/status")


def failed(text: str) -> None:
    raise failure(RuntimeError(text))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """What an example writes is not written to the checkout."""
    monkeypatch.chdir(tmp_path)


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


_LINE = re.compile(r"^ *(\+)? *(\d\d:\d\d(?::\d\d)?)(?:  (\w+)  (\{.*?\}))? *(?:→ (.*))?$")
_TOLD = re.compile(r"^(\S+) \((.*?)\)(?: score (\S+))?(?: distance (\S+))?$")


def clock(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-15T{text}").replace(tzinfo=UTC)


def told(text: str | None) -> list[tuple[datetime, tuple[str, ...], object, object]]:
    found = [_TOLD.match(part).groups() for part in text.split("; ")] if text else []
    return [
        (clock(time), tuple(ids.split(", ")) if ids else (), *(n and pytest.approx(float(n), abs=0.1) for n in numbers))
        for time, ids, *numbers in found
    ]


@pytest.mark.parametrize("columnar", [False, True], ids=["objects", "tables"])
@pytest.mark.parametrize("timeline", blocks(LANGUAGE, "timeline"))
def test_timelines_hold(timeline, columnar):
    where, *settings = timeline.split("\n\n")[0].splitlines()
    lines = timeline.split("\n\n")[1].splitlines()
    engine = tg.Engine(lateness=timedelta(seconds=int("".join(settings).removeprefix("lateness ") or 0)))
    subscription = tg.Subscription("s", "ann", where)
    if "subscribe" not in lines:
        engine.subscribe(subscription)
    calls: list[tuple[list[tg.Publication], str, list[object]]] = []

    def run() -> None:
        for publications, time, expected in calls:
            if columnar and publications:
                rows = engine.publish(table(publications)).to_pylist()
                found = [(r["time"], tuple(r["publication_ids"]), r["score"], r["distance"]) for r in rows]
            else:
                raised = engine.publish(publications) if publications else engine.advance(clock(time))
                found = [(n.time, n.publications, n.score, n.distance) for n in raised]
            assert found == expected, time
        calls.clear()

    for line in lines:
        if match := _LINE.match(line):
            together, time, id, record, then = match.groups()
            at = {"id": id, "time": clock(time).isoformat()}
            publications = [example_publication(orjson.dumps(at | orjson.loads(record)).decode())] if id else []
            if together:
                calls[-1] = (calls[-1][0] + publications, time, calls[-1][2] + told(then))
            else:
                calls.append((publications, time, told(then)))
            continue
        run()
        if line == "subscribe":
            engine.subscribe(subscription)
        elif line == "unsubscribe":
            engine.unsubscribe("s")
        else:
            counted = dict(part.split() for part in line.split(", "))
            assert {name: str(getattr(engine, name)) for name in counted} == counted
    run()


def test_every_example_row_is_recognised():
    rows = [line for line in LANGUAGE.splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(rows) == len(EXAMPLES) > 100


CODE = [block for page in (README, CONTRIBUTING, OVERLAY, LANGUAGE) for block in blocks(page, "python")]


@pytest.mark.parametrize("code_block", CODE)
def test_python_blocks_run(code_block, capsys):
    registered = dict(FUNCTIONS)
    try:
        exec(compile(code_block, "a code block", "exec", dont_inherit=True), {"__name__": "__main__"})
    finally:
        FUNCTIONS.clear()
        FUNCTIONS.update(registered)
    promised = [line.split("# prints ", 1)[1] for line in code_block.splitlines() if "# prints " in line]
    assert capsys.readouterr().out.splitlines() == promised or not promised


def test_console_blocks_run(spark):
    ran = set()
    for session in "".join(blocks(COMMAND_PAGE, "console") + blocks(README, "console")).split("$ ")[1:]:
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
    ours = {"check", "match", "explain", "functions", "demo", "run", "publish", "subscribe", "unsubscribe", "list"}
    assert ours | {"status"} == ran


@pytest.mark.parametrize("text", blocks(README, "toml") + blocks(OPERATIONS, "toml"))
def test_toml_blocks_are_good(text, tmp_path):
    (tmp_path / "pipeline.toml").write_text(text)
    assert load(tmp_path / "pipeline.toml").sinks


@pytest.mark.parametrize(("code", "name", "builtin", "example"), FAULTS)
def test_error_examples_fail_as_they_say(code, name, builtin, example):
    import builtins

    names = {"tg": tg, "datetime": datetime, "UTC": UTC}
    names |= {
        "subscribed": subscribed,
        "failed": failed,
        "conflicting": conflicting,
        "connecting": connecting,
        "answered": answered,
    }
    with pytest.raises(tg.TidegateError) as caught:
        eval(example, names)
    assert (caught.value.code, type(caught.value).__name__) == (code, name)
    assert isinstance(caught.value, getattr(builtins, builtin))
    assert str(caught.value).startswith("expected ")


# --- complete -------------------------------------------------------------------------------------------------------


def test_every_error_code_is_documented():
    assert [code for code, *_ in FAULTS] == list(CATALOGUE)


def test_the_ontology_of_the_examples_is_the_one_that_is_shown():
    assert blocks(LANGUAGE, "turtle") == [ONTOLOGY.read_text("utf-8")]


@pytest.mark.parametrize("family", sorted({known.family for known in (*FUNCTIONS.values(), *MEASURES.values())}))
def test_every_family_has_a_section(family):
    assert f"\n## Family {family}\n" in LANGUAGE


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_pattern_has_a_section_and_timelines(name):
    section = LANGUAGE.split(f"\n### Pattern {name}\n", 1)[1].split("\n### ", 1)[0]
    assert f"`{name}(" in section
    assert blocks(section, "timeline")


@pytest.mark.parametrize("op", [*FUNCTIONS, *MEASURES])
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
    assert f"`tidegate {command}" in COMMAND_PAGE
    text = CliRunner().invoke(app, [*command.split(), "--help"]).output
    assert f"Example:\n    tidegate {command}" in text


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_spark_setting_is_documented_with_its_reason(setting):
    assert f"| `{setting.name}` | `{setting.value}` | {setting.reason} |\n" in OPERATIONS


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_documented(metric):
    assert f"| `{metric.name}` | {metric.meaning} |\n" in OPERATIONS


@pytest.mark.parametrize(("section", "kinds"), [("[source]", SOURCES), ("[[sinks]]", SINKS)])
def test_every_source_and_sink_is_documented_with_its_keys_and_no_others(section, kinds):
    text = OPERATIONS.split(f"### `{section}`", 1)[1].split("\n##", 1)[0]
    told = re.findall(r"^\| `(\w+)` \| `?(\w*)`? ?\|", text, re.MULTILINE)
    assert set(told) == {
        (name, key) for name, cls in kinds.items() for key in [field.name for field in fields(cls)] or [""]
    }
    promises = OPERATIONS.split("## Exactly once", 1)[1].split("\n## ", 1)[0]
    for name in kinds:
        assert f"\n| `{name}` |" in promises


@pytest.mark.parametrize(
    ("section", "cls"), [*SECTIONS.items(), *OPTIONAL_SECTIONS.items(), ("[mqtt.rules]", RuleSection)]
)
def test_every_key_of_a_section_is_documented_and_no_others(section, cls):
    text = OPERATIONS.split(f"### `[{section}]`", 1)[1].split("\n##", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [field.name for field in fields(cls)]


def test_every_key_of_an_issuer_is_documented_and_no_others():
    text = OPERATIONS.split("### `[[issuers]]`", 1)[1].split("\n##", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [field.name for field in fields(IssuerSection)]


def test_the_registry_examples_compile():
    for known in (*FUNCTIONS.values(), *MEASURES.values(), *FAMILIES.values()):
        assert len(subscribed(known.example)) == 1


def test_the_glossary_has_each_word_once_and_few_of_them():
    table = ARCHITECTURE.split("## Glossary\n", 1)[1].split("\n## ", 1)[0]
    words = re.findall(r"^\| ([^|]+) \| ", table, re.MULTILINE)[1:]
    assert len(words) == len(set(words))
    assert len(words) <= 25


def test_the_module_map_is_the_modules():
    mapped = set(re.findall(r"^    ([a-z_]+(?:/|\.py)) ", ARCHITECTURE, re.MULTILINE))
    there = {p.name + "/" for p in (ROOT / "tidegate").iterdir() if (p / "__init__.py").exists()}
    there |= {p.name for p in (ROOT / "tidegate").glob("*.py")} - {"__init__.py", "__main__.py"}
    assert mapped == there


def test_links_lead_somewhere():
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), (path.name, target)


def test_figures_come_from_the_raw_results():
    assert PAGE.read_text("utf-8") == page(), "run python -m bench.page"
