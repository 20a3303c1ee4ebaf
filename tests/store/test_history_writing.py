"""The history of events on all three databases: what was acknowledged stays, once; the rest is forgotten or refused."""

from __future__ import annotations

import orjson
import pytest
from sqlalchemy import text

import tidegate as tg
from tests.store.remembered_events import end, first, heard, refusal, replayed
from tidegate.model import moment
from tidegate.records.record import publication
from tidegate.records.tables import table
from tidegate.store import History, history_writes
from tidegate.store.history import RefusedEvent, ReplayedPublication

# --- what is remembered ---------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_what_is_remembered_is_replayed(history, url):
    assert (history.last, len(history), replayed(history)) == (0, 0, [])
    begun = [first(1), first(2, "a", "START"), first(3, "b", "INSTANT"), first(5, "c", "START")]
    history.remember(begun[:3], [], [])
    history.remember(begun[3:], [end(4, 2), end(6, 5, end=5_500_000)], [])
    expected = [
        *map(heard, begun[:3]),
        ReplayedPublication(4, 2, "a", "z7", "END", 4_000_000, None, 4_000_000, '{"m":4}'),
        heard(begun[3]),
        ReplayedPublication(6, 5, "c", "z7", "END", 6_000_000, None, 5_500_000, '{"m":6}'),
    ]
    for size in (1, 2, 3, 5, 6, 7, 50_000):
        assert replayed(history, size) == expected
    assert (history.last, len(history)) == (6, 4)
    history.close()
    with History(url) as other:
        assert (other.last, len(other), replayed(other)) == (6, 4, expected)


def test_nothing_at_all_is_no_change(history, url):
    history.remember([], [], [])
    history.retire([])
    with History(url) as other:
        other.claim()  # which nobody had


@pytest.mark.contract
def test_any_id_and_source(history):
    names = [
        "a",
        "A",
        "a ",
        "é",
        "e\u0301",
        "😀",
        "\0",
        "a\0b",
        "\x01",
        "\x010",
        "\x011\x01",
        "%s",
        "?",
        ":1",
        "'",
        "x" * 1024,
    ]
    names += ["\0" * 1024, "x" * 1023 + "y", "\U0010ffff" * 1024]
    begun = [first(i, name, source=name[::-1]) for i, name in enumerate(names, 1)]
    history.remember(begun, [], [RefusedEvent("other start", name, None, 0, "{}") for name in names])
    assert replayed(history) == [heard(one) for one in begun]
    for one in begun:
        found = history.event(one.id)
        assert (found.seq, found.id, found.source) == (one.seq, one.id, one.source)
    assert [one.id for one in history.refused()] == names[::-1]
    assert history.event("nobody") is history.event("\ud800") is None


@pytest.mark.contract
def test_large_bodies_and_numbers(history):
    body = '{"text":"%s"}' % ("é%s?" * 1_000_000)
    begun = [first(1, body=body, time=-(2**55), start=-(2**55), end=2**57), first(2**62, time=0, start=0, end=0)]
    history.remember(begun, [], [])
    assert replayed(history, 1) == [heard(one) for one in begun]
    assert history.last == 2**62


@pytest.mark.contract
def test_many_at_once(history):
    count = 12_000
    begun = [first(i, phase="START" if i % 3 == 0 else None) for i in range(1, count + 1)]
    ends = [end(count + 1 + k, i) for k, i in enumerate(range(3, count + 1, 3))]
    history.remember(begun, ends, [refusal(i) for i in range(1, 12_001)])
    assert [one.seq for one in replayed(history, 1000)] == list(range(1, count + len(ends) + 1))
    assert len(history) == count


# --- repeated -------------------------------------------------------------------------------------------------------


def test_the_same_again_is_not_written_again(history, url):
    call = [first(1), first(2, "a", "START")], [end(3, 2)], [refusal(9)]
    history.remember(*call)
    history.remember(*call)
    assert history.refused_counts() == {"second start": 1}
    history.close()
    with History(url) as other:
        other.remember(*call)
        assert (len(other), other.last, len(replayed(other)), other.refused_counts()) == (2, 3, 3, {"second start": 1})
        other.remember([*call[0], first(4)], call[1], [])  # and something new
        assert (len(other), other.last) == (3, 4)
        assert other.forget(1) == 1
        other.remember(call[0][:1], [], [])  # stays forgotten
        assert len(other) == 2


