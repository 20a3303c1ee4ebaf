"""How long a silence of ``absent`` has lasted and when it is told, in words and as facts.

``Absent.reason`` reads the watch from its state; nothing here knows where it is kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tidegate.patterns.reason import Reason, lasting, when

__all__ = ["Silence", "silence_reason"]


class Silence(NamedTuple):
    """The watch of a subscription, or of one source of it: what it heard last, and whether its silence was told."""

    since: int
    last: str | None
    """The id of the publication that was heard last."""
    is_told: bool


def silence_reason(silence: Silence | None, window: int, end: int, time: int, hears: bool) -> Reason:
    """What a publication of that time does to a silence; ``hears`` if it passes the filter, ``end`` the last moment
    at which anything is told. No publication is told of as it comes: silence is, later.
    """
    parts = []
    facts: dict[str, Any] = {"silent_since": None, "last": None, "due": None, "told": False}
    if silence is not None:
        due = silence.since + window
        facts |= {"silent_since": when(silence.since), "last": silence.last, "due": when(due)}
        facts["told"] = silence.is_told or due <= min(time, end)
        parts.append(_now(silence, due, end, time))
        if time < silence.since:
            hears = False
            parts.append("it comes before the moment from which silence counts")
    elif not hears:
        parts.append("nothing is watched yet")
    if hears:
        due = time + window
        facts["next_due"] = when(due)
        never = ", which is after the subscription's end" if due > end else " unless another comes"
        parts.append(f"from it silence counts anew, and is told at {when(due)}{never}")
    return Reason("; ".join(parts), facts, False)


def _now(silence: Silence, due: int, end: int, time: int) -> str:
    """How a silence stands when the clock gets to that time."""
    since = f"silent since {when(silence.since)}" + (f" ({silence.last})" if silence.last else "")
    if silence.is_told:
        return f"{since}, told at {when(due)}"
    if due > end:
        return f"{since}, never told, as the subscription ends before {when(due)}"
    if due <= time:
        return f"{since}, told at {when(due)} as the clock gets there"
    return f"{since}, told in {lasting(due - time)}, at {when(due)}"
