"""Principals and tokens on all three databases: what they may, who holds a secret, and that nobody else learns it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import traceback
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

import tidegate as tg
from tests.store.at_once import at_once
from tidegate.errors import ConflictError
from tidegate.model import micros
from tidegate.store import token_secrets
from tidegate.store.database import Database
from tidegate.store.database_url import address
from tidegate.store.principal_tables import QUOTAS, ROLES
from tidegate.store.principals import Principals

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
CHOSEN = "correct-horse-battery!"


class Clock:
    """The time of day, which a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return micros(self.now)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def principals(url, clock):
    with Principals(url, clock=clock) as principals:
        yield principals


# --- principals -----------------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_principals_come_back_as_they_were_made(principals, url, clock):
    as_json = {"op": ">", "args": [{"property": "no2"}, 40]}
    quotas = {name: number for number, name in enumerate(QUOTAS, 1)}
    assert principals.put("bob", read="source LIKE 'z%' AND name <> 'Žižkov 𝒜'", quotas={"cost": 0.5}).name == "bob"
    principals.put("ann@example.org", read=as_json, quotas=quotas)
    principals.put("Bob")
    principals.put("cy", read=False)
    with Principals(url) as others:
        found = {one.name: (one.read, dict(one.quotas)) for one in others.all()}
        assert list(found) == ["Bob", "ann@example.org", "bob", "cy"]
        assert found["bob"] == ("source LIKE 'z%' AND name <> 'Žižkov 𝒜'", {"cost": 0.5})
        assert found["ann@example.org"] == (as_json, quotas)
        assert found["Bob"] == (None, {})
        assert found["cy"] == (False, {})
        clock.now += HOUR
        principals.put("bob", quotas={"connections": 2})
        bob = others.principal("bob")
        assert (bob.read, dict(bob.quotas), bob.created) == (None, {"connections": 2}, NOW)
        others.remove("bob")
    for gone in ("bob", "BOB", "a b", "", None, "x\0"):
        with pytest.raises(tg.SettingError, match="a principal that there is"):
            principals.principal(gone)
        with pytest.raises(tg.SettingError, match="a principal that there is"):
            principals.remove(gone)


@pytest.mark.parametrize(
    ("name", "more", "error", "says"),
    [
        (".", {}, tg.SettingError, "and not . or .."),
        ("..", {}, tg.SettingError, "and not . or .."),
        ("a/b", {}, tg.SettingError, "the name of a principal"),
        ("x" * 129, {}, tg.SettingError, "the name of a principal"),
        (None, {}, tg.SettingError, "the name of a principal"),
        ("ann", {"read": "topk(1, 'PT1H', n)"}, tg.SettingError, "a filter as read; got a pattern, topk"),
        ("ann", {"read": "n > > 1"}, tg.ParseError, "column 5"),
        ("ann", {"read": 7}, tg.SubscriptionError, "CQL2"),
        ("ann", {"read": "n = '\0'"}, tg.SettingError, "without the character NUL"),
        ("ann", {"quotas": {"speed": 1}}, tg.SettingError, "quotas of the names subscriptions,"),
        ("ann", {"quotas": {"cost": 0}}, tg.SettingError, "a number above 0, up to 2**53, as the quota cost; got 0"),
        ("ann", {"quotas": {"cost": True}}, tg.SettingError, "as the quota cost; got True"),
        ("ann", {"quotas": {"cost": float("nan")}}, tg.SettingError, "as the quota cost; got nan"),
        ("ann", {"quotas": {"cost": 10**400}}, tg.SettingError, "as the quota cost"),
        ("ann", {"quotas": [1]}, tg.SettingError, "a mapping of limits as quotas"),
    ],
)
def test_what_no_principal_can_be_is_refused(tmp_path, name, more, error, says):
    with Principals(tmp_path / "some.db") as principals:
        with pytest.raises(error) as caught:
            principals.put(name, **more)
        assert says in str(caught.value)
        assert principals.all() == []


