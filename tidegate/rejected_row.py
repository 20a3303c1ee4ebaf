"""A row that was left out, and why: what is kept of publications that cannot be taken when the rest goes on.

``records`` and the batches of the index make ``RejectedRow``, runs keep them as ``QuarantinedRow``. Knows nothing of
where the row came from: the caller that counts the rows decides which is row 0.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["QuarantinedRow", "RejectedRow"]


class RejectedRow(NamedTuple):
    """The number of a row in what was given, from 0, and the sentence that a ``PublicationError`` says of it."""

    row: int
    reason: str


class QuarantinedRow(NamedTuple):
    """A row that was no publication, kept so that a person can mend it: why, and the row itself as text."""

    reason: str
    row: str
