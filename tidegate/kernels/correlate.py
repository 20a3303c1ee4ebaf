"""Readings that belong together at one node of an overlay: which windows a new reading completes, for which operators.

Jurca et al., §V-C, Algorithm 5. ``overlay/correlator.py`` keeps the arrays and calls ``take`` for a new reading,
``ask`` for a new operator and ``expire``. Rows are sensors, each with its readings in order of time. An operator is a
run of parts, a part a run of members, a member a row that the part addresses. The owner of an operator is the neighbour
or user that its readings go to. A window ends with the latest of its readings: only windows that end at or after the
new reading, and begin at or before it, can have become complete.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.score import metres

__all__ = ["HeldReadings", "NewReading", "OperatorTables", "ask", "expire", "take"]

_jit = njit(cache=True, nogil=True, error_model="numpy")
#: Ends of windows that one operator tries for one reading and remembers, so as not to try them twice.
_TRIED = 64


class NewReading(NamedTuple):
    """A reading that has come: the row of its sensor, the owner it came from, and its number."""

    row: int
    origin: int
    time: int
    value: float
    number: int


class HeldReadings(NamedTuple):
    """The readings that a node holds, a row per sensor in order of time, and which owners have them already.

    ``told`` has a row per member, not per sensor. ``sent`` says for each reading and owner whether the owner has it;
    ``unsent`` counts, for each row and owner, the readings that the owner does not have.
    """

    time: NDArray[np.int64]
    value: NDArray[np.float64]
    serial: NDArray[np.int64]
    size: NDArray[np.int64]
    lon: NDArray[np.float64]
    lat: NDArray[np.float64]
    unsent: NDArray[np.int64]
    sent: NDArray[np.bool_]
    told: NDArray[np.bool_]


class OperatorTables(NamedTuple):
    """Operators, their parts and the members of these, as runs: each array of starts has one entry more.

    The members that stand for a row are ``row_member[row_start[row]:row_start[row + 1]]``. ``member_group`` is -1, or
    the number of a group: of operators that are ``parted``, which have two parts, readings of one group do not match
    each other here, because whoever sent them has matched them.
    """

    row_start: NDArray[np.int64]
    row_member: NDArray[np.int64]
    member_row: NDArray[np.int64]
    member_part: NDArray[np.int64]
    part_member: NDArray[np.int64]
    part_op: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    emits: NDArray[np.bool_]
    op_part: NDArray[np.int64]
    owner: NDArray[np.int64]
    window: NDArray[np.int64]
    near: NDArray[np.float64]
    member_group: NDArray[np.int64]
    parted: NDArray[np.bool_]


@_jit
def expire(row: int, limit: int, held: Any, operators: Any) -> int:
    """Forget the readings of a row that are older than the limit; how many that were."""
    gone = 0
    while gone < held.size[row] and held.time[row, gone] < limit:
        for owner in range(held.unsent.shape[1]):
            if not held.sent[row, gone, owner]:
                held.unsent[row, owner] -= 1
        gone += 1
    if gone:
        left = held.size[row] - gone
        for s in range(left):
            held.time[row, s], held.value[row, s], held.serial[row, s] = (
                held.time[row, s + gone],
                held.value[row, s + gone],
                held.serial[row, s + gone],
            )
            for owner in range(held.unsent.shape[1]):
                held.sent[row, s, owner] = held.sent[row, s + gone, owner]
        for k in range(operators.row_start[row], operators.row_start[row + 1]):
            for s in range(left):
                held.told[operators.row_member[k], s] = held.told[operators.row_member[k], s + gone]
        held.size[row] = left
    return gone


@_jit
def take(new: Any, limit: int, held: Any, operators: Any, once: Any, out_op: Any, out_serial: Any) -> Any:
    """Store a reading and collect the readings that operators want because of it; those before ``limit`` are invalid.

    ``once`` says which owners get a reading once, however many of their operators want it. Returns the operators and
    the serial numbers of readings, pair by pair, how many pairs there are, and how many parts were compared.
    """
    row, origin, t, v = new.row, new.origin, new.time, new.value
    slot = _store(new, held, operators)
    outs, n, compared = (out_op, out_serial), np.int64(0), 0
    tried = np.empty(_TRIED, np.int64)
    for k in range(operators.row_start[row], operators.row_start[row + 1]):
        m = operators.row_member[k]
        p = operators.member_part[m]
        o = operators.part_op[p]
        w = operators.owner[o]
        if w == origin:
            continue
        compared += 1
        if not operators.low[p] <= v <= operators.high[p]:
            continue
        first, end = operators.op_part[o], operators.op_part[o + 1]
        if end - first == 1:
            outs, n = _wanted(outs, n, m, row, slot, once, held, operators)
            continue
        if once[w] and not _unsent(o, w, held, operators):
            continue
        count = 0
        for q in range(first, end):
            for b in range(operators.part_member[q], operators.part_member[q + 1]):
                r = operators.member_row[b]
                for s in range(held.size[r] - 1, -1, -1):
                    last = held.time[r, s]
                    if last < t:
                        break
                    if last - t >= operators.window[o] or not operators.low[q] <= held.value[r, s] <= operators.high[q]:
                        continue
                    known = False
                    for i in range(min(count, _TRIED)):
                        known = known or tried[i] == last
                    if known:
                        continue
                    if count < _TRIED:
                        tried[count] = last
                    count += 1
                    compared += end - first
                    since = max(last - operators.window[o] + 1, limit)
                    if _complete(o, since, last, held, operators):
                        outs, n = _window(outs, n, o, since, last, once, held, operators)
    return outs[0], outs[1], n, compared


@_jit
def ask(o: int, limit: int, held: Any, operators: Any, once: Any, out_op: Any, out_serial: Any) -> Any:
    """Collect the held readings that a new operator wants; owners marked in ``once`` may have some of them already."""
    outs, n = (out_op, out_serial), np.int64(0)
    first, end = operators.op_part[o], operators.op_part[o + 1]
    for q in range(first, end):
        for b in range(operators.part_member[q], operators.part_member[q + 1]):
            r = operators.member_row[b]
            for s in range(held.size[r]):
                last = held.time[r, s]
                since = max(last - operators.window[o] + 1, limit)
                if operators.low[q] <= held.value[r, s] <= operators.high[q] and _complete(
                    o, since, last, held, operators
                ):
                    outs, n = _window(outs, n, o, since, last, once, held, operators)
    return outs[0], outs[1], n


@_jit
def _store(new: Any, held: Any, operators: Any) -> Any:
    """Insert a reading in order of time, behind those of the same time; its place. The caller has made room."""
    row, origin, t = new.row, new.origin, new.time
    slot = held.size[row]
    while slot > 0 and held.time[row, slot - 1] > t:
        held.time[row, slot], held.value[row, slot], held.serial[row, slot] = (
            held.time[row, slot - 1],
            held.value[row, slot - 1],
            held.serial[row, slot - 1],
        )
        for w in range(held.unsent.shape[1]):
            held.sent[row, slot, w] = held.sent[row, slot - 1, w]
        for k in range(operators.row_start[row], operators.row_start[row + 1]):
            held.told[operators.row_member[k], slot] = held.told[operators.row_member[k], slot - 1]
        slot -= 1
    held.time[row, slot], held.value[row, slot], held.serial[row, slot] = t, new.value, new.number
    for w in range(held.unsent.shape[1]):
        held.sent[row, slot, w] = w == origin
        if w != origin:
            held.unsent[row, w] += 1
    for k in range(operators.row_start[row], operators.row_start[row + 1]):
        held.told[operators.row_member[k], slot] = False
    held.size[row] += 1
    return slot


@_jit
def _unsent(o: int, w: int, held: Any, operators: Any) -> bool:
    """Whether a sensor that an operator wants has readings that its owner does not have."""
    first, end = operators.op_part[o], operators.op_part[o + 1]
    for p in range(first, end):
        if operators.emits[p]:
            for m in range(operators.part_member[p], operators.part_member[p + 1]):
                if held.unsent[operators.member_row[m], w] > 0:
                    return True
    return False


@_jit
def _has_reading(r: int, p: int, since: int, last: int, held: Any, operators: Any) -> bool:
    """Whether a row has a reading that a part takes between the two moments, both included."""
    for s in range(held.size[r] - 1, -1, -1):
        if held.time[r, s] < since:
            return False
        if held.time[r, s] <= last and operators.low[p] <= held.value[r, s] <= operators.high[p]:
            return True
    return False


@_jit
def _complete(o: int, since: int, last: int, held: Any, operators: Any) -> bool:
    """Whether every part has a reading between the two moments, both included."""
    first, end = operators.op_part[o], operators.op_part[o + 1]
    for p in range(first, end):
        found = False
        for m in range(operators.part_member[p], operators.part_member[p + 1]):
            found = _has_reading(operators.member_row[m], p, since, last, held, operators)
            if found:
                break
        if not found:
            return False
    return True


@_jit
def _window(outs: Any, n: int, o: int, since: int, last: int, once: Any, held: Any, operators: Any) -> Any:
    """Collect all readings of a complete window; where distances or groups count, those that have partners by them."""
    first, end = operators.op_part[o], operators.op_part[o + 1]
    w, near = operators.owner[o], operators.near[o]
    for p in range(first, end):
        if not operators.emits[p]:
            continue
        for m in range(operators.part_member[p], operators.part_member[p + 1]):
            r = operators.member_row[m]
            for s in range(held.size[r] - 1, -1, -1):
                if held.time[r, s] < since:
                    break
                if held.time[r, s] > last or not operators.low[p] <= held.value[r, s] <= operators.high[p]:
                    continue
                if held.sent[r, s, w] if once[w] else held.told[m, s]:
                    continue
                if operators.parted[o]:
                    if not _has_partner(m, first + end - 1 - p, o, since, last, held, operators):
                        continue
                elif near < np.inf and not _surrounded(r, p, o, since, last, held, operators):
                    continue
                outs, n = _wanted(outs, n, m, r, s, once, held, operators)
    return outs, n


@_jit
def _has_partner(m: int, other: int, o: int, since: int, last: int, held: Any, operators: Any) -> bool:
    """Whether the other of two parts has a reading in the window that is near and not of the same group."""
    row, group = operators.member_row[m], operators.member_group[m]
    for b in range(operators.part_member[other], operators.part_member[other + 1]):
        r = operators.member_row[b]
        if group >= 0 and operators.member_group[b] == group:
            continue
        if _has_reading(r, other, since, last, held, operators) and (
            operators.near[o] == np.inf or _near(r, row, operators.near[o], held)
        ):
            return True
    return False


@_jit
def _surrounded(row: int, part: int, o: int, since: int, last: int, held: Any, operators: Any) -> bool:
    """Whether the other parts have readings in the window whose sensors are near this one and each other.

    Goes through the members of one part after the other and back where none is left. Only sensors matter, not which of
    their readings.
    """
    first, end, near = operators.op_part[o], operators.op_part[o + 1], operators.near[o]
    chosen = np.empty(end - first, np.int64)
    at = np.empty(end - first, np.int64)
    p = first
    at[0] = operators.part_member[first]
    while True:
        found = False
        if p == part:
            found = at[p - first] == operators.part_member[p]
            at[p - first] = operators.part_member[p + 1]
            chosen[p - first] = row
        else:
            while at[p - first] < operators.part_member[p + 1] and not found:
                r = operators.member_row[at[p - first]]
                at[p - first] += 1
                chosen[p - first] = r
                found = _has_reading(r, p, since, last, held, operators) and _near(r, row, near, held)
        if found:
            for q in range(first, p):
                found = found and _near(chosen[p - first], chosen[q - first], near, held)
        elif p == first:
            return False
        else:
            p -= 1
            continue
        if found:
            if p + 1 == end:
                return True
            p += 1
            at[p - first] = operators.part_member[p]


@_jit
def _near(a: int, b: int, near: float, held: Any) -> bool:
    return a == b or metres(held.lon[a], held.lat[a], held.lon[b], held.lat[b]) < near


@_jit
def _wanted(outs: Any, n: int, m: int, r: int, s: int, once: Any, held: Any, operators: Any) -> Any:
    """Collect a reading for an operator, unless the operator, or its owner if it gets readings once, has it already."""
    o = operators.part_op[operators.member_part[m]]
    first, end, w = operators.op_part[o], operators.op_part[o + 1], operators.owner[o]
    if held.sent[r, s, w] if once[w] else held.told[m, s]:
        return outs, n
    if not held.sent[r, s, w]:
        held.sent[r, s, w] = True
        held.unsent[r, w] -= 1
    for p in range(first, end):  # a sensor may stand behind several parts
        for b in range(operators.part_member[p], operators.part_member[p + 1]):
            if operators.member_row[b] == r:
                held.told[b, s] = True
    ops, serials = outs
    if n == len(ops):
        ops, serials = grown(ops), grown(serials)
    ops[n], serials[n] = o, held.serial[r, s]
    return (ops, serials), n + 1
