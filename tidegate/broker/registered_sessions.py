"""Who has a session: from the version of the registry that registers a principal to the one that unregisters it.

The registry decides. What it says is noted in the file of the cursors, by whichever process notices first, so that
all processes see the same. Knows nothing of what connections do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidegate.broker.open_queues import OpenQueues
from tidegate.broker.session_states import SESSIONS, SessionEvent, SessionState, after
from tidegate.errors import SettingError, shown
from tidegate.principal_names import EXPECTED, is_principal_name
from tidegate.store.registrations import Registration
from tidegate.store.session_records import SessionRecord

__all__ = ["RegisteredSessions", "Registrations", "whose"]


class Registrations(Protocol):
    """What is asked of a ``Registry``."""

    @property
    def version(self) -> int: ...
    @property
    def oldest_kept(self) -> int: ...
    def register(self, principal: str) -> int: ...
    def unregister(self, principal: str) -> int: ...
    def registered(self, principal: str) -> int | None: ...
    def registrations(self, after: int, upto: int) -> list[Registration]: ...


class RegisteredSessions:
    """The sessions that there are. ``heard`` is called with what the registry says since it was asked last, and whether
    that is all; ``is_connected`` knows who is connected to this process.
    """

    def __init__(
        self,
        queues: OpenQueues,
        registrations: Registrations,
        clock: Callable[[], int],
        is_connected: Callable[[str], bool],
        heard: Callable[[list[Registration], bool], None],
    ) -> None:
        self._queues, self._registrations, self._records = queues, registrations, queues.records
        self._clock, self._is_connected, self._heard = clock, is_connected, heard
        self._version = -1

    def follow(self, anew: bool = False) -> None:
        """Take notice of what the registry says since, and of what others have ended meanwhile. All that it says is
        read ``anew`` where some of it is not kept any more, or does not fit what is noted: then it is another copy.
        """
        version = self._registrations.version
        if version == self._version and not anew:
            return
        known = self._records.version
        oldest = known if self._version < 0 else min(known, self._version)
        anew = anew or known > version or oldest < self._registrations.oldest_kept
        said = self._registrations.registrations(0 if anew else oldest, version)
        (self._records.follow_anew if anew else self._records.follow)(said, version, self._clock())
        self._heard(said, anew)
        self._version = version

    def state(self, principal: str) -> SessionState:
        """How the session of a principal stands."""
        session = self._records.session(principal)
        if session is None:
            return SessionState.UNKNOWN
        if self._is_connected(principal) or self._records.connections(self._clock(), [principal]):
            return SessionState.CONNECTED
        return SessionState.REGISTERED

    def registration(self, principal: str) -> int | None:
        """The version since which a principal is registered; None if it is not."""
        self.follow()
        session = self._records.session(principal)
        return None if session is None else session.registration

    def register(self, principal: str) -> int:
        """Register a principal, which may be registered; return the version since which it is."""
        if not is_principal_name(principal):
            raise SettingError(EXPECTED, shown(principal))
        there = self.registration(principal)
        if there is not None:
            return there
        with self._records.exclusive():
            version = self._registrations.register(principal)
            self.follow()
            if self._records.session(principal) is None:
                self.follow(anew=True)
        return version

    def unregister(self, principal: str) -> None:
        """End a session: its subscriptions, its queues and its connections."""
        self.follow()
        with self._records.exclusive():
            after(SESSIONS, self.state(principal), SessionEvent.UNREGISTER, whose(principal))
            self._end(principal)

    def _end(self, principal: str) -> None:
        """End a session, while nobody else registers or unregisters. The runner ends its queues by its next batch."""
        if self._registrations.registered(principal) is not None:
            self._registrations.unregister(principal)
        self.follow()
        if self._records.session(principal) is not None:
            self.follow(anew=True)

    def expire(self, keep: int) -> list[str]:
        """End the sessions of those who were not seen for so many microseconds, and return their names."""
        ended = []
        for principal in [session.principal for session in self._unseen(keep)]:
            with self._records.exclusive():
                is_there_still = bool(self._unseen(keep, principal))  # unless it has come back meanwhile
                if is_there_still and (self.state(principal), SessionEvent.EXPIRE) in SESSIONS:
                    self._end(principal)
                    ended.append(principal)
        return ended

    def _unseen(self, keep: int, principal: str | None = None) -> list[SessionRecord]:
        """The sessions that expire now, or of them that of one principal."""
        self.follow()
        return self._records.unseen(keep, principal)


def whose(principal: object) -> str:
    """A principal, as errors name it."""
    return f"principal {shown(principal)}"
