"""The patterns' kernels, each against an obvious loop: scores and their bounds, the order of publications that come
together, and what is forgotten.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.profiles import examples
from tests.patterns.oracle_families import score
from tests.patterns.strategies import START
from tidegate.kernels.memory import FilterPairs, FilterWindows, chain, compact_pairs, order_ties
from tidegate.kernels.score import DEPTH, LANES, bounds, scores
from tidegate.language.render import to_text
from tidegate.language.tree import Array, Attribute, Call, Geometry, Literal
from tidegate.model import Publication
from tidegate.patterns.score import program

# --- scores -------------------------------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]
_awkward = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-300, -1e-300, 1e160, -1e160, 1e308, 5e-324, 3.0, 64.0])
numbers = _awkward | st.floats(-10, 10).map(lambda x: round(x, 3)) | st.floats(allow_nan=False, allow_infinity=False)
degrees = st.sampled_from([0.0, 90.0, -90.0, 15.97, 45.81, 89.999]) | st.floats(-90, 90)
longitudes = st.sampled_from([180.0, -180.0, 0.0]) | st.floats(-180, 180)


@st.composite
def nodes(draw, depth=3):
    """A score; its numbers are stand-ins, as each subscription of a block has its own."""
    kinds = ["attribute", "number", "metres", "euclidean", "power"]
    kind = draw(st.sampled_from(kinds if depth == 0 else [*kinds[:2], *["arithmetic"] * 4, *kinds[2:]]))
    if kind == "arithmetic":
        op = draw(st.sampled_from(["+", "-", "*", "/", "%", "div", "^"]))
        right = Literal(draw(st.sampled_from([2.0, 0.0, 3.0]))) if op == "^" and draw(st.booleans()) else None
        return Call(op, (draw(nodes(depth - 1)), right or draw(nodes(depth - 1))))
    if kind == "power":  # of something that may be below zero for one subscription and above for another
        gap = Call("-", (Attribute(draw(st.sampled_from(NAMES))), Literal(1.0)))
        return Call("^", (gap, Literal(draw(st.sampled_from([2.0, 3.0, 4.0, 0.0])))))
    if kind == "metres":
        return Call("distance", (Attribute("spot"), Geometry("Point", (1.0, 2.0))))
    if kind == "euclidean":
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
        arrays = (tuple(Attribute(name) for name in names), tuple(Literal(1.0) for _ in names))
        return Call("distance", tuple(Array(items) for items in arrays))
    return Attribute(draw(st.sampled_from(NAMES))) if kind == "attribute" else Literal(1.0)


def with_numbers(node, draw):
    """The same score with other numbers: what another subscription of the block asks for."""
    if isinstance(node, Literal):
        return Literal(draw(numbers)) if node.value == 1.0 else node
    if isinstance(node, Geometry):
        return Geometry("Point", (draw(longitudes), draw(degrees)))
    if isinstance(node, Array):
        return Array(tuple(with_numbers(item, draw) for item in node.items))
    return Call(node.op, tuple(with_numbers(arg, draw) for arg in node.args)) if isinstance(node, Call) else node


@st.composite
def blocks(draw):
    node = draw(nodes().filter(lambda node: any(name in to_text(node) for name in (*NAMES, "spot"))))
    lanes = [with_numbers(node, draw) for _ in range(draw(st.integers(1, 5)))]
    spots = st.tuples(longitudes, degrees)
    rows = [
        {**{name: draw(numbers | st.none()) for name in NAMES}, "spot": draw(spots | st.none())}
        for _ in range(draw(st.integers(1, 3)))
    ]
    return lanes, [Publication(f"p{i}", "z", START, row) for i, row in enumerate(rows)]


def computed(lanes, rows):
    """What the kernels make of a block: scores per row and lane, and the bounds of each row."""
    made = [program(lane) for lane in lanes]
    steps = np.array(made[0].steps, np.int32)
    assert all(other.steps == made[0].steps for other in made), "one program, whatever the numbers"
    points = [[column.point(row) for column in made[0].columns] for row in rows]
    values = np.array([[np.nan if p is None else p for p in row] for row in points], np.float64)
    table = np.array([other.numbers for other in made]).reshape(len(made), -1).T.copy()
    stack = np.full((DEPTH, LANES), np.nan)
    found = np.empty((len(rows), len(lanes)))
    for i in range(len(rows)):
        scores(steps, values, i, table, 0, len(lanes), stack)
        found[i] = stack[0, : len(lanes)]
    low, high = np.full((DEPTH, 128), np.nan), np.full((DEPTH, 128), np.nan)
    least, most = (f(axis=1) if len(table) else np.zeros(0) for f in (table.min, table.max))
    bounds(steps, values, np.arange(len(rows)), least, most, low, high)
    return values, found, low[0, : len(rows)], high[0, : len(rows)]


def is_skippable(low, high) -> bool:
    """Whether there is a bar at which the block would be skipped."""
    return low > -math.inf and high < math.inf


@examples(400)
@given(block=blocks())
def test_scores_equal_oracle(block):
    lanes, rows = block
    _, found, _, _ = computed(lanes, rows)
    for i, row in enumerate(rows):
        for j, lane in enumerate(lanes):
            wanted = score(lane, row)
            got = found[i, j] if math.isfinite(found[i, j]) else None
            if "spot" in to_text(lane):  # sine and cosine may differ by rounding, and whatever follows from that
                continue
            assert got == wanted, (to_text(lane), row, found[i, j])


@examples(400)
@given(block=blocks())
def test_bounds_contain_scores(block):
    """What a block is skipped by: a lower bound above all bars, and no score that may be missing."""
    lanes, rows = block
    _, found, low, high = computed(lanes, rows)
    for i in range(len(rows)):
        if not is_skippable(low[i], high[i]):
            continue
        assert np.isfinite(found[i]).all(), ([to_text(lane) for lane in lanes], rows[i], found[i])
        assert (low[i] <= found[i]).all(), ([to_text(lane) for lane in lanes], rows[i], found[i], low[i])
        assert (found[i] <= high[i]).all(), ([to_text(lane) for lane in lanes], rows[i], found[i], high[i])


@examples(200)
@given(block=blocks())
def test_missing_values_are_never_skipped(block):
    lanes, rows = block
    values, _, low, high = computed(lanes, rows)
    for i in np.flatnonzero(np.isnan(values).any(axis=1)):
        assert not is_skippable(low[i], high[i])


def test_bounds_are_of_use():
    """Far away is far away: if bounds were infinite the laws above would hold as well."""
    spot = Call("distance", (Attribute("spot"), Geometry("Point", (1.0, 2.0))))
    lanes = [Call("distance", (spot.args[0], Geometry("Point", (16 + i / 100, 45.8)))) for i in range(5)]
    _, found, low, _ = computed(lanes, [Publication("p", "z", START, {"spot": (17.5, 45.8)})])
    assert 0.95 * found.min() < low[0] < found.min()
    pairs = [[Literal(x), Literal(x + 1)] for x in (1.0, 1.25, 1.5)]
    lanes = [Call("distance", (Array((Attribute("a"), Attribute("b"))), Array(tuple(pair)))) for pair in pairs]
    _, found, low, high = computed(lanes, [Publication("p", "z", START, {"a": 10.0, "b": 3.0})])
    assert 0.95 * found.min() < low[0] <= found.min() <= found.max() <= high[0] < 1.05 * found.max()
    lanes = [Call("/", (Call("^", (Attribute("a"), Literal(2.0))), Literal(x))) for x in (4.0, 5.0)]
    _, _, low, high = computed(lanes, [Publication("p", "z", START, {"a": -10.0})])
    np.testing.assert_allclose([low[0], high[0]], [20, 25])
    lanes = [Call("^", (Call("-", (Attribute("a"), Literal(x))), Literal(2.0))) for x in (1.0, 3.0, 7.0)]
    _, _, low, high = computed(
        lanes, [Publication("p", "z", START, {"a": 3.5}), Publication("q", "z", START, {"a": 9})]
    )
    np.testing.assert_allclose([low[0], high[0], low[1], high[1]], [0, 12.25, 4, 64])


# --- order --------------------------------------------------------------------------------------------------------


@examples(100)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 1),
            st.text("abé\x00😀", max_size=3),
            st.integers(0, 2),
            st.tuples(st.sampled_from([0, 1, 2**64 - 1]), st.sampled_from([0, 2**63])),
        ),
        max_size=40,
    )
)
def test_order_ties_equals_sorted(rows):
    texts = [text.encode() for _, _, text, _, _ in rows]
    time, turn = (np.array([row[i] for row in rows], np.int64) for i in range(2))
    offsets = np.concatenate(([0], np.cumsum([len(text) for text in texts]))).astype(np.int64)
    letters = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    phase = np.array([phase for *_, phase, _ in rows], np.uint8)
    source = np.array([source for *_, source in rows], np.uint64).reshape(-1, 2)
    order = np.argsort(time, kind="stable")
    order_ties(order, time, turn, offsets, letters, phase, source)
    assert order.tolist() == sorted(range(len(rows)), key=lambda i: rows[i])  # Unicode and its bytes sort alike


# --- forgetting ---------------------------------------------------------------------------------------------------


@examples(100)
@given(data=st.data(), filters=st.integers(1, 3), length=st.integers(0, 30))
def test_compaction_keeps_what_windows_reach(data, filters, length):
    """For each filter: all that is younger than its reach, and so many of the last that somebody made at any version
    sees as many of its own as its depth; the chain skips the rest.
    """
    draw = data.draw
    hits = [sorted(draw(st.sets(st.integers(0, filters - 1)))) for _ in range(length)]
    time = np.sort(np.array(draw(st.lists(st.integers(0, 20), min_size=length, max_size=length)), np.int64))
    version = np.array(draw(st.lists(st.integers(0, 4), min_size=length, max_size=length)), np.int64)
    reach, depth = (
        np.array(draw(st.lists(st.integers(0, 6), min_size=filters, max_size=filters)), np.int64) for _ in range(2)
    )
    start = np.concatenate(([0], np.cumsum([len(some) for some in hits]))).astype(np.int64)
    pairs = int(start[-1])
    head, count = np.full(filters, -1), np.zeros(filters, np.int64)
    item, before, number = (np.empty(pairs, np.int64) for _ in range(3))
    which = np.empty(pairs, np.int32)
    flat = np.array([f for some in hits for f in some], np.int32)
    linked = FilterPairs(item, before, number, which)
    chain(start, flat, 0, 0, head, count, linked)
    clock, wanted = draw(st.integers(15, 25)), np.zeros(length, np.uint8)
    seen = [[i for i, some in enumerate(hits) if f in some] for f in range(filters)]
    kept = compact_pairs(clock, pairs, time, version, FilterWindows(reach, depth, head), linked, wanted)
    named = set()
    for f in range(filters):
        chained, pair = [], head[f]
        while pair >= 0:
            assert (which[pair], seen[f][number[pair]]) == (f, item[pair])
            chained.append(int(item[pair]))
            pair = before[pair]
        assert chained == sorted(chained, reverse=True)
        must = {i for i in seen[f] if clock - time[i] < reach[f]}
        for since in range(6):
            must |= set([i for i in seen[f] if version[i] >= since][::-1][: depth[f]])
        assert must <= set(chained)
        if (np.diff(version) >= 0).all():
            assert must == set(chained), "nothing is kept for nobody"
        named |= set(chained)
    assert set(np.flatnonzero(wanted).tolist()) == named
    assert kept <= pairs
