"""``tidegate backup`` and ``tidegate restore`` as a user runs them; what they do is in ``tests/broker``."""

from __future__ import annotations

import orjson

from tests.cli.commands import refused, run
from tests.cli.test_queue import broker

__all__ = ["broker"]


def test_what_was_done_is_told_to_people_and_to_programs(broker, tmp_path):
    line = run("backup", "broker", "backup").stdout
    assert line.startswith("backed up to backup: ")
    assert line.endswith(" MB; 3 rows of the log, registry at version 2, runner process after batch 0\n")
    told = orjson.loads(run("backup", "broker", "second", "--json").stdout)
    facts = {name: told[name] for name in ("target", "runner", "batch", "first_row", "end_row", "version")}
    assert facts == {"target": "second", "runner": "process", "batch": 0, "first_row": 0, "end_row": 3, "version": 2}
    again = orjson.loads(run("restore", "second", "again", "--json").stdout)
    assert (again.pop("directory"), again.pop("queues")) == ("again", 3)  # for stream of both, and for mqtt
    assert told.pop("target")
    assert again == told
    assert run("restore", "backup", "third").stdout.startswith("restored to third as of 20")
    state = orjson.loads(run("queue", "show", "third", "ann", "--json").stdout)
    assert (state["oldest"], state["last"], state["acknowledged"]) == (1, 3, 0)


def test_a_directory_without_a_run_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.toml").write_text('[run]\ndata = "broker"\nrunner = "process"\n')
    run("subscribe", "broker.toml", "--id", "s", "--subscriber", "ann", "--where", "n > 1")
    assert run("backup", "broker", "backup").stdout.endswith("runner process before its first batch\n")


def test_mistakes_are_one_sentence(broker, tmp_path):
    assert "expected a data directory; got none; at none" in refused("backup", "none", "backup")
    assert "expected a data directory; got none; at p.jsonl" in refused("backup", "p.jsonl", "backup")
    assert "expected a backup; got a directory without a manifest" in refused("restore", "broker", "again")
    run("backup", "broker", "backup")
    assert "or an empty one, for the backup; got one with data in it" in refused("backup", "broker", "backup")
    assert "or an empty one, for what is restored; got one with format.json" in refused("restore", "backup", "broker")
    (tmp_path / "backup" / "data" / "registry.db").write_bytes(b"")
    assert "bytes; got 0; at" in refused("restore", "backup", "again")
