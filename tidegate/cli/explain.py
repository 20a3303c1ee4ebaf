"""``tidegate explain``: why a subscription does, or does not, match a publication."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.publication_files import publication
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.subscription_files import subscriptions as read
from tidegate.cli.text_records import text
from tidegate.engine import Engine
from tidegate.errors import PublicationError, TidegateError, UnknownSubscription, shown
from tidegate.model import Publication

__all__ = ["explain"]


def explain(
    subscriptions: Annotated[Path, typer.Argument(help="Subscriptions: .jsonl, .json, .csv, .cql2 or .txt.")],
    id: Annotated[str, typer.Argument(help="The id of the subscription; in a text file, its line.")],
    publication: Annotated[str, typer.Argument(help="A JSON object, @FILE with one, or - for standard input.")],
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Show whether each part of a subscription holds for a publication, and with which values.

    \b
    Example:
      tidegate explain subscriptions.jsonl s1 '{"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45}'
    """
    engine = Engine()
    for place, entry in read(subscriptions):
        if isinstance(entry, TidegateError) or entry.id != id:
            continue  # `tidegate check` shows mistakes elsewhere in the file
        try:
            engine.subscribe(entry)
        except TidegateError as error:
            error.at = f"{error.at}, {place}"
            raise
        break
    else:
        raise UnknownSubscription("the id of a subscription", shown(id), str(subscriptions))
    found = _publication(publication)
    explanation = engine.explain(id, found)
    yes, no = ("sees", "does not see") if explanation.has_pattern else ("matches", "does not match")
    typer.echo(f"{id} {yes if explanation.held else no} {found.id}")
    typer.echo(str(explanation))


def _publication(given: str) -> Publication:
    if given == "-":
        place = "standard input"
        given = text(sys.stdin.buffer.read(), place, PublicationError)
    elif given.startswith("@"):
        place = given[1:]
        given = text(Path(place).read_bytes(), place, PublicationError)
    else:
        place = "the argument PUBLICATION"
    try:
        record = orjson.loads(given)
    except orjson.JSONDecodeError as wrong:
        at = f"{place}, line {wrong.lineno}, column {wrong.colno}"
        raise PublicationError("a publication as a JSON object", f"{shown(given)}, where {wrong.msg}", at) from None
    if not isinstance(record, dict):
        raise PublicationError("a publication as a JSON object", shown(record), place)
    return publication(record, place)
