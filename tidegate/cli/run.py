"""``tidegate run``: runs the pipeline that a TOML file describes until it is asked to stop."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tidegate.cli.live_status import line, shown_live
from tidegate.cli.signals import asked_to_stop
from tidegate.cli.spark_command import spark_session
from tidegate.cli.subscription_files import read
from tidegate.errors import SettingError
from tidegate.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.broker.process_run import ProcessRun
    from tidegate.pipeline.flow import Flow
    from tidegate.runs.config import Config
    from tidegate.runs.sources import Source
    from tidegate.store.ontology_renewal import UnrenewableSubscription
    from tidegate.store.registry import Registry

__all__ = ["run"]

#: Seconds between two looks at the pipeline.
_LOOK = 0.25


def run(
    config: Annotated[Path, typer.Argument(help="The TOML file that describes the pipeline, or a data directory.")],
    available_now: Annotated[bool, typer.Option("--available-now", help="Do what is there now, then end.")] = False,
    master: Annotated[str | None, typer.Option(help="Where Spark runs, in place of what the file says.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Serve metrics for Prometheus at this port, or address:port.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The data directory, in place of what the file says.")] = None,
    runner: Annotated[str | None, typer.Option(help="spark or process, in place of what the file says.")] = None,
    supervised: Annotated[
        bool, typer.Option("--supervised", help="End when the standard input does, and show no numbers.")
    ] = False,
) -> None:
    """Run a pipeline: publications of a source, matched with the subscriptions of a registry, to sinks.

    Ctrl-C and SIGTERM let the batch that is running finish; the next run goes on after it. A second Ctrl-C ends at
    once. The exit code is 0 after a clean stop and 1 if the pipeline failed.

    \b
    Example:
      tidegate run valley.toml
    """
    from tidegate.broker.supervised import follow_starter
    from tidegate.runs.config import load
    from tidegate.runs.toml_sections import KeyPosition, port

    if supervised:
        follow_starter()
    replaced = {"data": None if data is None else str(data.absolute()), "runner": runner}
    settings = load(config, {"run": {name: value for name, value in replaced.items() if value is not None}})
    if master is not None:
        settings = replace(settings, spark=replace(settings.spark, master=master))
    if metrics is not None:
        address = port(metrics, KeyPosition(Path("the command line"), "--metrics"))
        settings = replace(settings, run=replace(settings.run, metrics=address))
    if available_now and not settings.source.ends:
        raise SettingError("a source that has an end, for --available-now", "a generator", f"source of {config}")
    if settings.run.runner == "spark":
        require("spark", 'tidegate run (or runner = "process" in the section [run], which needs none)')
    elif master is not None:
        raise SettingError('runner = "spark" for --master', '"process"', f"run.runner of {config}")
    if settings.run.metrics is not None:
        require("service", "metrics")
    settings.find_functions()
    with ExitStack() as stack:
        if (found := settings.made()) is not None:
            stack.callback(found.locked().release)
        stack.enter_context(settings.shapes.used())
        stack.enter_context(settings.ontology.used())
        registry = stack.enter_context(settings.subscriptions.open())
        _renewed(settings, registry)
        _subscribed(settings, registry)
        source = settings.source.open()
        if settings.run.runner == "process":
            _run(settings, _in_process(settings, source, registry), source, available_now, supervised)
            return
        with spark_session(lambda: _session(settings)) as spark:
            _run(settings, _on_spark(settings, spark, source, registry), source, available_now, supervised)


def _session(settings: Config) -> SparkSession:
    from tidegate.pipeline.from_config import session_of

    return session_of(settings)


def _renewed(settings: Config, registry: Registry) -> None:
    """Renew the meaning of the registry's subscriptions with the ontology as it is now.

    A subscription whose terms have gone keeps its meaning and does not keep the others from being renewed.
    """
    if not settings.ontology.files:
        return
    lost: list[UnrenewableSubscription] = []
    if count := registry.renew(keep=lost.append):
        many = "subscription" if count == 1 else "subscriptions"
        typer.echo(f"the ontology gives {count:,} {many} another meaning than before", err=True)
    for one in lost:
        typer.echo(f"warning: subscription {one} keeps the meaning that it had", err=True)


def _subscribed(settings: Config, registry: Registry) -> None:
    """Before the first run of a checkpoint, take the subscriptions of the file that the registry does not have."""
    from tidegate.store.storage import storage_at

    file = settings.subscriptions.file
    if file is None or storage_at(settings.run.checkpoint).read("tidegate.json") is not None:
        return
    found = read(Path(file))
    there = {subscription.registered_id for subscription in registry}
    new = [subscription for subscription in found if subscription.registered_id not in there]
    registry.subscribe(*new)
    typer.echo(f"{len(new):,} of the {len(found):,} subscriptions of {file} are new", err=True)


def _on_spark(settings: Config, spark: SparkSession, source: Source, registry: Registry) -> Flow:
    from tidegate.pipeline.from_config import flow_of

    return flow_of(settings, spark, source, registry)


def _in_process(settings: Config, source: Source, registry: Registry) -> ProcessRun:
    from tidegate.broker.garbage_collection import look_for_cycles_seldom
    from tidegate.broker.process_run import ProcessRun
    from tidegate.runs.sink_sections import KafkaOutput

    sinks = []
    for output in settings.sinks:
        if isinstance(output, KafkaOutput):
            at = f"run.runner of {settings.file}"
            raise SettingError('runner = "spark" for a sink of type kafka', '"process"', at)
        sinks.append(output.open(registry, source))
    process_run = ProcessRun(source, registry, sinks, **settings.run.settings(source))
    look_for_cycles_seldom()
    return process_run


def _run(settings: Config, flow: Flow | ProcessRun, source: Source, available_now: bool, supervised: bool) -> None:
    from tidegate.runs.status_file import StatusWriter

    status = flow.status
    with ExitStack() as stack:
        if settings.run.metrics is not None:
            from tidegate.runs.metrics import served

            host, _ = settings.run.metrics
            number = stack.enter_context(served(settings.run.metrics, status.snapshot))
            typer.echo(f"metrics at http://{host}:{number}/metrics", err=True)
        stack.enter_context(StatusWriter(settings.run.checkpoint, flow.query, status.snapshot))
        asked = stack.enter_context(asked_to_stop())
        flow.start(available_now)
        status.state = "running"
        try:
            with nullcontext(_unseen) if supervised else shown_live(_moves(settings)) as show:
                _watch(flow, source, asked, show)
        except KeyboardInterrupt:
            status.state = "stopped"
            raise
        except BaseException:
            status.state = "failed"
            flow.stop()
            raise
        if asked.is_set():
            status.state = "stopping"
            typer.echo("finishing the batch that is running; Ctrl-C again ends at once", err=True)
            flow.stop()
            status.state = "stopped"
        else:
            flow.close()
            status.state = "done"
        typer.echo(line(asdict(status.snapshot())), err=True)


def _watch(flow: Flow | ProcessRun, source: Source, asked: threading.Event, show: Any) -> None:
    """Show numbers until the pipeline has ended or is asked to stop."""
    while not asked.is_set() and not flow.wait(_LOOK):
        source.check()
        show(asdict(flow.status.snapshot()))


def _unseen(numbers: object) -> None:
    """Show nobody the numbers: who supervises the run reads them where it posts them."""


def _moves(settings: Config) -> bool:
    """Whether a table can be updated in place on the terminal: not if a sink writes lines there too."""
    from tidegate.runs.sink_sections import ConsoleOutput

    writes = any(isinstance(sink, ConsoleOutput) for sink in settings.sinks) and sys.stdout.isatty()
    return Console(stderr=True).is_terminal and not writes
