"""One experiment's input, and what its users should be told: the network, the readings and the subscriptions.

Jurca et al., §VI-A. The network, the replay and the subscriptions each have a generator of their own, so that none
depends on how many subscriptions there are or on what routes them. Knows no node, no strategy and no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.papers.filter_split_forward.replay import ATTRIBUTES, Replay, replay
from bench.papers.filter_split_forward.topology import Sensor, Setup, Topology, topology
from tidegate.errors import SettingError, SubscriptionError, shown
from tidegate.overlay.messages import Reading
from tidegate.overlay.operators import Operator, OperatorPart

__all__ = ["ROUNDS", "WINDOW", "Workload", "truth", "workload"]

#: δt of all subscriptions: five minutes, in microseconds.
WINDOW = 300_000_000
#: Reporting intervals that are replayed unless another number is asked for.
ROUNDS = 60

#: How often ranges are drawn until something matches: the paper made sure that each subscription has matching events.
_DRAWS = 10_000
#: How often one draw should do at the least, and how many replays are drawn until it does at every station.
_ODDS, _REPLAYS = 0.1, 200

# What a generator is for; with the seed it makes it another one.
_TOPOLOGY, _REPLAY, _SUBSCRIPTIONS = range(3)

#: The ids, times and values of a sensor's readings, in order of time.
Stream = tuple[NDArray[np.str_], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Workload:
    """Readings in the order in which they are published; subscriptions with their users' nodes, in order of arrival."""

    topology: Topology
    readings: list[Reading]
    subscriptions: list[tuple[str, Operator]]
    data: str
    """``sensorscope`` or ``generated``."""
    window: int = WINDOW

    @cached_property
    def node_of(self) -> dict[str, str]:
        """Where each source is attached."""
        return {sensor.source: sensor.node for sensor in self.topology.sensors}

    @cached_property
    def streams(self) -> dict[tuple[str, str], Stream]:
        """The readings of each sensor as arrays, by source and attribute."""
        by_source: dict[str, list[Reading]] = {sensor.source: [] for sensor in self.topology.sensors}
        for reading in self.readings:
            by_source[reading.source].append(reading)
        found: dict[tuple[str, str], Stream] = {}
        for sensor in self.topology.sensors:
            readings = sorted(by_source[sensor.source], key=lambda reading: reading.time)
            found[sensor.source, sensor.attribute] = (
                np.array([reading.id for reading in readings], np.str_),
                np.array([reading.time for reading in readings], np.int64),
                np.array([reading.value for reading in readings], np.float64),
            )
        return found

    @cached_property
    def middles(self) -> dict[str, tuple[float, float]]:
        """Of the readings of each source, the median and the median absolute deviation from it."""
        return {source: _middle(values) for (source, _), (_, _, values) in self.streams.items()}


def _middle(values: NDArray[np.float64]) -> tuple[float, float]:
    """Where more than half of the readings are the same the deviation is a tenth of the spread, and 1 where all are."""
    median = float(np.median(values))
    return median, float(np.median(np.abs(values - median))) or float(np.ptp(values)) / 10 or 1.0


def workload(
    setup: Setup, seed: int, folder: Path | None, rounds: int = ROUNDS, count: int = 100, scale: float = 1.0
) -> Workload:
    """The experiment of a seed; with a larger ``count`` it is the same, and further subscriptions follow.

    ``scale`` stretches all ranges: the experiments have 1, and others show what it matters.
    """
    if seed < 0:
        raise SettingError("a seed of at least 0", shown(seed), setup.name)
    if count < 0:
        raise SettingError("at least 0 subscriptions", shown(count), setup.name)
    if not 0 < scale < inf:
        raise SettingError("a scale above 0", shown(scale), setup.name)
    network = topology(setup, np.random.default_rng([seed, _TOPOLOGY]))
    work = _replayed(setup, network, folder, rounds, np.random.default_rng([seed, _REPLAY]))
    rng = np.random.default_rng([seed, _SUBSCRIPTIONS])
    return replace(work, subscriptions=_subscriptions(setup, work, count, scale, rng))


def _replayed(setup: Setup, network: Topology, folder: Path | None, rounds: int, rng: np.random.Generator) -> Workload:
    """A replay that can be asked about: every station has a moment with all its attributes at which none is rare.

    Where wind was measured in one burst only, and that in a frost, what matches at all would be the few ranges that
    reach from the median down to there, and almost all that are drawn would be thrown away.
    """
    for _ in range(_REPLAYS):
        replayed = replay(folder, setup.groups, rounds, rng)
        work = Workload(network, _readings(network, replayed), [], replayed.data)
        if all(_odds(work, _sensors(network, station)) >= _ODDS for station in range(setup.groups)):
            return work
    expected = f"readings of {setup.groups} stations that a range around every median may match"
    raise SettingError(expected, f"none in {_REPLAYS} replays of {rounds} intervals", setup.name)


