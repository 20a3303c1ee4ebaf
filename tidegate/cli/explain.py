"""``tidegate explain``: why a subscription does, or does not, match a publication."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import orjson
import typer

from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.publication_files import batches, publication
from tidegate.cli.shapes_option import OwnShapes
from tidegate.cli.spark_command import spark_session
from tidegate.cli.subscription_files import subscriptions as read
from tidegate.cli.text_records import text
from tidegate.cli.timezone_option import OwnTimezone
from tidegate.engine import Engine
from tidegate.engine.explain import explain as explained
from tidegate.engine.explanation import Explanation
from tidegate.errors import PublicationError, SettingError, TidegateError, UnknownSubscription, shown
from tidegate.extras import require
from tidegate.language import DEFAULT_LIMITS
from tidegate.language.limits import NO_LIMITS
from tidegate.model import Publication, Subscription
from tidegate.predicates import Filter
from tidegate.subscriptions import bounded_expression, compile_subscription
from tidegate.time_zones import TimeZone

__all__ = ["explain"]


def explain(
    subscriptions: Annotated[
        Path, typer.Argument(help="Subscriptions: .jsonl, .json, .csv, .cql2 or .txt; or a pipeline's CONFIG: .toml.")
    ],
    id: Annotated[
        str, typer.Argument(help="The id of the subscription; in a text file, its line; of a CONFIG, subscriber/id.")
    ],
    publication: Annotated[str, typer.Argument(help="A JSON object, @FILE with one, or - for standard input.")],
    after: Annotated[
        Path | None,
        typer.Option("--after", help="Publications that came before, for patterns: .jsonl, .json, .csv or .parquet."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    timezone: OwnTimezone = None,
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Show whether each part of a subscription holds for a publication, and with which values.

    What a pattern makes of the publication depends on those before it. They are in the file of --after; without it
    there are none. Of a CONFIG file, they are what its run has seen, and the state is that after its last whole batch.

    \b
    Example:
      tidegate explain subscriptions.jsonl s1 '{"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45}'
    """
    found, zone = _publication(publication), TimeZone.named(timezone)
    if subscriptions.suffix == ".toml":
        if after is not None:
            raise SettingError("no --after with a CONFIG file, whose run has a state", shown(str(after)))
        _show(id, found, _of_run(subscriptions, id, found), as_json)
        return
    with Engine([_subscription(subscriptions, id)]) as engine:
        for batch in () if after is None else batches(after, zone):
            try:
                engine.publish(batch.rows, timezone=zone)
            except TidegateError as error:
                raise batch.located(error) from None
        _show(id, found, engine.explain(id, found), as_json)


def _of_run(path: Path, id: str, publication: Publication) -> Explanation:
    """Explained from the state of the run of a CONFIG file. Spark is needed, and started, only for a pattern."""
    from tidegate.runs.config import load

    config = load(path)
    with config.subscriptions.open() as registry:
        stored = registry.stored(id)
        if isinstance(stored.compiled(), Filter):
            return explained(bounded_expression(stored.meant, NO_LIMITS, stored.condition), publication)
        require("spark", "tidegate explain with a CONFIG file")
        from tidegate.pipeline.explain import explain_run
        from tidegate.pipeline.from_config import session_of

        run = config.run
        settings = {"lateness": timedelta(seconds=run.lateness)}
        if run.keep is not None:
            settings["keep"] = timedelta(seconds=run.keep)
        with spark_session(lambda: session_of(config)) as spark:
            return explain_run(spark, run.checkpoint, registry, id, publication, **settings)


def _subscription(path: Path, id: str) -> Subscription:
    """The subscription of that id; ``tidegate check`` shows mistakes elsewhere in the file."""
    for place, entry in read(path):
        if isinstance(entry, TidegateError) or entry.id != id:
            continue
        try:
            compile_subscription(entry, DEFAULT_LIMITS)
        except TidegateError as error:
            error.at = f"{error.at} of subscription {shown(id)}, {place}"
            raise
        return entry
    raise UnknownSubscription("the id of a subscription", shown(id), str(path))


def _show(id: str, publication: Publication, explanation: Explanation, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps(explanation.to_json(), option=orjson.OPT_INDENT_2).decode())
        return
    if explanation.has_pattern:
        typer.echo(f"{id} would {'' if explanation.told else 'not '}be told when {publication.id} comes")
    else:
        typer.echo(f"{id} {'matches' if explanation.held else 'does not match'} {publication.id}")
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
