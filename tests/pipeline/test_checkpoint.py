"""One run at a time on a checkpoint, and none that begins its batches again."""

from __future__ import annotations

import os

import orjson
import pytest

from tidegate.errors import StoreError
from tidegate.pipeline.begun_batches import check_offsets, note_batch
from tidegate.store.directory_lock import DirectoryLock


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path):
    checkpoint = str(tmp_path / "new")
    first = DirectoryLock(checkpoint)
    with pytest.raises(
        StoreError, match=rf"no other run uses; got one that process {os.getpid()} uses; at {checkpoint}"
    ):
        DirectoryLock(checkpoint)
    first.release()
    first.release()
    second = DirectoryLock(checkpoint)
    del second  # nobody refers to it any more
    DirectoryLock(checkpoint).release()


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="a checkpoint that can be written"):
        DirectoryLock(str(tmp_path / "file"))
    DirectoryLock("hdfs://somewhere/else").release()  # Spark notices


def test_batches_whose_offsets_are_gone_are_not_begun_again(tmp_path):
    checkpoint = str(tmp_path)
    check_offsets(checkpoint)  # the first run
    note_batch(checkpoint, 0)
    with pytest.raises(StoreError, match=rf"what Spark has written down .*; got none; at {checkpoint}/spark/offsets"):
        check_offsets(checkpoint)
    (tmp_path / "spark" / "offsets" / "0").touch()
    check_offsets(checkpoint)
    note_batch(checkpoint, 7)
    assert orjson.loads((tmp_path / "batches.json").read_bytes())["first"] == 0
