"""``tidegate principals``, as an administrator runs it."""

from __future__ import annotations

import orjson

import tidegate as tg
from tests.cli.commands import refused, run
from tidegate.store.principals import Principals


def facts(*arguments: object) -> list[dict]:
    return [orjson.loads(line) for line in run("principals", *arguments, "--json").stdout.splitlines()]


def test_principals_are_made_shown_changed_and_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = run(
        "principals", "put", "r.db", "ann", "--read", "zone = 1", "--quota", "subscriptions=9", "--quota", "cost=0.5"
    )
    assert made.stdout == "ann reads zone = 1, subscriptions 9, cost 0.5; version 0\n"
    run("subscribe", "r.db", "--id", "s1", "--subscriber", "ann", "--where", "n > 1")
    as_json = '{"op": "=", "args": [{"property": "zone"}, 2]}'
    assert "version 2" in run("principals", "put", "r.db", "ann", "--read", as_json, "--quota", "cost=none").stdout
    run("principals", "put", "r.db", "bob", "--quota", "connections=2")
    (ann, bob) = facts("list", "r.db")
    assert (ann["name"], ann["read"], ann["quotas"], ann["registered"]) == (
        "ann",
        orjson.loads(as_json),
        {"subscriptions": 9},
        1,
    )
    assert (bob["name"], bob["read"], bob["quotas"], bob["registered"]) == ("bob", None, {"connections": 2}, None)
    assert run("principals", "list", "r.db").stdout.splitlines()[1] == "bob reads everything, connections 2"
    assert "registered since version 1, 1 subscriptions" in run("principals", "show", "r.db", "ann").stdout
    assert "version 3" in run("principals", "put", "r.db", "ann", "--everything").stdout
    with tg.Registry("r.db") as registry:
        assert (registry.stored("ann/s1").read, registry.subscription("ann/s1").where) == (None, "n > 1")
    run("principals", "remove", "r.db", "ann")
    assert [one["name"] for one in facts("list", "r.db")] == ["bob"]
    assert "a principal that there is" in refused("principals", "show", "r.db", "ann")


def test_a_principal_is_given_to_an_issuer_and_taken_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Principals("r.db") as principals:
        word = principals.issued.word("https://login.example", "ann", "n > 1", 1)
        principals.issued.admit(word)
        listed = run("principals", "list", "r.db").stdout
        assert listed == "ann reads n > 1, of the issuer https://login.example\n"
        run("principals", "put", "r.db", "ann", "--quota", "connections=2")  # which is no word of what it may read
        newer = principals.issued.word("https://login.example", "ann", "n > 2", 2)
        assert principals.issued.admit(newer).standing == "newer"
        run("principals", "put", "r.db", "ann", "--issuer", "none")
        assert principals.issued.admit(newer).standing == "foreign"
        assert facts("show", "r.db", "ann")[0]["issuer"] is None
        run("principals", "put", "r.db", "bob", "--issuer", "https://login.example")
        assert facts("list", "r.db")[1]["issuer"] == "https://login.example"
    assert "an issuer of 1 to 1024 characters" in refused("principals", "put", "r.db", "bob", "--issuer", "")


def test_a_secret_is_printed_once_and_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make = "principals", "tokens", "make", "r.db", "ann", "--role", "subscriber"
    made = run(*make, "--role", "publisher", "--source", "z*")
    secret = made.stdout.strip()
    with Principals("r.db") as principals:
        token = principals.holder(secret).token
    assert (token.principal, token.roles, token.sources) == ("ann", ("subscriber", "publisher"), ("z*",))
    assert token.id in made.stderr
    until = run(*make, "--read", "zone = 1", "--expires", "2027-01-01T00:00:00Z", "--json")
    other = orjson.loads(until.stdout)
    listed = run("principals", "tokens", "list", "r.db", "ann").stdout
    assert f"{token.id}  ann: subscriber, publisher as z*, last used" in listed
    assert f"{other['id']}  ann: subscriber, until 2027-01-01 00:00, not used yet" in listed
    shown = run("principals", "show", "r.db", "ann", "--json").stdout
    for text in (listed, made.stderr, until.stderr, shown, run("principals", "list", "r.db").stdout):
        assert secret not in text
        assert other["token"] not in text
    assert [one["id"] for one in orjson.loads(shown)["tokens"]] == [token.id, other["id"]]
    assert [one["id"] for one in facts("tokens", "list", "r.db")] == [token.id, other["id"]]
    run("principals", "tokens", "revoke", "r.db", token.id)
    with Principals("r.db") as principals:
        assert principals.holder(secret) is None
        assert principals.holder(other["token"]) is not None


def test_what_cannot_be_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "a registry that exists" in refused("principals", "list", "none.db")
    run("principals", "put", "r.db", "ann")
    for options, says in (
        (("--read", "n > 1", "--everything"), "--read or --everything"),
        (("--read", "n > > 1"), "expected"),
        (("--read", "{"), "CQL2-JSON as --read"),
        (("--quota", "cost"), "--quota as NAME=NUMBER"),
        (("--quota", "cost=much"), "--quota as NAME=NUMBER"),
        (("--quota", "speed=1"), "quotas of the names"),
        (("--quota", "cost=0"), "a number above 0"),
    ):
        assert says in run("principals", "put", "r.db", "ann", *options, code=2).stderr
    assert "some of the roles" in refused("principals", "tokens", "make", "r.db", "ann", "--role", "reader")
    assert "--expires" in refused(
        "principals", "tokens", "make", "r.db", "ann", "--role", "publisher", "--expires", "soon"
    )
    assert "the name of a principal" in refused("principals", "put", "r.db", "a/b")
    assert "the id of a token" in refused("principals", "tokens", "revoke", "r.db", "none")


def test_of_a_data_directory_and_why_somebody_is_not_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.toml").write_text('[run]\ndata = "broker"\nrunner = "process"\n')
    assert run("principals", "put", "broker.toml", "ann", "--read", "zone = 1").stdout.startswith("ann reads zone = 1")
    assert [one["name"] for one in facts("list", "broker")] == ["ann"]
    run("subscribe", "broker", "--id", "s1", "--subscriber", "ann", "--where", "n > 1")
    publication = orjson.dumps({"id": "p1", "source": "z", "time": "2026-11-15T08:00:00Z", "n": 2, "zone": 2}).decode()
    assert run("explain", "broker.toml", "ann/s1", publication).stdout.splitlines() == [
        "ann/s1 does not match p1",
        "✗ AND",
        "  ✓ n > 1   — n is 2",
        "  ✗ zone = 1   — zone is 2",
    ]
    assert run("list", "broker").stdout.rstrip().endswith("n > 1")
