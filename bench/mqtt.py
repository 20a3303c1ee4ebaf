"""The bridge to an MQTT broker: messages with QoS 1 in beside a bare loop of gmqtt, and in and out at a steady rate."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import orjson
import psutil

import tidegate as tg
from bench.gateway_broker import Broker, free_address, served
from bench.harness import Report, median, say
from bench.mqtt_load import Listener, publish
from bench.processes import Beside, started
from tidegate.broker.bridge_record import BridgeRecord

__all__ = ["COLUMNS", "main"]

SEED = 2026
COLUMNS = {
    "what": "what",
    "messages": "messages",
    "rate": "messages/s",
    "bare": "bare loop of gmqtt/s",
    "ratio": "ratio",
    "cpu": "µs of CPU each",
    "bare_cpu": "µs of the bare loop",
    "p50": "p50 ms",
    "p95": "p95 ms",
    "p99": "p99 ms",
}
_PATIENCE = 300.0
_PREFIX = "tidegate/publications/"
_SECTION = '[mqtt]\naddress = "mqtt://127.0.0.1:{port}"\n'
_SETTINGS = """
listener {port} 127.0.0.1
allow_anonymous true
user {user}
persistence true
persistence_location {folder}/
max_queued_messages 0
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    messages: int
    """Of a round."""
    rounds: int
    rate: float
    seconds: float


FULL, QUICK = Sizes(60_000, 5, 4_000.0, 20.0), Sizes(3_000, 2, 1_000.0, 2.0)


def main(quick: bool = False) -> None:
    """Everything in one temporary directory; servers and clients are processes of their own."""
    report, sizes = Report("mqtt", SEED, COLUMNS), QUICK if quick else FULL
    with TemporaryDirectory(prefix="tidegate-bench-") as name, _mosquitto(Path(name)) as port:
        broker = Broker(Path(name) / "broker", "process", _SECTION.format(port=port))
        broker.subscribe([tg.Subscription("paced", "ann", "t > 0", fields=("t",), deliver="mqtt")])
        with served(broker):
            _wait(lambda: _bridge(broker).is_connected, "a bridge that is connected")
            _coming(report, broker, port, Path(name), sizes)
            _coming_and_going(report, broker, port, sizes)
    report.finish()


@contextmanager
def _mosquitto(folder: Path) -> Iterator[int]:
    """A Mosquitto that listens; its port."""
    binary = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if binary is None:
        raise SystemExit("bench mqtt: expected the program mosquitto; got none")
    (_, port), file = free_address(), folder / "mosquitto.conf"
    file.write_text(_SETTINGS.format(port=port, folder=folder, user=getpass.getuser()), "utf-8")
    with started([binary, "-c", os.fspath(file)], folder / "mosquitto.output"):
        _wait(lambda: _answers(port), "a Mosquitto that listens")
        yield port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _bridge(broker: Broker) -> BridgeRecord:
    found: list[BridgeRecord | None] = [None]

    def is_there() -> bool:
        found[0] = BridgeRecord.read(broker.data)
        return found[0] is not None

    _wait(is_there, "a bridge")
    assert found[0] is not None
    return found[0]


