"""Arrow tables of notifications, flat or grouped, from the owners per publication or from what patterns raised.

The engine and the select and combine steps of the pipeline on Spark call these functions last. They know nothing of how
the owners were found.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index.batch import Batch, ObjectBatch, key_of, text_buffers
from tidegate.index.catalogue import Catalogue
from tidegate.index.index import Matches
from tidegate.kernels.matched_owners import notification_ids, notification_ids_of_one, text_hashes
from tidegate.model import FLAT, GROUPED, Notification, Publication, moment
from tidegate.patterns import Raised

__all__ = ["BY_TIME", "by_time", "flat", "grouped", "listed", "raised_flat", "raised_grouped"]

_NOTHING = FLAT.empty_table()
_INSTANT = pa.timestamp("us", "UTC")


def grouped(batch: Batch, matches: Matches, catalogue: Catalogue) -> pa.Table:
    """A row per publication that matched something, with the ids of its subscriptions in no particular order."""
    some = np.flatnonzero(np.diff(matches.start))
    start = np.append(matches.start[some], matches.start[-1])
    ids = catalogue.texts("id", matches.owners)
    rows = pa.array(some)
    times = pa.array(batch.times()[some], _INSTANT)
    lists = pa.LargeListArray.from_arrays(pa.array(start), ids)
    return pa.table([batch.ids().take(rows), times, lists], ["publication_id", "time", "subscription_ids"]).cast(
        GROUPED
    )


def listed(batch: ObjectBatch, matches: Matches, catalogue: Catalogue) -> list[Notification]:
    """The notifications of ``flat`` as objects, without a table."""
    found: list[Notification] = []
    if len(matches.owners):
        ends = matches.start.tolist()
        for publication, when, begin, end in zip(batch.publications, batch.micros, ends[:-1], ends[1:], strict=True):
            if begin < end:
                found += _listed_of_one(publication, when, matches.owners[begin:end], catalogue)
        if batch.length > 1:
            found.sort(key=BY_TIME)
    return found


def _listed_of_one(
    publication: Publication, when: int, owners: NDArray[np.int32], catalogue: Catalogue
) -> list[Notification]:
    digits = notification_ids_of_one(np.frombuffer(key_of(publication), np.uint8), when, owners, catalogue.hashes)
    text, made = str(digits, "ascii"), Notification._make
    time, ids = moment(when), (publication.id,)
    found = [
        made((text[32 * k : 32 * k + 32], name[0], name[1], time, ids, None, None))
        for k, name in enumerate(catalogue.names(owners))
    ]
    found.sort(key=_BY_SUBSCRIPTION)
    return found


_BY_SUBSCRIPTION, BY_TIME = attrgetter("subscription"), attrgetter("time", "subscription")


def flat(batch: Batch, matches: Matches, catalogue: Catalogue) -> pa.Table:
    """A row per notification, ordered by time and subscription id."""
    start, owners = matches
    if not len(owners):
        return _NOTHING
    rows = np.repeat(np.arange(batch.length), np.diff(start))
    ids = catalogue.texts("id", owners)
    times = batch.times()
    digits = notification_ids(start, catalogue.hashes[owners], batch.hashes(), times)
    offsets = np.arange(len(owners) + 1, dtype=np.int32) * 32
    names = pa.StringArray.from_buffers(len(owners), pa.py_buffer(offsets), pa.py_buffer(digits))
    publications = batch.ids().take(pa.array(rows)).cast(pa.string())
    columns = [
        names,
        ids.cast(pa.string()),
        catalogue.texts("subscriber", owners).cast(pa.string()),
        pa.array(times[rows], _INSTANT),
        pa.ListArray.from_arrays(pa.array(np.arange(len(owners) + 1, dtype=np.int32)), publications),
        pa.nulls(len(owners), pa.float64()),
        pa.nulls(len(owners), pa.float64()),
    ]
    return by_time(pa.table(columns, FLAT))


def by_time(notifications: pa.Table) -> pa.Table:
    """Notifications ordered by time and subscription id; those equal in both stay in their order."""
    if notifications.num_rows < 2:
        return notifications
    return notifications.sort_by([("time", "ascending"), ("subscription_id", "ascending")])


def raised_flat(raised: Raised, catalogue: Catalogue, numbers: NDArray[np.int32]) -> pa.Table:
    """What patterns raised, a row per notification; ``numbers`` are those of the subscriptions in the catalogue."""
    n = len(raised)
    ids = catalogue.texts("id", numbers)
    hashes = text_hashes(*text_buffers(ids)[:2])
    digits = notification_ids(np.arange(n + 1), hashes, raised.digest, raised.moment)
    offsets = np.arange(n + 1, dtype=np.int32) * 32
    columns = [
        pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(digits)),
        ids.cast(pa.string()),
        catalogue.texts("subscriber", numbers).cast(pa.string()),
        pa.array(raised.moment, _INSTANT),
        pa.ListArray.from_arrays(pa.array(raised.start.astype(np.int32)), raised.ids.cast(pa.string())),
        pa.array(raised.score, pa.float64(), from_pandas=True),
        pa.array(raised.distance, pa.float64(), from_pandas=True),
    ]
    return by_time(pa.table(columns, FLAT))


def raised_grouped(raised: Raised, catalogue: Catalogue, numbers: NDArray[np.int32]) -> pa.Table:
    """What patterns raised, a row per moment and publication that raised something, with the subscriptions' ids."""
    if not len(raised):
        return GROUPED.empty_table()
    codes = np.asarray(raised.raised.dictionary_encode().indices.fill_null(-1))
    order = np.lexsort((codes, raised.moment))
    moment, code = raised.moment[order], codes[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (moment[1:] != moment[:-1]) | (code[1:] != code[:-1])
    starts = np.append(np.flatnonzero(is_first), len(order))
    rows = pa.array(order[starts[:-1]])
    lists = pa.LargeListArray.from_arrays(pa.array(starts), catalogue.texts("id", numbers[order]))
    times = pa.array(moment[starts[:-1]], _INSTANT)
    return pa.table([raised.raised.take(rows), times, lists], GROUPED.names).cast(GROUPED)
