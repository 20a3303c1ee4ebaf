"""A runner in the process of a test, on the data directory of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.broker.process_run import ProcessRun
from tidegate.gateway.open_broker import OpenBroker
from tidegate.runs.status_file import StatusWriter

__all__ = ["runs"]


@contextmanager
def runs(broker: OpenBroker) -> Iterator[ProcessRun]:
    """Run batches for a broker, and post the numbers of the run, while the context lasts."""
    config = broker.config
    registry = config.subscriptions.open()
    with registry:
        source = config.source.open()
        sinks = [output.open(registry, source) for output in config.sinks]
        run = ProcessRun(source, registry, sinks, **config.run.settings(source))
        with StatusWriter(config.run.checkpoint, run.query, run.status.snapshot):
            run.start()
            try:
                yield run
            finally:
                run.status.state = "stopped"
                run.stop()
