"""Reads the real series in ``../shared/data``, which are not part of the project: stocks, labelled series, an ECG."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["DATA", "ECG", "STOCKS", "UCR", "Labelled", "Record", "ecg", "labelled", "windows"]

DATA = Path(__file__).parents[4] / "shared" / "data"
STOCKS = DATA / "stocks" / "djia31_daily_2006-2018.tar.gz"
UCR = DATA / "ucr"
ECG = UCR / "mitdb_ecg.csv.gz"

Doubles = NDArray[np.float64]


def windows(days: int, before: str) -> tuple[Doubles, Doubles]:
    """Closes of every stock on so many days in a row: windows that end before a date, and windows that begin on it
    or later.
    """
    past, future = [], []
    with tarfile.open(STOCKS) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member)
            if file is None:
                continue
            rows = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
            closes = np.array([float(row["Close"]) for row in rows])
            split = sum(row["Date"] < before for row in rows)
            past.append(sliding_window_view(closes[:split], days))
            future.append(sliding_window_view(closes[split:], days))
    return np.concatenate(past), np.concatenate(future)


@dataclass(frozen=True)
class Labelled:
    """Series with a class each, to learn from and to test with."""

    train: Doubles
    train_classes: NDArray[np.str_]
    test: Doubles
    test_classes: NDArray[np.str_]


def labelled(name: str) -> Labelled:
    """A data set of the UCR archive."""
    return Labelled(*_series(UCR / f"{name}_TRAIN.ts.gz"), *_series(UCR / f"{name}_TEST.ts.gz"))


def _series(path: Path) -> tuple[Doubles, NDArray[np.str_]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and line[0] not in "#@"]
    series, classes = zip(*(line.rsplit(":", 1) for line in lines), strict=True)
    return np.array([[float(x) for x in each.split(",")] for each in series]), np.array(classes)


@dataclass(frozen=True)
class Record:
    """An electrocardiogram, where its beats peak, and which samples its annotators marked as abnormal."""

    values: Doubles
    peaks: NDArray[np.int64]
    marked: NDArray[np.bool_]


def ecg() -> Record:
    """The excerpt of MIT-BIH. A beat peaks where nothing within 30 samples is higher, well above the resting line."""
    with gzip.open(ECG, "rt", encoding="utf-8") as file:
        values, marks = np.genfromtxt(file, delimiter=",", skip_header=1).T
    around = sliding_window_view(np.pad(values, 30, constant_values=-np.inf), 61)
    high = float(np.median(values) + values.max()) / 2
    peaks = np.flatnonzero((values == around.max(axis=1)) & (values > high))
    first_of_equals = np.diff(peaks, prepend=-61) > 30
    return Record(values, peaks[first_of_equals], marks == 1)
