"""Shapes in streams: how near the last readings of each source come to the shapes that are looked for.

``patterns/shape.py`` keeps the arrays and calls ``step_excursions`` for each batch. A *track* has the last readings of
one source for a group of subscriptions (those of one filter and attribute), side by side in a slab of a common pool
(``kernels/tracks.py``), each with the version at which it appeared. A *band* is the subscriptions of a group whose
windows have the same length; a window's normal form is worked out once for them all. Most are then told apart by a few
features (block means, and how much is left), whose distance is never more than that of the normal forms (Keogh et al.
2001; the rest as in Hjaltason and Samet 2003, by the triangle inequality). The others are measured number by number,
exactly as ``kernels/shape.py`` does, until they are too far. An *excursion* is kept while it lasts, in a list that
hangs on its track.
"""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.hash_table import spot_of
from tidegate.kernels.shape import normal_form
from tidegate.kernels.tracks import room_of, unneeded

__all__ = [
    "DONE", "FEATURES", "FREE", "LANES", "NO_EXCURSIONS", "NO_POOL", "NO_TRACKS", "ROWS", "SLACK", "TOLD", "WASTE",
    "features_of", "link_excursions", "step_excursions",
]  # fmt: skip

_jit = njit(cache=True, nogil=True, error_model="numpy")

#: Subscriptions that are looked at together, block means, and features: one more for what they leave.
LANES, _MEANS = 64, 16
FEATURES = _MEANS + 1
#: Rows of a block of lanes: a feature each, and the bar that their product must reach.
ROWS = FEATURES + 1
#: What a lower bound may be off by, for each number and relative to the tolerance: far more than rounding makes of it.
SLACK = 1e-9
#: Why a batch was left: it is done, or there is no room for another track, reading or excursion.
DONE, NO_TRACKS, NO_POOL, NO_EXCURSIONS = 0, 1, 2, 3
#: Marks: places of the pool that belong to no track, the first free excursion (or −1), how many were told.
WASTE, FREE, TOLD = 0, 1, 2


