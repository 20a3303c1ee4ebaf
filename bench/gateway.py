"""The gateway over HTTP: posts beside a bare app, posts to notifications, thousands of connections, stalled ones."""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import tidegate as tg
from bench.gateway_clients_alone import clients_alone
from bench.gateway_connections import delivering, stalling
from bench.gateway_latency import latency
from bench.gateway_posts import POSTS, Variant, posts
from bench.harness import Report, say
from tidegate.extras import require

__all__ = ["COLUMNS", "main"]

SEED = 2026
COLUMNS = {
    "what": "what",
    "form": "form",
    "connections": "connections",
    "posts": "posts/s",
    "rate": "publications or notifications/s",
    "bare": "bare app, or without stalled ones/s",
    "ratio": "ratio",
    "reading": "bare app that reads JSON/s",
    "reading_ratio": "ratio to that",
    "p50": "p50 ms",
    "p95": "p95 ms",
    "p99": "p99 ms",
    "memory": "kB each",
    "clients": "clients % of a core",
    "wanted": "wanted",
    "remark": "remark",
}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    variants: tuple[Variant, ...]
    rounds: int
    seconds: float
    """Of a round of posts."""
    subscriptions: int
    steadily: float
    """Seconds of posts at a steady rate."""
    connections: int
    each: int
    """Notifications to each connection in a round."""
    each_stalled: int


FULL = Sizes(POSTS, 5, 2.0, 100_000, 20.0, 5_000, 60, 100)
QUICK = Sizes(POSTS[1:4:2], 2, 0.5, 1_000, 2.0, 200, 50, 200)


def main(quick: bool = False) -> None:
    """Everything in one temporary directory; servers and clients are processes of their own."""
    report, sizes = Report("gateway", SEED, COLUMNS), QUICK if quick else FULL
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        clients_alone(report, folder, sizes.seconds, sizes.connections, sizes.each)
        posts(report, folder, sizes.variants, sizes.rounds, sizes.seconds)
        for runner in ("process", "spark"):
            if runner == "spark" and not _has_spark():
                continue
            latency(report, folder, runner, sizes.subscriptions, sizes.steadily)
        delivering(report, folder, sizes.connections, sizes.each, sizes.rounds)
        stalling(report, folder, sizes.connections, sizes.each_stalled, sizes.rounds)
    report.finish()


def _has_spark() -> bool:
    with suppress(tg.TidegateError):
        require("spark", "the runner spark")
        return True
    say("the runner spark is not measured: the extra is not installed")
    return False
