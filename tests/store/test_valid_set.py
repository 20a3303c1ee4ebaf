"""The valid set: what is in it, what is written down of it, and what readers in other processes are given."""

from __future__ import annotations

import threading
from random import Random

import numpy as np
import pytest

from tests.store.valid_sets import Following, reading, valid_rows
from tidegate.errors import StoreError
from tidegate.store import valid_set, withdrawn_rows
from tidegate.store.log_rows import LogRows
from tidegate.store.valid_manifest import read_manifest
from tidegate.store.valid_set import ValidSet
from tidegate.store.valid_usage import ValidUsage
from tidegate.store.withdrawn_rows import WithdrawnRows


@pytest.fixture
def following(tmp_path):
    made = Following(tmp_path)
    yield made
    made.close()


def test_what_is_valid_at_a_cut(following):
    following.append(reading(0, 5, n=1), reading(1, n=2), reading(2, 9, kind="a"), reading(3, 5))
    assert following.advance(4) == []
    assert valid_rows(following.valid) == [0, 2, 3]
    following.advance(5)
    assert valid_rows(following.valid) == [2]
    following.withdraw(2)
    assert following.advance(5) == [(4, [2])]
    assert valid_rows(following.valid) == []


def test_a_publication_that_is_withdrawn_in_the_batch_that_brings_it(following):
    following.append(reading(0, 5), reading(1, 5))
    following.withdraw(0)
    assert following.advance() == [(2, [0])]
    assert valid_rows(following.valid) == [1]


def test_a_set_that_was_not_written_down_follows_the_log_again(following, monkeypatch):
    following.append(reading(0, 5), reading(1, 9))
    following.advance()
    following.valid.write()
    following.append(reading(2, 9))
    following.withdraw(1)
    monkeypatch.setattr(ValidSet, "write", lambda self: None)
    assert following.advance(6) == [(3, [1])]
    following.reopen()
    assert following.valid.row == 2
    assert following.advance(6) == [(3, [1])]
    assert valid_rows(following.valid) == [2]


def test_what_is_not_committed_is_not_written_down(following):
    following.append(reading(0, 5))
    with following.valid.changing:
        following.valid.advance(following.log, 1, 0)
        following.valid.write()
    following.reopen()
    assert following.valid.row == 0
    following.advance()
    assert valid_rows(following.valid) == [0]


def test_a_batch_that_lies_before_the_set_is_refused(following):
    following.append(reading(0, 5))
    following.advance()
    with pytest.raises(StoreError, match="a batch that ends at row 1 or later"):
        following.advance(row=0)


def test_a_set_belongs_to_one_run_at_a_time(following):
    with pytest.raises(StoreError, match="a valid set that no other run uses"):
        ValidSet(following.directory / "valid", "run")
    following.valid.close()
    with pytest.raises(StoreError, match="the run that this valid set belongs to, run"):
        ValidSet(following.directory / "valid", "other")
    following.valid = following.opened()


def test_files_are_merged_without_what_is_no_longer_valid(following, monkeypatch):
    monkeypatch.setattr(valid_set, "_ROWS", 4)
    monkeypatch.setattr(valid_set, "_FILES", 3)
    random = Random(3)
    untils = {}
    for _ in range(30):
        for _ in range(random.randrange(1, 6)):
            row = following.log.end
            untils[row] = random.choice([10, 20, 1000])
            following.append(reading(row, untils[row], **random.choice([{"n": 1}, {"n": 1.5, "kind": "a"}, {}])))
        following.advance(5)
        following.valid.tidy(lambda: None)
    some = random.sample(sorted(untils), 10)
    row = following.log.end
    following.withdraw(*some)
    following.advance(15)
    following.valid.tidy(lambda: None)
    left = [one for one in sorted(untils) if untils[one] > 15 and one not in some]
    assert valid_rows(following.valid) == left
    manifest = read_manifest(following.directory / "valid")
    assert manifest.row == row + 10
    assert len(manifest.files) < 8
    assert [file.first for file in manifest.files] == sorted(file.first for file in manifest.files)
    kept = {*manifest.names(), "lock", "usage"}
    assert {path.name for path in (following.directory / "valid").iterdir()} == kept
    following.reopen()
    following.advance(15)
    assert valid_rows(following.valid) == left


def test_what_a_crash_left_is_removed(following):
    (following.directory / "valid" / "99.valid").write_bytes(b"torn")
    following.reopen()
    assert not (following.directory / "valid" / "99.valid").exists()


def test_withdrawn_rows_are_seen_by_readers_as_soon_as_they_are_told(following):
    reader = WithdrawnRows(following.directory / "valid")
    rows = np.arange(6)
    following.append(*(reading(number, 99) for number in range(4)))
    following.withdraw(1)
    following.advance()
    assert not reader.among(rows).any()
    assert reader.refresh()
    assert reader.among(rows).tolist() == [False, True, False, False, False, False]
    following.withdraw(3)
    following.advance()
    assert reader.refresh()
    assert not reader.refresh()
    assert np.flatnonzero(reader.among(rows)).tolist() == [1, 3]


