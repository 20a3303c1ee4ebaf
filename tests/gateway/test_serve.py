"""``tidegate serve`` as a process: what it prints works, what dies comes back, and it ends as it is asked to."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.gateway.issuing import TestIssuer
from tests.gateway.served import TOKEN, Broker, served, until

pytestmark = pytest.mark.xdist_group("serve")

#: Seconds that a broker may take to end; what it may take beside on a machine that does other things, too.
_END, _SLACK = 5.0, 2.0
_SMALL = b'{"source": "z", "a": 1}'


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A broker without a file, and without a token in its environment. Some tests kill its runner and its gateway."""
    directory = tmp_path_factory.mktemp("first")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notices"))
        manager.settimeout(120)
        found = Broker(directory, "--runner", "process", TIDEGATE_TOKEN="", NOTIFY_SOCKET=str(directory / "notices"))
        found.notices = manager
        yield found
        found.end()


class Restarted(NamedTuple):
    """A broker on the directory of another, and for how many seconds processes of that one lived when it was killed."""

    broker: Broker
    lived: float


@pytest.fixture(scope="module")
def second(first):
    """A broker with two gateways that was started when another one on its directory was killed."""
    first.wait()
    assert first.processes["costs"]
    family = first.processes.family()
    assert len(family) == 5
    os.kill(first.processes.supervisor, signal.SIGKILL)
    began = monotonic()
    found = Broker(first.data.path.parent, text="[serve]\nworkers = 2\n")
    try:
        assert gone(family)
        yield Restarted(found, monotonic() - began)
    finally:
        found.end()


