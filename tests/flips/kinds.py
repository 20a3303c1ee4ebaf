"""The files whose bits are flipped, and what they must answer: that, or an error of ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tidegate as tg
from tidegate.store import log_tail
from tidegate.store.log import read

__all__ = ["KINDS", "FlippedKind"]

TIME = datetime(2026, 11, 15, 8, tzinfo=UTC)


def reading(number: int, **attributes: Any) -> tg.Publication:
    return tg.Publication(f"p{number}", "north", TIME + timedelta(seconds=number), attributes, location=(16, 46))


class FlippedKind(ABC):
    """One kind of file."""

    @abstractmethod
    def write(self, directory: Path) -> None:
        """Write a small one."""

    @abstractmethod
    def answers(self, directory: Path) -> list[Any]:
        """What it says. May end with an error, after the first of its answers."""


class LogSegments(FlippedKind):
    """Two segments with frames of several columns."""

    def write(self, directory: Path) -> None:
        with tg.Log(directory, segment_bytes=3000) as log:
            for number in range(6):
                log.append([reading(number, n=number / 4, name="Žabnica"), reading(10 + number, list=[1.5, 2.5])])

    def answers(self, directory: Path) -> list[Any]:
        sync, log_tail._sync = log_tail._sync, lambda _: None  # mending an index waits for the disk
        try:
            with tg.Log(directory, create=False) as log:
                found = [frame for part in log.slices(0, log.end, 2) for frame in read(part)]
                rows = [(f.first_row, f.version, f.batch.to_pylist()) for f in found]
                return [*rows, log.end]
        finally:
            log_tail._sync = sync


class Snapshot(FlippedKind):
    """An engine with ranges, texts, places, bags, shapes and patterns that remember something."""

    where = (
        "n > 1 AND n < 3",
        "name = 'east' OR name LIKE 'w%'",
        "S_DWITHIN(location, POINT(16 46), 500) AND n > 2",
        "S_WITHIN(location, POLYGON((15 45, 18 45, 16 49, 15 45)))",
        "A_CONTAINEDBY(bag, (1, 2, 3))",
        "shape(curve, (1, 2, 4, 3)) <= 0.5",
        "topk(2, 'PT1M', n)",
        "together('PT10S', n > 3, name = 'east')",
        "n > 2 AND T_AFTER(start, past(n < 2, 'PT1M'))",
    )

    def write(self, directory: Path) -> None:
        with tg.Engine([tg.Subscription(f"s{i}", "ann", where) for i, where in enumerate(self.where)]) as engine:
            engine.publish([reading(number, n=float(number), name="east") for number in range(4)])
            engine.save(directory)

    def answers(self, directory: Path) -> list[Any]:
        with tg.Engine.load(directory) as engine:
            later = [
                reading(5, n=4.5),
                reading(6, name="west", bag=[1, 2]),
                reading(7, curve=[1.0, 2.0, 4.0, 3.1]),
                reading(60, n=2.5),
            ]
            return [list(engine), engine.publish(later)]


KINDS: dict[str, FlippedKind] = {"log": LogSegments(), "snapshot": Snapshot()}
