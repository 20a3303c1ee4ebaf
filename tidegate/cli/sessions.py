"""``tidegate sessions``: who is registered, who is connected, how far behind they are; and ending a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from tidegate.cli.ago import ago
from tidegate.cli.queue import Place

if TYPE_CHECKING:
    from tidegate.broker.presence import SessionPresence

__all__ = ["sessions"]

sessions = typer.Typer(name="sessions", add_completion=False, rich_markup_mode=None, no_args_is_help=True)

#: Sessions that are read at a time.
_PAGE = 1000


@sessions.callback()
def group() -> None:
    """Show who is registered and connected, and end sessions.

    A principal has a session from its first subscription on, whether it is connected or not, until it is unregistered,
    or until nobody has seen it for 30 days while a broker runs.

    \b
    Example:
      tidegate sessions list broker
    """


@sessions.command("list")
def list_(
    place: Place,
    principal: Annotated[str | None, typer.Option(help="Only the session of this principal.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one line of JSON per session.")] = False,
) -> None:
    """List sessions by principal: since when registered, connected or when last seen, and how far behind each queue is.

    \b
    Example:
      tidegate sessions list broker
    """
    from tidegate.broker.sessions import open_sessions

    with open_sessions(place) as opened:
        if principal is not None:
            _show(opened.present(principal), as_json)
            return
        after = ""
        while page := opened.presence(after=after, limit=_PAGE):
            for found in page:
                _show(found, as_json)
            after = page[-1].session.principal


@sessions.command()
def unregister(
    place: Place, principal: Annotated[str, typer.Argument(help="Whose session: the subscriber of subscriptions.")]
) -> None:
    """End the session of a principal: its subscriptions and its queues with what waits in them; it is disconnected.

    What it subscribes to later begins anew, with other queues.

    \b
    Example:
      tidegate sessions unregister broker ann
    """
    from tidegate.broker.sessions import open_sessions

    with open_sessions(place) as opened:
        opened.unregister(principal)
    typer.echo(f"{principal} is unregistered")


def _show(found: SessionPresence, as_json: bool) -> None:
    typer.echo(orjson.dumps(found.as_json()).decode() if as_json else "\n".join(_described(found)))


def _described(found: SessionPresence) -> list[str]:
    """A session in one line, and one more for each queue."""
    session, since = found.session, found.connected_since
    many = "1 connection" if len(found.connections) == 1 else f"{len(found.connections):,} connections"
    there = f"last seen {_ago(session.seen_at)}" if since is None else f"{many}, since {_ago(since)}"
    lines = [f"{session.principal}: registered {_ago(session.registered_at)}, {there}"]
    for queue in found.queues:
        numbers = f"last {queue.last:,}, {queue.acknowledged:,} acknowledged, "
        since = queue.waiting_since
        waits = "nothing waits" if since is None else f"{queue.waiting:,} wait, since {_ago(since)}"
        lines.append(f"  {queue.destination}: {numbers}{waits}")
    return lines


def _ago(micros: int) -> str:
    return ago(datetime.fromtimestamp(micros / 1e6, UTC))
