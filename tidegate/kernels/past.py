"""Publications, one by one, against the events that were remembered before them.

An *atom* is one temporal condition; a *rule* (a subscription, or a filter that contains atoms) is a disjunction of
clauses, each an ordinary filter and some atoms. A *recollection* is what one inner filter remembers: its ended events
and those still running as points (start, end), and values of its events as points of their own, in lists that
``kernels/boxes.py`` answers questions about. So every relation is a rectangle, and so is every comparison.

An event that is running hangs on what it is remembered by, so that its end finds it; while its END is looked at, the
event itself is hidden.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np

from tidegate.kernels.boxes import COUNT, FIRST, LIST, LOW, erase, found, last, put, unhide
from tidegate.kernels.compiled import njit
from tidegate.kernels.hash_table import spot_of

__all__ = [
    "ATOM", "COMPARISONS", "EVENT", "EVENT_LIST", "FLOOR", "FREE", "GONE", "HELD", "HOLDS", "KNOWN", "LAST", "MARKS",
    "NO_ELDERS", "POINTS", "RECOLLECTION", "REFUSALS", "RELATIONS", "UNSURE", "USED", "VALUES", "WASTE",
    "rectangles_of", "step_past", "unhold",
]  # fmt: skip

_jit = njit(cache=True, nogil=True, error_model="numpy")

#: Why a publication is refused, as it is numbered.
REFUSALS = (
    "end without start", "second start", "end before start", "start with an end", "instant that lasts", "other start",
)  # fmt: skip
#: The relations as they are numbered; of a point on the left they are ``POINTS`` further on, comparisons ``VALUES``.
RELATIONS = (
    "t_after", "t_before", "t_contains", "t_disjoint", "t_during", "t_equals", "t_finishedBy", "t_finishes",
    "t_intersects", "t_meets", "t_metBy", "t_overlappedBy", "t_overlaps", "t_startedBy", "t_starts",
)  # fmt: skip
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
POINTS, VALUES = 32, 64
#: What stands on the left of a relation, where it is not a column.
THE_START, THE_END, THE_EVENT, THE_TIME = -1, -2, -3, -4

#: An atom: what it asks; what is on its left, as a number, as an instant and as the two halves of a text; which
#: recollection it asks; its limit (−1: none) and tolerance, or how many events; lists of values in the same kinds.
OP, LEFT, OF, LIMIT, TOLERANCE, VALUE_LIST = 0, 1, 5, 6, 7, 8
ATOM = 11
#: A recollection: of which filter it is (−1: of a rule), since which version, its lists (−1: none), how many events.
FILTER, SINCE, ENDED, RUNNING, TOTAL = 0, 1, 2, 3, 4
RECOLLECTION = 5
#: A list, beyond what boxes know: its recollection, its columns of values (−1: start and end), and which event of the
#: recollection its first point is.
LIST_OF, LIST_ONE, LIST_TWO, LIST_ORDINAL = LIST, LIST + 1, LIST + 2, LIST + 3
EVENT_LIST = LIST + 4
#: An event: its start, the version it appeared at, the number of its last and its first publication, what holds it
#: (−1: nothing), and whether it has ended.
START, VERSION, LAST_OF, FIRST_OF, HEAD, IS_OVER = 0, 1, 2, 3, 4, 5
EVENT = 6
#: Where the events of a recollection that have left memory lie, if there are none: least and greatest start and end.
NO_ELDERS = (inf, -inf, inf, -inf)
#: A hold: the recollection, where in its list of running events, as which of its events, and the next one of the event.
HOLD_OF, HOLD_AT, HOLD_ORDINAL, HOLD_NEXT = 0, 1, 2, 3
HELD = 4
#: Marks: the last number that was given, the last that is forgotten, events and holds in use, the first free hold (−1),
#: the oldest version of all points, points that were erased, and from which number on times are known.
LAST, GONE, USED, HOLDS, FREE, FLOOR, WASTE, KNOWN = 0, 1, 2, 3, 4, 5, 6, 7
MARKS = 8

#: More than any other answer.
UNSURE = 3

_STARTS, _INSTANT, _ENDS = 1, 2, 3


@_jit
def rectangles_of(op: int, s: float, e: float, limit: int, tolerance: int, out: Any) -> int:
    """The events Y that [s, e] has a relation to, as rectangles of start and end; how many there are.

    Bounds are included, so that "before" is "up to the next smaller number".
    """
    t = float(tolerance)
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = -inf, inf, -inf, inf
    if op == 0 or op == POINTS:  # after
        out[0, 3] = np.nextafter(s + t, -inf)
    elif op == 1 or op == POINTS + 1:  # before
        out[0, 0] = np.nextafter(e - t, inf)
    elif op == 2:  # contains
        out[0, 0], out[0, 3] = np.nextafter(s - t, inf), np.nextafter(e + t, -inf)
    elif op == 3 or op == POINTS + 3:  # disjoint: after or before
        out[0, 3], out[1, 0] = np.nextafter(s + t, -inf), np.nextafter(e - t, inf)
    elif op == 4:  # during
        out[0, 1], out[0, 2] = np.nextafter(s + t, -inf), np.nextafter(e - t, inf)
    elif op == 5 or op == POINTS + 5:  # equals
        out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s - t, s + t, e - t, e + t
    elif op == 6:  # finished by
        out[0, 0], out[0, 2], out[0, 3] = np.nextafter(s - t, inf), e - t, e + t
    elif op == 7:  # finishes
        out[0, 1], out[0, 2], out[0, 3] = np.nextafter(s + t, -inf), e - t, e + t
    elif op == 8 or op == POINTS + 4 or op == POINTS + 8:  # intersects; a point during, bounds included
        out[0, 1], out[0, 2] = e + t, s - t
    elif op == 9:  # meets
        out[0, 0], out[0, 1] = e - t, e + t
    elif op == 10:  # met by
        out[0, 2], out[0, 3] = s - t, s + t
    elif op == 11:  # overlapped by
        out[0, 1], out[0, 2], out[0, 3] = np.nextafter(s + t, -inf), np.nextafter(s - t, inf), np.nextafter(e + t, -inf)
    elif op == 12:  # overlaps
        out[0, 0], out[0, 1], out[0, 2] = np.nextafter(s - t, inf), np.nextafter(e + t, -inf), np.nextafter(e - t, inf)
    elif op == 13:  # started by
        out[0, 0], out[0, 1], out[0, 3] = s - t, s + t, np.nextafter(e + t, -inf)
    else:  # starts
        out[0, 0], out[0, 1], out[0, 2] = s - t, s + t, np.nextafter(e - t, inf)
    count = 2 if op == 3 or op == POINTS + 3 else 1
    if limit >= 0:
        for k in range(count):
            out[k, 2] = max(out[k, 2], s - limit - t)
    return count


@_jit
def _values(op: int, x: float, y: float, out: Any) -> int:
    """The values v with ``x op v``, as rectangles; y is the other half of a text, NaN where there is none."""
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = -inf, inf, -inf, inf
    if op == 0:
        out[0, 0] = out[0, 1] = x
        if not isnan(y):
            out[0, 2] = out[0, 3] = y
        return 1
    if op == 1:
        out[0, 1], out[1, 0] = np.nextafter(x, -inf), np.nextafter(x, inf)
        if isnan(y):
            return 2
        out[2, 3], out[3, 2] = np.nextafter(y, -inf), np.nextafter(y, inf)
        return 4
    if op == 2:
        out[0, 0] = np.nextafter(x, inf)
    elif op == 3:
        out[0, 0] = x
    elif op == 4:
        out[0, 1] = np.nextafter(x, -inf)
    else:
        out[0, 1] = x
    return 1


@_jit
def _any(
    lists: Any, at: int, most: int, gone: int, rectangles: Any, count: int, since: float,
    pool: Any, b5: Any, b10: Any, b15: Any,
) -> bool:  # fmt: skip
    """Whether a point of a list, one of its last ``most``, is in a rectangle."""
    first, low, n = lists[at, FIRST], lists[at, LOW], lists[at, COUNT]
    while low < n and pool[first + low, 4] <= gone:
        low += 1
    lists[at, LOW] = low
    if most < n - low:
        low = n - most if since == -inf else last(pool, b5, b10, first + low, first + n, most, since) - first
    for k in range(count):
        a, b, c, d = rectangles[k, 0], rectangles[k, 1], rectangles[k, 2], rectangles[k, 3]
        if found(pool, b5, b10, b15, first + low, first + n, a, b, c, d, since):
            return True
    return False


@_jit
def _holds(
    atom: Any, start: float, end: float, event_start: float, event_end: float, time: int, row: Any,
    recollections: Any, lists: Any, elders: Any, pool: Any, b5: Any, b10: Any, b15: Any, gone: int, since: float,
    rectangles: Any,
) -> int:  # fmt: skip
    """Whether an atom holds of a publication: 0 or 1; 2 where what is on its left is missing; or ``UNSURE`` where an
    event that has left memory may decide, and how many rectangles it is in.
    """
    op = atom[OP]
    if op >= VALUES:
        for kind in range(3):
            at = atom[VALUE_LIST + kind]
            if at < 0:  # a value of a type that the other cannot have is missing
                continue
            x = row[atom[LEFT + kind]]
            if isnan(x):
                continue
            y = row[atom[LEFT + 3]] if kind == 2 else nan
            count = _values(op - VALUES, x, y, rectangles)
            return int(_any(lists, at, atom[LIMIT], gone, rectangles, count, since, pool, b5, b10, b15))
        return 2
    left = atom[LEFT]
    if left == THE_EVENT:
        s, e = event_start, event_end
    else:
        s = start if left == THE_START else end if left == THE_END else float(time) if left == THE_TIME else row[left]
        e = s
    if isnan(s) or isnan(e):
        return 2
    count = rectangles_of(op, s, e, atom[LIMIT], atom[TOLERANCE], rectangles)
    of = atom[OF]
    most = 2**62
    if _any(lists, recollections[of, ENDED], most, gone, rectangles, count, since, pool, b5, b10, b15):
        return 1
    if _any(lists, recollections[of, RUNNING], most, -1, rectangles, count, since, pool, b5, b10, b15):
        return 1
    for k in range(count):
        a, b, c, d = rectangles[k, 0], rectangles[k, 1], rectangles[k, 2], rectangles[k, 3]
        if elders[of, 0] <= b and elders[of, 1] >= a and elders[of, 2] <= d and elders[of, 3] >= c:
            return int(UNSURE + count)
    return 0


@_jit
def _append(
    lists: Any,
    at: int,
    one: float,
    two: float,
    version: int,
    ref: int,
    number: int,
    pool: Any,
    b5: Any,
    b10: Any,
    b15: Any,
) -> int:
    n = lists[at, COUNT]
    put(pool, b5, b10, b15, lists[at, FIRST] + n, one, two, version, ref, number)
    lists[at, COUNT] = n + 1
    return int(n)


@_jit
def _remember_values(
    of: int, row: Any, version: int, number: int,
    value_start: Any, value_list: Any, lists: Any, pool: Any, b5: Any, b10: Any, b15: Any,
) -> None:  # fmt: skip
    for k in range(value_start[of], value_start[of + 1]):
        at = value_list[k]
        one = row[lists[at, LIST_ONE]]
        two = row[lists[at, LIST_TWO]] if lists[at, LIST_TWO] >= 0 else 0.0
        _append(lists, at, one, two, version, -1, number, pool, b5, b10, b15)


@_jit
def _show_again(
    event: int, start: float, events: Any, holds: Any, recollections: Any, lists: Any, marks: Any,
    pool: Any, b5: Any, b10: Any, b15: Any,
) -> None:  # fmt: skip
    """Let an event that was hidden be running again."""
    hold = events[event, HEAD]
    while hold >= 0:
        if holds[hold, HOLD_AT] >= 0:
            at = recollections[holds[hold, HOLD_OF], RUNNING]
            unhide(pool, b5, b10, b15, lists[at, FIRST] + holds[hold, HOLD_AT], start)
            marks[WASTE] -= 1
        hold = holds[hold, HOLD_NEXT]


@_jit
def step_past(
    first_item: int, start: Any, hits: Any, time: Any, version: Any, phase: Any, ids: Any, values: Any,
    start_column: int, end_column: int, born: int, keep: int, most: int,
    of_filter: Any, clauses: Any, clause_rule: Any, clause_start: Any, literals: Any,
    recollection_of: Any, atoms: Any, recollections: Any, value_start: Any, value_list: Any,
    lists: Any, elders: Any, pool: Any, b5: Any, b10: Any, b15: Any,
    table: Any, zeros: Any, event_ids: Any, events: Any, holds: Any, marks: Any, when: Any,
    since: Any, until: Any, closing: Any,
    fate: Any, number: Any, first: Any, times: Any,
    begin: int, memo_at: Any, memo_since: Any, memo: Any, told_at: Any, passed_at: Any, rectangles: Any,
) -> Any:  # fmt: skip
    """Take a batch from a publication on; the slots that are told, of which publication, how far it got, and which atom
    it could not decide there, −1 for none. Whoever knows the answer writes it into ``memo`` and goes on from there.

    ``fate`` is given, for each publication, 0 if it is not remembered, 1 if an event begins with it, 2 if one ends with
    it, or less than 0 for why it is refused; ``number`` the number it gets, unless it has one already; ``first`` that
    of the publication its event began with; ``times`` start and end of its event, NaN while it has none.
    """
    out_slot, out_item = np.empty(256, np.int64), np.empty(256, np.int64)
    told, when_base = 0, marks[KNOWN]
    passed, n_passed = np.empty(len(recollections), np.int64), 0
    hidden, hidden_one, n_hidden = np.empty(16, np.int64), np.empty(16), 0
    for k in range(begin, len(start) - 1):
        item = first_item + k
        t, v, kind, row = time[item], version[item], phase[k], values[item]
        if v < born:  # it has waited since a time when nobody asked
            continue
        gone = marks[GONE]
        while gone < marks[LAST] and when[gone + 1 - when_base] < t - keep:
            gone += 1
        gone = max(gone, marks[LAST] - most)
        marks[GONE] = gone
        # what the publication says of its event
        s, e = row[start_column], row[end_column]
        refused = 0
        spot = spot_of(table, 0, ids[k, 0], ids[k, 1], zeros, event_ids)
        event = table[spot]
        is_known = event >= 0 and (events[event, IS_OVER] == 0 or events[event, LAST_OF] > gone)
        own = nan
        if kind == _STARTS:
            if is_known:
                refused = 2
            elif not isnan(e):
                refused = 4
            if isnan(s):
                s = float(t)
            own_end = nan
        elif kind == _ENDS:
            if isnan(e):
                e = float(t)
            if not is_known or events[event, IS_OVER] == 1:
                refused = 1
            else:
                own = float(events[event, START])
                if e < own:
                    refused = 3
                elif not isnan(s) and s != own:
                    refused = 6
            own_end = e
        else:
            if isnan(s):
                s = e
            if isnan(s):
                s = float(t)
            if isnan(e):
                e = s
            if kind == _INSTANT and is_known:
                refused = 2
            elif kind == _INSTANT and s != e:
                refused = 5
            own, own_end = s, e
        if refused:
            fate[k] = -refused
            continue
        seen_since = v
        if kind == _ENDS:  # its event is not to be found while it is looked at
            seen_since = min(v, events[event, VERSION])
            hold, n_hidden = events[event, HEAD], 0
            while hold >= 0:
                of = holds[hold, HOLD_OF]
                at = recollections[of, RUNNING]
                if holds[hold, HOLD_AT] >= 0:
                    erase(
                        pool, b5, b10, b15, lists[at, FIRST] + holds[hold, HOLD_AT], lists[at, FIRST] + lists[at, COUNT]
                    )
                    marks[WASTE] += 1
                for j in range(value_start[of], value_start[of + 1]):
                    at = value_list[j]
                    place = holds[hold, HOLD_ORDINAL] - lists[at, LIST_ORDINAL]
                    if place < lists[at, LOW]:
                        continue
                    place += lists[at, FIRST]
                    if isnan(pool[place, 0]):
                        continue
                    if n_hidden == len(hidden):
                        hidden = np.concatenate((hidden, np.empty(n_hidden, np.int64)))
                        hidden_one = np.concatenate((hidden_one, np.empty(n_hidden)))
                    hidden[n_hidden], hidden_one[n_hidden] = place, pool[place, 0]
                    n_hidden += 1
                    erase(pool, b5, b10, b15, place, lists[at, FIRST] + lists[at, COUNT])
                hold = holds[hold, HOLD_NEXT]
        # who wants to know, and who will remember
        n_passed, told_before, unsure = 0, told, -1
        for h in range(start[k], start[k + 1]):
            f = hits[h]
            of = recollection_of[f]
            if unsure >= 0:
                break
            if of >= 0:
                passed_at[of], passed[n_passed] = k, of
                n_passed += 1
            for c in range(of_filter[f], of_filter[f + 1]):
                clause = clauses[c]
                rule = clause_rule[clause]
                if rule >= 0:
                    if told_at[rule] == k or seen_since < since[rule] or v >= until[rule] or t > closing[rule]:
                        continue
                    asked_since = since[rule]
                else:
                    if passed_at[~rule] == k or seen_since < recollections[~rule, SINCE]:
                        continue
                    asked_since = recollections[~rule, SINCE]
                from_version = -inf if asked_since <= marks[FLOOR] else float(asked_since)
                is_true = True
                for j in range(clause_start[clause], clause_start[clause + 1]):
                    a = literals[j] >> 1
                    if memo_at[a] != k or memo_since[a] != from_version:
                        memo[a] = _holds(
                            atoms[a], s, e, own, own_end, t, row, recollections, lists, elders, pool, b5, b10, b15,
                            gone, from_version, rectangles,
                        )  # fmt: skip
                        memo_at[a], memo_since[a] = k, from_version
                        if memo[a] > UNSURE:
                            unsure = a
                    if memo[a] != 1 - (literals[j] & 1):
                        is_true = False
                        break
                if unsure >= 0:
                    break
                if not is_true:
                    continue
                if rule >= 0:
                    told_at[rule] = k
                    if told == len(out_slot):
                        out_slot = np.concatenate((out_slot, np.empty(told, np.int64)))
                        out_item = np.concatenate((out_item, np.empty(told, np.int64)))
                    out_slot[told], out_item[told] = rule, item
                    told += 1
                else:
                    passed_at[~rule], passed[n_passed] = k, ~rule
                    n_passed += 1
        if unsure >= 0:  # as if it had not been looked at
            for j in range(told_before, told):
                told_at[out_slot[j]] = -1
            for j in range(n_passed):
                passed_at[passed[j]] = -1
            if kind == _ENDS:
                _show_again(event, own, events, holds, recollections, lists, marks, pool, b5, b10, b15)
                for j in range(n_hidden):
                    unhide(pool, b5, b10, b15, hidden[j], hidden_one[j])
            return out_slot[:told_before], out_item[:told_before], k, unsure
        # remember it
        if kind != _STARTS and kind != _ENDS and n_passed == 0:
            continue
        given = max(number[k], marks[LAST] + 1)
        while marks[LAST] < given:  # those between are forgotten already
            marks[LAST] += 1
            when[marks[LAST] - when_base] = t
        number[k], first[k], fate[k] = given, given, 1
        times[k, 0], times[k, 1] = own if kind != _STARTS else s, own_end
        if kind == _STARTS:
            if event < 0:
                event = marks[USED]
                marks[USED] += 1
                table[spot] = event
                event_ids[event, 0], event_ids[event, 1] = ids[k, 0], ids[k, 1]
            events[event, START], events[event, VERSION] = int(s), v
            events[event, LAST_OF], events[event, FIRST_OF] = given, given
            events[event, HEAD], events[event, IS_OVER] = -1, 0
            for j in range(n_passed):
                of = passed[j]
                hold = marks[FREE]
                if hold >= 0:
                    marks[FREE] = holds[hold, HOLD_NEXT]
                else:
                    hold = marks[HOLDS]
                    marks[HOLDS] += 1
                holds[hold, HOLD_OF], holds[hold, HOLD_AT] = of, -1
                holds[hold, HOLD_ORDINAL], holds[hold, HOLD_NEXT] = recollections[of, TOTAL], events[event, HEAD]
                events[event, HEAD] = hold
                at = recollections[of, RUNNING]
                if at >= 0:
                    holds[hold, HOLD_AT] = _append(lists, at, s, inf, v, hold, given, pool, b5, b10, b15)
                recollections[of, TOTAL] += 1
                _remember_values(of, row, v, given, value_start, value_list, lists, pool, b5, b10, b15)
            marks[FLOOR] = min(marks[FLOOR], v)
        elif kind == _ENDS:
            for j in range(n_hidden):
                unhide(pool, b5, b10, b15, hidden[j], hidden_one[j])
            was = events[event, VERSION]
            hold = events[event, HEAD]
            while hold >= 0:
                of = holds[hold, HOLD_OF]
                passed_at[of] = -2
                at = recollections[of, ENDED]
                if at >= 0:
                    _append(lists, at, own, e, was, -1, given, pool, b5, b10, b15)
                after = holds[hold, HOLD_NEXT]
                holds[hold, HOLD_NEXT] = marks[FREE]
                marks[FREE] = hold
                hold = after
            for j in range(n_passed):
                of = passed[j]
                if passed_at[of] == -2:
                    continue
                at = recollections[of, ENDED]
                if at >= 0:
                    _append(lists, at, own, e, was, -1, given, pool, b5, b10, b15)
                recollections[of, TOTAL] += 1
                _remember_values(of, row, was, given, value_start, value_list, lists, pool, b5, b10, b15)
            events[event, HEAD], events[event, IS_OVER], events[event, LAST_OF] = -1, 1, given
            fate[k], first[k] = 2, events[event, FIRST_OF]
            marks[FLOOR] = min(marks[FLOOR], was)
        else:
            for j in range(n_passed):
                of = passed[j]
                at = recollections[of, ENDED]
                if at >= 0:
                    _append(lists, at, s, e, v, -1, given, pool, b5, b10, b15)
                recollections[of, TOTAL] += 1
                _remember_values(of, row, v, given, value_start, value_list, lists, pool, b5, b10, b15)
            marks[FLOOR] = min(marks[FLOOR], v)
    return out_slot[:told], out_item[:told], len(start) - 1, -1


@_jit
def unhold(events: Any, holds: Any, marks: Any, place: Any) -> None:
    """Let go of the holds of recollections that are no more; ``place`` gives the others new numbers, −1 to none."""
    is_held = np.zeros(len(holds), np.bool_)
    for event in range(len(events)):
        before, hold = -1, events[event, HEAD]
        while hold >= 0:
            after = holds[hold, HOLD_NEXT]
            of = place[holds[hold, HOLD_OF]]
            if of >= 0:
                holds[hold, HOLD_OF] = of
                before, is_held[hold] = hold, True
            elif before < 0:
                events[event, HEAD] = after
            else:
                holds[before, HOLD_NEXT] = after
            hold = after
    marks[FREE] = -1
    for hold in range(len(holds)):
        if not is_held[hold]:
            holds[hold, HOLD_NEXT] = marks[FREE]
            marks[FREE] = hold