def _odds(work: Workload, sensors: Sequence[Sensor]) -> float:
    """How likely ranges on all of the sensors hold one match, of all matches the likeliest: P(offset ≥ x) is 1 / x."""
    begins = np.concatenate([work.streams[sensor.source, sensor.attribute][1] for sensor in sensors])
    odds = np.ones(len(begins))
    for sensor in sensors:
        _, time, value = work.streams[sensor.source, sensor.attribute]
        median, unit = work.middles[sensor.source]
        offset = np.append(np.maximum(np.abs(value - median) / unit, 1), inf)
        first, end = np.searchsorted(time, begins), np.searchsorted(time, begins + WINDOW)
        least = np.minimum.reduceat(offset, np.column_stack([first, end]).ravel())[::2]
        odds /= np.where(first < end, least, inf)
    return float(odds.max())


def _readings(network: Topology, replayed: Replay) -> list[Reading]:
    streams = (replayed.station * len(ATTRIBUTES) + replayed.attribute).tolist()
    columns = zip(streams, replayed.value.tolist(), replayed.time.tolist(), strict=True)
    return [
        Reading(f"r{number:06}", network.sensors[stream].source, value, time)
        for number, (stream, value, time) in enumerate(columns)
    ]


def _subscriptions(
    setup: Setup, work: Workload, count: int, scale: float, rng: np.random.Generator
) -> list[tuple[str, Operator]]:
    """Ranges around the medians of one station's streams, for users anywhere; the stations take turns."""
    network = work.topology
    found = []
    for number in range(count):
        sensors = _sensors(network, number % setup.groups)
        node = network.nodes[rng.integers(len(network.nodes))]
        chosen = rng.choice(len(sensors), rng.integers(setup.least, setup.most + 1), replace=False)
        for _ in range(_DRAWS):
            operator = _subscription(f"q{number:04}", [sensors[i] for i in chosen], work, scale, rng)
            if _matching(operator, work.streams):
                break
        else:
            raise SettingError("ranges that some readings match", f"none in {_DRAWS} draws", setup.name)
        found.append((node, operator))
    return found


def _sensors(network: Topology, station: int) -> list[Sensor]:
    return [sensor for sensor in network.sensors if sensor.station == station]


def _subscription(
    id: str, sensors: Sequence[Sensor], work: Workload, scale: float, rng: np.random.Generator
) -> Operator:
    """One user's ranges: [median − x, median + y] with x and y from a Pareto distribution of skew 1 and minimum 1.

    The paper names no unit. Ours is the stream's median absolute deviation: whatever the attribute is measured in,
    every range then holds at least half of the readings, which is "medium selective". That x and y differ is a must:
    among ranges that are symmetric about one median, a set never covers what no single one does (its corner would be
    in one of them, and with it the whole), and the paper sees that sets do.
    """
    parts = []
    for sensor in sensors:
        median, unit = work.middles[sensor.source]
        below, above = scale * unit * (1 + rng.pareto(1, 2))
        parts.append(OperatorPart(sensor.attribute, median - float(below), median + float(above), sensor.source))
    # As ``operator_of`` has them: operators on the same sensors are compared part by part.
    parts.sort(key=lambda part: (part.source or "", part.attribute))
    return Operator(id, tuple(parts), WINDOW)


# --- what users should be told --------------------------------------------------------------------------------------


def truth(workload: Workload) -> dict[str, frozenset[str]]:
    """For each subscription the readings that are in at least one match: what a perfect network delivers.

    A reading is in a match if some stretch shorter than the window has it and a reading of every part. It is enough to
    look at the stretches that begin with a reading.
    """
    return {operator.id: _matching(operator, workload.streams) for _, operator in workload.subscriptions}


def _matching(operator: Operator, streams: dict[tuple[str, str], Stream]) -> frozenset[str]:
    ids, times = _belonging(operator, streams)
    begins = np.sort(np.concatenate(times))
    whole = np.ones(len(begins), bool)
    for time in times:
        whole &= np.searchsorted(time, begins) < np.searchsorted(time, begins + operator.window)
    begins = begins[whole]
    found: list[str] = []
    for name, time in zip(ids, times, strict=True):
        before = np.searchsorted(begins, time - operator.window, "right")
        found += name[before < np.searchsorted(begins, time, "right")].tolist()
    return frozenset(found)


def _belonging(
    operator: Operator, streams: dict[tuple[str, str], Stream]
) -> tuple[Sequence[NDArray[np.str_]], Sequence[NDArray[np.int64]]]:
    """By part, the ids and times of the readings in its range."""
    if operator.near is not None or operator.main is not None:
        raise SubscriptionError("a user's subscription without a distance", str(operator), operator.id)
    ids, times = [], []
    for part in operator.parts:
        stream = streams.get((part.source or "", part.attribute))
        if stream is None or part.region is not None:
            raise SubscriptionError("parts that name one of the network's sensors", shown(part.label), operator.id)
        name, time, value = stream
        inside = (part.low <= value) & (value <= part.high)
        ids.append(name[inside])
        times.append(time[inside])
    return ids, times
