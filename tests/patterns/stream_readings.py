"""Readings of streams, and what an engine tells of them."""

from __future__ import annotations

import tidegate as tg
from tests.patterns.strategies import at

PEAK = "shape(n, (0, 1, 0), 'stream')"


def pub(id, second, n=None, source="x", **attributes):
    return tg.Publication(id, source, at(second), attributes if n is None else {"n": n, **attributes})


def sub(where, id="s", **active):
    return tg.Subscription(id, "ann", where, **active)


def readings(numbers, source="x", first=0):
    return [pub(f"{source}{i}", first + i, n, source) for i, n in enumerate(numbers)]


def run(engine, publications, one_by_one=True):
    batches = [[p] for p in publications] if one_by_one else [publications]
    found = [n for batch in batches for n in engine.publish(batch)]
    return [(n.subscription, (n.time - at(0)).total_seconds(), n.publications) for n in found]
