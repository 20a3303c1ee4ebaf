"""The rows of a sweep in which every claim of the paper holds, and how to change them."""

from __future__ import annotations

from bench.papers.filter_split_forward.claims import CLAIMS
from bench.papers.filter_split_forward.rows import (
    ALL_PAIRS,
    CENTRALIZED,
    EXACT,
    NAIVE,
    PLACEMENT,
    PROBABILISTIC,
    RING,
    SERIES,
    SETUPS,
    Cells,
)
from bench.papers.filter_split_forward.verdicts import weigh

SIZES = {"small": (60, 50), "medium": (100, 50), "large-network": (200, 50), "large-sources": (200, 100)}
COUNTS, SEEDS = (100, 200, 300), (1, 2, 3, 4, 5)
#: Loads of each series with multi-join's at 1, so that every claim of the paper holds.
SUBSCRIPTIONS = {NAIVE: 1.6, PLACEMENT: 1.0, RING: 1.0, ALL_PAIRS: 1.0, CENTRALIZED: 0.2}
PUBLICATIONS = {NAIVE: 9.0, PLACEMENT: 4.0, RING: 1.0, ALL_PAIRS: 1.0, CENTRALIZED: 20.0}
SAVED = {"small": 0.20, "medium": 0.50, "large-network": 0.59, "large-sources": 0.61}


def subscription_load(setup, series):
    if series in (EXACT, PROBABILISTIC):
        return {"small": 0.82, "large-sources": 0.90}.get(setup, 0.86)
    return SUBSCRIPTIONS[series]


def publication_load(setup, series):
    return 1 - SAVED[setup] if series in (EXACT, PROBABILISTIC) else PUBLICATIONS[series]


def row(setup, series, count, seed, **changed):
    nodes, sensors = SIZES[setup]
    scale = 1 + 0.1 * seed  # seeds differ in size, but not in what is below what
    expected = 1000 * count
    told = expected * 98 // 100 if series == PROBABILISTIC else expected
    readings = round(100 * count * scale * publication_load(setup, series) * 100)
    found = {
        "setup": setup, "strategy": series.strategy, "subsumption": series.subsumptions[-1], "subscriptions": count,
        "seed": seed, "rounds": 40, "scale": 1.0, "data": "sensorscope", "nodes": nodes, "sensors": sensors,
        "events": sensors * 40, "announcement_load": 10,
        "subscription_load": round(1e4 * count * scale * subscription_load(setup, series)),
        "publication_load": readings, "expected": expected, "delivered": told, "correct": told,
        "recall": told / expected, "precision": 1.0, "messages": 10 * count, "bytes": 1000 * count, "undecided": 0,
        "seconds": 0.5,
        "links": [
            {"a": "n1", "b": "n2", "subscriptions": 3, "readings": readings // 4, "bytes": 300},
            {"a": "n2", "b": "n1", "subscriptions": 0, "readings": readings // 4, "bytes": 300},
            {"a": "n2", "b": "n3", "subscriptions": 0, "readings": 5, "bytes": 400},
        ],
        "work": [{"node": "n1", "handled": 30, "compared": 90}, {"node": "n2", "handled": 10, "compared": 10}],
    }  # fmt: skip
    return {**found, **changed}


def sweep(setups=tuple(SETUPS), counts=COUNTS, seeds=SEEDS, series=SERIES):
    return [
        row(setup, each, count, seed)
        for setup in setups
        for each in series
        if each != CENTRALIZED or setup == "medium"
        for count in counts
        for seed in seeds
    ]


def stretched(scales=(0.5, 2.0), seeds=SEEDS):
    """The medium set-up with narrower and wider ranges: the narrower they are, the more is saved."""
    rows = sweep(setups=("medium",), counts=(200,), seeds=seeds, series=(RING, EXACT))
    return [
        {**each, "scale": scale, "expected": round(100 * scale * each["subscriptions"]), **told}
        for scale in scales
        for each in changed(rows, ours, publication_load=lambda old, scale=scale: round(old * 2 * (1 - 0.4 / scale)))
        for told in [dict.fromkeys(("delivered", "correct"), round(100 * scale * each["subscriptions"]))]
    ]


def changed(rows, where, **changes):
    """The rows with other values where some are met; a function is applied to the old value."""
    return [
        {**each, **{key: to(each[key]) if callable(to) else to for key, to in changes.items()}} if where(each) else each
        for each in rows
    ]


def claim(key):
    (found,) = [each for each in CLAIMS if each.key == key]
    return found


def verdict(key, rows):
    return weigh(claim(key), Cells(rows)).verdict


def ours(each):
    return each["subsumption"] == "exact"
