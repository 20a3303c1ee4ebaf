"""Events as a history is given them, and as it replays them."""

from __future__ import annotations

from tidegate.store import History
from tidegate.store.history import BegunEvent, EndedEvent, RefusedEvent, ReplayedPublication

KEY, OTHER_KEY = bytes(range(240, 256)), bytes(16)
LEAST, MOST = -(2**63), 2**63 - 1


def first(seq: int, id: str | None = None, phase: str | None = None, **fields) -> BegunEvent:
    """A publication at second ``seq`` that begins an event."""
    when = seq * 1_000_000
    end = None if phase == "START" else when
    return BegunEvent(seq, id or f"e{seq}", "z7", phase, when, when, end, f'{{"n":{seq}}}')._replace(**fields)


def end(seq: int, of: int, **fields) -> EndedEvent:
    return EndedEvent(of, seq, seq * 1_000_000, seq * 1_000_000, f'{{"m":{seq}}}')._replace(**fields)


def refusal(number: int, reason: str = "second start") -> RefusedEvent:
    return RefusedEvent(reason, f"e{number}", "START", number, f'{{"n":{number}}}')


def heard(one: BegunEvent) -> ReplayedPublication:
    return ReplayedPublication(one.seq, one.seq, *one[1:])


def replayed(history: History, size: int = 50_000) -> list[ReplayedPublication]:
    chunks = list(history.replay(size))
    assert all(0 < len(chunk) <= size for chunk in chunks)
    return [one for chunk in chunks for one in chunk]
