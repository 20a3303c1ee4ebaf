"""Which versions of a registry are needed, by whom, and what goes when nobody needs it any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import tidegate as tg
from tidegate.store import Registry


@pytest.fixture
def registry(url):
    with Registry(url) as registry:
        yield registry


def made(*ids: str, subscriber: str = "ann") -> list[tg.Subscription]:
    return [tg.Subscription(id, subscriber, "a > 1") for id in ids]


def test_the_first_pin_decides(registry, url):
    registry.subscribe(*made("s1", "s2"))
    assert registry.pin("q", 0) == 2
    registry.subscribe(*made("s3"))
    with Registry(url) as other:
        assert other.pin("q", 0) == other.pin("q", 0, 1) == registry.pin("q", 0) == 2
        assert other.pin("q", 1) == 3
        assert registry.pin("r", 0, 1) == 1 == other.pin("r", 0)
    registry.subscribe(*made("s4"))
    assert registry.pin("q", 3) == 4  # drops batch 0
    assert registry.pin("q", 1) == 3
    assert registry.pin("q", 0) == 4


def test_needs_never_go_back(registry):
    registry.subscribe(*made("s1", "s2", "s3"))
    assert registry.oldest_needed() == 3
    registry.needs("q", 2)
    registry.needs("q", 1)
    assert registry.oldest_needed() == 2
    registry.needs("r", 1)
    registry.needs("r ", 0)  # another name
    assert registry.oldest_needed() == 0
    before = datetime.now(UTC)
    assert [(r.query, r.needs) for r in registry.readers()] == [("q", 2), ("r", 1), ("r ", 0)]
    assert all(abs(r.seen_at - before) < timedelta(minutes=1) for r in registry.readers())
    registry.needs("r", 3)
    registry.forget("r ")
    registry.forget("never heard of")
    assert registry.oldest_needed() == 2
    registry.pin("p", 7, 1)
    assert registry.oldest_needed() == 1
    assert [(r.query, r.needs) for r in registry.readers()] == [("p", 1), ("q", 2), ("r", 3)]
    registry.forget("p")
    registry.forget("q")
    registry.forget("r")
    assert (registry.oldest_needed(), registry.readers()) == (3, [])


def test_a_query_is_seen_again(registry, monkeypatch):
    monkeypatch.setattr("tidegate.store.version_readers._SEEN", 0)
    registry.needs("q", 2)
    first = registry.readers()[0].seen_at
    registry.needs("q", 1)
    assert registry.readers()[0].seen_at >= first
    assert registry.readers()[0].needs == 2


def test_prune_leaves_what_is_needed(registry):
    registry.subscribe(*made("s1", "s2", "s3"))
    registry.unsubscribe("ann/s1", "ann/s2")
    registry.needs("q", 4)
    assert registry.prune() == 1
    assert [r.id for r in registry.rows(0, 5)] == ["s2", "s3"]
    assert registry.oldest_kept == 4
    assert registry.prune() == 0
    registry.forget("q")
    assert registry.prune() == 1
    assert [r.id for r in registry.rows(0, 5)] == ["s3"]
    assert registry.oldest_kept == 5
    registry.needs("late", 2)  # too late: those versions are gone
    assert registry.prune() == 0
    assert registry.oldest_kept == 5


def test_bad_names_and_numbers(tmp_path):
    with Registry(tmp_path / "r.db") as registry:
        asks = [
            lambda bad: registry.pin(bad, 0),
            lambda bad: registry.needs(bad, 0),
            lambda bad: registry.forget(bad),
        ]
        for ask in asks:
            for bad in ("", "x" * 256, "a\0", "\ud800", None, 3):
                with pytest.raises(tg.SettingError):
                    ask(bad)
        asks = [
            lambda bad: registry.pin("q", bad),
            lambda bad: registry.pin("q", 0, -1 if bad is None else bad),
            lambda bad: registry.needs("q", bad),
        ]
        for ask in asks:
            for bad in (-1, 2**63, 1.0, "1", True, None):
                with pytest.raises(tg.SettingError):
                    ask(bad)
        assert registry.readers() == []
