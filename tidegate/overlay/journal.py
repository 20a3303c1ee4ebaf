"""``Journal``: the readings and publications that a node exchanged with one neighbour and that are still valid.

A ``Node`` keeps one for each neighbour and one for its own users and sensors. With it a node refuses events that come
twice, and when a link comes back it sends what the neighbour has missed.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

from tidegate.model import micros
from tidegate.overlay.messages import Publish, Reading

__all__ = ["FEW", "Journal", "key_of"]

Event = Reading | Publish

#: With so many entries or fewer it is not worth looking for those that are no longer valid.
FEW = 1_024


def key_of(event: Event) -> str:
    """A text that tells an event from all others of its sender.

    The id alone does not: START and END share it, and a reading can come several times for different result sets.
    """
    if isinstance(event, Publish):
        publication = event.publication
        source, id, more = publication.source, publication.id, publication.phase or ""
    else:
        source, id, more = event.source, event.id, ""
        if event.results:
            more = blake2b("\t".join(event.results).encode(), digest_size=16).hexdigest()
    return f"{len(source)}.{len(id)}.{source}{id}{more}"


def _time(event: Event) -> int:
    return event.time if isinstance(event, Reading) else micros(event.publication.time)


class Journal:
    """Events received (``heard``) and sent (``say``), by ``key_of``."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}
        self._said: dict[str, Event] = {}
        self._many = FEW

    @property
    def heard(self) -> tuple[str, ...]:
        """The keys of events that were received and may still be valid."""
        return tuple(self._heard)

    def has_heard(self, key: str) -> bool:
        """Whether the event of this key was received before."""
        return key in self._heard

    def hear(self, key: str, event: Event, oldest: int) -> None:
        """Note an event that was received; forget those older than ``oldest``."""
        self._heard[key] = _time(event)
        self._prune(oldest)

    def say(self, event: Event, oldest: int) -> bool:
        """Note an event that is sent, or would be if the link were up; whether it was not noted before."""
        key = key_of(event)
        if key in self._said:
            return False
        self._said[key] = event
        self._prune(oldest)
        return True

    def _prune(self, oldest: int) -> None:
        """Forget what is no longer valid, once there are twice as many entries as were left the last time."""
        if len(self._heard) + len(self._said) > self._many:
            self._heard = {key: time for key, time in self._heard.items() if time >= oldest}
            self._said = {key: event for key, event in self._said.items() if _time(event) >= oldest}
            self._many = max(2 * (len(self._heard) + len(self._said)), FEW)

    def missing(self, held: Collection[str], oldest: int) -> list[Event]:
        """The events that were sent, are still valid, and are not among those that the neighbour holds."""
        return [event for key, event in self._said.items() if key not in held and _time(event) >= oldest]
