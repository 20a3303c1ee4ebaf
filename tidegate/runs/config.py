"""The TOML file of ``tidegate run``: what a pipeline reads, who subscribes, where notifications go.

``load`` reads and checks a file whole before anything is opened, and without Spark, so that commands that only want its
registry are quick. The classes here and in ``source_sections`` and ``sink_sections`` mirror the sections of the file;
each opens what it describes, unless that takes Spark (``pipeline/from_config.py``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import SettingError
from tidegate.runs.costs_section import CostsSection
from tidegate.runs.issuer_sections import IssuerSection, issuer_sections
from tidegate.runs.mqtt_section import MqttSection
from tidegate.runs.serve_section import ServeSection
from tidegate.runs.sink_sections import SINKS, CallbackOutput, HistoryOutput, KafkaOutput, Output
from tidegate.runs.source_sections import SOURCES, GeneratorInput, Input, KafkaInput, LogInput
from tidegate.runs.toml_sections import (
    KeyPosition,
    Kind,
    choice,
    count,
    directory,
    key,
    location,
    locations,
    number,
    number_or_off,
    port,
    runner,
    section,
    table,
    text,
    texts,
    truth,
    words,
)
from tidegate.runs.traces_section import TracesSection
from tidegate.runs.webhooks_section import WebhooksSection
from tidegate.store.data_directory import DataDirectory

if TYPE_CHECKING:
    from tidegate.runs.sources import Source
    from tidegate.store.registry import Registry

__all__ = ["OPTIONAL_SECTIONS", "SECTIONS", "Config", "load"]


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
    """A kind for a key that says how shapes are looked up; ``ShapeLookup``, which knows the choices, checks it."""

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
    """Users' own shapes, and how all shapes are looked up. The lookup changes speed only, never what matches."""

    file: str | None = key(location, None)
    transform: str = key(_choice_of("transform", text), "fft")
    structure: str = key(_choice_of("structure", text), "cascade")
    features: int = key(_choice_of("features", count), 10)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Load the shapes into this process, and set how shapes are looked up, while the context lasts."""
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
    """The files of the ontology that says what the terms in expressions mean."""

    files: tuple[str, ...] = key(locations, ())
    prefixes: Mapping[str, str] | None = key(words, None)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Load the files of this section into this process while the context lasts."""
        if not self.files:
            yield
            return
        from tidegate.ontologies.current import load, use

        with use(None):
            load(*self.files, prefixes=self.prefixes or {})
            yield


@dataclass(frozen=True)
class RunSection:
    """How the pipeline runs."""

    checkpoint: str = key(location)
    data: str | None = key(directory, None)
    runner: str = key(runner, "spark")
    quarantine: str | None = key(location, None)
    interval: float = key(number, 0.0)
    lateness: float = key(number, 5.0)
    ahead: float | None = key(number_or_off, None)
    patterns: bool = key(truth, True)
    clock: float = key(number, 0.0)
    combinations: int = key(count, 1_000)
    keep: float | None = key(number, None)
    horizon: float | None = key(number, None)
    metrics: tuple[str, int] | None = key(port, None)

    def settings(self, source: Source) -> dict[str, Any]:
        """The arguments of a run, on Spark or in process."""
        names = ("checkpoint", "quarantine", "interval", "lateness", "patterns", "clock", "combinations", "keep")
        ahead = self.allowed_ahead() if self.ahead is not None or source.dates else None
        return {**{name: getattr(self, name) for name in names}, "ahead": ahead}

    def allowed_ahead(self) -> float | None:
        """Seconds that publications may be dated ahead: if nothing is said a minute beyond the lateness."""
        if self.ahead is None:
            return self.lateness + _MINUTE
        return None if self.ahead == inf else self.ahead


#: What clocks that are set, though not well, differ by at most.
_MINUTE = 60.0


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
    "serve": ServeSection,
    "traces": TracesSection,
    "webhooks": WebhooksSection,
    "costs": CostsSection,
}
#: Those that say by being there that something is wanted.
OPTIONAL_SECTIONS = {"mqtt": MqttSection}


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
    serve: ServeSection
    traces: TracesSection
    webhooks: WebhooksSection
    costs: CostsSection
    issuers: tuple[IssuerSection, ...] = ()
    mqtt: MqttSection | None = None

    def made(self) -> DataDirectory | None:
        """The data directory of the run, which is made if need be; None if it has none."""
        if self.run.data is None:
            return None
        data = DataDirectory.made(self.run.data, self.run.runner)
        if self.run.horizon is not None:
            data.know_for(timedelta(seconds=self.run.horizon))
        return data

    @property
    def needs_kafka(self) -> bool:
        return any(isinstance(one, KafkaInput | KafkaOutput) for one in (self.source, *self.sinks))

    def find_functions(self) -> None:
        """Look up the Python functions that the file names, so that a mistake is seen before Spark is started."""
        for sink in self.sinks:
            if isinstance(sink, CallbackOutput):
                sink.function.find()


