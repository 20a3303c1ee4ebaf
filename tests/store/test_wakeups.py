"""Wake-ups: who waits is woken, also at a long path; who is gone is forgotten."""

from __future__ import annotations

import os
import socket
import threading
from time import monotonic

import pytest

from tidegate.store.wakeups import PREFIX, Waker, Wakeup


@pytest.mark.parametrize("name", ["short", "long" * 40])
def test_who_waits_is_woken(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    with Waker(directory) as waker, Wakeup(directory) as one, Wakeup(directory) as other:
        waker.wake()
        one.wait(30)
        other.wait(30)
        assert one.works
        began = monotonic()
        threading.Timer(0.05, waker.wake).start()
        for wakeup in (one, other):
            wakeup.wait(30)
        assert monotonic() - began < 20
        for _ in range(1000):  # more than a socket has room for
            waker.wake()
        one.wait(30)  # takes them all
        began = monotonic()
        one.wait(0.02)
        assert monotonic() - began > 0.01
    assert os.listdir(directory) == []


def test_who_was_killed_is_forgotten(tmp_path):
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(tmp_path / f"{PREFIX}dead"))
    dead.close()
    with Waker(tmp_path) as waker, Wakeup(tmp_path) as wakeup:
        waker.wake()
        wakeup.wait(30)
        assert len(os.listdir(tmp_path)) == 1


def test_without_a_directory_nothing_happens(tmp_path):
    Waker(tmp_path / "none").wake()
    with Wakeup(tmp_path / "none") as wakeup:
        assert not wakeup.works
        wakeup.wait(0)


def test_who_comes_later_is_woken_and_a_closed_waker_wakes_again(tmp_path):
    with Waker(tmp_path) as waker, Wakeup(tmp_path) as first:
        waker.wake()
        with Wakeup(tmp_path) as second:
            waker.wake()
            waker.close()
            for wakeup in (first, second):
                assert _is_woken(wakeup)
            waker.wake()
            assert _is_woken(first)
            assert _is_woken(second)
        waker.wake()
        assert _is_woken(first)


def _is_woken(wakeup):
    began = monotonic()
    wakeup.wait(30)
    return monotonic() - began < 20
