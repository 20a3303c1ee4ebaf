"""The decorator of all kernels: numba's ``njit``, which keeps compiled code where a directory for it can be written.

numba itself takes ``NUMBA_CACHE_DIR``, ``__pycache__`` beside the kernels or the user's cache directory, and fails at
import where none can be written. Then ``TIDEGATE_CACHE`` is taken, and where that is of no use either the kernels are
compiled at every start, which is said once. The directory for temporary files is not taken: whoever else can write
there could put code into it that is run.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import numba
from numba.core import config

__all__ = ["njit"]

_log = logging.getLogger("tidegate")


def njit(*, cache: bool = False, **options: Any) -> Any:
    """What ``numba.njit`` gives, without a cache where none can be kept."""
    return numba.njit(cache=cache and _KEPT, **options)


def _can_be_kept() -> bool:
    """Whether numba finds a directory for a kernel of this package, by letting it look for one."""
    try:
        numba.njit(cache=True)(_kernel)
    except RuntimeError:
        return False
    return True


def _kernel() -> None:
    """Never compiled."""


def _directory_found() -> bool:
    if _can_be_kept():
        return True
    named, before = os.environ.get("TIDEGATE_CACHE"), config.CACHE_DIR
    if named:
        config.CACHE_DIR = os.path.join(named, "kernels")
        if _can_be_kept():
            return True
        config.CACHE_DIR = before
    _log.warning(
        "kernels are compiled at every start, since no directory to keep them in can be written; "
        "TIDEGATE_CACHE can name one"
    )
    return False


_KEPT = _directory_found()
