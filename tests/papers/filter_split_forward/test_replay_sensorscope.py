"""What is replayed of SensorScope: bursts in which all stations report, and files that are refused."""

from __future__ import annotations

import gzip
from bisect import bisect_left
from contextlib import suppress

import numpy as np
import pytest

from bench.papers.filter_split_forward.replay import INTERVAL, replay
from bench.sensorscope import FOLDER
from tests.papers.filter_split_forward.sensorscope_files import (
    BEGIN,
    NUMBERS,
    bursts,
    got,
    row,
    runs,
    whole,
    with_data,
    written,
)
from tidegate.errors import SettingError


@with_data
@pytest.mark.parametrize(("stations", "rounds"), [(10, 40), (20, 40), (10, 33), (10, 600), (2, 1)])
def test_sensorscope_is_replayed_in_bursts_in_which_all_stations_report(stations, rounds):
    for seed in range(3):
        found = got(FOLDER, stations, rounds, seed)
        parts = bursts(found)
        assert len(parts) == -(-rounds // 5)
        whole_burst = np.zeros(stations, bool)
        for number, part in enumerate(parts):
            length = min(5, rounds - 5 * number)
            assert found.time[part][-1] - found.time[part][0] < length * INTERVAL * 1_000_000
            seen = np.zeros((stations, 5), int)
            np.add.at(seen, (found.station[part], found.attribute[part]), 1)
            assert (seen.sum(axis=1) >= length).all()
            whole_burst |= (seen > 0).all(axis=1)
        assert whole_burst.all()
        # No match has readings of two bursts: there is more than a window between them.
        begins = np.array([found.time[part][0] for part in parts])
        assert (np.diff(begins) > 9 * INTERVAL * 1_000_000).all()


@with_data
def test_bursts_are_from_all_over_the_six_weeks():
    days = [(got(FOLDER, seed=seed).time // 86_400_000_000).tolist() for seed in range(10)]
    assert min(max(here) - min(here) for here in days) > 7
    assert len({day for here in days for day in here}) > 21
    assert len({min(here) for here in days}) > 3


@with_data
def test_what_is_replayed_is_in_the_files():
    found = got(FOLDER, seed=3)
    assert set(found.stations) <= set(NUMBERS)
    for number in (4, 7):
        name = f"stbernard-meteo-{found.stations[number]}.txt.gz"
        rows = [line.split() for line in gzip.decompress((FOLDER / name).read_bytes()).decode().splitlines()]
        for part in bursts(found):
            first, last = (int(found.time[part][end]) // 1_000_000 for end in (0, -1))
            here = slice(*(bisect_left(rows, epoch, key=lambda fields: int(fields[7])) for epoch in (first, last + 1)))
            said = [
                (int(fields[7]) * 1_000_000, attribute, float(fields[column]))
                for fields in rows[here]
                for attribute, column in enumerate((8, 9, 11, 15, 16))
                if fields[column] != "NaN"
            ]
            own = found.station[part] == number
            columns = (found.time, found.attribute, found.value)
            told = list(zip(*(column[part][own].tolist() for column in columns), strict=True))
            assert len(told) >= 5
            assert sorted(told) == sorted(said)


@with_data
def test_one_interval_of_many_stations_is_refused_where_some_are_always_silent():
    """The wind hardly ever turns the anemometers of all 23 stations at once."""
    expected = r"expected moments in which 23 stations report all of ambient, .* in 1 intervals; got none such; more"
    with pytest.raises(SettingError, match=expected + ".*; at .*sensorscope"):
        got(FOLDER, 23, 1)


@pytest.mark.parametrize("rounds", [1, 4, 5, 6, 10, 23, 40])
def test_bursts_have_five_rounds_but_the_last(tmp_path, rounds):
    written(tmp_path, {number: whole(number, 200) for number in NUMBERS})
    seen = set()
    for seed in range(20):
        found = got(tmp_path, 3, rounds, seed)
        parts = runs(found)
        assert [len(part) for part in parts] == [5] * (rounds // 5) + [rounds % 5] * (rounds % 5 > 0)
        begins = [part[0] for part in parts]
        assert (np.diff(begins) >= 10).all()
        seen.update(begins)
        now = (found.time // 1_000_000 - BEGIN) // INTERVAL
        assert len(found) == 3 * 5 * rounds
        assert np.array_equal(found.value, (found.attribute + 1) * 1000 + now)
    # From all over: from the first half and from the second, and rarely from the same place.
    assert min(seen) < 100 < max(seen)
    assert len(seen) > 10


def test_bursts_may_be_as_near_as_ten_rounds(tmp_path):
    """Where there is no other room they are."""
    written(tmp_path, {number: whole(number, 15) for number in NUMBERS})
    found = {tuple(part[0] for part in runs(replay(tmp_path, 3, 10, rng))) for rng in _lucky(tmp_path, 3, 10)}
    assert found == {(0, 10)}


def _lucky(folder, stations, rounds):
    """Generators with which there is a replay: how many bursts have room is left to chance."""
    for seed in range(100):
        with suppress(SettingError):
            got(folder, stations, rounds, seed)
            yield np.random.default_rng(seed)


def test_all_chosen_stations_report_in_every_interval(tmp_path):
    """Each station is silent now and then, and its wind more often; what a file has of a burst is all replayed."""
    rng = np.random.default_rng(5)
    said = rng.random((len(NUMBERS), 300, 5)) > [0.2, 0.2, 0.2, 0.5, 0.5]
    said[rng.random((len(NUMBERS), 300)) < 0.01] = False
    columns = (8, 9, 11, 15, 16)
    texts = {
        number: whole(
            number, 300, values={now: {columns[a]: "NaN" for a in np.flatnonzero(~said[i, now])} for now in range(300)}
        )
        for i, number in enumerate(NUMBERS)
    }
    written(tmp_path, texts)
    for seed in range(10):
        found = got(tmp_path, 8, 28, seed)
        chosen = [NUMBERS.index(number) for number in found.stations]
        parts = runs(found)
        assert [len(part) for part in parts] == [5, 5, 5, 5, 5, 3]
        told = np.zeros_like(said)
        now = (found.time // 1_000_000 - BEGIN) // INTERVAL
        told[np.array(chosen)[found.station], now, found.attribute] = True
        for which in chosen:
            assert told[which].any(axis=1).sum() == 28
            assert any(told[which, part].any(axis=0).all() for part in parts)
            for part in parts:
                assert np.array_equal(told[which, part], said[which, part])


def test_a_burst_is_taken_where_enough_stations_report(tmp_path):
    silent = {now: dict.fromkeys((8, 9, 11, 15, 16), "NaN") for now in range(100)}
    written(tmp_path, {number: whole(number, 150, values=silent if number > 4 else {}) for number in NUMBERS})
    early = 0
    for seed in range(20):
        found = got(tmp_path, 4, 10, seed)
        assert min(runs(found))[0] >= 100
        found = got(tmp_path, 3, 10, seed)
        early += min(runs(found))[0] < 100
        assert min(runs(found))[0] >= 100 or set(found.stations) == {2, 3, 4}
    assert early > 5


def test_any_attribute_is_a_report(tmp_path):
    """First only the first, then only others, which for long are fewer than the first were."""
    first, others = dict.fromkeys((9, 11, 15, 16), "NaN"), {8: "NaN"}
    values = {now: first if now < 60 else others for now in range(100)}
    written(tmp_path, {number: whole(number, 110, values=values) for number in NUMBERS})
    begins = {part[0] for seed in range(20) for part in runs(got(tmp_path, 5, 15, seed))}
    assert begins & set(range(50))
    assert begins & set(range(65, 90))


def test_every_station_has_a_burst_with_all_attributes(tmp_path):
    """The wind blows at another time at each fourth station; stations without it in any burst are drawn again."""
    texts = {}
    for i, number in enumerate(NUMBERS):
        windy = range(i % 4 * 40, i % 4 * 40 + 15)
        texts[number] = whole(number, 160, values={now: {15: "NaN"} for now in range(160) if now not in windy})
    written(tmp_path, texts)
    for seed in range(10):
        found = got(tmp_path, 8, 40, seed)
        for station, number in enumerate(found.stations):
            windy = range(NUMBERS.index(number) % 4 * 40, NUMBERS.index(number) % 4 * 40 + 15)
            assert any(set(part) & set(windy) for part in runs(found))
            assert ((found.station == station) & (found.attribute == 3)).any()


def test_rows_need_not_be_in_order(tmp_path):
    texts = {number: whole(number, 10) for number in NUMBERS}
    lines = texts[7].splitlines()
    texts[7] = "\n".join(lines[1::2] + lines[::2]) + "\n"
    written(tmp_path, texts)
    for seed in range(5):
        found = got(tmp_path, 23, 5, seed)
        assert len(found) == 23 * 5 * 5
        assert (np.diff(found.time) >= 0).all()


@pytest.mark.parametrize("missing", [{11: range(100)}, {15: range(55), 11: range(45, 100)}], ids=["never", "apart"])
def test_stations_that_never_report_all_attributes_in_one_burst_are_refused(tmp_path, missing):
    values = {now: {column: "NaN" for column, when in missing.items() if now in when} for now in range(100)}
    written(tmp_path, {number: whole(number, 100, values=values) for number in NUMBERS})
    expected = "expected moments in which 2 stations report all of ambient, .*wind_direction in 20 intervals; got none"
    with pytest.raises(SettingError, match=f"{expected}.*; at {tmp_path}"):
        got(tmp_path, 2, 20)


@pytest.mark.parametrize(
    ("stations", "rounds", "message"),
    [
        (24, 5, "at most 23 stations; got 24"),
        (5, 6, "at most 5 reporting intervals; got 6"),
        (5, 1001, "at most 5 reporting intervals; got 1001"),
    ],
)
def test_more_than_there_is_is_refused(tmp_path, stations, rounds, message):
    written(tmp_path, {number: whole(number, 10) for number in NUMBERS})
    with pytest.raises(SettingError, match=f"expected {message}; at {tmp_path}"):
        got(tmp_path, stations, rounds)


def test_stations_that_report_at_different_times_are_refused(tmp_path):
    written(tmp_path, {n: whole(n, 40, begin=BEGIN + (n > 20) * 100 * INTERVAL) for n in NUMBERS})
    assert len(got(tmp_path, 18, 5)) == 18 * 25
    with pytest.raises(SettingError, match=r"SensorScope files in which 19 stations report at one time; got none such"):
        got(tmp_path, 19, 5)


def test_files_shorter_than_a_burst_are_refused(tmp_path):
    written(tmp_path, {number: whole(number, 4) for number in NUMBERS})
    with pytest.raises(SettingError, match="in which 1 stations report at one time; got none such"):
        got(tmp_path, 1, 1)


@pytest.mark.thorough
@with_data
def test_more_intervals_than_the_six_weeks_have_are_refused():
    with pytest.raises(SettingError, match=r"expected at most \d{4} reporting intervals; got 30000; at "):
        got(FOLDER, 10, 30_000)


@pytest.mark.parametrize(("stations", "rounds"), [(0, 5), (5, 0), (5, -1)])
def test_nothing_to_replay_is_refused(stations, rounds):
    with pytest.raises(SettingError, match="expected at least 1"):
        got(None, stations, rounds)


def test_a_wrong_folder_is_refused(tmp_path):
    expected = r"expected a folder with SensorScope's 23 files stbernard-meteo-\*.txt.gz; got "
    with pytest.raises(SettingError, match=expected + "no such folder; at .*absent"):
        got(tmp_path / "absent")
    with pytest.raises(SettingError, match=expected + "0 of them; at "):
        got(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=expected + "a file; at "):
        got(tmp_path / "file")
    (tmp_path / "stbernard-meteo-x.txt.gz").write_text("")
    written(tmp_path, {number: whole(number, 10) for number in NUMBERS[1:]})
    with pytest.raises(SettingError, match=expected + "22 of them; at "):
        got(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows of 17 numbers"),
        ("\n\n", "rows of 17 numbers"),
        ("9 2007 9 14\n", "rows of 17 numbers"),
        (whole(9, 3) + "9 2007\n", "rows of 17 numbers"),
        (row(9, BEGIN, {8: "warm"}) + "\n", "rows of 17 numbers.*warm"),
        (row(9, "NaN", {}) + "\n", "seconds since 1970"),
        (whole(8, 3), "rows of station 9"),
    ],
    ids=["empty", "blank", "narrow", "cut", "text", "timeless", "another"],
)
def test_a_malformed_file_is_refused(tmp_path, text, message):
    written(tmp_path, {number: whole(number, 3) for number in NUMBERS} | {9: text})
    with pytest.raises(SettingError, match=f"expected .*{message}.*; at .*stbernard-meteo-9.txt.gz"):
        got(tmp_path, 5, 3)


@pytest.mark.parametrize("spoilt", [b"no gzip at all", gzip.compress(whole(9, 300).encode())[:-900]])
def test_a_file_that_cannot_be_unpacked_is_refused(tmp_path, spoilt):
    written(tmp_path, {number: whole(number, 3) for number in NUMBERS})
    (tmp_path / "stbernard-meteo-9.txt.gz").write_bytes(spoilt)
    with pytest.raises(SettingError, match=r"expected SensorScope rows of 17 numbers.*; at .*stbernard-meteo-9"):
        got(tmp_path, 5, 3)
