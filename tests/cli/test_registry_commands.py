"""subscribe, unsubscribe, list and status, on a registry that is there for real."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import orjson
import pytest

import tidegate as tg
from tests.cli.commands import CONFIG, SUBSCRIPTIONS, config, lines, refused, run
from tidegate.runs.status import Status
from tidegate.runs.status_file import StatusWriter
from tidegate.store.registry import Registry


@pytest.fixture
def file(tmp_path):
    return lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "registry.db"


def test_subscribe_a_file_and_one_more(place, file):
    assert run("subscribe", place, file).stdout == "3 subscriptions added; version 3, 3 subscriptions in all\n"
    one = run("subscribe", place, "--id", "s4", "--subscriber", "cy", "--where", "a = 1")
    assert one.stdout == "1 subscription added; version 4, 4 subscriptions in all\n"
    json = '{"op": "isNull", "args": [{"property": "a"}]}'
    times = ("--active-from", "2026-11-15T08:00:00Z", "--active-until", "2026-11-16T08:00:00Z")
    run("subscribe", place, "--id", "s5", "--subscriber", "cy", "--where", json, *times)
    with Registry(place) as registry:
        assert [s.id for s in registry] == ["s1", "s2", "s3", "s4", "s5"]
        last = registry.subscription("cy/s5")
    assert last == tg.Subscription(
        "s5", "cy", orjson.loads(json), datetime(2026, 11, 15, 8, tzinfo=UTC), datetime(2026, 11, 16, 8, tzinfo=UTC)
    )


def test_subscribe_takes_all_or_none(tmp_path, place, file):
    bad = lines(tmp_path / "bad.jsonl", [*SUBSCRIPTIONS, {"id": "s9", "subscriber": "ann", "where": "no2 >"}])
    assert "'s9'" in run("subscribe", place, bad, code=2).stderr
    with Registry(place) as registry:
        assert (registry.version, len(registry)) == (0, 0)
    run("subscribe", place, file)
    assert "an id that is not in use; got 'ann/s1'" in refused("subscribe", place, file)
    broken = lines(tmp_path / "broken.jsonl", [{"id": "s9", "subscriber": "ann"}])
    assert f"a field where; got id, subscriber; at {broken}, line 1" in refused("subscribe", place, broken)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "a file, or --id, --subscriber and --where; got neither"),
        (("--id", "s1"), "a field subscriber; got id; at the options"),
        (("--id", "s1", "--subscriber", "a", "--where", "{nonsense"), "CQL2-JSON as --where"),
        (("--id", "s1", "--subscriber", "a", "--where", "a = 1", "--active-from", "soon"), "a timestamp"),
        (("FILE", "--id", "s1"), "a file, or the fields of one subscription; got both"),
    ],
)
def test_subscribe_refuses_what_it_cannot_read(place, file, arguments, words):
    assert words in refused("subscribe", place, *(file if one == "FILE" else one for one in arguments))


def test_unsubscribe(place, file):
    run("subscribe", place, file)
    assert "got 'nobody'" in refused("unsubscribe", place, "ann/s1", "nobody")
    assert run("unsubscribe", place, "ann/s1", "ann/s3").stdout == "2 ended; version 5, 1 left\n"
    with Registry(place) as registry:
        assert [s.id for s in registry] == ["s2"]


def test_list(place, file):
    run("subscribe", place, file)
    shown = run("list", place).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["ann/s1", "bob/s2", "ann/s3"]
    assert shown[0].endswith("  no2 > 40")
    assert [line.split()[0] for line in run("list", place, "--subscriber", "ann").stdout.splitlines()] == [
        "ann/s1",
        "ann/s3",
    ]
    assert run("list", place, "--subscriber", "nobody").stdout == ""
    some = run("list", place, "--limit", 2)
    assert len(some.stdout.splitlines()) == 2
    assert some.stderr == "the first 2 are shown; --limit 0 shows all\n"
    every = run("list", place, "--limit", 0)
    assert (len(every.stdout.splitlines()), every.stderr) == (3, "")
    assert run("list", place, "--limit", 3).stderr == ""


def test_what_list_writes_subscribe_reads(tmp_path, place, file):
    run("subscribe", place, file)
    copy = tmp_path / "copy.jsonl"
    copy.write_text(run("list", place, "--json").stdout)
    run("subscribe", tmp_path / "second.db", copy)
    with Registry(place) as first, Registry(tmp_path / "second.db") as second:
        assert list(first) == list(second)


TOLD = [
    {"id": "s1", "subscriber": "ann", "where": "a > 1", "initial": True, "fields": ["a", "b"], "expired": True},
    {"id": "s2", "subscriber": "ann", "where": "a > 1", "fields": "none", "deliver": "mqtt"},
    {"id": "s3", "subscriber": "ann", "where": "a > 1", "deliver": {"webhook": "alarms"}},
    {"id": "s4", "subscriber": "ann", "where": "a > 1"},
]


def test_how_a_subscription_is_told_is_read_from_files_and_listed(tmp_path, place):
    run("subscribe", place, lines(tmp_path / "told.jsonl", TOLD))
    assert [orjson.loads(line) for line in run("list", place, "--json").stdout.splitlines()] == TOLD
    cells = tmp_path / "told.csv"
    cells.write_text(
        "id,subscriber,where,initial,fields,expired,deliver\n"
        's1,ann,a > 1,true,"[""a"", ""b""]",true,\n'
        "s2,ann,a > 1,false,none,,mqtt\n"
        's3,ann,a > 1,,all,false,"{""webhook"": ""alarms""}"\n'
        "s4,ann,a > 1,,,,stream\n"
    )
    run("subscribe", tmp_path / "second.db", cells)
    with Registry(place) as first, Registry(tmp_path / "second.db") as second:
        assert list(first) == list(second)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("yes,,", "true or false as initial; got 'yes'"),
        (",[a],", "a JSON array as fields; got '[a]', where"),
        (",some,", "all, none or a list of names as fields; got 'some'"),
        (",,sms", "stream, mqtt or {\"webhook\": NAME} as deliver; got 'sms'"),
    ],
)
def test_how_it_is_told_may_be_wrong(tmp_path, place, cell, words):
    file = tmp_path / "told.csv"
    file.write_text(f"id,subscriber,where,initial,fields,deliver\ns1,ann,a > 1,{cell}\n")
    said = refused("subscribe", place, file)
    assert words in said
    assert f"{file}, line 2" in said


def test_a_registry_that_is_not_there_is_not_made_by_looking(tmp_path, place):
    for command in (("list", place), ("status", place), ("unsubscribe", place, "s1")):
        assert "a registry that exists; got '" in refused(*command)
    assert os.listdir(tmp_path) == []


def test_a_config_stands_for_its_registry(tmp_path, file):
    path = config(tmp_path)
    run("subscribe", path, file)
    assert "3 subscriptions at version 3" in run("status", tmp_path / "registry.db").stdout
    assert run("list", path).stdout == run("list", tmp_path / "registry.db").stdout
    run("unsubscribe", path, "ann/s1")
    path.write_text(CONFIG.replace("registry =", "registrar ="))
    assert "did you mean registry?" in refused("list", path)


# --- status -----------------------------------------------------------------------------------------------------------


def test_status_of_a_registry(place, file):
    run("subscribe", place, file)
    assert run("status", place).stdout == "3 subscriptions at version 3\n0 index snapshots: 0.0 MB\n"
    assert not os.path.exists(f"{place}.snapshots")
    with Registry(place) as registry:
        registry.prepare(3, 3)
        registry.needs("query-1", 3)
    told = run("status", place).stdout.splitlines()
    assert told[1].startswith("1 index snapshots: versions 3 to 3, 0.")
    assert told[2].startswith("reader query-1: needs versions from 3, seen ")
    facts = orjson.loads(run("status", place, "--json").stdout)
    assert (facts["version"], facts["subscriptions"]) == (3, 3)
    assert facts["snapshots"]["bytes"] > 1000
    assert [reader["query"] for reader in facts["readers"]] == ["query-1"]
    assert "run" not in facts


def test_status_of_a_pipeline_says_when_it_is_stale(tmp_path, file, monkeypatch):
    path = config(tmp_path)
    run("subscribe", path, file)
    assert run("status", path).stdout.endswith("no run yet\n")
    assert not (tmp_path / "checkpoint").exists()
    with Registry(tmp_path / "registry.db") as registry:
        status = Status(registry)
        counts = {"publications": 7, "notifications": 2, "quarantined": 1, "late": 0, "newest": 0, "seconds": 0.1}
        status.add(4, [counts], 0.2, 0.1)
        with StatusWriter(str(tmp_path / "checkpoint"), "q1", status.snapshot):
            pass
    told = run("status", path).stdout
    assert f"run q1 in process {os.getpid()}, 0 s ago\n" in told
    assert "STALE" not in told
    for words in ("state            running", "batch time       0.300 s", "quarantined      1", "publications     7"):
        assert words in told
    file = tmp_path / "checkpoint" / "status.json"
    old = orjson.loads(file.read_bytes()) | {"at": datetime.now(UTC) - timedelta(minutes=5)}
    file.write_bytes(orjson.dumps(old))
    assert "5 min ago; STALE" in run("status", path).stdout
    assert orjson.loads(run("status", path, "--json").stdout)["run"]["stale"] is True
    file.write_bytes(orjson.dumps(old | {"state": "stopped"}))
    assert "STALE" not in run("status", path).stdout
