"""Which refusals the audit writes whole: the first few of each address or principal in an interval; the rest it counts.

Somebody without a token can ask as often as they like, so neither the lines of an interval nor the addresses that are
remembered may depend on how often that is. Knows no log and no clock.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from contextlib import suppress

__all__ = ["OTHERS", "RefusalCounts", "network_of"]

#: Stands for all names beyond those that are remembered; no principal and no address is called so.
OTHERS = "all others"


def network_of(address: str) -> str:
    """What one person has: an address, and of IPv6 a network of 64 bits. A socket of both calls 192.0.2.1
    ::ffff:192.0.2.1.
    """
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        if isinstance(found, ipaddress.IPv6Address):
            if found.ipv4_mapped is not None:
                return str(found.ipv4_mapped)
            return str(ipaddress.ip_network((found, 64), strict=False))
    return address


class RefusalCounts:
    """Counts refusals of an interval by name: ``lines`` of each name are written, of ``names`` names."""

    def __init__(self, lines: int, names: int) -> None:
        self._lines, self._names = lines, names
        self._counts = Counter[str]()

    def is_written(self, name: str) -> bool:
        """Count one more of a name; whether it gets a line of its own."""
        if name not in self._counts and len(self._counts) >= self._names:
            name = OTHERS
        self._counts[name] += 1
        return name != OTHERS and self._counts[name] <= self._lines

    def end(self) -> list[tuple[str, int]]:
        """End the interval: how many of each name were not written."""
        found = [(name, count - (0 if name == OTHERS else self._lines)) for name, count in self._counts.items()]
        self._counts.clear()
        return [(name, count) for name, count in found if count > 0]
