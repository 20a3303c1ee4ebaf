"""``session``: the Spark session that the user already has, or a new one on the user's cluster or on this machine.

``SETTINGS`` has every setting that Tidegate makes, each with its reason. Knows nothing of publications.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import re
import shlex
import signal
import socketserver
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, SQLContext

from tidegate.errors import SettingError, shown
from tidegate.pipeline.aot_cache import COMPILER, discard, existing
from tidegate.pipeline.java_home import java
from tidegate.pipeline.java_process import JavaProcess, environment

__all__ = ["SETTINGS", "Setting", "is_running", "session"]


class Setting(NamedTuple):
    """A Spark setting that Tidegate makes unless the user makes it."""

    name: str
    value: str  # {cores} and {directory}: known when Spark starts
    reason: str
    cluster: bool = False  # also made on a cluster: results would be different or wrong without it


_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

SETTINGS = (
    Setting("spark.sql.session.timeZone", "UTC", "a time without a zone means the same on every machine", True),
    Setting("spark.sql.legacy.parquet.nanosAsLong", "true", "Parquet in nanoseconds is refused otherwise", True),
    Setting("spark.ui.showConsoleProgress", "false", "progress bars have no place in a log file", True),
    Setting("spark.master", "local[{cores},4]", "all cores; a task whose Python worker was killed is tried 4 times"),
    Setting("spark.driver.host", "127.0.0.1", "nothing listens to the network, and no host name has to resolve"),
    Setting("spark.driver.bindAddress", "127.0.0.1", "the same for what is bound"),
    Setting("spark.driver.memory", "1g", "publications go through Arrow and memory-mapped files, not the Java heap"),
    Setting("spark.ui.enabled", "false", "the web pages take a second at the start, and memory for every batch"),
    Setting("spark.log.level", "ERROR", "the log is for what went wrong, and must not grow with every batch"),
    Setting("spark.sql.shuffle.partitions", "{cores}", "200 tiny tasks take longer than the work"),
    Setting("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINTS, "the usual one forks 20 processes a batch"),
    Setting("spark.hadoop.fs.file.impl", "tidegate.PlainLocalFileSystem", "Hadoop's own starts chmod for every file"),
    Setting("spark.python.unix.domain.socket.enabled", "true", "over TCP each Python stage waits 40 ms"),
    Setting("spark.python.unix.domain.socket.dir", "{directory}", "private, and short enough for a socket's path"),
    Setting(
        "spark.python.daemon.module",
        "tidegate.pipeline.worker_daemon",
        "workers start with everything imported, in shared memory",
    ),
    Setting("spark.sql.artifact.isolation.enabled", "false", "nobody adds classes to a running query"),
    Setting("spark.sql.python.filterPushdown.enabled", "false", "our source has no filters to push down to"),
    Setting("spark.sql.execution.python.udf.buffer.size", "65536", "with the two above, 66 in place of 85 ms a batch"),
    Setting("spark.sql.execution.arrow.maxRecordsPerBatch", "65536", "fewer, larger batches for the kernels"),
)

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)
_lock = threading.Lock()
_gateway: JavaProcess | None = None  # the Java process of our session
_interrupt: Any = signal.default_int_handler  # what Ctrl-C did before


class OwnSession(SparkSession):
    """A session that ends its Java process when it stops. PySpark would keep the process for the next session."""

    def stop(self) -> None:
        with _lock:
            try:
                if self._sc._jsc is not None:
                    self._sc._jsc.stop()
            except (Py4JError, OSError):  # Java is gone already
                pass
            finally:
                _forget()


def session(
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    app: str = "tidegate",
    memory: str | None = None,
    packages: Sequence[str] = (),
) -> SparkSession:
    """The active session if there is one, untouched; otherwise a new one.

    Without a master, or with a local one, Spark runs on this machine alone with all of ``SETTINGS``. With another
    master only those that results depend on are made. ``settings`` come before ours, ``memory`` is the driver's, and
    ``packages`` are Maven coordinates (of the Kafka connector, for one).
    """
    wanted = {**(settings or {}), **({"spark.master": master} if master else {})}
    heap = memory or wanted.get("spark.driver.memory")
    if heap is not None and not _MEMORY.fullmatch(heap):
        raise SettingError("memory as a number and a unit (512m, 4g)", shown(heap), "memory")
    more = {"spark.driver.memory": memory} if memory else {}
    for package in packages:
        if package.count(":") != 2:
            raise SettingError("Maven coordinates (group:artifact:version)", shown(package), "packages")
    if packages:
        more["spark.jars.packages"] = ",".join(packages)
    with _lock:
        if _gateway is not None and not _gateway.alive:
            _forget()  # its Java died, so the session cannot be used
        if SparkContext._active_spark_context is not None:
            return _same(SparkSession.builder.getOrCreate(), wanted)
        return _start({"spark.app.name": app, **more, **wanted})


def is_running() -> bool:
    """Whether this process has a session already."""
    return SparkContext._active_spark_context is not None


def recording(into: Path) -> SparkSession:
    """A session for this machine whose Java writes an AOT cache as it ends."""
    with _lock:
        return _start({"spark.app.name": "warmup"}, into)


def _start(wanted: Mapping[str, str], record: Path | None = None) -> SparkSession:
    global _gateway, _interrupt
    _forget()  # there may be a Java of which only the context was stopped
    local = wanted.get("spark.master", "local").startswith("local")
    chosen = {setting.name: setting.value for setting in SETTINGS if local or setting.cluster}
    chosen = {name: value.replace("{cores}", str(_cores())) for name, value in chosen.items()} | dict(wanted)
    python = sys.executable  # on a cluster the user may know better
    if not local:
        python = wanted.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or python
    _gateway = _java_process(chosen, python, local, record)
    _interrupt = signal.getsignal(signal.SIGINT)
    try:
        with environment(PYSPARK_PYTHON=python):
            context = SparkContext(gateway=_gateway.connection, conf=SparkConf(_jvm=_gateway.connection.jvm))
        _let_java_hang_up(context._accumulatorServer)
        made = OwnSession(context)
        made._jsparkSession.sessionState()  # has Spark check the settings now, not at the first query
        _gateway.own_directory()
        return made
    except (Py4JError, PySparkException, OSError) as error:
        time.sleep(0.5)  # a Java that hung up may take a moment to be gone
        reason = _deepest(error) if _gateway.alive else _gateway.last_words()
        _forget()
        raise SettingError("settings that Spark can start with", reason, "the start of Spark") from None
    except BaseException:
        _forget()
        raise


def _java_process(chosen: Mapping[str, str], python: str, local: bool, record: Path | None) -> JavaProcess:
    which = java()
    options = [*COMPILER] if local else []
    if "spark.driver.memory" in chosen:
        options.append(f"-Xmx{chosen['spark.driver.memory']}")
    options += shlex.split(chosen.get("spark.driver.extraJavaOptions", ""))
    if record is not None:
        return JavaProcess(which, [f"-XX:AOTCacheOutput={record}", *options], chosen, python, patience=None)
    cache = existing(which) if local else None
    if cache is not None:
        try:
            return JavaProcess(which, [f"-XX:AOTCache={cache}", *options], chosen, python)
        except SettingError:  # Java checks a cache before it uses it, but not every byte
            discard(cache)
    return JavaProcess(which, options, chosen, python, local=local)


def _deepest(error: Exception) -> str:
    """The first line of what a Java exception says, or the one that caused it, and so on."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while thrown is not None and (cause := thrown.getCause()) is not None:
        thrown = cause
    told = str(error if thrown is None else thrown.getMessage() or thrown.toString())
    return told.strip().partition("\n")[0]


