"""``tidegate watch``: shows what a broker tells the caller, as it comes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tidegate.cli.broker_option import CaFile, OfBroker, TokenFile, connection
from tidegate.errors import SettingError

if TYPE_CHECKING:
    from tidegate.client.async_broker import AsyncBroker
    from tidegate.client.connection import Connection
    from tidegate.client.items import Item, ReceivedPublication

__all__ = ["watch"]

_TEXT = 60


def watch(
    broker: OfBroker = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    after: Annotated[
        str | None,
        typer.Option(help="Begin after this number, or position of --json; else after what is acknowledged."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Acknowledge nothing: all of it comes again.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="End after so many; 0 goes on until Ctrl-C.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON Lines.")] = False,
) -> None:
    """Show what the subscriptions of the token's principal are told at a broker, as it comes, until Ctrl-C.

    What is shown is acknowledged. A connection that is lost is made again, and goes on where it was; so does the next
    `tidegate watch`. The token is in the environment variable TIDEGATE_TOKEN or in --token-file.

    \b
    Example:
      tidegate watch --broker http://127.0.0.1:8400
    """
    if broker is None:
        raise SettingError("--broker or the environment variable TIDEGATE_BROKER", "neither")
    asyncio.run(_watch(connection(broker, token_file, ca, "tidegate watch"), after, keep, limit, as_json))


async def _watch(to: Connection, after: str | None, keep: bool, limit: int, as_json: bool) -> None:
    async with to as client, _ended_by_signals(client):
        count = 0
        async for item in client.notifications(after, acknowledge="manual" if keep else "auto"):
            typer.echo(orjson.dumps(_record(item), default=str, option=orjson.OPT_UTC_Z) if as_json else _line(item))
            count += 1
            if count == limit:
                if not keep:
                    await client.acknowledge(item)
                break


@asynccontextmanager
async def _ended_by_signals(client: AsyncBroker) -> AsyncIterator[None]:
    """Ctrl-C and SIGTERM close the connection, which ends reading and acknowledges what was shown."""
    loop, tasks = asyncio.get_running_loop(), list[asyncio.Task[None]]()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, lambda: tasks.append(asyncio.create_task(client.close())))
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        await asyncio.gather(*tasks)


def _record(item: Item) -> dict[str, Any]:
    """What an item says, by its names; and its position, to go on after it."""
    return {field.name: getattr(item, field.name) for field in fields(item)} | {"position": item.position}


def _line(item: Item) -> str:
    if item.type == "notification":
        names = ", ".join(item.subscriptions)
        when = f"{item.time:%Y-%m-%d %H:%M:%S}" if item.time else ""
        told = "; ".join(map(_publication, item.publications))
        score = "" if item.score is None else f" score {item.score:g}"
        return f"{item.number}  {when}  {names}{score}{'  initial' if item.initial else ''}  {told}"
    if item.type == "retracted":
        return f"{item.number}  withdrawn: {item.retracts}" + (
            f"  {_publication(item.publication)}" if item.publication else ""
        )
    what = "left out" if item.type == "skipped" else "cannot be told"
    return f"{item.number}  {item.since} to {item.number} {what}: {item.reason}"


def _publication(one: ReceivedPublication) -> str:
    values = " ".join(f"{name}={_short(value)}" for name, value in one.attributes.items())
    return " ".join(filter(None, (f"{one.source}/{one.id}", values or ("gone" if one.gone else ""))))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
