"""What the supervisor of a broker writes down of it, in ``DIR/run/broker.json``: its processes, and since when it is
ready. Gateways read it for ``/readyz``, metrics and status; so may other programs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tidegate.errors import StoreError
from tidegate.store.data_directory import DataDirectory

__all__ = ["RUNNER", "BrokerRecord", "ProcessRecord"]

#: The name of the process that runs batches; gateways are called ``gateway 1``, ``gateway 2`` …
RUNNER = "runner"
_NAME, _FORMAT = "broker.json", 1


@dataclass(frozen=True)
class ProcessRecord:
    """A process of a broker. ``process`` is its id, None while it is down; times are µs since 1970."""

    name: str
    process: int | None
    starts: int
    since: int


@dataclass(frozen=True)
class BrokerRecord:
    """A broker that runs. ``ready_at`` is when publications were matched and delivered first, None before."""

    supervisor: int
    address: str
    began_at: int
    ready_at: int | None
    processes: tuple[ProcessRecord, ...]

    def process(self, name: str) -> ProcessRecord | None:
        """The process of that name."""
        return next((one for one in self.processes if one.name == name), None)

    def write(self, data: DataDirectory) -> None:
        """Put it in place of what is there. A full disk keeps nobody from running: what is there then stays."""
        aside = data.run / f".{_NAME}"
        with suppress(OSError):
            aside.write_bytes(orjson.dumps({"format": _FORMAT, **asdict(self)}))
            os.replace(aside, data.run / _NAME)

    @staticmethod
    def read(data: DataDirectory) -> BrokerRecord | None:
        """What the last broker on a data directory wrote; None if there was none."""
        where = data.run / _NAME
        try:
            return _parsed(orjson.loads(where.read_bytes()), where)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, StoreError):
                raise
            got = f"{type(error).__name__}: {error}"
            raise StoreError("the record of a broker", got, str(where)) from None

    @staticmethod
    def remove(data: DataDirectory) -> None:
        """Remove it: the broker has ended."""
        (data.run / _NAME).unlink(missing_ok=True)


def _parsed(facts: dict[str, Any], where: Path) -> BrokerRecord:
    if (found := facts.pop("format")) != _FORMAT:
        raise StoreError(f"the record of a broker in format {_FORMAT}", f"format {found}", str(where))
    processes = tuple(ProcessRecord(**one) for one in facts.pop("processes"))
    return BrokerRecord(**facts, processes=processes)
