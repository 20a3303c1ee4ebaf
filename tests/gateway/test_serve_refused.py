"""What ``tidegate serve`` cannot start with is one sentence, and nothing is left running."""

from __future__ import annotations

import logging
import socket

import pytest
from typer.testing import CliRunner

from tidegate import extras
from tidegate.cli.app import app
from tidegate.store.data_directory import DataDirectory

DATA = '[run]\ndata = "data"\nrunner = "process"\n'


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_TOKEN", "a-token-that-only-tests-have")
    # a broker writes its log to the standard error
    loggers = [logging.getLogger(name) for name in ("tidegate", "opentelemetry.trace", "uvicorn")]
    levels = [one.level for one in loggers]
    monkeypatch.setattr(loggers[0], "handlers", [])
    monkeypatch.setattr(loggers[0], "propagate", True)
    yield
    for one, level in zip(loggers, levels, strict=True):
        one.setLevel(level)


def refused(*arguments, code=2):
    """The one sentence that is said."""
    ran = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    assert ran.exit_code == code, ran.output
    (line,) = ran.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{DATA}[source]\ntype = "files"\npath = "in"\n', "no [source] but the log of the data directory"),
        (f'{DATA}[source]\ntype = "log"\npath = "other"\n', "no [source] but the log of the data directory"),
        (f'{DATA}[[sinks]]\ntype = "parquet"\npath = "out"\n', "expected a sink of type queues; got none"),
        (f"{DATA}[serve]\nworkers = 0\n", "expected a whole number from 1; got 0; at serve.workers of service.toml"),
        (f'{DATA}[serve]\nlisten = "here"\n', 'expected a port from 0 to 65535, or "address:port"'),
        (f'{DATA}[serve]\nproxies = ["*"]\n', 'expected an address, or a network such as "10.0.0.0/8"; got \'*\''),
        (f'{DATA}[serve]\nlisten = "0.0.0.0:0"\n', "a certificate and a private_key in [serve] to listen beyond"),
        (f'{DATA}[serve]\ncertificate = "none.pem"\nprivate_key = "none.key"\n', "got No such file or directory"),
        (f'{DATA}[serve]\nport = 1\n', "got 'port'; at serve.port of service.toml"),
        (f'{DATA}[webhooks]\nauthorities = "none.pem"\n', "certificates in PEM as authorities; got No such file"),
        ("[serve\n", "expected TOML"),
        (None, "expected a TOML file or a data directory; got No such file or directory; at service.toml"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong(tmp_path, text, says):
    if text is not None:
        (tmp_path / "service.toml").write_text(text)
    assert says in refused("service.toml")


def test_options_that_are_wrong(tmp_path):
    at = "of the command line"
    assert refused("--runner", "flink") == f"tidegate: expected spark or process; got 'flink'; at --runner {at}"
    assert refused("--listen", "host", "--runner", "process").endswith(f"got 'host'; at --listen {at}")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    said = refused("--data", "full", "--runner", "process")
    assert said.startswith("tidegate: expected a data directory, or an empty one; got a directory with other files; at")
    DataDirectory.made(tmp_path / "made", "process")
    said = refused("--data", "made", "--runner", "spark")
    assert said.startswith(
        "tidegate: expected the runner that this data directory was made for: process; got spark; at"
    )


def test_a_port_that_is_in_use():
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        said = refused("--runner", "process", "--listen", port)
    expected = "expected an address of this machine at which nobody else listens; got Address already in use"
    assert said == f"tidegate: {expected}; at 127.0.0.1:{port}"


def test_a_token_that_is_none(monkeypatch):
    monkeypatch.setenv("TIDEGATE_TOKEN", "short")
    said = refused("--runner", "process", "--listen", 0)
    assert said == "tidegate: expected 16 to 1024 characters as a secret; got 5; at TIDEGATE_TOKEN"


def test_an_extra_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "_is_installed", lambda package: package != "pyspark")
    said = refused()
    what = "what pip install 'tidegate[spark]' brings, for tidegate serve (or --runner process, which needs none)"
    assert said == f"tidegate: expected {what}; got no package pyspark"
    assert list(tmp_path.iterdir()) == []  # the directory is for no runner yet
    monkeypatch.setattr(extras, "_is_installed", lambda package: package != "uvicorn")
    said = refused("--runner", "process")
    assert (
        said
        == "tidegate: expected what pip install 'tidegate[service]' brings, for tidegate serve; got no package uvicorn"
    )


def test_a_directory_that_a_run_uses(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.gateway.broker_locks._PATIENCE", 0.2)
    lock = DataDirectory.made(tmp_path / "tidegate-data", "process").locked()
    try:
        said = refused("--listen", 0)
    finally:
        lock.release()
    assert said.startswith("tidegate: expected a data directory that no other run uses; got one that process")
