"""run: from a log and from a folder to every sink, twice, and what happens when it fails. One Spark session for all."""

from __future__ import annotations

import sys
import urllib.request
from dataclasses import fields

import orjson
import pyarrow.parquet as pq
import pytest

from tests.cli.commands import CONFIG, EXPECTED, PUBLICATIONS, SUBSCRIPTIONS, config, lines, pairs, refused, run
from tidegate.errors import SettingError
from tidegate.runs.metrics import METRICS, served
from tidegate.runs.status import StatusSnapshot
from tidegate.store.notifications import NotificationStore
from tidegate.store.registry import Registry

FILES = CONFIG.replace('type = "log"\npath = "readings.log"', 'type = "files"\npath = "in"')


@pytest.fixture
def callback(tmp_path, monkeypatch):
    """A module beside the file, whose function keeps what it is told."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "listener.py").write_text(
        "told = []\n\n"
        "def tell(batch, found):\n    told.append((batch, found.to_pylist()))\n\n"
        "def fail(batch, found):\n    raise ValueError('the listener is deaf')\n"
    )
    yield lambda: [row for _, rows in sys.modules["listener"].told for row in rows]
    sys.modules.pop("listener", None)


def test_from_a_log_to_every_sink_on_this_machine(tmp_path, spark, callback):
    more = '\n[[sinks]]\ntype = "sql"\nurl = "notifications.db"\n[[sinks]]\ntype = "console"\n'
    more += '[[sinks]]\ntype = "callback"\nfunction = "listener:tell"\n'
    path = config(tmp_path, CONFIG + more)
    run("subscribe", path, lines(tmp_path / "s.jsonl", SUBSCRIPTIONS))
    publications = lines(tmp_path / "p.jsonl", PUBLICATIONS)
    run("publish", path, publications)
    result = run("run", path, "--available-now")
    assert pairs([orjson.loads(line) for line in result.stdout.splitlines()]) == EXPECTED
    assert result.stderr.splitlines()[-1].startswith("done: ")
    assert "3 publications, 4 notifications, 1 batches" in result.stderr
    assert pairs(callback()) == EXPECTED
    assert pairs(pq.read_table(tmp_path / "notifications").to_pylist()) == EXPECTED
    with NotificationStore(str(tmp_path / "notifications.db")) as store:
        assert pairs(store.read().to_pylist()) == EXPECTED
    assert "state            done" in run("status", path).stdout

    # What is there already is not done again; what is new is.
    assert run("run", path, "--available-now").stdout == ""
    run("unsubscribe", path, "ann/s1")
    run("publish", path, publications)
    again = run("run", path, "--available-now")
    assert pairs([orjson.loads(line) for line in again.stdout.splitlines()]) == [("ann/s3", "p3"), ("bob/s2", "p1")]
    assert len(pq.read_table(tmp_path / "notifications")) == 4


def test_from_a_folder_with_a_line_that_is_no_publication(tmp_path, spark):
    path = config(tmp_path, FILES.replace('registry = "registry.db"', 'registry = "registry.db"\nfile = "s.jsonl"'))
    lines(tmp_path / "s.jsonl", SUBSCRIPTIONS)
    (tmp_path / "in").mkdir()
    file = lines(tmp_path / "in" / "a.jsonl", PUBLICATIONS)
    with file.open("a") as more:
        more.write("nonsense\n")
    result = run("run", path, "--available-now")
    assert "3 of the 3 subscriptions of" in result.stderr
    assert "1 quarantined, 3 publications, 4 notifications" in result.stderr.splitlines()[-1]
    assert pairs(pq.read_table(tmp_path / "notifications").to_pylist()) == EXPECTED
    (kept,) = (tmp_path / "checkpoint" / "quarantine").glob("*.jsonl")
    (fault,) = map(orjson.loads, kept.read_text().splitlines())
    assert fault["row"] == "nonsense"
    assert "line 4 of " in fault["reason"]

    # The file of subscriptions was for the first start: who has left since does not come back.
    run("unsubscribe", path, "ann/s1", "bob/s2")
    header = "id,source,time,no2,station"
    (tmp_path / "in" / "b.csv").write_text(f"{header}\np4,z7,2026-11-15T10:00:00Z,95,z7\n")
    assert "subscriptions of" not in run("run", path, "--available-now").stderr
    assert ("ann/s3", "p4") in pairs(pq.read_table(tmp_path / "notifications").to_pylist())
    assert len(pq.read_table(tmp_path / "notifications")) == 3


def test_the_file_of_subscriptions_leaves_alone_what_is_there(tmp_path, spark):
    path = config(tmp_path, CONFIG.replace('"registry.db"', '"registry.db"\nfile = "s.jsonl"'))
    lines(tmp_path / "s.jsonl", SUBSCRIPTIONS)
    run("subscribe", path, "--id", "s1", "--subscriber", "ann", "--where", "a = 1")
    run("subscribe", path, "--id", "s2", "--subscriber", "zoe", "--where", "a = 1")
    assert "2 of the 3 subscriptions of" in run("run", path, "--available-now").stderr
    with Registry(tmp_path / "registry.db") as registry:
        assert [s.registered_id for s in registry] == ["ann/s1", "zoe/s2", "bob/s2", "ann/s3"]


def test_a_pipeline_that_fails_says_so_in_a_sentence(tmp_path, spark, callback):
    path = config(tmp_path, CONFIG + '\n[[sinks]]\ntype = "callback"\nfunction = "listener:fail"\n')
    run("subscribe", path, lines(tmp_path / "s.jsonl", SUBSCRIPTIONS))
    run("publish", path, lines(tmp_path / "p.jsonl", PUBLICATIONS))
    message = refused("run", path, "--available-now", code=1)
    assert "the listener is deaf" in message
    assert "state            failed" in run("status", path).stdout

    # The batch was not done, so it is done again when the listener has recovered.
    path.write_text(path.read_text().replace("listener:fail", "listener:tell"))
    run("run", path, "--available-now")
    assert pairs(callback()) == EXPECTED
    assert len(pq.read_table(tmp_path / "notifications")) == 2


def test_a_checkpoint_belongs_to_its_source(tmp_path, spark):
    path = config(tmp_path)
    run("run", path, "--available-now")
    path.write_text(CONFIG.replace("readings.log", "other.log"))
    assert "the source that this checkpoint belongs to" in refused("run", path, "--available-now")


def test_a_directory_of_parquet_belongs_to_its_checkpoint(tmp_path, spark):
    """Batches of another checkpoint have the same numbers, and would be taken for done."""
    run("run", config(tmp_path), "--available-now")
    path = config(tmp_path, CONFIG.replace('"checkpoint"', '"second"'))
    assert "a directory for the notifications of one checkpoint alone" in refused("run", path, "--available-now")


def test_mistakes_are_seen_before_spark_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.pipeline.session.session", lambda **_: pytest.fail("Spark was started"))
    generator = CONFIG.replace('type = "log"', 'type = "generator"')
    assert "a source that has an end" in refused("run", config(tmp_path, generator), "--available-now")
    assert "a port from 0" in refused("run", config(tmp_path), "--metrics", "everywhere")
    assert "a folder that exists" in refused("run", config(tmp_path, FILES))
    assert "did you mean checkpoint?" in refused("run", config(tmp_path, CONFIG.replace("checkpoint =", "chekpoint =")))
    missing = CONFIG.replace('"registry.db"', '"registry.db"\nfile = "nothing.jsonl"')
    assert "a file that exists" in refused("run", config(tmp_path, missing))
    nobody = CONFIG + '\n[[sinks]]\ntype = "callback"\nfunction = "no_such_module:tell"\n'
    assert "a function that Python finds" in refused("run", config(tmp_path, nobody))


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_metrics_are_served_with_the_numbers_of_the_moment():
    numbers = {field.name: i + 1 for i, field in enumerate(fields(StatusSnapshot))}
    with served(("127.0.0.1", 0), lambda: StatusSnapshot(**numbers | {"state": "running"})) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            told = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        assert {metric.name: float(told[metric.name]) for metric in METRICS} == {
            metric.name: float(numbers[metric.field]) if metric.field != "state" else 1.0 for metric in METRICS
        }
        numbers["late"] = 99
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert "\ntidegate_late_total 99.0\n" in answer.read().decode()
        with (
            pytest.raises(SettingError, match="an address and a port that are free"),
            served(("127.0.0.1", port), None),
        ):
            pass


def test_every_number_is_a_metric():
    assert {metric.field for metric in METRICS} == {field.name for field in fields(StatusSnapshot)}
