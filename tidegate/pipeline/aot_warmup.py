"""Makes the AOT cache with which Spark starts in a third of the time, once for each Java and Spark.

A child process runs a short query of the kind that the pipeline runs (``aot_training``), and its Java notes which
classes that took. ``aot_cache`` says where the cache lies and which one fits.
"""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.errors import SettingError
from tidegate.pipeline.aot_cache import cache_file, can_cache, existing
from tidegate.pipeline.java_home import java

__all__ = ["warmup", "warmup_aside"]

_UNUSED = 30 * 86_400  # seconds after which a cache that nobody used is removed; it takes 200 MB


def warmup(progress: Callable[[str], None]) -> Path:
    """The AOT cache, made first if it is not there. Takes about a minute; two processes do not make it twice."""
    which = java()
    if not can_cache(which):
        raise SettingError("Java 25, which can keep an AOT cache", f"Java {which.version}", str(which.home))
    cache = cache_file(which)
    with _only_one(cache, progress):
        if existing(which) is not None:
            progress("The cache is there already.")
            return cache
        progress("Running a short query to see which classes Spark needs, and writing them down (about a minute)…")
        _make(cache)
    _remove_unused(cache.parent)
    progress(f"Spark starts faster from now on: {cache} ({cache.stat().st_size >> 20} MB).")
    return cache


def warmup_aside() -> None:
    """Make the AOT cache in a process of its own that outlives this one, if there is none. Says nothing."""
    which = java()
    if not can_cache(which) or existing(which) is not None:
        return
    # The shell starts the process and ends at once, so that this process need not wait for it, and Ctrl-C on the
    # terminal does not reach it.
    subprocess.run(
        ["/bin/sh", "-c", 'nice -n 19 "$@" &', "sh", sys.executable, "-m", "tidegate.pipeline.aot_warmup"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=False,
    )


def _make(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="warmup-", dir=cache.parent) as directory:
        made = Path(directory) / cache.name
        ran = subprocess.run(
            [sys.executable, "-m", "tidegate.pipeline.aot_training", str(made)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0 or not made.exists():
            said = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
            raise SettingError("a query to learn from", f"exit code {ran.returncode} and {said[-1]}", "the warm-up")
        made.rename(cache)


@contextlib.contextmanager
def _only_one(cache: Path, progress: Callable[[str], None]) -> Iterator[None]:
    # The lock file is never removed: else two processes could hold a lock, one on the old file and one on a new one.
    with cache.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another process is making the cache; waiting for it…")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_unused(directory: Path) -> None:
    for cache in directory.glob("spark-*.aot"):
        with contextlib.suppress(OSError):
            if time.time() - cache.stat().st_mtime > _UNUSED:
                cache.unlink()


if __name__ == "__main__":
    warmup(lambda line: None)
