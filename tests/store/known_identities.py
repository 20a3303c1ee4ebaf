"""The oracle of the id index: a log as a list, and what is known of it, in obvious loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.model import Publication, micros

__all__ = ["KnownLog"]


@dataclass
class _Row:
    """A row of the log; of a tombstone only until when it counts matters, which is never."""

    publication: Publication | None
    has_made_time: bool
    stamp: int
    until: int
    is_withdrawn: bool = False
    is_in_the_log: bool = True


def _said(row: Publication, has_made_time: bool) -> tuple[Any, ...]:
    """What a publication says, with numbers that are equal made the same."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        return ("number", value) if isinstance(value, int | float) and not isinstance(value, bool) else (None, value)

    attributes = {name: plain(value) for name, value in row.attributes.items() if value is not None}
    time = None if has_made_time else row.time
    return time, row.start, row.end, row.location, row.valid_until, attributes


@dataclass
class KnownLog:
    """What a log with identities must do. Times are in µs."""

    horizon: int
    rows: list[_Row] = field(default_factory=list)

    def _known(self, source: str, id: str, now: int) -> list[int]:
        """The rows of all phases that count, by source and id."""
        found = []
        for number, row in enumerate(self.rows):
            one = row.publication
            if one is not None and (one.source, one.id) == (source, id) and row.until > now:
                found.append(number)
        return found

    def append(
        self, publications: list[Publication], made: set[int], now: int
    ) -> tuple[int, int, int, tuple[int, ...]]:
        accepted, duplicates, conflicts = 0, 0, []
        for place, one in enumerate(publications):
            known = [
                number
                for number in self._known(one.source, one.id, now)
                if self.rows[number].publication.phase == one.phase
            ]
            if not known:
                until = now + self.horizon
                if one.valid_until is not None:
                    until = max(until, micros(one.valid_until))
                self.rows.append(_Row(one, place in made, now, until))
                accepted += 1
                continue
            (number,) = known
            row = self.rows[number]
            is_same = _said(row.publication, row.has_made_time) == _said(one, place in made)
            if is_same or not row.is_in_the_log:
                duplicates += 1
            else:
                conflicts.append(place)
        return len(self.rows), accepted, duplicates, tuple(conflicts)

    def unpublish(self, pairs: list[tuple[str, str]], now: int) -> list[bool]:
        found, graves = [], []
        for source, id in pairs:
            standing = [number for number in self._known(source, id, now) if not self.rows[number].is_withdrawn]
            for number in standing:
                self.rows[number].is_withdrawn = True
            found.append(bool(standing))
            if standing:
                graves.append((source, id, standing))
        for _ in graves:
            self.rows.append(_Row(None, False, now, 0))
        return found

    def drop(self, before: int) -> None:
        for row in self.rows[:before]:
            row.is_in_the_log = False

    def make_again(self) -> None:
        """An index that is made again knows what is in the log."""
        for row in self.rows:
            if not row.is_in_the_log:
                row.until = 0
