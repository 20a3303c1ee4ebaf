"""Whether batches of a checkpoint were ever begun: then what Spark wrote down about them must still be there.

Without it Spark would begin with batch 0 again, cut batches elsewhere, and sinks would take those whose numbers they
know for done. ``Flow`` notes the first batch before any sink has it, and checks before Spark starts.
"""

from __future__ import annotations

from tidegate import checked_json
from tidegate.errors import StoreError
from tidegate.store.storage import storage_at

__all__ = ["check_offsets", "note_batch"]

_FILE = "batches.json"
_FORMAT = 1


def note_batch(checkpoint: str, batch: int) -> None:
    """Note that a batch has begun, if none has before."""
    storage = storage_at(checkpoint)
    if storage.read(_FILE) is None:
        storage.write(_FILE, checked_json.packed({"format": _FORMAT, "first": batch}))


def check_offsets(checkpoint: str) -> None:
    """A ``StoreError`` if batches were begun and Spark's list of what they contain is gone."""
    offsets = f"{checkpoint}/spark/offsets"
    if storage_at(checkpoint).read(_FILE) is not None and not storage_at(offsets).names():
        raise StoreError(
            "what Spark has written down about batches, or a new checkpoint with new sinks", "none", offsets
        )
