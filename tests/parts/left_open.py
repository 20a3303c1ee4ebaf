"""Closes the logs and databases that a test leaves open when it ends. A process that runs thousands of tests would run
out of files otherwise, and from Python 3.13 on a connection that is never closed is a warning, so an error of some
test that comes later. What tests of closing look at, and fixtures that several tests share, is not touched.
"""

from __future__ import annotations

import weakref

import pytest

from tidegate.store.database import Database
from tidegate.store.log_reader import LogReader

_opened: list[weakref.ref] = []


def _noted(kind):
    begin = kind.__init__

    def noting(self, *arguments, **more):
        _opened.append(weakref.ref(self))
        begin(self, *arguments, **more)

    kind.__init__ = noting


_noted(Database)
_noted(LogReader)


@pytest.fixture(autouse=True)
def _what_a_test_leaves_open_is_closed():
    before = len(_opened)  # what fixtures of a module have opened by now is theirs
    yield
    for reference in _opened[before:]:
        if (one := reference()) is not None and hasattr(one, _STATE[isinstance(one, LogReader)]):
            one.close()
    del _opened[before:]


#: What only one that was made whole has: of a database, of a log.
_STATE = ("_gate", "_last")
