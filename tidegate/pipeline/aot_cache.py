"""The AOT cache: Spark's classes, loaded and linked ahead of time, with which Spark starts in a third of the time.

Says which file fits this Java, this Spark and these options, and whether it is there. ``session`` starts Java with it,
and ``aot_warmup`` makes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from tidegate.errors import SettingError
from tidegate.pipeline.java_home import JavaHome, cache_directory
from tidegate.pipeline.java_process import JARS, class_path

__all__ = ["COMPILER", "cache_file", "can_cache", "discard", "existing"]

_SINCE = 25  # the first Java that makes such a cache in one step

# Options of a Java for this machine alone. A cache is good only for the options it was made with.
COMPILER = ("-XX:+UseSerialGC",)  # a small heap needs no collector threads, and Java starts faster without them


def can_cache(java: JavaHome) -> bool:
    return java.major >= _SINCE


def cache_file(java: JavaHome) -> Path:
    """Where the cache for this Java and the installed Spark belongs."""
    facts = [str(java.home), java.version, *java.options, *COMPILER, class_path(local=True)]
    with os.scandir(JARS) as entries:
        stats = ((entry.path, entry.stat()) for entry in entries)
        facts += sorted(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_directory() / f"spark-{digest}.aot"


def existing(java: JavaHome) -> Path | None:
    """The cache if there is one. Java itself ignores what it cannot use in it."""
    if not can_cache(java):
        return None
    try:
        found = cache_file(java)
        os.utime(found)  # marks it as used: ``aot_warmup`` removes caches that were not used for long
    except (OSError, SettingError):
        return None
    return found


def discard(cache: Path) -> None:
    with contextlib.suppress(OSError):
        cache.unlink()
