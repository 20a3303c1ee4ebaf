"""The k best of a sliding window, for many subscriptions at once, each publication told once.

A subscription *tracks* the publications of its window that score at most its *bar*, best first. What scores worse is
rejected by one comparison and stays in the window that all subscriptions of a filter share. When tracked ones expire
until fewer than k are left, the shared window is read again. Three facts keep that exact:

- a publication behind k later and better ones never comes back, so it may be forgotten;
- one that was told once and is not behind k later and better ones ranks at most 2k − 1 (fewer than k were better when
  it was told, and fewer than k came since), so as long as the best 2k stay tracked, what is not tracked was never told;
- subscriptions do not see each other, so each runs through the whole batch by itself, a block of them at a time, while
  their numbers stay in the cache.

(Top-k/w semantics of the OpenIoT deliverable D4.5.1, §2.2.2; in place of its grid over the attribute space, §4.4.2,
bounds of a block's scores reject a publication for 64 subscriptions at a time, whatever the score.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.score import DEPTH, LANES, bounds, scores
from tidegate.kernels.tracked import FOREVER, crowded, deadline, insert, purge, reread, tell

__all__ = ["step_topk"]

#: Publications whose bounds are computed together.
_TILE = 128

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _visits(
    clock: int, filters: Any, of_filter: Any, filter_group: Any, group_block: Any, block_due: Any
) -> NDArray[np.int64]:
    """The groups to look at, each with the place of its filter in ``filters``, or −1 where only the clock has moved."""
    visits, n = np.empty((max(8, len(filters)), 2), np.int64), 0
    if clock > -FOREVER:
        for g in range(len(group_block) - 1):
            for block in range(group_block[g], group_block[g + 1]):
                if block_due[block] <= clock:
                    if n == len(visits):
                        visits = grown(visits)
                    visits[n, 0], visits[n, 1] = g, -1
                    n += 1
                    break
    for d in range(len(filters)):
        if filters[d] + 1 < len(of_filter):
            for j in range(of_filter[filters[d]], of_filter[filters[d] + 1]):
                if n == len(visits):
                    visits = grown(visits)
                visits[n, 0], visits[n, 1] = filter_group[j], d
                n += 1
    return visits[:n]


@_jit
def step_topk(
    strict: bool,
    clock: int,
    first_due: int,
    # the batch: pairs of publications and filters, those of filters[d] at by_filter[start[d]:start[d + 1]]
    filters: NDArray[np.int32],
    start: NDArray[np.int64],
    by_filter: NDArray[np.int64],
    before_batch: NDArray[np.int64],
    # memory
    head: NDArray[np.int64],
    values: NDArray[np.float64],
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    pair_item: NDArray[np.int64],
    pair_before: NDArray[np.int64],
    pair_number: NDArray[np.int64],
    # groups of one filter and one form, their blocks, and the subscriptions of a block side by side
    of_filter: NDArray[np.int64],
    filter_group: NDArray[np.int64],
    group_filter: NDArray[np.int64],
    group_form: NDArray[np.int64],
    group_block: NDArray[np.int64],
    form_start: NDArray[np.int64],
    all_steps: NDArray[np.int32],
    form_counted: NDArray[np.uint8],
    form_column: NDArray[np.int64],
    columns: NDArray[np.int32],
    block_first: NDArray[np.int64],
    block_due: NDArray[np.int64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
    slot_at: NDArray[np.int64],
    numbers: NDArray[np.float64],
    bar: NDArray[np.float64],
    due: NDArray[np.int64],
    # subscriptions by slot
    since: NDArray[np.int64],
    until: NDArray[np.int64],
    end: NDArray[np.int64],
    closing: NDArray[np.int64],
    k_of: NDArray[np.int64],
    width_of: NDArray[np.int64],
    base_of: NDArray[np.int64],
    count: NDArray[np.int64],
    room: NDArray[np.int64],
    wants: NDArray[np.uint8],
    last: NDArray[np.int64],
    # what they track
    score: NDArray[np.float64],
    item: NDArray[np.int64],
    when: NDArray[np.int64],
    told: NDArray[np.uint8],
) -> Any:
    """Give a batch to the subscriptions of its filters, or let windows of time expire up to ``clock``, where it is set.

    Returns slots, moments, publications and scores of what is told, how often a publication had no score for a
    subscription, whether a subscription wants more room, and the first moment at which something may expire, which is
    ``first_due`` before. ``before_batch[d]`` is the last pair of ``filters[d]`` before the batch, ``head[f]`` that of
    filter f after it. ``block_due`` has the first moment at which something of a block may expire.
    """
    visits = _visits(clock, filters, of_filter, filter_group, group_block, block_due)
    out, out_score = np.empty((64, 3), np.int64), np.empty(64)
    n_out, unscored = 0, 0
    stack, scratch = np.empty((DEPTH, LANES)), np.empty((DEPTH, 1))
    low, high = np.empty((DEPTH, _TILE)), np.empty((DEPTH, _TILE))
    most_room = 1
    for visit in range(len(visits)):
        g = visits[visit, 0]
        for i in range(block_first[group_block[g]], block_first[group_block[g + 1]]):
            most_room = max(most_room, room[slot_at[i]])
    spare, spare_item = np.empty(most_room, np.uint8), np.empty(most_room, np.int64)
    rows = np.empty(_TILE + 1, np.int64)
    is_wanting, least_before, least_after = False, FOREVER, FOREVER
    for visit in range(len(visits)):
        g, d = visits[visit, 0], visits[visit, 1]
        form = group_form[g]
        first, final = (start[d], start[d + 1]) if d >= 0 else (np.int64(0), np.int64(0))
        counted = form_counted[form] == 1
        steps = all_steps[form_start[form] : form_start[form + 1]]
        needed = columns[form_column[form] : form_column[form + 1]]
        for block in range(group_block[g], group_block[g + 1]):
            if d < 0 and block_due[block] > clock:
                continue
            a, b = block_first[block], block_first[block + 1]
            top_bar, next_due = -np.inf, FOREVER
            for i in range(a, b):
                top_bar, next_due = max(top_bar, bar[i]), min(next_due, due[i])
            before = before_batch[d] if d >= 0 else head[group_filter[g]]
            for tile in range(first, final + 1, _TILE):
                size = min(_TILE, final - tile)
                for j in range(size):
                    rows[j] = pair_item[by_filter[tile + j]]
                if b - a > 2 and top_bar < np.inf:
                    bounds(steps, values, rows[:size], least[block], most[block], low, high)
                else:
                    low[0, :size] = -np.inf
                # one turn more after the last publication: the clock's
                for j in range(size + 1 if tile + size == final else size):
                    is_clock, is_far = j == size, False
                    if is_clock:
                        if counted or clock < next_due:
                            break
                        pair, p, now = before, -1, clock
                    else:
                        pair, p = by_filter[tile + j], rows[j]
                        now = pair_number[pair] if counted else time[p]
                        is_far = not strict and low[0, j] > top_bar and high[0, j] < np.inf
                        if is_far and now < next_due:
                            before = pair
                            continue
                        if not is_far:
                            missing = False
                            for c in needed:
                                missing |= math.isnan(values[p, c])
                            if missing:
                                stack[0, : b - a] = np.nan
                            else:
                                scores(steps, values, p, numbers, a, b - a, stack)
                    stale = False
                    for i in range(a, b):
                        x, slot = stack[0, i - a], slot_at[i]
                        own, is_scored = not is_clock, False
                        if own and not is_far:
                            if strict:
                                own = since[slot] <= version[p] < until[slot]
                            is_scored = own and math.isfinite(x)
                            if own and not is_scored:
                                unscored += 1
                        if now < due[i] and not (is_scored and x <= bar[i]) and (own or not counted):
                            continue
                        base, k, width = base_of[slot], k_of[slot], width_of[slot]
                        bar_before, due_before, n = bar[i], due[i], count[slot]
                        if n_out + k >= len(out_score):
                            out, out_score = grown(out, n_out + k + 1), grown(out_score, n_out + k + 1)
                        if counted:
                            if not own:  # it does not count for this subscription: its counted window must not move
                                for e in range(n):
                                    when[base + e] += 1
                                if due[i] < FOREVER:
                                    due[i] += 1
                                stale = True
                                continue
                            n = purge(base, n, now - width, score, item, when, told)
                        else:
                            while due[i] <= now:
                                moment = due[i]
                                n = purge(base, n, moment - width, score, item, when, told)
                                if n < k and bar[i] < np.inf:
                                    wants[slot] |= moment - last[slot] < width // 4
                                    is_wanting |= wants[slot] != 0
                                    last[slot] = moment
                                    n, bar[i] = reread(
                                        base, n, max(2 * k, room[slot] // 2), before, 0, False, moment - width,
                                        since[slot], until[slot], steps, values, time, version,
                                        pair_item, pair_before, numbers, i,
                                        score, item, when, told, scratch, spare, spare_item,
                                    )  # fmt: skip
                                if n_out + 2 * k >= len(out_score):
                                    rows_out = n_out + 2 * k + 1
                                    out, out_score = grown(out, rows_out), grown(out_score, rows_out)
                                n_out = tell(
                                    out, out_score, n_out, slot, base, min(n, k), moment, end[slot], score, item, told
                                )
                                due[i] = deadline(base, n, k, width, when)
                            if is_far and low[0, j] <= bar[i]:  # the window was read again, and the bar is higher now
                                scores(steps, values, p, numbers, i, 1, scratch)
                                x, is_scored = scratch[0, 0], True
                        if is_scored and x <= bar[i]:
                            if n == room[slot]:
                                n, bar[i] = crowded(
                                    base, n, room[slot], k, now - width, bar[i], score, item, when, told
                                )
                            if x <= bar[i]:
                                place = insert(base, n, x, p, now, score, item, when, told)
                                n += 1
                                if place < k and not counted:  # the others of the k best were told before
                                    n_out = tell(
                                        out,
                                        out_score,
                                        n_out,
                                        slot,
                                        base + place,
                                        1,
                                        now,
                                        closing[slot],
                                        score,
                                        item,
                                        told,
                                    )
                        if counted:
                            if n < k and bar[i] < np.inf:
                                wants[slot] |= now - last[slot] < width // 4
                                is_wanting |= wants[slot] != 0
                                last[slot] = now
                                n, bar[i] = reread(
                                    base, n, max(2 * k, room[slot] // 2), pair, now, True, now - width,
                                    since[slot], until[slot], steps, values, time, version,
                                    pair_item, pair_before, numbers, i,
                                    score, item, when, told, scratch, spare, spare_item,
                                )  # fmt: skip
                            n_out = tell(
                                out, out_score, n_out, slot, base, min(n, k), time[p], closing[slot], score, item, told
                            )
                        count[slot] = n
                        due[i] = deadline(base, n, k, width, when)
                        next_due, top_bar = min(next_due, due[i]), max(top_bar, bar[i])
                        stale |= (due_before == next_due and due[i] > next_due) or (
                            bar_before == top_bar and bar[i] < top_bar
                        )
                    if stale:
                        top_bar, next_due = -np.inf, FOREVER
                        for i in range(a, b):
                            top_bar, next_due = max(top_bar, bar[i]), min(next_due, due[i])
                    before = pair
            if not counted:
                least_before, block_due[block] = min(least_before, block_due[block]), next_due
                least_after = min(least_after, next_due)
    if least_before <= first_due:  # what was due first may be no more
        least_after = block_due.min()
    elif first_due < least_after:
        least_after = np.int64(first_due)
    told_slot, told_at, told_item = out[:n_out, 0].copy(), out[:n_out, 1].copy(), out[:n_out, 2].copy()
    return told_slot, told_at, told_item, out_score[:n_out].copy(), unscored, is_wanting, least_after
