"""warmup: what a first start would have to compile for shapes, texts and places is compiled then."""

from __future__ import annotations

import subprocess
import sys

#: Kernels that someone outside the kernels calls, and that nothing has compiled or loaded yet.
_LEFT = """
import sys
from numba.core.dispatcher import Dispatcher
from tidegate.cli.kernel_compilation import compile_kernels
compile_kernels()
print(*sorted({
    kernel.__name__
    for name, module in sys.modules.items() if name.startswith("tidegate.") and not name.startswith("tidegate.kernels.")
    for kernel in vars(module).values() if isinstance(kernel, Dispatcher) and not kernel.signatures
    if kernel.__module__.rpartition(".")[2] in (
        "cascade", "excursion", "grams", "haar", "keyed_hash", "like", "place_location", "places", "shape", "spheres",
    )
}))
"""


def test_every_kernel_of_shapes_texts_and_places_is_compiled():
    found = subprocess.run([sys.executable, "-c", _LEFT], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
