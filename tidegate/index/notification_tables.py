"""Arrow tables of notifications, flat or grouped, from the owners per publication or from what patterns raised.

The engine and the select and combine steps of the pipeline on Spark call these functions last. They know nothing of how
the owners were found.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index.batch import Batch, ObjectBatch, phase_number, text_buffers
from tidegate.index.catalogue import IDS_OF_DICTIONARY, Catalogue
from tidegate.index.index import Matches
from tidegate.index.small_tables import grouped_of
from tidegate.kernels.identity import notification_ids, notification_ids_of_one, text_hashes
from tidegate.model import FLAT, GROUPED, Notification, Publication, moment
from tidegate.patterns import Raised

__all__ = [
    "GROUPED_AS_DICTIONARY",
    "flat",
    "flat_with_raised",
    "grouped",
    "grouped_with_raised",
    "listed",
    "raised_flat",
    "raised_grouped",
    "raised_ids",
    "with_raised",
]

_NOTHING = FLAT.empty_table()
#: Notifications up to which objects make a table sooner than arrays do.
_AS_OBJECTS = 256
#: ``GROUPED`` with ids that are numbers in a dictionary of all ids.
GROUPED_AS_DICTIONARY = GROUPED.set(2, pa.field("subscription_ids", pa.large_list(IDS_OF_DICTIONARY)))
_INSTANT = pa.timestamp("us", "UTC")


def grouped(batch: Batch, matches: Matches, catalogue: Catalogue, as_dictionary: bool = False) -> pa.Table:
    """A row per publication that matched something, with the ids of its subscriptions in no particular order.

    With ``as_dictionary`` the ids are of a dictionary type, so that no string is made for a match.
    """
    start, owners = matches
    if isinstance(batch, ObjectBatch) and len(owners) <= _AS_OBJECTS and not as_dictionary:
        ids, ends = [name[0] for name in catalogue.names(owners)], start.tolist()
        parts = zip(batch.publications, batch.micros, ends[:-1], ends[1:], strict=True)
        return grouped_of([(p.id, when, ids[begin:end]) for p, when, begin, end in parts if begin < end])
    some = np.flatnonzero(np.diff(start))
    rows = pa.array(some)
    times = pa.array(batch.times()[some], _INSTANT)
    edges = pa.array(np.append(start[some], start[-1]))
    lists = pa.LargeListArray.from_arrays(edges, _ids(catalogue, owners, as_dictionary))
    table = pa.table([batch.ids().take(rows), times, lists], GROUPED.names)
    return table.cast(GROUPED_AS_DICTIONARY if as_dictionary else GROUPED)


def _ids(catalogue: Catalogue, numbers: NDArray[np.int32], as_dictionary: bool) -> pa.Array:
    return catalogue.ids_of_dictionary(numbers) if as_dictionary else catalogue.texts("id", numbers)


def listed(batch: ObjectBatch, matches: Matches, catalogue: Catalogue) -> list[Notification]:
    """The notifications of ``flat`` as objects, without a table."""
    found: list[Notification] = []
    if len(matches.owners):
        ends = matches.start.tolist()
        for publication, when, begin, end in zip(batch.publications, batch.micros, ends[:-1], ends[1:], strict=True):
            if begin < end:
                found += _listed_of_one(publication, when, matches.owners[begin:end], catalogue)
        if batch.length > 1:
            found.sort(key=_BY_TIME)
    return found


def _listed_of_one(
    publication: Publication, when: int, owners: NDArray[np.int32], catalogue: Catalogue
) -> list[Notification]:
    id, phase = publication.id.encode(), 0 if publication.phase is None else phase_number(publication)
    letters = np.frombuffer(id + publication.source.encode(), np.uint8)
    digits = notification_ids_of_one(letters, len(id), phase, when, owners, catalogue.hashes)
    text, made = str(digits, "ascii"), Notification._make
    time, ids = moment(when), (publication.id,)
    found = [
        made((text[32 * k : 32 * k + 32], name[0], name[1], time, ids, None, None))
        for k, name in enumerate(catalogue.names(owners))
    ]
    found.sort(key=_BY_SUBSCRIPTION)
    return found


_BY_SUBSCRIPTION, _BY_TIME = attrgetter("subscription"), attrgetter("time", "subscription")


def flat(batch: Batch, matches: Matches, catalogue: Catalogue) -> pa.Table:
    """A row per notification, ordered by time and subscription id."""
    start, owners = matches
    if not len(owners):
        return _NOTHING
    some = np.flatnonzero(np.diff(start))
    edges, times = np.append(start[some], start[-1]), batch.times()[some]
    rows = np.repeat(np.arange(len(some)), np.diff(edges))
    ids = catalogue.texts("id", owners)
    digits = notification_ids(edges, catalogue.hashes[owners], batch.hashes(some)[0], times)
    offsets = np.arange(len(owners) + 1, dtype=np.int32) * 32
    names = pa.StringArray.from_buffers(len(owners), pa.py_buffer(offsets), pa.py_buffer(digits))
    publications = batch.ids().take(pa.array(some[rows])).cast(pa.string())
    columns = [
        names,
        ids.cast(pa.string()),
        catalogue.texts("subscriber", owners).cast(pa.string()),
        pa.array(times[rows], _INSTANT),
        pa.ListArray.from_arrays(pa.array(np.arange(len(owners) + 1, dtype=np.int32)), publications),
        pa.nulls(len(owners), pa.float64()),
        pa.nulls(len(owners), pa.float64()),
    ]
    return _by_time(pa.table(columns, FLAT))


def _by_time(notifications: pa.Table) -> pa.Table:
    """Notifications ordered by time and subscription id; those equal in both stay in their order."""
    if notifications.num_rows < 2:
        return notifications
    return notifications.sort_by([("time", "ascending"), ("subscription_id", "ascending")])


def raised_flat(raised: Raised, catalogue: Catalogue, numbers: NDArray[np.int32]) -> pa.Table:
    """What patterns raised, a row per notification; ``numbers`` are those of the subscriptions in the catalogue."""
    n = len(raised)
    ids = catalogue.texts("id", numbers)
    digits = _digits(raised, ids)
    offsets = np.arange(n + 1, dtype=np.int32) * 32
    columns = [
        pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(digits)),
        ids.cast(pa.string()),
        catalogue.texts("subscriber", numbers).cast(pa.string()),
        pa.array(raised.moment, _INSTANT),
        pa.ListArray.from_arrays(pa.array(raised.start.astype(np.int32)), raised.ids.array().cast(pa.string())),
        pa.array(raised.score, pa.float64(), from_pandas=True),
        pa.array(raised.distance, pa.float64(), from_pandas=True),
    ]
    return _by_time(pa.table(columns, FLAT))


def _digits(raised: Raised, ids: pa.Array) -> NDArray[np.uint8]:
    """The ids of notifications in hexadecimal, from those of their subscriptions."""
    hashes = text_hashes(*text_buffers(ids)[:2])
    found: NDArray[np.uint8] = notification_ids(np.arange(len(raised) + 1), hashes, raised.digest, raised.moment)
    return found


def raised_ids(raised: Raised, catalogue: Catalogue, numbers: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The ids of the notifications of ``raised_flat``, in the order in which they were raised: 16 bytes each."""
    digits = _digits(raised, catalogue.texts("id", numbers))
    texts = digits.tobytes().decode()
    return np.frombuffer(bytes.fromhex(texts), np.uint8).reshape(-1, 16)


