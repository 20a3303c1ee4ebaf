"""Connections and ``fork``. A child process must not touch a connection of its parent: both would talk on one socket.

With SQLite the child must not even open a connection of its own while it has inherited one: the library would take the
locks of the parent for its own, which the operating system does not hand down, and lose commits. So every object with
connections registers with ``watch``; the hooks here close idle connections to files before a fork, and
``refuse_inherited`` keeps the child from opening a file that was in use at that moment.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from tidegate.errors import StoreError

__all__ = ["Forkable", "refuse_inherited", "watch"]


class Forkable(Protocol):
    """What holds connections or locks that a child process must not use: ``Database``, ``WriterLease``, ``History``."""

    def before_fork(self) -> str | None:
        """Open and close nothing until ``after_fork``; return the file that a connection is still using, if any."""

    def after_fork(self, is_child: bool) -> None:
        """Go on after the fork; a child goes on without the connections of the parent."""


_watched: WeakSet[Forkable] = WeakSet()
_asleep: list[Forkable] = []
_busy: set[str] = set()
_inherited: set[str] = set()


def watch(thing: Forkable) -> None:
    """Call its ``before_fork`` and ``after_fork`` at every fork from now on."""
    _watched.add(thing)


def refuse_inherited(file: str) -> None:
    """Raise if a connection to this file was at work when the process was forked."""
    if os.path.realpath(file) in _inherited:
        raise StoreError(
            "a registry or store that nothing was reading or writing when the process was forked "
            "(the start method 'spawn' has no such limit)",
            "one in use",
            file,
        )


def _before() -> None:
    for thing in list(_watched):
        file = thing.before_fork()
        _asleep.append(thing)
        if file is not None:
            _busy.add(os.path.realpath(file))


def _after(is_child: bool) -> None:
    if is_child:
        _inherited.update(_busy)
    _busy.clear()
    while _asleep:
        _asleep.pop().after_fork(is_child)


os.register_at_fork(
    before=_before, after_in_parent=lambda: _after(is_child=False), after_in_child=lambda: _after(is_child=True)
)
