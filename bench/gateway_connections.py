"""Many connections: notifications per second, memory of the gateway for each, and what stalled ones cost the others.

Each connection is of a principal of its own, in one of the rooms; each publication is for the principals of one room.
Publications come faster than they can be delivered. Readers compare each notification with what must come.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import tidegate as tg
from bench.gateway_broker import Broker, served
from bench.gateway_load import Delivered, LoadProcess
from bench.gateway_rooms import Rooms, room_name
from bench.harness import Report, median, say

__all__ = ["Audience", "delivering", "stalling"]

#: Principals in a room, publications in a post, notifications a second that would be wanted of the gateway.
IN_A_ROOM, _BATCH, OFFERED = 100, 16, 100_000
#: Bytes of room for a connection where some are stalled: little enough that these are closed.
_ROOM = 1 << 14
_WANTED = "≥ 40,000 notifications/s, ≤ 40 kB"


class Audience:
    """A broker with so many subscribers; ``publish`` has a round of publications delivered."""

    def __init__(self, folder: Path, connections: int, lines: str = "") -> None:
        self.connections, self.rooms = connections, max(1, connections // IN_A_ROOM)
        self.broker = Broker(folder, "process", lines)
        names = [f"reader-{i:05d}" for i in range(connections)]
        self.broker.subscribe(
            tg.Subscription(f"room-of-{name}", name, f"room = '{room_name(i % self.rooms)}'")
            for i, name in enumerate(names)
        )
        say(f"  tokens of {connections:,} principals")
        (self._publisher,) = self.broker.tokens(["device"], "publisher")
        tokens = self.broker.tokens(names, "subscriber")
        self.readers = [(token, room_name(i % self.rooms)) for i, token in enumerate(tokens)]
        self.published = 0

    def publish(self, load: LoadProcess, each: int, timed: int) -> Delivered:
        """So many publications for each room, delivered to everybody who is not stalled; the first are measured."""
        count = each * self.rooms
        rooms = Rooms(self.broker.address, self._publisher, self.rooms, count, _BATCH, OFFERED / IN_A_ROOM)
        done: Delivered = load.call("deliver", rooms, self.published, timed)
        self.published += count
        for answer, times in done.failed.most_common(3):
            say(f"  {times:,} answers: {answer}")
        if done.behind:
            say(f"  {done.behind:,} readers did not get everything")
        say(f"  {done.rate:,.0f} notifications/s, published within {done.publishing:.1f} s")
        return done

    def has_all(self, load: LoadProcess) -> bool:
        """Whether every reader has all of its room, once and in order."""
        lowest, highest, wrong = load.call("numbers")
        for what in wrong[:3]:
            say(f"  wrong: {what}")
        return (lowest, highest) == (self.published // self.rooms,) * 2 and not wrong


def delivering(report: Report, folder: Path, connections: int, each: int, rounds: int) -> None:
    """A row for WebSockets and one for Server-Sent Events: medians of ``rounds``."""
    for kind in ("WebSocket", "SSE"):
        say(f"{connections:,} connections, {kind}")
        audience = Audience(folder / f"connections-{kind}", connections)
        with served(audience.broker), LoadProcess() as load:
            report.add(**_delivering(audience, load, kind, each, rounds))


def _delivering(
    audience: Audience, load: LoadProcess, kind: Literal["WebSocket", "SSE"], each: int, rounds: int
) -> dict[str, Any]:
    broker = audience.broker
    before = broker.memory()
    opening = load.call("connect", kind, broker.address, audience.readers)
    idle = broker.memory() - before
    say(f"  connected within {opening:.1f} s, {idle / audience.connections / 1e3:.1f} kB each")
    done = [audience.publish(load, each, audience.connections) for _ in range(rounds)]
    exact = audience.has_all(load) and not any(one.behind or one.failed for one in done)
    broker.settle()
    used = broker.memory() - before
    load.call("disconnect")
    return {
        "what": "notifications to many",
        "form": kind,
        "connections": audience.connections,
        "rate": median([one.rate for one in done]),
        "memory": used / audience.connections / 1e3,
        "clients": 100 * median([one.cpu for one in done]),
        "wanted": _WANTED,
        "remark": f"{idle / audience.connections / 1e3:.1f} kB each before the first notification",
        "exact": exact,
        "rates": [round(one.rate) for one in done],
    }


def stalling(report: Report, folder: Path, connections: int, each: int, rounds: int) -> None:
    """A row: rounds with all reading and with a tenth stalled, in turn; the rate of the nine tenths in both."""
    say(f"{connections:,} connections, a tenth of them stalled")
    audience = Audience(folder / "stalled", connections, f"room = {_ROOM}\n")
    stalled, rates = connections // 10, dict[bool, list[float]]({False: [], True: []})
    closed, exact = list[int](), True
    with served(audience.broker), LoadProcess() as load:
        address = audience.broker.address
        load.call("connect", "WebSocket", address, audience.readers)
        for number in range(2 * rounds):
            has_stalled = number % 2 == 1
            if has_stalled:
                load.call("stall", address, stalled)
            done = audience.publish(load, each, connections - stalled)
            rates[has_stalled].append(done.rate)
            exact &= not (done.behind or done.failed)
            if has_stalled:
                again, lost = load.call("resume", address, audience.published // audience.rooms)
                closed.append(again)
                exact &= not lost
            exact &= audience.has_all(load)
        load.call("disconnect")
    ratio = median([some / all for all, some in zip(rates[False], rates[True], strict=True)])
    report.add(
        what="a tenth of the connections stalled",
        form="WebSocket",
        connections=connections,
        rate=median(rates[True]),
        bare=median(rates[False]),
        ratio=ratio,
        wanted="≥ 0.9 × without stalled ones",
        remark=f"{min(closed):,} to {max(closed):,} of {stalled:,} were closed as lagging, and resumed",
        exact=exact,
        rates=[round(rate) for rate in rates[True]],
        rates_of_all=[round(rate) for rate in rates[False]],
    )
