"""``tidegate queue``: what principals are told, how far they have acknowledged it, and telling it again."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from tidegate.cli.ago import ago

if TYPE_CHECKING:
    from tidegate.broker.open_queues import QueueState

__all__ = ["described", "queue"]

queue = typer.Typer(name="queue", add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Place = Annotated[
    str, typer.Argument(metavar="PLACE", help="A data directory, or a CONFIG file with a sink of queues.")
]
Principal = Annotated[str, typer.Argument(help="Whose queue: the subscriber of subscriptions.")]
Destination = Annotated[str, typer.Option(help="Where its deliveries go: stream, mqtt or webhook:NAME.")]
#: Deliveries that are read at a time.
_PAGE = 1000
#: Seconds between two looks where nothing wakes us.
_LOOK = 0.5


@queue.callback()
def group() -> None:
    """Look at queues, read their deliveries, and acknowledge them.

    A run with a sink of type queues keeps a queue for each principal and destination. A delivery has a number, and
    stays until it is too old, whether it is acknowledged or not.

    \b
    Example:
      tidegate queue replay broker ann --after 0
    """


@queue.command()
def show(
    place: Place,
    principal: Principal,
    as_json: Annotated[bool, typer.Option("--json", help="As one line of JSON per queue.")] = False,
) -> None:
    """Show how the queues of a principal stand: their numbers, and how much waits to be acknowledged since when.

    \b
    Example:
      tidegate queue show broker ann
    """
    from tidegate.broker.open_queues import OpenQueues

    with OpenQueues(place) as queues:
        for state in queues.states(principal):
            typer.echo(orjson.dumps(state._asdict()).decode() if as_json else described(state))


@queue.command()
def replay(
    place: Place,
    principal: Principal,
    after: Annotated[
        str | None, typer.Option(help="From which number on: N or EPOCH-N. The acknowledged one if it is not given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="How many items at the most.", min=1)] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more, until Ctrl-C.")] = False,
    destination: Destination = "stream",
) -> None:
    """Print the deliveries of a queue, a line of JSON each, with the publications that they are about.

    Nothing is acknowledged by it. What cannot be shown is told by a line of type gap or skipped.

    \b
    Example:
      tidegate queue replay broker ann --after 0
    """
    from tidegate.broker.open_queues import OpenQueues

    left = sys.maxsize if limit is None else limit
    with OpenQueues(place) as queues:
        while left > 0:
            page = queues.page(principal, after=after, limit=min(left, _PAGE), destination=destination)
            for item in page.items:
                typer.echo(orjson.dumps(item))
            left -= len(page.items)
            after = f"{page.epoch}-{page.next}"
            while page.next >= page.last and not queues.wait(_LOOK if follow else 0):
                if not follow:
                    return


@queue.command()
def ack(
    place: Place,
    principal: Principal,
    number: Annotated[int, typer.Argument(help="Up to which number.", min=0)],
    destination: Destination = "stream",
) -> None:
    """Acknowledge the deliveries of a queue up to a number. Going back has no effect.

    \b
    Example:
      tidegate queue ack broker ann 4
    """
    from tidegate.broker.open_queues import OpenQueues

    with OpenQueues(place) as queues:
        queues.acknowledge(principal, number, destination=destination)
        for state in queues.states(principal):
            if state.destination == destination:
                typer.echo(described(state))


def described(state: QueueState) -> str:
    """A queue in one line."""
    numbers = f"{state.oldest:,} to {state.last:,} kept" if state.oldest <= state.last else "nothing kept"
    line = f"{state.principal} {state.destination}: {numbers}, {state.acknowledged:,} acknowledged, "
    if state.waiting_since is None:
        return line + "nothing waits"
    return line + f"{state.waiting:,} wait, since {ago(datetime.fromtimestamp(state.waiting_since / 1e6, UTC))}"
