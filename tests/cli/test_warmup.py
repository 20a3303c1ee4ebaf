"""warmup: whatever kernels a first start and the tests would have to compile are compiled then."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from numba.core.dispatcher import Dispatcher

from tests.parts.called_kernels import COMPILED, late

ROOT = Path(__file__).parents[2]
_COMPILED = """
import json
from tests.parts.called_kernels import CALLED
from tidegate.cli.kernel_compilation import compile_kernels
from tidegate.kernels.select_one import select_one_aside as aside  # compiled and not called: that takes a large segment
compile_kernels()
asides = (f"{aside.__module__}.{aside.__name__}({', '.join(map(str, types))})" for types in aside.signatures)
print(json.dumps([*CALLED, *asides]))
"""


def kernels():
    """The kernels that modules outside ``tidegate/kernels`` import, by their names."""
    for file in sorted((ROOT / "tidegate").rglob("*.py")):
        text = file.read_text("utf-8")
        if "from tidegate.kernels" not in text or file.parent.name == "kernels":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidegate.kernels"):
                for name in node.names:
                    yield from _imported(node.module, name.name)


def _imported(module, name):
    if module == "tidegate.kernels":  # a whole module
        of = import_module(f"{module}.{name}")
        found = [getattr(of, public) for public in of.__all__]
    else:
        found = [getattr(import_module(module), name)]
    return (f"{kernel.__module__}.{kernel.__name__}" for kernel in found if isinstance(kernel, Dispatcher))


def test_every_kernel_is_compiled(pytestconfig):
    """In which variants is compared when all tests have ended, by ``tests/parts/called_kernels.py``."""
    told = subprocess.run(
        [sys.executable, "-c", _COMPILED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled = pytestconfig.stash[COMPILED] = json.loads(told.stdout)
    found = set(kernels())
    assert len(found) > 80
    assert found - {variant.partition("(")[0] for variant in compiled} == set()


def test_another_variant_of_a_kernel_is_late():
    called = {"order(int64)": "test_a", "order(int32)": "test_b", "inner(int32)": "test_c"}
    assert late(called, ["order(int64)"]) == {"order(int32)": "test_b"}
