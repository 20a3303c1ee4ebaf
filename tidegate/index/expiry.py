"""Publications that had expired when they were taken: their ``valid_until`` was not after that moment.

The select step judges by the stamp of the source, so that a batch that is run again is judged alike. Knows nothing of
subscriptions, nor of what becomes of such publications.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.index.batch import ArrowBatch
from tidegate.index.dated_ahead import NO_STAMP

__all__ = ["had_expired"]

_NEVER = np.iinfo(np.int64).max


def had_expired(batch: ArrowBatch, taken: NDArray[np.int64] | None) -> NDArray[np.bool_] | None:
    """Which publications had expired when they were taken, in microseconds since 1970; None if none had."""
    until = batch.arrays.get("valid_until")
    if taken is None or until is None or until.null_count == len(until):
        return None
    ends = np.asarray(until.cast(pa.int64()).fill_null(_NEVER))
    found: NDArray[np.bool_] = (ends <= taken) & (taken != NO_STAMP)
    return found if found.any() else None
