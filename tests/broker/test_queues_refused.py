"""What is refused where queues are read, acknowledged and written: one clear sentence each, and nothing changes."""

from __future__ import annotations

import os
import re
import shutil

import pytest

import tidegate as tg
from tests.cli.commands import refused, run
from tests.store.test_database import unprivileged_directory
from tidegate import checked_json
from tidegate.store.data_directory import DataDirectory
from tidegate.store.queues import Queues

LINE = '{{"id": "p{0}", "source": "z", "time": "2026-11-15T08:00:0{0}Z", "n": {0}}}\n'
CONFIG = '[run]\ndata = "{}"\nrunner = "{}"\nlateness = 0\n'


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A data directory whose run has told ann of three publications."""
    monkeypatch.chdir(tmp_path)
    filled(tmp_path)
    return tmp_path / "broker"


def filled(directory):
    (directory / "broker.toml").write_text(CONFIG.format("broker", "process"))
    (directory / "p.jsonl").write_text("".join(LINE.format(i) for i in range(3)))
    run("subscribe", "broker.toml", "--id", "s1", "--subscriber", "ann", "--where", "n >= 0")
    run("publish", "broker", "p.jsonl")
    run("run", "broker.toml", "--available-now")


NOBODY = "expected a principal with a queue; got {}"
NO_PLACE = "expected a number of a queue, or an epoch, a dash and a number; got {}"
BEYOND = "expected a number from 0 to 3, the last of the queue; got {}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda queues: queues.page("bob"), NOBODY.format("'bob'")),
        (lambda queues: queues.page(["ann"]), NOBODY.format("['ann']")),
        (lambda queues: queues.states(None), NOBODY.format("None")),
        (lambda queues: queues.page("ann", destination="mqtt"), "destinations of ann: stream; got 'mqtt'"),
        *((lambda queues, after=after: queues.page("ann", after=after), NO_PLACE.format(repr(after)[:5]))
          for after in ("", "x", "-", "abc-", "1.5", "9" * 30, "٣", "-1")),
        *((lambda queues, limit=limit: queues.page("ann", limit=limit), f"expected a number from 1 up; got {limit!r}")
          for limit in (0, -3, "x", None, 1.5)),
        *((lambda queues, number=number: queues.acknowledge("ann", number), BEYOND.format(repr(number)))
          for number in (4, -1, 10**30, "2", None, True, 1.5)),
        (lambda queues: queues.acknowledge("bob", 1), NOBODY.format("'bob'")),
        (lambda queues: queues.acknowledge_all(None), "expected numbers by principal and destination; got None"),
        (lambda queues: queues.acknowledge_all(["ann"]), "expected numbers by principal and destination; got ['ann']"),
        *((lambda queues, name=name: queues.acknowledge_all({name: 1}), f"a principal and a destination; got {name!r}")
          for name in ("ann", ("ann",), ("ann", "stream", 1), None)),
        (lambda queues: queues.acknowledge_all({("ann", None): 1}), "destinations of ann: stream; got None"),
        *((lambda queues, seconds=seconds: queues.wait(seconds), f"seconds to wait, from 0 up; got {seconds!r}")
          for seconds in (-1, -0.5, float("nan"), None, "1", True)),
        (lambda queues: queues.acknowledge_all({("ann", "stream"): 2, ("bob", "stream"): 1}), NOBODY.format("'bob'")),
        (lambda queues: queues.acknowledge_all({("ann", "stream"): 2, ("ann", "mqtt"): 1}), "got 'mqtt'"),
    ],
)  # fmt: skip
def test_what_no_queue_has_is_refused(place, call, said):
    with tg.OpenQueues(place) as queues:
        with pytest.raises(tg.TidegateError, match=re.escape(said)):
            call(queues)
        (state,) = queues.states("ann")
        assert (state.acknowledged, state.last) == (0, 3)
        assert [item["number"] for item in queues.page("ann").items] == [1, 2, 3]


@pytest.mark.parametrize("given", [None, 3, b"broker", ["broker"]])
def test_what_is_no_path_is_refused(given):
    with pytest.raises(tg.SettingError, match="expected the path of a TOML file or of a data directory; got"):
        tg.OpenQueues(given)


@pytest.mark.parametrize(("after", "reason"), [("other-2", "epoch"), ("99", "beyond")])
def test_a_number_of_another_epoch_or_beyond_the_end_is_told_as_a_gap(place, after, reason):
    with tg.OpenQueues(place) as queues:
        items = queues.page("ann", after=after).items
        assert (items[0]["type"], items[0]["reason"], items[0]["oldest"]) == ("gap", reason, 1)
        assert [item["number"] for item in items[1:]] == [1, 2, 3]
    assert len(run("queue", "replay", "broker", "ann", "--after", after).stdout.splitlines()) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "broker", "bob"],
        ["show", "nowhere", "ann"],
        ["show", "p.jsonl", "ann"],
        ["replay", "broker", "bob"],
        ["replay", "broker", "ann", "--destination", "webhook:"],
        ["replay", "broker", "ann", "--after=-1"],
        ["replay", "broker", "ann", "--after", "x-y"],
        ["ack", "broker", "bob", "1"],
        ["ack", "broker", "ann", "4"],
        ["ack", "broker", "ann", "9" * 30],
        ["ack", "broker", "ann", "1", "--destination", "mqtt"],
    ],
)
def test_the_command_says_it_in_one_sentence(place, arguments):
    refused("queue", *arguments)


@pytest.mark.parametrize("arguments", [["replay", "--limit=0"], ["replay", "--limit=x"], ["ack", "--", "-1"]])
def test_numbers_that_the_command_itself_refuses(place, arguments):
    assert "Invalid value" in run("queue", arguments[0], "broker", "ann", *arguments[1:], code=2).stderr


def test_no_queues_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.toml").write_text(CONFIG.format("broker", "process"))
    run("subscribe", "broker.toml", "--id", "s1", "--subscriber", "ann", "--where", "n >= 0")
    assert "queues, which the first run makes" in refused("queue", "show", "broker", "ann")


# --- directories ----------------------------------------------------------------------------------------------------


def test_a_second_run_is_refused(place):
    lock = DataDirectory.found(place).locked()
    assert "a data directory that no other run uses" in refused("run", "broker", "--available-now")
    lock.release()
    with Queues(place / "queues"):
        assert "queues that nobody else writes to" in refused("run", "broker", "--available-now")
    run("run", "broker", "--available-now")


def test_a_data_directory_of_another_runner_is_refused(place):
    (place.parent / "spark.toml").write_text(CONFIG.format("broker", "spark"))
    assert "made for: process; got spark" in refused("run", "spark.toml", "--available-now")


def test_queues_of_another_checkpoint_are_refused(place):
    shutil.rmtree(place / "runner")
    assert "the run that these queues belong to" in refused("run", "broker", "--available-now")


def test_a_checkpoint_whose_record_is_lost_is_refused(place):
    (place / "runner" / "batches.journal").unlink()
    assert "a record of batches up to 0, which a sink has" in refused("run", "broker", "--available-now")


@pytest.mark.parametrize("command", [["run"], ["queue", "show"], ["status"], ["list"]])
def test_formats_of_a_newer_tidegate_are_refused(place, command):
    (place / "format.json").write_bytes(checked_json.packed({"format": 2, "runner": "process"}))
    more = ["ann"] if command[0] == "queue" else []
    assert "a data directory of format 1; got format 2, of a newer Tidegate" in refused(*command, "broker", *more)


@pytest.mark.parametrize("command", [["run", "broker"], ["queue", "show", "broker", "ann"], ["status", "broker"]])
def test_queues_of_a_newer_tidegate_are_refused(place, command):
    (place / "queues" / "manifest.json").write_bytes(checked_json.packed({"format": 2, "files": []}))
    assert "expected queues of format 1; got format 2; at " in refused(*command)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format": 1, "runner": "process"}', b"\x00\xff", b"[]", b"null"])
def test_what_is_no_data_directory_is_refused(place, data):
    (place / "format.json").write_bytes(data)
    for command in (["run", "broker"], ["queue", "show", "broker", "ann"]):
        assert "expected a data directory; got " in refused(*command)


def test_a_directory_with_other_files_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter").write_text("dear")
    (tmp_path / "foreign.toml").write_text(CONFIG.format("foreign", "process"))
    (tmp_path / "p.jsonl").write_text(LINE.format(1))
    subscribe = ["subscribe", "foreign.toml", "--id", "x", "--subscriber", "ann", "--where", "n > 1"]
    for command in (["run", "foreign.toml"], ["publish", "foreign.toml", "p.jsonl"], subscribe):
        assert "a data directory, or an empty one; got a directory with other files" in refused(*command)
    assert os.listdir(tmp_path / "foreign") == ["letter"]
    (tmp_path / "foreign" / "letter").unlink()
    (tmp_path / "foreign" / ".format.json-1").write_text("")  # what a process that was killed has left
    run("run", "foreign.toml", "--available-now")


@pytest.mark.parametrize("content", [b"x" * 5000, None])
def test_cursors_that_are_none_are_refused(place, content):
    with tg.OpenQueues(place) as queues:
        queues.acknowledge("ann", 2)
    for file in place.glob("cursors.db*"):
        file.unlink()
    if content is None:
        (place / "cursors.db").mkdir()
    else:
        (place / "cursors.db").write_bytes(content)
    for command in (["show", "broker", "ann"], ["ack", "broker", "ann", "1"]):
        assert "cursors.db" in refused("queue", *command)


def test_directories_that_cannot_be_written(monkeypatch):
    with unprivileged_directory() as (parent, give_up_root):
        monkeypatch.chdir(parent)
        filled(parent)
        (parent / "new.toml").write_text(CONFIG.format("broker/new", "process"))
        for path in [parent, *parent.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        give_up_root()
        for command in (["run", "broker"], ["queue", "ack", "broker", "ann", "1"], ["run", "new.toml"]):
            refused(*command)