@_jit
def features_of(form: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Block means, each times the root of its block's length, and the length of what they leave of the series."""
    n = len(form)
    blocks = min(n, _MEANS)
    left = 0.0
    for b in range(blocks):
        low, high = b * n // blocks, (b + 1) * n // blocks
        mean = 0.0
        for i in range(low, high):
            mean += form[i]
        mean /= high - low
        for i in range(low, high):
            left += (form[i] - mean) * (form[i] - mean)
        out[b] = mean * sqrt(high - low)
    out[blocks:_MEANS] = 0.0
    out[_MEANS] = sqrt(left)


@_jit
def link_excursions(
    track_open: NDArray[np.int64], excursion_track: NDArray[np.int64], excursion_next: NDArray[np.int64]
) -> None:
    """Link excursions, all of which are open, into the lists of their tracks."""
    track_open[:] = -1
    for e in range(len(excursion_track)):
        excursion_next[e] = track_open[excursion_track[e]]
        track_open[excursion_track[e]] = e


@_jit
def _far(form: Any, series: Any, first: int, limit: float) -> float:
    """How far a normal form is from another: the distance, or infinity as soon as it is sure to be above a limit."""
    stop = limit * limit * (1 + SLACK) + 1e-300
    total = 0.0
    for i in range(len(form)):
        total += (form[i] - series[first + i]) * (form[i] - series[first + i])
        if total > stop:
            return inf
    return sqrt(total)


@_jit
def _follow(
    e: int, s: int, t: int, item: int, far: float,
    time: Any, closing: Any, limit: Any, strict: Any,
    marks: Any, excursions: int, excursion_slot: Any, excursion_track: Any, excursion_next: Any, excursion_item: Any,
    excursion_best: Any, track_open: Any, out: Any, out_distance: Any,
) -> int:  # fmt: skip
    """Open, go on with or end the excursion ``e`` of a subscription (−1: none is open) after one more window.

    Returns how many excursions there are. One that ends is told, if the subscription is still active.
    """
    is_near = far < limit[s] if strict[s] else far <= limit[s]
    if e >= 0:
        if not is_near:
            if time[item] <= closing[s]:
                n = marks[TOLD]
                out[n, 0], out[n, 1], out[n, 2], out[n, 3] = s, time[item], excursion_item[e], item
                out_distance[n] = excursion_best[e]
                marks[TOLD] += 1
            excursion_slot[e] = -1  # ``step_excursions`` takes it off its track's list at the end of the reading
        elif far < excursion_best[e]:
            excursion_best[e], excursion_item[e] = far, item
    elif is_near:
        e = marks[FREE]
        if e >= 0:
            marks[FREE] = excursion_next[e]
        else:
            e = excursions
            excursions += 1
        excursion_slot[e], excursion_track[e], excursion_item[e], excursion_best[e] = s, t, item, far
        excursion_next[e] = track_open[t]
        track_open[t] = e
    return excursions


@_jit
def step_excursions(
    first_item: int,
    start: NDArray[np.int64],
    hits: NDArray[np.int32],
    time: NDArray[np.int64],
    version: NDArray[np.int64],
    source: NDArray[np.uint64],
    values: NDArray[np.float64],
    # groups, bands and blocks
    longest: int,
    filter_start: NDArray[np.int64],
    filter_group: NDArray[np.int64],
    group_column: NDArray[np.int64],
    group_longest: NDArray[np.int64],
    group_young: NDArray[np.int64],
    group_tracks: NDArray[np.int64],
    group_band: NDArray[np.int64],
    band_length: NDArray[np.int64],
    band_place: NDArray[np.int64],
    band_block: NDArray[np.int64],
    band_since: NDArray[np.int64],
    band_until: NDArray[np.int64],
    open_at: NDArray[np.int64],
    opened: NDArray[np.int64],
    block_of: NDArray[np.int64],
    cells: NDArray[np.float64],
    slot_at: NDArray[np.int64],
    place_of: NDArray[np.int64],
    # subscriptions
    since: NDArray[np.int64],
    until: NDArray[np.int64],
    closing: NDArray[np.int64],
    limit: NDArray[np.float64],
    strict: NDArray[np.uint8],
    first: NDArray[np.int64],
    series: NDArray[np.float64],
    # tracks
    small: int,
    table: NDArray[np.int64],
    tracks: int,
    track_group: NDArray[np.int64],
    track_source: NDArray[np.uint64],
    track_base: NDArray[np.int64],
    track_room: NDArray[np.int64],
    track_count: NDArray[np.int64],
    track_peak: NDArray[np.int64],
    track_tangle: NDArray[np.int64],
    track_open: NDArray[np.int64],
    pool: int,
    pool_value: NDArray[np.float64],
    pool_version: NDArray[np.int64],
    # excursions
    marks: NDArray[np.int64],
    excursions: int,
    excursion_slot: NDArray[np.int64],
    excursion_track: NDArray[np.int64],
    excursion_next: NDArray[np.int64],
    excursion_item: NDArray[np.int64],
    excursion_best: NDArray[np.float64],
    # where to go on
    begin: int,
    begin_hit: int,
    begin_group: int,
) -> Any:
    """Give a batch to all tracks, until it is done or an array has become too short.

    Returns what is told (slot, moment, the reading at the best window, the reading after the last; and distances), how
    many tracks, readings of the pool and excursions there are, the reason to return, and publication, hit and group to
    go on with. ``small`` is the room of a track at first, ``longest`` the length of the longest window. ``open_at`` has
    an excursion for each place of ``slot_at``, ``opened`` how many are open for each block; before and after they are
    all −1 and 0.
    """
    out, out_distance = np.empty((64, 4), np.int64), np.empty(64)
    marks[TOLD] = 0
    forms, others, feature, product = np.empty(longest), np.empty(longest), np.empty(FEATURES), np.empty(LANES)
    for p in range(begin, len(start) - 1):
        item = first_item + p
        v = version[item]
        for h in range(max(start[p], begin_hit), start[p + 1]):
            if hits[h] + 1 >= len(filter_start):
                continue
            for j in range(max(filter_start[hits[h]], begin_group), filter_start[hits[h] + 1]):
                g = filter_group[j]
                x = values[item, group_column[g]]
                if not isfinite(x):
                    continue
                members = band_place[group_band[g + 1]] - band_place[group_band[g]]
                ended = 2**62
                for b in range(group_band[g], group_band[g + 1]):
                    ended = min(ended, band_until[b])

                # Whether there is room is found out before anything is changed, so that the caller can go on from here.
                if excursions + members > len(excursion_slot):
                    return out, out_distance, tracks, pool, excursions, NO_EXCURSIONS, p, h, j
                if marks[TOLD] + members > len(out):
                    more = max(members, len(out))
                    out = np.concatenate((out, np.empty((more, 4), np.int64)))
                    out_distance = np.concatenate((out_distance, np.empty(more)))
                target = room_of(group_longest[g])
                one, two = source[item, 0], source[item, 1]
                spot = spot_of(table, g, one, two, track_group, track_source)
                t = table[spot]
                if t < 0:
                    if tracks == len(track_group) or 2 * tracks >= len(table):
                        return out, out_distance, tracks, pool, excursions, NO_TRACKS, p, h, j
                    room = min(small, target)
                    if pool + room > len(pool_value):
                        return out, out_distance, tracks, pool, excursions, NO_POOL, p, h, j
                    t = table[spot] = tracks
                    tracks += 1
                    track_group[t], track_source[t, 0], track_source[t, 1] = g, one, two
                    track_base[t], track_room[t], track_count[t] = pool, room, 0
                    track_peak[t], track_tangle[t], track_open[t] = -(2**62), -1, -1
                    pool += room
                    group_tracks[g] += 1
                base, count, room = track_base[t], track_count[t], track_room[t]
                if count == room:
                    gone = unneeded(base, count, group_longest[g], ended, pool_version)
                    if gone > room >> 4:
                        count -= gone
                        for i in range(base, base + count):
                            pool_value[i], pool_version[i] = pool_value[i + gone], pool_version[i + gone]
                        track_tangle[t] = max(track_tangle[t] - gone, -1)
                    else:
                        larger = min(2 * room, target) if room < target else 2 * room
                        if pool + larger > len(pool_value):
                            return out, out_distance, tracks, pool, excursions, NO_POOL, p, h, j
                        for i in range(count):
                            pool_value[pool + i], pool_version[pool + i] = pool_value[base + i], pool_version[base + i]
                        marks[WASTE] += room
                        track_base[t] = base = pool
                        track_room[t] = larger
                        pool += larger

                # The reading itself.
                known = min(v, group_young[g])
                counts = known >= track_peak[t]
                if counts:
                    track_peak[t] = known
                else:
                    track_tangle[t] = count
                pool_value[base + count], pool_version[base + count] = x, 2 * v + counts
                count += 1
                track_count[t] = count
                e = track_open[t]
                has_open = e >= 0
                while e >= 0:
                    place = place_of[excursion_slot[e]]
                    open_at[place] = e
                    opened[block_of[place]] += 1
                    e = excursion_next[e]

                for b in range(group_band[g], group_band[g + 1]):
                    n = band_length[b]
                    if n > count:  # the shortest come first
                        break
                    begins = base + count - n
                    low = high = pool_version[begins]
                    for i in range(begins, base + count):
                        low, high = min(low, pool_version[i]), max(high, pool_version[i])
                    low, high = low >> 1, high >> 1
                    form = forms[:n]
                    has_shape = normal_form(pool_value[begins : base + count], form)
                    half = 0.0
                    if has_shape:
                        features_of(form, feature)
                        for k in range(FEATURES):
                            half += feature[k] * feature[k]
                        half /= 2
                    for block in range(band_block[b], band_block[b + 1]):
                        row = cells[block]
                        passing = 0
                        if has_shape:
                            product[:] = 0.0
                            for k in range(FEATURES):
                                f = feature[k]
                                for lane in range(LANES):
                                    product[lane] += f * row[k * LANES + lane]
                            for lane in range(LANES):
                                passing += not product[lane] < row[FEATURES * LANES + lane] + half
                        if not passing and not opened[block]:
                            continue
                        place = band_place[b] + (block - band_block[b]) * LANES
                        for lane in range(min(LANES, band_place[b + 1] - place)):
                            e = open_at[place + lane]
                            if e < 0 and (not has_shape or product[lane] < row[FEATURES * LANES + lane] + half):
                                continue
                            s = slot_at[place + lane]
                            if since[s] > low or until[s] <= high:
                                continue
                            far = _far(form, series, first[s], limit[s]) if has_shape else inf
                            excursions = _follow(
                                e, s, t, item, far, time, closing, limit, strict, marks, excursions,
                                excursion_slot, excursion_track, excursion_next, excursion_item, excursion_best,
                                track_open, out, out_distance,
                            )  # fmt: skip
                    # For subscriptions whose windows may contain readings that are not theirs, their own are picked.
                    if (track_tangle[t] >= 0 and band_since[b] > low) or band_until[b] <= high:
                        other = others[:n]
                        for place in range(band_place[b], band_place[b + 1]):
                            s = slot_at[place]
                            if (since[s] <= low and high < until[s]) or not since[s] <= v < until[s]:
                                continue
                            i, missing = base + count - 1, n
                            while i >= base and missing:
                                if since[s] <= pool_version[i] >> 1 < until[s]:
                                    missing -= 1
                                    other[missing] = pool_value[i]
                                i -= 1
                            if missing:
                                continue
                            far = _far(form, series, first[s], limit[s]) if normal_form(other, form) else inf
                            excursions = _follow(
                                open_at[place], s, t, item, far, time, closing, limit, strict, marks, excursions,
                                excursion_slot, excursion_track, excursion_next, excursion_item, excursion_best,
                                track_open, out, out_distance,
                            )  # fmt: skip

                # ``open_at`` and ``opened`` are cleared, and excursions that ended are freed.
                before, e = -1, track_open[t]
                while e >= 0:
                    after = excursion_next[e]
                    if excursion_slot[e] < 0:
                        if before < 0:
                            track_open[t] = after
                        else:
                            excursion_next[before] = after
                        excursion_next[e], excursion_item[e] = marks[FREE], -1
                        marks[FREE] = e
                    else:
                        before = e
                    e = after
                if has_open:
                    open_at[band_place[group_band[g]] : band_place[group_band[g + 1]]] = -1
                    opened[band_block[group_band[g]] : band_block[group_band[g + 1]]] = 0
            begin_group = 0
        begin_hit = 0
    return out, out_distance, tracks, pool, excursions, DONE, len(start) - 1, 0, 0
