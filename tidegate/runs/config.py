"""The TOML file of ``tidegate run``: what a pipeline reads, who subscribes, where notifications go.

A file is read and checked whole before anything is opened, and without Spark, so that commands that only want its
registry are quick. The classes here mirror the sections of the file; each opens
what it describes, unless that takes Spark (``pipeline/from_config.py``).
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tidegate.errors import SettingError, shown
from tidegate.runs.publication_files import FORMATS
from tidegate.runs.toml_sections import (
    KeyPosition,
    Kind,
    choice,
    count,
    key,
    location,
    locations,
    number,
    port,
    section,
    seed,
    table,
    text,
    texts,
    truth,
    words,
)

if TYPE_CHECKING:
    from tidegate.runs.sinks import Sink
    from tidegate.runs.sources import Source
    from tidegate.store.registry import Registry

__all__ = ["SECTIONS", "SINKS", "SOURCES", "Config", "load"]


# --- sources --------------------------------------------------------------------------------------------------------


def _format(value: Any, at: KeyPosition) -> str:
    choice(FORMATS, value, at)
    return str(value)


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
    ends: ClassVar[bool] = True

    def open(self) -> Source:
        from tidegate.runs.sources import LogSource

        kept = _given(keep_seconds=self.keep_seconds, keep_bytes=self.keep_bytes)
        return LogSource(self.path, **_given(rows=self.rows, pieces=self.pieces), **kept)


@dataclass(frozen=True)
class FilesInput:
    """Files of a folder, and those that come to it later."""

    path: str = key(location)
    format: str | None = key(_format, None)
    files: int | None = key(count, None)
    ends: ClassVar[bool] = True

    def open(self) -> Source:
        from tidegate.runs.sources import FilesSource

        return FilesSource(self.path, **_given(format=self.format, files=self.files))


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
    ends: ClassVar[bool] = True

    def open(self) -> Source:
        from tidegate.runs.sources import KafkaSource

        return KafkaSource(self.servers, self.topic, **_given(starting=self.starting, options=self.options))


Input = LogInput | FilesInput | GeneratorInput | KafkaInput
SOURCES: dict[str, type[Input]] = {
    "log": LogInput,
    "files": FilesInput,
    "generator": GeneratorInput,
    "kafka": KafkaInput,
}


# --- sinks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParquetOutput:
    """Parquet files, a directory per batch."""

    path: str = key(location)
    grouped: bool = key(truth, True)

    def open(self) -> Sink:
        from tidegate.runs.parquet_sink import Parquet

        return Parquet(self.path, grouped=self.grouped)


@dataclass(frozen=True)
class ConsoleOutput:
    """A line of JSON per notification, on standard output."""

    def open(self) -> Sink:
        from tidegate.runs.sinks import Console

        return Console(sys.stdout)


@dataclass(frozen=True)
class SqlOutput:
    """The notification store in a database."""

    url: str = key(location)

    def open(self) -> Sink:
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

    def open(self) -> Sink:
        from tidegate.runs.sinks import Callback

        return Callback(self.function.find())


Output = ParquetOutput | ConsoleOutput | SqlOutput | KafkaOutput | CallbackOutput
SINKS: dict[str, type[Output]] = {
    "parquet": ParquetOutput,
    "console": ConsoleOutput,
    "sql": SqlOutput,
    "kafka": KafkaOutput,
    "callback": CallbackOutput,
}


# --- the rest -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubscriptionsSection:
    """Where the registry is, and the subscriptions to begin with."""

    registry: str = key(location)
    storage: str | None = key(location, None)
    file: str | None = key(location, None)

    def open(self) -> Registry:
        from tidegate.store.registry import Registry

        return Registry(self.registry, storage=self.storage)


def _choice_of(name: str, kind: Kind) -> Kind:
    """A choice of those that shapes can be looked up with, checked where they are known."""

    def checked(value: Any, at: KeyPosition) -> Any:
        from tidegate.shapes.sphere_group import ShapeLookup

        try:
            ShapeLookup(**{name: kind(value, at)}).checked()
        except SettingError as wrong:
            wrong.at = str(at)
            raise
        return value

    return checked


@dataclass(frozen=True)
class ShapesSection:
    """Users' own shapes, and what all shapes are looked up with, on which no answer depends."""

    file: str | None = key(location, None)
    transform: str = key(_choice_of("transform", text), "fft")
    structure: str = key(_choice_of("structure", text), "cascade")
    features: int = key(_choice_of("features", count), 10)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have this process know them for a while."""
        from tidegate.index.shapes import look_up_with
        from tidegate.shapes.named_shapes import load, use
        from tidegate.shapes.sphere_group import ShapeLookup

        with use():
            if self.file is not None:
                load(self.file)
            before = look_up_with(ShapeLookup(self.transform, self.structure, self.features))
            try:
                yield
            finally:
                look_up_with(before)


@dataclass(frozen=True)
class OntologySection:
    """What the terms mean that expressions name."""

    files: tuple[str, ...] = key(locations, ())
    prefixes: Mapping[str, str] | None = key(words, None)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have this process know them for a while."""
        if not self.files:
            yield
            return
        from tidegate.ontologies.current import load, use

        with use(None):
            load(*self.files, prefixes=self.prefixes or {})
            yield


