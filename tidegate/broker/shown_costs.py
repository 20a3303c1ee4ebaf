"""The subscriptions and principals that cost most, for whoever shows how a broker stands: as JSON and as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.errors import shown
from tidegate.model import moment
from tidegate.store.costs import Costs

__all__ = ["cost_lines", "costs_shown"]

#: Subscriptions and principals that are shown, the dearest first.
_DEAREST = 10


def costs_shown(costs: Costs) -> dict[str, Any]:
    """The dearest ones, as far as they were measured."""
    return {
        "subscriptions": [
            {
                "principal": one.principal,
                "id": one.id,
                "microseconds": one.microseconds,
                "measured_at": moment(one.measured_at).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            }
            for one in costs.dearest(_DEAREST)
        ],
        "principals": [
            {"principal": one.principal, "microseconds": one.microseconds, "subscriptions": one.subscriptions}
            for one in costs.dearest_principals(_DEAREST)
        ],
    }


def cost_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """The same in lines for people."""
    for one in facts["principals"]:
        many = "subscription" if one["subscriptions"] == 1 else "subscriptions"
        its = f"{one['principal']}, {one['subscriptions']:,} {many}"
        yield f"cost       {one['microseconds']:,.3f} µs a publication: {its}"
    for one in facts["subscriptions"]:
        its = shown(f"{one['principal']}/{one['id']}")  # an id may hold anything, also what ends a line
        yield f"           {one['microseconds']:,.3f} µs a publication: {its}"
