"""How the broker stands, over HTTP: as JSON for programs, as text for people who ask for ``text/plain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.responses import Response

from tidegate.broker.shown_costs import cost_lines
from tidegate.gateway.api_request import ApiRequest, json_response
from tidegate.gateway.metric_names import COUNT_PREFIX
from tidegate.gateway.process_numbers import ProcessNumbers
from tidegate.gateway.routes import BodyForm, Route

__all__ = ["ROUTES", "described"]


async def status(request: ApiRequest) -> Response:
    """How the broker stands, with what its gateways have counted by cause."""
    broker = request.broker
    counts = _by_cause(await broker.numbers.sums())
    found = await request.in_thread(broker.status.read)
    facts = found.as_json() | {"issuers": broker.access.issuers.described(), "counts": counts}
    if request.headers.get("accept", "").partition(",")[0].partition(";")[0].strip() == "text/plain":
        return Response("\n".join(described(facts)) + "\n", media_type="text/plain; charset=utf-8")
    return json_response(facts)


def _by_cause(numbers: ProcessNumbers) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for (name, labels), count in sorted(numbers.counts.items()):
        for label, cause in labels:
            if label == "cause" and name.startswith(COUNT_PREFIX):
                name = name.removeprefix(COUNT_PREFIX).removesuffix("_total")
                found.setdefault(name, {})[cause] = count
    return found


def described(facts: Mapping[str, Any]) -> Iterator[str]:
    """The same in lines for people."""
    uptime = "" if facts["uptime"] is None else f", up for {_duration(facts['uptime'])}"
    yield f"Tidegate {facts['version']}{uptime}"
    runner, lag = facts["runner"], facts["runner"]["lag"]
    behind = "" if lag is None else f", {lag['rows']:,} publications behind, {_duration(lag['seconds'])}"
    stale = "; STALE: it has not said anything for a while" if runner["stale"] else ""
    yield f"runner     {runner['kind']}: {runner['state']}{behind}{stale}"
    log, disk = facts["log"], facts["disk"]
    yield f"log        {log['rows']:,} publications, {_size(log['bytes'])}"
    yield f"disk       {_size(disk['free'])} of {_size(disk['bytes'])} free"
    valid = facts["valid_set"]
    if valid["bytes"] is not None:
        yield f"valid set  {_size(valid['bytes'])} of {_size(valid['most'])}"
    registry, queues = facts["registry"], facts["queues"]
    yield f"registry   {registry['subscriptions']:,} subscriptions at version {registry['version']:,}"
    yield f"sessions   {facts['sessions']:,}, {sum(facts['connections'].values()):,} connections"
    yield f"queues     {queues['queues']:,} of {_size(queues['bytes'])}, {queues['waiting']:,} deliveries wait"
    for one in queues["furthest_behind"]:
        waits = f"{one['depth']:,} wait, for {_duration(one['lag'])}"
        yield f"           {one['principal']} to {one['destination']}: {waits}"
    if (mqtt := facts["mqtt"]) is not None:
        where = f"connected to {mqtt['address']}" if mqtt["connected"] else f"not connected: {mqtt['problem']}"
        yield f"mqtt       {where}, {mqtt.get('queues', 0):,} queues"
    if any(facts["webhooks"]["states"].values()):
        states = facts["webhooks"]["states"].items()
        yield "webhooks   " + ", ".join(f"{count:,} {state}" for state, count in states if count)
    for one in facts["webhooks"]["failing"]:
        yield f"           {one['name']} of {one['principal']}: {one['state']}, {one['reason']}"
    yield from cost_lines(facts["costs"])
    for one in facts["processes"]:
        where = "down" if one["process"] is None else f"process {one['process']}"
        memory = "" if one["memory"] is None else f", {_size(one['memory'])}"
        starts = "" if one["starts"] in (None, 1) else f", started {one['starts']:,} times"
        yield f"process    {one['name']}: {where}{memory}{starts}"
    for one in facts["issuers"]:
        error = "" if one["error"] is None else f"; {one['error']}"
        yield f"issuer     {one['issuer']}: {one['keys']} keys, {one['state']}{error}"
    for name, by_cause in facts["counts"].items():
        yield f"counted    {name}: " + ", ".join(f"{count:,.0f} {cause}" for cause, count in by_cause.items())


def _size(count: float | None) -> str:
    return "an unknown size" if count is None else f"{count / 1e6:,.1f} MB"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86_400 else f"{seconds / 86_400:.1f} days"


ROUTES = (
    Route(
        method="GET",
        path="/v1/status",
        handler=status,
        summary="How the broker stands: its runner, log, queues, connections, processes, and what was counted.",
        role="administrator",
        answers={
            200: (
                BodyForm("application/json", schema={"type": "object"}),
                BodyForm("text/plain", schema={"type": "string"}),
            )
        },
    ),
)