def publish(url, token, body=_SMALL):
    """The answer to a publish; one that a killed gateway did not answer is sent again, as clients do."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def sent():
        try:
            return [httpx.post(f"{url}/v1/publications", content=body, headers=headers, timeout=30)]
        except httpx.TransportError:
            return []

    return until(sent)[0]


def ready(url):
    return httpx.get(f"{url}/readyz", timeout=30).json()


def secret_of(broker):
    """The token that a broker has printed."""
    return re.search(r"^  (tdg_\S+)$", broker.output.read_text(), re.MULTILINE)[1]


def gone(family, seconds=_END + _SLACK):
    _, alive = psutil.wait_procs(family, timeout=seconds)
    return not alive


# --- what is printed ------------------------------------------------------------------------------------------------


def test_the_lines_that_are_printed_work_when_they_are_pasted(first):
    url = first.wait()
    printed = until(lambda: (text := first.output.read_text()).count("curl -sS") == 3 and text)
    assert printed.startswith(f"{url} serves {first.data.path} with the runner process\n")
    secret, lines = secret_of(first), [line for line in printed.splitlines() if line.startswith("  curl")]
    told = [json.loads(subprocess.run(line, shell=True, capture_output=True, check=True).stdout) for line in lines]
    assert (told[0]["id"], told[1]["accepted"]) == ("warm", 1)
    assert [one["subscriptions"] for one in told[2]["notifications"]] == [["warm"]]
    assert first.notices.recv(100) == b"READY=1"  # as systemd is told
    assert secret not in first.log.read_text()
    database = first.data.registry.read_bytes()
    assert secret.encode() not in database


def test_another_broker_on_the_directory_is_refused_in_one_sentence(first):
    first.wait()
    command = [sys.executable, "-m", "tidegate", "serve", "--data", str(first.data.path), "--listen", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 2
    assert ran.stderr == (
        "tidegate: expected a data directory that no other broker uses; got one that process "
        f"{first.processes.supervisor} uses; at {first.data.run}\n"
    )
    assert ready(first.url)["status"] == "ready"


# --- what dies ------------------------------------------------------------------------------------------------------


def test_a_runner_that_is_killed_is_started_again_and_publishing_goes_on(first):
    url, before = first.wait(), first.processes.record().process("runner")
    until(lambda: ready(url) == {"status": "ready", "lag": 0})
    os.kill(before.process, signal.SIGKILL)
    degraded = until(lambda: (found := ready(url))["status"] == "degraded" and found)
    assert degraded["degraded"] in ("the runner is down", "the runner is starting")
    assert publish(url, secret_of(first)).status_code == 202
    assert httpx.get(f"{url}/readyz").status_code == 200
    until(lambda: ready(url) == {"status": "ready", "lag": 0})
    after = first.processes.record().process("runner")
    assert (after.starts, after.process == before.process) == (before.starts + 1, False)
    assert "runner has ended, by SIGKILL; it is started again" in first.log.read_text()


def test_a_gateway_that_is_killed_is_started_again(first):
    url, before = first.wait(), first.processes.record().process("gateway 1")
    os.kill(before.process, signal.SIGKILL)
    assert publish(url, secret_of(first)).status_code == 202
    after = first.processes.record().process("gateway 1")
    assert (after.starts, after.process == before.process) == (before.starts + 1, False)


def test_all_of_a_killed_broker_ends_and_the_next_one_waits_for_it(first, second):
    assert second.lived < _END
    url = second.broker.wait()
    for token in (secret_of(first), TOKEN):
        assert publish(url, token).json()["accepted"] == 1
    assert first.output.read_text().count("tdg_") == 4  # of the first: itself, and in three lines


def test_limits_are_read_again(second):
    url, processes = second.broker.wait(), second.broker.processes
    file = processes.data.path.parent / "service.toml"
    text, large = file.read_text(), b'{"source": "z", "a": "' + b"x" * 1000 + b'"}'

    def statuses(count):
        return [publish(url, TOKEN, large).status_code for _ in range(count)]

    assert statuses(1) == [202]
    file.write_text(f"{text}max_body = 500\n")
    os.kill(processes.supervisor, signal.SIGHUP)
    until(lambda: statuses(20) == [413] * 20)
    file.write_text(f"{text}max_body = 'much'\n")
    os.kill(processes.supervisor, signal.SIGHUP)
    told = "the settings stay what they were: expected a whole number from 1; got 'much'; at serve.max_body of"
    until(lambda: told in processes.log.read_text())
    assert statuses(20) == [413] * 20


def answers(broker, number, *tokens, body=None):
    """The statuses with which a gateway answers a request for each of the tokens: to list subscriptions, or to publish
    a body. The other one is suspended until this one has accepted the connection. 0 if it did not in time, as one that
    was killed does not.
    """
    connection = HTTPConnection(urlsplit(broker.url).netloc, timeout=0.3)
    asked = ("GET", "/v1/subscriptions") if body is None else ("POST", "/v1/publications", body)

    def status(token):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(*asked, headers=headers)
        with connection.getresponse() as answer:
            answer.read()
            return answer.status

    with closing(connection), suppress(OSError, HTTPException, psutil.NoSuchProcess):
        other = psutil.Process(broker.processes[f"gateway {3 - number}"])
        other.suspend()
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        finally:
            other.resume()
        connection.sock.settimeout(60)
        return [status(token) for token in tokens]
    return [0]


def test_issuers_are_read_again(second, tmp_path):
    second.broker.wait()
    processes, issuer = second.broker.processes, TestIssuer(tmp_path / "keys.json")
    file, token = processes.data.path.parent / "service.toml", issuer.token()
    text = file.read_text()

    def become(*wanted, bearers=(token,)):
        """Wait until both gateways answer so."""
        until(lambda: all({*answers(second.broker, number, *bearers)} <= {*wanted} for number in (1, 2)))

    try:
        become(401, 429)  # what is no JWT here is what somebody chose, which may not be tried often
        file.write_text(f"[serve]\nworkers = 2\nmax_body = 500\n{issuer.section()}")
        os.kill(processes.supervisor, signal.SIGHUP)
        become(200)
        killed = processes["gateway 1"]
        os.kill(killed, signal.SIGKILL)  # the next one has the issuers and the limits of the others
        until(lambda: processes["gateway 1"] != killed)
        file.write_text("[serve]\nworkers = 2\n")
        become(200)
        until(lambda: answers(second.broker, 1, TOKEN, body=b" " * 1000) == [413])
        os.kill(processes.supervisor, signal.SIGHUP)
        become(401, 429)
        become(200, bearers=[TOKEN])
        become(401, 429, bearers=[token] * 8)
        become(200, bearers=[TOKEN])  # who is known does not notice how many are wrong
    finally:
        file.write_text(text)


def listeners(url, opened):
    """WebSockets that were greeted; and connections that wait for a stream's items and for a page of notifications."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    address = f"{url.replace('http://', 'ws://')}/v1/ws"
    sockets = [opened.enter_context(connect(address, additional_headers=bearer)) for _ in range(10)]
    for one in sockets:
        assert json.loads(one.recv(timeout=30))["type"] == "hello"
    last = httpx.get(f"{url}/v1/notifications", headers=bearer, timeout=30).json()["last"]
    paths = ("/v1/stream", f"/v1/notifications?wait=60&after={last}")
    streams = [opened.enter_context(socket.create_connection(urlsplit(url).netloc.split(":"))) for _ in paths]
    for one, path in zip(streams, paths, strict=True):
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    return sockets, streams


