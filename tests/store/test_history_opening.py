"""Opening a history: what is refused, what an older one is brought up to, and what the disk can do to it."""

from __future__ import annotations

import pickle
import sqlite3
import time
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import text

import tidegate as tg
from tests.store.remembered_events import first, replayed
from tidegate.store import History, NotificationStore, Registry, history_tables
from tidegate.store.database import Database
from tidegate.store.database_url import address


@pytest.mark.parametrize(
    "bad",
    ["", None, 7, b"h.db", "a\0b", "nonsense://", "postgresql+asyncpg://h/d", "oracle+cx_oracle://h/d", "sqlite://"],
)
def test_bad_addresses(bad):
    with pytest.raises(tg.SettingError, match="the address of a database"):
        History(bad)


def test_oracle_is_for_histories_alone():
    assert str(address("oracle://scott@host/db", oracle=True)) == "oracle+oracledb://scott@host/db"
    with pytest.raises(tg.SettingError, match="oracle"):
        address("oracle://scott@host/db")


@pytest.mark.parametrize("keep", [0, 7.5, "P1D", timedelta(), timedelta(seconds=-1)])
def test_bad_ages(tmp_path, keep):
    with pytest.raises(tg.SettingError, match="a positive timedelta as keep, or None"):
        History(tmp_path / "h.db", keep=keep)
    assert not (tmp_path / "h.db").exists()


@pytest.mark.parametrize("most", [0, -1, 7.5, True, "10"])
def test_bad_numbers(tmp_path, most):
    for name in ("most", "memory"):
        with pytest.raises(tg.SettingError, match=f"a positive number as {name}, or None"):
            History(tmp_path / "h.db", **{name: most})


def test_bad_arguments(tmp_path):
    with History(tmp_path / "h.db") as history:
        for bad in (
            lambda: history.replay(0),
            lambda: history.replay("all"),
            lambda: history.forget(-1),
            lambda: history.forget(2**63),
            lambda: history.events(-1),
            lambda: history.events(before="now"),
            lambda: history.refused(1.5),
            lambda: history.event(7),
            lambda: history.event("a", 7),
        ):
            with pytest.raises(tg.SettingError):
                bad()


def test_an_unreachable_server_is_said_at_once():
    for kind in ("postgresql", "mariadb"):
        began = time.monotonic()
        with pytest.raises(tg.StoreError, match="refused") as caught:
            History(f"{kind}://ann:secret@127.0.0.1:1/db")
        assert "secret" not in str(caught.value)
        assert time.monotonic() - began < 5


def test_a_history_knows_its_settings(url):
    with History(url, keep=timedelta(days=1), most=10, memory=5) as history:
        assert (history.keep, history.most, history.memory) == (timedelta(days=1), 10, 5)
        history.remember([first(1)], [], [])
        copy = pickle.loads(pickle.dumps(history))
        with copy:
            assert (copy.keep, copy.most, copy.memory) == (timedelta(days=1), 10, 5)
            assert (copy.url, len(copy)) == (history.url, 1)
        assert repr(history) == f"History({history.url!r})"


def test_a_password_is_not_shown():
    history = History.__new__(History)
    history.__setstate__({"url": "postgresql://ann:secret@h/d", "keep": None, "most": None, "memory": None})
    assert "secret" not in history.url + repr(history)
    assert "ann" in history.url


def test_a_newer_history(url, tmp_path):
    History(url).close()
    with closing(Database(address(url), lambda database: None)) as database:
        database.write(lambda c: c.execute(text("UPDATE tidegate_schema_version SET version = 99")))
    with pytest.raises(tg.StoreError, match="a history of schema version 3 or older; got version 99"):
        History(url)


def test_a_history_is_brought_up_to_date(url, monkeypatch):
    with History(url) as history:
        history.remember([first(1)], [], [])
    monkeypatch.setattr(
        history_tables,
        "PART",
        history_tables.SchemaPart(
            "history", (*history_tables.PART.steps, lambda c: c.execute(text("UPDATE tidegate_history SET last = 7")))
        ),
    )
    with History(url) as history:
        assert (history.last, len(history)) == (7, 1)
    with History(url) as history:
        history.remember([first(8)], [], [])
        assert history.last == 8


def test_a_history_whose_making_was_cut_short(url, monkeypatch):
    """As MariaDB leaves it, which commits each table."""
    with closing(Database(address(url), lambda database: None)) as database:
        database.write(
            lambda c: history_tables.TABLES.create_all(c, tables=[history_tables.EVENTS, history_tables.STATE])
        )
    with History(url) as history:
        history.remember([first(1)], [], [])
        assert len(history) == 1


@pytest.mark.contract
def test_all_parts_share_a_database(url):
    with Registry(url) as registry, NotificationStore(url) as store, History(url) as history:
        history.remember([first(1)], [], [])
        assert (len(registry), len(store), len(history)) == (0, 0, 1)


def test_a_history_that_lost_its_row(url):
    with History(url) as history:
        history._database.write(lambda c: c.execute(text("DELETE FROM tidegate_history")))
        with pytest.raises(tg.StoreError, match="tidegate_history is empty"):
            history.claim()


def test_a_full_disk_is_one_sentence(tmp_path):
    with History(tmp_path / "h.db") as history:
        history.remember([first(1)], [], [])
        with history._database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
        with pytest.raises(tg.StoreError, match="full"):
            history.remember([first(seq, body="x" * 100_000) for seq in range(2, 50)], [], [])
        assert [one.seq for one in replayed(history)] == [1]
        history.remember([first(2)], [], [])


def test_a_directory_without_room_for_a_lock(tmp_path):
    with History(tmp_path / "h.db") as history:
        (tmp_path / "h.db-history.lock").mkdir()
        with pytest.raises(tg.StoreError, match="a directory in which files can be made; got Is a directory"):
            history.claim()


def test_a_link_to_the_file_is_the_same_history(tmp_path):
    History(tmp_path / "h.db").close()
    (tmp_path / "link.db").symlink_to(tmp_path / "h.db")
    with History(tmp_path / "h.db") as one, History(tmp_path / "link.db") as other:
        one.claim()
        with pytest.raises(tg.StoreError, match="nobody else writes to"):
            other.claim()


def test_commits_reach_the_disk(tmp_path):
    with History(tmp_path / "h.db") as history, history._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_an_id_is_found_by_its_index(tmp_path):
    with History(tmp_path / "h.db") as history:
        history.remember([first(1)], [], [])
    with closing(sqlite3.connect(tmp_path / "h.db")) as database:
        plan = database.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM tidegate_events WHERE id_part = 3 AND id_key = 7 ORDER BY seq DESC"
        ).fetchall()
    assert "USING INDEX tidegate_events_id (id_part=?)" in plan[0][3]
