"""What of an append is new: ``sifted`` leaves out identities that the log has, and notes where each was met.

``Log`` calls it while it holds the log's lock, and ``differing`` afterwards: whether what was met again says the same
as the row of the log, with equality of values, so that 5 is 5.0. Knows nothing of how files are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import StoreError
from tidegate.records.made_times import made_times
from tidegate.records.row_objects import row_objects
from tidegate.records.validity import valid_until_of, valid_until_of_objects
from tidegate.store.identities import Identities
from tidegate.store.identity_hashes import Hashes, IdentityHashes
from tidegate.store.log_intake import CheckedBatches, MetAgain
from tidegate.store.log_rows import LogRows

__all__ = ["Sifted", "all_new", "differing", "sifted"]

_Rows = NDArray[np.int64]
_NEVER = np.zeros(0, np.int64)
_NO_HASHES = np.zeros((0, 2), np.uint64)
#: Attributes with the context of a trace (W3C Trace Context).
_TRACE = ("traceparent", "tracestate")
#: Rows that are compared at a time.
_SOME = 10_000


class Sifted(NamedTuple):
    """Batches that are to be appended, with the hash of each row, and until when each is valid, if any is."""

    batches: list[list[pa.RecordBatch]]
    hashes: Hashes
    valid_until: _Rows


def sifted(bundles: Sequence[CheckedBatches], identities: Identities, first_row: int, now: int) -> Sifted:
    """What of all arrivals is new. Sets the ``position`` and what is ``met`` of each as they will be once this is
    written; ``first_row`` is where it will begin.
    """
    first = bundles[0]
    if len(first.few) == 1 == len(bundles):
        hashes, row = identities.known_one(first.few[0], now)
        if row < 0:
            first.arrivals[0].ends_at = first_row + 1
            return Sifted([first.batches], hashes, valid_until_of_objects(first.few))
    hashes, valid_until = _identities_of(bundles, identities.hashes)
    rows = identities.known(hashes, now)
    if rows is None:
        return all_new(bundles, first_row)._replace(hashes=hashes, valid_until=valid_until)
    is_new = rows == -1
    ends = first_row + np.cumsum(is_new)
    again = rows < -1
    rows[again] = ends[-2 - rows[again]] - 1
    batches, begin = [], 0
    for bundle in bundles:
        end = begin + sum(arrival.rows for arrival in bundle.arrivals)
        if kept := _split(bundle, is_new[begin:end], rows[begin:end], ends[begin:end]):
            batches.append(kept)
        begin = end
    return Sifted(batches, hashes[is_new], valid_until[is_new] if len(valid_until) else valid_until)


def all_new(bundles: Sequence[CheckedBatches], first_row: int) -> Sifted:
    """The same of a log that knows no identities."""
    for arrival in (arrival for bundle in bundles for arrival in bundle.arrivals):
        first_row += arrival.rows
        arrival.ends_at = first_row
    return Sifted([bundle.batches for bundle in bundles], _NO_HASHES, _NEVER)


def _identities_of(bundles: Sequence[CheckedBatches], of: IdentityHashes) -> tuple[Hashes, _Rows]:
    """The hash of each row of all bundles, and until when each is valid, if any is."""
    if len(bundles) == 1 and (few := bundles[0].few):
        return of.of_objects(few), valid_until_of_objects(few)
    batches = [batch for bundle in bundles for batch in bundle.batches]
    if len(batches) == 1:
        return of.of(batches[0]), valid_until_of(batches[0])
    valid = [valid_until_of(batch) for batch in batches]
    if any(map(len, valid)):
        gaps = (np.zeros(batch.num_rows, np.int64) for batch in batches)
        every = np.concatenate([times if len(times) else gap for times, gap in zip(valid, gaps, strict=True)])
    else:
        every = _NEVER
    return np.concatenate([of.of(batch) for batch in batches]), every


def _split(bundle: CheckedBatches, is_new: NDArray[np.bool_], rows: _Rows, ends: _Rows) -> list[pa.RecordBatch]:
    """The batches of a bundle without what is known; each arrival gets its part of that."""
    kept, begin = [], 0
    known = list[tuple[int, pa.RecordBatch]]()
    for batch in bundle.batches:
        some = is_new[begin : begin + batch.num_rows]
        if some.all():
            kept.append(batch)
        else:
            known.append((begin, batch))
            if some.any():
                kept.append(batch.filter(pa.array(some)))
        begin += batch.num_rows
    first = 0
    for arrival in bundle.arrivals:
        last = first + arrival.rows
        for begin, batch in known:
            low, high = max(first, begin), min(last, begin + batch.num_rows)
            places = low + np.flatnonzero(~is_new[low:high])
            if len(places):
                arrival.met.append(MetAgain(places - first, rows[places], batch.take(pa.array(places - begin))))
        arrival.ends_at = int(ends[last - 1])
        first = last
    return kept


# --- comparing --------------------------------------------------------------------------------------------------------


def differing(met: Sequence[MetAgain], log: LogRows) -> tuple[int, ...]:
    """The places of what differs from what the log has. A row that is no longer in the log is like any other."""
    found = list[int]()
    for again in met:
        for begin in range(0, len(again.rows), _SOME):
            some = slice(begin, begin + _SOME)
            found += _differing(MetAgain(again.places[some], again.rows[some], again.batch[some]), log)
    return tuple(sorted(found))


def _differing(met: MetAgain, log: LogRows) -> Iterator[int]:
    given = pa.Table.from_batches([met.batch])
    try:
        tables = log.tables(met.rows)
    except StoreError:  # a frame was damaged: what is in others is compared one by one
        if len(met.rows) > 1:
            for i in range(len(met.rows)):
                some = slice(i, i + 1)
                yield from _differing(MetAgain(met.places[some], met.rows[some], met.batch[some]), log)
        return
    for places, table in tables:
        mine = given.take(pa.array(places))
        if mine.equals(table, check_metadata=True):
            continue
        pairs = zip(met.places[places].tolist(), _contents(mine), _contents(table), strict=True)
        yield from (place for place, one, other in pairs if not _equal(one, other))


def _contents(table: pa.Table) -> list[dict[str, Any]]:
    """What publications say as plain values: without the times that they were given because they had none, and without
    the trace they belong to, which is another one when a publisher tries again.
    """
    found = row_objects(table)
    for row, is_made in zip(found, made_times(table), strict=True):
        if is_made:
            del row["time"]
        for name in _TRACE:
            row["attributes"].pop(name, None)
    return found


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same: a number is none that is a truth value, and gaps of a series are alike."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other) or (one != one and other != other)
