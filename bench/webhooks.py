"""Webhooks: how late what is published reaches a thousand endpoints, with and without five hundred dead beside them.

Each round begins with seconds that are reported apart: connections are made then, and dead endpoints fail all at once.
"""

from __future__ import annotations

import http.client
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

import tidegate as tg
from bench.gateway_broker import Broker, free_address, served, started_at
from bench.harness import Report, say
from tidegate.store.webhook_tables import Progress
from tidegate.store.webhooks import StoredWebhooks

__all__ = ["COLUMNS", "main"]

SEED = 2026
COLUMNS = {
    "what": "what",
    "endpoints": "endpoints",
    "dead": "of these dead",
    "posts": "requests to the living/s",
    "p50": "p50 ms",
    "p99": "p99 ms",
    "worst": "worst ms",
    "first": "p99 ms of the first 4 s",
    "memory": "sender MB",
    "remark": "remark",
}
#: How endpoints may be dead; nobody listens where they are refused.
_DEAD = ("refuses", "hangs", "slow", "fails")
#: Endpoints that a publication goes to, of those that live and of those that do not.
_TOGETHER = 10
#: Seconds in which what is under way comes to its end.
_REST = 3.0
#: Seconds at the beginning of a round that count for themselves.
_FIRST = 4.0
_SETTINGS = '[webhooks]\nallow = ["127.0.0.0/8"]\nhttp = true\nendpoints = 100000\n'


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    living: int
    dead: int
    rounds: int
    seconds: float
    rate: int
    """Publications a second."""


FULL = Sizes(500, 500, 5, 20.0, 40)
QUICK = Sizes(40, 40, 2, 2.0, 10)


