"""The systemd unit and the container file: what they name is there, and their commands are commands of Tidegate."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import orjson
import pytest
import typer.main

from tidegate.cli.app import app
from tidegate.cli.serve import serve
from tidegate.gateway import service_notices
from tidegate.runs.config import load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DATA = "/var/lib/tidegate/data"


class Unit(configparser.RawConfigParser):
    def optionxform(self, name):
        return name


@pytest.fixture
def unit():
    found = Unit(strict=False, delimiters=("=",))
    found.read(DEPLOY / "tidegate.service", "utf-8")
    return found


def instructions():
    """Those of the container file, with their arguments, by stage."""
    lines = [line for line in (DEPLOY / "Containerfile").read_text("utf-8").splitlines() if line and line[0] != "#"]
    stages = []
    for name, _, rest in (line.partition(" ") for line in lines):
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest))
    return stages


def parsed(words):
    """The options of a command line of Tidegate, as its own parser reads them."""
    program, *rest = words
    assert program == "/opt/tidegate/bin/tidegate"
    group = typer.main.get_command(app)
    command = group.commands[rest[0]]
    return command, command.make_context(rest[0], rest[1:], resilient_parsing=False).params


def test_the_unit_starts_a_broker(unit):
    command, options = parsed(shlex.split(unit["Service"]["ExecStart"]))
    assert command.callback.__name__ == serve.__name__
    assert (options["config"], str(options["data"]), options["runner"]) == (None, DATA, "process")
    assert DATA.startswith(f"/var/lib/{unit['Service']['StateDirectory']}/")
    assert all(
        f"/var/cache/{unit['Service']['CacheDirectory']}" in one for one in unit["Service"]["Environment"].split()
    )


def test_systemd_takes_the_unit(unit, tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze")
    there = shutil.which("true")
    file = tmp_path / "tidegate.service"
    text = (DEPLOY / "tidegate.service").read_text("utf-8")
    file.write_text(text.replace("/opt/tidegate/bin/tidegate", there).replace("/bin/kill", shutil.which("kill")))
    ran = subprocess.run([program, "verify", file], capture_output=True, text=True, check=False)
    about = [line for line in ran.stderr.splitlines() if "tidegate.service" in line and "Failed to" not in line]
    assert about == []


def test_the_container_file_starts_a_broker_as_nobody_special():
    build, run = instructions()
    entry, rest = (orjson.loads(value) for wanted in ("ENTRYPOINT", "CMD") for name, value in run if name == wanted)
    command, options = parsed([*entry, *rest])
    assert command.callback.__name__ == serve.__name__
    assert (str(options["data"]), options["runner"]) == (DATA, "process")
    copies = dict(reversed(value.split()[-2:]) for name, value in run if name == "COPY")
    assert copies[str(options["config"])] == "deploy/service.toml"
    names = [name for name, _ in run]
    (user,) = [value for name, value in run if name == "USER"]
    (volume,) = [value for name, value in run if name == "VOLUME"]
    assert user == "10001"
    assert any(f"--uid {user} " in value and f"--home-dir {volume} " in value for name, value in run if name == "RUN")
    assert "RUN" not in names[names.index("USER") :]
    assert DATA.startswith(f"{volume}/")
    for value in (value for name, value in build if name == "COPY"):
        assert all((ROOT / path).exists() for path in value.split()[:-1])


def test_the_settings_of_the_container_are_those_of_its_port(tmp_path):
    (tmp_path / "service.toml").write_text(
        (DEPLOY / "service.toml").read_text("utf-8") + f'[run]\ndata = "{tmp_path}/d"\n'
    )
    found = load(tmp_path / "service.toml").serve
    (port,) = [value for name, value in instructions()[1] if name == "EXPOSE"]
    assert (found.listen, found.plain) == (("0.0.0.0", int(port)), True)
    (check,) = [value for name, value in instructions()[1] if name == "HEALTHCHECK"]
    assert f"http://127.0.0.1:{port}/readyz" in check
    compile(orjson.loads(check[check.index("[") :])[2], "HEALTHCHECK", "exec")


def test_the_lock_without_hashes_is_what_pip_takes(tmp_path):
    (made,) = [
        value for name, value in instructions()[0] if name == "RUN" and "constraints.txt" in value and "sed" in value
    ]
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    subprocess.run(made, shell=True, cwd=tmp_path, check=True)
    lines = (tmp_path / "constraints.txt").read_text().splitlines()
    assert len(lines) == (ROOT / "requirements.lock").read_text().count("==") - (
        sum(line.count("==") - 1 for line in lines)
    )
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.+]+( ; [^\\]+)?", line) for line in lines)


# --- what systemd is told -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_abstract", [False, True])
def test_who_started_us_is_told(tmp_path, monkeypatch, is_abstract):
    name = f"tidegate-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}" if is_abstract else name)
        receiver.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if is_abstract else name)
        service_notices.send("READY=1")
        assert receiver.recv(100) == b"READY=1"


@pytest.mark.parametrize("where", ["", "/nowhere/at/all"])
def test_nobody_who_wants_to_be_told_is_no_error(monkeypatch, where):
    monkeypatch.setenv("NOTIFY_SOCKET", where)
    service_notices.send("READY=1")
