"""Where a machine keeps what can be made again: copies of remote files, live arrays, what has been verified."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["cache_directory"]


def cache_directory() -> Path:
    """The directory of this machine and user: ``TIDEGATE_CACHE``, or one for temporary files."""
    named = os.environ.get("TIDEGATE_CACHE")
    return Path(named) if named else Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"
