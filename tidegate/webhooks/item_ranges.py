"""Items as ranges of numbers: what is ``skipped`` and a ``gap`` tell of several deliveries, all other items of one."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from tidegate.broker.encoded_items import EncodedItem

__all__ = ["first_number", "is_range", "upto_number"]

#: By the type of an item, which tells of several deliveries, the member with the number of the last.
_LAST = {"skipped": "number", "gap": "to"}


def is_range(item: EncodedItem) -> bool:
    """Whether an item tells of as many deliveries as it says, and not of one."""
    return item.type in _LAST


def first_number(item: EncodedItem) -> int:
    """The first number of which an item tells."""
    return int(orjson.loads(item.body)["from"]) if is_range(item) else item.number


def upto_number(items: Iterable[EncodedItem], upto: int) -> list[EncodedItem]:
    """The items that tell of numbers up to one, and of none behind it."""
    found = []
    for item in items:
        if item.number > upto:
            if is_range(item) and first_number(item) <= upto:
                body = orjson.loads(item.body) | {_LAST[item.type]: upto}
                found.append(EncodedItem(item.type, upto, orjson.dumps(body)))
            break
        found.append(item)
    return found
