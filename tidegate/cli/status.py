"""``tidegate status``: what is in a registry, which versions pipelines need, and the numbers of a pipeline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import orjson
import typer

from tidegate.cli.ago import ago
from tidegate.cli.live_status import rows
from tidegate.cli.queue import described
from tidegate.cli.registry_argument import Named, config, registry

if TYPE_CHECKING:
    from tidegate.runs.config import Config
    from tidegate.store.registry import Registry

__all__ = ["status"]

#: Queues that are shown, those furthest behind first.
_LONGEST = 5


def status(
    place: Named,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Show a registry: its version, its subscriptions, the pipelines that read it, its snapshots.

    Of a CONFIG file or a data directory also the numbers that its run wrote last, whether they are stale, and the
    queues: how much waits in them, and which are furthest behind. Of a broker also the subscriptions that cost most.

    \b
    Example:
      tidegate status valley.toml
    """
    facts = _registry(place)
    found = config(place)
    if found is not None:
        facts["run"] = _posted(found)
        facts["queues"] = _queues(found)
        facts["costs"] = _costs(found)
    if as_json:
        typer.echo(orjson.dumps(facts, option=orjson.OPT_UTC_Z))
        return
    typer.echo(f"{facts['subscriptions']:,} subscriptions at version {facts['version']:,}")
    kept = facts["snapshots"]
    if kept is not None:
        versions = f"versions {kept['oldest']:,} to {kept['version']:,}, " if kept["layers"] else ""
        typer.echo(f"{kept['layers']} index snapshots: {versions}{kept['bytes'] / 1e6:,.1f} MB")
    for reader in facts["readers"]:
        seen = f"seen {ago(reader['seen_at'])}"
        typer.echo(f"reader {reader['query']}: needs versions from {reader['needs']:,}, {seen}")
    if found is not None:
        _tell(facts["run"])
        _tell_queues(facts["queues"])
        _tell_costs(facts["costs"])


def _registry(place: str) -> dict[str, Any]:
    with registry(place) as source:
        readers = [reader._asdict() for reader in source.readers()]
        return {
            "version": source.version,
            "subscriptions": len(source),
            "readers": readers,
            "snapshots": _index_layers(source),
        }


class _LayersStatus(NamedTuple):
    """The layers of an index on disk."""

    layers: int
    oldest: int
    version: int
    bytes: int


def _index_layers(source: Registry) -> dict[str, int] | None:
    """The layers of the registry's index on disk; None if the registry does not know where they are."""
    from pyarrow import fs

    from tidegate.store.index_layers import IndexLayers

    if source.storage is None:
        return None
    remote = "://" in source.storage
    files, root = fs.FileSystem.from_uri(source.storage) if remote else (fs.LocalFileSystem(), source.storage)
    found = files.get_file_info(fs.FileSelector(os.fspath(root), allow_not_found=True, recursive=True))
    manifest = IndexLayers(source.storage).current() if found else None  # ``IndexLayers`` would make the directory
    if manifest is None:
        return _LayersStatus(0, 0, 0, 0)._asdict()
    size = sum(info.size for info in found if info.is_file)
    return _LayersStatus(len(manifest.layers), manifest.oldest, manifest.version, size)._asdict()


def _posted(config: Config) -> dict[str, Any] | None:
    """The numbers that a run wrote last; ``lag`` is how many rows of its log are not done yet."""
    from tidegate.runs.status_file import posted

    found = posted(config.run.checkpoint)
    if found is None:
        return None
    facts = {"at": found.at, "process": found.process, "query": found.query, "stale": found.is_stale}
    row = found.numbers.get("row", -1)
    return facts | found.numbers | {"lag": max(0, _end(config) - row) if row >= 0 else None}


def _end(config: Config) -> int:
    """Where the log of a run ends; 0 if its source is none."""
    from tidegate.runs.source_sections import GeneratorInput, LogInput
    from tidegate.store.log import Log

    if not isinstance(config.source, LogInput | GeneratorInput):
        return 0
    with Log(config.source.path, create=False) as log:
        return log.end


def _queues(found: Config) -> dict[str, Any] | None:
    """How many queues there are, how much waits in them, and which are furthest behind; None if there are none."""
    from tidegate.broker.open_queues import OpenQueues, has_queues

    if not has_queues(found):
        return None
    with OpenQueues(found.file) as queues:
        waiting, longest = queues.furthest_behind(_LONGEST)
        facts = {"queues": len(queues), "bytes": queues.nbytes, "waiting": waiting}
        return {**facts, "furthest_behind": [state._asdict() for state in longest]}


def _tell_queues(facts: dict[str, Any] | None) -> None:
    from tidegate.broker.open_queues import QueueState

    if facts is None:
        return
    size = f"{facts['bytes'] / 1e6:,.1f} MB"
    many = "queue" if facts["queues"] == 1 else "queues"
    typer.echo(f"{facts['queues']:,} {many} of {size}: {facts['waiting']:,} deliveries wait to be acknowledged")
    for state in facts["furthest_behind"]:
        typer.echo(f"  {described(QueueState(**state))}")


def _costs(found: Config) -> dict[str, Any] | None:
    """The subscriptions and principals that cost most, of a data directory of a broker."""
    from tidegate.broker.shown_costs import costs_shown
    from tidegate.store.costs import Costs

    return None if found.run.data is None else costs_shown(Costs(Path(found.run.data, "costs.db")))


def _tell_costs(facts: dict[str, Any] | None) -> None:
    from tidegate.broker.shown_costs import cost_lines

    for line in cost_lines(facts) if facts is not None else ():
        typer.echo(line)


def _tell(facts: dict[str, Any] | None) -> None:
    if facts is None:
        typer.echo("no run yet")
        return
    stale = "; STALE: it has not said anything since, so it was killed or its machine is gone" if facts["stale"] else ""
    typer.echo(f"run {facts['query']} in process {facts['process']}, {ago(facts['at'])}{stale}")
    for name, value in rows(facts):
        typer.echo(f"  {name:<16} {value}")
    if facts["lag"] is not None:
        typer.echo(f"  {'lag':<16} {facts['lag']:,} publications")
