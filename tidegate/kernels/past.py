"""Publications, one by one, against the events that were remembered before them.

``patterns/past.py`` calls ``step_past`` for each batch; ``patterns/past_storage.py`` makes room in the arrays first. An
*atom* is one temporal condition; a *rule* (a subscription, or a filter that contains atoms) is a disjunction of
clauses, each an ordinary filter and some atoms. A *recollection* is what one inner filter remembers: its ended events
and those still running as points (start, end), and values of its events as points of their own, in lists that
``kernels/past_atoms.py`` asks. The rows of all of them are laid out in ``kernels/past_records.py``.

A running event has a list of *holds*, one for each recollection that remembers it, through which ``step_past`` finds
its points when its END comes. While the atoms are decided for that END, the points of the event itself are hidden.
"""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np

from tidegate.kernels.boxes import COUNT, FIRST, LOW, erase, put, unhide
from tidegate.kernels.compiled import njit
from tidegate.kernels.hash_table import spot_of
from tidegate.kernels.past_atoms import FALSE, TRUE, UNSURE, atom_holds
from tidegate.kernels.past_records import (
    BEGINS_EVENT,
    END_BEFORE_START,
    END_WITHOUT_START,
    ENDED,
    ENDS,
    ENDS_EVENT,
    FIRST_OF,
    FLOOR,
    FREE,
    GONE,
    HEAD,
    HOLD_AT,
    HOLD_NEXT,
    HOLD_OF,
    HOLD_ORDINAL,
    HOLDS,
    INSTANT,
    INSTANT_THAT_LASTS,
    IS_OVER,
    KNOWN,
    LAST,
    LAST_OF,
    LIST_ONE,
    LIST_ORDINAL,
    LIST_TWO,
    NOT_REMEMBERED,
    OTHER_START,
    RUNNING,
    SECOND_START,
    SINCE,
    START,
    START_WITH_AN_END,
    STARTS,
    TOTAL,
    USED,
    VERSION,
    WASTE,
)

__all__ = ["step_past"]