# --- tokens ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_who_has_the_secret_is_the_holder(principals, url, clock):
    principals.put("ann", quotas={"connections": 3})
    first = principals.make_token("ann", ["publisher", "subscriber"], sources=["z*", "hut-[12]"])
    second = principals.make_token("bob", {"administrator"}, read="n > 1", expires=NOW + HOUR)
    chosen = principals.make_token("cy", ("subscriber",), secret=CHOSEN)
    assert chosen.secret == CHOSEN
    assert len({first.secret, second.secret}) == 2
    assert min(len(first.secret), len(second.secret)) >= 43  # 32 random bytes
    with Principals(url, clock=clock) as others:
        holder = others.holder(first.secret)
        assert (holder.token.id, holder.token.roles) == (first.id, ("subscriber", "publisher"))
        assert (holder.principal.name, dict(holder.principal.quotas)) == ("ann", {"connections": 3})
        assert [holder.token.covers(source) for source in ("z7", "hut-1", "hut-3", "Z7", "az")] == [True, True] + 3 * [
            False
        ]
        assert others.holder(second.secret).principal.read == "n > 1"
        assert others.holder(second.secret).token.covers("anything")
        assert others.holder(CHOSEN).token.id == chosen.id
        assert [token.id for token in others.tokens("ann")] == [first.id]
        assert {token.id for token in others.tokens()} == {first.id, second.id, chosen.id}
        clock.now += HOUR
        assert others.holder(second.secret) is None  # it has expired
        others.revoke(first.id)
    assert principals.holder(first.secret) is None
    principals.remove("cy")
    assert principals.holder(CHOSEN) is None
    assert [token.principal for token in principals.tokens()] == ["bob"]


def test_nobody_holds_anything_else(principals):
    token = principals.make_token("ann", ["subscriber"])
    for wrong in (
        "",
        "x",
        token.id,
        token.secret[:-1],
        token.secret + "x",
        token.secret.upper(),
        "\0",
        "\ud800",
        7,
        None,
    ):
        assert principals.holder(wrong) is None
    for wrong in ("", "none", "\0", None, 7, token.secret):
        with pytest.raises(tg.SettingError, match="the id of a token that there is") as caught:
            principals.revoke(wrong)
        assert token.secret not in str(caught.value)


@pytest.mark.parametrize(
    ("roles", "more", "says"),
    [
        ([], {}, f"some of the roles {', '.join(ROLES)}"),
        (["reader"], {}, "some of the roles"),
        ("subscriber", {}, "some of the roles"),
        ([["subscriber"]], {}, "some of the roles"),
        (["publisher"], {"sources": []}, "a list of patterns as sources, or none for any source"),
        (["publisher"], {"sources": "z*"}, "a list of patterns"),
        (["publisher"], {"sources": [""]}, "a pattern of 1 to 1024 characters"),
        (["publisher"], {"sources": ["\ud800"]}, "Unicode text"),
        (["publisher"], {"secret": "short"}, "16 to 1024 characters as a secret; got 5"),
        (["publisher"], {"secret": "with a space in it"}, "visible ASCII characters as a secret"),
        (["publisher"], {"secret": "žžžžžžžžžžžžžžžžž"}, "visible ASCII characters as a secret"),
        (["publisher"], {"expires": datetime(2026, 11, 15)}, "time zone"),
    ],
)
def test_what_no_token_can_be_is_refused(tmp_path, roles, more, says):
    with Principals(tmp_path / "some.db") as principals:
        with pytest.raises(tg.SettingError) as caught:
            principals.make_token("ann", roles, **more)
        assert says in str(caught.value)
        assert not more.get("secret") or more["secret"] not in str(caught.value)
        assert principals.all() == principals.tokens() == []  # no principal is left behind either


