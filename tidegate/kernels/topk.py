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
from tidegate.kernels.score import DEPTH, LANES, bounds, scores

__all__ = ["FOREVER", "step_topk"]

#: A moment, or a place in a filter's sequence, that never comes.
FOREVER = np.int64(2**62)

#: Publications whose bounds are computed together.
_TILE = 128

_jit = njit(cache=True, nogil=True, error_model="numpy")
# What is called for every publication that counts is written into its callers: handing over thirty arrays takes longer
# than what is done with them.
_within = njit(nogil=True, error_model="numpy", inline="always")


@_within
def _purge(base: int, n: int, bound: int, score: Any, item: Any, when: Any, told: Any) -> int:
    """Drop what came at ``bound`` or before; how many are left."""
    kept = 0
    for i in range(n):
        if when[base + i] > bound:
            if kept != i:
                score[base + kept], item[base + kept] = score[base + i], item[base + i]
                when[base + kept], told[base + kept] = when[base + i], told[base + i]
            kept += 1
    return kept


@_jit
def _drop_beaten(base: int, n: int, k: int, score: Any, item: Any, when: Any, told: Any) -> int:
    """Drop what has k later and better ones before it; how many are left."""
    kept = 0
    for i in range(n):
        better = 0
        for j in range(kept):  # what was dropped is itself behind k that are kept and beat this one too
            if item[base + j] > item[base + i]:
                better += 1
                if better == k:
                    break
        if better < k:
            if kept != i:
                score[base + kept], item[base + kept] = score[base + i], item[base + i]
                when[base + kept], told[base + kept] = when[base + i], told[base + i]
            kept += 1
    return kept


