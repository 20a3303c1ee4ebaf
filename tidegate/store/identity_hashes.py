"""Hashes of identities: what ``Identities`` knows publications by, from the columns of batches or from objects.

The key is of the data directory, so that nobody can aim at the hash of another's publication. Knows no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.index.batch import text_buffers
from tidegate.kernels.keyed_hash import hash_all, hash_one
from tidegate.model import PHASES, Publication

__all__ = ["Hashes", "IdentityHashes", "identity"]

#: Two words for each identity.
Hashes: TypeAlias = NDArray[np.uint64]

_PHASES = (None, *PHASES)
_NUMBERS = {phase: bytes([number]) for number, phase in enumerate(_PHASES)}
#: Rows of a batch that are read one by one: that takes less than to look at columns.
_FEW = 2
_TEXTS = pa.array(PHASES)


def identity(source: str, id: str, phase: str | None) -> bytes:
    """The bytes that a publication is hashed by."""
    name = source.encode()
    return _NUMBERS[phase] + len(name).to_bytes(4, "little") + name + id.encode()


class IdentityHashes:
    """Hashes under a key."""

    def __init__(self, key: tuple[int, int]) -> None:
        self._key = np.array(key, np.uint64)

    def of(self, batch: pa.RecordBatch) -> Hashes:
        """Of the publications of a batch, as they lie in the log."""
        if batch.num_rows <= _FEW and batch.schema.get_field_index("phase") < 0:
            pairs = zip(batch.column("source"), batch.column("id"), strict=True)
            return self._of_each([identity(source.as_py(), id.as_py(), None) for source, id in pairs])
        return self._hashed(batch.column("source"), batch.column("id"), _phases(batch))

    def of_objects(self, publications: Sequence[Publication]) -> Hashes:
        """The same, faster for a few."""
        return self._of_each([identity(each.source, each.id, each.phase) for each in publications])

    def _of_each(self, identities: Sequence[bytes]) -> Hashes:
        found = np.empty((len(identities), 2), np.uint64)
        for i, data in enumerate(identities):
            hash_one(self._key, data, found[i:])
        return found

    def of_all_phases(self, sources: pa.Array, ids: pa.Array) -> Hashes:
        """Of some sources and ids in every phase, those of one pair behind each other."""
        count = len(_PHASES)
        each = pa.array(np.repeat(np.arange(len(ids)), count))
        phases = np.tile(np.arange(count, dtype=np.uint8), len(ids))
        return self._hashed(sources.take(each), ids.take(each), phases)

    def _hashed(self, sources: pa.Array, ids: pa.Array, phases: NDArray[np.uint8]) -> Hashes:
        found = np.empty((len(ids), 2), np.uint64)
        hash_all(self._key, text_buffers(sources)[:2], text_buffers(ids)[:2], phases, found)
        return found


def _phases(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    place = batch.schema.get_field_index("phase")
    if place < 0:
        return np.zeros(batch.num_rows, np.uint8)
    found = pc.index_in(batch.column(place).cast(pa.string()), _TEXTS)
    return np.array(pc.add(found, 1).fill_null(0).cast(pa.uint8()))
