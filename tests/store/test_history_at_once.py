"""One engine writes a history at a time, whatever becomes of it: processes that are killed, children, threads."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

import tidegate as tg
from tests.store.remembered_events import KEY, first, replayed
from tidegate.store import History


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
    history.remember(begun, [EndedEvent(seq + 1, seq + 4, 0, 0, "{}")], [])
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
if not os.fork():
    print(os.getpid(), flush=True)  # by now it has let go of what it inherited
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
