"""What was heard from and said to one neighbour and is still valid, so that a link that comes back misses nothing."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

from tidegate.model import micros
from tidegate.overlay.messages import Publish, Reading

__all__ = ["FEW", "Journal", "key_of"]

Event = Reading | Publish

#: So many are not worth looking through for what is no longer valid.
FEW = 1_024


def key_of(event: Event) -> str:
    """What tells an event from others: START and END share an id, and a reading comes once for each result set."""
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
    """Readings and publications by key."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}
        self._said: dict[str, Event] = {}
        self._many = FEW

    @property
    def heard(self) -> tuple[str, ...]:
        """The keys of what came and may still be valid."""
        return tuple(self._heard)

    def has_heard(self, key: str) -> bool:
        """Whether it came before."""
        return key in self._heard

    def hear(self, key: str, event: Event, oldest: int) -> None:
        """Note what came; forget what is older than ``oldest``."""
        self._heard[key] = _time(event)
        self._prune(oldest)

    def say(self, event: Event, oldest: int) -> bool:
        """Note what goes out, or would if the link were there; whether it is new."""
        key = key_of(event)
        if key in self._said:
            return False
        self._said[key] = event
        self._prune(oldest)
        return True

    def _prune(self, oldest: int) -> None:
        """Forget what is no longer valid, whenever there has come to be twice as much as was valid the last time."""
        if len(self._heard) + len(self._said) > self._many:
            self._heard = {key: time for key, time in self._heard.items() if time >= oldest}
            self._said = {key: event for key, event in self._said.items() if _time(event) >= oldest}
            self._many = max(2 * (len(self._heard) + len(self._said)), FEW)

    def missing(self, held: Collection[str], oldest: int) -> list[Event]:
        """What went out, is still valid and did not arrive."""
        return [event for key, event in self._said.items() if key not in held and _time(event) >= oldest]
