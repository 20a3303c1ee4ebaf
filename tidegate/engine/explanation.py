"""``Explanation``: why a subscription did, or did not, match, as a tree of verdicts that prints itself.

``engine/explain.py`` makes it. It is plain data: ``to_json`` gives JSON values and ``str`` the text for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

from tidegate.model import Notification

__all__ = ["Explanation"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node of an expression, and the nodes below."""

    text: str
    held: bool
    """Whether the node held. A pattern held if the publication itself raises a notification when it comes."""
    values: dict[str, Any]
    """The attributes that the node looked at; None for those that are missing."""
    parts: tuple[Explanation, ...] = ()
    """The nodes below; of a pattern, its filters."""
    is_pattern: bool = False
    reason: str | None = None
    """Of a pattern: why, from what patterns remember."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The numbers, ids and times behind the reason, as JSON values. The language page lists them for each pattern."""
    told: tuple[Notification, ...] = ()
    """Of the whole expression, if it has a pattern: all that the subscriber would be told when the publication comes,
    also of other publications, as the clock moves."""

    @property
    def has_pattern(self) -> bool:
        """Whether a pattern is among the nodes."""
        return self.is_pattern or any(part.has_pattern for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values: times as text in UTC, points as ``{"lon": …, "lat": …}``."""
        told = [{**n._asdict(), "time": _plain(n.time), "publications": list(n.publications)} for n in self.told]
        return {
            "text": self.text,
            "held": self.held,
            "values": {name: _plain(value) for name, value in self.values.items()},
            "is_pattern": self.is_pattern,
            "reason": self.reason,
            "facts": self.facts,
            "parts": [part.to_json() for part in self.parts],
            "told": told,
        }

    def __str__(self) -> str:
        return "\n".join((*self._lines(""), *map(_line, self.told)))

    def _lines(self, indent: str) -> Iterator[str]:
        seen = ", ".join(f"{name} is {_shown(value)}" for name, value in self.values.items())
        why = "; ".join(filter(None, (seen, self.reason)))
        yield f"{indent}{'✓' if self.held else '✗'} {self.text}" + (f"   — {why}" if why else "")
        for part in self.parts:
            yield from part._lines(indent + "  ")


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    return str(_plain(value)) if isinstance(value, date) else repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return {"lon": value[0], "lat": value[1]}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not isfinite(value):  # a gap of a series
        return None
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def _line(told: Notification) -> str:
    """A notification as the timelines of the language page have it."""
    more = [f" {name} {x:.6g}" for name, x in (("score", told.score), ("distance", told.distance)) if x is not None]
    return f"→ {_plain(told.time)} ({', '.join(told.publications)}){''.join(more)}"
