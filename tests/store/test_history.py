"""The history of events on all three databases: what was acknowledged stays, once; one engine writes at a time."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.dialects import oracle
from sqlalchemy.schema import CreateIndex, CreateTable

import tidegate as tg
from tests.parts.databases import SERVERS
from tidegate.model import moment
from tidegate.records.record import publication
from tidegate.records.tables import table
from tidegate.store import History, NotificationStore, Registry, history_tables
from tidegate.store import history as module
from tidegate.store.database import Database
from tidegate.store.database_url import address
from tidegate.store.history import BegunEvent, EndedEvent, RefusedEvent, ReplayedPublication

KEY, OTHER_KEY = bytes(range(240, 256)), bytes(16)
LEAST, MOST = -(2**63), 2**63 - 1


@pytest.fixture
def history(url):
    with History(url) as history:
        yield history


def first(seq: int, id: str | None = None, phase: str | None = None, **fields) -> BegunEvent:
    """A publication at second ``seq`` that begins an event."""
    when = seq * 1_000_000
    end = None if phase == "START" else when
    return BegunEvent(seq, id or f"e{seq}", "z7", phase, when, when, end, f'{{"n":{seq}}}')._replace(**fields)


def end(seq: int, of: int, **fields) -> EndedEvent:
    return EndedEvent(of, seq, "z8", seq * 1_000_000, seq * 1_000_000, f'{{"m":{seq}}}')._replace(**fields)


def refusal(number: int, reason: str = "second start") -> RefusedEvent:
    return RefusedEvent(reason, f"e{number}", "START", number, f'{{"n":{number}}}')


def heard(one: BegunEvent) -> ReplayedPublication:
    return ReplayedPublication(one.seq, one.seq, *one[1:])


def replayed(history: History, size: int = 50_000) -> list[ReplayedPublication]:
    chunks = list(history.replay(size))
    assert all(0 < len(chunk) <= size for chunk in chunks)
    return [one for chunk in chunks for one in chunk]


# --- what is remembered ---------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_what_is_remembered_is_replayed(history, url):
    assert (history.last, len(history), replayed(history)) == (0, 0, [])
    begun = [first(1), first(2, "a", "START"), first(3, "b", "INSTANT"), first(5, "c", "START")]
    history.remember(begun[:3], [], [])
    history.remember(begun[3:], [end(4, 2), end(6, 5, end=5_500_000)], [])
    expected = [
        *map(heard, begun[:3]),
        ReplayedPublication(4, 2, "a", "z8", "END", 4_000_000, None, 4_000_000, '{"m":4}'),
        heard(begun[3]),
        ReplayedPublication(6, 5, "c", "z8", "END", 6_000_000, None, 5_500_000, '{"m":6}'),
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
    monkeypatch.setattr(history_tables, "REFUSED", 5)
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
        *(4, "z8", moment(4_000_000), '{"m":4}'),
    )
    assert running[5:] == (moment(3_000_000), None, '{"n":3}', None, None, None, None)
    assert history.event("e1").end == moment(1_000_000)


def test_the_newest_event_of_an_id(history):
    history.remember([first(1, "a"), first(2, "a"), first(3, "b")], [], [])
    assert history.event("a").seq == 2


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


# --- a model --------------------------------------------------------------------------------------------------------


class Model:
    """The same with a list and a counter."""

    def __init__(self):
        self.last, self.heard, self.counts, self.refused = 0, [], Counter(), []

    def remember(self, begun, ends, refused):
        highest = max([one.seq for one in (*begun, *ends)], default=0)
        if not 0 < highest <= self.last:
            self.counts.update(one.reason for one in refused)
            self.refused = [*refused[::-1], *self.refused]
        ids = {one.seq: one.id for one in self.heard}
        ids |= {one.seq: one.id for one in begun}
        more = [heard(one) for one in begun] + [
            ReplayedPublication(e.seq, e.first, ids.get(e.first, ""), e.source, "END", e.time, None, e.end, e.body)
            for e in ends
        ]
        self.heard = sorted(self.heard + [one for one in more if one.seq > self.last])
        self.last = max(self.last, highest)

    def forget(self, upto):
        latest = {one.first: one.seq for one in self.heard}
        ended = {one.first for one in self.heard if one.end is not None}
        gone = {event for event, seq in latest.items() if seq <= upto and event in ended}
        self.heard = [one for one in self.heard if one.first not in gone]
        return len(gone)

    @property
    def running(self):
        return sorted(
            {one.seq for one in self.heard if one.end is None}
            - {one.first for one in self.heard if one.seq != one.first}
        )


@st.composite
def steps(draw):
    """Calls of an engine: what begins and ends, forgetting, reopening, and saying the last thing again."""
    found, seq, running = [], 0, []
    for _ in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(["remember", "remember", "remember", "forget", "again", "reopen"])):
            case "remember":
                begun, ends = [], []
                for _ in range(draw(st.integers(0, 6))):
                    seq += 1
                    if running and draw(st.booleans()):
                        ends.append(end(seq, running.pop(draw(st.integers(0, len(running) - 1)))))
                    else:
                        phase = draw(st.sampled_from([None, "START", "START", "INSTANT"]))
                        begun.append(first(seq, draw(st.sampled_from(["a", "b", f"e{seq}"])), phase))
                        if phase == "START":
                            running.append(seq)
                reasons = draw(st.lists(st.sampled_from(["second start", "other start"]), max_size=3))
                found.append(("remember", begun, ends, [refusal(i, reason) for i, reason in enumerate(reasons)]))
            case "again":
                calls = [step for step in found if step[0] == "remember" and (step[1] or step[2])]
                found += calls[-1:]
            case "forget":
                found.append(("forget", draw(st.integers(0, seq + 2))))
            case "reopen":
                found.append(("reopen",))
    return found


def follow(history: History, calls) -> None:
    model = Model()
    for name, *args in calls:
        if name == "reopen":
            history.close()
        else:
            assert getattr(history, name)(*args) == getattr(model, name)(*args)
        for size in (2, 100):
            assert replayed(history, size) == model.heard
        events = {one.first for one in model.heard}
        assert (history.last, len(history)) == (model.last, len(events))
        assert history.refused_counts() == model.counts
        assert history.refused() == model.refused
        assert [one.seq for one in history.events(running=True)] == model.running[::-1]
        assert [one.seq for one in history.events()] == sorted(events, reverse=True)


@given(steps())
def test_a_history_is_what_its_model_is(calls):
    with tempfile.TemporaryDirectory() as place, History(Path(place) / "h.db") as history:
        follow(history, calls)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_history_on_a_server_is_what_its_model_is(kind, request):
    new = request.getfixturevalue(kind)

    @given(steps())
    def law(calls):
        with History(new()) as history:
            follow(history, calls)

    law()


# --- one writer -----------------------------------------------------------------------------------------------------


@pytest.mark.contract
def test_only_one_engine_at_a_time(history, url):
    history.remember([first(1)], [], [])
    with History(url) as other:
        for write in (
            lambda: other.claim(),
            lambda: other.replay(),
            lambda: other.remember([first(2)], [], []),
            lambda: other.forget(1),
            lambda: other.retire([(KEY, 1, 2, 3)]),
            lambda: other.clear_elders(),
        ):
            with pytest.raises(tg.StoreError, match="a history that nobody else writes to; got one that an engine has"):
                write()
        history.close()
        other.remember([first(2)], [], [])
        with pytest.raises(tg.StoreError, match="nobody else writes to"):
            history.claim()
    history.remember([first(3)], [], [])
    assert [one.seq for one in replayed(history)] == [1, 2, 3]


@pytest.mark.services
def test_histories_of_one_server_do_not_disturb_each_other(request):
    for kind in ("postgres", "mariadb"):
        new = request.getfixturevalue(kind)
        with History(new()) as one, History(new()) as other:
            one.remember([first(1)], [], [])
            other.remember([first(1)], [], [])


@pytest.mark.contract
def test_one_that_has_lost_its_lock_is_told(history, url):
    history.remember([first(1)], [], [])
    history._lease.release()  # as when a server forgets a connection
    with History(url) as other:
        other.remember([first(2)], [], [])
        for _ in range(2):
            with pytest.raises(tg.StoreError, match="nobody else writes to; got one that another engine has written"):
                history.remember([first(2, "mine")], [], [])
        other.remember([first(3)], [], [])
        assert [one.id for one in replayed(other)] == ["e1", "e2", "e3"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_history_that_is_dropped_is_free(url):
    history = History(url)
    history.remember([first(1)], [], [])
    del history
    gc.collect()
    with History(url) as other:
        other.remember([first(2)], [], [])


SCRIPT = """
import sys
from tidegate.store.history import EndedEvent, BegunEvent, History
history = History(sys.argv[1])
seq = history.last
while True:
    begun = [BegunEvent(seq + i, f"e{seq + i}", "z7", "START", 0, 0, None, "{}") for i in range(1, 4)]
    history.remember(begun, [EndedEvent(seq + 1, seq + 4, "z7", 0, 0, "{}")], [])
    seq += 4
    print(seq, flush=True)