def test_who_asks_while_another_thread_looks_is_told_of_all_that_was_known(following, monkeypatch):
    """Also while it looks into a file that is written anew."""
    monkeypatch.setattr(valid_set, "_SOME", 2)
    following.append(*(reading(number, 99) for number in range(9)))
    following.withdraw(*range(6))
    following.advance()
    reader, told = WithdrawnRows(following.directory / "valid"), []
    following.valid.tidy(lambda: 3)
    read = withdrawn_rows._read

    def meanwhile(*given):
        found = read(*given)
        told.append(np.flatnonzero(reader.among(np.arange(20))).tolist())
        return found

    monkeypatch.setattr(withdrawn_rows, "_read", meanwhile)
    reader.refresh()
    assert told == [[0, 1, 2, 3, 4, 5]]
    assert np.flatnonzero(reader.among(np.arange(20))).tolist() == [3, 4, 5]


def test_withdrawn_rows_that_nobody_names_are_forgotten(following, monkeypatch):
    monkeypatch.setattr(valid_set, "_SOME", 2)
    reader = WithdrawnRows(following.directory / "valid")
    following.append(*(reading(number, 99) for number in range(9)))
    following.withdraw(*range(6))
    following.advance()
    following.valid.tidy(lambda: 3)  # queues name row 3, and of the valid ones 6 is the first that is left
    reader.refresh()
    assert np.flatnonzero(reader.among(np.arange(20))).tolist() == [3, 4, 5]
    following.reopen()
    following.withdraw(7)
    following.advance()
    reader.refresh()
    assert np.flatnonzero(reader.among(np.arange(20))).tolist() == [3, 4, 5, 7]


def test_a_torn_record_of_withdrawn_rows_is_cut_off_and_a_damaged_one_refused(following):
    following.append(*(reading(number, 99) for number in range(4)))
    following.withdraw(0)
    following.advance()
    following.valid.close()
    path = following.directory / "valid" / read_manifest(following.directory / "valid").withdrawn
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-1])
    following.valid = following.opened()
    assert path.read_bytes() == whole
    following.valid.close()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for opened in (following.opened, lambda: WithdrawnRows(following.directory / "valid")):
        with pytest.raises(StoreError, match="withdrawn rows as they were written"):
            opened()
    path.write_bytes(whole)
    following.valid = following.opened()


def test_a_file_with_a_flipped_bit_is_refused(following):
    following.append(reading(0, 99, name="x" * 100))
    following.advance()
    following.valid.close()
    (path,) = (following.directory / "valid").glob("*.valid")
    whole = path.read_bytes()
    for at in (3, 200, len(whole) // 2):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(StoreError):
            following.opened()
    path.write_bytes(whole)
    following.valid = following.opened()


def test_rows_that_the_log_has_dropped_are_still_told_in_full(tmp_path):
    following = Following(tmp_path, segment_bytes=1)
    following.append(reading(0, 99, n=5, x=1.0), reading(1, n=1))
    following.append(reading(2, 99, name="Žabnica"))
    following.append(reading(3))
    following.advance()
    following.valid.write()
    following.log.retain(before=3)
    assert following.log.begin == 3
    with LogRows(tmp_path / "log", valid=tmp_path / "valid") as rows, LogRows(tmp_path / "log") as without:
        found = rows.publications([2, 1, 0, 3])
        assert [one.get("attributes") for one in found] == [{"name": "Žabnica"}, None, {"n": 5, "x": 1.0}, {}]
        assert isinstance(found[2]["attributes"]["n"], int)
        assert found[0]["valid_until"] == "1970-01-01T00:01:39.000000Z"
        assert found[1]["gone"]
        assert [table.num_rows for _, table in rows.tables([0, 1])] == [1]
        assert [one.get("gone") for one in without.publications([2, 1, 0])] == [True] * 3
    following.close()


def test_who_appends_is_told_when_there_is_no_more_room(tmp_path):
    usage = ValidUsage(tmp_path / "valid")
    assert not usage.is_over()
    following = Following(tmp_path, quota=2000)
    following.append(reading(0, 9, n=1))
    following.advance()
    assert not usage.is_over()
    following.append(*(reading(number, 9, name="x" * 100) for number in range(1, 30)))
    following.advance()
    assert usage.is_over()
    following.advance(10)
    following.valid.tidy(lambda: None)
    following.append(reading(40))
    following.advance(10)
    assert not usage.is_over()
    following.close()
    usage.close()


def test_files_are_merged_while_the_set_goes_on(following, monkeypatch):
    monkeypatch.setattr(valid_set, "_ROWS", 2)
    monkeypatch.setattr(valid_set, "_FILES", 2)
    monkeypatch.setattr(valid_set, "_SOME", 1)
    ended, errors = threading.Event(), []

    def tidy():
        try:
            while not ended.is_set():
                following.valid.tidy(lambda: None)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=tidy)
    thread.start()
    random, left = Random(4), []
    for time in range(60):
        for _ in range(random.randrange(4)):
            until = time + random.choice([3, 1000])
            left.append((following.log.end, until))
            following.append(reading(following.log.end, until))
        if left and random.random() < 0.3:
            row, _ = left.pop(random.randrange(len(left)))
            following.withdraw(row)
        following.advance(time)
        left = [one for one in left if one[1] > time]
        assert valid_rows(following.valid) == [row for row, _ in left]
    ended.set()
    thread.join()
    assert not errors
    following.reopen()
    following.advance(59)
    assert valid_rows(following.valid) == [row for row, _ in left]
