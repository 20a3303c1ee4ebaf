"""What people ask a history of events, and the elders that an engine looks up in it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.store.remembered_events import KEY, LEAST, MOST, OTHER_KEY, end, first, refusal
from tidegate.model import moment
from tidegate.store import History

# --- for people -----------------------------------------------------------------------------------------------------


def test_events_are_listed_newest_first(history):
    history.remember([first(1), first(2, "a", "START"), first(3, "b", "START"), first(5)], [end(4, 2)], [])
    assert [one.seq for one in history.events()] == [5, 3, 2, 1]
    assert [one.seq for one in history.events(2)] == [5, 3]
    assert [one.seq for one in history.events(2, before=3)] == [2, 1]
    assert [one.seq for one in history.events(running=True)] == [3]
    ended, running = history.event("a"), history.event("b")
    assert ended == (
        *(2, "a", "z7", "START", moment(2_000_000), moment(2_000_000), moment(4_000_000), '{"n":2}'),
        *(4, moment(4_000_000), '{"m":4}'),
    )
    assert running[5:] == (moment(3_000_000), None, '{"n":3}', None, None, None)
    assert history.event("e1").end == moment(1_000_000)


def test_the_newest_event_of_an_id(history):
    history.remember([first(1, "a"), first(2, "a"), first(3, "b")], [], [])
    assert history.event("a").seq == 2


def test_the_event_of_a_source(history):
    history.remember([first(1, "a", source="x"), first(2, "a", source="y"), first(3, "b", source="x")], [], [])
    assert [history.event("a", source).seq for source in ("x", "y", None)] == [1, 2, 2]
    assert history.event("b", "y") is None


@pytest.mark.contract
def test_people_look_while_an_engine_writes(history, url):
    history.remember([first(1)], [], [refusal(1)])
    with History(url) as other:
        assert (len(other), other.last, other.event("e1").seq, len(other.events())) == (1, 1, 1, 1)
        assert other.refused() == [refusal(1)]
        assert not other.has_elder(KEY, (0, 1), (0, 1))
        history.remember([first(2)], [], [])
        assert (len(other), other.last) == (2, 2)


# --- elders ---------------------------------------------------------------------------------------------------------


def test_elders(history, url):
    history.retire([(KEY, 10, 20, 1), (KEY, 15, 15, 2), (OTHER_KEY, 0, 5, 3), (KEY, 10, 20, 1)])
    history.retire([(KEY, LEAST, MOST, 4), (KEY, 10, 20, 5)])
    cases = [
        ((10, 10), (20, 20), True),
        ((11, 14), (0, 100), False),
        ((0, 100), (16, 19), False),
        ((0, 15), (0, 15), True),
        ((0, 14), (0, 15), False),
        ((0, 100), (20, MOST), True),
        ((0, 100), (21, MOST), False),
        ((LEAST, MOST), (LEAST, MOST), True),
        ((LEAST, 0), (0, MOST), True),
        ((LEAST, 0), (0, MOST - 1), False),
        ((-(2**70), 2**70), (15, 15), True),
        ((2**65, 2**70), (0, MOST), False),
    ]
    for start, ended, expected in cases:
        assert history.has_elder(KEY, start, ended) is expected, (start, ended)
    assert history.has_elder(OTHER_KEY, (0, 0), (5, 5))
    assert not history.has_elder(KEY[::-1], (LEAST, MOST), (LEAST, MOST))
    history.close()
    assert history.has_elder(KEY, (10, 10), (20, 20))
    assert history.has_elder(KEY, (15, 15), (15, 15), 1)
    assert not history.has_elder(KEY, (15, 15), (15, 15), 2)
    assert history.forget(2) == 0
    assert history.has_elder(KEY, (10, 10), (20, 20))
    assert not history.has_elder(KEY, (15, 15), (15, 15))
    history.clear_elders()
    assert not history.has_elder(KEY, (LEAST, MOST), (LEAST, MOST))
    for bad in (b"short", "k" * 16, None):
        with pytest.raises(tg.SettingError, match="a key of 16 bytes"):
            history.retire([(bad, 1, 2, 3)])
        with pytest.raises(tg.SettingError, match="a key of 16 bytes"):
            history.has_elder(bad, (1, 2), (1, 2))


@given(
    st.lists(st.tuples(st.sampled_from([KEY, OTHER_KEY]), *[st.integers(0, 9)] * 3), max_size=12),
    st.lists(st.tuples(*[st.integers(0, 9)] * 5), min_size=1, max_size=8),
    st.integers(0, 9),
)
def test_elders_are_found_by_ranges(rows, asked, upto):
    with tempfile.TemporaryDirectory() as place, History(Path(place) / "h.db") as history:
        history.retire(rows)
        for forgotten in (0, upto):
            history.forget(forgotten)
            for a, b, c, d, after in asked:
                expected = any(
                    key == KEY and a <= start <= b and c <= ended <= d and number > max(after, forgotten)
                    for key, start, ended, number in rows
                )
                assert history.has_elder(KEY, (a, b), (c, d), after) is expected
