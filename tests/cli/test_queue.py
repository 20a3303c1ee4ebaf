"""``tidegate queue``, and commands that take a data directory, as a user runs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

import tidegate as tg
from tests.cli.commands import run
from tidegate.model import micros
from tidegate.runs.config import load
from tidegate.store.costs import Cost, Costs
from tidegate.store.principals import Principals

CONFIG = '[run]\ndata = "broker"\nrunner = "process"\nlateness = 0\n'
LINE = '{{"id": "p{0}", "source": "z", "time": "2026-11-15T08:00:0{0}Z", "n": {0}}}\n'


@pytest.fixture
def broker(tmp_path, monkeypatch):
    """A data directory whose run has told ann of three publications, and bob of one by MQTT."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.toml").write_text(CONFIG)
    (tmp_path / "p.jsonl").write_text("".join(LINE.format(i) for i in range(3)))
    bob = {"id": "s1", "subscriber": "bob", "where": "n > 1", "deliver": "mqtt"}
    (tmp_path / "bob.jsonl").write_bytes(orjson.dumps(bob))
    run("subscribe", "broker.toml", "--id", "s1", "--subscriber", "ann", "--where", "n >= 0")
    run("subscribe", "broker", "bob.jsonl")
    run("publish", "broker", "p.jsonl")
    run("run", "broker.toml", "--available-now")
    return tmp_path / "broker"


def test_deliveries_are_shown_acknowledged_and_shown_again(broker):
    state = orjson.loads(run("queue", "show", "broker", "ann", "--json").stdout)
    assert (state["oldest"], state["last"], state["acknowledged"], state["waiting"]) == (1, 3, 0, 3)
    items = [orjson.loads(line) for line in run("queue", "replay", "broker", "ann").stdout.splitlines()]
    assert [(item["number"], item["publication"]["id"]) for item in items] == [(1, "p0"), (2, "p1"), (3, "p2")]
    assert "2 acknowledged, 1 wait" in run("queue", "ack", "broker", "ann", "2").stdout
    assert "2 acknowledged, 1 wait" in run("queue", "ack", "broker", "ann", "1").stdout  # never back
    again = run("queue", "replay", "broker", "ann", "--limit", "5").stdout.splitlines()
    assert [orjson.loads(line)["number"] for line in again] == [3]
    epoch = f"{state['epoch']}-1"
    assert len(run("queue", "replay", "broker.toml", "ann", "--after", epoch).stdout.splitlines()) == 2
    mqtt = run("queue", "replay", "broker", "bob", "--destination", "mqtt").stdout
    assert orjson.loads(mqtt)["subscriptions"] == ["s1"]


def test_what_a_principal_may_not_read_any_more_is_skipped(broker):
    def shown():
        return [
            orjson.loads(line) for line in run("queue", "replay", "broker", "ann", "--after", "0").stdout.splitlines()
        ]

    with Principals(broker / "registry.db") as principals:
        principals.put("ann", read="n = 1")
        skipped, item, last = shown()
        assert skipped == {"type": "skipped", "from": 1, "number": 1, "reason": "unreadable"}
        assert item["publication"]["id"] == "p1"
        assert last == {"type": "skipped", "from": 3, "number": 3, "reason": "unreadable"}
        with tg.OpenQueues(broker) as queues:
            assert queues.page("ann", limit=1).next == 1
            principals.put("ann")
            assert [item["number"] for item in queues.page("ann").items] == [1, 2, 3]
        principals.put("bob", read="FALSE")
        assert [item["type"] for item in shown()] == ["notification"] * 3


