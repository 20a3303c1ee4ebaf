"""Sees that ``compile_kernels`` compiles whatever the tests call. numba compiles a kernel anew for every other list of
types of its arguments, a *variant*, and for one that ``tidegate warmup`` leaves out a user waits amid something else.

Every process of the tests notes the variants that Python calls. ``tests/cli/test_warmup.py`` tells which of them
``compile_kernels`` calls, and where it ran, the whole run fails if a test has called a kernel of these otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from numba.core.dispatcher import Dispatcher

__all__ = ["CALLED", "COMPILED"]

#: Each variant that this process has called, and the test that did so first.
CALLED: dict[str, str] = {}
#: The variants that ``compile_kernels`` calls.
COMPILED = pytest.StashKey[list[str]]()

_test = ["what comes before the tests"]
_late: dict[str, str] = {}


def _noting() -> None:
    """Note a variant when numba looks for it: it does so once in a process."""
    look_up = Dispatcher._compile_for_args

    def noted(kernel, *arguments, **named):
        if kernel.__module__.startswith("tidegate.kernels."):
            types = ", ".join(str(kernel.typeof_pyval(argument)) for argument in arguments)
            CALLED.setdefault(f"{kernel.__module__}.{kernel.__name__}({types})", _test[0])
        return look_up(kernel, *arguments, **named)

    Dispatcher._compile_for_args = noted


_noting()


def late(called: dict[str, str], compiled: Iterable[str]) -> dict[str, str]:
    """What was called of the kernels that ``compile_kernels`` calls, too, but in none of its variants."""
    known, kernels = set(compiled), {variant.partition("(")[0] for variant in compiled}
    return {
        variant: test
        for variant, test in called.items()
        if variant not in known and variant.partition("(")[0] in kernels
    }


def pytest_runtest_logstart(nodeid):
    _test[0] = nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """What a process of xdist has called, when it has ended."""
    called, compiled = getattr(node, "workeroutput", {}).get("kernels", ({}, None))
    for variant, test in called.items():
        CALLED.setdefault(variant, test)
    if compiled is not None:
        node.config.stash[COMPILED] = compiled


def pytest_sessionfinish(session):
    compiled = session.config.stash.get(COMPILED, None)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["kernels"] = (CALLED, compiled)
    elif compiled is not None:
        _late.update(late(CALLED, compiled))
        if _late:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    if _late:
        terminalreporter.section("kernels that compile_kernels does not compile so", red=True)
        for variant, test in sorted(_late.items()):
            terminalreporter.line(f"{test} called {variant}")
