"""Streams, subscriptions with patterns and scripts, drawn so that they meet: times on a grid of seconds, so that ties,
exact expiries and disorder happen, few values, and few filters, so that subscriptions share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

from tests.patterns.oracle_pattern import order
from tidegate.model import Publication, Subscription

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
#: Some 39 m, 420 m and 6 km from the first, and in no symmetry, so that no two distances differ by rounding only.
PLACES = [(15.97, 45.81), (15.9705, 45.81), (15.973, 45.8131), (15.92, 45.86)]
METRES = [10, 100, 1000, 100000.5]
HOME = "POINT(15.97 45.81)"


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


# --- publications -------------------------------------------------------------------------------------------------

_numbers = st.sampled_from([1, 2, 0, 3, 0.5, -1, 2, None])
_texts = st.sampled_from(["a", "b", "a", "b", None])
_places = st.sampled_from([*PLACES, *PLACES, None])
#: What an attribute may hold besides what it usually does, where the types are mixed.
_others = st.none() | st.booleans() | st.sampled_from(["a", "", 2.5, PLACES[1], [1, 2], START, 10**300, -0.0])
_names = st.permutations([f"{letter}{digit}" for letter in "qpé" for digit in range(20)])


@st.composite
def publication(draw, id: str, second: int, phase: str | None = None, mixed: bool = False) -> Publication:
    usual = {"n": _numbers, "m": _numbers, "t": _texts, "spot": _places}
    attributes = {}
    for name, values in usual.items():
        is_other = mixed and draw(st.integers(0, 2)) == 0
        attributes[name] = draw(_others if is_other else values)
    return Publication(id, draw(st.sampled_from("xyz")), at(second), attributes, phase=phase, location=draw(_places))


@st.composite
def streams(draw, least: int = 4, most: int = 24, disorder: int = 3, mixed: bool = False) -> list[Publication]:
    """In order of appearance: the time drifts ahead, and each publication lags it by ``disorder`` seconds at most.

    Ids have nothing to do with the order; now and then one has two phases.
    """
    names = draw(_names)
    found, second = [], disorder
    for i in range(draw(st.integers(least, most))):
        second += draw(st.sampled_from([0, 0, 1, 1, 2, 4]))
        phase = draw(st.sampled_from([None, None, None, "START"]))
        found.append(draw(publication(names[i], second - draw(st.integers(0, disorder)), phase, mixed)))
        if phase is not None:
            found.append(draw(publication(names[i], second - draw(st.integers(0, disorder)), "END", mixed)))
    return found


def in_order(stream: list[Publication]) -> list[Publication]:
    return sorted(stream, key=order)


def pieces(stream: list, cuts: list[int]) -> list[list]:
    """The stream cut at these places; every piece has something in it."""
    ends = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(ends)]


cuts = st.lists(st.integers(0, 40), max_size=8)

# --- subscriptions ------------------------------------------------------------------------------------------------

FILTERS = ["TRUE", "n > 1", "n <= 2", "t = 'a'", "t = 'b'", "m = 1 OR m = 2", "source = 'x'", "n IS NULL", "NOT n > 1"]
SCORES = [
    *("n", "-n", "m - n", "n * m + 1", "n / m", "n % 2", "n div m", "n ^ 2", "m ^ (-1)", "10 - (n + m) / 4"),
    *("distance((n, m), (1, 2))", "distance((m, n, n), (0.5, -1, 2)) * 2 - n"),
    *(f"distance(location, {HOME})", f"-distance(spot, {HOME})", f"n + distance(location, {HOME}) / 1000"),
]
filters = st.sampled_from(FILTERS)
durations = st.sampled_from(["PT1S", "PT2S", "PT2.5S", "PT3S", "PT5S", "PT0M6S", "PT12S"])
_guards = st.sampled_from(["", "", "", "n > 0 AND ", "t = 'a' AND ", "TRUE AND (m >= 0 AND source <> 'z') AND "])


@st.composite
def topk(draw) -> str:
    window = draw(durations.map("'{}'".format) | st.integers(1, 5).map(str))
    return f"topk({draw(st.integers(1, 3))}, {window}, {draw(st.sampled_from(SCORES))})"


@st.composite
def together(draw) -> str:
    parts = [f"'{draw(durations)}'"]
    if draw(st.booleans()):
        parts.append(str(draw(st.sampled_from(METRES))))
    parts += draw(st.lists(filters, min_size=2, max_size=3))
    if draw(st.booleans()):
        parts.append("'all'")
    return f"together({', '.join(parts)})"


@st.composite
def absent(draw) -> str:
    return f"absent('{draw(durations)}', {draw(filters)}{draw(st.sampled_from(['', ', source']))})"


_shapes = st.lists(st.sampled_from([0, 1, 2, 3, -1, 0.5]), min_size=3, max_size=5).filter(lambda s: len(set(s)) > 1)


@st.composite
def shape(draw) -> str:
    """Short, so that a few readings are enough; now and then so wide that every window is near."""
    series = ", ".join(map(str, draw(_shapes)))
    count = draw(st.sampled_from(["", "", "", ", 6"]))
    call = f"shape({draw(st.sampled_from('nnnm'))}, ({series}), 'stream'{count})"
    bound = draw(st.sampled_from([0, 0.5, 1, 1.5, 2, 2.5, 3, 9]))
    return draw(
        st.sampled_from([f"{call} <= {bound}", f"{call} <= {bound}", f"{call} < {bound}", f"{bound} >= {call}"])
    )


@st.composite
def patterns(draw) -> str:
    """A pattern, perhaps with conditions before or after it."""
    guard, pattern = draw(_guards), draw(topk() | topk() | together() | absent() | shape())
    return f"{guard}{pattern}{draw(st.sampled_from(['', '', ' AND m < 3']))}"


@st.composite
def subscriptions(
    draw, least: int = 1, most: int = 6, plain: bool = True, active: bool = True, only: st.SearchStrategy | None = None
) -> list[Subscription]:
    """Ids say nothing of the order in which they come. ``only`` draws their conditions, if all are to be of a kind."""
    names = draw(st.permutations(["s1", "S2", "a3", "é4", "b5", "z6", "c7", "t8"]))
    found = []
    for name in names[: draw(st.integers(least, most))]:
        usual = patterns() | patterns() | patterns() | filters if plain else patterns()
        where = draw(usual if only is None else only)
        first = draw(st.none() | st.none() | st.integers(0, 12)) if active else None
        length = draw(st.none() | st.none() | st.integers(1, 15)) if active else None
        last = None if length is None else (first or 0) + length
        bounds = (None if second is None else at(second) for second in (first, last))
        found.append(Subscription(name, "ann", where, *bounds))
    return found


# --- scripts ------------------------------------------------------------------------------------------------------


class Action(NamedTuple):
    """``publish`` a batch, ``advance`` to a time, ``subscribe`` a subscription or ``unsubscribe`` an id."""

    what: str
    operand: object


@st.composite
def scripts(
    draw, disorder: int = 4, mixed: bool = False, plain: bool = True,
    stream: st.SearchStrategy | None = None, only: st.SearchStrategy | None = None,
) -> list[Action]:  # fmt: skip
    """What happens to an engine, one thing after the other; every script ends long after its last publication."""
    stream = draw(streams(disorder=disorder, mixed=mixed) if stream is None else stream)
    coming = draw(subscriptions(least=2, most=8, plain=plain, only=only))
    script, alive = [], []
    newest = START
    first = draw(st.integers(1, len(coming)))
    script += [Action("subscribe", subscription) for subscription in coming[:first]]
    alive += coming[:first]
    coming = coming[first:]
    for batch in pieces(stream, draw(cuts)):
        what = draw(st.sampled_from(["", "", "advance", "subscribe", "subscribe", "unsubscribe"]))
        if what == "advance":
            newest += timedelta(seconds=draw(st.sampled_from([0, 1, 2, 6])))
            script.append(Action("advance", newest))
        elif what == "subscribe" and coming:
            alive.append(coming.pop())
            script.append(Action("subscribe", alive[-1]))
        elif what == "unsubscribe" and alive:
            gone = alive.pop(draw(st.integers(0, len(alive) - 1)))
            script.append(Action("unsubscribe", gone.id))
            if draw(st.booleans()):
                coming.append(gone)
        script.append(Action("publish", batch))
        newest = max(newest, *(p.time for p in batch))
    return [*script, Action("advance", newest + timedelta(seconds=2)), Action("advance", newest + timedelta(minutes=2))]


# --- past ---------------------------------------------------------------------------------------------------------
# One way to make them, whoever throws the dice: hypothesis, which can shrink, or a generator of numbers, which is fast.


class Dice(Protocol):
    def __call__(self, options: Sequence[Any], /) -> Any:
        """One of the options."""


def thrown(seed: int) -> Dice:
    generator = Random(seed)
    return generator.choice


#: Few, so that subscriptions share them and nearly everything passes one of them.
INNER = ["TRUE", "n > 1", "n <= 2", "t = 'a'", "source = 'x'", "NOT n > 1", "phase = 'END'", "phase = 'START' OR n = 2"]
BESIDE = ["n > 0", "t = 'a'", "m = 1 OR m = 2", "source <> 'z'", "phase IS NULL", "n IS NULL", "flag", "TRUE"]
POINT_RELATIONS = ["AFTER", "BEFORE", "DISJOINT", "DURING", "EQUALS", "INTERSECTS"]
RELATIONS = [
    *POINT_RELATIONS,
    *("CONTAINS", "FINISHEDBY", "FINISHES", "MEETS", "METBY", "OVERLAPPEDBY", "OVERLAPS", "STARTEDBY", "STARTS"),
]
LIMITS = ["", "", "", ", '..'", ", 'PT1S'", ", 'PT2S'", ", 'PT4.5S'", ", 'PT0M8S'"]
TOLERANCES = ["", "", "", ", 'PT0.5S'", ", 'PT1S'", ", 'PT2.000001S'"]
#: What a comparison may have on its left and in the ``past`` on its right, and by what.
COMPARED = [
    *(
        (left, right, op)
        for left in ("n", "m", "n + m", "n * 2 - m", "n / m", "m ^ 2")
        for right in "nm"
        for op in "<>="
    ),
    *(("n", "m", op) for op in ("<=", ">=", "<>", "<", ">", "=")),
    *(("when", "when", op) for op in ("<=", ">=", "<>", "<", ">", "=")),
    *(("t", right, op) for right in ("t", "source", "n", "when") for op in ("=", "<>")),
    *(("source", right, op) for right in ("t", "source") for op in ("=", "<>")),
    *(("time", right, op) for right in ("when", "time") for op in ("<", ">=", "=")),
    *(("t", "t", "<"), ("flag", "flag", "="), ("spot", "spot", "<>"), ("n", "t", "<>"), ("when", "n", ">")),
]
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def temporal(dice: Dice, depth: int) -> str:
    """A relation to, or a comparison with, what is past."""
    inner = dice(INNER)
    if depth > 1 and dice([True, False, False]):
        inner = looking_back(dice, depth - 1)
    if dice([True, True, False]):
        left = dice(["event", "event", "event", "start", "end", "time", "when", "valid_until"])
        limit = dice(LIMITS)
        tolerance = dice(TOLERANCES) if limit else ""
        return f"T_{dice(RELATIONS if left == 'event' else POINT_RELATIONS)}({left}, past({inner}{limit}{tolerance}))"
    left, right, op = dice(COMPARED)
    call = f"past({right}, {inner}{dice(['', '', ', 1', ', 2', ', 3', ', 7'])})"
    return f"{left} {op} {call}" if dice([True, True, False]) else f"{call} {MIRRORED.get(op, op)} {left}"


def looking_back(dice: Dice, depth: int = 3) -> str:
    """Temporal conditions, alone or joined with others."""
    one = temporal(dice, depth)
    form = dice(["{}", "{}", "{}", "NOT {}", "{} AND {b}", "{b} OR {}", "NOT ({} AND {b})", "{} AND {t}", "{} OR {t}",
                 "NOT {} AND ({t} OR {b})", "NOT ({b} OR NOT ({} AND {t}))"])  # fmt: skip
    another = temporal(dice, depth) if "{t}" in form else ""
    return form.format(f"({one})", b=f"({dice(BESIDE)})", t=f"({another})")


_NUMBERS = [1, 2, 0, 3, 0.5, -1, 2, None]
#: What an attribute may hold besides what it usually does.
_ANYTHING = [None, True, False, "a", "", 2.5, PLACES[1], [1, 2], START, START.date(), 10**300, -0.0, 2**53 + 1]


def attributes(dice: Dice, second: float, mixed: bool) -> dict[str, Any]:
    found = {
        "n": dice(_NUMBERS),
        "m": dice(_NUMBERS),
        "t": dice(["a", "b", "x", "a", None]),
        "when": dice([None, at(second), at(second - 1), at(second - 3), at(second + 2)]),
        "flag": dice([None, True, False]),
    }
    if mixed:
        return {name: dice(_ANYTHING) if dice([True, False, False]) else value for name, value in found.items()}
    return found


def lasting(dice: Dice, least: int = 4, most: int = 24, disorder: int = 2, mixed: bool = False) -> list[Publication]:
    """In order of appearance: whole events, instants, and events that start and perhaps end; many at once, many equal.

    All that is drawn here follows the rules, unless its disorder puts an END before its START.
    """
    found: list[Publication] = []
    running: dict[tuple[str, str], float] = {}
    begun: set[tuple[str, str]] = set()
    second = disorder
    for i in range(dice(range(least, most + 1))):
        second += dice([0, 0, 0, 1, 1, 2, 4])
        time = second - dice(range(disorder + 1))
        phase = dice([None, None, "START", "START", "END", "END", "INSTANT"])
        phase = "START" if phase == "END" and not running else phase
        # Ids have nothing to do with the order. Some are those of an event that another source has running.
        id, source, start, end = f"{dice('qpé')}{(i * 7) % 100}", dice("xyz"), None, None
        if running and dice([True, *[False] * 3]):
            known = dice(sorted(running))[1]
            if others := [other for other in "xyz" if (other, known) not in begun]:
                id, source = known, dice(others)
        if phase == "START":
            start = dice([None, None, time, time - 1, time - 3, time + 1])
            running[source, id] = time if start is None else start
            begun.add((source, id))
        elif phase == "END":
            source, id = dice(sorted(running))
            first = running.pop((source, id))
            start = dice([None, None, first])
            end = dice([None, time, first, first + 1, first + 3])
            if max(first, time if end is None else end) == first:
                end = first
        else:
            start, end = dice([(0, 0), (None, None), (-2, None), (None, 1), (-1, 0), (-3, -1), (-2, 2), (1, 3)])
            if phase == "INSTANT" and None not in (start, end):
                end = start
            start, end = (None if x is None else time + x for x in (start, end))
        when = {name: None if x is None else at(x) for name, x in (("start", start), ("end", end))}
        until = dice([None, None, at(time), at(time + 2), at(time - 2)])
        found.append(
            Publication(id, source, at(time), attributes(dice, time, mixed), phase=phase, valid_until=until, **when)
        )
    return found


def unruly(dice: Dice, least: int = 4, most: int = 24, disorder: int = 2) -> list[Publication]:
    """Phases, starts and ends of few ids in no order at all."""
    found, second = [], disorder
    for _ in range(dice(range(least, most + 1))):
        second += dice([0, 0, 1, 1, 2])
        time = second - dice(range(disorder + 1))
        start, end = dice(
            [(None, None), (None, None), (0, None), (None, 0), (-1, None), (None, 1), (-1, 0), (0, 0), (2, None)]
        )
        when = {name: None if x is None else at(time + x) for name, x in (("start", start), ("end", end))}
        phase = dice(["START", "START", "END", "END", "END", "INSTANT", None])
        found.append(
            Publication(dice("abcd"), dice("xyz"), at(time), attributes(dice, time, False), phase=phase, **when)
        )
    return found


def looks_back(
    dice: Dice, stream: list[Publication], most: int = 6, depth: int = 3, ordinary: bool = True, ends: bool = True
) -> list[Action]:
    """What happens to an engine; with other patterns and plain filters among the subscriptions, if so wanted."""
    others = ["topk(2, 'PT5S', n)", "absent('PT3S', n > 1)", "n > 1", "together('PT2S', n > 1, t = 'a')"]

    def subscription(i: int) -> Subscription:
        where = dice(others) if ordinary and dice([True, *[False] * 7]) else looking_back(dice, depth)
        first = dice([None, None, None, 3, 8])
        last = dice([None, None, None, 1, 9])
        bounds = None if first is None else at(first), None if last is None else at((first or 0) + last)
        return Subscription(f"{dice('szé')}{i}", "ann", where, *bounds)

    coming = [subscription(i) for i in range(dice(range(1, most + 1)))]
    first = dice(range(len(coming) + 1)) or len(coming)
    alive, coming = coming[:first], coming[first:]
    script, newest = [Action("subscribe", s) for s in alive], START
    cuts = [dice(range(len(stream) + 1)) for _ in range(dice([0, 0, 1, 3, 8, len(stream)]))]
    for batch in filter(None, pieces(stream, cuts)):
        what = dice(["", "", "", "advance", "subscribe", "subscribe", "unsubscribe"])
        if what == "advance":
            newest += timedelta(seconds=dice([0, 1, 2]))
            script.append(Action("advance", newest))
        elif what == "subscribe" and coming:
            alive.append(coming.pop())
            script.append(Action("subscribe", alive[-1]))
        elif what == "unsubscribe" and alive:
            gone = alive.pop(dice(range(len(alive))))
            script.append(Action("unsubscribe", gone.id))
            if dice([True, False]):
                coming.append(gone)
        script.append(Action("publish", batch))
        newest = max(newest, *(p.time for p in batch))
    return [*script, Action("advance", newest + timedelta(minutes=2))] if ends else script


@st.composite
def looking_back_scripts(draw, mixed: bool = False, ordered: bool = True, disorder: int = 2, **options) -> list[Action]:
    def dice(choices: Sequence[Any]) -> Any:
        return draw(st.sampled_from(choices))

    stream = lasting(dice, disorder=disorder, mixed=mixed) if ordered else unruly(dice, disorder=disorder)
    return looks_back(dice, stream, **options)


@st.composite
def past(draw) -> str:
    return looking_back(thrown(draw(st.integers(0, 2**32))), depth=2)
