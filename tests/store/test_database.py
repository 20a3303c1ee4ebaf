"""Opening databases, good and bad; what threads, forks, deadlocks and lost connections do to them."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, Table, insert, select, text, update

import tidegate as tg
from tests.parts.databases import SERVERS
from tests.store.at_once import at_once
from tidegate.store import NotificationStore, Registry
from tidegate.store.database import NUMBER, Database, key
from tidegate.store.database_url import address
from tidegate.store.schema import SchemaPart

SOME = tg.Subscription("s1", "ann", "a > 1")


def nothing(database: Database) -> None:
    """What some tests have prepared."""


@pytest.fixture
def database(url):
    database = Database(address(url), nothing)
    with closing(database):
        yield database


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [Registry, NotificationStore])
@pytest.mark.parametrize(
    "bad",
    [
        "",
        "  ",
        None,
        7,
        b"registry.db",
        "a\0b",
        "oracle://scott@host/db",
        "nonsense://",
        "://",
        "postgresql+asyncpg://host/db",
        "mariadb+mariadbconnector://host/db",
        "postgresql://user:secret@host:port/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?uri=true",
        "sqlite://host/x.db",
        "sqlite:///x.db?mode=ro",
    ],
)
def test_bad_addresses(bad, store):
    with pytest.raises(tg.SettingError) as caught:
        store(bad)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("postgresql://h/d", "postgresql+psycopg://h/d"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d"),
        ("mariadb://h/d", "mariadb+pymysql://h/d"),
        ("mysql://h/d", "mariadb+pymysql://h/d"),
        ("mysql+pymysql://h/d", "mariadb+pymysql://h/d"),
        ("sqlite:////x/y.db", "sqlite+pysqlite:////x/y.db"),
        ("/x/y.db", "sqlite+pysqlite:////x/y.db"),
        (Path("/x/y.db"), "sqlite+pysqlite:////x/y.db"),
        ("y.db", f"sqlite+pysqlite:///{os.getcwd()}/y.db"),
        ("sqlite:///y.db", f"sqlite+pysqlite:///{os.getcwd()}/y.db"),
    ],
)
def test_good_addresses(given, taken):
    assert str(address(given)) == taken


def test_the_storage_of_snapshots(tmp_path):
    with Registry(tmp_path / "r.db") as registry:
        assert registry.storage == str(tmp_path / "r.db.snapshots")
    with Registry(tmp_path / "r.db", storage=tmp_path / "elsewhere") as registry:
        assert registry.storage == str(tmp_path / "elsewhere")


@pytest.mark.parametrize(("kind", "package"), [("postgresql", "psycopg"), ("mariadb", "pymysql")])
def test_a_missing_driver_is_named(monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tg.SettingError, match=rf"the package {package}: pip install tidegate\[{kind}\]"):
        Registry(f"{kind}://127.0.0.1:1/db")


# --- databases that cannot be opened --------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [Registry, NotificationStore])
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_an_unreachable_server(kind, store):
    with pytest.raises(tg.StoreError) as caught:
        store(f"{kind}://ann:secret@127.0.0.1:1/db")
    assert "refused" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fixture", SERVERS)
def test_a_database_that_is_not_there(fixture, request):
    url = request.getfixturevalue(fixture)()
    there = url.split("?")[0]
    with pytest.raises(tg.StoreError, match=r"[Nn]onexistent"):
        Registry(url.replace(there, there + "nonexistent"))


@pytest.mark.parametrize("store", [Registry, NotificationStore])
def test_files_that_are_no_database(tmp_path, store):
    other = tmp_path / "letter.txt"
    other.write_text("Dear Ann,\n" * 1000)
    with pytest.raises(tg.StoreError, match="file is not a database"):
        store(other)
    assert other.read_text() == "Dear Ann,\n" * 1000
    with pytest.raises(tg.StoreError, match="unable to open database file"):
        store(tmp_path)
    with pytest.raises(tg.StoreError, match="unable to open database file"):
        store(tmp_path / "no-such-directory" / "r.db")


@contextmanager
def unprivileged_directory():
    """A directory in which this process may not write, as long as this lasts."""
    place = Path(tempfile.mkdtemp(prefix="tidegate-"))
    is_root = os.geteuid() == 0
    try:
        yield place, (lambda: os.seteuid(65534)) if is_root else (lambda: None)
    finally:
        if is_root:
            os.seteuid(0)
        place.chmod(0o700)
        shutil.rmtree(place)


def test_a_directory_that_cannot_be_written():
    with unprivileged_directory() as (place, give_up_root):
        place.chmod(0o555)
        give_up_root()
        with pytest.raises(tg.StoreError, match="unable to open database file"):
            Registry(place / "r.db")


def test_a_file_that_cannot_be_written():
    with unprivileged_directory() as (place, give_up_root):
        with Registry(place / "r.db") as registry:
            registry.subscribe(SOME)
        (place / "r.db").chmod(0o444)
        place.chmod(0o777)
        give_up_root()
        with Registry(place / "r.db") as registry:
            assert registry.version == 1
            with pytest.raises(tg.StoreError, match="readonly database"):
                registry.unsubscribe("ann/s1")
            assert list(registry) == [SOME]


@pytest.mark.parametrize("store", [Registry, NotificationStore])
def test_a_schema_of_a_newer_program(url, database, store):
    store(url).close()
    database.write(lambda c: c.execute(text("UPDATE tidegate_schema_version SET version = 99")))
    with pytest.raises(tg.StoreError, match=r"schema version \d or older; got version 99, made by a newer Tidegate"):
        store(url)


def test_store_errors_cross_processes():
    error = tg.StoreError("a database that answers", "none", "x.db")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), type(copy)) == (str(error), tg.StoreError)
    assert isinstance(copy, OSError)


# --- schemas --------------------------------------------------------------------------------------------------------


THINGS = Table("things", MetaData(), Column("number", NUMBER, primary_key=True, autoincrement=False))


@pytest.mark.contract
def test_a_schema_is_brought_up_to_date_step_by_step(url, database):
    def first(connection):
        THINGS.create(connection, checkfirst=True)
        connection.execute(insert(THINGS), [{"number": 1}])

    def second(connection):
        connection.execute(update(THINGS).values(number=THINGS.c.number + 1))

    def numbers() -> list[int]:
        with database.read() as connection:
            return list(connection.scalars(select(THINGS.c.number)))

    for steps, expected in (((first,), [1]), ((first,), [1]), ((first, second), [2]), ((first, second), [2])):
        SchemaPart("things", steps).prepare(database)
        assert numbers() == expected
    SchemaPart("other things", (lambda connection: None,)).prepare(database)
    with pytest.raises(tg.StoreError):
        SchemaPart("things", (first,)).prepare(database)


@pytest.mark.contract
def test_many_may_open_a_new_database_at_once(url):
    def opens():
        with Registry(url) as registry, NotificationStore(url) as store:
            registry.needs("q", registry.version)
            assert len(store) == 0

    at_once(opens)


# --- threads, locks, lost connections -------------------------------------------------------------------------------


@pytest.mark.contract
def test_only_one_holds_a_lock(url, database):
    order = []

    def waits():
        with closing(Database(address(url), nothing)) as other, other.exclusive("shelf"):
            order.append("other")

    with database.exclusive("shelf"):
        waiting = threading.Thread(target=waits)
        waiting.start()
        with database.exclusive("another"):
            order.append("mine")
        waiting.join(0.3)
        assert waiting.is_alive()
        order.append("still mine")
    waiting.join()
    assert order == ["mine", "still mine", "other"]


@pytest.mark.contract
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_keep_a_lock(url, database):
    with database.exclusive("shelf"):
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
    try:
        with closing(Database(address(url), nothing)) as other, other.exclusive("shelf"):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lock_beside_a_file_that_is_nowhere(tmp_path):
    database = Database(address(tmp_path / "gone" / "x.db"), nothing)
    with pytest.raises(tg.StoreError, match="No such file or directory"), database.exclusive("shelf"):
        pass


@pytest.mark.parametrize("fixture", SERVERS)
def test_the_victim_of_a_deadlock_tries_again(fixture, request):
    url = address(request.getfixturevalue(fixture)())
    meeting = threading.Barrier(2, timeout=60)
    tries = []
    with closing(Database(url, nothing)) as database:
        database.write(lambda c: THINGS.create(c))
        database.write(lambda c: c.execute(insert(THINGS), [{"number": 1}, {"number": 2}]))

        def touch(first: int, second: int) -> None:
            def work(connection):
                tries.append(first)
                for number in (first, second):
                    connection.execute(select(THINGS).where(THINGS.c.number == number).with_for_update()).all()
                    if number == first and tries.count(first) == 1:
                        meeting.wait()

            database.write(work)

        pairs = [(1, 2), (2, 1)]
        at_once(lambda: touch(*pairs.pop()), threads=2)
    assert sorted(set(tries)) == [1, 2]
    assert 3 <= len(tries) <= 4, "one was undone and came through later, at worst after the other was undone, too"


@pytest.mark.parametrize("fixture", SERVERS)
def test_a_lost_connection_is_made_again(fixture, request):
    url = request.getfixturevalue(fixture)()
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name"
        if fixture == "postgres"
        else "SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND db = :name"
    )
    with Registry(url) as registry, closing(Database(address(url), nothing)) as killer:
        registry.subscribe(SOME)
        assert (registry.version, len(registry)) == (1, 1)
        with killer.read() as connection:
            found = connection.execute(text(others), {"name": address(url).database}).scalars().all()
            for victim in found if fixture == "mariadb" else ():
                connection.execute(text(f"KILL {victim}"))
        assert len(found) >= 2
        assert (registry.version, len(registry)) == (1, 1)
        assert registry.unsubscribe("ann/s1") == 2 == registry.version


@pytest.mark.contract
def test_a_server_that_has_gone_is_one_sentence(monkeypatch, url):
    with Registry(url) as registry:
        assert registry.version == 0
        monkeypatch.setattr("tidegate.store.registry._VERSION", "SELECT version FROM nowhere")
        with pytest.raises(tg.StoreError, match=r"a database that answers; got .*nowhere"):
            _ = registry.version
        monkeypatch.undo()
        assert registry.version == 0


def test_a_file_that_stays_locked(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.store.database._PATIENCE", 0.1)
    with Registry(tmp_path / "r.db") as registry, closing(sqlite3.connect(tmp_path / "r.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(tg.StoreError, match="database is locked"):
            registry.subscribe(SOME)
        assert registry.version == 0  # readers go on
        other.rollback()
        assert registry.subscribe(SOME) == 1


def test_names_have_different_keys():
    names = [f"s{i}" for i in range(10_000)]
    keys = {key(name) for name in names}
    assert len(keys) == len(names)
    assert all(-(2**63) <= number < 2**63 for number in keys)
    assert key("s1") == -8529457217068652204  # it is stored: it may never change


# --- forks ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_file_in_use_cannot_be_opened_by_a_child(tmp_path):
    with Registry(tmp_path / "r.db") as registry, Registry(tmp_path / "other.db") as other:
        registry.subscribe(SOME, tg.Subscription("s2", "ann", "a > 2"))
        reading = iter(registry)
        next(reading)
        child = os.fork()
        if not child:
            outcome = 1
            try:
                for ask in (lambda: registry.version, lambda: Registry(tmp_path / "r.db")):
                    try:
                        ask()
                    except tg.StoreError as error:
                        outcome = 0 if "forked" in str(error) and other.version == 0 else 2
            finally:
                os._exit(outcome)
        assert os.waitpid(child, 0)[1] == 0
        assert [s.id for s in reading] == ["s2"]
        assert registry.version == 2


def test_importing_the_store_does_not_import_its_databases():
    script = "import sys, tidegate.store; print('sqlalchemy' in sys.modules); tidegate.store.Registry; "
    script += "print('sqlalchemy' in sys.modules); tidegate.store.Nonsense"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True"]
    assert done.stderr.endswith("has no attribute 'Nonsense'\n")
