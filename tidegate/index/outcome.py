"""What a match comes to: tables of notifications, flat or grouped, from owners per publication.

The engine and the pipeline on Spark end here alike. Knows nothing of how the owners were found.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.index.batch import Batch, text_buffers
from tidegate.index.catalogue import Catalogue
from tidegate.index.index import Matches
from tidegate.kernels.gather import notification_ids, text_hashes
from tidegate.model import FLAT, GROUPED

__all__ = ["flat", "grouped"]

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


def flat(batch: Batch, matches: Matches, catalogue: Catalogue) -> pa.Table:
    """A row per notification, ordered by time and subscription id."""
    start, owners = matches
    rows = np.repeat(np.arange(batch.length), np.diff(start))
    ids = catalogue.texts("id", owners)
    times = batch.times()
    hashes = [text_hashes(*text_buffers(texts)[:2]) for texts in (ids, batch.keys())]
    digits = notification_ids(start, hashes[0], hashes[1], times)
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
    return pa.table(columns, FLAT).sort_by([("time", "ascending"), ("subscription_id", "ascending")])