@pytest.mark.contract
def test_read_is_agreed_on(principals):
    principals.make_token("ann", ["subscriber"])
    principals.make_token("ann", ["subscriber"], read="n > 1 AND m < 2")
    assert principals.principal("ann").read == "n > 1 AND m < 2"
    principals.make_token("ann", ["publisher"], read="n>1 and (m<2)")  # the same filter
    principals.make_token("ann", ["publisher"])
    with pytest.raises(ConflictError, match=r"the read that ann has: 'n > 1 AND m < 2'; got 'n > 2'"):
        principals.make_token("ann", ["publisher"], read="n > 2")
    assert (principals.principal("ann").read, len(principals.tokens())) == ("n > 1 AND m < 2", 4)


@pytest.mark.contract
def test_a_chosen_secret_may_be_given_at_every_start(principals):
    first = principals.make_token("admin", ["administrator"], secret=CHOSEN)
    assert principals.make_token("admin", ["administrator"], secret=CHOSEN) == first
    for principal, roles, more in (
        ("other", ["administrator"], {}),
        ("admin", ["subscriber"], {}),
        ("admin", ["administrator"], {"sources": ["z*"]}),
    ):
        with pytest.raises(ConflictError, match="a secret that no other token has") as caught:
            principals.make_token(principal, roles, secret=CHOSEN, **more)
        assert CHOSEN not in str(caught.value)
    assert [one.name for one in principals.all()] == ["admin"]
    assert len(principals.tokens()) == 1


def test_the_last_use_is_kept_by_the_hour(principals, clock, monkeypatch):
    token = principals.make_token("ann", ["subscriber"])
    assert principals.token(token.id).used is None
    written = []
    write = Database.write
    monkeypatch.setattr(Database, "write", lambda self, work: written.append(1) or write(self, work))
    for minutes, used, writes in ((0, 0, 1), (1, 0, 1), (59, 0, 1), (60, 60, 2), (61, 60, 2), (600, 600, 3)):
        clock.now = NOW + timedelta(minutes=minutes)
        assert principals.holder(token.secret) is not None
        assert principals.token(token.id).used == NOW + timedelta(minutes=used)
        assert len(written) == writes


# --- secrets --------------------------------------------------------------------------------------------------------


