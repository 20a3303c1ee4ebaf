"""The log torn, damaged and full: what is whole is found again."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tests.store.log_contents import ids
from tests.store.writing import rows
from tidegate.errors import StoreError
from tidegate.store import log_intake
from tidegate.store.log import Log, read
from tidegate.store.log_check import damaged, drop


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """A log of five appends in two batches each: its directory, and the bytes after each."""
    directory = tmp_path_factory.mktemp("five")
    with pytest.MonkeyPatch.context() as patch, Log(directory) as log:
        patch.setattr(log_intake, "_ROWS", 2)
        ends = [0]
        for i in range(5):
            log.append(rows([f"{i}a", f"{i}b", f"{i}c"], **{"xy"[i % 2]: pa.array([1, 2, 3])}))
            ends.append(log.slices(0, log.end, 1)[0].last_byte)
    return directory, ends


FIVE = [f"{i}{letter}" for i in range(5) for letter in "abc"]
DAMAGES = st.tuples(
    st.integers(0, 5), st.binary(max_size=130), st.sampled_from(["cut", "flip", "more", "none"]), st.floats(0, 0.999)
)


@given(DAMAGES)
def test_what_is_whole_is_found_again(five, damage):
    """The index lost or shortened, with anything behind it, and the data damaged somewhere behind its last entry."""
    appends, garbage, what, where = damage
    with TemporaryDirectory() as parent:
        directory = Path(shutil.copytree(five[0], f"{parent}/log"))
        data, index, ends = directory / f"{0:020d}.log", directory / f"{0:020d}.index", five[1]
        known = index.read_bytes()[: 2 * appends * 40]
        index.write_bytes(known + garbage)
        if not known + garbage:
            index.unlink()
        content = bytearray(data.read_bytes())
        at = ends[appends] + int(where * (ends[-1] - ends[appends]))
        if what == "cut":
            del content[at:]
        elif what == "flip" and at < len(content):
            content[at] ^= 1 << int(where * 1000) % 8
        elif what == "more":
            content += bytes(content[: ends[1 + int(where * 3)]])  # whole frames, but not their turn
        data.write_bytes(content)
        least = sum(end <= at for end in ends[1:]) if what in ("cut", "flip") else 5
        with Log(directory) as log:
            found = ids(log)
            assert found == FIVE[: len(found)]
            assert len(found) % 3 == 0
            # What only pads a frame is not checked and may be flipped.
            assert len(found) == 3 * least or (what == "flip" and len(found) > 3 * least)
            assert data.stat().st_size == five[1][len(found) // 3]
            log.append(rows(["new"]))
            assert ids(log) == [*found, "new"]
        with Log(directory, create=False) as log:
            assert ids(log) == [*found, "new"]


def test_a_gap_in_the_index_is_mended(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    index = directory / f"{0:020d}.index"
    content = bytearray(index.read_bytes()[:400])
    content[80:120] = bytes(40)
    index.write_bytes(content)
    with (directory / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # one who only reads cannot mend it now
        with Log(directory, create=False) as log, pytest.raises(StoreError, match="with a gap"):
            ids(log)
    with Log(directory) as log:
        assert ids(log) == FIVE


def test_acknowledged_rows_that_are_gone_are_no_secret(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    data = directory / f"{0:020d}.log"
    with Log(directory) as log:
        (part,) = log.slices(0, log.end, 1)
        os.truncate(data, five[1][4] + 10)
        with pytest.raises(StoreError, match="bytes or more; got"):
            list(read(part))
        with pytest.raises(StoreError, match=r"remove the file .* \.index"):
            log.append(rows(["new"]))
    with pytest.raises(StoreError, match=r"remove the file .* \.index"):
        Log(directory)
    data.with_suffix(".index").unlink()
    with Log(directory) as log:
        assert ids(log) == FIVE[:12]


def test_a_damaged_frame_is_an_error(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    data = directory / f"{0:020d}.log"
    content = data.read_bytes()
    with Log(directory) as log:
        (part,) = log.slices(0, log.end, 1)
        data.write_bytes(content[: five[1][2]] + b"rust" + content[five[1][2] + 4 :])
        with pytest.raises(StoreError, match="a whole frame of the log; got b'rust'"):
            list(read(part))
        data.write_bytes(content[:72] + bytes(300) + content[372:])
        with pytest.raises(StoreError, match="a whole frame of the log"):
            list(read(part))


@examples(100)
@given(st.integers(0, 7), st.floats(0, 0.999999), st.sampled_from(["log", "index"]))
def test_a_flipped_bit_is_never_believed(five, bit, where, ending):
    """What is read is what was written, up to an error that names the file and the byte."""
    with TemporaryDirectory() as parent:
        directory = Path(shutil.copytree(five[0], f"{parent}/log"))
        file = directory / f"{0:020d}.{ending}"
        content = bytearray(file.read_bytes())
        content[int(where * len(content))] ^= 1 << bit
        file.write_bytes(content)
        error = None
        try:
            with Log(directory, create=False) as log:
                assert ids(log) == FIVE  # what pads a frame may be flipped, and an index is mended
        except StoreError as found:
            error = found
        assert error is None or (str(file) in error.at and "byte" in error.at)


def test_a_damaged_frame_is_never_taken_for_a_torn_tail(five, tmp_path):
    """The index says that more was durable: nothing is cut off."""
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    data, index = directory / f"{0:020d}.log", directory / f"{0:020d}.index"
    for file, at in ((index, 130), (data, five[1][3] + 100)):
        content = bytearray(file.read_bytes())
        content[at] ^= 1
        file.write_bytes(content)
    before = data.read_bytes()
    with pytest.raises(StoreError, match=rf"a damaged one.*; at byte {five[1][3]} of "):
        Log(directory)
    assert data.read_bytes() == before


def test_a_reader_that_cannot_mend_says_that_the_index_has_a_gap(five, tmp_path):
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    index = directory / f"{0:020d}.index"
    content = bytearray(index.read_bytes())
    content[130] ^= 1
    index.write_bytes(content)
    with (directory / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=r"a whole index of the log; got one with a gap.*; at byte 120 of"):
            Log(directory, create=False)
    with Log(directory, create=False) as log:
        assert ids(log) == FIVE


def test_rows_of_damaged_frames_can_be_given_up(five, tmp_path):
    """The others keep their numbers, also when the index is made again."""
    directory = Path(shutil.copytree(five[0], tmp_path / "log"))
    data = directory / f"{0:020d}.log"
    assert list(damaged(directory)) == []
    content = bytearray(data.read_bytes())
    content[five[1][2] + 100] ^= 1
    content[five[1][4] - 100] ^= 1
    data.write_bytes(content)
    found = list(damaged(directory))
    assert [(frame.first_row, frame.rows) for frame in found] == [(6, 1), (10, 2)]
    for frame in found:
        drop(directory, frame)
    assert list(damaged(directory)) == []
    left = [*FIVE[:6], *FIVE[7:10], *FIVE[12:]]
    with Log(directory) as log:
        assert log.end == 15
        assert [id for part in log.slices(0, 15, 1) for id in _ids(part)] == left
        assert log.append(rows(["new"])).position == 16
    data.with_suffix(".index").unlink()
    with Log(directory) as log:
        assert [id for part in log.slices(0, 16, 1) for id in _ids(part)] == [*left, "new"]


def _ids(part):
    return [id for frame in read(part) for id in frame.batch.column("id").to_pylist()]


def test_older_segments_are_mended_too_and_never_cut(tmp_path):
    with Log(tmp_path, segment_bytes=1) as log:
        for i in range(4):
            log.append(rows([f"p{i}"]))
    (tmp_path / f"{1:020d}.index").unlink()
    (tmp_path / f"{2:020d}.index").write_bytes(b"garbage")
    with Log(tmp_path, segment_bytes=1) as log:
        assert ids(log) == ["p0", "p1", "p2", "p3"]
    data = tmp_path / f"{1:020d}.log"
    content = data.read_bytes()
    data.write_bytes(content[:-64])
    (tmp_path / f"{1:020d}.index").unlink()
    with pytest.raises(StoreError, match="expected rows up to 2; got whole frames up to row 1"):
        Log(tmp_path)
    assert data.read_bytes() == content[:-64]


def test_a_full_disk(tmp_path):
    with Log(tmp_path) as log:
        log.append(rows(["a"]))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        big = rows((f"p{i}" for i in range(5000)), n=pa.array(range(5000)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StoreError, match="expected room to write; got File too large"):
                log.append(big)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        (part,) = log.slices(0, log.end, 1)
        assert Path(part.file).stat().st_size == part.last_byte
        assert log.append(big).position == 5001
        assert ids(log) == ["a", *(f"p{i}" for i in range(5000))]
