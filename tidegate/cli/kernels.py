"""Has the kernels compiled, which numba does once per machine and keeps."""

from __future__ import annotations

import numpy as np

from tidegate.demo import subscriptions, tables
from tidegate.engine import Engine

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Match a little of the demo's valley, which uses them all."""
    some = next(tables(np.random.default_rng(0))).slice(0, 64)
    Engine(subscriptions()).publish(some)
    Engine(subscriptions()).publish(some, grouped=True)
