"""The section ``[source]`` of a TOML file: a class for each type of source, with the keys it may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.errors import SettingError
from tidegate.runs.publication_files import FORMATS
from tidegate.runs.toml_sections import KeyPosition, choice, count, key, location, number, seed, text, words
from tidegate.time_zones import TimeZone

if TYPE_CHECKING:
    from tidegate.runs.sources import Source

__all__ = ["SOURCES", "FilesInput", "GeneratorInput", "Input", "KafkaInput", "LogInput"]


def _format(value: Any, at: KeyPosition) -> str:
    choice(FORMATS, value, at)
    return str(value)


def _timezone(value: Any, at: KeyPosition) -> str:
    try:
        return TimeZone(text(value, at)).name
    except SettingError:
        raise at.wrong("an IANA name such as Europe/Zurich, or an offset such as +01:00", value) from None


def _rate(value: Any, at: KeyPosition) -> float:
    if not (found := number(value, at)):
        raise at.wrong("a number above 0", value)
    return found


@dataclass(frozen=True)
class LogInput:
    """The durable local log that publishers append to."""

    path: str = key(location)
    rows: int | None = key(count, None)
    pieces: int | None = key(count, None)
    keep_seconds: float | None = key(number, None)
    keep_bytes: int | None = key(count, None)
    starting: str | None = key(text, None)
    ends: ClassVar[bool] = True

    def open(self) -> Source:
        from tidegate.runs.sources import LogSource

        kept = _given(keep_seconds=self.keep_seconds, keep_bytes=self.keep_bytes, starting=self.starting)
        return LogSource(self.path, **_given(rows=self.rows, pieces=self.pieces), **kept)


@dataclass(frozen=True)
class FilesInput:
    """Files of a folder, and those that come to it later."""

    path: str = key(location)
    format: str | None = key(_format, None)
    files: int | None = key(count, None)
    timezone: str | None = key(_timezone, None)
    ends: ClassVar[bool] = True

    def open(self) -> Source:
        from tidegate.runs.sources import FilesSource

        return FilesSource(self.path, **_given(format=self.format, files=self.files, timezone=self.timezone))


@dataclass(frozen=True)
class GeneratorInput:
    """The valley of the demo, at a steady rate."""

    path: str = key(location)
    seed: int | None = key(seed, None)
    rate: float | None = key(_rate, None)
    publications: int | None = key(count, None)
    rows: int | None = key(count, None)
    ends: ClassVar[bool] = False

    def open(self) -> Source:
        from tidegate.runs.sources import GeneratorSource

        options = _given(seed=self.seed, rate=self.rate, publications=self.publications, rows=self.rows)
        return GeneratorSource(self.path, **options)


@dataclass(frozen=True)
class KafkaInput:
    """A topic whose values are publications in JSON."""

    servers: str = key(text)
    topic: str = key(text)
    starting: str | None = key(text, None)
    options: Mapping[str, str] | None = key(words, None)
    timezone: str | None = key(_timezone, None)
    ends: ClassVar[bool] = True

    def open(self) -> Source:
        from tidegate.runs.sources import KafkaSource

        options = _given(starting=self.starting, options=self.options, timezone=self.timezone)
        return KafkaSource(self.servers, self.topic, **options)


Input = LogInput | FilesInput | GeneratorInput | KafkaInput
SOURCES: dict[str, type[Input]] = {
    "log": LogInput,
    "files": FilesInput,
    "generator": GeneratorInput,
    "kafka": KafkaInput,
}


def _given(**options: Any) -> dict[str, Any]:
    """The options that are not None; for the others the source has defaults of its own."""
    return {name: value for name, value in options.items() if value is not None}
