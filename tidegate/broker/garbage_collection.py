"""How often Python looks for cycles among the objects of a process that serves: seldom, and not among what is imported.

A gateway and the runner in process make many objects for each batch, which are gone soon, as counting references tells.
A look at all objects, of which imports alone make half a million, would take longer than a batch may.
"""

from __future__ import annotations

import gc

__all__ = ["look_for_cycles_seldom"]


def look_for_cycles_seldom() -> None:
    """Keep what is there now, and look for cycles among what is new, and seldom. Called before a process serves."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
