"""Old segments of the log are dropped; opening a log, and questions without an answer."""

from __future__ import annotations

import fcntl
from datetime import timedelta

import pytest

from tests.store.log_contents import ids, plain
from tests.store.writing import rows
from tidegate.errors import SettingError, StoreError
from tidegate.store.log import Log, read

# --- old segments ---------------------------------------------------------------------------------------------------


@pytest.fixture
def six(tmp_path):
    """Six rows, a segment each, appended a minute apart; the clock stands a minute later."""
    clock = [0]

    def minute():
        clock[0] += 60_000_000
        return clock[0]

    with Log(tmp_path / "log", segment_bytes=1, clock=minute) as log:
        for i in range(6):
            log.append(rows([f"p{i}"]))
        log._clock = lambda: 7 * 60_000_000
        yield log


@pytest.mark.parametrize(
    ("wanted", "begin"),
    [
        ({"before": 0}, 0),
        ({"before": 3}, 3),
        ({"before": 6}, 5),
        ({"before": 99}, 5),
        ({"age": timedelta(minutes=4)}, 2),
        ({"age": timedelta(0)}, 5),
        ({"age": timedelta(days=1)}, 0),
        ({"size": 0}, 5),
        ({"size": 1 << 30}, 0),
        ({"size": 0, "before": 4}, 4),
        ({"age": timedelta(minutes=4), "before": 1}, 1),
        ({"age": timedelta(minutes=4), "size": 0}, 5),
    ],
)
def test_old_segments_are_dropped(six, wanted, begin):
    assert six.retain(**wanted) == begin
    assert six.begin == begin
    assert ids(six) == [f"p{i}" for i in range(begin, 6)]
    assert len(list(six.directory.iterdir())) == 1 + 2 * (6 - begin)


def test_the_size_that_is_kept(six):
    whole = sum(file.stat().st_size for file in six.directory.iterdir())
    first = sum(file.stat().st_size for file in six.directory.glob(f"{0:020d}.*"))
    assert six.retain(size=whole) == 0
    assert six.retain(size=whole - first) == 1
    assert six.retain(size=whole - first - 1) == 1


def test_who_reads_while_old_segments_go(six):
    reader = Log(six.directory, create=False)
    parts = reader.slices(0, 6, 1)
    early = list(read(parts[0]))
    assert six.retain(before=5) == 5
    assert plain(early[0].batch)[0]["id"] == "p0"
    with pytest.raises(StoreError, match="rows 1 and on, dropped"):
        list(read(parts[1]))
    for ask in (lambda: reader.slices(2, 6, 1), lambda: reader.cut(2, 1)):
        with pytest.raises(StoreError, match="rows that are kept, from 5 on; got row 2"):
            ask()
    assert six.append(rows(["p6"])).position == reader.end == 7
    assert ids(reader) == ["p5", "p6"]
    reader.close()


def test_who_was_away_while_all_it_knew_was_dropped(tmp_path):
    writer = Log(tmp_path, segment_bytes=1)
    writer.append(rows(["a"]))
    with Log(tmp_path, create=False) as reader, Log(tmp_path) as other:
        assert reader.end == 1
        other.append(rows(["b"]))
        for name in "cdef":
            writer.append(rows([name]))
        writer.retain(size=0)
        assert reader.end == 6
        assert other.append(rows(["g"])).position == 7
        assert reader.begin == 5
        assert ids(reader) == ["f", "g"]
    writer.close()


def test_dropping_that_was_interrupted_is_finished(six):
    (six.directory / f"{0:020d}.log").unlink()
    assert six.begin == 1
    six.retain(before=1)
    assert not (six.directory / f"{0:020d}.index").exists()
    assert ids(six) == ["p1", "p2", "p3", "p4", "p5"]


# --- opening, asking ------------------------------------------------------------------------------------------------


def test_a_log_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="expected a log; got no directory"):
        Log(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    with pytest.raises(StoreError, match="expected a log; got a directory without one"):
        Log(tmp_path, create=False)
    (tmp_path / "lock").touch()
    with pytest.raises(StoreError, match="expected a log; got a directory without one"):
        Log(tmp_path, create=False)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="one with 'file' in it"):
        Log(tmp_path)
    with pytest.raises(StoreError, match="a directory with a log that can be used"):
        Log(tmp_path / "file" / "log")
    with pytest.raises(SettingError, match="the path of a directory"):
        Log(7)
    with pytest.raises(SettingError, match="at least 1 byte"):
        Log(tmp_path / "log", segment_bytes=0)


def test_reading_does_not_wait_for_writers(tmp_path):
    with Log(tmp_path) as log:
        log.append(rows(["a"]))
        with (tmp_path / "lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with Log(tmp_path, create=False) as reader:
                assert reader.end == log.end == 1
                assert ids(reader) == ["a"]


def test_questions_without_an_answer(tmp_path):
    log = Log(tmp_path)
    log.append(rows(["a", "b"]))
    for ask, error, said in [
        (lambda: log.slices(0, 3, 1), StoreError, "rows up to 2, the end of the log; got rows 0 to 3"),
        (lambda: log.slices(2, 1, 1), StoreError, "got rows 2 to 1"),
        (lambda: log.cut(3, 1), StoreError, "rows up to 2"),
        (lambda: log.slices(1, 2, 1), SettingError, "a row where a batch begins; got 1, within one"),
        (lambda: log.slices(0, 1, 1), SettingError, "a row where a batch begins; got 1, within one"),
        (lambda: log.slices(0, 2, 0), SettingError, "at least 1 piece"),
        (lambda: log.cut(0, 0), SettingError, "at least 1 row"),
        (lambda: log.retain(), SettingError, "before, age or size"),
    ]:
        with pytest.raises(error, match=said):
            ask()
    log.close()
    log.close()
    for ask in (lambda: log.end, lambda: log.append(rows(["c"])), lambda: log.retain(size=0)):
        with pytest.raises(StoreError, match="expected an open log; got one that was closed"):
            ask()
    with Log(tmp_path) as log:
        assert ids(log) == ["a", "b"]


def test_an_index_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch):
    with Log(tmp_path) as log:
        log.append(rows(["a"]))

        def fail(entries):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(log._tail, "_add", fail)
        with pytest.raises(StoreError, match="an index that can be written; got Input/output error"):
            log.append(rows(["b"]))
        assert ids(log) == ["a"]
        monkeypatch.undo()
        assert log.append(rows(["c"])).position == 3  # b was durable, and stays
        assert ids(log) == ["a", "b", "c"]
