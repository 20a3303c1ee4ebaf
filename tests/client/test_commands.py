"""The commands that use a broker: files in, subscriptions, and what comes live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.commands import lines, refused, run
from tests.install.core import ROOT

pytestmark = pytest.mark.xdist_group("client of a broker")
NOW = datetime.now(UTC) - timedelta(minutes=5)


@pytest.fixture
def caller(broker, token_of, monkeypatch, request):
    """The environment of somebody who may publish and subscribe."""
    monkeypatch.setenv("TIDEGATE_BROKER", broker.url)
    monkeypatch.setenv(
        "TIDEGATE_TOKEN", token_of(request.node.name[:100].translate({91: 45, 93: 45}), "subscriber", "publisher")
    )


def records(count: int, source: str) -> list[dict]:
    return [{"id": f"p{n}", "source": source, "time": NOW.isoformat(), "n": n, "f": n + 0.5} for n in range(count)]


@pytest.mark.usefixtures("caller")
def test_subscriptions(tmp_path):
    known = [
        {"id": "s1", "where": "no2 > 40", "initial": True},
        {"id": "s2", "subscriber": "anybody", "where": "x = 1"},
    ]
    file = lines(tmp_path / "some.jsonl", known)
    assert run("subscribe", file).stdout == "2 subscriptions added\n"
    assert run("subscribe", file).stdout == "0 subscriptions added, 2 were there already\n"
    assert run("subscribe", "--id", "s3", "--where", "y = 2").stdout == "1 subscription added\n"
    listed = run("list", "--json").stdout
    assert [orjson.loads(line) for line in listed.splitlines()] == [
        known[0],
        {"id": "s2", "where": "x = 1"},
        {"id": "s3", "where": "y = 2"},
    ]
    assert run("list").stdout == "s1  no2 > 40\ns2  x = 1\ns3  y = 2\n"
    told = run("subscribe", "--id", "s1", "--where", "no2 > > 40", code=1).stderr
    assert "tidegate: subscription 1: expected an attribute" in told
    assert run("unsubscribe", "s1", "s2").stdout == "2 ended\n"
    assert "the id of a subscription of the caller; got 's1'" in refused("unsubscribe", "s1")
    assert "both --broker and 'registry.db'; TIDEGATE_BROKER is set" in refused("list", "registry.db")
    assert "both --broker and" in refused("subscribe", "registry.db", file)


_LATER = [pytest.param(kind, marks=pytest.mark.thorough) for kind in ("json", "csv")]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "-", *_LATER])
@pytest.mark.usefixtures("caller")
def test_files(tmp_path, kind):
    given = records(1_100, f"of-{kind}")
    file, text = tmp_path / f"some.{kind}", None
    if kind == "json":
        file.write_bytes(orjson.dumps(given))
    elif kind == "csv":
        file.write_text("id,source,time,n,f\n" + "".join(f"{','.join(map(str, one.values()))}\n" for one in given))
    elif kind == "parquet":
        naive = [one | {"time": NOW.replace(tzinfo=None)} for one in given]
        pq.write_table(pa.Table.from_pylist(naive), file)
    elif kind == "jsonl":
        lines(file, given)
    else:
        file, text = "-", b"".join(orjson.dumps(one) + b"\n" for one in given)
    run("subscribe", "--id", "s", "--where", f"source = 'of-{kind}'")
    zone = ["--timezone", "UTC"] if kind == "parquet" else []
    assert run("publish", file, *zone, input=text).stderr.startswith("1,100 publications accepted in ")
    assert "0 publications accepted in " in (again := run("publish", file, *zone, input=text).stderr)
    assert again.endswith("1,100 were there already\n")
    shown = [orjson.loads(line) for line in run("watch", "--json", "--limit", 1_100).stdout.splitlines()]
    assert [one["number"] for one in shown] == list(range(1, 1_101))
    assert [one["publications"][0]["attributes"] for one in shown] == [{"n": n, "f": n + 0.5} for n in range(1_100)]
    # a column of CSV is of numbers, which are doubles
    assert {type(one["publications"][0]["attributes"]["n"]) for one in shown} == {float if kind == "csv" else int}


@pytest.mark.usefixtures("caller")
def test_what_is_refused_is_told_with_its_place(tmp_path):
    late = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    file = lines(tmp_path / "some.jsonl", [*records(2, "r"), {"id": "x", "source": "r", "time": late}])
    told = run("publish", file, code=1).stderr.splitlines()
    assert told[0].startswith("tidegate: expected ")
    assert told[0].endswith(f"at {file}, line 3")
    assert told[1].startswith("2 publications accepted in ")
    assert told[1].endswith(" s, 1 refused")
    assert "line 2" in refused(
        "publish", "-", input=b'{"id": "y", "source": "r", "time": "2026-11-15T08:00:00Z"}\n[]\n'
    )
    assert run("unpublish", "r", "p0").stderr == "withdrawn\n"
    run("unpublish", "r", "p0", code=1)


def test_tokens_and_places(broker, tmp_path, monkeypatch, token_of):
    monkeypatch.delenv("TIDEGATE_TOKEN", raising=False)
    assert "TIDEGATE_TOKEN, or --token-file; got neither" in refused("list", "--broker", broker.url)
    assert "--broker or the environment variable" in refused("watch")
    assert "a registry, or --broker; got neither" in refused("list")
    assert "--data or --broker; got neither" in refused("unpublish", "z", "p")
    assert "a log and a file" in refused("publish", "some.jsonl")
    (tmp_path / "token").write_text(f"{token_of('dora', 'subscriber')}\n")
    assert run("list", "--broker", broker.url, "--token-file", tmp_path / "token").stdout == ""
    assert "the role publisher" in refused(
        "publish",
        "--broker",
        broker.url,
        "--token-file",
        tmp_path / "token",
        lines(tmp_path / "p.jsonl", records(1, "z")),
    )
    (tmp_path / "token").write_text("\n")
    assert "a file with a token; got an empty one" in refused(
        "list", "--broker", broker.url, "--token-file", tmp_path / "token"
    )


@pytest.mark.usefixtures("caller")
def test_watch_ends_with_ctrl_c_and_goes_on_where_it_was(tmp_path):
    file = lines(tmp_path / "some.jsonl", records(3, "w"))
    run("subscribe", "--id", "s", "--where", "source = 'w' AND n < 2")
    run("publish", file)
    command = [sys.executable, "-m", "tidegate", "watch"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as watching:
        shown = [watching.stdout.readline(), watching.stdout.readline()]
        assert shown[0].startswith("1  ")
        assert shown[0].endswith("  s  w/p0 n=0 f=0.5\n")
        watching.send_signal(signal.SIGINT)
        rest, told = watching.communicate(timeout=30)
    assert (rest, told, watching.returncode) == ("", "", 0)
    run("publish", lines(tmp_path / "more.jsonl", [records(1, "w")[0] | {"id": "p9"}]))
    assert run("watch", "--limit", 1).stdout.startswith("3  ")
    assert run("watch", "--after", 1, "--limit", 1, "--keep").stdout.startswith("2  ")
