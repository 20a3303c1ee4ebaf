"""A row that was left out, and why: what is kept of publications that cannot be taken when the rest goes on.

Knows nothing of where the row came from; who counts rows says which row 0 is.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["QuarantinedRow", "RejectedRow"]


class RejectedRow(NamedTuple):
    """The number of a row in what was given, from 0, and the sentence that a ``PublicationError`` says of it."""

    row: int
    reason: str


class QuarantinedRow(NamedTuple):
    """What was no publication, as it is kept for whoever wants to mend it: why, and the row itself as text."""

    reason: str
    row: str