def test_no_secret_is_in_a_text_or_a_file(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    with Principals(tmp_path / "some.db") as principals:
        made = principals.make_token("ann", ["subscriber"])
        chosen = principals.make_token("bob", ["subscriber"], secret=CHOSEN)
        texts = [repr(made), str(chosen), f"{made}", repr(principals), repr(principals._hashes), caplog.text]
        texts += [repr(principals.holder(made.secret)), repr(principals.tokens()), repr(principals.all())]
        for wrong in ({"secret": CHOSEN}, {"secret": CHOSEN + " "}):
            with pytest.raises(tg.TidegateError) as caught:
                principals.make_token("cy", ["publisher"], **wrong)
            texts += traceback.format_exception(caught.value)
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (made.secret, CHOSEN):
        assert not any(secret in text for text in texts)
        assert secret.encode() not in everything


def test_a_chosen_secret_takes_long_to_try_and_is_hashed_otherwise_in_each_database(tmp_path, monkeypatch):
    calls = []
    scrypt = token_secrets.hashlib.scrypt
    monkeypatch.setattr(
        token_secrets.hashlib, "scrypt", lambda *a, **more: calls.append(more["n"]) or scrypt(*a, **more)
    )
    hashes = []
    for name in ("a", "b"):
        with Principals(tmp_path / f"{name}.db") as principals:
            principals.make_token("ann", ["subscriber"], secret=CHOSEN)
            principals.make_token("ann", ["subscriber"])
            with principals._database.read() as connection:
                hashes += connection.scalars(text("SELECT hash FROM tidegate_tokens"))
    assert len(set(hashes)) == 4
    assert sorted(one.split(":")[0] for one in hashes) == ["scrypt"] * 2 + ["sha256"] * 2
    assert calls == [2**14] * 2
    with Principals(tmp_path / "a.db") as principals:
        for _ in range(3):
            assert principals.holder(CHOSEN) is not None
            assert principals.holder(CHOSEN + "?") is None  # costs as much
        assert calls == [2**14] * 4
        monkeypatch.setattr(token_secrets, "_REMEMBERED", 1)
        assert principals.holder("x" * 20) is None
        assert len(principals._hashes._known) == 2


def test_a_token_is_found_through_the_index(tmp_path):
    with Principals(tmp_path / "some.db") as principals, principals._database.read() as connection:
        plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN SELECT id FROM tidegate_tokens WHERE hash = 'x'").all()
    assert "tidegate_tokens_hash" in str(plan)


# --- together -------------------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_many_open_a_new_database_and_make_the_same_at_once(url):
    ids = []

    def makes():
        with Principals(url) as principals:
            principals.put("ann", quotas={"cost": 1})
            ids.append(principals.make_token("admin", ["administrator"], read="n > 1", secret=CHOSEN).id)
            principals.make_token("bob", ["subscriber"], read="n > 1")

    at_once(makes)
    with Principals(url) as principals:
        assert [one.name for one in principals.all()] == ["admin", "ann", "bob"]
        assert len(principals.tokens("bob")) == 6
        assert len(principals.tokens("admin")) == len(set(ids)) == 1


MAKER = """
import sys
from tidegate.store.principals import Principals
with Principals(sys.argv[1]) as principals:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(30):
        principals.make_token(f"p{number}", ["subscriber"], read="n > 1")
        principals.put("same", quotas={"cost": number + 1})
"""


@pytest.mark.contract
def test_two_processes_make_the_same_principals(url):
    command = [sys.executable, "-c", MAKER, url]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for maker in makers:
        assert maker.stdout.readline() == b"ready\n"
    for maker in makers:
        maker.stdin.write(b"go\n")
        maker.stdin.flush()
    for maker in makers:
        maker.communicate(timeout=120)
        assert maker.returncode == 0
    with Principals(url) as principals:
        assert sorted(one.name for one in principals.all()) == sorted([*(f"p{i}" for i in range(30)), "same"])
        assert len(principals.tokens()) == 60
        assert dict(principals.principal("same").quotas) == {"cost": 30}


def test_two_of_other_minds_cannot_both_set_what_a_principal_reads(url):
    outcomes: list[str] = []

    def makes(read: str) -> None:
        with Principals(url) as principals:
            try:
                principals.make_token("ann", ["subscriber"], read=read)
                outcomes.append(read)
            except ConflictError:
                outcomes.append("refused")

    Principals(url).close()
    threads = [threading.Thread(target=makes, args=(f"n > {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Principals(url) as principals:
        assert sorted(outcomes) == sorted([principals.principal("ann").read, *["refused"] * 3])
        assert len(principals.tokens()) == 1


def test_beside_a_registry_in_one_database(url):
    with tg.Registry(url) as registry, Principals(registry) as principals:
        registry.subscribe(tg.Subscription("s1", "ann", "n > 1"))
        token = principals.make_token("ann", ["subscriber"])
        assert principals.holder(token.secret).principal.name == registry.subscription("ann/s1").subscriber


@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE tidegate_principals SET quotas = '{'",
        "UPDATE tidegate_principals SET quotas = '{\"cost\": -1}'",
        "UPDATE tidegate_principals SET read_filter = '{'",
        "UPDATE tidegate_principals SET created = 9223372036854775807",
        "UPDATE tidegate_tokens SET roles = '[\"king\"]'",
        "UPDATE tidegate_tokens SET roles = 7",
        "UPDATE tidegate_tokens SET sources = '[]'",
    ],
)
def test_what_nobody_can_have_stored_is_refused(tmp_path, wrong):
    with Principals(tmp_path / "some.db") as principals:
        token = principals.make_token("ann", ["subscriber"])
        with closing(Database(address(tmp_path / "some.db"), lambda database: None)) as database:
            database.write(lambda connection: connection.exec_driver_sql(wrong))
        with pytest.raises(tg.StoreError, match="as it was stored"):
            principals.holder(token.secret)


def test_a_place_that_is_none(tmp_path):
    with pytest.raises(tg.StoreError):
        Principals(Path(tmp_path) / "none" / "some.db")
