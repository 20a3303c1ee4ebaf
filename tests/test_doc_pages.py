"""The tutorial and the how-tos are run from top to bottom, each in a directory of its own; all pages lead somewhere.

A page is a session: its Python blocks share their variables, its console blocks run the command line, its bash blocks
run in a shell, and a block behind "Save this as `name`:" becomes that file. A page with the address of a broker is run
beside one.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.gateway.served import served
from tests.parts.spark import spark
from tidegate.cli.app import app

__all__ = ["spark"]

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]
#: Run by ``tests/mqtt/test_mqtt_page.py``, beside a Mosquitto.
MQTT_PAGE = DOCS / "howto" / "mqtt.md"
SESSIONS = [DOCS / "TUTORIAL.md", *sorted({*(DOCS / "howto").glob("*.md")} - {MQTT_PAGE})]

#: Where the pages' broker is, and the token of its administrator.
ADDRESS, BROKER_TOKEN = "http://127.0.0.1:8400", "a-token-of-16-or-more"

_STEP = re.compile(r"(?:Save this as `([^`\n]+)`[^\n]*\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUNS_SPARK = re.compile(r"^\$ tidegate (run|rehearse)|tg\.session", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def needs_spark(page: Path) -> bool:
    text = page.read_text("utf-8")
    return bool(_RUNS_SPARK.search(text)) and 'runner = "process"' not in text


def needs_broker(page: Path) -> bool:
    return ADDRESS in page.read_text("utf-8")


def settings_of(page: Path) -> str:
    """What a page says of webhooks or traces in the file of its broker."""
    return "".join(re.findall(r"^\[(?:webhooks|traces)\]\n(?:\w.*\n)*", page.read_text("utf-8"), re.MULTILINE))


def run_commands(text: str) -> None:
    """Each line behind ``$ `` is run; the lines below it are what it prints, where … stands for anything."""
    for step in ("\n" + text).split("\n$ ")[1:]:
        command, _, promised = step.partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "tidegate"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (command, result.output)
        if promised.strip():
            shown = "\n".join(line.rstrip() for line in result.stdout.rstrip().splitlines())
            wanted = re.escape(promised.rstrip()).replace("…", ".*")
            assert re.fullmatch(wanted, shown, re.DOTALL), (command, shown)


def run_shell(text: str, environment: dict[str, str]) -> dict[str, str]:
    """Run a script. Lines that begin with # are what it prints, where … stands for anything; return what it exports."""
    done = subprocess.run(
        ["bash", "-euc", f"{text}\nenv -0 > .exported"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (text, done.stderr)
    promised = "\n".join(line[2:] for line in text.splitlines() if line == "#" or line.startswith("# "))
    if promised:
        shown, wanted = done.stdout.strip(), re.escape(promised).replace("…", ".*")
        assert re.fullmatch(wanted, re.sub(r"\}\n?(?=\{)", "}\n", shown), re.DOTALL), (text, shown)
    exported = Path(".exported").read_text("utf-8").split("\0")
    return dict(pair.split("=", 1) for pair in exported if "=" in pair)


def run_page(page: Path, capsys: pytest.CaptureFixture[str], address: str = "") -> None:
    """Run a page; where it needs a broker, the one at ``address``."""
    variables: dict[str, object] = {"__name__": "__main__"}
    environment = dict(os.environ)
    text = page.read_text("utf-8")
    for file, kind, body in _STEP.findall(text.replace(ADDRESS, address) if address else text):
        if file:
            Path(file).write_text(body, "utf-8")
        elif kind == "console":
            run_commands(body)
        elif kind == "bash":
            environment |= run_shell(body, environment)
        elif kind == "python":
            capsys.readouterr()
            exec(compile(body, name(page), "exec", dont_inherit=True), variables)
            promised = [line.split("# prints ", 1)[1] for line in body.splitlines() if "# prints " in line]
            assert capsys.readouterr().out.splitlines() == promised or not promised


@pytest.mark.parametrize("page", [p for p in SESSIONS if not needs_spark(p) and not needs_broker(p)], ids=name)
def test_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(page, capsys)


@pytest.mark.parametrize("page", list(filter(needs_broker, SESSIONS)), ids=name)
def test_the_page_runs_beside_a_broker(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_TOKEN", BROKER_TOKEN)
    with served(tmp_path, text=settings_of(page), token=BROKER_TOKEN) as broker:
        run_page(page, capsys, broker.url)


def test_the_first_page_runs_beside_a_broker(tmp_path, monkeypatch):
    """What it asks of one; ``test_docs`` runs its other blocks."""
    monkeypatch.chdir(tmp_path)
    scripts = [body for _, kind, body in _STEP.findall((ROOT / "README.md").read_text("utf-8")) if kind == "bash"]
    assert scripts
    with served(tmp_path, token=BROKER_TOKEN) as broker:
        for script in scripts:
            run_shell(script.replace(ADDRESS, broker.url), dict(os.environ))


@pytest.mark.parametrize("page", list(filter(needs_spark, SESSIONS)), ids=name)
def test_the_page_runs_on_spark(page, tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    run_page(page, capsys)


# --- leads somewhere ------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(page):
    for target, heading in _LINK.findall(page.read_text("utf-8")):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        assert not heading or heading in anchors(there), (target, heading)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name)
def test_every_module_that_a_page_names_is_there(page):
    """`store/log.py` stands for a file below the root, below tidegate/ or in one of its packages."""
    places = [ROOT, ROOT / "tidegate", ROOT / "tests", *(ROOT / "tidegate").glob("*/"), *(ROOT / "examples").glob("*/")]
    for code in re.findall(r"`([^`\n]+)`", page.read_text("utf-8")):
        for path in re.findall(r"(?<![\w./-])[a-z_][a-z_0-9/]*\.py\b", code):
            assert any((place / path).is_file() for place in places), path
        for package in re.findall(r"^(?:tidegate|bench|examples|tests)/[a-z_0-9/]*$", code):
            assert (ROOT / package).is_dir(), package
        for module in re.findall(r"\btidegate(?:\.[a-z_0-9]+)+\b", code):
            assert module == "tidegate.json" or is_there(module), module


def is_there(dotted: str) -> bool:
    """A module, or a name in one."""
    module, _, last = dotted.rpartition(".")
    return find_spec(dotted) is not None or hasattr(import_module(module), last)


def test_every_page_is_in_the_index():
    index = (DOCS / "README.md").read_text("utf-8")
    for page in sorted(DOCS.rglob("*.md")):
        if page != DOCS / "README.md":
            assert f"]({page.relative_to(DOCS)}" in index, page.name


def test_the_first_page_is_short_and_names_both_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 900
    assert "make demo" in text
    assert "make test" in text
