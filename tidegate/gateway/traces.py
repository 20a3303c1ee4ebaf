"""Spans of OpenTelemetry for publications: from when they are accepted until they are written to who is told.

A publication carries the context of its trace as the attributes ``traceparent`` and ``tracestate`` (W3C Trace Context),
as CloudEvents do. The span ``publish`` is that of a request; publications that bring no context of their own get its.
``match`` and ``deliver`` follow when one is written to a connection. Spans are sent by a thread of OpenTelemetry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tidegate.extras import require
from tidegate.gateway.counts import Counts
from tidegate.gateway.delivered_traces import TracedItem, is_state
from tidegate.gateway.given_publications import MOST_ATTRIBUTES
from tidegate.runs.traces_section import TracesSection

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    from tidegate.gateway.submission import Published

__all__ = ["AT_ONCE", "PublishSpan", "Traces"]

PARENT, STATE = "traceparent", "tracestate"
#: Seconds that the end of a gateway waits for spans to be sent, and an attempt to send some may take.
_FLUSH, _ATTEMPT = 1.0, 5.0
#: Items whose spans are made at a time, which takes a millisecond or so.
AT_ONCE = 25
#: Bytes of all ``tracestate`` that a request may add to its items; with more these carry the ``traceparent`` alone.
_MOST_STATES = 1 << 20
#: Nanoseconds of a microsecond.
_MICROSECOND = 1000
_SYSTEM = {"messaging.system": "tidegate"}


class PublishSpan:
    """The span of one request that publishes."""

    def __init__(self, span: Span, context: Mapping[str, str]) -> None:
        self._span, self._context = span, context

    def carried(self, items: Sequence[Any]) -> Sequence[Any]:
        """The items with the context of the span, but for those that bring one of their own or have no room for it."""
        context = self._context
        if len(context.get(STATE, "")) * len(items) > _MOST_STATES:
            context = {PARENT: context[PARENT]}
        return [_with_context(item, context) for item in items] if context else items

    def note(self, found: Published) -> None:
        """Note what became of the items."""
        self._span.set_attributes({
            "tidegate.accepted": found.accepted,
            "tidegate.duplicates": found.duplicates,
            "tidegate.refused": len(found.refused),
        })  # fmt: skip


def _with_context(item: Any, context: Mapping[str, str]) -> Any:
    if type(item) is not dict:
        return item
    attributes = item.get("attributes")
    inner = attributes if isinstance(attributes, dict) else item
    if PARENT in inner or PARENT in item or len(inner) + len(context) > MOST_ATTRIBUTES:
        return item
    return {**item, **context} if inner is item else {**item, "attributes": {**inner, **context}}


class Traces:
    """The spans of one gateway: a part of its broker, used in its event loop. ``exporter`` sends them, if it is not
    that of the section.
    """

    is_ready = True

    def __init__(self, settings: TracesSection, counts: Counts, exporter: SpanExporter | None = None) -> None:
        require("traces", "[traces]")
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=_ATTEMPT)
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.share)),
            resource=Resource.create({"service.name": settings.service}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("tidegate")
        self._propagator, self._counts = TraceContextTextMapPropagator(), counts

    async def start(self) -> None:
        """Nothing: the thread that sends spans begins with them."""

    async def stop(self) -> None:
        """Send what is left, as far as that goes quickly."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                await asyncio.to_thread(self._provider.shutdown)

    @contextmanager
    def publishing(self, headers: Mapping[str, str], count: int) -> Iterator[PublishSpan]:
        """The span of a request that publishes so many items, within the trace that its headers name, if any."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        given = {name: headers[name] for name in (PARENT, STATE) if name in headers}
        if not is_state(given.get(STATE)):
            given.pop(STATE, None)
        with self._tracer.start_as_current_span(
            "publish",
            context=self._propagator.extract(given),
            kind=SpanKind.SERVER,
            attributes={**_SYSTEM, "messaging.batch.message_count": count},
        ) as span:
            context = dict[str, str]()
            if span.is_recording():
                self._counts.add("spans", "publish")
                self._propagator.inject(context, set_span_in_context(span))
            yield PublishSpan(span, context)

    def delivered(self, items: Sequence[TracedItem], kind: str, ended: int) -> None:
        """The spans of items that were written to a connection of this kind, at a moment in µs since 1970. Callers give
        ``AT_ONCE`` at a time.
        """
        from opentelemetry.trace import Link, SpanKind, get_current_span

        for item in items:
            parent = self._propagator.extract(item.contexts[-1])
            if not get_current_span(parent).get_span_context().trace_flags.sampled:
                continue
            others = [get_current_span(self._propagator.extract(one)).get_span_context() for one in item.contexts[:-1]]
            links = [Link(one) for one in others if one.is_valid]
            said = {**_SYSTEM, "messaging.message.id": str(item.number)}
            if item.appended is not None:
                began, at = item.appended * _MICROSECOND, item.matched * _MICROSECOND
                self._tracer.start_span("match", parent, SpanKind.INTERNAL, said, links, began).end(at)
                self._counts.add("spans", "match")
            said["tidegate.connection"] = kind
            began = item.matched * _MICROSECOND
            self._tracer.start_span("deliver", parent, SpanKind.PRODUCER, said, links, began).end(ended * _MICROSECOND)
            self._counts.add("spans", "deliver")
