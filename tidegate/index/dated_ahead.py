"""Publications that are dated too far ahead: later, by more than is allowed, than the moment at which they were taken.

A single one with a wrong clock would move the clock of the patterns to its time and make all others late. The engine
judges by the clock that it was given, the pipeline by the stamp of the source, so that a batch that is run again is
judged alike. Knows neither of them.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.errors import PublicationError, shown
from tidegate.index.batch import Batch
from tidegate.model import moment

__all__ = ["NO_STAMP", "is_dated_ahead", "why_refused"]

#: Stands for the moment at which a publication was taken where that is not known: it is never dated ahead.
NO_STAMP = 2**62


def is_dated_ahead(batch: Batch, taken: int | NDArray[np.int64], ahead: int) -> NDArray[np.bool_] | None:
    """Which publications are dated more than ``ahead`` after they were taken; None if none is. All in microseconds."""
    if not batch.length or batch.time_range()[1] - ahead <= np.min(taken):
        return None
    found: NDArray[np.bool_] = batch.times() - ahead > taken
    return found if found.any() else None


def why_refused(batch: Batch, rows: NDArray[np.int64], taken: NDArray[np.int64], ahead: int) -> list[PublicationError]:
    """What is wrong with these publications, which are dated ahead of the moments at which they were taken."""
    seconds, wanted = timedelta(microseconds=ahead).total_seconds(), pa.array(rows)
    names = zip(*(texts.take(wanted).to_pylist() for texts in (batch.ids(), batch.sources())), strict=True)
    return [
        PublicationError(
            f"a time at most {seconds:g} seconds after {moment(stamp).isoformat()}, when it was taken",
            moment(time).isoformat(),
            f"publication {shown(id)} of source {shown(source)}",
        )
        for (id, source), time, stamp in zip(names, batch.times()[rows].tolist(), taken[rows].tolist(), strict=True)
    ]
