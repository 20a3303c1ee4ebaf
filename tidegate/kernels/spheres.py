"""Points and the spheres they lie in: a linear scan, an interval tree and a tree of boxes, many spheres at a time.

Spheres stand in groups of up to 64, coordinate by coordinate, so that one instruction compares a point with several of
them; a group is left as soon as the sums of squared differences exceed all its limits. That is the early abandoning of
Manassiev and Jacobsen 2004, §5.2, who test after each coordinate of each sphere: a processor cannot predict the
outcome, and going on without a test costs less. Answers are gathered as bits, one for each sphere, which puts them in
order. Nothing here knows what a series is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from tidegate.kernels.bits import count_ones, trailing_zeros
from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.simd import LONG, Simd

__all__ = ["BOXES", "SPHERES", "SphereTree", "centred", "in_boxes", "in_intervals", "in_spheres"]

#: Spheres in a group, as many as a word has bits; and in a node of a tree of boxes.
SPHERES, BOXES = 64, 24
#: Points that pass over the spheres together: their coordinates and answers stay in the nearest cache meanwhile.
_TOGETHER = 64
#: Groups that a point passes over before the next point does: those of a few kilobytes.
_NEAR = 4
#: More nodes than lie above each other in an interval tree, each of which halves what comes to it.
_DEEPEST = 64
#: Coordinates after which it is first tested whether any sphere of a group is left, and then again and again.
_FIRST, _AGAIN = 4, 8

_eight = Simd(ir.DoubleType(), 8, "f64")
_flags = ir.VectorType(ir.IntType(1), _eight.count)
_jit = njit(cache=True, nogil=True, error_model="numpy")


def _reaching(size: int) -> Any:
    """Which spheres of a group of that size hold a point."""

    @intrinsic
    def reached(
        context: Any, centres: Any, limits: Any, group: Any, width: Any, points: Any, point: Any, among: Any
    ) -> Any:
        """A bit for each sphere, among those whose bits are given; the point's coordinates begin at ``point``."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            parts = range(size // _eight.count)
            zero = _eight.zero()
            first_limit = builder.mul(args[2], LONG(size))
            first_centre = builder.mul(first_limit, args[3])
            sums = [cgutils.alloca_once(builder, _eight.wide) for _ in parts]
            left = cgutils.alloca_once(builder, LONG)
            for each in sums:
                builder.store(zero, each)
            builder.store(args[6], left)
            rest = builder.add(args[3], LONG(_AGAIN - _FIRST - 1))
            with cgutils.for_range(builder, builder.add(LONG(1), builder.sdiv(rest, LONG(_AGAIN)))) as leg:
                stop = builder.add(LONG(_FIRST), builder.mul(leg.index, LONG(_AGAIN)))
                start = builder.sub(stop, LONG(_AGAIN))
                start = builder.select(builder.icmp_signed("<", start, LONG(0)), LONG(0), start)
                stop = builder.select(builder.icmp_signed("<", stop, args[3]), stop, args[3])
                with cgutils.for_range(builder, stop, start=start) as loop:
                    value = _eight.splat(context, builder, kinds[4], args[4], builder.add(args[5], loop.index))
                    row = builder.add(first_centre, builder.mul(loop.index, LONG(size)))
                    for g in parts:
                        there = builder.add(row, LONG(_eight.count * g))
                        gap = builder.fsub(_eight.load(context, builder, kinds[0], args[0], there), value)
                        builder.store(_eight.squared(builder, gap, builder.load(sums[g])), sums[g])
                flags = []
                for g in parts:
                    limit = _eight.load(
                        context, builder, kinds[1], args[1], builder.add(first_limit, LONG(_eight.count * g))
                    )
                    flags.append(builder.fcmp_ordered("<=", builder.load(sums[g]), limit))
                word = builder.and_(_eight.word(builder, flags), builder.load(left))
                builder.store(word, left)
                with builder.if_then(builder.icmp_unsigned("==", word, LONG(0))):
                    leg.do_break()
            return builder.load(left)

        number, word = types.int64, types.uint64
        return word(centres, limits, number, number, points, number, word), build

    return reached


