"""Readings that belong together at one node of an overlay: what a new one completes, for whom.

Jurca et al., §V-C, Algorithm 5. Rows are sensors, each with its readings in order of time. An operator is a run of
parts, a part a run of members, a member a row that the part addresses. A window ends with the latest of its readings:
only windows that end at or after the new reading, and begin at or before it, can have become complete.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.kernels.compiled import njit
from tidegate.kernels.score import metres

__all__ = ["ask", "expire", "take"]

_jit = njit(cache=True, nogil=True, error_model="numpy")
#: Ends of windows that one operator tries for one reading and remembers, so as not to try them twice.
_TRIED = 64


@_jit
def _grown(array: Any) -> Any:
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


@_jit
def expire(row: int, limit: int, time: Any, value: Any, serial: Any, size: Any, unsent: Any, sent: Any, told: Any,
           row_start: Any, row_member: Any) -> int:  # fmt: skip
    """Forget the readings of a row that are older than the limit; how many that were."""
    gone = 0
    while gone < size[row] and time[row, gone] < limit:
        for owner in range(unsent.shape[1]):
            if not sent[row, gone, owner]:
                unsent[row, owner] -= 1
        gone += 1
    if gone:
        left = size[row] - gone
        for s in range(left):
            time[row, s], value[row, s], serial[row, s] = (
                time[row, s + gone],
                value[row, s + gone],
                serial[row, s + gone],
            )
            for owner in range(unsent.shape[1]):
                sent[row, s, owner] = sent[row, s + gone, owner]
        for k in range(row_start[row], row_start[row + 1]):
            for s in range(left):
                told[row_member[k], s] = told[row_member[k], s + gone]
        size[row] = left
    return gone


@_jit
def take(row: int, origin: int, t: int, v: float, number: int, limit: int,
         time: Any, value: Any, serial: Any, size: Any, lon: Any, lat: Any, unsent: Any, sent: Any, told: Any,
         row_start: Any, row_member: Any, member_row: Any, member_part: Any, part_member: Any,
         part_op: Any, low: Any, high: Any, emits: Any,
         op_part: Any, owner: Any, window: Any, near: Any, once: Any,
         out_op: Any, out_serial: Any) -> Any:  # fmt: skip
    """Store a reading and note which readings have become wanted by whom; those before ``limit`` are no longer valid.

    ``once`` says which owners get a reading once, whoever of their operators wants it. Gives the operators and the
    serial numbers of readings, how many those are, and how many parts were compared.
    """
    slot = _store(row, origin, t, v, number, time, value, serial, size, unsent, sent, told, row_start, row_member)
    outs, n, compared = (out_op, out_serial), 0, 0
    tried = np.empty(_TRIED, np.int64)
    for k in range(row_start[row], row_start[row + 1]):
        m = row_member[k]
        p = member_part[m]
        o = part_op[p]
        w = owner[o]
        if w == origin:
            continue
        compared += 1
        if not low[p] <= v <= high[p]:
            continue
        first, end = op_part[o], op_part[o + 1]
        if end - first == 1:
            outs, n = _wanted(outs, n, o, m, row, slot, w, once, first, end, part_member, member_row,
                              serial, unsent, sent, told)  # fmt: skip
            continue
        if once[w] and not _unsent(first, end, w, emits, part_member, member_row, unsent):
            continue
        count = 0
        for q in range(first, end):
            for b in range(part_member[q], part_member[q + 1]):
                r = member_row[b]
                for s in range(size[r] - 1, -1, -1):
                    last = time[r, s]
                    if last < t:
                        break
                    if last - t >= window[o] or not low[q] <= value[r, s] <= high[q]:
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
                    since = max(last - window[o] + 1, limit)
                    if _complete(first, end, since, last, part_member, member_row, low, high, time, value, size):
                        outs, n = _window(outs, n, o, since, last, w, once, near[o], first, end,
                                          part_member, member_row, low, high, emits,
                                          time, value, serial, size, lon, lat, unsent, sent, told)  # fmt: skip
    return outs[0], outs[1], n, compared


@_jit
def ask(o: int, limit: int, time: Any, value: Any, serial: Any, size: Any, lon: Any, lat: Any,
        unsent: Any, sent: Any, told: Any,
        member_row: Any, part_member: Any, low: Any, high: Any, emits: Any,
        op_part: Any, owner: Any, window: Any, near: Any, once: Any, out_op: Any, out_serial: Any) -> Any:  # fmt: skip
    """Note which of the readings that are held a new operator wants; ``once`` are all who may have them already."""
    outs, n = (out_op, out_serial), 0
    first, end, w = op_part[o], op_part[o + 1], owner[o]
    for q in range(first, end):
        for b in range(part_member[q], part_member[q + 1]):
            r = member_row[b]
            for s in range(size[r]):
                last = time[r, s]
                since = max(last - window[o] + 1, limit)
                if low[q] <= value[r, s] <= high[q] and _complete(
                    first, end, since, last, part_member, member_row, low, high, time, value, size
                ):
                    outs, n = _window(outs, n, o, since, last, w, once, near[o], first, end,
                                      part_member, member_row, low, high, emits,
                                      time, value, serial, size, lon, lat, unsent, sent, told)  # fmt: skip
    return outs[0], outs[1], n


@_jit
def _store(row: int, origin: int, t: int, v: float, number: int, time: Any, value: Any, serial: Any, size: Any,
           unsent: Any, sent: Any, told: Any, row_start: Any, row_member: Any) -> Any:  # fmt: skip
    """Insert in order of time, behind its equals; the place it got. There is room: the caller sees to that."""
    slot = size[row]
    while slot > 0 and time[row, slot - 1] > t:
        time[row, slot], value[row, slot], serial[row, slot] = (
            time[row, slot - 1],
            value[row, slot - 1],
            serial[row, slot - 1],
        )
        for w in range(unsent.shape[1]):
            sent[row, slot, w] = sent[row, slot - 1, w]
        for k in range(row_start[row], row_start[row + 1]):
            told[row_member[k], slot] = told[row_member[k], slot - 1]
        slot -= 1
    time[row, slot], value[row, slot], serial[row, slot] = t, v, number
    for w in range(unsent.shape[1]):
        sent[row, slot, w] = w == origin
        if w != origin:
            unsent[row, w] += 1
    for k in range(row_start[row], row_start[row + 1]):
        told[row_member[k], slot] = False
    size[row] += 1
    return slot


@_jit
def _unsent(first: int, end: int, w: int, emits: Any, part_member: Any, member_row: Any, unsent: Any) -> bool:
    """Whether a sensor that an operator wants has readings that its owner does not have."""
    for p in range(first, end):
        if emits[p]:
            for m in range(part_member[p], part_member[p + 1]):
                if unsent[member_row[m], w] > 0:
                    return True
    return False


@_jit
def _complete(first: int, end: int, since: int, last: int, part_member: Any, member_row: Any, low: Any, high: Any,
              time: Any, value: Any, size: Any) -> bool:  # fmt: skip
    """Whether every part has a reading between the two moments, both included."""
    for p in range(first, end):
        found = False
        for m in range(part_member[p], part_member[p + 1]):
            r = member_row[m]
            for s in range(size[r] - 1, -1, -1):
                if time[r, s] < since:
                    break
                if time[r, s] <= last and low[p] <= value[r, s] <= high[p]:
                    found = True
                    break
            if found:
                break
        if not found:
            return False
    return True


@_jit
def _window(outs: Any, n: int, o: int, since: int, last: int, w: int, once: Any, near: float, first: int, end: int,
            part_member: Any, member_row: Any, low: Any, high: Any, emits: Any,
            time: Any, value: Any, serial: Any, size: Any, lon: Any, lat: Any, unsent: Any, sent: Any, told: Any,
            ) -> Any:  # fmt: skip
    """Note all readings of a complete window; where distances count, those that have near ones for all other parts."""
    for p in range(first, end):
        if not emits[p]:
            continue
        for m in range(part_member[p], part_member[p + 1]):
            r = member_row[m]
            for s in range(size[r] - 1, -1, -1):
                if time[r, s] < since:
                    break
                if time[r, s] > last or not low[p] <= value[r, s] <= high[p]:
                    continue
                if sent[r, s, w] if once[w] else told[m, s]:
                    continue
                if near < np.inf and not _surrounded(r, p, first, end, since, last, near, part_member, member_row,
                                                     low, high, time, value, size, lon, lat):  # fmt: skip
                    continue
                outs, n = _wanted(outs, n, o, m, r, s, w, once, first, end, part_member, member_row,
                                  serial, unsent, sent, told)  # fmt: skip
    return outs, n


@_jit
def _surrounded(row: int, part: int, first: int, end: int, since: int, last: int, near: float,
                part_member: Any, member_row: Any, low: Any, high: Any, time: Any, value: Any, size: Any,
                lon: Any, lat: Any) -> bool:  # fmt: skip
    """Whether the other parts have readings in the window whose sensors are near this one and each other.

    Goes through the members of one part after the other and back where none is left. Only sensors matter, not which of
    their readings.
    """
    chosen = np.empty(end - first, np.int64)
    at = np.empty(end - first, np.int64)
    p = first
    at[0] = part_member[first]
    while True:
        found = False
        if p == part:
            found = at[p - first] == part_member[p]
            at[p - first] = part_member[p + 1]
            chosen[p - first] = row
        else:
            while at[p - first] < part_member[p + 1] and not found:
                r = member_row[at[p - first]]
                at[p - first] += 1
                for s in range(size[r] - 1, -1, -1):
                    if time[r, s] < since:
                        break
                    if time[r, s] <= last and low[p] <= value[r, s] <= high[p]:
                        found = True
                        break
                chosen[p - first] = r
                if found and not _near(r, row, near, lon, lat):
                    found = False
        if found:
            for q in range(first, p):
                found = found and _near(chosen[p - first], chosen[q - first], near, lon, lat)
        elif p == first:
            return False
        else:
            p -= 1
            continue
        if found:
            if p + 1 == end:
                return True
            p += 1
            at[p - first] = part_member[p]


@_jit
def _near(a: int, b: int, near: float, lon: Any, lat: Any) -> bool:
    return a == b or metres(lon[a], lat[a], lon[b], lat[b]) < near


@_jit
def _wanted(outs: Any, n: int, o: int, m: int, r: int, s: int, w: int, once: Any, first: int, end: int,
            part_member: Any, member_row: Any, serial: Any, unsent: Any, sent: Any, told: Any) -> Any:  # fmt: skip
    """Note a reading for an operator, or for its owner if he gets it once, unless that has been done."""
    if sent[r, s, w] if once[w] else told[m, s]:
        return outs, n
    if not sent[r, s, w]:
        sent[r, s, w] = True
        unsent[r, w] -= 1
    for p in range(first, end):  # a sensor may stand behind several parts
        for b in range(part_member[p], part_member[p + 1]):
            if member_row[b] == r:
                told[b, s] = True
    ops, serials = outs
    if n == len(ops):
        ops, serials = _grown(ops), _grown(serials)
    ops[n], serials[n] = o, serial[r, s]
    return (ops, serials), n + 1
