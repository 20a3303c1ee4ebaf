"""What examples made by hand are made of. A letter in a drawing is a publication, a number in it a score; ``!`` marks
the moments at which something is told.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.patterns.oracle import World
from tidegate.model import Publication, Subscription

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
HERE, NEAR, FAR = (15.97, 45.81), (15.9705, 45.81), (15.99, 45.81)  # some 39 m and 1550 m from HERE


def at(second):
    return START + timedelta(seconds=second)


def pub(id, second, source="x", location=None, phase=None, **attributes):
    return Publication(id, source, at(second), attributes, location=location, phase=phase)


def sub(where, id="s", **active):
    return Subscription(id, "ann", where, **{name: at(second) for name, second in active.items()})


def world(*wheres, lateness=0, **active):
    made = World(timedelta(seconds=lateness))
    for i, where in enumerate(wheres):
        made.subscribe(sub(where, f"s{i}" if len(wheres) > 1 else "s", **active))
    return made


def short(told):
    """(second, ids): a letter per publication."""
    return [((t.time - START).total_seconds(), "".join(t.publications)) for t in told]


def run(made, *publications):
    """One publication a call."""
    return [t for p in publications for t in short(made.publish([p]))]
