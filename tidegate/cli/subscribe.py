"""``tidegate subscribe``: adds subscriptions to a registry, which pipelines use from then on."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import orjson
import typer

from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.registry_argument import Named, config, registry
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.subscription_files import read, subscription
from tidegate.errors import SettingError, SubscriptionError, TidegateError, shown
from tidegate.model import Subscription

__all__ = ["subscribe"]


def subscribe(
    place: Named,
    file: Annotated[Path | None, typer.Argument(help="Subscriptions: .jsonl, .json, .csv, .cql2 or .txt.")] = None,
    id: Annotated[str | None, typer.Option(help="Instead of a file: the id of one subscription,")] = None,
    subscriber: Annotated[str | None, typer.Option(help="its subscriber,")] = None,
    where: Annotated[str | None, typer.Option(help="its expression in CQL2, or in CQL2-JSON,")] = None,
    active_from: Annotated[str | None, typer.Option(help="and from when it is active (ISO 8601),")] = None,
    active_until: Annotated[str | None, typer.Option(help="and until when.")] = None,
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Add subscriptions to a registry: all of a file, or one. Either all are taken or none.

    They hold for every publication that appears after this command has returned, also in pipelines that are running.
    Shapes of your own that they name are those of --shapes and, of a CONFIG file, those of its section [shapes]. What
    terms of an ontology mean says --ontology or, if that is not given, the section [ontology] of a CONFIG file. Both
    are written out: pipelines need to know neither.

    \b
    Example:
      tidegate subscribe registry.db --id s1 --subscriber ann --where "no2 > 40"
    """
    fields = {"id": id, "subscriber": subscriber, "where": where}
    fields |= {"active_from": active_from, "active_until": active_until}
    given = {name: value for name, value in fields.items() if value is not None}
    if file is not None and given:
        raise SettingError("a file, or the fields of one subscription", f"both {file} and --{next(iter(given))}")
    if file is None and not given:
        raise SettingError("a file, or --id, --subscriber and --where", "neither")
    found = read(file) if file is not None else [_one(given)]
    pipeline = config(place)
    with (
        pipeline.shapes.used() if pipeline else nullcontext(),
        pipeline.ontology.used() if pipeline and not ontology else nullcontext(),
        registry(place, create=True) as target,
    ):
        version = target.subscribe(*found)
        typer.echo(f"{_counted(len(found))} added; version {version:,}, {_counted(len(target))} in all")


def _one(given: dict[str, str]) -> Subscription:
    record: dict[str, object] = dict(given)
    if given.get("where", "").lstrip().startswith("{"):
        try:
            record["where"] = orjson.loads(given["where"])
        except orjson.JSONDecodeError as wrong:
            raise SubscriptionError("CQL2-JSON as --where", f"{shown(given['where'])}, where {wrong.msg}") from None
    try:
        return subscription(record)
    except TidegateError as error:
        error.at = error.at or "the options"
        raise


def _counted(number: int) -> str:
    return f"{number:,} subscription{'' if number == 1 else 's'}"
