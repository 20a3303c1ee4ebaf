"""The files of the id index: never believed when they are damaged; settings, capacity, and how long things count."""

from __future__ import annotations

import os
import random
import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.store.log_contents import ids
from tests.store.writing import rows
from tidegate.errors import PublicationError, SettingError, StoreError
from tidegate.kernels.keyed_hash import hash_one
from tidegate.model import Publication
from tidegate.runs.config import load
from tidegate.store import identities, log_segment
from tidegate.store.data_directory import DataDirectory, log_to_append
from tidegate.store.identities import Identities
from tidegate.store.log import Log
from tidegate.store.validity_limits import ValidityLimits

SECOND = 1_000_000
BEGIN = 1_763_000_000 * SECOND


def _log(directory, clock=None, **settings):
    known = Identities(directory / "ids", **settings)
    return Log(directory / "log", identities=known, **({} if clock is None else {"clock": clock}))


def _valid(id, seconds):
    time = datetime.fromtimestamp(BEGIN // SECOND, UTC)
    return Publication(id, "z7", time, {"n": 1.5}, valid_until=time + timedelta(seconds=seconds))


# --- files ------------------------------------------------------------------------------------------------------------


def _flipped(path, chance):
    data = bytearray(path.read_bytes())
    used = [i for i, byte in enumerate(data) if byte]
    data[chance.choice(used)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _cut(path, chance):
    os.truncate(path, chance.randrange(path.stat().st_size))


def _gone(path, chance):
    path.unlink()


@pytest.mark.parametrize("damage", [_flipped, _cut, _gone])
@pytest.mark.parametrize("name", ["index", "settings.json"])
def test_damaged_files_are_made_again(tmp_path, name, damage):
    given = [str(i) for i in range(300)]
    with _log(tmp_path) as log:
        log.append(rows(given[:200]))
        log.append(rows(given[200:]))
        log.unpublish([("z7", "7")])
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "ids", whole)
    for seed in range(15):
        shutil.rmtree(tmp_path / "ids")
        shutil.copytree(whole, tmp_path / "ids")
        damage(tmp_path / "ids" / name, random.Random(seed))
        with _log(tmp_path) as log:
            assert log.append(rows(given))[1:] == (0, 300, ())
            assert log.unpublish([("z7", "7")]) == [False]


def test_an_index_of_another_log_is_made_again(tmp_path):
    for name in ("one", "two"):
        with Log(tmp_path / name, identities=Identities(tmp_path / f"ids {name}")) as log:
            log.append(rows([f"{name}-{i}" for i in range(10)]))
            log.append(rows([f"{name}-more"]))
    with Log(tmp_path / "one", identities=Identities(tmp_path / "ids two")) as log:
        assert log.append(rows(["one-3", "two-3"]))[1:] == (1, 1, ())


def test_an_index_is_believed_and_continued_where_it_can_be(tmp_path, monkeypatch):
    with _log(tmp_path) as log:
        log.append(rows("abc"))
        known = log._identities._file.words[10:12].tolist()
    with Log(tmp_path / "log") as log:  # without an index
        log.append(rows("de"))
    monkeypatch.setattr(Identities, "_made", None)
    with _log(tmp_path) as log:
        assert log.append(rows("aef"))[1:] == (1, 2, ())
        assert log._identities._file.words[10:12].tolist() == known


def test_damaged_frames_do_not_keep_anybody_from_appending(tmp_path):
    with _log(tmp_path) as log:
        for name in "abc":
            log.append(rows([name]))
    (data,) = (tmp_path / "log").glob("*.log")
    (entries,) = (tmp_path / "log").glob("*.index")
    end = log_segment.entry_of(entries.read_bytes()[40:80]).end_byte
    with data.open("r+b") as file:
        file.seek(end - 100)
        file.write(b"?")
    with _log(tmp_path) as log:
        assert log.append(rows("abc"))[1:] == (0, 3, ())  # what "b" said is not known any more
    (tmp_path / "ids" / "index").unlink()
    with _log(tmp_path) as log:
        assert log.append(rows("abcd"))[1:] == (2, 2, ())


def test_a_disk_without_room_for_an_index(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with _log(tmp_path) as log:
        log.append(rows(map(str, range(5000))))  # it has grown once
        monkeypatch.setattr(identities, "_reserve", full)
        log.append(rows(map(str, range(5000, 20_000))))
        assert log._identities.forgotten == 20_000 - 4 * 4096
        assert log.append(rows(map(str, range(19_990, 20_010))))[1:] == (10, 10, ())
        assert not list((tmp_path / "ids").glob("*.new"))
    (tmp_path / "ids" / "index").unlink()
    with _log(tmp_path) as log, pytest.raises(StoreError, match="room for an id index"):
        log.append(rows("a"))


def test_what_fails_once_publications_are_durable_fails_nobody(tmp_path, monkeypatch):
    with _log(tmp_path) as log:
        log.append(rows("a"))
        with monkeypatch.context() as patch:
            patch.setattr(identities.ring, "put_all", None)
            assert log.append(rows("b"))[1:] == (1, 0, ())
        assert log.append(rows("abc"))[1:] == (1, 2, ())
        assert ids(log) == ["a", "b", "c"]


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings_stay_until_others_are_given(tmp_path):
    assert Identities(tmp_path / "ids").horizon == timedelta(days=1)
    assert Identities(tmp_path / "ids").capacity == 10_000_000
    with _log(tmp_path) as before:
        before.append(rows("a"))
        assert Identities(tmp_path / "ids", horizon=timedelta(hours=2), capacity=7).capacity == 7
        with _log(tmp_path) as log:
            assert log.append(rows("ab"))[1:] == (1, 1, ())
            assert (log._identities.horizon, log._identities.capacity) == (timedelta(hours=2), 7)
        assert before.append(rows("abc"))[1:] == (1, 2, ())  # takes them up as well
        assert before._identities.capacity == 7
    for wrong in ({"horizon": timedelta(0)}, {"capacity": 0}, {"capacity": 1 << 31}):
        with pytest.raises(SettingError):
            Identities(tmp_path / "ids", **wrong)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="a directory for an id index"):
        Identities(tmp_path / "file" / "ids")


def test_the_file_of_a_run_gives_the_horizon(tmp_path):
    place = tmp_path / "broker.toml"
    place.write_text('[run]\ndata = "broker"\nrunner = "process"\nhorizon = 7200\n', "utf-8")
    load(place).made()
    place.write_text('[run]\ndata = "broker"\nrunner = "process"\n', "utf-8")
    data = load(place).made()
    with data.open_log(version=lambda: 0) as log:
        assert log._identities.horizon == timedelta(hours=2)


@pytest.mark.parametrize("capacity", [1, 2, 3, 50, 5000])
def test_beyond_the_capacity_the_oldest_are_forgotten_and_counted(tmp_path, capacity):
    with _log(tmp_path, capacity=capacity) as log:
        count = 3 * capacity + 1
        log.append(rows(map(str, range(count))))
        assert log._identities.forgotten == count - capacity
        last = rows(map(str, range(count - capacity, count)))
        assert log.append(last)[1:] == (0, capacity, ())
        assert log.append(rows([str(count - capacity - 1)])).accepted == 1
        assert log._identities.forgotten == count - capacity + 1


def test_what_is_valid_for_long_is_not_pushed_out_by_what_is_not(tmp_path):
    clock = [BEGIN]
    with _log(tmp_path, lambda: clock[0], capacity=10, horizon=timedelta(seconds=100)) as log:
        log.append([_valid(f"valid {i}", 5000) for i in range(3)])
        for number in range(100):
            clock[0] += SECOND
            assert log.append(rows([f"p{number}"])).accepted == 1
        assert log.append([_valid(f"valid {i}", 5000) for i in range(3)])[1:] == (0, 3, ())
        assert log._identities.forgotten == 100 - 7
        clock[0] = BEGIN + 5000 * SECOND
        assert log.append([_valid("valid 0", 5000)]).accepted == 1


# --- what is compared -------------------------------------------------------------------------------------------------


def test_a_missing_time_equals_a_missing_time(tmp_path):
    one, later = (Publication("p", "z", datetime(2026, 11, 15, hour, tzinfo=UTC), {"n": 5}) for hour in (8, 9))
    others = [Publication(f"q{i}", "z", one.time, {"n": 5.0 if i % 2 else 5}) for i in range(4)]
    with _log(tmp_path) as log:
        assert log.append(one, made_times=[0]).accepted == 1
        assert log.append(later, made_times=[0])[1:] == (0, 1, ())
        assert log.append(later)[1:] == (0, 0, (0,))  # a time that was given is another
        assert log.append(one)[1:] == (0, 0, (0,))
        assert log.append(others, made_times=[1, 2]).accepted == 4
        moved = [Publication(p.id, "z", later.time, p.attributes) for p in others]
        assert log.append(moved, made_times=[1, 2])[1:] == (0, 2, (0, 3))
        assert log.append(moved, made_times=[0, 1, 2, 3])[1:] == (0, 2, (0, 3))
        for wrong in ([4], ["x"]):
            with pytest.raises(SettingError, match="places among 4 publications"):
                log.append(others, made_times=wrong)


def test_what_is_equal(tmp_path):
    """Numbers by their value, whatever they are given as; everything else by kind and value."""
    values = [
        [5, 5.0, np.int8(5)],
        [True],
        [1, 1.0],
        ["1"],
        [2**60, float(2**60)],
        [2**60 + 1],
        [None],
        [[]],
        [[5, 6.0]],
    ]
    time = datetime(2026, 11, 15, tzinfo=UTC)
    with _log(tmp_path) as log:
        for i, alike in enumerate(values):
            log.append(Publication(f"p{i}", "z", time, {"n": alike[0], "m": None}))
            for j, others in enumerate(values):
                for other in others:
                    found = log.append(Publication(f"p{i}", "z", time, {"n": other}))
                    assert found[1:] == ((0, 1, ()) if i == j else (0, 0, (0,))), (alike, other)
        assert log.end == len(values)


def test_gaps_of_series_are_alike(tmp_path):
    series = [1.0, float("nan"), float("inf")]
    p = Publication("p", "z", datetime(2026, 11, 15, tzinfo=UTC), {"s": series})
    with _log(tmp_path) as log:
        log.append(p)
        assert log.append(p)[1:] == (0, 1, ())
        assert log.append(Publication("p", "z", p.time, {"s": [1.0, float("nan"), 2.0]})).conflicts == (0,)


def test_the_hash_is_the_one_that_is_published():
    """Vectors of SipHash-2-4-128 of its authors, for the key 00 01 … 0f."""
    key, found = np.frombuffer(bytes(range(16)), np.uint64), np.empty((1, 2), np.uint64)
    vectors = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45"}
    for size, expected in vectors.items():
        hash_one(key.copy(), bytes(range(size)), found)
        assert found.tobytes().hex() == expected


# --- limits -----------------------------------------------------------------------------------------------------------


def test_what_is_valid_for_too_long_is_refused(tmp_path):
    full = [False]
    limits = ValidityLimits(timedelta(hours=12), lambda: full[0])
    with Log(tmp_path, clock=lambda: BEGIN, limits=limits) as log:
        assert log.append([_valid("a", 43_200), _valid("b", -5)]).accepted == 2
        with pytest.raises(PublicationError, match=r"at most 0.5 days away; got 0.75 days; at item 1"):
            log.append([_valid("c", 0), _valid("d", 64_800)])
        with pytest.raises(PublicationError, match="at item 0"):
            log.append(rows(["e"], valid_until=[_valid("e", 43_201).valid_until]))
        full[0] = True
        with pytest.raises(PublicationError, match="no more room for what is valid"):
            log.append(_valid("f", 1))
        assert log.append([_valid("g", 0), _valid("h", -7)]).accepted == 2  # are valid no more
        assert ids(log) == ["a", "b", "g", "h"]


def test_whoever_appends_to_a_data_directory_takes_each_once(tmp_path):
    data = DataDirectory.made(tmp_path / "data", "process")
    for _ in range(2):
        with log_to_append(data.log, version=lambda: 0) as log:
            log.append(rows("ab"))
        with data.open_log(version=lambda: 0) as log:
            log.append(rows("bc"))
            assert ids(log) == ["a", "b", "c"]
            with pytest.raises(PublicationError, match="at most 30 days"):
                log.append(_valid("d", 10**9))
    with log_to_append(tmp_path / "plain", version=lambda: 0) as log:
        assert log.append(rows("ab")).accepted == log.append(rows("ab")).accepted == 2
        with pytest.raises(StoreError, match="a log that knows identities"):
            log.unpublish([("z7", "a")])


def test_what_cannot_be_a_source_and_an_id(tmp_path):
    with _log(tmp_path) as log:
        assert log.unpublish([]) == []
        for wrong in ([("z7", 7)], [("z7", "\ud800")], [("z7",)]):
            with pytest.raises(PublicationError, match="pairs of a source and an id"):
                log.unpublish(wrong)
