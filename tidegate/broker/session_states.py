"""The states of sessions and connections, and what leads from one to another: two tables, which are all there is to it.

A *session* is what a broker keeps of a principal; all processes of the broker share it. A *connection* belongs to one
process. What a table does not have is refused with a ``SessionError``. Knows neither queues nor files.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from tidegate.errors import SessionError

__all__ = [
    "CONNECTIONS",
    "SESSIONS",
    "ConnectionEvent",
    "ConnectionState",
    "SessionEvent",
    "SessionState",
    "after",
]


class SessionState(StrEnum):
    """How a session stands."""

    UNKNOWN = "unknown"
    """Never registered, or ended."""
    REGISTERED = "registered"
    """Registered, with nobody connected; queues go on filling."""
    CONNECTED = "connected"
    """Registered, with one connection or more."""


class SessionEvent(StrEnum):
    """What happens to a session."""

    REGISTER = "register"
    CONNECT = "connect"
    DISCONNECT = "disconnect"
    """The last connection closes, or its process is lost."""
    ACKNOWLEDGE = "acknowledge"
    UNREGISTER = "unregister"
    EXPIRE = "expire"


class ConnectionState(StrEnum):
    """How a connection stands."""

    WAITING = "waiting"
    """Its queue is not there yet: the runner makes it when it has taken up the registration."""
    OPEN = "open"
    LAGGING = "lagging"
    """It could not take what there was. It gets nothing any more; the principal connects again and goes on."""
    CLOSED = "closed"


class ConnectionEvent(StrEnum):
    """What happens to a connection."""

    QUEUE = "queue"
    """Its queue is there."""
    TAKE = "take"
    ACKNOWLEDGE = "acknowledge"
    LAG = "lag"
    LEAVE = "leave"
    """It is closed by the principal, or by the process that has it."""
    UNREGISTERED = "unregistered"
    REPLACED = "replaced"
    """Its queue has ended, and another one may be in its place, of another epoch."""


_S, _E = SessionState, SessionEvent
SESSIONS: Mapping[tuple[SessionState, SessionEvent], SessionState] = {
    (_S.UNKNOWN, _E.REGISTER): _S.REGISTERED,
    (_S.REGISTERED, _E.REGISTER): _S.REGISTERED,
    (_S.REGISTERED, _E.CONNECT): _S.CONNECTED,
    (_S.REGISTERED, _E.ACKNOWLEDGE): _S.REGISTERED,
    (_S.REGISTERED, _E.UNREGISTER): _S.UNKNOWN,
    (_S.REGISTERED, _E.EXPIRE): _S.UNKNOWN,
    (_S.CONNECTED, _E.REGISTER): _S.CONNECTED,
    (_S.CONNECTED, _E.CONNECT): _S.CONNECTED,
    (_S.CONNECTED, _E.DISCONNECT): _S.REGISTERED,
    (_S.CONNECTED, _E.ACKNOWLEDGE): _S.CONNECTED,
    (_S.CONNECTED, _E.UNREGISTER): _S.UNKNOWN,
}

_C, _H = ConnectionState, ConnectionEvent
CONNECTIONS: Mapping[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (_C.WAITING, _H.QUEUE): _C.OPEN,
    (_C.WAITING, _H.TAKE): _C.WAITING,
    (_C.WAITING, _H.LAG): _C.LAGGING,
    (_C.WAITING, _H.LEAVE): _C.CLOSED,
    (_C.WAITING, _H.UNREGISTERED): _C.CLOSED,
    (_C.OPEN, _H.TAKE): _C.OPEN,
    (_C.OPEN, _H.ACKNOWLEDGE): _C.OPEN,
    (_C.OPEN, _H.LAG): _C.LAGGING,
    (_C.OPEN, _H.LEAVE): _C.CLOSED,
    (_C.OPEN, _H.UNREGISTERED): _C.CLOSED,
    (_C.OPEN, _H.REPLACED): _C.CLOSED,
    (_C.LAGGING, _H.ACKNOWLEDGE): _C.LAGGING,
    (_C.LAGGING, _H.LAG): _C.LAGGING,
    (_C.LAGGING, _H.LEAVE): _C.CLOSED,
    (_C.LAGGING, _H.UNREGISTERED): _C.CLOSED,
    (_C.LAGGING, _H.REPLACED): _C.CLOSED,
    # Both sides may close at once, so closing again is no mistake; the first reason stays.
    (_C.CLOSED, _H.LAG): _C.CLOSED,
    (_C.CLOSED, _H.LEAVE): _C.CLOSED,
    (_C.CLOSED, _H.UNREGISTERED): _C.CLOSED,
    (_C.CLOSED, _H.REPLACED): _C.CLOSED,
}

State = TypeVar("State", SessionState, ConnectionState)
Event = TypeVar("Event", SessionEvent, ConnectionEvent)


def after(table: Mapping[tuple[State, Event], State], state: State, event: Event, whose: str) -> State:
    """The state that an event leads to; an error if the table has none."""
    following = table.get((state, event))
    if following is None:
        kind = "session" if table is SESSIONS else "connection"
        right = " or ".join(before for before, what in table if what == event)
        raise SessionError(f"a {kind} that is {right}, to {event}", f"one that is {state}", whose)
    return following
