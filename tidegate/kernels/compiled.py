"""The decorator of all kernels: numba's ``njit``, which keeps compiled code where a directory for it can be written.

numba itself takes ``NUMBA_CACHE_DIR``, ``__pycache__`` beside the kernels or the user's cache directory, and fails at
import where none can be written. Then ``njit`` here takes ``TIDEGATE_CACHE``, and where that is of no use either, the
kernels are compiled at every start, which is said once. The directory for temporary files is never used: another user
who can write there could put code into it that this process would run.

numba reads the types that a kernel was compiled for before it looks whether the kernel is still the same, and fails
where an earlier Tidegate named a type otherwise. What cannot be read is compiled anew.
"""

from __future__ import annotations

import logging
import os
from pickle import UnpicklingError
from types import FunctionType
from typing import Any

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

__all__ = ["njit", "releasing"]

_log = logging.getLogger("tidegate")


def njit(*, cache: bool = False, **options: Any) -> Any:
    """``numba.njit``, without a cache where no directory for it can be written."""
    decorate = numba.njit(**options)
    if not (cache and _KEPT):
        return decorate

    def made(function: Any) -> Any:
        kernel = decorate(function)
        if isinstance(kernel, Dispatcher):  # it is the function itself where numba is told to compile nothing
            kernel._cache = _KernelCache(function)  # type: ignore[attr-defined]
        return kernel

    return made


class _KernelCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The compiled code of a kernel in files, those of another Tidegate included."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError, EOFError, UnpicklingError):
            self.flush()
            return None


def releasing(kernel: Any, name: str) -> Any:
    """The same kernel, which lets other threads run Python while it works.

    Handing the interpreter's lock over and back takes longer than a small kernel. It has a name of its own because
    numba keeps compiled code by the names of functions.
    """
    function = kernel.py_func
    copy = FunctionType(function.__code__.replace(co_name=name, co_qualname=name), function.__globals__, name)
    copy.__module__, copy.__annotations__ = function.__module__, function.__annotations__
    return njit(cache=True, nogil=True)(copy)


def _can_be_kept() -> bool:
    """Whether numba finds a cache directory for a kernel of this package; numba itself is made to look for one."""
    try:
        numba.njit(cache=True)(_kernel)
    except RuntimeError:
        return False
    return True


def _kernel() -> None:
    """A kernel for which numba looks for a cache directory; it is never compiled."""


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
