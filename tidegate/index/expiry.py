"""Publications that had expired when they were taken: their ``valid_until`` was not after that moment.

The select step judges by the stamp of the source, so that a batch that is run again is judged alike. Knows nothing of
subscriptions, nor of what becomes of such publications.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.index.batch import Batch
from tidegate.index.dated_ahead import NO_STAMP

__all__ = ["had_expired"]


def had_expired(batch: Batch, taken: NDArray[np.int64] | None) -> NDArray[np.bool_] | None:
    """Which publications had expired when they were taken, in microseconds since 1970; None if none had."""
    ends = None if taken is None else batch.until()
    if ends is None or taken is None:
        return None
    found: NDArray[np.bool_] = (ends <= taken) & (taken != NO_STAMP)
    return found if found.any() else None
