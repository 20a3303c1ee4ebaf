"""The numbers of a running flow for Prometheus, over HTTP. Each request takes a new ``StatusSnapshot``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.errors import SettingError
from tidegate.runs.status import StatusSnapshot

__all__ = ["METRICS", "ShownMetric", "served"]


class ShownMetric(NamedTuple):
    """A metric: its name, the field of a snapshot that it shows, and what it means."""

    name: str
    field: str
    meaning: str

    @property
    def counts(self) -> bool:
        return self.name.endswith("_total")


METRICS = (
    ShownMetric("tidegate_publications_total", "publications", "publications that were matched since the start"),
    ShownMetric(
        "tidegate_notifications_total", "notifications", "notifications that went to the sinks since the start"
    ),
    ShownMetric("tidegate_quarantined_total", "quarantined", "rows that were put into the quarantine"),
    ShownMetric("tidegate_ahead_total", "ahead", "publications dated further ahead than is allowed, put there too"),
    ShownMetric("tidegate_late_total", "late", "publications that came later than the lateness that is allowed"),
    ShownMetric("tidegate_shapeless_total", "shapeless", "values that a shape was asked of and that have none"),
    ShownMetric("tidegate_oversized_total", "oversized", "bags that were too large for LIKE"),
    ShownMetric("tidegate_batches_total", "batches", "batches that are done since the start"),
    ShownMetric(
        "tidegate_last_batch", "last_batch", "the number of the last batch that is done, counted over all runs"
    ),
    ShownMetric("tidegate_publications_per_second", "publications_per_second", "their rate over the last ten seconds"),
    ShownMetric(
        "tidegate_notifications_per_second", "notifications_per_second", "their rate over the last ten seconds"
    ),
    ShownMetric("tidegate_batch_seconds", "batch_seconds", "how long the last batch took, tasks and sinks together"),
    ShownMetric("tidegate_task_seconds", "task_seconds", "how long its slowest task took, in the Python worker"),
    ShownMetric("tidegate_sink_seconds", "sink_seconds", "how long the driver halves of its sinks took"),
    ShownMetric("tidegate_subscriptions", "subscriptions", "subscriptions in the registry"),
    ShownMetric("tidegate_patterns", "patterns", "subscriptions with a pattern that has state"),
    ShownMetric("tidegate_state_bytes", "state_bytes", "bytes of what patterns remember, in all shards"),
    ShownMetric(
        "tidegate_state_bytes_per_pattern", "state_bytes_per_pattern", "the same for one of these subscriptions"
    ),
    ShownMetric("tidegate_waiting", "waiting", "publications that wait for others that may come before them"),
    ShownMetric("tidegate_unscored_total", "unscored", "times that a publication had no score for a topk"),
    ShownMetric("tidegate_cut_total", "cut", "times that a together had more combinations than are told"),
    ShownMetric("tidegate_refused_total", "refused", "publications that are no part of an event as it should be"),
    ShownMetric("tidegate_combine_seconds", "combine_seconds", "how long the slowest shard of the last batch took"),
    ShownMetric("tidegate_row", "row", "the row of the log up to which batches are done"),
    ShownMetric("tidegate_running", "state", "1 while batches are run; 0 before the first, while stopping, and after"),
)


class _Collector(Collector):
    def __init__(self, snapshot: Callable[[], StatusSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        for metric in METRICS:
            value = now.state == "running" if metric.field == "state" else getattr(now, metric.field)
            family = CounterMetricFamily if metric.counts else GaugeMetricFamily
            yield family(metric.name, metric.meaning, value=float(value))


@contextmanager
def served(address: tuple[str, int], snapshot: Callable[[], StatusSnapshot]) -> Iterator[int]:
    """Serve ``http://address:port/metrics`` and yield the port, which the system chooses for port 0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    host, port = address
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        got = f"{host}:{port} ({error.strerror or error})"
        raise SettingError("an address and a port that are free", got, "the metrics") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
