"""Who is there: sessions with their connections, and how far behind each queue is. For the API and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidegate.broker.open_queues import OpenQueues, QueueState
from tidegate.store.session_records import ConnectionRecord, SessionRecord

__all__ = ["SessionPresence", "presences"]


class SessionPresence(NamedTuple):
    """A session, its connections of all processes, the oldest first, and how its queues stand. Times are µs since 1970.

    ``queues`` is empty until the runner has taken up the registration.
    """

    session: SessionRecord
    connections: tuple[ConnectionRecord, ...]
    queues: tuple[QueueState, ...]
    moment: int

    @property
    def connected_since(self) -> int | None:
        """Since when there is a connection; None without one."""
        return self.connections[0].since if self.connections else None

    def lag(self, queue: QueueState) -> int:
        """How long, in µs, the oldest delivery of a queue has waited to be acknowledged."""
        return 0 if queue.waiting_since is None else max(0, self.moment - queue.waiting_since)

    def as_json(self) -> dict[str, Any]:
        """All of it as a JSON value."""
        return {
            "principal": self.session.principal,
            "registered_at": self.session.registered_at,
            "seen_at": self.session.seen_at,
            "connections": [
                {"destination": one.destination, "since": one.since, "gateway": one.gateway} for one in self.connections
            ],
            "queues": [
                {
                    "destination": one.destination,
                    "last": one.last,
                    "acknowledged": one.acknowledged,
                    "depth": one.waiting,
                    "lag": self.lag(one) / 1e6,
                }
                for one in self.queues
            ],
        }


def presences(
    queues: OpenQueues, moment: int, *, names: Sequence[str] | None = None, after: str = "", limit: int | None = None
) -> list[SessionPresence]:
    """Sessions by the names of their principals: those of ``names``, or from behind ``after`` on."""
    found = queues.records.sessions(names=names, after=after, limit=limit)
    principals = [session.principal for session in found]
    connections: dict[str, list[ConnectionRecord]] = {}
    for one in queues.records.connections(moment, principals):
        connections.setdefault(one.principal, []).append(one)
    queues.refresh()
    version = queues.version
    return [
        SessionPresence(
            session,
            tuple(connections.get(session.principal, ())),
            tuple(queues.states_of(session.principal) if session.registration <= version else ()),
            moment,
        )
        for session in found
    ]
