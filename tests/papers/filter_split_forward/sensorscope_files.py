"""Replays of SensorScope where its files are, files written like them, and the bursts in what is replayed."""

from __future__ import annotations

import gzip
from itertools import pairwise

import numpy as np
import pytest

from bench.papers.filter_split_forward.replay import INTERVAL, replay
from bench.sensorscope import FOLDER

with_data = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="SensorScope's files are no part of the project: ../shared/data/sensorscope is absent"
)
#: Each way to get readings.
folders = pytest.mark.parametrize("folder", [pytest.param(FOLDER, marks=with_data, id="sensorscope"), None])

NUMBERS = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 25, 28, 29, 31, 32]
BEGIN = 1_190_000_000


def got(folder, stations=10, rounds=40, seed=1):
    return replay(folder, stations, rounds, np.random.default_rng(seed))


def row(station, epoch, values):
    """As in the files; the value of column i is ``values[i]``, of those that nobody asks for -1."""
    return " ".join(map(str, [station, 2007, 9, 14, 10, 0, 0, epoch, *(values.get(i, -1) for i in range(8, 17))]))


def whole(station, rounds, values=None, begin=BEGIN):
    """A file in which every interval has its row: the attributes are 1 to 5 thousands and the round's number.

    ``values`` has, by round and column, what is there instead.
    """
    lines = []
    for now in range(rounds):
        usual = {8: 1000 + now, 9: 2000 + now, 11: 3000 + now, 15: 4000 + now, 16: 5000 + now}
        lines.append(row(station, begin + now * INTERVAL, usual | (values or {}).get(now, {})))
    return "\n".join(lines) + "\n"


def written(folder, texts):
    for station, text in texts.items():
        path = folder / f"stbernard-meteo-{station}.txt.gz"
        path.write_bytes(gzip.compress(text.encode()))
    return folder


def runs(found):
    """The readings of synthetic files by burst: the numbers of consecutive rounds."""
    rounds = np.unique((found.time // 1_000_000 - BEGIN) // INTERVAL)
    return [run.tolist() for run in np.split(rounds, np.flatnonzero(np.diff(rounds) > 1) + 1)]


def bursts(found):
    """Where each burst begins and ends among the readings. Within one, no two rounds have a pause of two between."""
    pauses = np.flatnonzero(np.diff(found.time) > 3 * INTERVAL * 1_000_000) + 1
    return [slice(*pair) for pair in pairwise([0, *pauses.tolist(), len(found)])]
