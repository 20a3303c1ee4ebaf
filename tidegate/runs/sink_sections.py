"""The sections ``[[sinks]]`` of a TOML file: a class for each type of sink, with the keys it may have."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.errors import SettingError, shown
from tidegate.runs.toml_sections import KeyPosition, count, key, location, number, text, truth, words

if TYPE_CHECKING:
    from tidegate.runs.sinks import Sink
    from tidegate.runs.sources import Source
    from tidegate.store.registry import Registry

__all__ = [
    "SINKS",
    "CallbackOutput",
    "ConsoleOutput",
    "HistoryOutput",
    "KafkaOutput",
    "Output",
    "ParquetOutput",
    "QueuesOutput",
    "SqlOutput",
]


@dataclass(frozen=True)
class ParquetOutput:
    """Parquet files, a directory per batch."""

    path: str = key(location)
    grouped: bool = key(truth, True)

    def open(self, registry: Registry, source: Source) -> Sink:
        from tidegate.runs.parquet_sink import Parquet

        return Parquet(self.path, grouped=self.grouped)


@dataclass(frozen=True)
class ConsoleOutput:
    """A line of JSON per notification, on standard output."""

    def open(self, registry: Registry, source: Source) -> Sink:
        from tidegate.runs.sinks import Console

        return Console(sys.stdout)


@dataclass(frozen=True)
class SqlOutput:
    """The notification store in a database."""

    url: str = key(location)

    def open(self, registry: Registry, source: Source) -> Sink:
        from tidegate.runs.sinks import Sql

        return Sql(self.url)


@dataclass(frozen=True)
class KafkaOutput:
    """A topic, keyed by the ids of the notifications."""

    servers: str = key(text)
    topic: str = key(text)
    options: Mapping[str, str] | None = key(words, None)


class NamedFunction(NamedTuple):
    """A Python function by its name, and the folder that is searched first."""

    name: str
    at: KeyPosition

    def find(self) -> Callable[[int, Any], Any]:
        module, _, name = self.name.partition(":")
        folder = str(self.at.file.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise SettingError("a function that Python finds", f"{shown(self.name)} ({error})", str(self.at)) from None
        if not callable(found):
            raise SettingError("a function", f"{shown(self.name)}, a {type(found).__name__}", str(self.at))
        return found  # type: ignore[no-any-return]


def _function(value: Any, at: KeyPosition) -> NamedFunction:
    module, _, name = text(value, at).partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or not name.isidentifier():
        raise at.wrong('a function as "module:name"', value)
    return NamedFunction(value, at)


@dataclass(frozen=True)
class CallbackOutput:
    """A Python function that is called with the number of a batch and its notifications as an Arrow table."""

    function: NamedFunction = key(_function)  # noqa: RUF009  (it makes a field)

    def open(self, registry: Registry, source: Source) -> Sink:
        from tidegate.runs.sinks import Callback

        return Callback(self.function.find())


@dataclass(frozen=True)
class QueuesOutput:
    """A durable queue for each principal and destination, which they read, acknowledge, and read again."""

    path: str = key(location)
    most: int = key(count, 100_000)
    keep_seconds: float = key(number, 7 * 86_400.0)
    keep_bytes: int | None = key(count, None)
    valid: str | None = key(location, None)
    valid_bytes: int = key(count, 8 << 30)

    @property
    def valid_path(self) -> Path:
        """The directory of the valid set: beside the queues unless another is given."""
        return Path(self.valid or Path(self.path).with_name("valid"))

    def open(self, registry: Registry, source: Source) -> Sink:
        from tidegate.runs.queue_sink import QueueSink

        return QueueSink(
            self.path,
            registry,
            most=self.most,
            keep=timedelta(seconds=self.keep_seconds),
            size=self.keep_bytes,
            log=source.log_path,
            valid=self.valid_path,
            valid_bytes=self.valid_bytes,
        )


@dataclass(frozen=True)
class HistoryOutput:
    """The events of ``past`` patterns in a database, to be looked at. What they say is read from the log."""

    url: str = key(location)
    keep_seconds: float | None = key(number, None)
    most: int | None = key(count, None)

    def open(self, registry: Registry, source: Source) -> Sink:
        from tidegate.runs.history_sink import HistorySink

        keep = None if self.keep_seconds is None else timedelta(seconds=self.keep_seconds)
        if source.log_path is None:
            raise SettingError("a log as source for a sink of type history", source.identity)
        return HistorySink(self.url, source.log_path, keep=keep, most=self.most)


Output = ParquetOutput | ConsoleOutput | SqlOutput | KafkaOutput | CallbackOutput | QueuesOutput | HistoryOutput
SINKS: dict[str, type[Output]] = {
    "parquet": ParquetOutput,
    "console": ConsoleOutput,
    "sql": SqlOutput,
    "kafka": KafkaOutput,
    "callback": CallbackOutput,
    "queues": QueuesOutput,
    "history": HistoryOutput,
}
