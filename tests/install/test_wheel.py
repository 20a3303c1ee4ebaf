"""The wheel, installed as a user installs it: what is in it, how large the core is, and that both forms of it run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.install.core import OPTIONAL, ROOT
from tests.install.test_core import FIRST, PRINTED

pytestmark = pytest.mark.thorough

#: Bytes that the core may take with all that it needs, pip and the virtual environment's own files included.
MOST = 600_000_000


def run(*command: object, cwd: Path) -> str:
    """What a command prints; it knows nothing of this checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    words = [str(word) for word in command]
    ran = subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True, timeout=1800, check=False)
    assert ran.returncode == 0, (words, ran.stdout[-2000:], ran.stderr[-2000:])
    return ran.stdout


def installed(place: Path, what: str) -> Path:
    """A new virtual environment with that in it; its directory of programs."""
    run(sys.executable, "-m", "venv", place, cwd=place.parent)
    run(place / "bin" / "python", "-m", "pip", "install", "--quiet", what, cwd=place.parent)
    return place / "bin"


def size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", place, ROOT),
        cwd=place,
    )
    (found,) = place.glob("*.whl")
    return found


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "tidegate",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "tidegate").rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("tidegate/")} == {
        name for name in there if "__pycache__" not in name
    }
    for folder in ("tests", "bench", "experiments", "papers"):
        assert not [name for name in names if folder in Path(name).parts]


def test_the_core_is_small_and_runs(wheel, tmp_path):
    programs = installed(tmp_path / "core", str(wheel))
    size = size_of(tmp_path / "core")
    print(f"\nthe core takes {size / 1e6:,.0f} MB")
    assert size < MOST
    for package in OPTIONAL:
        assert not list((tmp_path / "core").glob(f"lib/python*/site-packages/{package}"))
    assert run(programs / "python", "-c", FIRST, cwd=tmp_path) == PRINTED
    assert "rehearse" in run(programs / "tidegate", "--help", cwd=tmp_path)


def test_with_all_extras_the_demo_runs(wheel, tmp_path):
    programs = installed(tmp_path / "all", f"{wheel}[all]")
    print(f"\nwith all extras it takes {size_of(tmp_path / 'all') / 1e6:,.0f} MB")
    told = run(programs / "tidegate", "demo", "--readings", "2000", cwd=tmp_path)
    assert "2,000 publications" in told
