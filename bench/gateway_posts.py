"""Posts that are acknowledged: the gateway and the bare app in turn, with the same clients and the same bodies.

Each client has a token of its own. Everything acknowledged must be in the log, in the order of its client, and nothing
else; the file of the bare app must have as many bytes as were sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.gateway_broker import Address, Broker, free_address, served, started_at
from bench.gateway_load import LoadProcess
from bench.gateway_posting import Posted
from bench.gateway_requests import PublishRequests
from bench.harness import Report, median, say
from bench.processes import apart

__all__ = ["POSTS", "Variant", "posts"]


class Variant(NamedTuple):
    """What is posted: by how many clients, in which form, how many publications in each post, and what is wanted."""

    clients: int
    form: str
    events: int
    wanted: float | None = None
    """Publications per second."""

    @property
    def what(self) -> str:
        return "posts of one" if self.events == 1 else f"posts of {self.events}"


POSTS = (
    Variant(1, "object", 1),
    Variant(64, "object", 1, 4_000),
    Variant(256, "object", 1),
    Variant(64, "array", 100, 60_000),
    Variant(64, "NDJSON", 100),
    Variant(64, "Arrow", 100),
)
#: What the gateway's rate divided by that of the bare app should be.
_RATIO = 0.6


@dataclass
class _Rounds:
    gateway: list[Posted] = field(default_factory=list)
    bare: list[Posted] = field(default_factory=list)
    reading: list[Posted] = field(default_factory=list)
    """Of the bare app that decodes JSON, where that is measured."""
    exact: bool = True

    def ratio(self, to: list[Posted]) -> float:
        """The median of the rounds' ratios."""
        return median([ours.rate / theirs.rate for ours, theirs in zip(self.gateway, to, strict=True)])


def posts(report: Report, folder: Path, variants: Sequence[Variant], count: int, seconds: float) -> None:
    """A row for each variant: medians of ``count`` rounds, in each of which both servers have each variant once."""
    broker, found = Broker(folder / "posts", "process"), dict[Variant, _Rounds]()
    tokens = broker.tokens([f"device-{i:03d}" for i in range(max(each.clients for each in variants))], "publisher")
    with served(broker), LoadProcess() as load:
        for number in range(count):
            for variant in variants:
                say(f"round {number + 1}: {variant.what}, {variant.form}, {variant.clients} clients")
                rounds = found.setdefault(variant, _Rounds())
                for is_bare in (number % 2 == 0, number % 2 == 1):
                    if is_bare:
                        rounds.bare.append(_bare(rounds, load, folder, variant, seconds))
                        if variant.wanted:
                            rounds.reading.append(_bare(rounds, load, folder, variant, seconds, "read"))
                    else:
                        _gateway(rounds, load, broker, tokens, variant, number, seconds)
    for variant, rounds in found.items():
        report.add(**_row(variant, rounds), exact=rounds.exact)


def _gateway(
    rounds: _Rounds, load: LoadProcess, broker: Broker, tokens: list[str], variant: Variant, number: int, seconds: float
) -> None:
    clients = [
        PublishRequests(broker.address, tokens[i], f"{variant.form}-{variant.clients}-{number}-{i}", *variant[1:3])
        for i in range(variant.clients)
    ]
    begin = broker.end()
    done: Posted = load.call("post", clients, seconds, seconds / 4)
    broker.settle()
    rounds.gateway.append(done)
    rounds.exact &= not done.failed and apart(lambda: _is_logged(broker, begin, clients, done.sent))
    _tell(done.failed)


def _is_logged(broker: Broker, begin: int, clients: list[PublishRequests], sent: list[int]) -> bool:
    expected = {client.source: list(client.ids(count)) for client, count in zip(clients, sent, strict=True) if count}
    return broker.logged(begin) == expected


def _bare(rounds: _Rounds, load: LoadProcess, folder: Path, variant: Variant, seconds: float, *how: str) -> Posted:
    file = folder / "bare"
    with _bare_app(file, variant.events, *how) as address:
        clients = [PublishRequests(address, "none", f"{i}", *variant[1:3]) for i in range(variant.clients)]
        done: Posted = load.call("post", clients, seconds, seconds / 4)
    sent = sum(done.sent)
    expected = sum(client.body_size * count for client, count in zip(clients, done.sent, strict=True))
    if how:
        rounds.exact &= not done.failed and file.read_bytes().count(b"\n") == sent * variant.events
    else:
        rounds.exact &= not done.failed and file.stat().st_size == expected
    _tell(done.failed)
    file.unlink()
    return done


@contextmanager
def _bare_app(file: Path, events: int, *how: str) -> Iterator[Address]:
    address = free_address()
    words = ["bench.gateway_bare", str(file), str(address[1]), str(events), *how]
    with started_at(address, words, file.with_suffix(".output")):
        yield address


def _tell(failed: Counter[str]) -> None:
    for answer, count in failed.most_common(3):
        say(f"  {count:,} answers: {answer}")


def _row(variant: Variant, rounds: _Rounds) -> dict[str, Any]:
    each = np.concatenate([done.latencies for done in rounds.gateway])
    rate = median([done.rate for done in rounds.gateway])
    wanted = f"≥ {variant.wanted:,.0f} publications/s, ≥ {_RATIO} × bare" if variant.wanted else None
    return {
        "what": variant.what,
        "form": variant.form,
        "connections": variant.clients,
        "posts": rate,
        "rate": rate * variant.events,
        "bare": median([done.rate for done in rounds.bare]) * variant.events,
        "ratio": rounds.ratio(rounds.bare),
        "reading": median([done.rate for done in rounds.reading]) * variant.events if rounds.reading else None,
        "reading_ratio": rounds.ratio(rounds.reading) if rounds.reading else None,
        "p50": 1e3 * float(np.percentile(each, 50)),
        "p99": 1e3 * float(np.percentile(each, 99)),
        "clients": 100 * median([done.cpu for done in rounds.gateway]),
        "wanted": wanted,
        "remark": f"bare: clients {100 * median([done.cpu for done in rounds.bare]):.0f} % of a core",
        "posts of each round": [round(done.rate, 1) for done in rounds.gateway],
        "posts of each round, bare": [round(done.rate, 1) for done in rounds.bare],
        "posts of each round, bare and reading": [round(done.rate, 1) for done in rounds.reading],
    }
