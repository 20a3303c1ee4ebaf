"""A data directory with a log and a registry, whose subscriptions are measured in the process of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import tidegate as tg
from tidegate.broker.cost_meter import CostMeter
from tidegate.runs.config import Config, load
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log import Log

__all__ = ["CLOCK", "CostWorld", "costly", "loaded", "publications"]

CLOCK = 1_794_000_000_000_000
_BEGIN = datetime(2026, 11, 15, 8, tzinfo=UTC)


def publications(count: int, **more: object) -> list[tg.Publication]:
    """Publications with nine numbers, a text, a series and a term, a tenth of a second apart."""
    return [
        tg.Publication(
            f"p{n}",
            f"z{n % 7}",
            _BEGIN + timedelta(seconds=n / 10),
            {
                **{f"a{k}": (n * (k + 3) * 7919) % 101 for k in range(9)},
                "b": n % 11,
                "text": f"reading {n} of the station in the valley",
                "series": [float((n + k) % 5) for k in range(8)],
                "kind": "http://e.org/oak",
                **more,
            },
            location=(16 + n % 7 / 100, 46),
        )
        for n in range(count)
    ]


def costly(id: str, subscriber: str = "bob") -> tg.Subscription:
    """A subscription that takes far longer than a comparison."""
    return tg.Subscription(id, subscriber, "together('PT30S', 20000, a1 > 40, a2 > 50, a3 > 50)")


class CostWorld(NamedTuple):
    """A data directory, opened."""

    config: Config
    data: DataDirectory
    registry: tg.Registry
    log: Log

    def meter(self, **more: object) -> CostMeter:
        return CostMeter(self.config, self.data, **more)


@contextmanager
def loaded(directory: Path, rows: int = 600, text: str = "") -> Iterator[CostWorld]:
    """One whose log has so many publications; its TOML file has these lines more."""
    file = directory / "service.toml"
    file.write_text(f'[run]\ndata = "data"\nrunner = "process"\n{text}')
    config = load(file)
    data = config.made()
    with config.subscriptions.open() as registry, data.open_log(version=lambda: registry.version) as log:
        if rows:
            log.append(publications(rows))
        yield CostWorld(config, data, registry, log)
