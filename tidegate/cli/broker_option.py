"""The options of commands that use a broker: which one, and the token, which is never on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.errors import SettingError, shown
from tidegate.extras import require

if TYPE_CHECKING:
    from tidegate.client.connection import Connection

__all__ = ["CaFile", "OfBroker", "TokenFile", "connection", "expect_no_place"]

_TOKEN, _BROKER = "TIDEGATE_TOKEN", "TIDEGATE_BROKER"
#: Bytes of a file that may be a token.
_MOST = 65_536

OfBroker = Annotated[
    str | None,
    typer.Option(
        "--broker", metavar="URL", envvar=_BROKER, help="A broker such as http://127.0.0.1:8400, as its client."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help=f"A file with the token for --broker; else {_TOKEN} has it."),
]
CaFile = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="Certificates (PEM) to trust for --broker https://….")
]


def connection(url: str, token_file: Path | None, ca: Path | None, what: str) -> Connection:
    """The broker at a URL; ``what`` is the command, for an error where the extra is missing."""
    require("client", what)
    from tidegate.client.connection import connect

    return connect(url, token=_token(token_file), ca=ca)


def _token(file: Path | None) -> str:
    if file is None:
        if token := os.environ.get(_TOKEN, "").strip():
            return token
        raise SettingError(f"a token in the environment variable {_TOKEN}, or --token-file", "neither")
    with file.open("rb") as content:
        found = content.read(_MOST).decode("ascii", "replace").strip()
    if not found:
        raise SettingError("a file with a token", "an empty one", str(file))
    return found


def expect_no_place(given: object, what: str) -> None:
    """Refuse a place on this machine beside a broker."""
    if given is not None:
        known = f"; {_BROKER} is set" if os.environ.get(_BROKER) else ""
        raise SettingError(f"a broker or {what}", f"both --broker and {shown(str(given))}{known}")
