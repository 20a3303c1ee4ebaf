"""The file that says that a broker has, or had, an endpoint for webhooks. Until it is there the sender sleeps.

A sender that works needs most of the packages and so a few seconds and 200 MB; most brokers have no endpoint. The
process looks for this file before it imports anything. Imports nothing itself, for the same reason.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["mark_of", "set_mark"]

_NAME = "webhooks"


def mark_of(run: Path) -> Path:
    """The file, in the directory ``run`` of a data directory."""
    return run / _NAME


def set_mark(run: Path) -> None:
    """Say that there is an endpoint, or is about to be."""
    mark = mark_of(run)
    if not mark.exists():
        run.mkdir(parents=True, exist_ok=True)
        mark.touch()
