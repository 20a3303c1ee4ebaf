"""The Java process that Spark's driver runs in, started by us instead of by Spark's scripts.

Without the scripts no second Java is started to find out how to start the first, and a Java without the vector module
will do. ``JavaProcess`` starts Java, connects PySpark to it and ends it; ``session`` gives it the settings of Spark.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import py4j.java_gateway
import pyspark
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker
from py4j.java_gateway import quiet_shutdown
from pyspark.core.context import SparkContext
from pyspark.java_gateway import launch_gateway

from tidegate.errors import SettingError
from tidegate.pipeline.java_home import JavaHome

__all__ = ["JARS", "JavaProcess", "class_path", "connected", "environment", "hang_up"]

_SPARK = Path(pyspark.__file__).parent
JARS = _SPARK / "jars"
_QUOTED = 300  # characters of the log that a message quotes
_NOISE = re.compile(
    r"^\s+(at |\.\.\. )|^\[\S+?\]\[\w+ *\]| (WARN|INFO) |^WARNING|^:: USE VERBOSE"
    r"|^Using Spark's default|default log level|log level use"
)
_PATIENCE = 20.0  # seconds that a stopped Java may take to clean up before it is killed
_ANSWER = 5.0  # seconds that py4j's FinalizerWorker may wait for the answer to its last message


class JavaProcess:
    """A running Java process with PySpark connected to it. It ends when this process does, whatever ends that."""

    def __init__(
        self,
        java: JavaHome,
        options: Sequence[str],
        settings: Mapping[str, str],
        python: str,
        *,
        local: bool = True,
        patience: float | None = _PATIENCE,
    ) -> None:
        self.patience = patience
        # One private directory for the log and the sockets. Short, as a socket's path may not have more than 100 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="tidegate-"))
        self.log = self.directory / "spark.log"
        answer = self.directory / "connection"
        command = [str(java.executable), *options, *java.options, "-cp", class_path(local)]
        command.append("org.apache.spark.deploy.SparkSubmit")
        for name, value in settings.items():
            command += ["--conf", f"{name}={value.replace('{directory}', str(self.directory))}"]
        command += ["pyspark-shell"] if local else shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        with self.log.open("wb") as log:
            # Java reads its standard input and ends when that does. In a session of its own, Ctrl-C does not reach it.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={
                    **os.environ,
                    "SPARK_HOME": str(_SPARK),
                    **({"SPARK_CONF_DIR": conf} if (conf := _conf_directory()) else {}),
                    "SPARK_CONNECT_MODE": "0",
                    "PYSPARK_PYTHON": python,
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
                },
            )
        try:
            self.connection = connected(*self._wait(answer))
        except BaseException:
            self.process.kill()
            self._remove()
            raise

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def own_directory(self) -> None:
        """Have Java remove the directory as it ends, in case this process is killed. Its log is not needed any more."""
        for path in (self.directory, *self.directory.iterdir()):  # Java begins with the last; Spark removes its sockets
            self.connection.jvm.java.io.File(str(path)).deleteOnExit()

    def close(self) -> None:
        """End the threads that talk with Java, then Java; kill it if it is not gone after ``patience`` seconds."""
        if SparkContext._gateway is self.connection:  # PySpark would go on using it
            SparkContext._gateway = SparkContext._jvm = None
        hang_up(self.connection)
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._remove()

    def _wait(self, answer: Path) -> tuple[int, str]:
        """The port and the secret that Java writes as soon as it listens."""
        while not answer.exists():  # it is renamed into place, so it is complete
            if not self.alive:
                raise SettingError("Spark's Java process to start", self.last_words(), "the start of Spark")
            time.sleep(0.01)
        content = answer.read_bytes()
        port, size = struct.unpack(">ii", content[:8])
        return port, content[8 : 8 + size].decode()

    def last_words(self) -> str:
        """The exit code and the end of Java's log, short enough to be quoted in an error."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line.strip() for line in lines if line.strip() and not _NOISE.search(line)]
        words = " / ".join(told[-4:])
        return f"exit code {self.process.poll()} and, at the end of its log, {words[-_QUOTED:] or 'nothing'}"

    def _remove(self) -> None:
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def connected(port: int, secret: str) -> Any:
    """PySpark's connection with the Java that listens at ``port``."""
    # py4j tells the root logger, and so standard error, that Java hung up. All else it tells its own logger.
    py4j.java_gateway.logging = py4j.java_gateway.logger
    with environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        return launch_gateway()  # type: ignore[no-untyped-call]


def hang_up(connection: Any) -> None:
    """End the threads of py4j that talk with Java, and then the connection.

    py4j's thread FinalizerWorker tells Java of objects that Python no longer has. It must end first, or Java would hang
    up while it waits for an answer. What it has not told Java yet does not matter: all objects go with Java.
    """
    client = connection._gateway_client
    for thread in threading.enumerate():
        if isinstance(thread, FinalizerWorker) and thread.deque is client.finalizer_deque:
            thread.deque.append(SHUTDOWN_FINALIZER_WORKER)  # it takes what was appended last first
            thread.join(_ANSWER)
    with contextlib.suppress(Exception):  # a Java that died cannot be told to hang up
        server = connection.get_callback_server()
        for one in [] if server is None else list(server.connections):
            quiet_shutdown(one.socket)  # or py4j would wait until Java has called once more
        connection.shutdown_callback_server()
        client.shutdown_gateway()


def class_path(local: bool) -> str:
    """Spark's own jars, with ours on this machine, with the directories that describe a cluster on one.

    An AOT cache is good for one class path.
    """
    places = [str(JARS / "*")]
    if local:
        places.append(str(Path(__file__).parent / "jvm" / "plain.jar"))
    else:
        places = [place for place in (_conf_directory(),) if place] + places
        places += [os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    return os.pathsep.join(places)


def _conf_directory() -> str:
    """Where the user keeps spark-defaults.conf, "" if nowhere."""
    if named := os.environ.get("SPARK_CONF_DIR"):
        return named
    spark = os.environ.get("SPARK_HOME")
    return str(Path(spark) / "conf") if spark else ""


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Environment variables for the duration of a call: PySpark takes some things only this way."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
