"""``tidegate check``: every subscription of a file, and what is wrong with it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.subscription_files import subscriptions
from tidegate.covering import is_never
from tidegate.engine import Engine
from tidegate.errors import SubscriptionWarning, TidegateError
from tidegate.language import DEFAULT_LIMITS
from tidegate.subscriptions import compile_subscription
from tidegate.subscriptions.doubts import is_contradictory

__all__ = ["check"]


def check(
    file: Annotated[Path, typer.Argument(help="Subscriptions: .jsonl, .json, .csv, .cql2 or .txt.")],
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Check a file of subscriptions and show every mistake in it.

    JSON and CSV have the fields id, subscriber, where (CQL2 text or CQL2-JSON) and, if wanted, active_from and
    active_until. In a text file each line is an expression, its number is the id, and # starts a comment. The exit
    code is 1 if any subscription cannot be taken.

    \b
    Example:
      tidegate check subscriptions.jsonl
    """
    engine = Engine()
    wrong = never = 0
    for place, entry in subscriptions(file):
        try:
            if isinstance(entry, TidegateError):
                raise entry
            with warnings.catch_warnings(record=True) as doubts:
                warnings.simplefilter("always", SubscriptionWarning)
                engine.subscribe(entry)
        except TidegateError as error:
            wrong += 1
            if str(place) in error.at:
                error.at = error.at.removeprefix(str(place)).removeprefix(", ")
            typer.echo(f"{place}: {error.code} error: {error}", err=True)
        else:
            found = compile_subscription(entry, DEFAULT_LIMITS)
            for doubt in doubts:
                typer.echo(f"{place}: warning: {doubt.message}", err=True)
            if is_never(found):
                never += 1
                if not is_contradictory(found):  # else a warning says so
                    typer.echo(f"{place}: warning: subscription {entry.id!r} can never match", err=True)
    summary = f"{wrong + len(engine)} subscriptions: {len(engine)} good, {wrong} wrong"
    typer.echo(summary + (f", {never} that can never match" if never else ""))
    if wrong:
        raise typer.Exit(1)
