"""Loading very many subscriptions at once, as the engine and the registry do."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_garbage_collection"]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off inside the ``with`` block of this context.

    Loading makes many small objects and no cycles; looking for cycles would take a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
