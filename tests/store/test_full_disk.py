"""A full disk: an error of ours at whatever write it fills up, and all that was acknowledged is there."""

from __future__ import annotations

import shutil
import subprocess
import sys

import orjson
import pytest

from tests.store.full_disk import KINDS

#: A mount namespace of its own, in which an ordinary user is root.
_ALONE = ("unshare", "--map-root-user", "--mount")


@pytest.fixture
def disk(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    command = [*_ALONE, "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounts of one's own are not allowed here")
    return tmp_path


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.thorough)])
def test_what_was_acknowledged_is_there_after_a_disk_was_full(disk, step):
    """Free pages in steps of 1 fill up the disk at every write of each kind."""
    command = [*_ALONE, sys.executable, "-m", "tests.store.full_disk", str(disk), str(step), *KINDS]
    process = subprocess.run(command, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()[-2000:]
    for kind, count in orjson.loads(process.stdout).items():
        assert count >= (4 if step == 1 and kind != "data" else 1), process.stdout  # which is one small file
