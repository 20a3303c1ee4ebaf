"""``/metrics``: what the broker counts and how it stands, as text for Prometheus. Any of its gateways gives the same.

Who asks needs a token of an administrator; or none, from this machine, if ``[serve] open_metrics`` says so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response

from tidegate.gateway.access import address_of, bearer_of
from tidegate.gateway.api_request import ApiRequest
from tidegate.gateway.application import caller_of
from tidegate.gateway.broker_status import BrokerStatus
from tidegate.gateway.histograms import Histogram
from tidegate.gateway.metric_names import BROKER, COUNT_PREFIX, COUNTED, GATEWAY
from tidegate.gateway.process_numbers import Key, ProcessNumbers, key_of
from tidegate.gateway.routes import BodyForm, Route
from tidegate.runs.metrics import METRICS

__all__ = ["ROUTES", "exposition"]

#: Headers by which a proxy says that it passes on what somebody else asks.
_PASSED_ON = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


async def metrics(request: ApiRequest) -> Response:
    """The metrics of the broker."""
    broker = request.broker
    if not (broker.limits.open_metrics and _is_local(request)):
        caller = await caller_of(request, broker, bearer_of(request.headers.get("authorization")))
        caller.expect("administrator")
    numbers = await broker.numbers.sums()
    status = await request.in_thread(broker.status.read)
    return Response(await request.in_thread(exposition, numbers, status), 200, media_type=CONTENT_TYPE_LATEST)


def _is_local(request: ApiRequest) -> bool:
    """Whether a program of this machine asks for itself."""
    try:
        is_here = ipaddress.ip_address(address_of(request)).is_loopback
    except ValueError:
        return False
    return is_here and not any(name in request.headers for name in _PASSED_ON)


def exposition(numbers: ProcessNumbers, status: BrokerStatus) -> bytes:
    """All metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector([*_counted(numbers), *_broker(status), *_runner(status)]))
    return generate_latest(registry)


class _Collector(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        return iter(self._found)


def _counted(numbers: ProcessNumbers) -> Iterator[Metric]:
    """What gateways have counted."""
    by_name: dict[str, list[tuple[Key, Any]]] = {}
    for key, value in sorted({**numbers.counts, **numbers.levels}.items()):
        by_name.setdefault(key[0], []).append((key, value))
    for name, meaning in COUNTED.items():
        name = f"{COUNT_PREFIX}{name}_total"
        yield _metric(name, "counter", meaning, by_name.get(name, ()))
    for name, (kind, _, meaning) in GATEWAY.items():
        if kind != "histogram":
            yield _metric(name, kind, meaning, by_name.get(name, ()))
            continue
        found = Metric(name, meaning, "histogram")
        for (its, labels), buckets in sorted(numbers.histograms.items()):
            if its == name:
                for bound, count in Histogram.cumulated(buckets):
                    found.add_sample(f"{name}_bucket", {**dict(labels), "le": bound}, count)
                found.add_sample(f"{name}_count", dict(labels), sum(buckets[:-1]))
                found.add_sample(f"{name}_sum", dict(labels), buckets[-1])
        yield found


def _metric(name: str, kind: str, meaning: str, samples: Iterable[tuple[Key, Any]]) -> Metric:
    found = Metric(name.removesuffix("_total") if kind == "counter" else name, meaning, kind)
    for (_, labels), value in samples:
        found.add_sample(name, dict(labels), float(value))
    return found


def _broker(status: BrokerStatus) -> Iterator[Metric]:
    """How the broker stands; what is not known is left out."""
    found = _levels(status)
    for name, (kind, _, meaning) in BROKER.items():
        samples = [(key, value) for key, value in found.items() if key[0] == name and value is not None]
        yield _metric(name, kind, meaning, samples)


def _levels(status: BrokerStatus) -> dict[Key, float | None]:
    facts: Mapping[str, Any] = asdict(status)
    lag = facts["runner"]["lag"] or {"rows": None, "seconds": None}
    found: dict[Key, float | None] = {
        key_of("tidegate_uptime_seconds"): facts["uptime"],
        key_of("tidegate_lag_rows"): lag["rows"],
        key_of("tidegate_lag_seconds"): lag["seconds"],
        key_of("tidegate_log_rows"): facts["log"]["rows"],
        key_of("tidegate_log_bytes"): facts["log"]["bytes"],
        key_of("tidegate_disk_free_bytes"): facts["disk"]["free"],
        key_of("tidegate_disk_bytes"): facts["disk"]["bytes"],
        key_of("tidegate_valid_bytes"): facts["valid_set"]["bytes"],
        key_of("tidegate_valid_most_bytes"): facts["valid_set"]["most"],
        key_of("tidegate_identities_forgotten"): facts["identities"]["forgotten"],
        key_of("tidegate_registry_version"): facts["registry"]["version"],
        key_of("tidegate_queues"): facts["queues"]["queues"],
        key_of("tidegate_queue_bytes"): facts["queues"]["bytes"],
        key_of("tidegate_queue_waiting"): facts["queues"]["waiting"],
        key_of("tidegate_sessions"): facts["sessions"],
    }
    for state, count in facts["webhooks"]["states"].items():
        found[key_of("tidegate_webhooks", state=state)] = count
    for one in facts["queues"]["furthest_behind"]:
        of = {"principal": one["principal"], "destination": one["destination"]}
        found[key_of("tidegate_queue_depth", **of)] = one["depth"]
        found[key_of("tidegate_queue_lag_seconds", **of)] = one["lag"]
    for destination, count in facts["connections"].items():
        found[key_of("tidegate_connections", destination=destination)] = count
    if (mqtt := facts["mqtt"]) is not None:
        found[key_of("tidegate_mqtt_connected")] = mqtt["connected"]
        for direction in ("receiving", "sending"):
            found[key_of("tidegate_mqtt_in_flight", direction=direction)] = mqtt.get(direction)
    for one in facts["costs"]["subscriptions"]:
        of = {"principal": one["principal"], "subscription": one["id"]}
        found[key_of("tidegate_cost_microseconds", **of)] = one["microseconds"]
    for one in facts["processes"]:
        found[key_of("tidegate_process_up", process=one["name"])] = one["process"] is not None
        found[key_of("tidegate_process_starts", process=one["name"])] = one["starts"]
        found[key_of("tidegate_process_cpu_seconds", process=one["name"])] = one["cpu_seconds"]
        found[key_of("tidegate_process_memory_bytes", process=one["name"])] = one["memory"]
    return found


def _runner(status: BrokerStatus) -> Iterator[Metric]:
    """The runner's own metrics, as it wrote them last."""
    numbers = status.runner["numbers"]
    is_running = status.runner["state"] == "running" and not status.runner["stale"]
    for metric in METRICS:
        value = is_running if metric.field == "state" else numbers.get(metric.field)
        kind = "counter" if metric.counts else "gauge"
        samples = [] if value is None else [(key_of(metric.name), value)]
        yield _metric(metric.name, kind, metric.meaning, samples)


ROUTES = (
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        summary="Metrics for Prometheus; wants a token with the role administrator, unless [serve] says otherwise.",
        role=None,
        answers={200: (BodyForm("text/plain", schema={"type": "string"}),)},
    ),
)
