"""The audit: one line of JSON for each administrative change, each change of a webhook and each refused access, on the
logger ``tidegate.audit``.

A line says who (principal and the id of the token, never a secret), from where, what, and what came of it. Refusals
that come faster than can be of use to anybody are counted by address or principal; a line at the end of each interval
says how many were left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from tidegate.errors import TidegateError
from tidegate.gateway.counts import Counts
from tidegate.gateway.problems import status_of
from tidegate.gateway.refusal_counts import OTHERS, RefusalCounts, network_of

__all__ = ["Audit", "is_refused_access"]

_LOG = logging.getLogger("tidegate.audit")
#: Seconds of an interval.
_INTERVAL = 60.0
#: Lines of an interval of each address from which somebody comes without a valid token, and of how many addresses.
_LINES_OF_ADDRESS, _ADDRESSES = 5, 200
#: Lines of an interval of each principal: these are accountable, and few enough to have all that people look at.
_LINES_OF_PRINCIPAL, _PRINCIPALS = 3000, 100_000
_REFUSED = "access_refused"


def is_refused_access(error: TidegateError) -> bool:
    """Whether an error says that somebody may not do what they asked for; one who asks too much is none."""
    return status_of(error) == 403 and error.code != "quota"


class Audit:
    """Writes the lines of one gateway. Called in its event loop; ``tick`` now and then, ``close`` at the end."""

    def __init__(self, clock: Callable[[], float] = monotonic, counts: Counts | None = None) -> None:
        self._clock, self._counts = clock, Counts() if counts is None else counts
        self._unknown = RefusalCounts(_LINES_OF_ADDRESS, _ADDRESSES)
        self._principals = RefusalCounts(_LINES_OF_PRINCIPAL, _PRINCIPALS)
        self._until: float | None = None
        """When the interval ends; none has begun while nobody was refused."""

    def changed(self, what: str, *, principal: str, token: str, address: str, **facts: Any) -> None:
        """Somebody has changed something: it is done."""
        _write(logging.INFO, what, "done", principal=principal, token=token, address=address, **facts)

    def refused(
        self, what: str, why: str, *, principal: str | None = None, token: str | None = None, address: str, **facts: Any
    ) -> None:
        """Somebody was refused what they asked for; ``principal`` is None where it is not known who."""
        self.tick()
        if self._until is None:
            self._until = self._clock() + _INTERVAL
        if principal is None:
            is_written = self._unknown.is_written(network_of(address))
        else:
            is_written = self._principals.is_written(principal)
        self._counts.add(_REFUSED, "written" if is_written else "left_out")
        if is_written:
            who = {"principal": principal, "token": token, "address": address}
            _write(logging.WARNING, what, "refused", **who, reason=why, **facts)

    def tick(self) -> None:
        """Say what was left out, if the interval is over."""
        if self._until is not None and self._clock() >= self._until:
            self.close()

    def close(self) -> None:
        """Say what was left out until now."""
        self._until = None
        for network, count in self._unknown.end():
            _write_left_out(count, address="other addresses" if network == OTHERS else network)
        for principal, count in self._principals.end():
            _write_left_out(count, principal=principal)


def _write_left_out(count: int, **whose: str) -> None:
    _write(logging.WARNING, "refusals", "left out", **whose, count=count)


def _write(level: int, what: str, result: str, **facts: Any) -> None:
    at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    line = {
        "at": at,
        "what": what,
        "result": result,
        **{name: fact for name, fact in facts.items() if fact is not None},
    }
    _LOG.log(level, "%s", json.dumps(line, default=str, separators=(",", ":")))  # whatever whole numbers there are
