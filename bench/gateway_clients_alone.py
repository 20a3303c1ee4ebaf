"""What the clients of the bench could reach at most: the same clients with a server that does nothing."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, sleep

from bench.gateway_broker import free_address, started_at
from bench.gateway_connections import IN_A_ROOM
from bench.gateway_load import LoadProcess
from bench.gateway_posting import PATIENCE, Posted
from bench.gateway_requests import PublishRequests
from bench.gateway_rooms import room_name
from bench.harness import Report, say

__all__ = ["clients_alone"]

_CLIENTS, _WHAT = 64, "clients alone: "


def clients_alone(report: Report, folder: Path, seconds: float, connections: int, each: int) -> None:
    """A row for posts of one publication, and one for each kind of reader."""
    say("what the clients reach with a server that does nothing")
    address = free_address()
    command = ["bench.gateway_null", str(address[1]), str(each)]
    with started_at(address, command, folder / "null.output"), LoadProcess() as load:
        clients = [PublishRequests(address, "none", f"{i}", "object", 1) for i in range(_CLIENTS)]
        done: Posted = load.call("post", clients, seconds, seconds / 4)
        report.add(
            what=f"{_WHAT}posts of one",
            form="object",
            connections=_CLIENTS,
            posts=done.rate,
            rate=done.rate,
            clients=100 * done.cpu,
            exact=not done.failed,
        )
        for kind in ("WebSocket", "SSE"):
            rooms = [room_name(i % max(1, connections // IN_A_ROOM)) for i in range(connections)]
            begin = perf_counter()
            load.call("connect", kind, address, [(room, room) for room in rooms])
            while load.call("numbers")[0] < each and perf_counter() < begin + PATIENCE:
                sleep(0.01)
            took, found = perf_counter() - begin, load.call("numbers")
            load.call("disconnect")
            report.add(
                what=f"{_WHAT}notifications, connecting included",
                form=kind,
                connections=connections,
                rate=connections * each / took,
                exact=found == (each, each, []),
            )
