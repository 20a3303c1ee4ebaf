"""References: what matched, as rows of the log and numbers of subscriptions, for sinks that keep no text.

A worker half whose ``form`` is ``references`` reads them of the notifications that it takes. ``SelectedBatch`` gives
``MatchReferences`` and ``RaisedBatch`` gives ``RaisedReferences``. A subscription is named by its ``since``, the
version that made it, which no other subscription of the registry has. Knows nothing of where they go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.patterns.raised import PublicationIds

__all__ = ["MatchReferences", "RaisedReferences"]


class MatchReferences(NamedTuple):
    """Publications that matched subscriptions without a pattern, an element for each match.

    They are in the order of the publications, in which the rows grow; those of one publication are in no particular
    order.
    """

    publication: NDArray[np.int64]
    """The place of the publication in the batch."""
    row: NDArray[np.int64]
    """The row of the publication in the log; −1 where the source is no log."""
    since: NDArray[np.int64]
    contents: Callable[[NDArray[np.int64]], list[dict[str, Any]]]
    """What the publications at these places of the batch say, as dicts."""


class RaisedReferences(NamedTuple):
    """Notifications of patterns, an element for each.

    They are in the order in which they were raised: family by family, and those of one subscription in order of time.
    """

    since: NDArray[np.int64]
    row: NDArray[np.int64]
    """The row of the publication that caused it, which it need not name; −1 where the clock did, or where the source is
    no log.
    """
    moment: NDArray[np.int64]
    """The notification's time, in microseconds since 1970."""
    score: NDArray[np.float64]
    """NaN where there is none; the same for ``distance``."""
    distance: NDArray[np.float64]
    start: NDArray[np.int64]
    """The publications of i are ``start[i]`` to ``start[i + 1]`` of ``rows`` and ``ids``, as the notification names
    them: in order, and twice where one passed two filters.
    """
    rows: NDArray[np.int64]
    """Their rows in the log; −1 where the source is no log, or where the publication came before rows were kept."""
    ids: PublicationIds
    id: NDArray[np.uint8]
    """The notification's id: 16 bytes, of which its text has the hexadecimal digits."""
