"""The audit: one line of JSON for each administrative change and each refused access, on the logger ``tidegate.audit``.

A line says who (principal and the id of the token, never a secret), from where, what, and what came of it. Refusals
that come faster than can be of use to anybody are counted, and the next line says how many were left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from tidegate.errors import TidegateError
from tidegate.gateway.problems import status_of
from tidegate.gateway.rates import Rates

__all__ = ["Audit", "is_refused_access"]

_LOG = logging.getLogger("tidegate.audit")
#: Lines of refused accesses that are written in a second.
_LINES_PER_SECOND = 50.0


def is_refused_access(error: TidegateError) -> bool:
    """Whether an error says that somebody may not do what they asked for; one who asks too much is none."""
    return status_of(error) == 403 and error.code != "quota"


class Audit:
    """Writes the lines of one gateway. Called in its event loop."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._lines, self._left_out = Rates(clock), 0

    def changed(self, what: str, *, principal: str, token: str, address: str, **facts: Any) -> None:
        """An administrator has changed something: it is done."""
        _write(logging.INFO, what, "done", principal=principal, token=token, address=address, **facts)

    def refused(
        self, what: str, why: str, *, principal: str | None = None, token: str | None = None, address: str, **facts: Any
    ) -> None:
        """Somebody was refused what they asked for; ``principal`` is None where it is not known who."""
        if self._lines.take("refused", _LINES_PER_SECOND) > 0:
            self._left_out += 1
            return
        if self._left_out:
            facts["left_out_before"], self._left_out = self._left_out, 0
        _write(logging.WARNING, what, "refused", principal=principal, token=token, address=address, reason=why, **facts)


def _write(level: int, what: str, result: str, **facts: Any) -> None:
    at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    line = {
        "at": at,
        "what": what,
        "result": result,
        **{name: fact for name, fact in facts.items() if fact is not None},
    }
    _LOG.log(level, "%s", json.dumps(line, default=str, separators=(",", ":")))  # whatever whole numbers there are
