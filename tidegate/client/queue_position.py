"""``QueuePosition``: behind which item of a queue somebody goes on to read."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.client.items import Item
from tidegate.errors import SettingError, shown

__all__ = ["QueuePosition"]


class QueuePosition(NamedTuple):
    """A number, and the epoch that it is of where that is known."""

    number: int
    epoch: str | None = None

    def __str__(self) -> str:
        return str(self.number) if self.epoch is None else f"{self.epoch}-{self.number}"

    @staticmethod
    def of(after: str | int | Item) -> QueuePosition:
        """The position behind an item, or that a number or a text ``N`` or ``epoch-N`` says."""
        text = after.position if not isinstance(after, str | int) else str(after)
        epoch, dash, digits = text.rpartition("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19) or (dash and not epoch):
            raise SettingError("an item, a number, or an epoch, a dash and a number", shown(after), "after")
        return QueuePosition(int(digits), epoch or None)