"""


def test_what_was_acknowledged_survives_the_process(url):
    """And the dead do not hold the lock."""
    acknowledged = 0
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", SCRIPT, url], stdout=subprocess.PIPE, text=True) as child:
            for _ in range(5):
                acknowledged = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        deadline = time.monotonic() + 20
        while True:
            with History(url) as history:
                try:
                    found = replayed(history)
                except tg.StoreError:  # a server may need a moment to notice
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                    continue
                assert history.last >= acknowledged
                assert history.last % 4 == 0
                assert [one.seq for one in found] == list(range(1, history.last + 1))
                assert len(history) == history.last // 4 * 3
                break


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_can_look_but_not_write(history):
    history.remember([first(1)], [], [])
    child = os.fork()
    if not child:
        outcome = 1
        try:
            assert (len(history), history.last) == (1, 1)
            with suppress(tg.StoreError):
                history.remember([first(2)], [], [])
                os._exit(2)
            history.close()
            outcome = 0
        finally:
            os._exit(outcome)
    assert os.waitpid(child, 0)[1] == 0
    history.remember([first(2)], [], [])
    with History(history._database.url.render_as_string(hide_password=False)) as other, pytest.raises(tg.StoreError):
        other.claim()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_keep_the_lock(history, url):
    history.claim()
    child = os.fork()
    if not child:
        signal.pause()
        os._exit(0)
    try:
        history.close()
        with History(url) as other:
            other.claim()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


FORKING = """
import os, signal, sys
from tidegate.store.history import History
history = History(sys.argv[1])
history.claim()
child = os.fork()
if child:
    print(child, flush=True)
