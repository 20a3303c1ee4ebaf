"""The metrics that a gateway serves: their names, kinds and meanings. ``docs/OPERATIONS.md`` lists them all.

Those of the runner are in ``runs/metrics.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

__all__ = ["BROKER", "COUNTED", "COUNT_PREFIX", "GATEWAY", "MetricName"]


class MetricName(NamedTuple):
    """A metric: what kind it is of, the names of its labels, and what it means."""

    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str


#: What ``broker.counts`` counts, by name: each is served as ``tidegate_gateway_NAME_total`` with the label ``cause``.
COUNTED: Mapping[str, str] = {
    "published": "publications that were accepted, were there already, or were unpublished",
    "refused": "publications and unpublishings that were refused, by the code that says why",
    "subscriptions": "subscriptions that were made, replaced, put again as they were, or ended",
    "subscriptions_refused": "subscriptions that were refused, by the code that says why",
    "announcements": "announcements that were made, replaced or revoked",
    "announcements_refused": "announcements that were refused, by the code that says why",
    "webhooks": "webhooks that were made, changed or removed",
    "webhooks_refused": "webhooks that were refused, by the code that says why",
    "rehearsals": "rehearsals of subscriptions, by how they ended",
    "messages_refused": "messages over WebSockets that were refused, by the code that says why",
    "connections_refused": "connections that were refused because there were too many, of all or of a principal",
    "connections_closed": "connections that were closed: too slow, too many, or with a token that holds no more",
    "delivered": "items of queues that were written to connections, by the kind of these",
    "access_refused": "accesses that were refused; the audit has a line for each (`written`) or counts it (`left_out`)",
    "jwt_refused": "JWTs that were refused, by the cause",
    "issuer_keys": "fetches of the keys of issuers of JWTs, by what came of them",
    "answers_compressed": "answers that were compressed, by encoding",
    "bytes_saved": "bytes that these were smaller, by encoding",
    "spans": "spans of OpenTelemetry that were begun, by their name",
    "mqtt_connections": "connections to the MQTT broker: made, lost, failed; and subscriptions that it refused",
    "mqtt_received": "messages of the MQTT broker that were taken, or refused by the code that says why",
    "mqtt_retried": "groups of such messages that could not be appended at once, by why; they are tried again",
    "mqtt_requests": "requests over MQTT that were accepted, or refused by the code that says why",
    "mqtt_sent": "items that were sent to the MQTT broker, by type; and those that nobody there had subscribed to",
    "mqtt_refused": "items that the MQTT broker refused, by its reason; they are sent again",
    "mqtt_dropped": "answers that were left out and items that were too large for the MQTT broker, told as skipped",
    "lagging": "connections that were closed because their client did not read",
}
COUNT_PREFIX = "tidegate_gateway_"

#: Sums over all gateways of a broker, and the sender of webhooks, also of those that were killed.
GATEWAY: Mapping[str, MetricName] = {
    "tidegate_http_requests_total": MetricName("counter", ("route", "method", "status"), "requests that were answered"),
    "tidegate_http_request_seconds": MetricName(
        "histogram", ("route", "method"), "seconds from the head of a request to the first byte of its answer"
    ),
    "tidegate_stage_seconds": MetricName(
        "histogram",
        ("stage",),
        "seconds from accepted to matched, and from matched to delivered, of a sample of what is delivered at once",
    ),
    "tidegate_webhook_posts_total": MetricName("counter", ("outcome",), "requests to webhooks, by how they ended"),
    "tidegate_webhook_retries_total": MetricName(
        "counter", ("outcome",), "those of them that followed one that had failed"
    ),
    "tidegate_webhook_verifications_total": MetricName(
        "counter", ("outcome",), "those that asked whether a webhook wants to be posted to"
    ),
    "tidegate_webhook_items_total": MetricName(
        "counter", ("way",), "items that webhooks took, as they came or sent again"
    ),
    "tidegate_webhook_dead_letters_total": MetricName(
        "counter", ("cause",), "deliveries to webhooks that were given up, or forgotten after that"
    ),
    "tidegate_webhook_post_seconds": MetricName("histogram", (), "seconds that a request to a webhook took"),
    "tidegate_webhook_delivery_seconds": MetricName(
        "histogram", (), "seconds from matched to taken by a webhook, of what came"
    ),
    "tidegate_gateways": MetricName("gauge", (), "gateways that live"),
    "tidegate_gateway_cpu_seconds_total": MetricName("counter", (), "seconds of processor time of all gateways"),
    "tidegate_gateway_memory_bytes": MetricName("gauge", (), "memory of all gateways that live"),
}

#: The state of the broker at the moment, the same whichever gateway is asked.
BROKER: Mapping[str, MetricName] = {
    "tidegate_uptime_seconds": MetricName("gauge", (), "seconds since the broker was started"),
    "tidegate_lag_rows": MetricName("gauge", (), "publications of the log that are not matched yet"),
    "tidegate_lag_seconds": MetricName("gauge", (), "how long the oldest of these has waited"),
    "tidegate_log_rows": MetricName("gauge", (), "publications that the log has"),
    "tidegate_log_bytes": MetricName("gauge", (), "bytes of the log"),
    "tidegate_disk_free_bytes": MetricName("gauge", (), "bytes that are free on the disk of the data directory"),
    "tidegate_disk_bytes": MetricName("gauge", (), "bytes of that disk"),
    "tidegate_valid_bytes": MetricName("gauge", (), "bytes of the valid set"),
    "tidegate_valid_most_bytes": MetricName("gauge", (), "bytes that it may have"),
    "tidegate_identities_forgotten": MetricName(
        "gauge", (), "identities that were forgotten within the horizon because there were too many"
    ),
    "tidegate_registry_version": MetricName("gauge", (), "the version of the registry"),
    "tidegate_queues": MetricName("gauge", (), "queues"),
    "tidegate_queue_bytes": MetricName("gauge", (), "bytes of all queues"),
    "tidegate_queue_waiting": MetricName("gauge", (), "deliveries that wait to be acknowledged, in all queues"),
    "tidegate_queue_depth": MetricName(
        "gauge", ("principal", "destination"), "the same of the ten queues that are furthest behind"
    ),
    "tidegate_queue_lag_seconds": MetricName(
        "gauge", ("principal", "destination"), "how long the oldest delivery of each of these has waited"
    ),
    "tidegate_connections": MetricName("gauge", ("destination",), "connections to queues, of all gateways"),
    "tidegate_sessions": MetricName("gauge", (), "principals with a session"),
    "tidegate_mqtt_connected": MetricName("gauge", (), "1 while the bridge is connected to the MQTT broker, else 0"),
    "tidegate_mqtt_in_flight": MetricName(
        "gauge", ("direction",), "messages that came from the MQTT broker or went there and are not acknowledged yet"
    ),
    "tidegate_webhooks": MetricName("gauge", ("state",), "webhooks by how they stand"),
    "tidegate_cost_microseconds": MetricName(
        "gauge",
        ("principal", "subscription"),
        "microseconds of processor time per publication of the ten subscriptions that cost most",
    ),
    "tidegate_process_up": MetricName("gauge", ("process",), "1 while a process of the broker is there, 0 while not"),
    "tidegate_process_starts": MetricName("gauge", ("process",), "how often it was started since the broker was"),
    "tidegate_process_cpu_seconds": MetricName("gauge", ("process",), "its processor time since it was started"),
    "tidegate_process_memory_bytes": MetricName("gauge", ("process",), "its memory"),
}