def test_another_event_under_an_old_number_is_an_error(history):
    history.remember([first(1), first(2)], [], [])
    with pytest.raises(tg.StoreError, match="expected event 'e2' as number 2, as before; got 'other'"):
        history.remember([first(2, "other"), first(3)], [], [])
    assert history.last == 2
    history.remember([first(3)], [], [])


@pytest.mark.contract
def test_a_call_that_fails_leaves_nothing(history):
    history.remember([first(1, "a", "START")], [end(2, 1)], [])
    for bad in (
        lambda: history.remember([first(3), first(3)], [], [refusal(1)]),
        lambda: history.remember([first(3)], [end(4, 1)], [refusal(1)]),  # ended already
        lambda: history.remember([first(3, body=None)], [], [refusal(1)]),
    ):
        with pytest.raises(tg.StoreError):
            bad()
        assert (history.last, len(history), history.refused_counts(), history.refused()) == (2, 1, {}, [])
    history.remember([first(3)], [], [])
    assert history.last == 3


# --- forgetting -----------------------------------------------------------------------------------------------------


def test_events_that_have_ended_are_forgotten_as_a_whole(history):
    begun = [first(1), first(2, "a", "START"), first(3, "b", "START"), first(4, "c", "START"), first(7)]
    history.remember(begun, [end(5, 2), end(6, 4)], [])
    assert history.forget(0) == 0
    assert history.forget(4) == 1
    assert [one.seq for one in replayed(history)] == [2, 3, 4, 5, 6, 7]
    assert history.forget(5) == 1
    assert [one.seq for one in replayed(history)] == [3, 4, 6, 7]
    assert history.forget(100) == 2
    assert [one.seq for one in replayed(history)] == [3]
    assert (history.last, len(history), history.event("a")) == (7, 1, None)
    history.remember([], [end(8, 3)], [])
    assert history.forget(100) == 1
    assert (history.last, len(history), replayed(history)) == (8, 0, [])
    with history._database.read() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM tidegate_ends")).scalar() == 0


# --- refused --------------------------------------------------------------------------------------------------------


def test_refused_are_counted_for_ever_and_the_newest_kept(history, monkeypatch):
    monkeypatch.setattr(history_writes, "REFUSED", 5)
    history.remember([], [], [refusal(i) for i in range(3)])
    history.remember([], [], [refusal(3, "end without start")])
    assert [one.id for one in history.refused()] == ["e3", "e2", "e1", "e0"]
    assert [one.id for one in history.refused(2)] == ["e3", "e2"]
    history.remember([first(1)], [], [refusal(i) for i in range(4, 11)])
    assert history.refused() == [refusal(i) for i in range(10, 5, -1)]
    history.remember([], [], [refusal(11, "Second start")])
    assert history.refused() == [refusal(11, "Second start"), *(refusal(i) for i in range(10, 6, -1))]
    assert history.refused_counts() == {"second start": 10, "Second start": 1, "end without start": 1}
    assert history.refused(0) == []


def test_what_an_engine_refuses_is_kept_whole(tmp_path):
    """With its source, start and end, which have no columns; from objects as from a table."""
    ended = tg.Publication("a", "z7", moment(5), {"n": 1}, start=moment(3), end=moment(4), phase="END")
    plain = tg.Publication("b", "z7", moment(6), {"n": 2})
    for i, batch in enumerate(([ended, plain], table([ended, plain]))):
        with History(tmp_path / f"{i}.db") as history:
            engine = tg.Engine(history=history)
            engine.subscribe(tg.Subscription("s", "ann", "t_after(time, past(n > 0))"))
            engine.publish(batch)
            [refused] = history.refused()
            assert refused[:4] == ("end without start", "a", "END", 5)
            assert publication(orjson.loads(refused.body), "") == ended
            assert [one.id for one in history.events()] == ["b"]
            assert "source" not in history.event("b").body
