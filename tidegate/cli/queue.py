"""``tidegate queue``: what principals are told, how far they have acknowledged it, and telling it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from tidegate.cli.ago import ago
from tidegate.cli.registry_argument import config
from tidegate.errors import SettingError, StoreError, shown

if TYPE_CHECKING:
    from tidegate.broker.open_queues import OpenQueues, QueueState
    from tidegate.store.queue_directory import Queue

__all__ = ["queue"]

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
    with _opened(place) as queues:
        for state in queues.states(queues.of(principal)):
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
    from tidegate.broker.delivered_items import QueuePosition
    from tidegate.store.wakeups import Wakeup

    with _opened(place) as queues, Wakeup(queues.directory) as wakeup:
        found = _one(queues, principal, destination)
        position = QueuePosition(queues.cursors.of([found])[found]) if after is None else QueuePosition.parsed(after)
        left = limit
        while left is None or left > 0:
            page = queues.items.page(found, position, _PAGE if left is None else min(left, _PAGE))
            for item in page.items:
                typer.echo(orjson.dumps(item))
            left = None if left is None else left - len(page.items)
            position = QueuePosition(page.next, page.epoch)
            if page.next >= page.last and not queues.reader.refresh():
                if not follow:
                    return
                wakeup.wait(_LOOK)
                queues.reader.refresh()


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
    with _opened(place) as queues:
        found = _one(queues, principal, destination)
        queues.acknowledge(found, number)
        typer.echo(described(queues.states([found])[0]))


def described(state: QueueState) -> str:
    """A queue in one line."""
    numbers = f"{state.oldest:,} to {state.last:,} kept" if state.oldest <= state.last else "nothing kept"
    line = f"{state.principal} {state.destination}: {numbers}, {state.acknowledged:,} acknowledged, "
    if state.waiting_since is None:
        return line + "nothing waits"
    return line + f"{state.waiting:,} wait, since {ago(datetime.fromtimestamp(state.waiting_since / 1e6, UTC))}"


@contextmanager
def _opened(place: str) -> Iterator[OpenQueues]:
    from tidegate.broker.open_queues import OpenQueues

    found = config(place)
    if found is None:
        raise SettingError("a data directory, or a CONFIG file (.toml)", shown(place))
    with OpenQueues(found) as queues:
        yield queues


def _one(queues: OpenQueues, principal: str, destination: str) -> Queue:
    found = queues.of(principal)
    for one in found:
        if one.destination == destination:
            return one
    known = ", ".join(one.destination for one in found)
    raise StoreError(f"one of the destinations of {principal}: {known}", shown(destination))
