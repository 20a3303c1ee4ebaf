"""Where compiled kernels are kept: under TIDEGATE_CACHE if no directory can be written that numba knows of, or not at
all; and what was kept by another Tidegate.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from tests.install.core import ROOT

_WARNING = "kernels are compiled at every start, since no directory to keep them in can be written"
_SCRIPT = """
import numpy as np
import tidegate
from tidegate.kernels.encode import mixed

assert tidegate.__file__.startswith({root!r})
print(mixed(np.uint64(1)), sum(mixed.stats.cache_hits.values()))
"""


@pytest.fixture
def sealed(tmp_path) -> Path:
    """A copy of the package whose kernels can have no ``__pycache__``: a file is in its place, also for root."""
    shutil.copytree(ROOT / "tidegate", tmp_path / "sealed" / "tidegate", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sealed" / "tidegate" / "kernels" / "__pycache__").write_text("no directory")
    return tmp_path / "sealed"


def run(root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Call a kernel; the user's cache directory is below a file, where nothing can be made."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "TIDEGATE_CACHE")}
    return subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", _SCRIPT.format(root=str(root))],
        env={**kept, "PYTHONPATH": str(root), "XDG_CACHE_HOME": "/dev/null/cache", **variables},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


def test_without_a_directory_kernels_are_not_kept_and_one_warning_says_so(sealed):
    ran = run(sealed)
    assert ran.stdout.split()[1] == "0"
    assert ran.stderr.splitlines() == [f"{_WARNING}; TIDEGATE_CACHE can name one"]
    assert run(sealed, TIDEGATE_CACHE="/dev/null/other").stderr == ran.stderr


def test_the_directory_of_tidegate_is_taken(sealed, tmp_path):
    cache = tmp_path / "cache"
    first, second = (run(sealed, TIDEGATE_CACHE=str(cache)) for _ in range(2))
    assert (first.stderr, second.stderr) == ("", "")
    assert [ran.stdout.split()[1] for ran in (first, second)] == ["0", "1"]
    assert list(cache.glob("kernels/*/encode.mixed-*.nbi"))


def test_what_numba_finds_comes_first(sealed, tmp_path):
    ran = run(sealed, TIDEGATE_CACHE=str(tmp_path / "cache"), NUMBA_CACHE_DIR=str(tmp_path / "numba"))
    assert ran.stderr == ""
    assert list(tmp_path.glob("numba/*/encode.mixed-*.nbi"))
    assert not (tmp_path / "cache").exists()


def test_what_was_kept_with_a_type_that_is_gone_is_compiled_anew(tmp_path):
    """As after an update in which a group of arrays is called otherwise."""
    file = tmp_path / "kernel.py"
    file.write_text(
        "from tidegate.kernels.compiled import njit\n\n@njit(cache=True)\ndef doubled(n):\n    return 2 * n\n"
    )

    def hits():
        spec = importlib.util.spec_from_file_location("kernel", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.doubled(21) == 42
        return sum(module.doubled.stats.cache_hits.values())

    assert [hits(), hits()] == [0, 1]
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(numba.__version__) + b"ctidegate.kernels.like\nGone\n.")
    assert [hits(), hits()] == [0, 1]
