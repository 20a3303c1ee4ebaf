"""A Spark standalone cluster on loopback: the same run, unchanged, with one of its two workers killed in the middle."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import tidegate as tg
from tests.parts.tied_process import tied
from tests.pipeline.test_chaos import Run, drawn, readings
from tests.registered import registered

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

JARS = f"{Path(pyspark.__file__).parent}/jars/*"


class Daemon:
    """The master or a worker of a cluster."""

    def __init__(self, directory, name, *arguments, env):
        from tidegate.pipeline.java_home import java

        found = java()
        command = [str(found.executable), *found.options, "-Xmx512m", "-cp", JARS, *arguments]
        self.path = directory / f"{name}.log"
        self.file = self.path.open("wb")
        self.process = subprocess.Popen(
            tied(command), stdout=self.file, stderr=subprocess.STDOUT, env=env, cwd=directory, start_new_session=True
        )

    def said(self, pattern, seconds=60):
        """Wait until its log says something; the match."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.path.read_text()):
                return found
            assert self.process.poll() is None, self.path.read_text()[-2000:]
            time.sleep(0.1)
        raise AssertionError(f"{pattern} was not said: {self.path.read_text()[-2000:]}")

    def kill(self):
        """With its executors, as when the machine goes."""
        try:
            family = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.file.close()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(family, timeout=20)


@pytest.fixture
def python(tmp_path):
    """An environment of the workers' own, which finds the packages of this one."""
    venv.create(tmp_path / "python", symlinks=True)
    site = next((tmp_path / "python" / "lib").glob("python*/site-packages"))
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "packages.pth").write_text("\n".join([*ours, str(Path(tg.__file__).parent.parent)]) + "\n")
    return tmp_path / "python" / "bin" / "python"


@pytest.fixture
def cluster(tmp_path):
    from tidegate.pipeline.java_home import home

    spark_home = str(Path(pyspark.__file__).parent)
    env = {**os.environ, "SPARK_HOME": spark_home, "JAVA_HOME": str(home()), "SPARK_SCALA_VERSION": "2.13"}
    started = []

    def start(name, *arguments, **more):
        (tmp_path / name).mkdir()
        daemon = Daemon(tmp_path / name, name, *arguments, env={**env, **more})
        started.append(daemon)
        return daemon

    listen = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = start("master", "org.apache.spark.deploy.master.Master", *listen)
    url = master.said(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")[1]
    workers = []
    for number in (1, 2):
        limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}"))
        cache = {"TIDEGATE_CACHE": str(tmp_path / f"cache{number}")}
        workers.append(
            start(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *listen, *limits, url, **cache)
        )
    for worker in workers:
        worker.said("Successfully registered with master")
    yield url, workers
    for daemon in started:
        daemon.kill()


def test_a_cluster_that_loses_a_worker_gives_the_same(tmp_path, cluster, python):
    url, workers = cluster
    rng = np.random.default_rng(3)
    registry = tg.Registry(tmp_path / "registry.db", storage=f"file://{tmp_path}/snapshots")
    subscriptions = [drawn(rng, f"s{i}") for i in range(200)]
    registry.subscribe(*subscriptions)
    engine, expected = tg.Engine(map(registered, subscriptions)), []
    with tg.Log(tmp_path / "log", version=lambda: registry.version) as log:
        for number in range(30):
            table = readings(rng, 5000 * number, 5000)
            log.append(table)
            expected.append(engine.publish(table))
    config = tmp_path / "run.toml"
    config.write_text(
        f"""
[source]
type = "log"
path = "log"
rows = 5000

[subscriptions]
registry = "registry.db"
storage = "file://{tmp_path}/snapshots"

[[sinks]]
type = "parquet"
path = "out"
grouped = false

[run]
checkpoint = "checkpoint"
ahead = "off"

[spark.settings]
"spark.pyspark.python" = "{python}"
"spark.executor.memory" = "512m"
"spark.executor.cores" = "1"
"spark.driver.host" = "127.0.0.1"
"""
    )
    out = tmp_path / "out"
    run = Run(config, "--available-now", "--master", url)
    deadline = time.monotonic() + 300
    while len(list(out.glob("batch=*"))) < 5:
        assert not run.is_over, config.with_suffix(".log").read_text()[-3000:]
        assert time.monotonic() < deadline, config.with_suffix(".log").read_text()[-3000:]
        time.sleep(0.1)
    caches = [list((tmp_path / f"cache{n}").glob("*/layer-*")) for n in (1, 2)]
    workers[0].kill()
    assert not run.is_over
    assert run.process.wait(300) == 0, config.with_suffix(".log").read_text()[-3000:]
    assert any(caches), "snapshots are copied to each machine"
    found = pq.read_table(out)
    wanted = pa.concat_tables(expected)
    assert (
        found.column("notification_id")
        .combine_chunks()
        .sort()
        .equals(wanted.column("notification_id").combine_chunks().sort())
    )
