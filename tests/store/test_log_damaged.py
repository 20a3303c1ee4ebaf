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

from tests.store.log_contents import ids
from tests.store.writing import rows
from tidegate.errors import StoreError
from tidegate.store import log_intake
from tidegate.store.log import Log, read


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
        assert log.append(big) == 5001
        assert ids(log) == ["a", *(f"p{i}" for i in range(5000))]