class Endpoints:
    """A broker with endpoints of one principal, those that live and perhaps dead ones, and what they must be told."""

    def __init__(self, folder: Path, name: str, sizes: Sizes, dead: int) -> None:
        self.name, self.dead, self.sizes, self._folder = name, dead, sizes, folder
        self.broker = Broker(folder / name, "process", _SETTINGS)
        (self._token,) = self.broker.tokens(["ann"], "publisher", "subscriber")
        self.receiver, self._refused = free_address(), free_address()
        self._groups = max(1, sizes.living // _TOGETHER)
        self._wanted: dict[str, list[str]] = defaultdict(list)
        self._count, self.began_at = 0, 0.0
        self._make()

    def _make(self) -> None:
        kinds = ["lives"] * self.sizes.living + [_DEAD[number % len(_DEAD)] for number in range(self.dead)]
        subscriptions = []
        with tg.Registry(self.broker.data.registry) as registry, StoredWebhooks(registry) as webhooks:
            for number, kind in enumerate(kinds):
                host, port = self._refused if kind == "refuses" else self.receiver
                url, name = f"http://{host}:{port}/{kind}/{number}", f"h{number}"
                made = webhooks.put("ann", name, url, batch=None, secret=None, most=100_000).webhook
                webhooks.save([(made, Progress("active"))])
                where = f"group = {number % self._groups}"
                subscriptions.append(tg.Subscription(name, "ann", where, deliver={"webhook": name}))
        self.broker.subscribe(subscriptions)

    @contextmanager
    def receiving(self, number: int) -> Iterator[Path]:
        """Receivers, and the file to which they write what came once they have ended."""
        self.began_at = time.time()
        output = self._folder / f"{self.name}-{number}.jsonl"
        command = ["bench.webhook_receiver", str(self.receiver[1]), str(output)]
        with started_at(self.receiver, command, self._folder / f"{self.name}-receiver.output"):
            yield output

    def publish(self, seconds: float) -> float:
        """Publish at a steady rate; how many requests a second that is to the living."""
        host, port = self.broker.address
        connection = http.client.HTTPConnection(host, port, timeout=60)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        began, count = time.monotonic(), int(seconds * self.sizes.rate)
        for number in range(count):
            time.sleep(max(0.0, began + number / self.sizes.rate - time.monotonic()))
            id, group = f"p{self._count}", number % self._groups
            self._count += 1
            body = {"id": id, "source": "hut", "group": group, "sent": time.time()}
            connection.request("POST", "/v1/publications", orjson.dumps(body), headers)
            answer = connection.getresponse()
            if answer.status != 202:
                raise SystemExit(f"bench webhooks: expected 202; got {answer.status}: {answer.read()[:200]!r}")
            answer.read()
            for place in range(group, self.sizes.living, self._groups):
                self._wanted[f"/lives/{place}"].append(id)
        connection.close()
        return count * _TOGETHER / seconds

    @property
    def sent(self) -> int:
        """How many were published so far."""
        return self._count

    def take_wanted(self) -> dict[str, list[str]]:
        """What was published since, by the endpoints that must be told."""
        wanted, self._wanted = dict(self._wanted), defaultdict(list)
        return wanted


def main(quick: bool = False) -> None:
    """Both brokers in turn, in rounds."""
    report, sizes = Report("webhooks", SEED, COLUMNS), QUICK if quick else FULL
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder = Path(name)
        both = [Endpoints(folder, "living", sizes, 0), Endpoints(folder, "with-dead", sizes, sizes.dead)]
        late: dict[str, list[list[float]]] = defaultdict(list)
        first: dict[str, list[float]] = defaultdict(list)
        exact: dict[str, bool] = defaultdict(lambda: True)
        memory: dict[str, float] = defaultdict(float)
        posts = 0.0
        for number in range(sizes.rounds):
            for one in both:
                began, found, is_exact, posts, size = _round(one, number)
                late[one.name].append(found)
                first[one.name] += began
                exact[one.name] &= is_exact
                memory[one.name] = max(memory[one.name], size)
                say(f"{one.name}, round {number + 1}: p99 {np.percentile(found, 99):.1f} ms")
        for one in both:
            every = np.concatenate(late[one.name])
            report.add(
                exact=exact[one.name],
                seconds={"p99 by round": [float(np.percentile(some, 99)) / 1e3 for some in late[one.name]]},
                what="the living alone" if not one.dead else "beside dead ones",
                endpoints=sizes.living + one.dead,
                dead=one.dead,
                posts=posts,
                p50=float(np.percentile(every, 50)),
                p99=float(np.percentile(every, 99)),
                worst=float(every.max()),
                first=float(np.percentile(first[one.name], 99)),
                memory=memory[one.name] / 1e6,
                remark=f"{len(every):,} requests in {sizes.rounds} rounds that alternate",
            )
    report.finish()


def _round(one: Endpoints, number: int) -> tuple[list[float], list[float], bool, float, float]:
    """A broker from its start to its end: how late each request to the living was in the first seconds and later,
    whether all came in order and once, how many a second there were, and the memory of the sender.
    """
    with one.receiving(number) as output, served(one.broker) as broker:
        _wait_for_sender(one)
        one.publish(_FIRST)
        ahead = one.sent
        posts = one.publish(one.sizes.seconds)
        wanted = one.take_wanted()
        broker.settle()
        time.sleep(_REST)
        memory = _sender_memory(broker)
    told = defaultdict[str, list[str]](list)
    first, later = list[float](), list[float]()
    for line in output.read_bytes().splitlines():
        path, _, id, milliseconds = orjson.loads(line)
        told[path].append(id)
        (later if int(id[1:]) >= ahead else first).append(milliseconds)
    return first, later, dict(told) == wanted, posts, memory


def _wait_for_sender(one: Endpoints) -> None:
    """Wait until the sender has begun: what is published before waits for its start."""
    lock = one.broker.data.run / "sender-of-webhooks" / "lock"
    until = time.monotonic() + 60
    while not lock.exists() or lock.stat().st_mtime < one.began_at:
        if time.monotonic() > until:
            raise SystemExit("bench webhooks: expected a sender that begins; got none")
        time.sleep(0.05)
    time.sleep(_REST)


def _sender_memory(broker: Broker) -> float:
    """Bytes that the sender has in memory."""
    return max(
        (one.memory_info().rss for one in broker._family() if "tidegate.webhooks.sender_process" in one.cmdline()),
        default=0,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