_jit = njit(cache=True, nogil=True, error_model="numpy")
#: In ``passed_at``, instead of a publication: the recollection has already got the END at hand, through a hold.
_KNOWS_THE_END = -2


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
    """Unhide the points of an event in the lists of running events."""
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
    begin: int, stamp: int, memo_at: Any, memo_since: Any, memo: Any, told_at: Any, passed_at: Any, passed: Any,
    rectangles: Any,
) -> Any:  # fmt: skip
    """Take the publications of a batch from ``begin`` on, until the end or until an atom cannot be decided in memory.

    Returns the slots that are told, the publication of each, the publication reached, and the undecided atom, −1 for
    none. For that atom the caller (``Past.step``) finds the answer in the history, writes it into ``memo`` and calls
    again with that publication as ``begin``.

    For each publication, ``fate`` gets what becomes of it, as numbered in ``kernels/past_records.py``; ``number`` the
    number it is given, unless it has one already; ``first`` the number of the publication its event began with;
    ``times`` start and end of its event, NaN while it has none.

    ``memo_at``, ``told_at`` and ``passed_at`` say for which publication an atom, a rule or a recollection was last
    decided: ``stamp`` and its place in the batch, where earlier batches had smaller stamps.
    """
    out_slot, out_item = np.empty(64, np.int64), np.empty(64, np.int64)
    told, when_base, n_passed = 0, marks[KNOWN], 0
    hidden, hidden_one, n_hidden = np.empty(16, np.int64), np.empty(16), 0
    for k in range(begin, len(start) - 1):
        item = first_item + k
        t, v, kind, row = time[item], version[item], phase[k], values[item]
        if v < born:  # it appeared before the first subscription that asks about the past, and waited
            continue
        gone = marks[GONE]
        while gone < marks[LAST] and when[gone + 1 - when_base] < t - keep:
            gone += 1
        gone = max(gone, marks[LAST] - most)
        marks[GONE] = gone
        # what the publication says of its event
        s, e = row[start_column], row[end_column]
        refused = NOT_REMEMBERED
        spot = spot_of(table, 0, ids[k, 0], ids[k, 1], zeros, event_ids)
        event = table[spot]
        is_known = event >= 0 and (events[event, IS_OVER] == 0 or events[event, LAST_OF] > gone)
        own = nan
        if kind == STARTS:
            if is_known:
                refused = SECOND_START
            elif not isnan(e):
                refused = START_WITH_AN_END
            if isnan(s):
                s = float(t)
            own_end = nan
        elif kind == ENDS:
            if isnan(e):
                e = float(t)
            if not is_known or events[event, IS_OVER] == 1:
                refused = END_WITHOUT_START
            else:
                own = float(events[event, START])
                if e < own:
                    refused = END_BEFORE_START
                elif not isnan(s) and s != own:
                    refused = OTHER_START
            own_end = e
        else:
            if isnan(s):
                s = e
            if isnan(s):
                s = float(t)
            if isnan(e):
                e = s
            if kind == INSTANT and is_known:
                refused = SECOND_START
            elif kind == INSTANT and s != e:
                refused = INSTANT_THAT_LASTS
            own, own_end = s, e
        if refused < 0:
            fate[k] = refused
            continue
        seen_since = v
        if kind == ENDS:  # hide its event while atoms are decided for this END
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
        # which rules are told, and which recollections will remember it
        n_passed, told_before, unsure = 0, told, -1
        this = stamp + k
        for h in range(start[k], start[k + 1]):
            f = hits[h]
            of = recollection_of[f] if f < len(recollection_of) else -1
            if unsure >= 0:
                break
            if of >= 0:
                passed_at[of], passed[n_passed] = this, of
                n_passed += 1
            if f + 1 >= len(of_filter):
                continue
            for c in range(of_filter[f], of_filter[f + 1]):
                clause = clauses[c]
                rule = clause_rule[clause]
                if rule >= 0:
                    if told_at[rule] == this or seen_since < since[rule] or v >= until[rule] or t > closing[rule]:
                        continue
                    asked_since = since[rule]
                else:
                    if passed_at[~rule] == this or seen_since < recollections[~rule, SINCE]:
                        continue
                    asked_since = recollections[~rule, SINCE]
                from_version = -inf if asked_since <= marks[FLOOR] else float(asked_since)
                is_true = True
                for j in range(clause_start[clause], clause_start[clause + 1]):
                    a = literals[j] >> 1
                    if memo_at[a] != this or memo_since[a] != from_version:
                        memo[a] = atom_holds(
                            atoms[a], s, e, own, own_end, t, row, recollections, lists, elders, pool, b5, b10, b15,
                            gone, from_version, rectangles,
                        )  # fmt: skip
                        memo_at[a], memo_since[a] = this, from_version
                        if memo[a] > UNSURE:
                            unsure = a
                    if memo[a] != (FALSE if literals[j] & 1 else TRUE):
                        is_true = False
                        break
                if unsure >= 0:
                    break
                if not is_true:
                    continue
                if rule >= 0:
                    told_at[rule] = this
                    if told == len(out_slot):
                        out_slot = np.concatenate((out_slot, np.empty(told, np.int64)))
                        out_item = np.concatenate((out_item, np.empty(told, np.int64)))
                    out_slot[told], out_item[told] = rule, item
                    told += 1
                else:
                    passed_at[~rule], passed[n_passed] = this, ~rule
                    n_passed += 1
        if unsure >= 0:  # undo all of this publication: the next call begins with it
            for j in range(told_before, told):
                told_at[out_slot[j]] = -1
            for j in range(n_passed):
                passed_at[passed[j]] = -1
            if kind == ENDS:
                _show_again(event, own, events, holds, recollections, lists, marks, pool, b5, b10, b15)
                for j in range(n_hidden):
                    unhide(pool, b5, b10, b15, hidden[j], hidden_one[j])
            return out_slot[:told_before], out_item[:told_before], k, unsure
        # remember it
        if kind != STARTS and kind != ENDS and n_passed == 0:
            continue
        given = max(number[k], marks[LAST] + 1)
        while marks[LAST] < given:  # publications with the numbers between are forgotten already
            marks[LAST] += 1
            when[marks[LAST] - when_base] = t
        number[k], first[k], fate[k] = given, given, BEGINS_EVENT
        times[k, 0], times[k, 1] = own if kind != STARTS else s, own_end
        if kind == STARTS:
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
        elif kind == ENDS:
            for j in range(n_hidden):
                unhide(pool, b5, b10, b15, hidden[j], hidden_one[j])
            was = events[event, VERSION]
            hold = events[event, HEAD]
            while hold >= 0:
                of = holds[hold, HOLD_OF]
                passed_at[of] = _KNOWS_THE_END
                at = recollections[of, ENDED]
                if at >= 0:
                    _append(lists, at, own, e, was, -1, given, pool, b5, b10, b15)
                after = holds[hold, HOLD_NEXT]
                holds[hold, HOLD_NEXT] = marks[FREE]
                marks[FREE] = hold
                hold = after
            for j in range(n_passed):
                of = passed[j]
                if passed_at[of] == _KNOWS_THE_END:
                    continue
                at = recollections[of, ENDED]
                if at >= 0:
                    _append(lists, at, own, e, was, -1, given, pool, b5, b10, b15)
                recollections[of, TOTAL] += 1
                _remember_values(of, row, was, given, value_start, value_list, lists, pool, b5, b10, b15)
            events[event, HEAD], events[event, IS_OVER], events[event, LAST_OF] = -1, 1, given
            fate[k], first[k] = ENDS_EVENT, events[event, FIRST_OF]
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
