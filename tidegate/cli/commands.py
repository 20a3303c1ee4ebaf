"""The commands by name, each of whose modules is imported when it is called.

So no command waits for what only others import: neither ``tidegate --help`` nor ``tidegate watch`` wait for the
compiler of the kernels. ``app.py`` makes the command line of ``Commands``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer

__all__ = ["SUMMARIES", "Commands"]

#: What ``tidegate --help`` says of each command, which is how its own help begins.
SUMMARIES = {
    "check": "Check a file of subscriptions and show every mistake in it.",
    "match": "Match publications with subscriptions and write notifications as JSON Lines.",
    "rehearse": "Say what subscriptions would have sent over a history: how many notifications, and on which days.",
    "explain": "Show whether each part of a subscription holds for a publication, and with which values.",
    "functions": "List every operator, function and pattern with its family and an example.",
    "demo": "Watch an alpine sensor network: forty stations, a hundred subscriptions, notifications as they happen.",
    "run": "Run a pipeline: publications of a source, matched with the subscriptions of a registry, to sinks.",
    "serve": "Serve: take publications over HTTP and WebSocket, match them, and deliver to whom they concern.",
    "publish": "Append publications to a log, or send them to a broker.",
    "unpublish": "Withdraw all publications of a source and id, of every phase, from a data directory or a broker.",
    "subscribe": "Add subscriptions to a registry: all of a file, or one.",
    "unsubscribe": "End subscriptions of a registry, either all or none, or of a broker.",
    "watch": "Show what the subscriptions of the token's principal are told at a broker, as it comes, until Ctrl-C.",
    "status": "Show a registry: its version, its subscriptions, the pipelines that read it, its snapshots.",
    "backup": "Back up a data directory while its run, publishers and readers go on.",
    "restore": "Make a data directory of a backup.",
    "warmup": "Compile the kernels and make the cache with which Spark starts in a third of the time.",
    "list": "List the subscriptions of a registry, in the order they came, each as subscriber/id.",
    "log": "Look after a log.",
    "queue": "Look at queues, read their deliveries, and acknowledge them.",
    "principals": "Make principals and say what they may read, and make and revoke their tokens.",
    "sessions": "Show who is registered and connected, and end sessions.",
    "shapes": "List the shapes that have names, with a small picture of each.",
    "ontology": "Look at an ontology, ask it what an operator means, and bring a new version of it to a registry.",
}
#: The module and the name in it of those that are not the function ``check`` of ``check.py``, or its like.
_ELSEWHERE = {"list": ("list", "list_"), "restore": ("backup", "restore")}


class Commands(Mapping[str, Any]):
    """The commands as click knows them, made when they are asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made and name in SUMMARIES:
            self._made[name] = _made(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


def _made(name: str) -> Any:
    module, attribute = _ELSEWHERE.get(name, (name, name))
    found = getattr(import_module(f"tidegate.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return typer.main.get_command(alone)
