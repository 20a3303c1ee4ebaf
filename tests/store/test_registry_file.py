"""The file of a registry: it vanishes, is replaced, stays locked. One sentence each, and nothing is lost."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing

import pytest

import tidegate as tg
from tidegate.store import Registry, database


@pytest.mark.parametrize("other", [False, True])
def test_a_file_that_vanishes_or_is_replaced_while_it_is_open_is_noticed(tmp_path, other):
    """SQLite would go on with the file that has no name any more, or make a new one."""
    path = tmp_path / "registry.db"
    with Registry(path) as registry:
        registry.subscribe(tg.Subscription("s1", "ann", "x > 1"))
        assert registry.version == 1
        path.rename(tmp_path / "kept.db")
        if other:
            with Registry(path) as another:
                another.subscribe(tg.Subscription("s2", "bob", "x > 2"))
        got = "another one in its place" if other else "none any more"
        asked = [
            lambda: registry.version,
            lambda: list(registry),
            lambda: registry.subscribe(tg.Subscription("s3", "ann", "x > 3")),
            lambda: registry.needs("query", 1),
        ]
        for ask in asked:
            with pytest.raises(tg.StoreError, match=f"the file of the database that was opened; got {got}; at {path}"):
                ask()
        assert path.exists() is other
        if not other:
            (tmp_path / "kept.db").rename(path)
            assert [s.id for s in registry] == ["s1"]  # it is back, and nothing is lost


def test_a_process_that_comes_later_makes_no_new_file(tmp_path):
    path = tmp_path / "registry.db"
    with Registry(path) as registry:
        pickled = pickle.dumps(registry)
    path.unlink()
    with pytest.raises(tg.StoreError, match=f"the file of a database; got none; at {path}"):
        pickle.loads(pickled).version  # noqa: B018
    with pytest.raises(tg.StoreError, match=f"the file of a database; got none; at {path}"):
        Registry(path, create=False)
    assert not path.exists()


def test_publications_stamped_by_a_later_registry_are_not_matched_with_an_older_one(tmp_path):
    with Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(tg.Subscription("s1", "ann", "x > 1"))
        with pytest.raises(tg.StoreError, match=r"a registry at version 7 or later, .*; got one at 1"):
            registry.prepare(5, 7)


def test_a_registry_that_stays_locked_is_told_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_PATIENCE", 0.05)
    path = tmp_path / "registry.db"
    Registry(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as locking, Registry(path) as registry:
        locking.execute("BEGIN IMMEDIATE")
        with pytest.raises(tg.StoreError, match=r"a database that answers; got database is locked; at .*registry.db"):
            registry.subscribe(tg.Subscription("s1", "ann", "x > 1"))
        assert registry.version == 0  # those who read do not wait
        locking.execute("ROLLBACK")
        assert registry.subscribe(tg.Subscription("s1", "ann", "x > 1")) == 1
