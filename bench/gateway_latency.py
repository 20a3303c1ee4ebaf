"""From a post to its notification on a WebSocket: 100,000 subscriptions, posts of one publication at a steady rate.

One principal is told of every publication; about so many of the other subscriptions match one as ``MATCHES`` says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tidegate as tg
from bench.boolean_intervals import ATTRIBUTES, PREDICATES
from bench.gateway_broker import Broker, served
from bench.gateway_load import LoadProcess
from bench.gateway_paced import Latencies, PacedPosts
from bench.harness import Report, say
from bench.workload import Workload

__all__ = ["WANTED", "latency"]

#: Publications per second, subscriptions that match each, and the share of the posts that only warms up.
RATE, MATCHES, _WARM = 500.0, 0.05, 0.2
#: What is wanted of each runner, in milliseconds.
WANTED = {"process": "p50 ≤ 8 ms, p99 ≤ 25 ms", "spark": "p95 ≤ 350 ms"}
_SEED = 2026


def latency(report: Report, folder: Path, runner: str, subscriptions: int, seconds: float) -> None:
    """A row of one runner."""
    say(f"post → WebSocket: {subscriptions:,} subscriptions, {RATE:,.0f} posts/s, runner {runner}")
    broker = Broker(folder / f"latency-{runner}", runner)
    width = (MATCHES / subscriptions) ** (1 / PREDICATES)
    work = Workload.of_intervals(subscriptions, width, 0, ATTRIBUTES, PREDICATES, _SEED)
    broker.subscribe([*work.subscriptions(), tg.Subscription("all", "watcher", "a0 >= 0")])
    (publisher,), (watcher,) = broker.tokens(["device"], "publisher"), broker.tokens(["watcher"], "subscriber")
    with served(broker), LoadProcess() as load:
        say("  ready")
        before = broker.cpu()
        count = int(RATE * seconds * (1 + _WARM))
        done: Latencies = load.call("follow", PacedPosts(broker.address, publisher, RATE, count, _SEED), watcher)
        used = {name: spent - before.get(name, 0.0) for name, spent in broker.cpu().items()}
    for answer, times in done.failed.most_common(3):
        say(f"  {times:,} answers: {answer}")
    for name, spent in sorted(used.items(), key=lambda pair: -pair[1])[:4]:
        say(f"  {100 * spent / (count / RATE):.0f} % of a core: {name}")
    measured = 1e3 * np.array(done.seconds[int(count * _WARM / (1 + _WARM)) :])
    p50, p95, p99 = (float(np.percentile(measured, q)) for q in (50, 95, 99))
    report.add(
        what=f"post → WebSocket, {RATE:,.0f}/s, {subscriptions:,} subscriptions, runner {runner}",
        form="object",
        connections=1,
        posts=RATE,
        p50=p50,
        p95=p95,
        p99=p99,
        clients=100 * done.cpu,
        wanted=WANTED[runner],
        remark=f"posts went out late by {1e3 * float(np.percentile(done.late, 99)):.2g} ms (p99)",
        exact=done.exact,
        seconds={"latency": (measured / 1e3).tolist()},
    )
