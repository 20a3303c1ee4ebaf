"""The set-ups that workloads are made for."""

from __future__ import annotations

from importlib import import_module

import pytest

from bench.papers.filter_split_forward.topology import SETUPS, Setup

module = import_module("bench.papers.filter_split_forward.workload")
SMALL = SETUPS["small"]
TINY = Setup("tiny", 20, 3, 2, 4, (10,), (0, 0))
every_setup = pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