@_within
def _insert(base: int, n: int, x: float, what: int, at: int, score: Any, item: Any, when: Any, told: Any) -> int:
    """Put the newest publication in its place, before what scores the same; the place."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if score[base + middle] < x:
            low = middle + 1
        else:
            high = middle
    for i in range(n, low, -1):
        score[base + i], item[base + i] = score[base + i - 1], item[base + i - 1]
        when[base + i], told[base + i] = when[base + i - 1], told[base + i - 1]
    score[base + low], item[base + low], when[base + low], told[base + low] = x, what, at, 0
    return low


@_jit
def _reread(
    base: int,
    n: int,
    room: int,
    pair: int,
    now: int,
    counted: bool,
    bound: int,
    since: int,
    until: int,
    steps: Any,
    values: Any,
    time: Any,
    version: Any,
    pair_item: Any,
    pair_before: Any,
    numbers: Any,
    position: int,
    score: Any,
    item: Any,
    when: Any,
    told: Any,
    stack: Any,
    spare: Any,
    spare_item: Any,
) -> Any:
    """Track the best of the window again, at most ``room``: how many, and the bar.

    ``pair`` is the filter's last pair so far; ``bound`` the last moment, or place, that is not in the window any more.
    """
    for i in range(n):  # at most k − 1 are left, and whether they were told must be kept
        spare_item[i], spare[i] = item[base + i], told[base + i]
    found, seen, left_out = 0, 0, False
    while pair >= 0:
        p = pair_item[pair]
        own = since <= version[p] < until
        at = now - seen if counted else time[p]
        if at <= bound:
            break
        if own:
            seen += 1
            scores(steps, values, p, numbers, position, 1, stack)
            x = stack[0, 0]
            if math.isfinite(x) and (found < room or x < score[base + found - 1]):
                low, high = 0, found  # older than all before: after what scores the same
                while low < high:
                    middle = (low + high) // 2
                    if score[base + middle] <= x:
                        low = middle + 1
                    else:
                        high = middle
                if found == room:
                    found -= 1
                    left_out = True
                for i in range(found, low, -1):
                    score[base + i], item[base + i] = score[base + i - 1], item[base + i - 1]
                    when[base + i], told[base + i] = when[base + i - 1], told[base + i - 1]
                was_told = 0
                for i in range(n):
                    if spare_item[i] == p:
                        was_told = spare[i]
                score[base + low], item[base + low], when[base + low], told[base + low] = x, p, at, was_told
                found += 1
            elif math.isfinite(x):
                left_out = True
        pair = pair_before[pair]
    return found, score[base + found - 1] if left_out else np.inf


@_within
def _deadline(base: int, n: int, k: int, width: int, when: Any) -> Any:
    """When the first of the k best leaves the window."""
    first = FOREVER
    for i in range(min(n, k)):
        first = min(first, when[base + i] + width)
    return first


@_jit
def _grown(out: NDArray[np.int64], out_score: NDArray[np.float64], needed: int) -> Any:
    rows = max(2 * len(out), needed)
    more, more_scores = np.empty((rows, 3), np.int64), np.empty(rows)
    more[: len(out)], more_scores[: len(out)] = out, out_score
    return more, more_scores


@_within
def _tell(
    out: Any, out_score: Any, n: int, slot: int, base: int, best: int, at: int, end: int,
    score: Any, item: Any, told: Any,
) -> int:  # fmt: skip
    """Note the k best that were not told yet; there is room for k."""
    for i in range(best):
        if told[base + i] == 0:
            told[base + i] = 1
            if at <= end:
                out[n, 0], out[n, 1], out[n, 2], out_score[n] = slot, at, item[base + i], score[base + i]
                n += 1
    return n


@_jit
def _crowded(
    base: int, n: int, room: int, k: int, bound: int, bar: float, score: Any, item: Any, when: Any, told: Any
) -> Any:
    """Make room for one more where all is taken: how many are left, and the bar."""
    n = _purge(base, n, bound, score, item, when, told)
    if n == room:
        n = _drop_beaten(base, n, k, score, item, when, told)
    fewer = max(2 * k, room // 2)
    if n > fewer and 4 * n > 3 * room:
        n, bar = fewer, score[base + fewer - 1]
    return n, bar


@_jit
def step_topk(
    strict: bool,
    clock: int,
    # the batch: pairs of publications and filters, those of filter f at by_filter[start[f]:start[f + 1]]
    start: NDArray[np.int64],
    by_filter: NDArray[np.int64],
    head: NDArray[np.int64],
    # memory
    values: NDArray[np.float64],
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    pair_item: NDArray[np.int64],
    pair_before: NDArray[np.int64],
    pair_number: NDArray[np.int64],
    # groups of one filter and one form, their blocks, and the subscriptions of a block side by side
    group_filter: NDArray[np.int64],
    group_form: NDArray[np.int64],
    group_block: NDArray[np.int64],
    form_start: NDArray[np.int64],
    all_steps: NDArray[np.int32],
    form_counted: NDArray[np.uint8],
    form_column: NDArray[np.int64],
    columns: NDArray[np.int32],
    block_first: NDArray[np.int64],
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
    """Give a batch to every subscription; slots, moments, publications and scores of what is told, and the unscored.

    ``head[f]`` is the filter's last pair before the batch. After the batch windows of time expire up to ``clock``.
    """
    out, out_score = np.empty((1024, 3), np.int64), np.empty(1024)
    n_out, unscored = 0, 0
    stack, scratch = np.empty((DEPTH, LANES)), np.empty((DEPTH, 1))
    low, high = np.empty((DEPTH, _TILE)), np.empty((DEPTH, _TILE))
    most_room = 1
    for s in range(len(room)):
        most_room = max(most_room, room[s])
    spare, spare_item = np.empty(most_room, np.uint8), np.empty(most_room, np.int64)
    rows = np.empty(_TILE + 1, np.int64)
    for g in range(len(group_filter)):
        f, form = group_filter[g], group_form[g]
        first, final = start[f], start[f + 1]
        counted = form_counted[form] == 1
        if first == final and (counted or clock == -FOREVER):
            continue
        steps = all_steps[form_start[form] : form_start[form + 1]]
        needed = columns[form_column[form] : form_column[form + 1]]
        for block in range(group_block[g], group_block[g + 1]):
            a, b = block_first[block], block_first[block + 1]
            top_bar, next_due = -np.inf, FOREVER
            for i in range(a, b):
                top_bar, next_due = max(top_bar, bar[i]), min(next_due, due[i])
            before = head[f]
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
                            out, out_score = _grown(out, out_score, n_out + k + 1)
                        if counted:
                            if not own:  # one more publication lies between what is tracked and now, but not for us
                                for e in range(n):
                                    when[base + e] += 1
                                if due[i] < FOREVER:
                                    due[i] += 1
                                stale = True
                                continue
                            n = _purge(base, n, now - width, score, item, when, told)
                        else:
                            while due[i] <= now:
                                moment = due[i]
                                n = _purge(base, n, moment - width, score, item, when, told)
                                if n < k and bar[i] < np.inf:
                                    wants[slot] |= moment - last[slot] < width // 4
                                    last[slot] = moment
                                    n, bar[i] = _reread(
                                        base, n, max(2 * k, room[slot] // 2), before, 0, False, moment - width,
                                        since[slot], until[slot], steps, values, time, version,
                                        pair_item, pair_before, numbers, i,
                                        score, item, when, told, scratch, spare, spare_item,
                                    )  # fmt: skip
                                if n_out + 2 * k >= len(out_score):
                                    out, out_score = _grown(out, out_score, n_out + 2 * k + 1)
                                n_out = _tell(
                                    out, out_score, n_out, slot, base, min(n, k), moment, end[slot], score, item, told
                                )
                                due[i] = _deadline(base, n, k, width, when)
                            if is_far and low[0, j] <= bar[i]:  # the window was read again, and the bar is higher now
                                scores(steps, values, p, numbers, i, 1, scratch)
                                x, is_scored = scratch[0, 0], True
                        if is_scored and x <= bar[i]:
                            if n == room[slot]:
                                n, bar[i] = _crowded(
                                    base, n, room[slot], k, now - width, bar[i], score, item, when, told
                                )
                            if x <= bar[i]:
                                place = _insert(base, n, x, p, now, score, item, when, told)
                                n += 1
                                if place < k and not counted:  # the others of the k best were told before
                                    n_out = _tell(
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
                                last[slot] = now
                                n, bar[i] = _reread(
                                    base, n, max(2 * k, room[slot] // 2), pair, now, True, now - width,
                                    since[slot], until[slot], steps, values, time, version,
                                    pair_item, pair_before, numbers, i,
                                    score, item, when, told, scratch, spare, spare_item,
                                )  # fmt: skip
                            n_out = _tell(
                                out, out_score, n_out, slot, base, min(n, k), time[p], closing[slot], score, item, told
                            )
                        count[slot] = n
                        due[i] = _deadline(base, n, k, width, when)
                        next_due, top_bar = min(next_due, due[i]), max(top_bar, bar[i])
                        stale |= (due_before == next_due and due[i] > next_due) or (
                            bar_before == top_bar and bar[i] < top_bar
                        )
                    if stale:
                        top_bar, next_due = -np.inf, FOREVER
                        for i in range(a, b):
                            top_bar, next_due = max(top_bar, bar[i]), min(next_due, due[i])
                    before = pair
    told_slot, told_at, told_item = out[:n_out, 0].copy(), out[:n_out, 1].copy(), out[:n_out, 2].copy()
    return told_slot, told_at, told_item, out_score[:n_out].copy(), unscored
