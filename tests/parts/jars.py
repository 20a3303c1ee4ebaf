"""Jars for tests, from whatever repository the machine's own Maven is set up with, once, into the cache directory.

What cannot be had is a skip that says so. Knows nothing of what is in the jars.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest


def jars(name: str, version: str, coordinates: Sequence[str], only: Sequence[str] = ()) -> Path:
    """A directory with these artifacts and what they need, or of these only some (Spark has the others)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"
    place = cache / f"{name}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process waits here and finds the jars
        if not place.exists():
            with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=cache) as made:
                _fetch(coordinates, only, Path(made), cache / "maven")
                (Path(made) / "jars").rename(place)
    return place


def _fetch(coordinates: Sequence[str], only: Sequence[str], made: Path, repository: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"expected {coordinates[0]}; got no mvn on the PATH to fetch it")
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *coordinate.split(":")
        )
        for coordinate in coordinates
    )
    (made / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>tidegate</groupId><artifactId>parts</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = [maven, "-B", "-q", "-U", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    # A repository of our own: Maven leaves descriptions without jars in the user's, and Spark's Ivy stumbles over them.
    command += [f"-Dmaven.repo.local={repository}", f"-DoutputDirectory={made / 'jars'}"]
    if only:
        command.append(f"-DincludeArtifactIds={','.join(only)}")
    try:
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        pytest.skip(f"expected {coordinates[0]}; got no end of mvn within 600 s")
    if done.returncode:
        pytest.skip(f"expected {coordinates[0]}; got from mvn: {_complaint(done.stdout)}")


def _complaint(output: str) -> str:
    """What Maven says was wrong, in one line without colours and addresses."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    first = next((line for line in plain.splitlines() if line.startswith("[ERROR]")), "[ERROR] nothing")
    return re.sub(r"\s*\(?https?://\S+|\s*-> \[Help 1\]", "", first.removeprefix("[ERROR] "))[:500]