def test_it_stops_within_five_seconds_with_connections_open(second):
    url, processes = second.broker.wait(), second.broker.processes
    where = urlsplit(url).netloc.split(":")
    with ExitStack() as opened:
        sockets, streams = listeners(url, opened)
        for number in range(50):
            half = opened.enter_context(socket.create_connection(where))
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"[: number - 10 or None])
        assert processes["costs"]
        family = processes.family()
        assert len(family) == 6
        began = monotonic()
        processes.started.send_signal(signal.SIGTERM)
        assert processes.started.wait(_END + _SLACK) == 0
        assert monotonic() - began < _END + _SLACK
        assert gone(family, 1)
        for one in sockets:
            with pytest.raises(ConnectionClosed) as closed:
                list(iter(partial(one.recv, timeout=10), None))  # what it was told before, too
            assert closed.value.rcvd.code == 1001
        for one in streams:
            assert b" 200 OK\r\n" in b"".join(iter(partial(one.recv, 1 << 16), b""))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where)
    assert "did not stop in time" not in processes.log.read_text()
    assert not (processes.data.run / "broker.json").exists()


@pytest.mark.thorough
def test_thousands_of_slow_clients_are_closed_while_others_are_served(tmp_path):
    """slowloris: connections that send nothing, headers, or bodies, a byte now and then."""
    bearer = f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    kinds = [
        "",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX: ",
        "POST /v1/publications HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
        f"POST /v1/publications HTTP/1.1\r\nHost: a\r\n{bearer}Content-Length: 100000\r\n\r\n",
        f"POST /v1/publications HTTP/1.1\r\nHost: a\r\n{bearer}Transfer-Encoding: chunked\r\n\r\n186a0\r\n",
    ]

    async def slow(host, port, sent):
        reader, writer = await asyncio.open_connection(host, port)
        began = monotonic()
        with suppress(ConnectionError):
            writer.write(sent)
            trickle = asyncio.create_task(trickled(writer)) if sent else None
            await reader.read()
            if trickle is not None:
                trickle.cancel()
            writer.close()
        return monotonic() - began

    async def trickled(writer):
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(2)
                writer.write(b"x")

    async def work(url):
        host, port = urlsplit(url).netloc.split(":")
        clients = [asyncio.create_task(slow(host, int(port), kinds[n % 5].encode())) for n in range(5000)]
        took = []
        async with httpx.AsyncClient(timeout=30) as client:
            while not all(one.done() for one in clients):
                began = monotonic()
                headers = {"Authorization": f"Bearer {TOKEN}"}
                answer = await client.post(f"{url}/v1/publications", json={"source": "z", "a": 1}, headers=headers)
                assert answer.status_code == 202
                took.append(monotonic() - began)
                await asyncio.sleep(0.1)
        lived = [one.result() for one in clients]
        print(f"closed after at most {max(lived):.1f} s; {len(took)} others were served, at most in {max(took):.2f} s")
        assert max(lived) < 30 + _SLACK

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with served(tmp_path) as found:
        asyncio.run(work(found.url))


def test_a_second_interruption_ends_it_at_once(tmp_path):
    broker = Broker(tmp_path, "--runner", "process")
    try:
        runner = psutil.Process(broker.processes["runner"])
        runner.suspend()  # it cannot stop
        until(lambda: runner.status() == psutil.STATUS_STOPPED)
        family = broker.processes.family()
        broker.started.send_signal(signal.SIGINT)
        until(lambda: "stopping" in broker.log.read_text())
        broker.started.send_signal(signal.SIGINT)
        assert broker.started.wait(_END) == 130
        assert gone(family)
        assert "did not stop in time" not in broker.log.read_text()
    finally:
        broker.end()


@pytest.mark.spark
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.thorough)], ids=["asked", "killed"]
)
def test_a_broker_with_the_runner_spark(tmp_path, number):
    """It delivers, goes on if its runner is killed, and all of it ends with its supervisor: Java, too."""
    with served(tmp_path, runner="spark") as found:
        processes = found.processes
        where = {"where": "a >= 0"}
        assert httpx.put(f"{found.url}/v1/subscriptions/s", json=where, headers=found.headers).status_code == 201
        assert publish(found.url, TOKEN).status_code == 202
        if number == signal.SIGKILL:
            runner = psutil.Process(processes["runner"])
            family = [runner, *runner.children(recursive=True)]
            runner.kill()
            assert publish(found.url, TOKEN).status_code == 202
            assert gone(family)
        else:
            assert publish(found.url, TOKEN).status_code == 202

        def numbers():
            page = httpx.get(f"{found.url}/v1/notifications?wait=5", headers=found.headers, timeout=60).json()
            return [item["number"] for item in page.get("notifications", ())]  # none: the queue is not made yet

        until(lambda: numbers() == [1, 2])
        family = processes.family()
        assert any("java" in one.name() for one in family)
        log = processes.log.read_text()
        processes.started.send_signal(number)
        if number == signal.SIGTERM:
            assert processes.started.wait(_END + _SLACK) == 0
        assert gone(family)
    said = processes.log.read_text().removeprefix(log)
    print(said)
    assert "Traceback" not in said
    assert "Exception" not in said