@dataclass(frozen=True)
class RunSection:
    """How it runs."""

    checkpoint: str = key(location)
    quarantine: str | None = key(location, None)
    interval: float = key(number, 0.0)
    lateness: float = key(number, 5.0)
    patterns: bool = key(truth, True)
    clock: float = key(number, 0.0)
    combinations: int = key(count, 1_000)
    keep: float | None = key(number, None)
    metrics: tuple[str, int] | None = key(port, None)


@dataclass(frozen=True)
class SparkSection:
    """Where Spark runs, and with what."""

    master: str | None = key(text, None)
    memory: str | None = key(text, None)
    packages: tuple[str, ...] = key(texts, ())
    settings: Mapping[str, str] | None = key(words, None)


SECTIONS = {
    "subscriptions": SubscriptionsSection,
    "shapes": ShapesSection,
    "ontology": OntologySection,
    "run": RunSection,
    "spark": SparkSection,
}


@dataclass(frozen=True)
class Config:
    """The whole file."""

    file: Path
    source: Input
    subscriptions: SubscriptionsSection
    shapes: ShapesSection
    ontology: OntologySection
    sinks: tuple[Output, ...]
    run: RunSection
    spark: SparkSection

    @property
    def needs_kafka(self) -> bool:
        return any(isinstance(one, KafkaInput | KafkaOutput) for one in (self.source, *self.sinks))

    def find_functions(self) -> None:
        """Look up what is called by name: a mistake should be seen before Spark is started."""
        for sink in self.sinks:
            if isinstance(sink, CallbackOutput):
                sink.function.find()


def load(file: Path) -> Config:
    """Read and check a file; the first mistake is an error that names its place."""
    whole = KeyPosition(file, "")
    given = _parsed(file)
    for name in given:
        choice(dict.fromkeys(("source", "sinks", *SECTIONS)), name, KeyPosition(file, f"[{name}]"))
    at = whole.key("source")
    source = table(given.get("source", {}), at)
    kind = choice(SOURCES, _named(source, at), at.key("type"))
    sinks = given.get("sinks", [])
    if not isinstance(sinks, list) or not sinks:
        raise whole.key("sinks").wrong("at least one section [[sinks]]", sinks)
    parts: dict[str, Any] = {name: section(cls, given.get(name, {}), whole.key(name)) for name, cls in SECTIONS.items()}
    return Config(
        file=file,
        source=section(kind, source, at, ("type",)),
        sinks=tuple(_sink(one, whole.key(f"sinks[{number}]")) for number, one in enumerate(sinks)),
        **parts,
    )


def _sink(given: Any, at: KeyPosition) -> Output:
    kind = choice(SINKS, _named(table(given, at), at), at.key("type"))
    return section(kind, given, at, ("type",))


def _named(given: dict[str, Any], at: KeyPosition) -> Any:
    if "type" not in given:
        raise SettingError("a key type", f"only {', '.join(given)}" if given else "none", str(at.key("type")))
    return given["type"]


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise SettingError("a TOML file", error.strerror or str(error), str(file)) from None
    except UnicodeDecodeError as error:
        raise SettingError("text in UTF-8", f"the byte 0x{error.object[error.start]:02x}", str(file)) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError("TOML", str(error), str(file)) from None


def _given(**options: Any) -> dict[str, Any]:
    """The options that are there; for the others the source's own defaults hold."""
    return {name: value for name, value in options.items() if value is not None}
