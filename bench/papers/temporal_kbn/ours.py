"""Our own side: an engine with a history, given one publication at a time, and how long each part of that takes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple

import pyarrow as pa

import tidegate as tg
from bench.papers.temporal_kbn.events import ALL, BEGIN, Events, Wanted
from bench.papers.temporal_kbn.wines import load_wines
from tidegate.model import moment

__all__ = ["Ours", "Taken", "Timed", "fill"]

#: Publications of a batch that fills a history.
_BATCH = 50_000


class Timed(tg.History):
    """A history that says how long it took to make things durable."""

    seconds = 0.0

    def remember(self, *arguments: Any) -> None:
        """One transaction."""
        begin = perf_counter()
        super().remember(*arguments)
        self.seconds += perf_counter() - begin


class Taken(NamedTuple):
    """What one call took, of which how much to make it durable, and whom it told."""

    seconds: float
    writing: float
    told: set[str]


class Ours:
    """An engine with its subscribers."""

    def __init__(self, url: str, subscribers: dict[str, Wanted]) -> None:
        load_wines()
        begin = perf_counter()
        self._history = Timed(url)
        found = (tg.Subscription(id, "bench", each.where) for id, each in subscribers.items())
        self._engine = tg.Engine(found, history=self._history)
        self._engine.advance(moment(BEGIN) - timedelta(days=1))  # reads the history, which it else does when it must
        #: Seconds until it could take publications, what the history holds included.
        self.opening = perf_counter() - begin

    def take(self, publications: Sequence[tg.Publication]) -> Taken:
        """One publication, or a few, in a call."""
        before, begin = self._history.seconds, perf_counter()
        notifications = self._engine.publish(publications)
        seconds = perf_counter() - begin
        return Taken(seconds, self._history.seconds - before, {each.subscription for each in notifications})

    def take_table(self, publications: pa.Table) -> tuple[float, float, pa.Table]:
        """A batch: seconds, of which to make it durable, and what it told, grouped."""
        before, begin = self._history.seconds, perf_counter()
        told = self._engine.publish(publications, grouped=True)
        return perf_counter() - begin, self._history.seconds - before, told

    @property
    def is_sound(self) -> bool:
        """Whether nothing came too late or was refused."""
        return not self._engine.late and not self._engine.refused

    def __len__(self) -> int:
        """Events in the history."""
        return len(self._history)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.close()
        self._history.close()


def fill(url: str, events: Events) -> float:
    """Have a history remember whole events, all of them; the seconds that took."""
    filling = Ours(url, {"all": ALL})
    begin = perf_counter()
    for table in events.whole(_BATCH):
        filling.take_table(table)
    seconds = perf_counter() - begin
    if len(filling) != len(events) or not filling.is_sound:
        raise SystemExit(f"bench temporal-kbn: {len(filling)} of {len(events)} events are in the history")
    filling.close()
    return seconds
