"""Room for what ``kernels/past.py`` remembers: which lists are full, and which holds are free.

``patterns/past_storage.py`` calls these functions before a single publication and after subscriptions have gone. The
rows are laid out in ``kernels/past_records.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.kernels.boxes import COUNT, ROOM
from tidegate.kernels.compiled import njit
from tidegate.kernels.growth import grown
from tidegate.kernels.hash_table import spot_of
from tidegate.kernels.past_records import ENDED, FREE, HEAD, HOLD_NEXT, HOLD_OF, RUNNING

__all__ = ["full_lists", "unhold"]

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def full_lists(
    hits: Any, ids: Any, is_end: bool, of_filter: Any, clauses: Any, clause_rule: Any, recollection_of: Any,
    recollections: Any, value_start: Any, value_list: Any, lists: Any, table: Any, zeros: Any, event_ids: Any,
    events: Any, holds: Any,
) -> Any:  # fmt: skip
    """The lists that have no room for a point that a single publication may bring, some of them maybe twice, and how
    many recollections it may pass.
    """
    full, n, passed = np.empty(16, np.int64), 0, 0
    for f in hits:
        own = recollection_of[f] if f < len(recollection_of) else -1
        low, high = (of_filter[f], of_filter[f + 1]) if f + 1 < len(of_filter) else (0, 0)
        for c in range(low - 1, high):
            of = own if c < low else ~clause_rule[clauses[c]]
            if of < 0:
                continue
            passed += 1
            size = value_start[of + 1] - value_start[of]
            for j in range(-2, size):
                at = value_list[value_start[of] + j] if j >= 0 else recollections[of, ENDED if j == -1 else RUNNING]
                if at >= 0 and lists[at, COUNT] >= lists[at, ROOM]:
                    if n == len(full):
                        full = grown(full)
                    full[n] = at
                    n += 1
    event = table[spot_of(table, 0, ids[0, 0], ids[0, 1], zeros, event_ids)] if is_end else -1
    hold = events[event, HEAD] if event >= 0 else -1
    while hold >= 0:
        at = recollections[holds[hold, HOLD_OF], ENDED]
        if at >= 0 and lists[at, COUNT] >= lists[at, ROOM]:
            if n == len(full):
                full = grown(full)
            full[n] = at
            n += 1
        hold = holds[hold, HOLD_NEXT]
    return full[:n], passed


@_jit
def unhold(events: Any, holds: Any, marks: Any, place: Any) -> None:
    """Free the holds of removed recollections; ``place`` has the new number of each recollection, −1 if removed."""
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
