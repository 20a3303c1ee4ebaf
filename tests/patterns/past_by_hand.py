"""Events made by hand for the oracle, and what is told of them.

In the drawings [──] is an event, [─▶ one that is running, ! what is told of. ``told_of`` gives the ids of those.
"""

from __future__ import annotations

from datetime import timedelta

from tests.patterns.by_hand import at, sub
from tests.patterns.oracle import World
from tidegate.model import Publication


def event(id, time, start=None, end=None, phase=None, source="x", **attributes):
    when = {name: None if second is None else at(second) for name, second in (("start", start), ("end", end))}
    return Publication(id, source, at(time), attributes, phase=phase, **when)


def begin(id, time, start=None, **more):
    return event(id, time, start, phase="START", **more)


def end(id, time, end=None, start=None, **more):
    return event(id, time, start, end, phase="END", **more)


def past_world(*wheres, **settings):
    made = World(**{name: value if name == "most" else timedelta(seconds=value) for name, value in settings.items()})
    for i, where in enumerate(wheres):
        made.subscribe(sub(where, f"s{i}"))
    return made


def ids(made, *publications):
    """What is told, a call per publication, as ``subscription:id``; of the only subscription just the id."""
    alone = len(made.events.followers) == 1
    return " ".join(
        t.publications[0] if alone else f"{t.subscription}:{t.publications[0]}"
        for p in publications
        for t in made.publish([p])
    )


def told_of(where, *publications, **settings):
    return ids(past_world(where, **settings), *publications)


#: Against an event from 4 to 8 with a tolerance of one second: what is so related, just so, and what just is not.
TOLERATED = {
    "AFTER": ([(7.1, 9)], [(7, 9)]),
    "BEFORE": ([(1, 4.9)], [(1, 5)]),
    "CONTAINS": ([(4.9, 7.1)], [(5, 7.1), (4.9, 7)]),
    "DISJOINT": ([(7.1, 9), (1, 4.9)], [(5, 7)]),
    "DURING": ([(3.1, 8.9)], [(3, 8.9), (3.1, 9)]),
    "EQUALS": ([(3, 9), (5, 7)], [(2.9, 8), (4, 9.1)]),
    "FINISHEDBY": ([(4.9, 9), (4.9, 7)], [(5, 8), (4, 9.1), (4, 6.9)]),
    "FINISHES": ([(3.1, 9), (3.1, 7)], [(3, 8), (5, 9.1)]),
    "INTERSECTS": ([(9, 10), (1, 3)], [(9.1, 10), (1, 2.9)]),
    "MEETS": ([(1, 3), (1, 5)], [(1, 2.9), (1, 5.1)]),
    "METBY": ([(7, 9), (9, 10)], [(6.9, 9), (9.1, 10)]),
    "OVERLAPPEDBY": ([(3.1, 7.1), (8.9, 9)], [(3, 8), (9, 10), (4, 7)]),
    "OVERLAPS": ([(4.9, 8.9), (1, 3.1)], [(5, 6), (1, 3), (2, 9)]),
    "STARTEDBY": ([(3, 7.1), (5, 7.1)], [(2.9, 9), (4, 7)]),
    "STARTS": ([(3, 8.9), (5, 6)], [(2.9, 5), (4, 9)]),
}
TOLERATED_POINTS = {
    "AFTER": ([7.1], [7]),
    "BEFORE": ([4.9], [5]),
    "DISJOINT": ([7.1, 4.9], [5, 7]),
    "DURING": ([3, 9], [2.9, 9.1]),
    "EQUALS": ([], [3, 4, 5, 8]),
    "INTERSECTS": ([3, 9], [2.9, 9.1]),
}
