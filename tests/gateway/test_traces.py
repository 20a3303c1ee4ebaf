"""Spans of a broker, as a receiver of OTLP takes them: who is whose parent, and how publications carry a trace."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tidegate as tg
from tests.gateway.clients import Client
from tests.gateway.live_broker import live
from tidegate.gateway.counts import Counts
from tidegate.gateway.delivered_traces import TracedItem, _contexts
from tidegate.gateway.process_log import log_to_standard_error
from tidegate.gateway.traces import AT_ONCE, PublishSpan, Traces
from tidegate.runs.traces_section import TracesSection

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


class Spans:
    """What was received: spans by name, in the order in which they began."""

    def __init__(self):
        self.all, self.services = [], set()

    def take(self, body):
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            said = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.services.add(said["service.name"])
            for scope in resource.scope_spans:
                self.all += scope.spans

    def named(self, name):
        return sorted((span for span in self.all if span.name == name), key=lambda span: span.start_time_unix_nano)


@contextmanager
def receiver(status=200):
    """The section of a broker that sends its spans here, and the spans that came."""
    found = Spans()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            found.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *said):
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f'[traces]\nendpoint = "http://127.0.0.1:{server.server_port}/v1/traces"\n', found
        finally:
            server.shutdown()
            thread.join()


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def context_of(span):
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def test_spans_from_accept_to_delivery(tmp_path):
    with receiver() as (section, spans):
        with live(tmp_path, section + 'service = "valley"\n') as broker, broker.client("ann") as ann:
            ann.put("/v1/subscriptions/s", json={"where": "n > 0"})
            broker.run()
            with Client(broker, "ann") as socket:
                assert socket.receive()["type"] == "hello"
                given = [{"id": "p1", "source": "z", "n": 1}, {"id": "p2", "source": "z", "attributes": {"n": 0}}]
                headers = {"traceparent": SAMPLED, "tracestate": "vendor=1"}
                assert ann.post("/v1/publications", json=given, headers=headers).json()["accepted"] == 2
                broker.run()
                told = socket.receive()["publication"]["attributes"]
            polled = ann.get("/v1/notifications").json()["notifications"]
        [publish] = spans.named("publish")
    assert (publish.trace_id.hex(), publish.parent_span_id.hex()) == (TRACE, PARENT)
    assert told == polled[0]["publication"]["attributes"]
    assert told == {"n": 1, "traceparent": context_of(publish), "tracestate": "vendor=1"}
    assert attributes(publish)["tidegate.accepted"] == 2
    matches, deliveries = spans.named("match"), spans.named("deliver")
    assert {attributes(one)["tidegate.connection"] for one in deliveries} == {"websocket", "poll"}
    assert len(matches) == len(deliveries) == 2
    for match, delivery in zip(matches, deliveries, strict=True):
        assert {one.trace_id.hex() for one in (match, delivery)} == {TRACE}
        assert {one.parent_span_id for one in (match, delivery)} == {publish.span_id}
        assert publish.start_time_unix_nano <= match.start_time_unix_nano + 1000
        assert match.start_time_unix_nano <= match.end_time_unix_nano == delivery.start_time_unix_nano
        assert delivery.start_time_unix_nano <= delivery.end_time_unix_nano
    assert spans.services == {"valley"}


@pytest.mark.parametrize("header", [NOT_SAMPLED, "nonsense", f"00-{'0' * 32}-{PARENT}-01", None])
def test_what_is_not_sampled_has_no_spans_and_carries_nothing(tmp_path, header):
    with receiver() as (section, spans):
        with live(tmp_path, section) as broker, broker.client("ann") as ann:
            ann.put("/v1/subscriptions/s", json={"where": "n > 0"})
            headers = {} if header is None else {"traceparent": header}
            ann.post("/v1/publications", json={"id": "p", "source": "z", "n": 1}, headers=headers)
            broker.run()
            [item] = ann.get("/v1/notifications").json()["notifications"]
        assert item["publication"]["attributes"] == {"n": 1}
    assert spans.all == []


def test_a_share_of_the_others_begins_a_trace(tmp_path):
    with receiver() as (section, spans):
        with live(tmp_path, section + "share = 1\n") as broker, Client(broker, "ann", "publisher") as socket:
            assert socket.receive()["type"] == "hello"
            assert socket.ask("publish", publications=[{"source": "z", "n": 1}])["accepted"] == 1
        [publish] = spans.named("publish")
    assert publish.parent_span_id == b""


def test_a_retry_within_another_trace_is_a_duplicate(tmp_path):
    other = SAMPLED.replace("4b", "5b")
    one = {"id": "p", "source": "z", "n": 1}
    with receiver() as (section, _), live(tmp_path, section) as broker, broker.client("ann") as ann:
        for number, headers in enumerate([{"traceparent": SAMPLED}, {"traceparent": other}, {}]):
            found = ann.post("/v1/publications", json=one, headers=headers).json()
            assert (found["accepted"], found["duplicates"]) == ((1, 0) if number == 0 else (0, 1))
        found = ann.post("/v1/publications", json=one | {"n": 2}, headers={"traceparent": other}).json()
        assert found["refused"][0]["code"] == "conflict"


def test_a_publication_keeps_a_trace_of_its_own_and_a_pattern_links_them(tmp_path):
    mine = SAMPLED.replace("4b", "6b")
    with receiver() as (section, spans):
        with live(tmp_path, section) as broker, broker.client("ann") as ann:
            ann.put("/v1/subscriptions/both", json={"where": "together('PT5M', 2000000, n > 0, m > 0)"})
            place = {"location": {"lon": 7, "lat": 46}}
            given = [
                {"id": "a", "source": "z", "n": 1, "traceparent": mine, **place},
                {"id": "b", "source": "y", "m": 1, **place},
            ]
            ann.post("/v1/publications", json=given, headers={"traceparent": SAMPLED})
            broker.run()
            [item] = ann.get("/v1/notifications").json()["notifications"]
        [publish], [delivery] = spans.named("publish"), spans.named("deliver")
    carried = [one["attributes"]["traceparent"] for one in item["publications"]]
    assert sorted(carried) == sorted([mine, context_of(publish)])
    of_parent = {mine: mine.split("-")[1:3], context_of(publish): [TRACE, publish.span_id.hex()]}[carried[-1]]
    assert [delivery.trace_id.hex(), delivery.parent_span_id.hex()] == of_parent
    assert [f"00-{one.trace_id.hex()}-{one.span_id.hex()}-01" for one in delivery.links] == carried[:1]


def test_items_that_belong_to_a_trace_are_said_a_few_at_a_time(tmp_path, monkeypatch):
    said, delivered = {}, Traces.delivered

    def noted(self, items, kind, ended):
        said.setdefault(kind, []).append(len(items))
        delivered(self, items, kind, ended)

    monkeypatch.setattr(Traces, "delivered", noted)
    with receiver() as (section, spans):
        with live(tmp_path, section) as broker, broker.client("ann") as ann:
            ann.put("/v1/subscriptions/s", json={"where": "n > 0"})
            broker.run()
            with Client(broker, "ann") as socket:
                assert socket.receive()["type"] == "hello"
                given = [{"source": "z", "n": 1 + number} for number in range(60)]
                ann.post("/v1/publications", json=given, headers={"traceparent": SAMPLED})
                broker.run()
                assert {socket.receive()["number"] for _ in given} == set(range(1, 61))
            assert len(ann.get("/v1/notifications?limit=100").json()["notifications"]) == 60
        assert len(spans.named("deliver")) == 120
    assert (said["poll"], sum(said["websocket"])) == ([AT_ONCE, AT_ONCE, 10], 60)
    assert max(said["websocket"]) <= AT_ONCE


# --- what others say of a trace ---------------------------------------------------------------------------------------

FORGED = "a=1\n2026-11-15 08:00:00 gateway 1 ERROR somebody came in"


@pytest.mark.parametrize("state", [FORGED, "a=1\r", "a=\x1b[2J", "a=\u2028b", "x" * 513, " a=1", 3, None])
def test_a_state_that_is_none_is_neither_passed_on_nor_logged(state, caplog):
    traces = Traces(TracesSection(), Counts(), InMemorySpanExporter())
    given = {"traceparent": SAMPLED, "tracestate": state}
    headers = {name: value for name, value in given.items() if isinstance(value, str)}
    with traces.publishing(headers, 1) as span:
        assert list(span.carried([{"n": 1}])[0]) == ["n", "traceparent"]
    contexts = _contexts(orjson.dumps({"publication": {"attributes": given}}))
    assert contexts == [{"traceparent": SAMPLED}]
    traces.delivered([TracedItem(1, contexts, None, 1)], "poll", 2)
    assert caplog.records == []


def test_a_log_of_a_broker_has_no_context(monkeypatch):
    loggers = [logging.getLogger(name) for name in ("tidegate", "opentelemetry.trace", "uvicorn")]
    levels = [one.level for one in loggers]
    monkeypatch.setattr(loggers[0], "propagate", True)
    monkeypatch.setattr(loggers[0], "handlers", [])
    log_to_standard_error("gateway 1")
    try:
        assert logging.getLogger("opentelemetry.trace.span").getEffectiveLevel() == logging.ERROR
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def test_a_small_publish_grows_by_little():
    context = {"traceparent": SAMPLED, "tracestate": "a=" + "x" * 510}
    span = PublishSpan(None, context)
    small, full = {"n": 1}, {f"a{number}": number for number in range(999)}
    assert span.carried([small, {"attributes": small}]) == [small | context, {"attributes": small | context}]
    assert span.carried([full, {"attributes": full}]) == [full, {"attributes": full}]  # too many with it
    assert span.carried([small] * 2048)[0] == small | context
    assert span.carried([small] * 2049)[0] == small | {"traceparent": SAMPLED}


def test_a_receiver_that_fails_harms_nobody(tmp_path):
    with receiver(500) as (section, _), live(tmp_path, section + "share = 1\n") as broker, broker.client("ann") as ann:
        for number in range(3):
            assert ann.post("/v1/publications", json={"source": "z", "n": number}).status_code == 202
        broker.stop()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('endpoint = "127.0.0.1:4318"', "an address that begins with http:// or https://"),
        ("share = 1.5", "a number from 0 to 1"),
        ("share = -1", "expected"),
        ('service = ""', "text that is not empty"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, text, wrong):
    with pytest.raises(tg.TidegateError, match=wrong):
        live(tmp_path, f"[traces]\n{text}\n").__enter__()
