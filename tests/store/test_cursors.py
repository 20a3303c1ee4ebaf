"""Cursors: durable, never back, never beyond the end."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from tidegate.errors import SettingError, StoreError
from tidegate.store.cursors import Cursors
from tidegate.store.queues import Queue

ANN, BOB = Queue(0, "ann", "stream", "a1"), Queue(1, "bob", "stream", "b1")


def test_a_cursor_advances_and_never_goes_back(tmp_path):
    with Cursors(tmp_path / "cursors.db") as cursors:
        assert cursors.of([ANN, BOB]) == {ANN: 0, BOB: 0}
        cursors.acknowledge({ANN: (5, 9), BOB: (2, 2)})
        cursors.acknowledge({ANN: (3, 9)})
    with Cursors(tmp_path / "cursors.db") as cursors:
        assert cursors.of([ANN, BOB]) == {ANN: 5, BOB: 2}
        assert cursors.of([ANN]) == {ANN: 5}


def test_another_epoch_has_another_cursor(tmp_path):
    with Cursors(tmp_path / "cursors.db") as cursors:
        cursors.acknowledge({ANN: (5, 9)})
        again = ANN._replace(number=7, epoch="a2")
        assert cursors.of([again]) == {again: 0}
        cursors.forget([ANN.epoch])
        assert cursors.of([ANN]) == {ANN: 0}


@pytest.mark.parametrize("number", [10, -1])
def test_beyond_the_end_nothing_of_a_call_is_acknowledged(tmp_path, number):
    with Cursors(tmp_path / "cursors.db") as cursors:
        with pytest.raises(SettingError, match="from 0 to 9, the last of the queue"):
            cursors.acknowledge({BOB: (1, 1), ANN: (number, 9)})
        assert cursors.of([ANN, BOB]) == {ANN: 0, BOB: 0}


def test_a_number_that_was_not_written_so_is_never_believed(tmp_path):
    """It would pass over deliveries that nobody has acknowledged."""
    with Cursors(tmp_path / "cursors.db") as cursors:
        cursors.acknowledge({ANN: (5, 9), BOB: (2, 2)})
    with sqlite3.connect(tmp_path / "cursors.db") as database:
        database.execute("UPDATE tidegate_cursors SET acknowledged = 7 WHERE epoch = 'a1'")
    database.close()
    with Cursors(tmp_path / "cursors.db") as cursors:
        assert cursors.of([BOB]) == {BOB: 2}
        for some in ([ANN], [ANN, BOB]):
            with pytest.raises(StoreError, match="a cursor as it was written"):
                cursors.of(some)


@pytest.mark.parametrize("number", ["5", 5.0, None, True])
def test_what_is_no_number_is_refused(tmp_path, number):
    with Cursors(tmp_path / "cursors.db") as cursors:
        with pytest.raises(SettingError, match="from 0 to 9, the last of the queue"):
            cursors.acknowledge({ANN: (number, 9)})
        assert cursors.of([ANN]) == {ANN: 0}


def test_threads_acknowledge_at_once(tmp_path):
    with Cursors(tmp_path / "cursors.db") as cursors:

        def some(first):
            for number in range(first, 60, 3):
                cursors.acknowledge({ANN: (number, 60)})

        threads = [threading.Thread(target=some, args=(first,)) for first in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cursors.of([ANN]) == {ANN: 59}


def test_cursors_are_in_a_file(tmp_path):
    with pytest.raises(SettingError, match="path of a file"):
        Cursors("postgresql://localhost/x")
