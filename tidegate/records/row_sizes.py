"""About how many bytes rows of Arrow columns take as JSON, found without copying what they say.

Whoever is to show many rows finds out with ``row_sizes`` how many of them are enough, before they become objects. Texts
and lists count as they are, any other value as much as most take. Knows nothing of pages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["row_frame", "row_sizes"]

#: Bytes of a value that is neither text nor list, and of what stands around a value beside its name.
_VALUE, _AROUND = 12, 4

#: Types of columns whose values all take as much; the id of a type is quicker to compare than the type.
_FIXED = frozenset(kind.id for kind in (pa.float64(), pa.int64(), pa.bool_(), pa.timestamp("us", "UTC")))

_Sizes = NDArray[np.int64]


def row_sizes(content: pa.RecordBatch | pa.Table, rows: NDArray[np.int64]) -> _Sizes:
    """The bytes of each of some rows, of which there is at least one."""
    first, last = int(rows.min()), int(rows.max())
    part = content.slice(first, last - first + 1)
    batches = part.to_batches() if isinstance(part, pa.Table) else [part]
    found: _Sizes = np.concatenate([_batch_sizes(batch) for batch in batches])[rows - first]
    return found


def row_frame(names: Sequence[str]) -> int:
    """The bytes of a row without its values: the names of its columns, and what stands around each."""
    return sum(map(len, names)) + len(names) * _AROUND


def _batch_sizes(batch: pa.RecordBatch) -> _Sizes:
    found, fixed = np.zeros(batch.num_rows, np.int64), 0
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if array.type.id in _FIXED and not array.null_count:  # most columns: no array is made for them
            fixed += _VALUE + len(name) + _AROUND
            continue
        sizes = _value_sizes(array) + (len(name) + _AROUND)
        found += sizes if not array.null_count else np.where(np.asarray(array.is_valid()), sizes, 0)
    return found + fixed


def _value_sizes(array: pa.Array) -> _Sizes:
    """Of each value; of what is null anything."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if len(array) == 1:
            return np.array([array.nbytes])
        lengths = pc.fill_null(pc.binary_length(array), 0)
        return np.asarray(lengths).astype(np.int64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = np.asarray(array.offsets).astype(np.int64)
        values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        ends = np.concatenate([[0], np.cumsum(_value_sizes(values) + _AROUND)])
        found: _Sizes = np.diff(ends[offsets - offsets[0]])
        return found
    return np.full(len(array), _VALUE)
