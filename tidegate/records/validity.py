"""Until when publications are valid, as numbers: of a batch as it lies in the log, and of objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.model import Publication, micros

__all__ = ["valid_until_of", "valid_until_of_objects"]

_NEVER = np.zeros(0, np.int64)


def valid_until_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """For each publication µs since 1970, 0 if it does not say; an empty array where none does."""
    place = batch.schema.get_field_index("valid_until")
    return _NEVER if place < 0 else np.asarray(batch.column(place).cast(pa.int64()).fill_null(0))


def valid_until_of_objects(publications: Sequence[Publication]) -> NDArray[np.int64]:
    """The same of objects."""
    times = [publication.valid_until for publication in publications]
    if not any(times):
        return _NEVER
    return np.array([0 if time is None else micros(time) for time in times], np.int64)
