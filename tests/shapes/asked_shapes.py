"""Subscriptions to shapes, and publications that have some."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

import tidegate as tg

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def asking(where, id="s"):
    return tg.Subscription(id, "ann", where)


def published(*values, name="close"):
    return [
        tg.Publication(f"p{i}", "z7", NOON + timedelta(seconds=i), {} if v is None else {name: v})
        for i, v in enumerate(values)
    ]


def told(engine, *values):
    return [n.publications[0] for n in engine.publish(published(*values))]


def series(rng, n, rows):
    return np.cumsum(rng.normal(size=(rows, n)), 1)


def near_to(values, tolerance):
    return {
        "op": "<=",
        "args": [{"op": "shape", "args": [{"property": "close"}, values]}, tolerance],
    }
