"""The command ``tidegate``: calls one of the commands and turns a user's mistake into one message and an exit code.

Exit codes: 0 done, 1 something in a checked file is wrong or a pipeline failed, 2 the input or the arguments cannot
be used, 130 interrupted, 141 the program that read the output has closed the pipe.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tidegate import __version__
from tidegate.cli.commands import SUMMARIES, Commands
from tidegate.errors import PipelineError, SubscriptionWarning, TidegateError

__all__ = ["app", "main"]

FAILED, UNUSABLE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


class _Commands(TyperGroup):
    """The group of commands, of which the one that is called is imported; every exception of a user ends here."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]  # nobody adds to them

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def invoke(self, ctx: Any) -> Any:
        try:
            with _doubts_shown():
                result = super().invoke(ctx)
            sys.stdout.flush()
        except TidegateError as error:
            typer.echo(f"tidegate: {error}", err=True)
            if isinstance(error, PipelineError):
                raise typer.Exit(FAILED) from None
        except BrokenPipeError:  # the program that read our output has ended, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except OSError as error:
            name = f"; at {error.filename}" if error.filename else ""
            typer.echo(f"tidegate: expected a file that can be used; got {error.strerror or error}{name}", err=True)
        except KeyboardInterrupt:
            typer.echo("\ntidegate: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        else:
            return result
        raise typer.Exit(UNUSABLE)


@contextmanager
def _doubts_shown() -> Iterator[None]:
    """Print each doubt about a subscription once, as one line; other warnings as usual."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, SubscriptionWarning):
                typer.echo(f"tidegate: warning: {message}", err=True)
            else:
                usual(message, category, *where)

        warnings.simplefilter("once", SubscriptionWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


app = typer.Typer(
    name="tidegate",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def tidegate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Standing subscriptions over streams of sensor readings, events and logs.

    \b
    Example:
      tidegate demo
    """


def main() -> None:
    """The entry point."""
    app()