def _same(active: SparkSession, wanted: Mapping[str, str]) -> SparkSession:
    for name, value in wanted.items():
        there = active.conf.get(name, None)
        if there != value:
            raise SettingError(f"{name} = {shown(value)}", shown(there), "the Spark session that is active already")
    return active


def _forget() -> None:
    """End our Java and whatever PySpark still holds of it."""
    global _gateway
    if _gateway is None:
        return
    if SparkContext._gateway is _gateway.connection:
        context, SparkContext._active_spark_context = SparkContext._active_spark_context, None
        if context is not None:
            context._jsc = None  # as SparkContext.stop does
            if getattr(context, "_accumulatorServer", None) is not None:
                context._accumulatorServer.shutdown()
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
    gateway, _gateway = _gateway, None
    gateway.close()
    # PySpark's handler of Ctrl-C cancels the jobs of a context that is gone.
    ours = getattr(signal.getsignal(signal.SIGINT), "__module__", "") == SparkContext.__module__
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)


def _let_java_hang_up(server: socketserver.BaseServer) -> None:
    """Have the server that Java sends accumulators to say nothing on the terminal when a Java that died hangs up."""
    say = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | OSError):
            say(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def _cores() -> int:
    """The cores this process may use: what it is bound to, and what its container is allowed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return max(cores, 1)


atexit.register(_forget)