signal.pause()
"""


def test_a_child_does_not_keep_the_lock_of_a_parent_that_was_killed(tmp_path):
    path = tmp_path / "h.db"
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        try:
            with History(path) as history, pytest.raises(tg.StoreError):
                history.claim()
            parent.kill()
            parent.wait()
            with History(path) as history:
                history.claim()
        finally:
            os.kill(child, signal.SIGKILL)


def test_threads_take_turns(history):
    def look():
        for _ in range(20):
            history.events()
            len(history)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seq in range(1, 40):
        history.remember([first(seq)], [], [])
    for thread in threads:
        thread.join()
    assert len(history) == 39


# --- servers that go away -------------------------------------------------------------------------------------------


class Line:
    """A socket between us and a server, which can be cut, and can lose the answer to a COMMIT."""

    def __init__(self, at: Path, server: str):
        self.at, self.server = at, server
        self.loses_answers = 0
        self.threads: list[threading.Thread] = []
        self.listen()

    def listen(self):
        self.is_cut = threading.Event()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.at))
        listener.listen()
        self.start(self.serve, listener)

    def start(self, *call):
        self.threads.append(threading.Thread(target=call[0], args=(*call[1:], self.is_cut)))
        self.threads[-1].start()

    def serve(self, listener, is_over):
        with listener:
            while not is_over.is_set() or not self.at.exists():
                if select.select([listener], [], [], 0.02)[0]:
                    self.start(self.carry, listener.accept()[0])
                if is_over.is_set():
                    if not self.at.exists():
                        return
                    is_over = self.is_cut

    def carry(self, ours, is_over):
        with ours, socket.socket(socket.AF_UNIX) as theirs, suppress(OSError):
            theirs.connect(self.server)
            while not is_over.is_set():
                for source in select.select([ours, theirs], [], [], 0.02)[0]:
                    data = source.recv(1 << 16)
                    (theirs if source is ours else ours).sendall(data)
                    if not data:
                        return
                    if source is ours and self.loses_answers and data.endswith((b"COMMIT", b"COMMIT\0")):
                        self.loses_answers -= 1
                        theirs.recv(1 << 16)
                        return

    def cut(self):
        """End all connections; new ones can be made."""
        old, self.is_cut = self.is_cut, threading.Event()
        old.set()
        for thread in [thread for thread in self.threads if thread.name.endswith("(carry)")]:
            thread.join()
            self.threads.remove(thread)

    def close(self):
        """End all connections, and take no new ones until ``listen``."""
        self.at.unlink(missing_ok=True)
        self.is_cut.set()
        while self.threads:
            self.threads.pop().join()


@contextmanager
def line(kind: str, new):
    """A line to a new database of a server, and the URL of its near end."""
    url = new()
    with tempfile.TemporaryDirectory(prefix="tg") as place:
        if kind == "postgres":
            where = url.split("host=")[1].split("&")[0]
            near = Line(Path(place) / ".s.PGSQL.5432", f"{where}/.s.PGSQL.5432")
            url = url.replace(where, place)
        else:
            where = url.split("unix_socket=")[1]
            near = Line(Path(place) / "socket", where)
            url = url.replace(where, f"{place}/socket")
        try:
            yield near, url
        finally:
            near.close()


#: What pymysql does to its socket when it is refused, and others when they are cut off.
untidy = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(params=SERVERS)
def cuttable(request):
    with line(request.param, request.getfixturevalue(request.param)) as found:
        yield found
    gc.collect()  # so that what is untidy is so here


@untidy
def test_a_connection_that_is_lost_is_made_again(cuttable):
    near, url = cuttable
    with History(url) as history:
        for seq in range(1, 8, 2):
            history.remember([first(seq)], [], [refusal(seq)])
            near.cut()
            assert len(history) == seq // 2 + 1
            near.cut()
            history.remember([first(seq + 1, phase="START")], [], [])
            near.cut()
            assert history.forget(seq) == 1
            near.cut()
            assert [one.seq for one in replayed(history, 1)] == list(range(2, seq + 2, 2))
        near.cut()
        history._sure_until = 0  # as a second later
        history.claim()
        with History(url) as other, pytest.raises(tg.StoreError, match="nobody else writes to"):
            other.claim()  # the lock has come back too


@untidy
def test_a_server_that_restarts(cuttable):
    near, url = cuttable
    with History(url) as history:
        history.remember([first(1)], [], [])
        near.close()
        timer = threading.Timer(1.5, near.listen)
        timer.start()
        history.remember([first(2)], [], [refusal(1)])
        timer.join()
        assert ([one.seq for one in replayed(history)], history.refused_counts()) == ([1, 2], {"second start": 1})


@untidy
def test_a_server_that_stays_away(cuttable, monkeypatch):
    near, url = cuttable
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    with History(url) as history:
        history.remember([first(1)], [], [])
        near.close()
        with pytest.raises(tg.StoreError, match="a database that answers"):
            history.remember([first(2)], [], [])
        near.listen()
        history.remember([first(2)], [], [])
        assert [one.seq for one in replayed(history)] == [1, 2]


@untidy
def test_an_answer_that_is_lost(cuttable):
    """The server has committed and we do not know it."""
    near, url = cuttable
    with History(url) as history:
        for seq in range(1, 20, 4):
            near.loses_answers = 1
            history.remember([first(seq, phase="START")], [end(seq + 1, seq)], [refusal(seq)])
            assert near.loses_answers == 0
            near.loses_answers = 1
            history.remember([], [], [refusal(seq)])
            near.loses_answers = 1
            history.retire([(KEY, seq, seq, 100)])
            near.loses_answers = 1
            assert history.forget(seq - 1) == (seq > 1)
            assert near.loses_answers == 0
        assert [one.seq for one in replayed(history)] == [17, 18]
        assert history.refused_counts() == {"second start": 10}
        assert history.has_elder(KEY, (17, 17), (17, 17))
        with history._database.read() as connection:
            assert connection.execute(text("SELECT COUNT(*) FROM tidegate_elders")).scalar() == 5


@untidy
def test_an_answer_that_is_lost_and_asked_for_again(cuttable, monkeypatch):
    """The caller says it again after an error."""
    near, url = cuttable
    monkeypatch.setattr(module, "_PATIENCE", 0)
    with History(url) as history:
        history.remember([first(1)], [], [])
        call = [first(2)], [], [refusal(1)]
        for _ in range(2):
            near.loses_answers = 1
            with suppress(tg.StoreError):
                history.remember(*call)
        assert history.last == 2
        history.remember(*call)
        history.remember([first(3)], [], [])
        assert [one.seq for one in replayed(history)] == [1, 2, 3]
        assert history.refused_counts() == {"second start": 1}


# --- opening --------------------------------------------------------------------------------------------------------


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
    with pytest.raises(tg.StoreError, match="a history of schema version 1 or older; got version 99"):
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


# --- Oracle ---------------------------------------------------------------------------------------------------------


class Spoken:
    """A connection to nowhere, which words statements for a dialect."""

    def __init__(self, dialect):
        self.dialect, self.connection, self.said = dialect, self, []
        self.dbapi_connection = None

    def execute(self, statement, values=None):
        self.said.append(str(statement.compile(dialect=self.dialect)))
        return self

    def exec_driver_sql(self, statement, values):
        self.said.append(statement)
        return self

    def all(self):
        return []

    def first(self):
        return None

    def __iter__(self):
        return iter([])

    rowcount = 0


def test_oracle_has_a_word_for_everything():
    """No server is at hand: tables and statements are worded for its dialect, and not run."""
    spoken = Spoken(oracle.dialect())
    for made in history_tables.TABLES.sorted_tables:
        spoken.execute(CreateTable(made))
        for index in made.indexes:
            spoken.execute(CreateIndex(index))
    made = " ".join(spoken.said)
    assert "reason VARCHAR2(64 CHAR) NOT NULL" in made
    assert "id CLOB NOT NULL" in made
    assert "body CLOB NOT NULL" in made
    assert " TEXT" not in made
    assert history_tables.state(spoken) is None
    assert not history_tables.replaced(spoken, 7, history_tables.HistoryState(1, 2, 3, 4, 5))
    assert spoken.said[-1] == (
        "UPDATE tidegate_history SET identity = :1, mark = :2, last = :3, refused = :4, elders = :5 "
        "WHERE one = 1 AND mark = :6"
    )
    history_tables.write_events(spoken, [first(1), first(2)])
    history_tables.write_ends(spoken, [end(3, 1)])
    history_tables.write_refused(spoken, [refusal(1)], 1)
    history_tables.write_elders(spoken, [(KEY, 1, 2, 3)], 0)
    assert spoken.said[-1] == (
        'INSERT INTO tidegate_elders (key1, key2, end_at, serial, start_at, "number") VALUES (:1, :2, :3, :4, :5, :6)'
    )
    assert history_tables.forget(spoken, 1) == 0
    assert history_tables.ids(spoken, 1, 2) == {}
    assert (
        history_tables.firsts(spoken, 0, 10)
        == history_tables.ends(spoken, 0, 10)
        == history_tables.refused(spoken, 10)
        == []
    )
    assert history_tables.events(spoken, 10, 5, running=True) == []
    assert history_tables.event(spoken, "a") is None
    assert not history_tables.has_elder(spoken, KEY, (1, 2), (3, 4), 0)
    for statement in (history_tables.NO_ELDERS, history_tables.HOW_MANY, history_tables.HOW_MANY_REFUSED):
        spoken.execute(statement)
    assert not any("LIMIT" in statement for statement in spoken.said)