def _cpu(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def _coming(report: Report, broker: Broker, port: int, folder: Path, sizes: Sizes) -> None:
    """Rounds of messages to the bridge and to the bare loop, in turn."""
    file, bridge = folder / "bare", _bridge(broker).process
    seconds: dict[str, list[float]] = {"bridge": [], "bare": []}
    used = {"bridge": 0.0, "bare": 0.0}
    command = [sys.executable, "-m", "bench.mqtt_bare", str(port), "bare/#", str(file)]
    with ExitStack() as stack:
        bare = stack.enter_context(started(command, folder / "bare.output"))
        _wait(file.with_suffix(".ready").exists, "a bare loop that listens")
        for number in range(sizes.rounds + 1):  # the first warms up
            begin = broker.end()
            size = sum(len(make()) + 1 for make in _readings(number, sizes.messages))
            end = (file.stat().st_size if file.exists() else 0) + size
            for name, process, topic, is_done in (
                ("bridge", bridge, f"{_PREFIX}z", partial(_has_rows, broker, begin + sizes.messages)),
                ("bare", bare.pid, "bare/z", partial(_has_bytes, file, end)),
            ):
                cpu, at = _cpu(process), monotonic()
                client = Beside(partial(_publish, port, topic, number, sizes.messages))
                _wait(is_done, "messages that are durable")
                took = monotonic() - at
                client.result()
                if number:
                    seconds[name].append(took)
                    used[name] += _cpu(process) - cpu
            wanted = [f"{number}-{one}" for one in range(sizes.messages)]
            if broker.logged(begin)["z"] != wanted:
                raise SystemExit("bench mqtt: the log differs from what was published")
        lines = file.read_bytes().splitlines()
    exact = len(lines) == len(set(lines)) == (sizes.rounds + 1) * sizes.messages
    total, rates = sizes.rounds * sizes.messages, {name: sizes.messages / median(seconds[name]) for name in seconds}
    report.add(
        exact=exact,
        seconds=seconds,
        what="JSON with ids in, QoS 1",
        messages=total,
        rate=rates["bridge"],
        bare=rates["bare"],
        ratio=rates["bridge"] / rates["bare"],
        cpu=used["bridge"] / total * 1e6,
        bare_cpu=used["bare"] / total * 1e6,
    )
    say(f"in: {rates['bridge']:,.0f}/s, bare {rates['bare']:,.0f}/s")


def _has_rows(broker: Broker, end: int) -> bool:
    return broker.end() >= end


def _has_bytes(file: Path, end: int) -> bool:
    return file.exists() and file.stat().st_size >= end


def _publish(port: int, topic: str, number: int, count: int) -> int:
    return publish(port, f"load-{number}-{topic}", topic, _readings(number, count))


def _readings(number: int, count: int) -> Iterator[Callable[[], bytes]]:
    return (partial(_reading, number, one) for one in range(count))


def _reading(number: int, one: int) -> bytes:
    return b'{"id":"%d-%d","temperature":%d.5,"humidity":40}' % (number, one, one % 30)


def _coming_and_going(report: Report, broker: Broker, port: int, sizes: Sizes) -> None:
    """Messages at a steady rate, each of which becomes a notification: the time from one to the other."""
    count, bridge = round(sizes.rate * sizes.seconds), _bridge(broker).process
    took, numbers, ids = list[float](), list[int](), set[str]()
    with Listener(port, "tidegate/notifications/ann") as listener:
        cpu = _cpu(bridge)
        client = Beside(partial(_publish_paced, port, count, sizes.rate))
        for at, payload in listener.messages(count):
            item = orjson.loads(payload)
            took.append(at - item["publication"]["attributes"]["t"])
            numbers.append(item["number"])
            ids.add(item["publication"]["id"])
        client.result()
    used = _cpu(bridge) - cpu
    ordered = sorted(took)
    report.add(
        exact=numbers == list(range(1, count + 1)) and ids == {f"paced-{one}" for one in range(count)},
        seconds={"took": took[:: max(1, count // 1000)]},
        what=f"in and out at {sizes.rate:,.0f}/s",
        messages=count,
        rate=sizes.rate,
        cpu=used / count * 1e6,
        **{f"p{share}": 1000 * ordered[min(count - 1, count * share // 100)] for share in (50, 95, 99)},
    )


def _publish_paced(port: int, count: int, rate: float) -> int:
    readings = (partial(_timed, one) for one in range(count))
    return publish(port, "paced", f"{_PREFIX}paced", readings, rate)


def _timed(one: int) -> bytes:
    return b'{"id":"paced-%d","t":%.6f}' % (one, monotonic())


def _wait(holds: Callable[[], bool], what: str) -> None:
    until = monotonic() + _PATIENCE
    while not holds():
        if monotonic() > until:
            raise SystemExit(f"bench mqtt: expected {what} within {_PATIENCE:.0f} seconds; got none")
        sleep(0.005)
