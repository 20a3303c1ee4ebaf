"""Rounds in which rivals take turns, so that what disturbs the machine disturbs all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.harness import timed

__all__ = ["interleaved"]


def interleaved(rivals: Mapping[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each rival's calls, and what it found in the one before them, which warms up.

    Every round begins with another rival, since the first one finds the caches as the last one left them.
    """
    found = {name: work() for name, work in rivals.items()}
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    names = list(rivals)
    for r in range(rounds):
        turn = r % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(timed(rivals[name])[0])
    return seconds, found
