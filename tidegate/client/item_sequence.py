"""Which items of a queue the caller is given: each number once and in order, whatever connections bring.

``ItemSequence`` remembers the position behind the last item. A connection that begins anew may bring items again, which
are dropped, or come with another epoch, which is told as a gap. Does no input or output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.client.items import Gap, Item, Skipped, item_of
from tidegate.client.queue_position import QueuePosition
from tidegate.errors import AccessError, BrokerError, shown

__all__ = ["ItemSequence", "OutOfOrder"]

#: So many connections may leave out the same numbers before they are told as a gap.
_PATIENCE = 3


class OutOfOrder(BrokerError):
    """A connection left out numbers; another one may bring them."""


class ItemSequence:
    """The items of a queue after a position; without one, after what is acknowledged at the first connection."""

    def __init__(self, after: QueuePosition | None) -> None:
        self.position = after
        self._epoch, self._oldest = "", 1
        self._begins_anew: str | None = None
        self._left_out = 0

    def begin(self, hello: Mapping[str, Any]) -> None:
        """A connection begins, with what its first message says."""
        try:
            self._epoch, last, acked = str(hello["epoch"]), int(hello["last"]), int(hello["acked"])
            self._oldest = int(hello["oldest"])
        except (KeyError, TypeError, ValueError):
            raise BrokerError("a hello with epoch, acked, last and oldest", shown(dict(hello))) from None
        if not self._epoch:
            raise AccessError("a token with the role subscriber", "one without, which has no queue")
        known, self._begins_anew = self.position, None
        if known is None:
            self.position = QueuePosition(acked, self._epoch)
        elif known.epoch not in (None, self._epoch):
            self._begins_anew = "epoch"
        elif known.number > last:
            self._begins_anew = "beyond"
        else:
            self.position = QueuePosition(known.number, self._epoch)

    @property
    def epoch(self) -> str:
        """The epoch of the connection."""
        return self._epoch

    def take(self, message: Mapping[str, Any]) -> list[Item]:
        """The items that a message brings: none if the caller has them."""
        item, told = item_of(message, self._epoch), list[Item]()
        if self._begins_anew is not None:
            told = self._told_anew(item, self._begins_anew)
            if item in told:
                return told
        assert self.position is not None
        number = self.position.number
        if item.number <= number:
            return told
        if item.first > number + 1 and not isinstance(item, Gap):
            told += self._missing(number + 1, item.first - 1)
        elif isinstance(item, Skipped) and item.first <= number:
            item = replace(item, since=number + 1)
        self._go_on(item.number)
        return [*told, item]

    def _told_anew(self, item: Item, reason: str) -> list[Item]:
        """The gap before the first item of another queue: the one that the broker tells, or one made here."""
        found = item if isinstance(item, Gap) else self._gap(1, item.first - 1, reason)
        self._begins_anew = None
        self._go_on(found.number)
        return [found]

    def _missing(self, first: int, last: int) -> list[Item]:
        self._left_out += 1
        if self._left_out < _PATIENCE:
            raise OutOfOrder(f"number {first:,} of a queue", f"{last + 1:,}")
        return [self._gap(first, last, "missing")]

    def _gap(self, first: int, last: int, reason: str) -> Gap:
        return Gap(epoch=self._epoch, number=last, since=first, oldest=self._oldest, reason=reason)

    def _go_on(self, number: int) -> None:
        self.position, self._left_out = QueuePosition(number, self._epoch), 0
