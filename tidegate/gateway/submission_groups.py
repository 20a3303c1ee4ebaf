"""Submissions that are checked together: many small requests of much the same kind, as one batch of columns.

``checked_together`` takes only what is surely good; the other submissions look at each of their items. What becomes of
an item is the same either way. Knows no log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.gateway.submission import SimpleRecords, Submission
from tidegate.records.uniform_columns import checked_batch
from tidegate.store.log_intake import CheckedLots

__all__ = ["CheckedSubmissions", "checked_together"]

#: Publications that are checked faster as columns than one by one.
_ENOUGH = 48

_Candidate = tuple[Submission, SimpleRecords]


class CheckedSubmissions(NamedTuple):
    """Submissions, and their publications as lots in the same order."""

    submissions: list[Submission]
    lots: CheckedLots


def check_large(submission: Submission) -> None:
    """Look at all of a submission that is so large that others should not wait for that. Called by any thread."""
    for found in _checked(_candidates([submission])):
        submission.checked = found.lots
        return
    submission.prepare()


def checked_together(group: Sequence[Submission]) -> tuple[list[CheckedSubmissions], list[Submission]]:
    """What of a group could be checked together, and the submissions that are left."""
    found = [CheckedSubmissions([one], one.checked) for one in group if one.checked is not None]
    others = [one for one in group if one.checked is None]
    if sum(len(one.items) for one in others) < _ENOUGH:
        return found, others
    found += _checked(_candidates(others))
    taken = {id(one) for some in found for one in some.submissions}
    return found, [one for one in others if id(one) not in taken]


def _candidates(group: Sequence[Submission]) -> list[_Candidate]:
    return [(one, simple) for one in group if (simple := one.simple_records()) is not None]


def _checked(candidates: Sequence[_Candidate]) -> Iterator[CheckedSubmissions]:
    """All of them together; else those together whose first objects have the same names; else each of these alone."""
    if (found := _joined(candidates)) is not None:
        yield found
        return
    by_names: dict[tuple[str, ...], list[_Candidate]] = {}
    for candidate in candidates:
        by_names.setdefault(tuple(candidate[1].records[0]), []).append(candidate)
    for some in by_names.values():
        if len(by_names) > 1 and (found := _joined(some)) is not None:
            yield found
        elif len(some) > 1:
            yield from (alone for one in some if (alone := _joined([one])) is not None)


def _joined(candidates: Sequence[_Candidate]) -> CheckedSubmissions | None:
    records = list(chain.from_iterable(simple.records for _, simple in candidates))
    if len(records) < _ENOUGH or (batch := checked_batch(records)) is None:
        return None
    rows = [len(simple.records) for _, simple in candidates]
    timely = _timely(batch, rows, [one.latest for one, _ in candidates])
    if timely is not None:  # the others will say which of their items are not
        batch = batch.filter(pa.array(np.repeat(timely, rows)))
        candidates = [one for one, is_timely in zip(candidates, timely.tolist(), strict=True) if is_timely]
        rows = [len(simple.records) for _, simple in candidates]
        if not rows:
            return None
    for one, simple in candidates:
        one.use(simple)
    return CheckedSubmissions([one for one, _ in candidates], CheckedLots(batch, rows, _made(candidates, rows)))


def _timely(batch: pa.RecordBatch, rows: Sequence[int], latest: Sequence[int]) -> NDArray[np.bool_] | None:
    """Of which submissions no publication is too late; None if none of any is."""
    times = np.asarray(batch.column("time").cast(pa.int64()))
    if times.max() <= min(latest):
        return None
    starts = np.cumsum([0, *rows[:-1]])
    found: NDArray[np.bool_] = np.maximum.reduceat(times, starts) <= np.array(latest, np.int64)
    return found


def _made(candidates: Sequence[_Candidate], rows: Sequence[int]) -> bool | NDArray[np.bool_]:
    """Which times were made: of none, of all, or of these."""
    count = sum(len(simple.made_times) for _, simple in candidates)
    if count in (0, sum(rows)):
        return count > 0
    made = np.zeros(sum(rows), np.bool_)
    begin = 0
    for (_, simple), length in zip(candidates, rows, strict=True):
        made[[begin + place for place in simple.made_times]] = True
        begin += length
    return made
