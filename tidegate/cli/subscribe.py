"""``tidegate subscribe``: adds subscriptions to a registry, which pipelines use from then on, or to a broker."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from tidegate.cli.broker_option import CaFile, OfBroker, TokenFile, connection, expect_no_place
from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.registry_argument import PerhapsNamed, config, named, registry
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.subscription_files import read, subscription
from tidegate.errors import SettingError, SubscriptionError, TidegateError, shown
from tidegate.model import Subscription

if TYPE_CHECKING:
    from tidegate.client.answers import ManySubscribed

__all__ = ["subscribe"]

#: Stands for the principal of the token, whose name a client does not know; it is not sent.
_CALLER = "caller"


def subscribe(
    place: PerhapsNamed = None,
    file: Annotated[Path | None, typer.Argument(help="Subscriptions: .jsonl, .json, .csv, .cql2 or .txt.")] = None,
    id: Annotated[str | None, typer.Option(help="Instead of a file: the id of one subscription,")] = None,
    subscriber: Annotated[str | None, typer.Option(help="its subscriber,")] = None,
    where: Annotated[str | None, typer.Option(help="its expression in CQL2, or in CQL2-JSON,")] = None,
    active_from: Annotated[str | None, typer.Option(help="and from when it is active (ISO 8601),")] = None,
    active_until: Annotated[str | None, typer.Option(help="and until when.")] = None,
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
    broker: OfBroker = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Add subscriptions to a registry: all of a file, or one. Either all are taken or none.

    They hold for every publication that appears after this command has returned, also in pipelines that are running.
    Shapes of your own that they name are those of --shapes and, of a CONFIG file, those of its section [shapes]. What
    terms of an ontology mean says --ontology or, if that is not given, the section [ontology] of a CONFIG file. Both
    are written out: pipelines need to know neither.

    With --broker, and no REGISTRY, they are subscriptions of the token's principal, whatever subscriber is named. Each
    is taken or refused by itself; if any is refused the exit code is 1.

    \b
    Example:
      tidegate subscribe registry.db --id s1 --subscriber ann --where "no2 > 40"
    """
    if broker is not None:
        file = _only_file(place, file)
    fields = {"id": id, "subscriber": subscriber, "where": where}
    fields |= {"active_from": active_from, "active_until": active_until}
    given = {name: value for name, value in fields.items() if value is not None}
    if file is not None and given:
        raise SettingError("a file, or the fields of one subscription", f"both {file} and --{next(iter(given))}")
    if file is None and not given:
        raise SettingError("a file, or --id, --subscriber and --where", "neither")
    if broker is not None:
        with connection(broker, token_file, ca, "tidegate subscribe --broker") as client:
            _tell(client.subscribe_all(_given(file, {"subscriber": _CALLER, **given}, _CALLER)))
        return
    place = named(place)
    found = _given(file, given)
    pipeline = config(place)
    with (
        pipeline.shapes.used() if pipeline else nullcontext(),
        pipeline.ontology.used() if pipeline and not ontology else nullcontext(),
        registry(place, create=True) as target,
    ):
        version = target.subscribe(*found)
        typer.echo(f"{_counted(len(found))} added; version {version:,}, {_counted(len(target))} in all")


def _only_file(place: str | None, file: Path | None) -> Path | None:
    """The file, which is the only argument beside a broker."""
    if file is not None:
        expect_no_place(place, "a registry")
    return None if place is None else Path(place)


def _given(file: Path | None, given: dict[str, str], subscriber: str | None = None) -> list[Subscription]:
    return read(file, subscriber) if file is not None else [_one(given)]


def _tell(answer: ManySubscribed) -> None:
    for doubts in answer.warnings.values():
        for doubt in doubts:
            typer.echo(f"tidegate: warning: {doubt}", err=True)
    told = f"{_counted(answer.made)} added"
    if answer.same:
        told += f", {answer.same:,} were there already"
    typer.echo(told)
    for one in answer.refused:
        typer.echo(f"tidegate: subscription {one.index + 1}: {one.detail}", err=True)
    if answer.refused:
        raise typer.Exit(1)


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