_spheres_reached, _boxes_reached = _reaching(SPHERES), _reaching(BOXES)


@intrinsic
def _spanned(context: Any, centres: Any, limits: Any, group: Any, width: Any, points: Any, point: Any) -> Any:
    """Which spheres of a group reach a point both in the first coordinate and in the second."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        first_limit = builder.mul(args[2], LONG(SPHERES))
        first_centre = builder.mul(first_limit, args[3])
        values = [_eight.splat(context, builder, kinds[4], args[4], builder.add(args[5], LONG(c))) for c in range(2)]
        flags = []
        for g in range(SPHERES // _eight.count):
            limit = _eight.load(context, builder, kinds[1], args[1], builder.add(first_limit, LONG(_eight.count * g)))
            within = ir.Constant(_flags, [1] * _eight.count)
            for column, value in enumerate(values):
                there = builder.add(first_centre, LONG(SPHERES * column + _eight.count * g))
                gap = builder.fsub(_eight.load(context, builder, kinds[0], args[0], there), value)
                within = builder.and_(within, builder.fcmp_ordered("<=", builder.fmul(gap, gap), limit))
            flags.append(within)
        return _eight.word(builder, flags)

    number = types.int64
    return types.uint64(centres, limits, number, number, points, number), build


@intrinsic
def _boxed(context: Any, boxes: Any, group: Any, width: Any, points: Any, point: Any) -> Any:
    """Which boxes of a node hold a point; boxes are the lowest and the highest numbers in each coordinate."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        first = builder.mul(builder.mul(args[1], args[2]), LONG(2 * BOXES))
        left = cgutils.alloca_once(builder, LONG)
        builder.store(LONG((1 << BOXES) - 1), left)
        with cgutils.for_range(builder, args[2]) as loop:
            there = builder.add(first, builder.mul(loop.index, LONG(2 * BOXES)))
            value = _eight.splat(context, builder, kinds[3], args[3], builder.add(args[4], loop.index))
            flags = []
            for g in range(BOXES // _eight.count):
                low = _eight.load(context, builder, kinds[0], args[0], builder.add(there, LONG(_eight.count * g)))
                high = _eight.load(
                    context, builder, kinds[0], args[0], builder.add(there, LONG(BOXES + _eight.count * g))
                )
                not_below = builder.fcmp_ordered("<=", low, value)
                flags.append(builder.and_(not_below, builder.fcmp_ordered(">=", high, value)))
            word = builder.and_(_eight.word(builder, flags), builder.load(left))
            builder.store(word, left)
            with builder.if_then(builder.icmp_unsigned("==", word, LONG(0))):
                loop.do_break()
        return builder.load(left)

    number = types.int64
    return types.uint64(boxes, number, number, points, number), build


@_jit
def _emptied(words: Any, rows: Any, begin: int) -> Any:
    """Write set bits as row numbers from ``begin`` on and clear them; the rows, which may have moved, and their end."""
    count = 0
    for w in range(len(words)):
        count += count_ones(words[w])
    if begin + count > len(rows):
        rows = grown(rows, begin + count)
    at = begin
    for w in range(len(words)):
        word = words[w]
        words[w] = 0
        while word:
            rows[at] = 64 * w + trailing_zeros(word)
            at += 1
            word &= word - np.uint64(1)
    return rows, at


@_jit
def in_spheres(centres: Any, limits: Any, points: Any, width: int, ends: Any) -> Any:
    """The rows of the spheres that hold each point, by looking at all spheres; ``ends`` gets where each point's end."""
    groups, everyone = len(limits) // SPHERES, ~np.uint64(0)
    found = np.empty((min(_TOGETHER, len(ends)), groups), np.uint64)
    rows, at = np.empty(1024, np.int32), np.int64(0)
    for begin in range(0, len(ends), _TOGETHER):
        here = min(_TOGETHER, len(ends) - begin)
        for first in range(0, groups, _NEAR):
            for p in range(here):
                from_ = (begin + p) * width
                for group in range(first, min(first + _NEAR, groups)):
                    found[p, group] = _spheres_reached(centres, limits, group, width, points, from_, everyone)
        for p in range(here):
            rows, at = _emptied(found[p], rows, at)
            ends[begin + p] = at
    return rows[:at]


@_jit
def centred(low: Any, high: Any, few: int) -> Any:
    """A centred interval tree: for each interval its node, and for each node its centre and the nodes on both sides.

    A node has the intervals that its centre lies in, or, where they are few, all that come to it: then its centre is
    NaN. Nodes on the sides are -1 where there are none. The centre is a median, so each side has half of what came.
    """
    order = np.arange(len(low))
    node_of = np.empty(len(low), np.int64)
    centres, sides = np.empty(64), np.empty((64, 2), np.int64)
    begins, ends = np.empty(64, np.int64), np.empty(64, np.int64)
    begins[0], ends[0], count, node = 0, len(low), 1, 0
    while node < count:
        begin, end = begins[node], ends[node]
        sides[node] = -1
        if end - begin <= few:
            centres[node] = np.nan
            node_of[order[begin:end]] = node
            node += 1
            continue
        came = order[begin:end].copy()
        middle = np.partition(0.5 * low[came] + 0.5 * high[came], len(came) // 2)[len(came) // 2]
        centres[node] = middle
        first, last = begin, end
        for i in came:
            if high[i] < middle:
                order[first] = i
                first += 1
            elif low[i] > middle:
                last -= 1
                order[last] = i
            else:
                node_of[i] = node
        for side in range(2):
            from_, to = (begin, first) if side == 0 else (last, end)
            if to > from_:
                if count == len(centres):
                    centres, begins, ends, sides = grown(centres), grown(begins), grown(ends), grown(sides)
                begins[count], ends[count], sides[node, side] = from_, to, count
                count += 1
        node += 1
    return node_of, centres[:count].copy(), sides[:count].copy()


@_jit
def _before(keys: Any, begin: int, end: int, key: float) -> int:
    """How many of the ascending keys are not above the key."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low - begin


@_jit
def _path(tree: Any, value: float, visits: Any) -> Any:
    """The parts of lists that hold the value, as (by which end, first entry, how many); how many parts and entries."""
    middles, sides, begins, sizes, lows, highs = tree
    node, parts, entries = 0, 0, 0
    while node >= 0:
        begin, size, middle = begins[node], sizes[node], middles[node]
        side = 0 if value < middle else 1
        if middle != middle:
            count, next_node = size, -1
        elif side == 0:
            count, next_node = _before(lows, begin, begin + size, value), sides[node, 0]
        else:
            count, next_node = _before(highs, begin, begin + size, -value), sides[node, 1]
        if count:
            visits[parts, 0], visits[parts, 1], visits[parts, 2] = side, begin, count
            parts += 1
            entries += count
        node = next_node
    return parts, entries


@_jit
def _marked(found: Any, names: Any, bits: Any) -> None:
    """Set the bit at the row of each sphere of a group whose bit is set."""
    while bits:
        row = np.int64(names[trailing_zeros(bits)])
        found[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
        bits &= bits - np.uint64(1)


@_jit
def in_intervals(trees: Any, lists: Any, points: Any, width: int, words: int, ends: Any, tested: Any) -> Any:
    """The rows of the spheres that hold each point, found by interval trees on the first and second coordinate.

    The tree with fewer intervals around the point is used; the other coordinate is compared as the list of that tree is
    read. ``lists`` has the spheres four times, in groups: by lower and by upper end in the first tree, then in the
    second. A list that several points need is read once for all of them.
    """
    found = np.zeros((min(_TOGETHER, len(ends)), words), np.uint64)
    rows, at = np.empty(1024, np.int32), np.int64(0)
    visits = np.empty((2, _DEEPEST, 3), np.int64)
    wanted = np.empty((_TOGETHER * _DEEPEST, 4), np.int64)  # list, first group, point, groups
    tested[:] = 0
    for begin in range(0, len(ends), _TOGETHER):
        here, count = min(_TOGETHER, len(ends) - begin), 0
        for p in range(here):
            from_ = (begin + p) * width
            parts, entries = _path(trees[0], points[from_], visits[0])
            others, fewer = _path(trees[1], points[from_ + 1], visits[1])
            tree = 0
            if fewer < entries:
                tree, parts = 1, others
            for v in range(parts):
                wanted[count, 0] = 2 * tree + visits[tree, v, 0]
                wanted[count, 1] = visits[tree, v, 1] // SPHERES
                wanted[count, 2] = begin + p
                wanted[count, 3] = (visits[tree, v, 2] + SPHERES - 1) // SPHERES
                count += 1
        order = np.argsort(wanted[:count, 1] * 4 + wanted[:count, 0])
        first = 0
        while first < count:
            which, start = wanted[order[first], 0], wanted[order[first], 1]
            last, most = first, 0
            while last < count and wanted[order[last], 0] == which and wanted[order[last], 1] == start:
                most = max(most, wanted[order[last], 3])
                last += 1
            centres, limits, names = lists[which]
            for step in range(most):
                group = start + step
                for i in range(first, last):
                    if wanted[order[i], 3] <= step:
                        continue
                    p = wanted[order[i], 2]
                    bits = _spanned(centres, limits, group, width, points, p * width)
                    if bits:
                        tested[p] += count_ones(bits)
                        bits = _spheres_reached(centres, limits, group, width, points, p * width, bits)
                        _marked(found[p - begin], names[group * SPHERES :], bits)
            first = last
        for p in range(here):
            rows, at = _emptied(found[p], rows, at)
            ends[begin + p] = at
    return rows[:at]


class SphereTree(NamedTuple):
    """A tree of boxes over groups of spheres. A node is (its group, entries, first child); a leaf has no child, −1, and
    its group is one of spheres. Children of a node are numbered one after another.
    """

    nodes: NDArray[np.int64]
    boxes: NDArray[np.float64]
    centres: NDArray[np.float64]
    limits: NDArray[np.float64]
    names: NDArray[np.int32]


@_jit
def in_boxes(tree: Any, points: Any, clipped: Any, width: int, words: int, ends: Any, tested: Any) -> Any:
    """The rows of the spheres that hold each point, found by a ``SphereTree``.

    Each entry of each node that a point comes to counts as tested, as in the paper. A node is visited once for all
    points that come to it.
    """
    nodes, boxes = tree.nodes, tree.boxes
    centres, limits, names = tree.centres, tree.limits, tree.names
    found, everyone = np.zeros((min(_TOGETHER, len(ends)), words), np.uint64), ~np.uint64(0)
    rows, at = np.empty(1024, np.int32), np.int64(0)
    stack, comers = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.uint64)
    onward = np.zeros(BOXES, np.uint64)
    tested[:] = 0
    for begin in range(0, len(ends), _TOGETHER):
        here, depth = min(_TOGETHER, len(ends) - begin), 0
        if len(nodes):
            stack[0], comers[0], depth = 0, everyone >> np.uint64(_TOGETHER - here), 1
        while depth:
            depth -= 1
            node, left = stack[depth], comers[depth]
            group, entries, child = nodes[node, 0], nodes[node, 1], nodes[node, 2]
            while left:
                which = trailing_zeros(left)
                left &= left - np.uint64(1)
                p = begin + which
                tested[p] += entries
                if child < 0:
                    bits = _boxes_reached(centres, limits, group, width, points, p * width, everyone)
                    _marked(found[which], names[group * BOXES :], bits)
                    continue
                bits = _boxed(boxes, group, width, clipped, p * width)
                while bits:
                    onward[trailing_zeros(bits)] |= np.uint64(1) << np.uint64(which)
                    bits &= bits - np.uint64(1)
            if child >= 0:
                for e in range(entries):
                    if onward[e]:
                        stack[depth], comers[depth] = child + e, onward[e]
                        onward[e] = 0
                        depth += 1
        for p in range(here):
            rows, at = _emptied(found[p], rows, at)
            ends[begin + p] = at
    return rows[:at]