def test_what_has_expired_is_shown_to_those_who_want_it(broker):
    """And names only their subscriptions, with the attributes that these want."""
    until, now = datetime.now(UTC).replace(microsecond=0) + timedelta(days=9), [0]
    wanting = {"id": "s2", "subscriber": "ann", "where": "n = 8", "expired": True, "fields": ["m"]}
    (broker.parent / "more.jsonl").write_bytes(orjson.dumps(wanting))
    run("subscribe", "broker", "more.jsonl")
    lines = [
        {"id": f"q{i}", "source": "z", "time": until, "n": n, "m": 1} | ({"valid_until": until} if n > 7 else {})
        for i, n in enumerate((7, 8, 9, 8))
    ]
    (broker.parent / "q.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    (broker.parent / "broker.toml").write_text(CONFIG + 'ahead = "off"\n')
    run("publish", "broker.toml", "q.jsonl")
    run("run", "broker.toml", "--available-now")
    with tg.OpenQueues(broker, clock=lambda: now[0]) as queues:
        for moment, expected in (
            (micros(until) - 1, [["s1"], ["s1", "s2"], ["s1"], ["s1", "s2"]]),
            (micros(until), [["s1"], ["s2"], "expired", ["s2"]]),
        ):
            now[0] = moment
            items = queues.page("ann", after=3).items
            assert [item.get("subscriptions", item.get("reason")) for item in items] == expected
        assert [item.get("publication", {}).get("attributes") for item in items] == [
            {"n": 7, "m": 1}, {"m": 1}, None, {"m": 1}
        ]  # fmt: skip


def test_status_tells_what_waits_and_how_far_behind_the_run_is(broker):
    run("queue", "ack", "broker", "ann", "3")
    (broker.parent / "q.jsonl").write_text(LINE.format(9))
    run("publish", "broker", "q.jsonl")
    facts = orjson.loads(run("status", "broker", "--json").stdout)
    assert (facts["queues"]["queues"], facts["queues"]["waiting"]) == (3, 1)
    assert [one["principal"] for one in facts["queues"]["furthest_behind"]] == ["bob"]
    assert facts["run"]["lag"] == 1
    shown = run("status", "broker").stdout
    assert "3 queues of 0.0 MB: 1 deliveries wait" in shown
    assert "bob mqtt: 1 to 1 kept" in shown


def test_status_tells_what_costs_most(broker):
    assert orjson.loads(run("status", "broker", "--json").stdout)["costs"] == {"subscriptions": [], "principals": []}
    found = [Cost(1, "ann", "s\n1", 0.5, 0), Cost(2, "bob", "s1", 1234.25, 0), Cost(3, "ann", "s2", 1, 0)]
    Costs(broker / "costs.db").note(found)
    facts = orjson.loads(run("status", "broker", "--json").stdout)["costs"]
    first = {"principal": "bob", "id": "s1", "microseconds": 1234.25, "measured_at": "1970-01-01T00:00:00.000000Z"}
    assert facts["subscriptions"][0] == first
    assert facts["principals"][1] == {"principal": "ann", "microseconds": 1.5, "subscriptions": 2}
    assert run("status", "broker").stdout.splitlines()[-5:] == [
        "cost       1,234.250 µs a publication: bob, 1 subscription",
        "cost       1.500 µs a publication: ann, 2 subscriptions",
        "           1,234.250 µs a publication: 'bob/s1'",
        "           1.000 µs a publication: 'ann/s2'",
        "           0.500 µs a publication: 'ann/s\\n1'",
    ]


def test_what_is_valid_is_told_first_and_retracted_when_it_is_unpublished(broker):
    def items():
        return [
            orjson.loads(line) for line in run("queue", "replay", "broker", "cid", "--after", "0").stdout.splitlines()
        ]

    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    valid = {"id": "v", "source": "z", "time": "2026-11-15T09:00:00Z", "n": 1, "valid_until": until}
    (broker.parent / "v.jsonl").write_bytes(orjson.dumps(valid))
    cid = {"id": "s1", "subscriber": "cid", "where": "n >= 0", "initial": True}
    (broker.parent / "cid.jsonl").write_bytes(orjson.dumps(cid))
    run("publish", "broker", "v.jsonl")
    run("run", "broker.toml", "--available-now")
    run("subscribe", "broker", "cid.jsonl")
    run("run", "broker.toml", "--available-now")  # nobody has published
    (item,) = items()
    assert (item["number"], item["initial"], item["publication"]["id"]) == (1, True, "v")
    run("unpublish", "--data", "broker", "z", "v")
    run("run", "broker.toml", "--available-now")
    skipped, retracted = items()
    assert skipped == {"type": "skipped", "from": 1, "number": 1, "reason": "unpublished"}
    assert (retracted["type"], retracted["number"], retracted["retracts"]) == ("retracted", 2, 1)
    assert retracted["publication"]["id"] == "v"


def test_a_data_directory_is_a_whole_configuration(broker):
    config = load(broker)
    assert (config.run.runner, config.run.checkpoint) == ("process", str(broker / "runner"))
    assert (config.source.path, config.source.keep_seconds) == (str(broker / "log"), 7 * 86_400)
    assert [sink.path for sink in config.sinks] == [str(broker / "queues")]
    assert config.subscriptions.registry == str(broker / "registry.db")


def test_what_a_file_names_is_taken_from_there(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        '[source]\ntype = "files"\npath = "in"\n[subscriptions]\nfile = "s.jsonl"\n'
        '[[sinks]]\ntype = "queues"\nmost = 5\n[[sinks]]\ntype = "console"\n'
        '[run]\ndata = "d"\nquarantine = "q"\nrunner = "process"\n'
    )
    config = load(file)
    assert config.source.path == str(tmp_path / "in")
    assert (config.sinks[0].path, config.sinks[0].most, len(config.sinks)) == (str(tmp_path / "d/queues"), 5, 2)
    assert (config.run.quarantine, config.run.checkpoint) == (str(tmp_path / "q"), str(tmp_path / "d/runner"))
    assert config.subscriptions.file == str(tmp_path / "s.jsonl")


def test_many_queues_are_acknowledged_at_once(broker):
    with tg.OpenQueues(broker) as queues:
        with pytest.raises(tg.SettingError, match="a number from 0 to 1"):
            queues.acknowledge_all({("ann", "stream"): 2, ("bob", "mqtt"): 2})
        assert queues.states("ann")[0].acknowledged == 0
        queues.acknowledge_all({("ann", "stream"): 2, ("bob", "mqtt"): 1})
        assert [queues.states(name)[-1].acknowledged for name in ("ann", "bob")] == [2, 1]
        assert queues.furthest_behind(5)[0] == 1
        assert queues.page("ann", after=0, limit=2).next == 2
