"""A history on a server that goes away, restarts, or loses its answer."""

from __future__ import annotations

import gc
import select
import socket
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

import tidegate as tg
from tests.parts.databases import SERVERS
from tests.store.remembered_events import KEY, end, first, refusal, replayed
from tidegate.store import History
from tidegate.store import history as module


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
