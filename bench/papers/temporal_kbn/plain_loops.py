"""What should have been told: the operators written as loops over a list of events, the newest first.

Two meanings of FILTER's limit: the thesis examines the newest rows that are stored, whatever they are, we the newest
events that passed the inner filter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.papers.temporal_kbn.events import Attributes, Events, Inner, Operator, Part, Wanted

__all__ = ["Obvious"]


@dataclass
class _Event:
    id: str
    start: int
    end: int | None
    attributes: Attributes


class Obvious:
    """Remembers every event. ``by_rows``: limits count what is stored rather than what passed."""

    def __init__(self, wanted: Iterable[Wanted], by_rows: bool) -> None:
        self._by_rows = by_rows
        self._events: list[_Event] = []
        self._passed: dict[Inner, list[_Event]] = {}
        self._running: dict[str, _Event] = {}
        self.ask(wanted)

    def ask(self, wanted: Iterable[Wanted]) -> None:
        """Other rows of the table from now on. What is remembered stays."""
        self._wanted = {each.name: each for each in wanted}
        for each in self._wanted.values():
            if isinstance(each.condition, Operator):
                inner = each.condition.inner
                self._passed[inner] = [event for event in self._events if inner.passes(event.attributes)]

    def load(self, events: Events) -> None:
        """Whole events."""
        for i, id in enumerate(events.ids):
            self._remember(_Event(id, int(events.start[i]), int(events.end[i]), events.attributes(i)))

    def take(self, part: Part) -> set[str]:
        """The names of the rows that match; then remember."""
        found = {name for name, each in self._wanted.items() if self._matches(each.condition, part)}
        if part.phase == "START":
            event = self._running[part.id] = _Event(part.id, part.time, None, part.attributes)
            self._remember(event)
        else:
            self._running.pop(part.id).end = part.time
        return found

    def _remember(self, event: _Event) -> None:
        self._events.append(event)
        for inner, passed in self._passed.items():
            if inner.passes(event.attributes):
                passed.append(event)

    def _matches(self, condition: Inner | Operator, part: Part) -> bool:
        if isinstance(condition, Inner):
            return condition.passes(part.attributes)
        if condition.phase not in (None, part.phase):
            return False
        events = self._events if self._by_rows else self._passed[condition.inner]
        if condition.kind == "FILTER":
            assert condition.limit is not None
            events = events[-condition.limit :]
        return any(
            event.id != part.id and condition.inner.passes(event.attributes) and self._holds(condition, part, event)
            for event in reversed(events)
        )

    @staticmethod
    def _holds(operator: Operator, part: Part, event: _Event) -> bool:
        match operator.kind:
            case "FILTER":
                return bool(part.attributes["A"] < event.attributes["A"])
            case "DURING":
                return event.start <= part.time and (event.end is None or event.end >= part.time)
            case _:
                assert operator.limit is not None
                return event.end is not None and part.time - operator.limit <= event.end < part.time
