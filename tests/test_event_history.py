"""Between an engine and its history: nothing is told that is not durable, nothing durable is lost, what left memory is
still known.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

import tidegate as tg
from tidegate.engine.pattern_shards import PatternShards

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def publication(id: str, second: float, phase: str | None = None, **attributes) -> tg.Publication:
    return tg.Publication(id, "z1", NOON + timedelta(seconds=second), attributes, phase=phase)


def subscription(where: str, id: str = "s") -> tg.Subscription:
    return tg.Subscription(id, "ann", where)


AFTER = subscription("n = 0 AND T_AFTER(start, past(n > 0, 'PT10S'))")


def told(engine: tg.Engine, *publications: tg.Publication) -> list[str]:
    return [n.publications[0] for p in publications for n in engine.publish([p])]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "events.db"


def test_an_engine_that_did_nothing_forgets_nothing(place):
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        assert told(engine, publication("a", 0, n=1)) == []
    for _ in range(2):
        with tg.History(place) as history, tg.Engine([AFTER], history=history):
            assert len(history) == 1
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        assert told(engine, publication("b", 5, n=0)) == ["b"]


def test_whoever_comes_after_the_last_one_left_finds_the_history(place):
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        told(engine, publication("a", 0, n=1))
        engine.unsubscribe("s")
        told(engine, publication("b", 1, n=1))  # nobody wants it
        engine.subscribe(AFTER)
        assert told(engine, publication("c", 10, n=0), publication("d", 11, n=0)) == ["c"]
        assert [event.id for event in history.events()] == ["a"]


def test_numbers_go_on(place):
    for round in range(3):
        with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
            told(engine, publication(f"a{round}", round, n=1), publication(f"w{round}", round, "START"))
            assert history.last == 2 * round + 2


@pytest.mark.parametrize("memory", [1, 2, 50])
def test_what_left_memory_is_known_to_the_history(place, memory):
    wide = subscription("T_EQUALS(when, past(n > 0))")
    with tg.History(place, memory=memory) as history, tg.Engine([wide], history=history) as engine:
        for second in range(100):
            told(engine, publication(f"a{second}", second, n=1))
        past = engine._stage._past
        assert len(past.asked.lists.used) == 2
        kept = past.asked.lists.used[0, 2] - past.asked.lists.used[0, 3]
        assert memory <= kept <= 2 * memory
        for second in (0, 50, 99):
            assert told(engine, publication(f"b{second}", 200, when=NOON + timedelta(seconds=second)))
        assert not told(engine, publication("c", 200, when=NOON + timedelta(seconds=50.5)))


def test_nothing_is_told_that_could_not_be_written(place, monkeypatch):
    history = tg.History(place)
    engine = tg.Engine([AFTER, subscription("n > 0", "plain")], history=history)
    told(engine, publication("a", 0, n=1))

    def full(*_):
        raise tg.StoreError("room", "a full disk", "the history")

    with monkeypatch.context() as patch:
        patch.setattr(history, "remember", full)
        with pytest.raises(tg.StoreError, match="a full disk"):
            engine.publish([publication("b", 1, n=1)])
    with pytest.raises(tg.StoreError, match="an engine whose history is whole"):  # memory is ahead of the history
        engine.publish([publication("c", 2, n=0)])
    engine.close()
    history.close()
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        assert told(engine, publication("c", 10.5, n=0)) == []  # a is too old, and b was never remembered


def test_it_is_durable_before_it_is_told(place, monkeypatch):
    """When anything is returned another process can read what was remembered."""
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        told(engine, publication("a", 0, n=1))
        seen: list[int] = []
        write = PatternShards._write

        def watched(self, *args):
            with tg.History(place) as other:
                before = len(other)
            write(self, *args)
            with tg.History(place) as other:
                seen.append(len(other) - before)

        monkeypatch.setattr(PatternShards, "_write", watched)
        assert told(engine, publication("b", 1, "INSTANT", n=0), publication("c", 2, n=1)) == ["b"]
        assert seen == [0, 1]


def test_refused_ones_are_in_the_history_and_counted_over_restarts(place):
    for count in (1, 2):
        with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
            assert told(engine, publication("w", count, "END", n=0)) == []
            assert engine.refused == history.refused_counts() == {"end without start": count}
            assert history.refused(1)[0].id == "w"


def test_tables_and_objects_are_remembered_alike(place, tmp_path):
    from tidegate.testing import as_table

    stream = [publication("w", 0, "START", n=1, tags=["a", "b"]), publication("x", 1, "INSTANT", n=2, name="é"),
              publication("w", 3, "END", n=3), publication("y", 4, n=4)]  # fmt: skip
    rows = []
    for place_, publish in ((place, list), (tmp_path / "other.db", as_table)):
        with tg.History(place_) as history, tg.Engine([AFTER], history=history) as engine:
            engine.publish(publish(stream))
            rows.append(history.events())
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3


def test_wrong_settings(place):
    with tg.History(place) as history:
        with pytest.raises(tg.SettingError, match="no lateness for an engine with a history"):
            tg.Engine(lateness=timedelta(seconds=1), history=history)
        with pytest.raises(tg.SettingError, match="a timedelta above 0 as keep"):
            tg.Engine(keep=timedelta(0), history=history)


def test_a_second_engine_is_told_at_once(place):
    with (
        tg.History(place) as history,
        tg.Engine([AFTER], history=history),
        tg.History(place) as other,
        pytest.raises(tg.StoreError, match="nobody else writes"),
    ):
        tg.Engine([AFTER], history=other)


def test_most_forgets_exactly_and_the_database_shrinks(place):
    with tg.History(place, most=5) as history, tg.Engine([AFTER], history=history) as engine:
        for second in range(20):
            told(engine, publication(f"a{second}", second / 10, n=1))
        assert told(engine, publication("b", 2, n=0)) == ["b"]
        assert told(engine, publication("c", 11.6, n=0)) == ["c"]  # a16 and later are as old as that at most
        for second in range(20, 24):
            told(engine, publication(f"w{second}", 11.6, "START"))
        assert told(engine, publication("d", 11.7, n=0)) == ["d"]  # a19 is the last one left
        told(engine, publication("w24", 11.7, "START"))
        assert told(engine, publication("e", 11.7, n=0)) == []
    with tg.History(place, most=5) as history:
        assert sorted(event.id for event in history.events()) == ["w20", "w21", "w22", "w23", "w24"]


def test_other_patterns_do_not_disturb_the_recalling(place):
    best = subscription("topk(1, 'PT1H', n)", "best")  # wants publications that no past does
    with tg.History(place) as history, tg.Engine([AFTER, best], history=history) as engine:
        for second in range(10):
            told(engine, publication(f"a{second}", second, n=second % 3))
    with tg.History(place) as history, tg.Engine([AFTER, best], history=history) as engine:
        # both are the best when they come; only b is near enough to a8
        assert told(engine, publication("b", 10, n=0), publication("c", 19, n=0)) == ["b", "b", "c"]


def test_a_history_is_read_when_the_engine_is_made(place):
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        told(engine, publication("a", 0, n=1))
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        assert engine._stage._past.knows_any


def test_an_engine_whose_history_cannot_be_read_stops(place, monkeypatch):
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        told(engine, publication("a", 0, n=1))
        engine.subscribe(subscription("T_BEFORE(start, past(n > 5))", "other"))

        def lost(*_):
            raise tg.StoreError("a database", "a lost connection", "the history")

        monkeypatch.setattr(history, "replay", lost)
        for match in ("a lost connection", "an engine whose history is whole"):
            with pytest.raises(tg.StoreError, match=match):
                told(engine, publication("b", 1, n=0))


def test_a_snapshot_goes_on_with_a_history(place, tmp_path):
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        told(engine, publication("a", 0, n=1))
        engine.save(tmp_path / "snapshot")
    with tg.History(place) as history, tg.Engine.load(tmp_path / "snapshot", history=history) as engine:
        assert told(engine, publication("b", 5, n=0)) == ["b"]


def test_a_history_serves_one_engine_and_none_after_it_was_closed(place):
    history = tg.History(place)
    engine = tg.Engine([AFTER], history=history)
    with pytest.raises(tg.StoreError, match="one that an engine has open"):
        tg.Engine([AFTER], history=history)
    told(engine, publication("w", 0, "START", n=1))
    history.close()
    with tg.History(place) as other, tg.Engine([AFTER], history=other) as another:
        told(another, publication("x", 1, n=1))
    with pytest.raises(tg.StoreError, match="a history that is open; got one that was closed"):
        told(engine, publication("w", 2, "END"))
    engine.close()
    with tg.Engine([AFTER], history=history) as again:
        assert told(again, publication("b", 5, n=0)) == ["b"]
        assert [event.id for event in history.events(running=True)] == ["w"]
    with tg.Engine([AFTER], history=history):  # one after the other may have it
        pass
    history.close()


def test_whatever_comes_between_memory_and_history_stops_the_engine(place, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(history, "remember", interrupted)
            with pytest.raises(KeyboardInterrupt):
                told(engine, publication("a", 0, n=1))
        with pytest.raises(tg.StoreError, match="KeyboardInterrupt"):
            told(engine, publication("b", 1, n=0))


def test_a_snapshot_leaves_what_is_remembered_to_the_history(place, tmp_path):
    with tg.History(place, memory=1) as history, tg.Engine([AFTER], history=history) as engine:
        for second in range(9):
            told(engine, publication(f"a{second}", second, n=1))
        engine.save(tmp_path / "snapshot")
    with tg.Engine.load(tmp_path / "snapshot") as engine:  # without the history it begins anew
        assert told(engine, publication("b", 9, n=0)) == []
        assert told(engine, publication("c", 10, n=1), publication("d", 11, n=0)) == ["d"]


@pytest.mark.parametrize("history", ["events.db", 5, tg.History])
def test_what_is_no_history(history):
    with pytest.raises(tg.SettingError, match=r"expected a tg\.History; got"):
        tg.Engine(history=history)


def test_forever(place):
    history = tg.History(place, most=2**70, memory=2**70)
    with history, tg.Engine([AFTER], history=history, keep=timedelta.max) as engine:
        assert told(engine, publication("a", 0, n=1), publication("b", 1, n=0)) == ["b"]


@pytest.mark.parametrize("damage", ["body = '[1'", "body = '{\"attributes\": 5}'", "phase = 'SOON'"])
def test_a_damaged_history_is_said_to_be(place, damage):
    with tg.History(place) as history, tg.Engine([AFTER], history=history) as engine:
        told(engine, publication("a", 0, n=1))
    with sqlite3.connect(place) as connection:
        connection.execute(f"UPDATE tidegate_events SET {damage}")
    connection.close()
    with tg.History(place) as history, pytest.raises(tg.StoreError, match="a history that is whole"):
        tg.Engine([AFTER], history=history)