def _raised_listed(raised: Raised, catalogue: Catalogue) -> list[Notification]:
    """The notifications of ``raised_flat`` as objects, without a table, in the order in which they were raised."""
    n, made = len(raised), Notification._make
    digits = notification_ids(np.arange(n + 1), catalogue.hashes[raised.owner], raised.digest, raised.moment)
    text, names = str(digits, "ascii"), catalogue.names(raised.owner.astype(np.int32))
    ids, ends = raised.ids.listed(), raised.start.tolist()
    whens = raised.moment.tolist()
    times = {when: moment(when) for when in set(whens)}
    scores, distances = raised.score.tolist(), raised.distance.tolist()
    return [
        made(
            (
                text[32 * k : 32 * k + 32], name[0], name[1], times[whens[k]], tuple(ids[ends[k] : ends[k + 1]]),
                None if (score := scores[k]) != score else score,
                None if (distance := distances[k]) != distance else distance,
            )
        )
        for k, name in enumerate(names)
    ]  # fmt: skip


def raised_grouped(
    raised: Raised, catalogue: Catalogue, numbers: NDArray[np.int32], as_dictionary: bool = False
) -> pa.Table:
    """What patterns raised, a row per moment and publication that raised something, with the subscriptions' ids."""
    schema = GROUPED_AS_DICTIONARY if as_dictionary else GROUPED
    if not len(raised):
        return schema.empty_table()
    order = np.lexsort((*raised.raised_hash.T, raised.moment))
    moment, cause = raised.moment[order], raised.raised_hash[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (moment[1:] != moment[:-1]) | (cause[1:] != cause[:-1]).any(axis=1)
    starts = np.append(np.flatnonzero(is_first), len(order))
    rows = pa.array(order[starts[:-1]])
    lists = pa.LargeListArray.from_arrays(pa.array(starts), _ids(catalogue, numbers[order], as_dictionary))
    times = pa.array(moment[starts[:-1]], _INSTANT)
    return pa.table([raised.raised.array().take(rows), times, lists], GROUPED.names).cast(schema)


# --- both -----------------------------------------------------------------------------------------------------------
# Here the owners in ``Raised`` are numbers of the catalogue.


def with_raised(found: list[Notification], raised: Iterable[Raised], catalogue: Catalogue) -> list[Notification]:
    """These notifications and those that patterns raised, by time and subscription id."""
    for part in raised:
        found += _raised_listed(part, catalogue)
    found.sort(key=_BY_TIME)
    return found


def flat_with_raised(plain: pa.Table, raised: Iterable[Raised], catalogue: Catalogue) -> pa.Table:
    """The notifications of ``flat`` and those that patterns raised, by time and subscription id."""
    tables = [plain, *(raised_flat(part, catalogue, part.owner.astype(np.int32)) for part in raised)]
    found = [table for table in tables if table.num_rows]
    if len(found) < 2:  # a single table is in order already
        return found[0] if found else plain
    return _by_time(pa.concat_tables(found))


def grouped_with_raised(
    plain: pa.Table, raised: Iterable[Raised], catalogue: Catalogue, as_dictionary: bool
) -> pa.Table:
    """The rows of ``grouped``, and behind them those that patterns raised."""
    more = [raised_grouped(part, catalogue, part.owner.astype(np.int32), as_dictionary) for part in raised]
    return pa.concat_tables([plain, *more]) if more else plain
