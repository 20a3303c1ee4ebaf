"""One run at a time on a checkpoint."""

from __future__ import annotations

import os

import pytest

from tidegate.errors import StoreError
from tidegate.pipeline.checkpoint_lock import CheckpointLock


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path):
    checkpoint = str(tmp_path / "new")
    first = CheckpointLock(checkpoint)
    with pytest.raises(
        StoreError, match=rf"no other run uses; got one that process {os.getpid()} uses; at {checkpoint}"
    ):
        CheckpointLock(checkpoint)
    first.release()
    first.release()
    second = CheckpointLock(checkpoint)
    del second  # nobody refers to it any more
    CheckpointLock(checkpoint).release()


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="a checkpoint that can be written"):
        CheckpointLock(str(tmp_path / "file"))
    CheckpointLock("hdfs://somewhere/else").release()  # Spark notices
