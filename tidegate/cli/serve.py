"""``tidegate serve``: a whole broker, which applications, devices and people connect to."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.errors import PipelineError, SettingError
from tidegate.extras import require

if TYPE_CHECKING:
    from tidegate.gateway.first_token import FirstToken
    from tidegate.runs.config import Config
    from tidegate.store.data_directory import DataDirectory

__all__ = ["serve"]

_DATA = Path("tidegate-data")
_COMMAND_LINE = Path("the command line")
_INTERRUPTED = 130


def serve(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="A TOML file that says more than the options do.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where all is kept; made if need be. If nothing is said, ./tidegate-data.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="A port, or address:port; 127.0.0.1:8400 if nothing is said.")
    ] = None,
    runner: Annotated[str | None, typer.Option(help="Who matches: spark, or process, which needs no Java.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Listen beyond this machine without TLS: behind a proxy that has it.")
    ] = False,
) -> None:
    """Serve: take publications over HTTP and WebSocket, match them, and deliver to whom they concern.

    The first start prints the token of an administrator, unless TIDEGATE_TOKEN has one, and lines to try. What ends is
    started again. Ctrl-C and SIGTERM stop the broker within five seconds; a second Ctrl-C ends it at once. SIGHUP reads
    limits and certificates again. The exit code is 0 after a stop, 1 if the broker failed, 2 if it cannot be started.

    \b
    Example:
      tidegate serve --runner process
    """
    require("service", "tidegate serve")
    from tidegate.gateway.process_log import log_to_standard_error
    from tidegate.runs.toml_sections import KeyPosition, port

    more: dict[str, Any] = {"plain": True} if plain else {}
    if listen is not None:
        port(listen, KeyPosition(_COMMAND_LINE, "--listen"))  # it is named in the error
        more["listen"] = listen
    read = _reader(config, data, runner, more)
    settings = read()
    _check(settings, config)
    if settings.issuers:
        require("jwt", "[[issuers]]")
    if settings.run.runner == "spark":
        require("spark", "tidegate serve (or --runner process, which needs none)")
    found = settings.made()
    assert found is not None, "a broker has a data directory, as was checked"
    log_to_standard_error("broker")
    _serve(settings, read, found, _runner_command(config, found))


def _reader(file: Path | None, data: Path | None, runner: str | None, more: dict[str, Any]) -> Callable[[], Config]:
    """A function that reads the whole configuration, now and again when it is asked to."""
    from tidegate.runs.config import load
    from tidegate.runs.toml_sections import KeyPosition
    from tidegate.runs.toml_sections import runner as runner_kind
    from tidegate.store.data_directory import DataDirectory

    if runner is not None:
        runner_kind(runner, KeyPosition(_COMMAND_LINE, "--runner"))
    if file is None or DataDirectory.found(file) is not None:
        where = (data or file or _DATA).absolute()
        there = DataDirectory.found(where)
        wanted = runner or (there.runner if there is not None else "spark")
        if wanted == "spark":
            require("spark", "tidegate serve (or --runner process, which needs none)")
        DataDirectory.made(where, wanted)
        return partial(load, where, {"serve": more})
    run = {"data": None if data is None else str(data.absolute()), "runner": runner}
    instead = {"run": {name: value for name, value in run.items() if value is not None}, "serve": more}
    return partial(load, file, instead, {"run": {"data": str(_DATA.absolute())}})


def _check(settings: Config, file: Path | None) -> None:
    """Refuse what runs, but is no broker: who connects to one publishes to its log and reads its queues."""
    from tidegate.runs.sink_sections import QueuesOutput
    from tidegate.runs.source_sections import LogInput

    at = f"{file}"
    assert settings.run.data is not None, "what holds where the file has none"
    if not isinstance(settings.source, LogInput) or settings.source.path != str(Path(settings.run.data, "log")):
        raise SettingError("no [source] but the log of the data directory", "another one", at)
    if not any(isinstance(sink, QueuesOutput) for sink in settings.sinks):
        raise SettingError("a sink of type queues", "none", at)


def _runner_command(file: Path | None, found: DataDirectory) -> list[str]:
    place = str(found.path if file is None else file.absolute())
    return ["-m", "tidegate", "run", place, "--data", str(found.path), "--runner", found.runner, "--supervised"]


def _serve(settings: Config, read: Callable[[], Config], found: DataDirectory, runner: list[str]) -> None:
    from tidegate.gateway.broker_locks import wait_for_processes
    from tidegate.gateway.certificates import has_tls, tls_context
    from tidegate.gateway.listening import address_of, listening_socket
    from tidegate.gateway.supervisor import Settings, Supervisor
    from tidegate.mqtt.credentials import check_credentials
    from tidegate.store.directory_lock import DirectoryLock
    from tidegate.webhooks.trusted_authorities import check_authorities

    with ExitStack() as stack:
        stack.callback(DirectoryLock(str(found.run), "data directory", "broker").release)
        if has_tls(settings.serve):
            tls_context(settings.serve)
        if settings.mqtt is not None:
            check_credentials(settings.mqtt)
        check_authorities(settings.webhooks)
        listening = stack.enter_context(listening_socket(settings.serve))
        wait_for_processes(found)
        token = _prepared(settings, found)
        address = address_of(listening, settings.serve)
        _tell(address, found, token)

        async def run() -> Any:
            ready = partial(_tell_ready, address, token, settings.serve.certificate)
            return await Supervisor(Settings(settings, read, runner), found, listening, address, ready).run()

        outcome = asyncio.run(run())
    if outcome.failed is not None:
        raise PipelineError("a broker that starts", f"{outcome.failed.name} could not, as it said", str(found.path))
    if outcome.was_interrupted:
        raise typer.Exit(_INTERRUPTED)


def _prepared(settings: Config, found: DataDirectory) -> FirstToken:
    """See to it that there is an administrator, and that the runner has a batch to make, after which it is ready."""
    from tidegate.broker.webhook_mark import set_mark
    from tidegate.gateway.first_token import first_token
    from tidegate.store.principals import Principals
    from tidegate.store.webhooks import StoredWebhooks

    with (
        settings.subscriptions.open() as registry,
        Principals(registry) as principals,
        StoredWebhooks(registry) as webhooks,
    ):
        registry.advance()
        if any(webhooks.by_state().values()):
            set_mark(found.run)  # in a directory that was restored there is none
        return first_token(principals, found)


def _tell(address: str, found: DataDirectory, token: FirstToken) -> None:
    typer.echo(f"{address} serves {found.path} with the runner {found.runner}")
    if token.made is not None:
        typer.echo(f"The token of the administrator, which is not shown again:\n  {token.made}")
    elif not token.is_given:
        make = f"tidegate principals tokens make {shlex.quote(str(found.path))} admin --role administrator"
        typer.echo(f"Its administrator has a token. For another one: {make}")


def _tell_ready(address: str, token: FirstToken, certificate: str | None) -> None:
    """Lines that can be pasted into a shell."""
    secret = token.made or "$TIDEGATE_TOKEN"
    trusted = "" if certificate is None else f" --cacert {shlex.quote(certificate)}"
    curl = f'curl -sS{trusted} -H "Authorization: Bearer {secret}"'
    json = " -H 'Content-Type: application/json'"
    typer.echo("Ready. To try it, subscribe, publish and read:")
    typer.echo(f"""  {curl} -X PUT {address}/v1/subscriptions/warm{json} -d '{{"where": "temperature > 20"}}'""")
    typer.echo(f"""  {curl} {address}/v1/publications{json} -d '{{"source": "balcony", "temperature": 21.5}}'""")
    typer.echo(f"""  {curl} '{address}/v1/notifications?wait=5'""")