_Keys = Mapping[str, Mapping[str, Any]]


def load(file: Path, instead: _Keys | None = None, otherwise: _Keys | None = None) -> Config:
    """Read and check a file; the first mistake is an error that names its place. Instead of a file it may be a data
    directory, which is then all there is to say. ``instead`` has keys of sections that replace those of the file,
    ``otherwise`` those that hold where the file has none.
    """
    whole = KeyPosition(file, "")
    found = DataDirectory.found(file)
    given: dict[str, Any] = (
        _parsed(file) if found is None else {"run": {"data": str(found.path), "runner": found.runner}}
    )
    for name in {**(instead or {}), **(otherwise or {})}:
        said = table(given.get(name, {}), whole.key(name))
        given = {**given, name: {**(otherwise or {}).get(name, {}), **said, **(instead or {}).get(name, {})}}
    given = _with_data(given, whole)
    for name in given:
        known = ("source", "sinks", "issuers", *SECTIONS, *OPTIONAL_SECTIONS)
        choice(dict.fromkeys(known), name, KeyPosition(file, f"[{name}]"))
    at = whole.key("source")
    source = table(given.get("source", {}), at)
    kind = choice(SOURCES, _named(source, at), at.key("type"))
    sinks = given.get("sinks", [])
    if not isinstance(sinks, list) or not sinks:
        raise whole.key("sinks").wrong("at least one section [[sinks]]", sinks)
    parts: dict[str, Any] = {name: section(cls, given.get(name, {}), whole.key(name)) for name, cls in SECTIONS.items()}
    if "mqtt" in given:
        parts["mqtt"] = section(MqttSection, given["mqtt"], whole.key("mqtt")).checked(f"mqtt of {file}")
    found_sinks = tuple(_sink(one, whole.key(f"sinks[{number}]")) for number, one in enumerate(sinks))
    for place, sink in enumerate(found_sinks):
        if isinstance(sink, HistoryOutput):
            _check_history(kind, parts["run"], source["type"], whole.key(f"sinks[{place}]"))
    issuers = issuer_sections(given.get("issuers", []), whole.key("issuers"))
    return Config(file=file, source=section(kind, source, at, ("type",)), sinks=found_sinks, issuers=issuers, **parts)


def _check_history(kind: type[Input], run: RunSection, source: str, at: KeyPosition) -> None:
    """What a history has is read from a log, and is what patterns say."""
    if kind not in (LogInput, GeneratorInput):
        raise at.wrong("a log as source for a sink of type history", source)
    if not run.patterns:
        raise at.wrong("patterns = true for a sink of type history", run.patterns)


def _with_data(given: dict[str, Any], whole: KeyPosition) -> dict[str, Any]:
    """What is given, and for a run with a data directory the places in it where none others are given, and the runner
    that it was made for.
    """
    run = given.get("run")
    if not isinstance(run, dict) or "data" not in run:
        return given
    at = whole.key("run")
    where = Path(directory(run["data"], at.key("data")))
    there = DataDirectory.found(where) if "runner" not in run else None
    data = DataDirectory(where, runner(run.get("runner", "spark" if there is None else there.runner), at))
    places: dict[str, dict[str, Any]] = {
        "source": {} if "source" in given else {"type": "log", "path": str(data.log), "keep_seconds": _WEEK},
        "subscriptions": {"registry": str(data.registry)},
        "run": {"checkpoint": str(data.checkpoint), "quarantine": str(data.quarantine), "runner": data.runner},
    }
    filled = {name: _filled(given.get(name, {}), more) for name, more in places.items()}
    sinks: Any = given.get("sinks", [{"type": "queues"}])
    if isinstance(sinks, list):
        queues = {"path": str(data.queues)}
        sinks = [_filled(s, queues) if isinstance(s, dict) and s.get("type") == "queues" else s for s in sinks]
    return {**given, **filled, "sinks": sinks}


#: Seconds for which a data directory keeps publications that are done with.
_WEEK = 7 * 86_400


def _filled(given: Any, more: Mapping[str, Any]) -> Any:
    """A section with keys that it lacks; what is no section is left to be refused."""
    return {**more, **given} if isinstance(given, dict) else given


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
        raise SettingError("a TOML file or a data directory", error.strerror or str(error), str(file)) from None
    except UnicodeDecodeError as error:
        raise SettingError("text in UTF-8", f"the byte 0x{error.object[error.start]:02x}", str(file)) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError("TOML", str(error), str(file)) from None
