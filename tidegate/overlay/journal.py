"""What was heard from and said to one neighbour and is still valid, so that a link that comes back misses nothing."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

from tidegate.model import micros
from tidegate.overlay.messages import Publish, Reading

__all__ = ["Journal", "key_of"]

Event = Reading | Publish


def key_of(event: Event) -> str:
    """What tells an event from others: START and END share an id, and a reading comes once for each result set."""
    if isinstance(event, Publish):
        publication = event.publication
        return publication.id if publication.phase is None else f"{publication.id}\t{publication.phase}"
    if not event.results:
        return event.id
    return f"{event.id}\t{blake2b(chr(9).join(event.results).encode(), digest_size=16).hexdigest()}"


def _time(event: Event) -> int:
    return event.time if isinstance(event, Reading) else micros(event.publication.time)


class Journal:
    """Readings and publications by key."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}
        self._said: dict[str, Event] = {}

    @property
    def heard(self) -> tuple[str, ...]:
        """The keys of what came and is still valid."""
        return tuple(self._heard)

    def has_heard(self, key: str) -> bool:
        """Whether it came before."""
        return key in self._heard

    def hear(self, key: str, event: Event, oldest: int) -> None:
        """Note what came; forget what is older than ``oldest``."""
        heard = self._heard
        heard[key] = _time(event)
        while heard and heard[first := next(iter(heard))] < oldest:
            del heard[first]

    def say(self, event: Event, oldest: int) -> bool:
        """Note what goes out, or would if the link were there; whether it is new."""
        said, key = self._said, key_of(event)
        if key in said:
            return False
        said[key] = event
        while said and _time(said[first := next(iter(said))]) < oldest:
            del said[first]
        return True

    def missing(self, held: Collection[str], oldest: int) -> list[Event]:
        """What went out, is still valid and did not arrive."""
        return [event for key, event in self._said.items() if key not in held and _time(event) >= oldest]
